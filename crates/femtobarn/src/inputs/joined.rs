//! Joined ntuples: the fields of each, and the matching entries.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use femtobarn_io::did_you_mean;
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::{Reader, Tick};
use femtobarn_rntuple::schema::FieldId;
use femtobarn_rntuple::write::WriteOptions;

use super::keys::{Matches, keys_of, match_keys};
use super::{Input, OtherObjects, counted};
use crate::choice::Choice;
use crate::open::{OpenOptions, open_reader_of};
use crate::pattern::Patterns;
use crate::transfer::Words;

/// Treatment of entries of the first ntuple that another ntuple lacks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Unmatched {
    /// Report an error.
    #[default]
    Error,
    /// Leave them out, and count them.
    Drop,
}

impl Choice for Unmatched {
    const ALL: &[(&str, Self)] = &[("error", Self::Error), ("drop", Self::Drop)];
}

/// Options of a join.
#[derive(Debug, Clone, Default)]
pub struct JoinOptions {
    /// The name of the new ntuple; `None` for the name of the first.
    pub name: Option<String>,
    /// Integer fields that match entries (keys); if empty, entries match by their numbers.
    pub on: Vec<String>,
    /// Treatment of entries of the first ntuple that another ntuple lacks.
    pub unmatched: Unmatched,
    /// For each ntuple, patterns of the top-level fields, all if empty. An empty outer list selects all fields of all
    /// ntuples. A key is taken from the first ntuple in which it is selected.
    pub fields: Vec<Vec<String>>,
    /// Treatment of attribute sets, and of objects in files given without an ntuple.
    pub others: OtherObjects,
    /// Compression settings of all pages; `None` keeps the settings of each page.
    pub compression: Option<u32>,
    /// Whether an existing output is replaced.
    pub overwrite: bool,
    /// How the caller names options, for messages.
    pub words: Words,
    /// Whether the output is compared with the inputs before it appears.
    pub verify: bool,
    /// Options for writing metadata and new pages.
    pub write: WriteOptions,
    /// Settings for the server of the output, which override the environment and the settings file.
    pub settings: BTreeMap<String, String>,
}

/// Checks the arguments of a join: at least two ntuples, and selected fields either for every ntuple or for no ntuple.
pub(crate) fn check_joined(inputs: &[Input], options: &JoinOptions) -> Result<(), RNTupleError> {
    if inputs.len() < 2 {
        let what = "a join needs two ntuples or more".to_owned();
        return Err(RNTupleError::Usage { what });
    }
    let n = options.fields.len();
    if n > 0 && n != inputs.len() {
        let what = format!(
            "fields are given for {n} ntuples, but there are {}: give one item per ntuple (None or --fields '*' for \
             all fields)",
            inputs.len()
        );
        return Err(RNTupleError::Usage { what });
    }
    if options.on.is_empty() && options.unmatched == Unmatched::Drop {
        let what = "unmatched needs keys: give the fields that match entries (on=[\"run\", \"event\"], --on \
                    run,event)".to_owned();
        return Err(RNTupleError::Usage { what });
    }
    Ok(())
}

/// Opens a joined ntuple of an input.
pub(crate) fn open_joined(input: &Input) -> Result<Arc<Reader>, RNTupleError> {
    let source = input.open_source()?;
    let found = open_reader_of(source, input.path.as_deref(), &OpenOptions::default())?;
    let reader =
        found.ok_or_else(|| RNTupleError::internal("internal error: an ntuple is missing"))?;
    if reader.storage().is_some() {
        return Err(RNTupleError::Usage {
            what: format!(
                "{url}:{path} is a TTree, but only RNTuples can be joined: convert it first (fb convert {url}:{path} \
                 NEW.root)",
                url = reader.url(),
                path = reader.path()
            ),
        });
    }
    Ok(Arc::new(reader))
}

