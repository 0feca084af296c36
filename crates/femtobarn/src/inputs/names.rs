//! Messages about names that match no field, and about numbers of entries.

use std::collections::HashSet;

use femtobarn_io::did_you_mean;
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::Reader;
use femtobarn_rntuple::schema::FieldId;
use femtobarn_ttree::is_tree;

use super::{Input, Opened, wanted};
use crate::objects::RNTUPLE_CLASS;
use crate::pattern::Patterns;

/// The top-level fields that match the given names and patterns, and their counters; all fields of ntuples that are
/// taken as a whole.
pub(crate) struct Chosen<'o> {
    pub patterns: Patterns<'o>,
    counters: HashSet<String>,
    /// Paths of ntuples that are taken with all their fields.
    whole: HashSet<String>,
}

impl<'o> Chosen<'o> {
    pub fn new(fields: &'o [String]) -> Self {
        Self {
            patterns: Patterns::new(fields.iter().map(String::as_str)),
            counters: HashSet::new(),
            whole: HashSet::new(),
        }
    }

    /// Takes all fields of an ntuple.
    pub fn add_whole(&mut self, path: &str) {
        self.whole.insert(path.to_owned());
    }

    /// Records the counters of an ntuple.
    pub fn note_counters(&mut self, reader: &Reader) {
        let descriptor = reader.descriptor();
        let top_level = descriptor.top_level.iter().copied();
        let chosen: Vec<FieldId> = top_level
            .filter(|&id| self.patterns.takes(descriptor.field_name(id)))
            .collect();
        if chosen.len() < descriptor.top_level.len() {
            let counters = descriptor.counters(&chosen).into_iter();
            self.counters
                .extend(counters.map(|id| descriptor.field_name(id).to_owned()));
        }
    }

    pub fn takes(&self, path: &str, name: &str) -> bool {
        self.whole.contains(path) || self.patterns.takes(name) || self.counters.contains(name)
    }
}

/// The error for a name or pattern that matches no field of any input, with similar names from the first input that has
/// ntuples.
pub(crate) fn no_field(inputs: &[Input], name: &str) -> RNTupleError {
    let first = inputs.first().map(Input::shown).unwrap_or_default();
    let (mut url, mut ntuple, mut names) = (first, String::new(), Vec::new());
    for input in inputs {
        // unreadable files were reported before
        let Ok(found) = names_of(input) else { continue };
        let Some((path, _)) = found.first() else {
            continue;
        };
        url = input.shown();
        if found.len() == 1 {
            ntuple.clone_from(path);
        }
        names = found.into_iter().flat_map(|(_, names)| names).collect();
        break;
    }
    let others = match inputs.len() {
        0 | 1 => "",
        _ => ", and no other file has it",
    };
    let near = did_you_mean(name, names.iter().map(String::as_str));
    let whole = match name.split_once('.') {
        Some((top, _)) if names.iter().any(|known| known.trim_end_matches('.') == top) => {
            format!("; only whole fields can be selected: use {top}")
        }
        _ => String::new(),
    };
    let list = match name.split_once(',') {
        Some((one, _)) if names.iter().any(|known| known == one.trim()) => {
            "; give several names as a list, [\"a\", \"b\"], or in a shell as a,b"
        }
        _ if !whole.is_empty() => whole.as_str(),
        _ => near.as_str(),
    };
    RNTupleError::NoSuchField {
        url,
        ntuple,
        name: name.to_owned(),
        hint: format!("{others}{list}"),
    }
}

/// The ntuples of an input with the names of their fields.
fn names_of(input: &Input) -> Result<Vec<(String, Vec<String>)>, RNTupleError> {
    let opened = Opened::new(input)?;
    let mut out = Vec::new();
    for (path, key) in wanted(&opened.file, input.path.as_deref())? {
        let names = if key.class_name == RNTUPLE_CLASS {
            let reader = opened.reader(&path, &key)?;
            reader.paths().iter().flatten().cloned().collect()
        } else if is_tree(&key.class_name) {
            let reader = opened.entries(Some(&path))?;
            reader.paths().iter().flatten().cloned().collect()
        } else {
            continue;
        };
        out.push((path, names));
    }
    Ok(out)
}

/// A number of entries, for messages.
pub(crate) fn counted(n: u64) -> String {
    match n {
        1 => "1 entry".to_owned(),
        n => format!("{n} entries"),
    }
}
