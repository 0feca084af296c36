//! Converts many files, each into a separate output.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use femtobarn_io::{IoError, is_object_set, is_remote, public};
use femtobarn_rntuple::RNTupleError;
use serde_json::{Value, json};

use super::format::Format;
use super::options::{ConvertOptions, Progress};
use super::parts;
use super::{Converted, Replace, advice, convert_or_failed};
use crate::choice::Choice;
use crate::copy::file_of;
use crate::destination::{Destination, folder_of, ntuple_of, stems};
use crate::inputs::{Input, Opened, check_inputs, misused};
use crate::ntuple::NTuple;
use crate::objects::holds_entries;
use crate::open::{OpenOptions, is_one_ntuple};
use crate::staged::shown;

/// Options for converting many files.
#[derive(Debug, Clone, Copy)]
pub struct Batch {
    /// Number of concurrent conversions; they share the threads.
    pub jobs: usize,
    /// Skip files whose output exists, is complete, and is not older. With [`Replace::Own`], other outputs are
    /// replaced as by [`Replace::Left`].
    pub resume: bool,
    /// Continue after files that cannot be converted.
    pub skip_bad_files: bool,
    /// The format of the outputs.
    pub format: Format,
}

/// The result for a file.
#[derive(Debug)]
pub struct FileReport {
    /// The file.
    pub input: Input,
    /// The path of its output.
    pub output: PathBuf,
    /// The outcome of the conversion.
    pub outcome: Outcome,
}

/// The outcome of a conversion.
#[derive(Debug)]
pub enum Outcome {
    /// It was converted.
    Converted(Box<Converted>),
    /// Its output already existed.
    Kept,
    /// It could not be converted.
    Failed {
        /// The error.
        error: RNTupleError,
        /// Number of lost entries, if known; `None` if the input is intact.
        n_entries: Option<u64>,
    },
    /// The caller stopped it, or another file failed.
    Interrupted,
    /// It was not started, because all work had stopped.
    NotTried,
}

impl FileReport {
    /// The report as JSON.
    pub fn to_json(&self) -> Value {
        let mut out =
            json!({"input": self.input.shown(), "output": shown(&self.output).to_string_lossy()});
        let more = match &self.outcome {
            Outcome::Converted(done) => {
                if let Some(out) = out.as_object_mut() {
                    out.insert("status".into(), "converted".into());
                }
                done.to_json()
            }
            Outcome::Kept => json!({"status": "kept"}),
            Outcome::Interrupted => json!({"status": "interrupted"}),
            Outcome::NotTried => json!({"status": "not tried"}),
            Outcome::Failed { error, n_entries } => json!({
                "status": "failed",
                "kind": error.kind(),
                "error": error.with_causes(),
                "entries_lost": n_entries,
                "next": advice(error),
            }),
        };
        if let (Some(out), Value::Object(more)) = (out.as_object_mut(), more) {
            out.extend(more);
        }
        out
    }
}

/// Called with the index of the file and its progress; `false` stops all conversions.
pub type OnFileProgress<'a> = &'a (dyn Fn(usize, Progress) -> bool + Sync);

/// Converts each file into one in the directory, which is created if needed. The reports are in the order of the
/// files. In a directory of objects or a container, each ntuple of a file gets its own output, and report.
///
/// # Errors
/// If two files would have the same output, or the directory cannot be created. Errors of single files are in their
/// reports.
pub fn convert_many(
    inputs: &[Input],
    folder: &Path,
    options: &ConvertOptions,
    batch: Batch,
    progress: OnFileProgress<'_>,
) -> Result<Vec<FileReport>, RNTupleError> {
    batch.format.check_compression(options.write.compression)?;
    check_inputs(inputs)?;
    let place = folder_of(&folder.to_string_lossy())?;
    let pairs = match is_object_set(&place) {
        true => ntuples(inputs, &place, batch.format)?,
        false => files(inputs, &place, batch.format),
    };
    check_outputs(&pairs)?;
    // servers create directories together with files
    if !is_remote(&folder.to_string_lossy()) {
        let below = pairs.iter().filter_map(|(_, output)| output.parent());
        for folder in below.chain([folder]) {
            std::fs::create_dir_all(folder).map_err(|source| IoError::Create {
                url: folder.to_string_lossy().into_owned(),
                source,
            })?;
        }
    }
    let jobs = batch.jobs.clamp(1, pairs.len().max(1));
    let mut own = options.clone();
    own.write.threads = (options.write.threads / jobs).max(1);
    let next = AtomicUsize::new(0);
    let stopped = AtomicBool::new(false);
    let done: Mutex<HashMap<usize, Outcome>> = Mutex::default();
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some((input, output)) = pairs.get(at) else {
                break;
            };
            if stopped.load(Ordering::Relaxed) {
                break;
            }
            let tick = |now| !stopped.load(Ordering::Relaxed) && progress(at, now);
            // a file that is converted as a whole leaves nothing to others
            let is_part = input.path.is_some();
            let is_beside = |other: &Input| is_part && other.url == input.url;
            let beside = pairs.iter().filter(|(other, _)| is_beside(other));
            let options = ConvertOptions {
                elsewhere: beside.filter_map(|(it, _)| it.path.clone()).collect(),
                ..own.clone()
            };
            let outcome = one(input, output, options, batch.resume, &tick);
            let is_last = match &outcome {
                Outcome::Failed { .. } => !batch.skip_bad_files,
                Outcome::Interrupted => true,
                _ => false,
            };
            if is_last {
                stopped.store(true, Ordering::Relaxed);
            }
            done.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(at, outcome);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..jobs {
            scope.spawn(work);
        }
        work();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    let reports = pairs.into_iter().enumerate();
    let reports = reports.map(|(at, (input, output))| FileReport {
        input,
        output,
        outcome: done.remove(&at).unwrap_or(Outcome::NotTried),
    });
    Ok(reports.collect())
}

