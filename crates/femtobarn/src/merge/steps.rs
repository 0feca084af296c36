//! Makes an output step by step: each step ends at a border of clusters, and can be continued if the process is killed.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use femtobarn_io::Settings;
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::write::Levels;
use femtobarn_rootfile::Uuid;

use super::proven::prove_staged;
use super::trees::Trees;
use super::{Job, MergeOptions, OnProgress, Progress, append, options, prove};
use crate::inputs::{Entries, Input, wanted};
use crate::objects::RNTUPLE_CLASS;
use crate::proof::{ProofOptions, ProofReport, find_meant};
use crate::staged::{Delivery, StagedOutput, bytes_of};

/// An ntuple of an output, with its input.
#[derive(Debug)]
pub(crate) struct Part {
    /// The input, with the path of the ntuple.
    pub input: Input,
    /// The path of the ntuple in the output.
    pub name: String,
    /// The ranges of entries that are taken in a step each, one after another.
    pub steps: Vec<Range<u64>>,
}

impl Part {
    /// Number of entries to be taken.
    pub fn n_entries(&self) -> u64 {
        let entries = self.entries();
        entries.end - entries.start
    }

    /// What is left to do if so many entries are done; none if the output has no ntuple yet.
    fn left(&self, done: Option<u64>) -> impl Iterator<Item = Range<u64>> {
        let next = self.entries().start + done.unwrap_or(0);
        let steps = self.steps.iter();
        steps.filter_map(move |step| match done {
            Some(_) if step.end <= next => None,
            _ => Some(step.start.max(next)..step.end),
        })
    }

    /// The entries of a step. If it has all of them, none are selected, so that the pages of all columns are kept.
    fn chosen(&self, step: &Range<u64>, given: &MergeOptions) -> Entries {
        if *step == self.entries() {
            return given.entries.clone();
        }
        let number = |entry| i64::try_from(entry).ok();
        Entries::Slice {
            start: number(step.start),
            stop: number(step.end),
        }
    }

    fn entries(&self) -> Range<u64> {
        let first = self.steps.first().map_or(0, |step| step.start);
        let end = self.steps.last().map_or(0, |step| step.end);
        first..end
    }
}

/// What was made in steps.
#[derive(Debug, Default)]
pub(crate) struct Made {
    /// Bytes by level, of this process.
    pub levels: Levels,
    /// Numbers of entries by ntuple.
    pub n_entries: BTreeMap<String, u64>,
    /// How many of them were there when the output was continued.
    pub n_before: u64,
    /// Size of the output.
    pub bytes_out: u64,
    pub proof: Option<ProofReport>,
    pub delivery: Option<Delivery>,
}

/// Makes an output from its parts, or goes on with it. With `mark`, it is recognized.
///
/// # Errors
/// As for a merge; the steps that are complete remain.
pub(crate) fn make_in_steps(
    parts: &[Part],
    output: &Path,
    given: &MergeOptions,
    (resumes, mark): (bool, Uuid),
    progress: OnProgress<'_>,
) -> Result<Made, RNTupleError> {
    let inputs: Vec<Input> = parts.iter().map(|part| part.input.clone()).collect();
    let settings = Settings::new(&output.to_string_lossy(), given.settings.clone())?;
    options::check(&inputs, output, given)?;
    let replaces = given.overwrite;
    let staged = StagedOutput::in_steps(output, (replaces, resumes), &settings, mark);
    let (mut staged, mut is_begun) =
        staged.map_err(|error| options::if_taken(error, output, (given.words, false)))?;
    let mut made = Made::default();
    let done = match is_begun {
        true => entries_of(&staged)?,
        false => BTreeMap::new(),
    };
    made.n_before = done.values().sum();
    let steps = parts.iter().zip(inputs.chunks(1));
    let steps = steps.flat_map(|(part, input)| {
        let left = part.left(done.get(&part.name).copied());
        left.map(move |step| (input, part.chosen(&step, given)))
    });
    let steps: Vec<(&[Input], Entries)> = steps.collect();
    let mut all = Progress::of(&inputs);
    let n_steps = steps.len();
    for (at, (inputs, entries)) in steps.into_iter().enumerate() {
        let is_last = at + 1 == n_steps;
        let options = MergeOptions {
            entries,
            ..given.clone()
        };
        let before = all;
        let tick = |now: Progress| {
            progress(Progress {
                bytes: before.bytes + now.bytes,
                n_bytes: before.n_bytes.max(now.n_bytes),
                ..before
            })
        };
        let trees = Trees::new(output, &settings)?;
        let mut job = match is_begun {
            true => append::proceed(staged.reopen()?, &options, trees)?,
            false => {
                let writer = staged.marked_writer(options.write.compression, mark)?;
                Job::new(writer, &options, trees)
            }
        };
        job.add_all(inputs, &tick)?;
        all.bytes += job.progress.bytes;
        all.n_bytes = all.n_bytes.max(job.progress.n_bytes);
        let (report, file) = job.finish()?;
        match is_last {
            true => staged.complete(file, given.verify)?,
            false => staged.checkpoint(file)?,
        }
        is_begun = true;
        made.levels = made.levels.and(report.levels());
        let paths = report.ntuples.into_iter();
        made.n_entries
            .extend(paths.map(|(path, ntuple)| (path, ntuple.n_entries)));
    }
    for (path, n) in done {
        made.n_entries.entry(path).or_insert(n);
    }
    all.files = all.n_files;
    if given.verify {
        let trees = Trees::new(output, &settings)?;
        made.proof = Some(prove(
            &inputs,
            (&staged, &[]),
            given,
            &trees,
            (all, progress),
        )?);
    }
    let n_bytes = staged.n_bytes();
    let tick = |sent| progress(all.sending(sent, n_bytes));
    made.delivery = staged.appear(given.verify, &tick)?;
    made.bytes_out = bytes_of(made.delivery.as_ref(), n_bytes);
    Ok(made)
}

/// Compares an output that was made before with its parts.
///
/// # Errors
/// If something cannot be read, or differs.
pub(crate) fn prove_made(
    parts: &[Part],
    url: &str,
    given: &MergeOptions,
    progress: OnProgress<'_>,
) -> Result<ProofReport, RNTupleError> {
    let inputs: Vec<Input> = parts.iter().map(|part| part.input.clone()).collect();
    let all = Progress::of(&inputs);
    let mut report = ProofReport::default();
    for (part, input) in parts.iter().zip(inputs.chunks(1)) {
        let output = Input {
            url: url.to_owned(),
            path: Some(part.name.clone()),
            settings: given.settings.clone(),
        };
        let options = ProofOptions {
            entries: given.entries.clone(),
            threads: given.write.threads,
            ..ProofOptions::default()
        };
        let finder = |(_, input): (usize, &Input), path: &str| find_meant(&output, input, path);
        let all = (all, true);
        let proof = prove_staged(&output, input, &finder, options, all, progress)?;
        report.ntuples.extend(proof.ntuples);
    }
    Ok(report)
}

/// The ntuples of an output that is continued, and their numbers of entries.
fn entries_of(staged: &StagedOutput) -> Result<BTreeMap<String, u64>, RNTupleError> {
    let opened = staged.so_far()?;
    let mut out = BTreeMap::new();
    for (path, key) in wanted(&opened.file, None)? {
        if key.class_name == RNTUPLE_CLASS {
            let n_entries = opened.reader(&path, &key)?.n_entries();
            out.insert(path, n_entries);
        }
    }
    Ok(out)
}
