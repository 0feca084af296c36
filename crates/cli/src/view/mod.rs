//! `fb view`: a page that shows a file, served by this process to browsers of this machine.
//!
//! | module | |
//! |---|---|
//! | `server` | the addresses, and who may ask |
//! | `answers` | the documents: listing, metadata, pages of a field, histograms, what was read |
//! | `page/` | the page, and uPlot 1.6.32, which draws its charts (MIT licence, LICENSE-uPlot) |

mod answers;
mod server;

use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};

use femtobarn::events::Uuid;
use femtobarn::inspect::names_folder;

use crate::args::ViewArgs;
use crate::failure::{Failure, code};
use crate::open::one_file;
use crate::options::usage;
use crate::output::Output;
use crate::progress::end_gently;
use crate::table::printable;
use answers::Viewed;

pub fn run(args: &ViewArgs, out: &mut Output<'_>) -> Result<i32, Failure> {
    let target = one_file(&args.target)?;
    if names_folder(&target.file) {
        return Err(usage("view shows a file, not a directory"));
    }
    end_gently();
    // errors about the file come before the page
    let viewed = Viewed::new(&target.file).map_err(|error| Failure::from(error).advise(&target))?;
    let token = Uuid::random().map_err(|error| {
        let message = format!("the system has no random numbers: {error}");
        Failure::new(code::NOT_THERE, "io", message)
    })?;
    let token = token.to_string();
    let refused = |error: std::io::Error| {
        let message = format!(
            "cannot listen on port {} of this machine: {error}",
            args.port
        );
        Failure::new(code::NOT_THERE, "io", message)
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port)).map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    let name = target.name.as_deref().unwrap_or_default();
    let url = server::page_url(address, &token, name);
    if out.is_json {
        out.json(&serde_json::json!({"url": url}))?;
    } else {
        writeln!(out, "{}", printable(&url))?;
    }
    out.flush()?;
    if args.browser {
        open_browser(&url);
    }
    server::serve(listener, address, token, viewed).map_err(refused)?;
    Ok(code::FINE)
}

/// Asks the desktop to open the page; where there is none, the printed URL is enough.
fn open_browser(url: &str) {
    let opener = if cfg!(target_os = "macos") {
        "open"
    } else {
        "xdg-open"
    };
    let nothing = std::process::Stdio::null;
    let mut command = std::process::Command::new(opener);
    let _ = command
        .arg(url)
        .stdin(nothing())
        .stdout(nothing())
        .stderr(nothing())
        .spawn();
}
