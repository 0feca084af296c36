//! Converts existing data (ntuples, trees, Parquet, Arrow IPC) into a new file of another format, and verifies that
//! nothing was lost.
//!
//! Entries pass in steps of some clusters: read, decoded, reshaped, encoded, compressed and written, each on all
//! threads. With several threads, the next step is read while one is written. So two steps are in memory (one with a
//! single thread), besides the memory for writing
//! ([`WriteOptions::memory`](femtobarn_rntuple::write::WriteOptions::memory)).

mod attributes;
mod certificate;
mod contained;
mod counters;
mod fit;
mod format;
mod input;
mod ipc;
mod ipc_batch;
mod levels;
mod many;
mod members;
mod names;
mod natural;
mod options;
mod origins;
mod output;
mod page_header;
mod parts;
mod plain;
mod replace;
mod report;
mod reshape;
mod source;
mod staged_trees;
mod steps;
mod table_file;
mod tables;
mod tree;
mod wanted;

use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::time::Instant;

use arrow_array::RecordBatch;
use femtobarn_io::Settings;
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::write::Digest;

pub use crate::inputs::Input;
pub(crate) use attributes::{Attributes, left_set};
pub use certificate::{Certificate, ComparedColumn};
pub use format::Format;
pub use many::{Batch, FileReport, Outcome, convert_many};
pub(crate) use names::TreeNames;
pub use options::{ConvertOptions, OnProgress, Progress, Replace};
pub use report::{Converted, ConvertedNTuple};
pub(crate) use staged_trees::{Origins, StagedTrees, TreesOf};

use crate::destination::Destination;
use crate::inputs::{check_apart, check_inputs, share};
use crate::left_behind::AllLeftBehind;
use crate::staged::{StagedOutput, bytes_of, shown};
use options::Purpose;
use output::Sink;
use parts::{OfPart, Part};
use source::{Batches, Source, has_data};

/// Converts files into one: each of their trees and ntuples, or the named one. Trees and ntuples with the same path are
/// concatenated. The file appears when it is complete and, if requested, verified.
///
/// # Errors
/// If something cannot be read or written, or the output differs from the input. Then no output appears.
pub fn convert(
    inputs: &[Input],
    output: &Path,
    options: &ConvertOptions,
    progress: OnProgress<'_>,
) -> Result<Converted, RNTupleError> {
    convert_or_failed(inputs, output, options, progress).map_err(|failed| failed.error)
}

impl Progress {
    fn of(sources: &[(usize, Part, Source)]) -> Self {
        let all = sources.iter().map(|(.., source)| source);
        Self {
            n_entries: all.clone().map(|source| source.n_entries).sum(),
            n_bytes: all.map(|source| source.n_bytes).sum(),
            ..Self::default()
        }
    }
}

/// An error, with its context.
pub(super) struct Failed {
    pub error: RNTupleError,
    /// The input could not be read.
    pub is_of_input: bool,
    /// Only one field is affected.
    is_of_field: bool,
    /// The index of the affected ntuple.
    part: usize,
}

impl From<RNTupleError> for Failed {
    fn from(error: RNTupleError) -> Self {
        Self {
            error,
            is_of_input: false,
            is_of_field: false,
            part: 0,
        }
    }
}

impl Failed {
    fn opening(error: RNTupleError) -> Self {
        use RNTupleError as E;
        // these errors concern the request
        let is_of_input = !matches!(
            error,
            E::Usage { .. }
                | E::NoSuchField { .. }
                | E::AmbiguousNTuple { .. }
                | E::Unwritable { .. }
        ) && !error.is_interrupted();
        Self {
            is_of_input,
            ..error.into()
        }
    }

    fn opening_part((part, error): OfPart) -> Self {
        Self {
            part,
            ..Self::opening(error)
        }
    }

    fn reading(part: usize, error: RNTupleError) -> Self {
        let is_of_field = matches!(error, RNTupleError::Unsupported { .. });
        Self {
            is_of_field,
            part,
            ..Self::opening(error)
        }
    }
}