fn one(
    input: &Input,
    output: &Path,
    mut options: ConvertOptions,
    resume: bool,
    tick: &(dyn Fn(Progress) -> bool + Sync),
) -> Outcome {
    if resume && is_done(input, output, &options) {
        return Outcome::Kept;
    }
    if resume && options.replace == Replace::Own {
        options.replace = Replace::Left;
    }
    match convert_or_failed(std::slice::from_ref(input), output, &options, tick) {
        Ok(done) => Outcome::Converted(Box::new(done)),
        Err(failed) if failed.error.is_interrupted() => Outcome::Interrupted,
        Err(failed) => Outcome::Failed {
            n_entries: if failed.is_of_input {
                n_entries(input)
            } else {
                Some(0)
            },
            error: failed.error,
        },
    }
}

/// Whether the output exists, is not older than the input, and can be opened. Outputs of femtobarn are complete,
/// because they get their names last. If a server does not report the age of a file, the file is converted again.
fn is_done(input: &Input, output: &Path, options: &ConvertOptions) -> bool {
    let Ok((url, path)) = Destination::split(&output.to_string_lossy()) else {
        return false;
    };
    let made = Input {
        url,
        path,
        settings: options.settings.clone(),
    };
    let time = |input: &Input| input.open_source().ok()?.meta().modified;
    let is_newer = time(&made).is_some_and(|made| time(input).is_some_and(|given| made >= given));
    let is_equal = || match (&*parts::entries(&made).ok()?, &*parts::entries(input).ok()?) {
        ([(_, made)], [(_, given)]) => Some(made == given),
        // ntuples without selected fields are not included
        (made, given) => Some(!made.is_empty() && made.iter().all(|it| given.contains(it))),
    };
    is_newer && is_equal() == Some(true)
}

fn n_entries(input: &Input) -> Option<u64> {
    let files = [(input.url.clone(), input.path.clone())];
    let options = OpenOptions {
        settings: input.settings.clone(),
        ..OpenOptions::default()
    };
    let ntuple = NTuple::open(&files, options).ok()?;
    Some(ntuple.n_entries())
}

/// Each file with its output.
fn files(inputs: &[Input], folder: &str, format: Format) -> Vec<(Input, PathBuf)> {
    let pair = |(input, stem): (&Input, String)| {
        let name = match is_one_ntuple(&input.url) {
            true => stem,
            false => {
                let given = shown(Path::new(&input.url));
                let name = given.file_stem().unwrap_or_default();
                name.to_string_lossy().into_owned()
            }
        };
        let name = format!("{name}.{}", Choice::name(format));
        let output = PathBuf::from(file_of(folder, &name));
        (input.clone(), output)
    };
    inputs.iter().zip(stems(inputs)).map(pair).collect()
}

/// Each ntuple and tree of the files with its output in a directory of objects or in a container.
fn ntuples(
    inputs: &[Input],
    folder: &str,
    format: Format,
) -> Result<Vec<(Input, PathBuf)>, RNTupleError> {
    if format != Format::Root {
        return Err(RNTupleError::Usage {
            what: format!("{} gets ntuples, not tables", public(folder)),
        });
    }
    let mut out = Vec::with_capacity(inputs.len());
    for (input, stem) in inputs.iter().zip(stems(inputs)) {
        let mut pair = |path: Option<&str>, input: Input| {
            let output = ntuple_of(folder, (&input, &stem), path, inputs.len() > 1)?;
            out.push((input, PathBuf::from(output)));
            Ok::<_, RNTupleError>(())
        };
        let is_plain = is_one_ntuple(&input.url);
        if is_plain || Format::of(Path::new(&input.url)) != Format::Root {
            pair(None, input.clone())?;
            continue;
        }
        // a file that cannot be opened has an error in its report
        let found = Opened::new(input).and_then(|opened| opened.objects(input.path.as_deref()));
        let mut found = found.unwrap_or_default();
        found.retain(|(_, key)| holds_entries(key));
        if found.is_empty() {
            pair(None, input.clone())?;
        }
        for (path, _) in found {
            let own = Input {
                path: Some(path.clone()),
                ..input.clone()
            };
            pair(Some(&path), own)?;
        }
    }
    Ok(out)
}

/// Checks that no two have the same output.
fn check_outputs(pairs: &[(Input, PathBuf)]) -> Result<(), RNTupleError> {
    let mut seen: HashMap<&Path, String> = HashMap::new();
    for (input, output) in pairs {
        if let Some(other) = seen.insert(output, input.shown()) {
            let reason = format!(
                "{other} and {} would both be converted to {}: use different directories",
                input.shown(),
                shown(output).display()
            );
            return Err(misused(&input.shown(), reason));
        }
    }
    Ok(())
}
