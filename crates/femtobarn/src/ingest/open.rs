//! Opening the ntuples of a file.

use femtobarn_io::Settings;
use femtobarn_rntuple::RNTupleError;
use serde_json::Value;

use super::IngestOptions;
use crate::ntuple::NTuple;
use crate::open::{OpenOptions, look_into};
use crate::transfer::{TransferError, noted};

/// The file and the ntuple, for messages.
pub(super) fn place(ntuple: &NTuple) -> String {
    let readers = ntuple.readers().iter();
    let mut places = readers.map(|reader| format!("{}:{}", reader.url(), reader.path()));
    places.next().unwrap_or_default()
}

/// The description of an ntuple.
pub(super) fn description(ntuple: &NTuple) -> &str {
    let first = ntuple.readers().first();
    first.map_or("", |reader| reader.descriptor().description.as_str())
}

pub(super) fn open(
    path: &str,
    name: Option<&str>,
    options: &IngestOptions,
) -> Result<NTuple, RNTupleError> {
    let opening = OpenOptions {
        settings: options.settings.clone(),
        ..OpenOptions::default()
    };
    NTuple::open(&[(path.to_owned(), name.map(str::to_owned))], opening)
}

/// Opens the ntuple or tree of a file that has its events.
pub(super) fn open_events(
    path: &str,
    tree: Option<&str>,
    options: &IngestOptions,
) -> Result<NTuple, TransferError> {
    let error = match open(path, tree, options) {
        Err(error) if error.kind() == "ambiguous-ntuple" => error,
        opened => return Ok(opened?),
    };
    let names = ntuples(path, options)?;
    let mut own = Vec::new();
    for name in &names {
        let level = noted("level", description(&open(path, Some(name), options)?));
        if level.is_some_and(|level| level.get("level") == Some(&Value::from("events"))) {
            own.push(name);
        }
    }
    let found = match own.as_slice() {
        [one] => Some(*one),
        _ => names.iter().find(|name| *name == "Events"),
    };
    match found {
        Some(name) => Ok(open(path, Some(name), options)?),
        None => {
            let how = options.words.name("tree");
            let what = format!("{}, or give {how}", error.with_causes());
            Err(TransferError::new(error.kind(), what))
        }
    }
}

/// The paths of the ntuples and trees of a file.
pub(super) fn ntuples(path: &str, options: &IngestOptions) -> Result<Vec<String>, RNTupleError> {
    let mut names = Vec::new();
    for (path, class) in objects(path, options)? {
        if matches!(class.as_str(), "ROOT::RNTuple" | "TTree") && !names.contains(&path) {
            names.push(path);
        }
    }
    Ok(names)
}

/// The paths and classes of the objects of a file.
pub(super) fn objects(
    path: &str,
    options: &IngestOptions,
) -> Result<Vec<(String, String)>, RNTupleError> {
    let settings = Settings::new(path, options.settings.clone())?;
    let entries = look_into(path, &settings, |file| Ok(file.walk()?))?;
    let entries = entries.into_iter();
    Ok(entries
        .map(|entry| (entry.path, entry.key.class_name))
        .collect())
}

/// Fields that cannot be read, with the reasons.
pub(super) fn skipped(ntuple: &NTuple) -> Vec<(String, String)> {
    let Some(reader) = ntuple.readers().first() else {
        return Vec::new();
    };
    let known = reader.descriptor().skipped.iter();
    let known = known.map(|skipped| (skipped.name.clone(), skipped.reason.clone()));
    let left_out = ntuple.left_out();
    let left_out = left_out
        .iter()
        .map(|(name, why)| (name.to_owned(), why.to_owned()));
    known.chain(left_out).collect()
}