pub(super) fn convert_or_failed(
    inputs: &[Input],
    output: &Path,
    options: &ConvertOptions,
    progress: OnProgress<'_>,
) -> Result<Converted, Failed> {
    let start = Instant::now();
    let destination = Destination::parse(&output.to_string_lossy())?;
    let options = &named(&destination, options)?;
    let given = output;
    let output = &destination;
    let attempt = |unreadable: &Unreadable| attempt(inputs, output, options, unreadable, progress);
    let (mut done, mut staged) = without_unreadable(&mut Vec::new(), attempt)?;
    let n_bytes = done.bytes_out;
    let now = Progress {
        entries: done.n_entries(),
        n_entries: done.n_entries(),
        n_bytes: done.bytes_in(),
        sending: true,
        ..Progress::default()
    };
    let tick = |sent| {
        progress(Progress {
            bytes: share(now.n_bytes, sent, n_bytes),
            ..now
        })
    };
    done.output = shown(given);
    done.delivery = staged.appear(options.verify, &tick)?;
    done.bytes_out = bytes_of(done.delivery.as_ref(), n_bytes);
    done.seconds = start.elapsed().as_secs_f64();
    Ok(done)
}

/// The options with the name that the URL of the output gives to its ntuple.
fn named(
    destination: &Destination,
    options: &ConvertOptions,
) -> Result<ConvertOptions, RNTupleError> {
    let given = options.name.as_deref();
    if let Some(given) = given {
        destination.naming.check_given(given)?;
    }
    Ok(ConvertOptions {
        name: destination.name().or(given).map(str::to_owned),
        ..options.clone()
    })
}

/// Unreadable fields: indexes of the ntuples, names, and reasons.
type Unreadable = Vec<(usize, String, String)>;

/// Starts again without a field that turns out to be unreadable; no output has appeared before that.
fn without_unreadable<T>(
    unreadable: &mut Unreadable,
    mut attempt: impl FnMut(&Unreadable) -> Result<T, Failed>,
) -> Result<T, Failed> {
    loop {
        let failed = match attempt(unreadable) {
            Ok(done) => return Ok(done),
            Err(failed) => failed,
        };
        match &failed.error {
            RNTupleError::Unsupported { name, reason, .. }
                if failed.is_of_field
                    && (unreadable.iter())
                        .all(|(part, known, _)| (*part, known) != (failed.part, name)) =>
            {
                unreadable.push((failed.part, name.clone(), reason.clone()));
            }
            _ => return Err(failed),
        }
    }
}

fn attempt(
    inputs: &[Input],
    destination: &Destination,
    options: &ConvertOptions,
    unreadable: &Unreadable,
    progress: OnProgress<'_>,
) -> Result<(Converted, StagedOutput), Failed> {
    let output = Path::new(&destination.url);
    let format = Format::of_output(output)?;
    format.check_compression(options.write.compression)?;
    check_inputs(inputs)?;
    check_apart(inputs, output)?;
    let mut left_behind = AllLeftBehind::default();
    let how = (Purpose::Output, options);
    let parts = parts::find(inputs, format, how, &mut left_behind).map_err(Failed::opening)?;
    let opened = parts::open(parts, format, how, unreadable, &mut left_behind);
    let mut sources = opened.map_err(Failed::opening_part)?;
    check_something(&sources, inputs, options)?;
    let paths: Vec<&str> = sources.iter().map(|(.., source)| &*source.name).collect();
    let naming = &destination.naming;
    naming.check(&paths, ", or end the output with a slash")?;
    for (.., source) in &mut sources {
        if options.name.is_none() {
            source.name = naming.name_of(&source.name).to_owned();
        }
    }
    let names: Vec<&str> = sources.iter().map(|(.., source)| &*source.name).collect();
    let settings = Settings::new(&output.to_string_lossy(), options.settings.clone());
    let settings = settings.map_err(RNTupleError::from)?;
    let replaces = options.replace.check(output, format, &names, &settings)?;
    let mut staged = StagedOutput::create(output, replaces, &settings)?;
    let mut sink = Sink::create(format, &mut staged, options)?;
    let mut now = Progress::of(&sources);
    let n_bytes = now.n_bytes;
    let explained = |error| staged.explain(error, n_bytes);
    let mut digests = Vec::with_capacity(sources.len());
    for (at, _, source) in &mut sources {
        let digest = options.verify.then(|| Digest::new(&source.fields));
        let digest = digest.transpose()?;
        let batches = std::mem::replace(&mut source.batches, Box::new(std::iter::empty()));
        sink.begin(source, options).map_err(explained)?;
        let threads = options.write.threads;
        let digest = flow(batches, *at, digest, threads > 1, &mut |batch| {
            sink.extend(batch).map_err(explained)?;
            now.entries += batch.num_rows() as u64;
            now.bytes = share(now.n_bytes, now.entries, now.n_entries);
            if progress(now) {
                Ok(())
            } else {
                Err(RNTupleError::Interrupted)
            }
        })?;
        sink.end(&source.attributes).map_err(explained)?;
        digests.push(digest.map(Digest::finish));
    }
    let finished = sink.finish(&mut staged, options.verify);
    finished.map_err(|error| staged.explain(error, n_bytes))?;
    now.verifying = options.verify;
    now.entries = 0;
    let mut ntuples = Vec::with_capacity(sources.len());
    for ((at, part, source), digest) in sources.into_iter().zip(digests) {
        let again = || {
            let mut left = AllLeftBehind::default();
            let parts = parts::find(inputs, format, how, &mut left)?;
            let opened = parts::open(parts, format, how, unreadable, &mut left);
            batches_of(at, opened.map_err(|(_, error)| error)?)
        };
        let verified = digest.map(|digest| {
            let place = (format, staged.input(Some(&source.name), &options.settings));
            let watched = (&mut now, progress);
            certificate::verify(&source, digest, place, options, &again, watched)
        });
        let certificate = verified.transpose()?;
        part.leaves(&source, &mut left_behind);
        ntuples.push(ConvertedNTuple::new(source, certificate));
    }
    let n_bytes = staged.n_bytes();
    let done = Converted {
        output: shown(output),
        delivery: None,
        ntuples,
        left_behind,
        bytes_out: n_bytes,
        seconds: 0.0,
    };
    Ok((done, staged))
}

