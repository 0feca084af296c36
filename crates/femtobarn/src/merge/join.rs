//! Joining: the fields of several ntuples side by side, entry by entry, or where keys are equal.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use femtobarn_io::Aside;
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::Reader;
use femtobarn_rntuple::write::{
    JoinedNTuple, MergeOptions as PageOptions, Rebuild, WriteOptions, join_columns,
};

use super::keys::{Matches, keys_of, match_keys};
use super::options::check_free;
use super::{MergeReport, MergedInput, MergedNTuple, OnPulse, Pulse};
use crate::convert::{Input, check_apart, check_inputs};
use crate::open::{OpenOptions, open_reader_of, open_source};
use crate::pattern::matches;
use crate::writable::create_beside;

/// What becomes of entries of the first ntuple that another one does not have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Unmatched {
    /// They are an error.
    #[default]
    Error,
    /// They are left out, and counted.
    Drop,
}

/// How ntuples are joined.
#[derive(Debug, Clone, Default)]
pub struct JoinOptions {
    /// The name of the ntuple that is made; none: that of the first.
    pub name: Option<String>,
    /// Fields of integers that say which entries belong together; none: they have the same numbers.
    pub on: Vec<String>,
    /// What becomes of entries of the first that another one does not have.
    pub unmatched: Unmatched,
    /// For each ntuple, patterns of the top-level fields to take; all if empty.
    pub fields: Vec<Vec<String>>,
    /// Settings that all pages are to have; none: each keeps its own.
    pub compression: Option<u32>,
    /// Whether the output replaces what is there.
    pub overwrite: bool,
    /// How metadata and new pages are written.
    pub write: WriteOptions,
}

/// Puts the fields of ntuples side by side into a new file, which appears when it is complete.
///
/// # Errors
/// If their entries do not belong together, two have a field of one name, or something cannot be read or written: nothing
/// appears then.
pub fn join(
    inputs: &[Input],
    output: &Path,
    options: &JoinOptions,
    pulse: OnPulse<'_>,
) -> Result<MergeReport, RNTupleError> {
    let start = Instant::now();
    check(inputs, output, options)?;
    let readers = inputs.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    let (mut matched, unused) = matched(&readers, options)?;
    let mut ntuples = Vec::with_capacity(readers.len());
    for (at, reader) in readers.iter().enumerate() {
        ntuples.push(JoinedNTuple {
            reader,
            top_level: chosen(reader, at, options)?,
            entries: matched.get_mut(at).and_then(Option::take),
        });
    }
    let mut unseen = Aside::create(output, options.overwrite)?;
    let mut file = create_beside(&unseen, options.write.compression)?;
    let first = readers
        .first()
        .map_or("", |reader| reader.descriptor().name.as_str());
    let name = options.name.as_deref().unwrap_or(first);
    let (folder, own) = name.rsplit_once('/').unwrap_or(("", name));
    let directory = file.directory(folder)?;
    let bytes = AtomicU64::new(0);
    let tick = |n| {
        let now = Pulse {
            n_files: readers.len(),
            bytes: bytes.fetch_add(n, Ordering::Relaxed) + n,
            ..Pulse::default()
        };
        pulse(now)
    };
    let pages = PageOptions {
        compression: options.compression,
        rebuild: Rebuild::Needed,
        write: options.write.clone(),
        ..PageOptions::default()
    };
    let (n_entries, merged) = join_columns(&mut file, (directory, own), &ntuples, pages, &tick)?;
    let mut report = MergeReport::default();
    for ((reader, merged), unused) in readers.iter().zip(merged).zip(unused) {
        let mut input = MergedInput::of(reader.url());
        if unused > 0 {
            let what = format!("{unused} entries of {}", reader.path());
            input.dropped.push((what, "without a match".to_owned()));
        }
        input.ntuples.push((reader.path().to_owned(), merged));
        report.inputs.push(input);
    }
    let merged = MergedNTuple {
        n_entries,
        ..MergedNTuple::default()
    };
    report.ntuples.insert(name.to_owned(), merged);
    report.shared_bytes = report.shared_in(file.sink());
    file.finish()?;
    report.bytes_out = std::fs::metadata(unseen.path()).map_or(0, |found| found.len());
    unseen.appear()?;
    report.output = output.to_owned();
    report.seconds = start.elapsed().as_secs_f64();
    Ok(report)
}

