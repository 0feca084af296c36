//! `fb sweep`: removes temporary files and objects of killed writers.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use femtobarn::Error;
use femtobarn::io::{Settings, is_object_set, public, sweep};
use femtobarn::write::sweep_objects;
use serde_json::{Value, json};

use crate::args::SweepArgs;
use crate::failure::{Failure, code};
use crate::output::Output;
use crate::table::printable;
use crate::units;

/// The usual minimum age of objects: a day.
const AGE: f64 = 86_400.0;

pub fn run(args: &SweepArgs, out: &mut Output<'_>) -> Result<i32, Failure> {
    let (urls, folders): (Vec<&String>, Vec<&String>) = args
        .folders
        .iter()
        .partition(|folder| is_object_set(folder));
    let is_one = urls.len() + usize::from(!folders.is_empty()) == 1;
    let mut documents = Vec::new();
    let swept = sweep_all(&urls, &folders, args, &mut documents, out);
    if out.is_json {
        match (is_one, documents.first()) {
            (true, Some(only)) => out.json(only)?,
            (true, None) => {}
            // also if a later one has failed
            (false, _) => out.json(&Value::Array(documents))?,
        }
    }
    swept.map(|()| code::FINE)
}

/// Sweeps; documents are added for JSON.
fn sweep_all(
    urls: &[&String],
    folders: &[&String],
    args: &SweepArgs,
    documents: &mut Vec<Value>,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    for url in urls {
        documents.push(objects(url, args, out)?);
    }
    if folders.is_empty() {
        return Ok(());
    }
    let mut removed = Vec::new();
    for folder in folders {
        removed.extend(sweep(Path::new(folder), !args.dry_run).map_err(Error::from)?);
    }
    let names: Vec<String> = removed
        .iter()
        .map(|path| path.to_string_lossy().into_owned())
        .collect();
    documents.push(json!({"deleted": !args.dry_run, "removed": names}));
    if out.is_json {
        return Ok(());
    }
    for name in &names {
        let what = match args.dry_run {
            true => "would be removed:",
            false => "removed",
        };
        writeln!(out, "{what} {}", printable(name))?;
    }
    if names.is_empty() {
        writeln!(out, "no temporary files found")?;
    }
    Ok(())
}

/// Deletes what killed writers have left at the base of an ntuple's objects.
fn objects(url: &str, args: &SweepArgs, out: &mut Output<'_>) -> Result<Value, Failure> {
    let age = Duration::from_secs_f64(args.age.unwrap_or(AGE));
    let found = sweep_objects(url, &Settings::of(url), age, !args.dry_run)?;
    let (url, n) = (public(url), found.names.len() as u64);
    if !out.is_json {
        let what = match args.dry_run {
            true => "would be deleted",
            false => "deleted",
        };
        writeln!(
            out,
            "{}: {} ({}) {what}, {} too young, {} used",
            printable(&url),
            units::plural(n, "object"),
            units::bytes(found.bytes),
            units::count(found.young),
            units::count(found.used),
        )?;
    }
    Ok(json!({
        "url": url,
        "deleted": !args.dry_run,
        "objects": found.names,
        "bytes": found.bytes,
        "young": found.young,
        "used": found.used,
    }))
}