/// The entries of the ntuple with an index.
fn batches_of(at: usize, sources: Vec<(usize, Part, Source)>) -> Result<Batches, RNTupleError> {
    let mut sources = sources.into_iter();
    let found = sources.find(|(other, ..)| *other == at);
    let found = found.map(|(.., source)| source.batches);
    found.ok_or_else(|| RNTupleError::internal("an input that is not there again"))
}

/// Additional advice for an error of a conversion.
pub fn advice(error: &RNTupleError) -> Option<&'static str> {
    let is_of_one = match error {
        RNTupleError::PageChecksum { .. } => true,
        RNTupleError::Codec { structure, .. } | RNTupleError::Object { structure, .. } => {
            [" of branch ", " of field "]
                .iter()
                .any(|of| structure.contains(of))
        }
        _ => false,
    };
    is_of_one.then_some(
        "if nothing else is damaged, convert the other fields: leave out this one with `drop`",
    )
}

/// Fails if no fields are left to convert.
fn check_something(
    sources: &[(usize, Part, Source)],
    inputs: &[Input],
    options: &ConvertOptions,
) -> Result<(), RNTupleError> {
    let url = inputs.first().map(Input::shown).unwrap_or_default();
    let mut all = sources.iter().map(|(.., source)| source);
    let skipped = match all.next() {
        None => None,
        Some(source) if source.fields.iter().any(has_data) => return Ok(()),
        Some(source) => source.skipped.first().map(|skipped| (source, skipped)),
    };
    match skipped {
        Some((source, (name, reason))) => Err(RNTupleError::Unsupported {
            url,
            ntuple: source.name.clone(),
            name: name.clone(),
            reason: reason.clone(),
            hint: "; no other fields are left to convert".into(),
        }),
        None if options.fields.is_empty() && options.drop.is_empty() => Ok(()),
        None => Err(RNTupleError::Usage {
            what: format!("no fields of {url} are left to convert: all are dropped"),
        }),
    }
}

/// Passes the batches to `write` and to the digest. With `ahead`, another thread reads the next batch meanwhile.
fn flow(
    batches: Batches,
    part: usize,
    mut digest: Option<Digest>,
    ahead: bool,
    write: &mut dyn FnMut(&RecordBatch) -> Result<(), RNTupleError>,
) -> Result<Option<Digest>, Failed> {
    let digested = &mut digest;
    let mut look = move |batch: Result<RecordBatch, RNTupleError>| {
        let batch = batch.map_err(|error| Failed::reading(part, error))?;
        if let Some(digest) = digested {
            digest.add(&batch)?;
        }
        Ok::<RecordBatch, Failed>(batch)
    };
    if !ahead {
        for batch in batches {
            write(&look(batch)?)?;
        }
        return Ok(digest);
    }
    std::thread::scope(|scope| {
        let (sender, receiver) = sync_channel(0);
        let reader = scope.spawn(move || {
            for batch in batches {
                let batch = look(batch);
                let is_last = batch.is_err();
                // the receiver is gone if writing has failed
                if sender.send(batch).is_err() || is_last {
                    break;
                }
            }
        });
        // dropped at the first error, which stops the reader
        let written = receiver
            .into_iter()
            .try_for_each(|batch| write(&batch?).map_err(Failed::from));
        if reader.join().is_err() {
            return Err(RNTupleError::internal("the reading thread has ended").into());
        }
        written
    })?;
    Ok(digest)
}
