//! `fb ls URL/`: lists a directory on a server or on this machine.

use std::path::Path;
use std::time::UNIX_EPOCH;

use femtobarn::Error;
use femtobarn::io::{RemoteEntry, Settings, is_remote, list_folder, local_path, public};
use serde_json::{Value, json};

use crate::failure::{Failure, code};
use crate::layout;
use crate::output::Output;
use crate::table::Table;
use crate::units;

pub fn run(url: &str, out: &mut Output<'_>) -> Result<i32, Failure> {
    let entries = list_folder(url, &settings(url)?).map_err(Error::from)?;
    print(url, &entries, out)
}

/// For listings, a warning about missing entries is better than an error.
fn settings(url: &str) -> Result<Settings, Failure> {
    let given = [("partial_lists".to_owned(), "true".to_owned())];
    Ok(Settings::new(url, given.into()).map_err(Error::from)?)
}

/// Lists a directory on a server whose URL lacks the slash; none if it is not a directory, or is empty.
pub fn run_without_slash(url: &str, out: &mut Output<'_>) -> Option<Result<i32, Failure>> {
    if !is_remote(url) {
        return None;
    }
    let (path, query) = url.split_at(url.find('?').unwrap_or(url.len()));
    let url = format!("{path}/{query}");
    let entries = list_folder(&url, &settings(&url).ok()?).ok()?;
    (!entries.is_empty()).then(|| print(&url, &entries, out))
}

/// Lists a local directory; none if it is something else.
pub fn run_local(path: &str, out: &mut Output<'_>) -> Option<Result<i32, Failure>> {
    let folder = local_path(path);
    let folder = Path::new(&*folder);
    if is_remote(path) || !folder.is_dir() {
        return None;
    }
    let listed = entries_of(folder).map_err(|error| {
        let message = format!("{path}: {error}");
        Failure::new(code::NOT_THERE, "read-failed", message)
    });
    Some(listed.and_then(|entries| print(path, &entries, out)))
}

fn entries_of(folder: &Path) -> std::io::Result<Vec<RemoteEntry>> {
    let mut entries = Vec::new();
    for entry in folder.read_dir()? {
        let entry = entry?;
        // for a link, use its target; keep a link without target
        let about = std::fs::metadata(entry.path()).or_else(|_| entry.metadata())?;
        entries.push(RemoteEntry {
            name: entry.file_name().to_string_lossy().into_owned(),
            is_folder: about.is_dir(),
            size: Some(about.len()),
            modified: about.modified().ok(),
        });
    }
    entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    Ok(entries)
}

fn print(url: &str, entries: &[RemoteEntry], out: &mut Output<'_>) -> Result<i32, Failure> {
    if out.is_json {
        let entries: Vec<Value> = entries.iter().map(entry_json).collect();
        out.json(&json!({"folder": public(url), "entries": entries}))?;
        return Ok(code::FINE);
    }
    let mut table = Table::new(&["name", "size"], &[1], &[0]);
    for entry in entries {
        let (slash, size) = match entry.is_folder {
            true => ("/", String::new()),
            false => ("", entry.size.map_or(String::new(), units::bytes)),
        };
        table.push(vec![format!("{}{slash}", entry.name), size]);
    }
    if !table.is_empty() {
        table.write(layout::width(), out)?;
    }
    Ok(code::FINE)
}

fn entry_json(entry: &RemoteEntry) -> Value {
    let modified = entry
        .modified
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    json!({
        "name": entry.name,
        "is_folder": entry.is_folder,
        "bytes": entry.size.filter(|_| !entry.is_folder),
        "modified": modified.map(|since| since.as_secs()),
    })
}
