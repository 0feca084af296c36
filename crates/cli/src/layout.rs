//! Width of the output.

use std::fs::File;
use std::io::IsTerminal;
use std::process::{Command, Stdio};

/// Default width of tables that need one.
pub const DEFAULT_WIDTH: usize = 120;

/// The width from `COLUMNS`, or of the terminal; none if the output is not a terminal.
pub fn width() -> Option<usize> {
    let columns = std::env::var("COLUMNS").ok();
    if let Some(columns) = columns
        .and_then(|text| text.parse().ok())
        .filter(|&n| n > 0)
    {
        return Some(columns);
    }
    if !std::io::stdout().is_terminal() {
        return None;
    }
    Some(terminal_width().unwrap_or(DEFAULT_WIDTH))
}

/// Runs `stty`, which every system with terminals has: the standard library has no function for this.
fn terminal_width() -> Option<usize> {
    let terminal = File::open("/dev/tty").ok()?;
    let stty = Command::new("stty")
        .arg("size")
        .stdin(terminal)
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let columns = String::from_utf8(stty.stdout).ok()?;
    let columns = columns.split_whitespace().nth(1)?.parse().ok()?;
    (columns > 0).then_some(columns)
}
