//! Converting: what is there (ntuples, trees, Parquet, Arrow IPC) into a new file of another kind, and proving that nothing
//! was lost.
//!
//! Entries flow in steps of some clusters: read and decoded, given their new shape, encoded, compressed and written, each on
//! all threads. With several threads the next step is read while one is written. At any time two steps are held (one, with
//! one thread), besides what writing takes ([`WriteOptions::memory`]).

mod certificate;
mod input;
mod many;
mod members;
mod output;
mod plain;
mod reshape;
mod tables;
mod tree;

use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::time::Instant;

use arrow_array::RecordBatch;
use femtobarn_io::Aside;
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::write::{Digest, WriteOptions};
use serde_json::{Value, json};

pub use certificate::{Certificate, ComparedColumn};
pub use input::Input;
pub use many::{Batch, FileReport, Outcome, convert_many};
pub use output::Format;

use input::{Batches, Source};
use output::Sink;

/// How something is converted.
#[derive(Debug, Clone, Default)]
pub struct ConvertOptions {
    /// Patterns (`*`, `?`) of the top-level fields to convert; all if empty.
    pub fields: Vec<String>,
    /// Patterns of those to leave out.
    pub drop: Vec<String>,
    /// Name of the ntuple that is made; none: the input's.
    pub name: Option<String>,
    /// Arrays with one counter become a collection named after what their names have in common.
    pub group: bool,
    /// How the ntuple is written; its threads are those of the whole conversion.
    pub write: WriteOptions,
    /// Read the output and compare every column with the input.
    pub verify: bool,
}

/// How far a conversion is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pulse {
    /// Entries converted.
    pub entries: u64,
    /// Entries there are.
    pub n_entries: u64,
    /// Bytes of the input, as stored, that these entries take, about.
    pub bytes: u64,
    /// Bytes of the input as stored.
    pub n_bytes: u64,
    /// The output is being read again.
    pub verifying: bool,
}

/// Called now and then; `false` stops the conversion.
pub type OnPulse<'a> = &'a (dyn Fn(Pulse) -> bool + Sync);

/// What a conversion did.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "named by their types")]
pub struct Converted {
    pub output: PathBuf,
    pub n_entries: u64,
    /// Stored bytes of the input and of the output.
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub seconds: f64,
    /// Fields that could not be converted, and those that have another name now, each with the reason.
    pub notes: Vec<(String, String)>,
    pub certificate: Option<Certificate>,
}

impl Converted {
    /// What was done as JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "output": self.output.to_string_lossy(),
            "entries": self.n_entries,
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            "seconds": self.seconds,
            "notes": self.notes,
            "certificate": self.certificate.as_ref().map(Certificate::to_json),
        })
    }
}

/// Converts one input, which may be several files of one ntuple, into one file. The file appears when it is complete, and
/// verified if that is asked for.
///
/// # Errors
/// If something cannot be read or written, or the output is not equal to the input: nothing appears then.
pub fn convert(
    inputs: &[Input],
    output: &Path,
    options: &ConvertOptions,
    pulse: OnPulse<'_>,
) -> Result<Converted, RNTupleError> {
    let start = Instant::now();
    let format = Format::of_output(output)?;
    format.check_compression(options.write.compression)?;
    check_apart(inputs, output)?;
    let mut source = Source::open(inputs, format, options)?;
    let mut unseen = Aside::create(output, true)?;
    let mut sink = Sink::create(format, &unseen, &source, options)?;
    let digest = options
        .verify
        .then(|| Digest::new(&source.fields))
        .transpose()?;
    let mut now = Pulse {
        n_entries: source.n_entries,
        n_bytes: source.n_bytes,
        ..Pulse::default()
    };
    let batches = std::mem::replace(&mut source.batches, Box::new(std::iter::empty()));
    let digest = flow(batches, digest, options.write.threads > 1, &mut |batch| {
        sink.extend(batch)?;
        now.entries += batch.num_rows() as u64;
        now.bytes = share(now.n_bytes, now.entries, now.n_entries);
        if pulse(now) {
            Ok(())
        } else {
            Err(RNTupleError::Interrupted)
        }
    })?;
    sink.finish()?;
    let certificate = match digest {
        None => None,
        Some(digest) => {
            now.verifying = true;
            let given = digest.finish();
            Some(certificate::verify(
                &source,
                given,
                format,
                unseen.path(),
                options,
                now,
                pulse,
            )?)
        }
    };
    let n_bytes = std::fs::metadata(unseen.path()).map_or(0, |found| found.len());
    unseen.appear()?;
    Ok(Converted {
        output: output.to_owned(),
        n_entries: now.entries,
        bytes_in: source.n_bytes,
        bytes_out: n_bytes,
        seconds: start.elapsed().as_secs_f64(),
        notes: source.notes,
        certificate,
    })
}

/// An output that replaces its input would take what else is in that file with it.
fn check_apart(inputs: &[Input], output: &Path) -> Result<(), RNTupleError> {
    let Ok(place) = output.canonicalize() else {
        return Ok(());
    };
    for input in inputs {
        let path = Path::new(input.url.strip_prefix("file://").unwrap_or(&input.url));
        if path.canonicalize().is_ok_and(|given| given == place) {
            let reason =
                "it is the input, too, and would be replaced: give the output another name";
            return Err(input::misused(&output.to_string_lossy(), reason));
        }
    }
    Ok(())
}

/// Takes the batches to `write`, and to the digest. With `ahead`, the next one is read by another thread in the meantime.
fn flow(
    batches: Batches,
    mut digest: Option<Digest>,
    ahead: bool,
    write: &mut dyn FnMut(&RecordBatch) -> Result<(), RNTupleError>,
) -> Result<Option<Digest>, RNTupleError> {
    let digested = &mut digest;
    let mut look = move |batch: Result<RecordBatch, RNTupleError>| {
        let batch = batch?;
        if let Some(digest) = digested {
            digest.add(&batch)?;
        }
        Ok(batch)
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
                let batch: Result<RecordBatch, RNTupleError> = look(batch);
                let is_last = batch.is_err();
                // nobody takes it if writing has failed
                if sender.send(batch).is_err() || is_last {
                    break;
                }
            }
        });
        // dropped at the first error, which ends the reader
        let written = receiver.into_iter().try_for_each(|batch| write(&batch?));
        if reader.join().is_err() {
            return Err(RNTupleError::internal("the thread that reads has ended"));
        }
        written
    })?;
    Ok(digest)
}

/// The part of `whole` that `n` of `of` are.
fn share(whole: u64, n: u64, of: u64) -> u64 {
    let part = u128::from(whole) * u128::from(n) / u128::from(of.max(1));
    u64::try_from(part).unwrap_or(whole)
}