/// The selected fields of each ntuple. Keys are equal in all ntuples, and are taken from the first in which they are
/// selected.
pub(crate) fn chosen(
    readers: &[Arc<Reader>],
    options: &JoinOptions,
) -> Result<Vec<Vec<FieldId>>, RNTupleError> {
    let mut keys: HashSet<&str> = options.on.iter().map(String::as_str).collect();
    let mut out = Vec::with_capacity(readers.len());
    for (at, reader) in readers.iter().enumerate() {
        let given = options.fields.get(at).map_or(&[][..], Vec::as_slice);
        let asked = Patterns::new(given.iter().map(String::as_str));
        let descriptor = reader.descriptor();
        let mut unmatched: BTreeSet<usize> = (0..given.len()).collect();
        let mut own = Vec::new();
        for &id in &descriptor.top_level {
            let name = descriptor.field_name(id);
            for at in asked.fitting(name) {
                unmatched.remove(&at);
            }
            if asked.takes(name) && (keys.remove(name) || options.on.iter().all(|key| key != name))
            {
                own.push(id);
            }
        }
        let unmatched = unmatched.first().and_then(|&at| given.get(at));
        if let Some(pattern) = unmatched {
            return Err(RNTupleError::NoSuchField {
                url: reader.url().to_owned(),
                ntuple: reader.path().to_owned(),
                name: pattern.clone(),
                hint: did_you_mean(
                    pattern,
                    descriptor
                        .top_level
                        .iter()
                        .map(|&id| descriptor.field_name(id)),
                ),
            });
        }
        let mut skipped = descriptor.skipped.iter();
        if let Some(skipped) = skipped.find(|skipped| asked.takes(&skipped.name)) {
            let reason = format!(
                "{}; select the other fields to leave it out",
                skipped.reason
            );
            return Err(reader.unsupported(&skipped.name, &reason));
        }
        out.push(own);
    }
    add_counters(readers, &mut out);
    Ok(out)
}

/// Adds the counters of selected fields, unless a field with that name exists.
fn add_counters(readers: &[Arc<Reader>], chosen: &mut [Vec<FieldId>]) {
    let mut taken: HashSet<String> = HashSet::new();
    let name = |reader: &Reader, id| reader.descriptor().field_name(id).to_owned();
    for (reader, own) in readers.iter().zip(&*chosen) {
        taken.extend(own.iter().map(|&id| name(reader, id)));
    }
    for (reader, own) in readers.iter().zip(chosen) {
        let counters = reader.descriptor().counters(own).into_iter();
        own.extend(counters.filter(|&id| taken.insert(name(reader, id))));
    }
}

/// For each ntuple, the entry numbers for the output (`None` if all are in order), and how many entries are left out.
#[expect(clippy::type_complexity, reason = "used once")]
pub(crate) fn matched(
    readers: &[Arc<Reader>],
    options: &JoinOptions,
    tick: Tick<'_>,
) -> Result<(Vec<Option<Vec<u64>>>, Vec<u64>), RNTupleError> {
    let Some((first, others)) = readers.split_first() else {
        return Ok((Vec::new(), Vec::new()));
    };
    if options.on.is_empty() {
        let n = first.n_entries();
        if let Some(other) = others.iter().find(|other| other.n_entries() != n) {
            return Err(RNTupleError::Usage {
                what: format!(
                    "{}:{} has {}, but {}:{} has {n}: give the fields that match entries (on=[\"run\", \
                     \"luminosityBlock\", \"event\"], --on run,luminosityBlock,event)",
                    other.url(),
                    other.path(),
                    counted(other.n_entries()),
                    first.url(),
                    first.path()
                ),
            });
        }
        return Ok((
            readers.iter().map(|_| None).collect(),
            vec![0; readers.len()],
        ));
    }
    let threads = options.write.threads;
    let wanted = keys_of(first, &options.on, threads, tick)?;
    let mut matches = Matches::new(first.n_entries());
    for other in others {
        let keys = keys_of(other, &options.on, threads, tick)?;
        if !tick(0, 1) {
            return Err(RNTupleError::Interrupted);
        }
        let found = match_keys(&wanted, &keys)?;
        matches.add(found, other.n_entries());
    }
    if options.unmatched == Unmatched::Error
        && let Some((entry, at)) = matches.first_without()
        && let Some(other) = others.get(at)
    {
        return Err(RNTupleError::Usage {
            what: format!(
                "entry {entry} of {}:{} ({}) has no match in {}:{}: drop such entries with --unmatched drop (in \
                 Python unmatched=\"drop\")",
                first.url(),
                first.path(),
                wanted.describe(entry),
                other.url(),
                other.path()
            ),
        });
    }
    Ok(matches.finish())
}
