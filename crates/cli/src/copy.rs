//! `fb cp`: copies files byte for byte between any storage.

use std::collections::HashMap;
use std::io::Write;
use std::time::Instant;

use femtobarn::io::{is_remote, local_path, public};
use femtobarn::{Copied, CopyOptions, Error, copy, destination};
use serde_json::json;

use crate::args::CopyArgs;
use crate::failure::{Failure, code};
use crate::output::Output;
use crate::outputs::{Named, Position};
use crate::progress::{Show, end_gently};
use crate::table::printable;
use crate::units;
use femtobarn::Target;

pub fn run(args: &CopyArgs, out: &mut Output<'_>, err: &mut Output<'_>) -> Result<i32, Failure> {
    let named = Named::new(&args.names, args.output.as_deref(), Position::Last)?;
    let place = &*named.output;
    let mut files = Vec::new();
    for source in named.inputs {
        files.extend(Target::find(source, None)?);
    }
    make_folder(place)?;
    let is_folder = destination("x", place) != place;
    if files.len() > 1 && !is_folder {
        let message = format!(
            "cannot copy {} files to {}: not a directory; end a directory's URL with a slash",
            files.len(),
            public(place)
        );
        return Err(Failure::new(code::USAGE, "usage", message));
    }
    check_apart(&files, place)?;
    end_gently();
    let show = Show::new(files.len(), out.is_json);
    let options = CopyOptions {
        overwrite: args.force,
        verify: args.verify,
        ..CopyOptions::default()
    };
    let mut worst = code::FINE;
    for target in &files {
        let from = &target.whole();
        let (to, start) = (destination(from, place), Instant::now());
        let tick = |done, total| show.tick_share(&public(from), done, total);
        let copied = copy(from, &to, &options, &tick);
        show.end();
        let copied = match copied.map_err(|error| failed(target, error)) {
            Ok(copied) => copied,
            Err(failure) if files.len() == 1 || failure.code == code::INTERRUPTED => {
                return Err(failure);
            }
            Err(failure) => {
                // the other files may exist
                out.flush()?;
                failure.write(err)?;
                worst = failure.code;
                continue;
            }
        };
        if copied.differs_at.is_some() && worst == code::FINE {
            worst = code::DAMAGED;
        }
        if out.is_json {
            out.json(&document(from, &to, &copied, start.elapsed().as_secs_f64()))?;
        } else {
            writeln!(out, "{}", printable(&line(from, &to, &copied, args.verify)))?;
        }
    }
    Ok(worst)
}

/// Checks that each copy has its own name and does not overwrite a source.
fn check_apart(files: &[Target], folder: &str) -> Result<(), Failure> {
    let usage = |message: String| Err(Failure::new(code::USAGE, "usage", message));
    let mut known: HashMap<String, String> = HashMap::new();
    for target in files {
        let from = target.whole();
        let to = destination(&from, folder);
        if is_remote(&from) && from == to {
            return usage(format!("cannot copy {} onto itself", public(&from)));
        }
        if let Some(other) = known.insert(to.clone(), from.clone()) {
            return usage(format!(
                "{} and {} would both be copied to {}: use different directories",
                public(&other),
                public(&from),
                public(&to)
            ));
        }
    }
    Ok(())
}

/// Creates a local directory if the destination is named like one; servers create theirs.
fn make_folder(destination: &str) -> Result<(), Failure> {
    if is_remote(destination) || !destination.ends_with('/') {
        return Ok(());
    }
    std::fs::create_dir_all(&*local_path(destination)).map_err(|error| {
        let message = format!("cannot create directory {destination}: {error}");
        Failure::new(code::NOT_THERE, "create-failed", message)
    })
}

fn failed(target: &Target, error: Error) -> Failure {
    let failure = Failure::from(error);
    match (&target.name, &*failure.kind) {
        (Some(name), "file-not-found") => Failure {
            next: Some(format!(
                "only whole files can be copied: leave out \":{name}\""
            )),
            ..failure
        },
        _ => failure,
    }
}

fn line(from: &str, to: &str, copied: &Copied, verified: bool) -> String {
    let [from, to] = [from, to].map(public);
    let size = units::bytes(copied.n_bytes);
    match copied.differs_at {
        Some(at) => {
            format!("{to} differs from {from}, first within 16 MiB from byte {at}")
        }
        None if verified => format!("{from} -> {to}: {size}, the same in the copy"),
        None => match &copied.checksum {
            Some(kind) => format!("{from} -> {to}: {size}, with the same {kind}"),
            None => format!("{from} -> {to}: {size}"),
        },
    }
}

fn document(from: &str, to: &str, copied: &Copied, seconds: f64) -> serde_json::Value {
    json!({
        "from": public(from),
        "to": public(to),
        "bytes": copied.n_bytes,
        "shared": copied.transferred.cloned,
        "seconds": seconds,
        "checksum": copied.checksum,
        "differs_at": copied.differs_at,
    })
}