fn check(inputs: &[Input], output: &Path, options: &JoinOptions) -> Result<(), RNTupleError> {
    if inputs.len() < 2 {
        let what = "joining takes two ntuples or more".to_owned();
        return Err(RNTupleError::Usage { what });
    }
    check_inputs(inputs)?;
    check_apart(inputs, output)?;
    check_free(output, options.overwrite)
}

fn open(input: &Input) -> Result<Arc<Reader>, RNTupleError> {
    let source = open_source(&input.url)?;
    let found = open_reader_of(source, input.path.as_deref(), OpenOptions::default())?;
    let reader = found.ok_or_else(|| RNTupleError::internal("an ntuple that may be missing"))?;
    if reader.storage().is_some() {
        return Err(RNTupleError::Usage {
            what: format!(
                "{}:{} is a TTree, whose baskets are no pages: convert it first (fb convert)",
                reader.url(),
                reader.path()
            ),
        });
    }
    Ok(Arc::new(reader))
}

/// The fields of an ntuple to take; its keys only if it is the first.
fn chosen(reader: &Reader, at: usize, options: &JoinOptions) -> Result<Vec<u32>, RNTupleError> {
    let descriptor = reader.descriptor();
    let patterns = options.fields.get(at).map_or(&[][..], Vec::as_slice);
    let takes = |name: &str| patterns.is_empty() || patterns.iter().any(|p| matches(p, name));
    let is_known = |pattern: &&String| {
        let mut names = descriptor
            .top_level
            .iter()
            .map(|&id| descriptor.field_name(id));
        !names.any(|name| matches(pattern, name))
    };
    if let Some(pattern) = patterns.iter().find(is_known) {
        return Err(RNTupleError::Usage {
            what: format!(
                "no field of {}:{} fits {pattern:?}",
                reader.url(),
                reader.path()
            ),
        });
    }
    if let Some(skipped) = descriptor
        .skipped
        .iter()
        .find(|skipped| takes(&skipped.name))
    {
        let reason = format!("{}; name the other fields to leave it out", skipped.reason);
        return Err(reader.unsupported(&skipped.name, &reason));
    }
    let is_key = |name: &str| at > 0 && options.on.iter().any(|key| key == name);
    let names = descriptor.top_level.iter().copied();
    let taken = names.filter(|&id| {
        let name = descriptor.field_name(id);
        takes(name) && !is_key(name)
    });
    Ok(taken.collect())
}

/// For each ntuple the numbers of its entries in the output, if they are others, and how many of them are not in it.
#[expect(clippy::type_complexity, reason = "used once")]
fn matched(
    readers: &[Arc<Reader>],
    options: &JoinOptions,
) -> Result<(Vec<Option<Vec<u64>>>, Vec<u64>), RNTupleError> {
    let Some((first, others)) = readers.split_first() else {
        return Ok((Vec::new(), Vec::new()));
    };
    if options.on.is_empty() {
        let n = first.n_entries();
        if let Some(other) = others.iter().find(|other| other.n_entries() != n) {
            return Err(RNTupleError::Usage {
                what: format!(
                    "{}:{} has {} entries, and {}:{} has {n}: give the fields that say which belong together (on=[\"run\", \"luminosityBlock\", \"event\"], --on run,luminosityBlock,event)",
                    other.url(),
                    other.path(),
                    other.n_entries(),
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
    let wanted = keys_of(first, &options.on, threads)?;
    let mut matches = Matches::new(first.n_entries());
    for other in others {
        let keys = keys_of(other, &options.on, threads)?;
        let found = match_keys(&wanted, &keys)?;
        matches.add(found, other.n_entries());
    }
    if options.unmatched == Unmatched::Error
        && let Some((entry, at)) = matches.first_without()
        && let Some(other) = others.get(at)
    {
        return Err(RNTupleError::Usage {
            what: format!(
                "entry {entry} of {}:{} ({}) has no match in {}:{}: leave such entries out with unmatched=\"drop\"",
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
