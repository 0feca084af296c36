//! `fb sweep`: removes temporary files of killed writers.

use std::io::Write as _;
use std::path::Path;

use femtobarn::Error;
use femtobarn::io::sweep;
use serde_json::json;

use crate::args::SweepArgs;
use crate::failure::{Failure, code};
use crate::output::Output;
use crate::table::printable;

pub fn run(args: &SweepArgs, out: &mut Output<'_>) -> Result<i32, Failure> {
    let mut removed = Vec::new();
    for folder in &args.folders {
        removed.extend(sweep(Path::new(folder)).map_err(Error::from)?);
    }
    let names: Vec<String> = removed
        .iter()
        .map(|path| path.to_string_lossy().into_owned())
        .collect();
    if out.is_json {
        out.json(&json!({"removed": names}))?;
        return Ok(code::FINE);
    }
    for name in &names {
        writeln!(out, "removed {}", printable(name))?;
    }
    if names.is_empty() {
        writeln!(out, "no temporary files found")?;
    }
    Ok(code::FINE)
}
