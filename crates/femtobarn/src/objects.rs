//! Names of objects in files.
//!
//! `NAME;CYCLE` is one object. `NAME` is the newest RNTuple or tree with the name, even if a newer object of another
//! kind has it, otherwise the newest object. A `;` without a number after it is part of the name.

use std::collections::HashMap;

use femtobarn_rntuple::RNTupleError;
use femtobarn_rootfile::{Key, RootFile, RootFileError, without_cycle};
use femtobarn_ttree::is_tree;

/// Class name of an ntuple's key.
pub const RNTUPLE_CLASS: &str = "ROOT::RNTuple";

/// Whether an object is an RNTuple or a tree.
pub fn holds_entries(key: &Key) -> bool {
    key.class_name == RNTUPLE_CLASS || is_tree(&key.class_name)
}

/// Finds the object with a name.
pub(crate) fn find(file: &RootFile, name: &str) -> Result<Key, RootFileError> {
    file.find_wanted(name, &holds_entries)
}

/// The path of an object with a name, without a cycle.
pub(crate) fn path_of(name: &str, key: &Key) -> String {
    let is_plain = name.ends_with(&key.name);
    let path = if is_plain { name } else { without_cycle(name) };
    path.trim_matches('/').to_owned()
}

/// The RNTuples and trees of a file, all cycles, each by its shortest unambiguous name.
///
/// # Errors
/// If a directory cannot be read.
pub fn ntuples(file: &RootFile) -> Result<Vec<String>, RNTupleError> {
    let mut entries = file.walk()?;
    entries.retain(|entry| holds_entries(&entry.key));
    let mut counts: HashMap<String, usize> = HashMap::new();
    for entry in &entries {
        *counts.entry(entry.path.clone()).or_default() += 1;
    }
    let names = entries.into_iter().map(|entry| {
        let is_alone = counts.get(&entry.path) == Some(&1);
        match is_alone && without_cycle(&entry.path) == entry.path {
            true => entry.path,
            false => format!("{};{}", entry.path, entry.key.cycle),
        }
    });
    Ok(names.collect())
}

/// The newest objects of a file by path: the newest RNTuple or tree of each path, and the newest other object if it is
/// newer.
pub(crate) fn newest(file: &RootFile) -> Result<Vec<(String, Key)>, RNTupleError> {
    newest_and_older(file).map(|(newest, _)| newest)
}

/// The newest objects of a file, as in [`newest`], and all others.
#[expect(clippy::type_complexity, reason = "used twice")]
pub(crate) fn newest_and_older(
    file: &RootFile,
) -> Result<(Vec<(String, Key)>, Vec<(String, Key)>), RNTupleError> {
    let mut older = Vec::new();
    let mut places: HashMap<(String, bool), usize> = HashMap::new();
    let mut out: Vec<(String, Key)> = Vec::new();
    for entry in file.walk()? {
        let place = (entry.path.clone(), holds_entries(&entry.key));
        match places.get(&place).and_then(|&at| out.get_mut(at)) {
            Some((_, known)) if known.cycle < entry.key.cycle => {
                older.push((entry.path, std::mem::replace(known, entry.key)));
            }
            Some(_) => older.push((entry.path, entry.key)),
            None => {
                places.insert(place, out.len());
                out.push((entry.path, entry.key));
            }
        }
    }
    let cycles = places.iter().filter(|((_, holds), _)| *holds);
    let cycles: HashMap<&str, u16> = cycles
        .filter_map(|((path, _), &at)| Some((path.as_str(), out.get(at)?.1.cycle)))
        .collect();
    let is_shown = |path: &str, key: &Key| {
        let cycle = cycles.get(path);
        holds_entries(key) || cycle.is_none_or(|&cycle| cycle < key.cycle)
    };
    let shown: Vec<bool> = out.iter().map(|(path, key)| is_shown(path, key)).collect();
    let (mut newest, mut others) = (Vec::new(), Vec::new());
    for (object, shown) in out.into_iter().zip(shown) {
        if shown {
            newest.push(object);
        } else {
            others.push(object);
        }
    }
    older.append(&mut others);
    older.retain(|(_, key)| !key.is_directory());
    Ok((newest, older))
}
