//! Merging files: all ntuples of all inputs, joined by name, into one file that reuses the pages of the inputs wherever
//! possible.
//!
//! One input is open at a time. The report has the level of each part, and the reasons.

mod append;
mod attributes;
mod check;
mod histograms;
mod join;
mod options;
mod others;
mod paths;
mod precision;
mod proven;
mod report;
mod steps;
#[cfg(test)]
mod tests;
mod trees;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use femtobarn_io::{Settings, SourceInfo, is_object_set, is_remote};
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::{KnownHeader, Reader};
use femtobarn_rntuple::write::{
    Choose, Encodings, MergeOptions as PageOptions, NTupleMerger, Rebuild, WriteOptions,
};
use femtobarn_rootfile::{Key, without_cycle};

pub use femtobarn_rntuple::write::Levels;

pub use crate::inputs::{Entries, JoinOptions, OtherObjects, Unmatched};
pub use join::join;
pub use options::{Level, MergeOptions, check_output};
pub(crate) use report::levels_json;
pub use report::{MergeReport, MergedInput, MergedNTuple};
pub(crate) use steps::{Made, Part, make_in_steps, prove_made};

use self::append::Existing;
use attributes::{AttributeSets, Places};
use options::{check, if_taken};
use others::Content;
use paths::Paths;
use trees::Trees;

use crate::destination::Destination;
use crate::inputs::{Chooser, Chosen, Input, Opened, Scope, share};
use crate::left_behind::LeftBehind;
use crate::objects::RNTUPLE_CLASS;
use crate::proof::{ProofOptions, ProofReport};
use crate::staged::{StagedOutput, bytes_of, shown};
use crate::writable::{Output, local};
use histograms::{Sums, is_summed};

/// How far a merge is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Files that were added.
    pub files: usize,
    /// Files that there are.
    pub n_files: usize,
    /// Bytes of pages that were brought.
    pub bytes: u64,
    /// Bytes of the inputs.
    pub n_bytes: u64,
    /// Whether the output is being compared with the inputs, and `bytes` have been compared.
    pub verifying: bool,
    /// Whether the output is being sent to its server, and `bytes` have been sent.
    pub sending: bool,
}

impl Progress {
    /// Before anything is done. Sizes of files of servers are added when these are opened.
    fn of(inputs: &[Input]) -> Self {
        let found = |input: &Input| std::fs::metadata(local(&input.url)).ok();
        let sizes = inputs.iter().filter_map(found).map(|found| found.len());
        Self {
            n_files: inputs.len(),
            n_bytes: sizes.sum(),
            ..Self::default()
        }
    }

    /// Adds the size of an input that is of a server.
    fn add_remote(&mut self, source: SourceInfo<'_>) {
        // the size of objects is that of their numbers
        if is_remote(source.url) && !is_object_set(source.url) {
            self.n_bytes += source.meta.size;
        }
    }

    /// When so many bytes of an output are sent.
    fn sending(self, done: u64, of: u64) -> Self {
        Self {
            files: self.n_files,
            bytes: share(self.n_bytes, done, of),
            sending: true,
            ..self
        }
    }
}

/// The least time between two calls.
const INTERVAL: Duration = Duration::from_millis(50);

/// Called now and then; `false` stops the merge.
pub type OnProgress<'a> = &'a (dyn Fn(Progress) -> bool + Sync);

/// Merges files into one. It appears when it is complete; one that is added to has either all of the inputs or none.
///
/// # Errors
/// If inputs do not fit together, or something cannot be read or written: nothing appears then.
pub fn merge(
    inputs: &[Input],
    output: &Path,
    options: &MergeOptions,
    progress: OnProgress<'_>,
) -> Result<MergeReport, RNTupleError> {
    let start = Instant::now();
    let given = output;
    let Destination { url, naming } = Destination::parse(&output.to_string_lossy())?;
    let output = Path::new(&url);
    let options = &MergeOptions {
        naming,
        ..options.clone()
    };
    let settings = Settings::new(&url, options.settings.clone())?;
    check(inputs, output, options)?;
    let trees = Trees::new(output, &settings)?;
    let mut report = if options.append && output.exists() {
        let mut job = append::begin(output, options, trees)?;
        job.add_all(inputs, progress)?;
        let (report, file) = job.finish()?;
        file.finish()?;
        report
    } else {
        // what others make in the meantime is not replaced; if two merges append to a missing file, one of them creates
        // it
        let staged = StagedOutput::create(output, options.overwrite, &settings);
        let how = (options.words, options.takes_append);
        let mut staged = staged.map_err(|error| if_taken(error, output, how))?;
        make(inputs, &mut staged, options, trees, progress)?
    };
    if report.bytes_before.is_some() {
        report.bytes_out = std::fs::metadata(output).map_or(0, |found| found.len());
    }
    report.gather_left_behind();
    report.output = shown(given);
    report.seconds = start.elapsed().as_secs_f64();
    Ok(report)
}

/// Makes a new output, and has it appear.
fn make(
    inputs: &[Input],
    staged: &mut StagedOutput,
    options: &MergeOptions,
    trees: Trees,
    progress: OnProgress<'_>,
) -> Result<MergeReport, RNTupleError> {
    let file = staged.writer(options.write.compression)?;
    let mut job = Job::new(file, options, trees);
    let added = job.add_all(inputs, progress);
    let all = job.progress;
    let trees = std::mem::take(&mut job.trees);
    let made = added.and_then(|()| {
        let (report, file) = job.finish()?;
        staged.complete(file, options.verify)?;
        Ok(report)
    });
    let mut report = made.map_err(|error| staged.explain(error, all.n_bytes))?;
    if options.verify {
        report.proof = Some(match report.ntuples.is_empty() {
            true => ProofReport::default(),
            false => {
                let made = (&*staged, &*report.inputs);
                prove(inputs, made, options, &trees, (all, progress))?
            }
        });
    }
    drop(trees);
    let n_bytes = staged.n_bytes();
    let tick = |done| progress(all.sending(done, n_bytes));
    report.delivery = staged.appear(options.verify, &tick)?;
    report.bytes_out = bytes_of(report.delivery.as_ref(), n_bytes);
    Ok(report)
}

/// Proves an output before it appears. The reports of inputs with several ntuples tell their paths.
fn prove(
    inputs: &[Input],
    (staged, reports): (&StagedOutput, &[MergedInput]),
    options: &MergeOptions,
    trees: &Trees,
    (all, progress): (Progress, OnProgress<'_>),
) -> Result<ProofReport, RNTupleError> {
    trees.prove(inputs, options, all, progress)?;
    let proof = ProofOptions {
        entries: options.entries.clone(),
        threads: options.write.threads,
        ..ProofOptions::default()
    };
    let output = staged.input(None, &options.settings);
    let finder = |(at, input): (usize, &Input), path: &str| {
        let named = input.path.as_deref().map(without_cycle);
        let own = named.filter(|own| options.naming.name_of(own) == path);
        let own = own.or_else(|| reports.get(at)?.path_of(path));
        trees.find(&output, (at, input), own.unwrap_or(path))
    };
    proven::prove_staged(&output, inputs, &finder, proof, (all, false), progress)
}

/// A merge that is under way.
struct Job<'o> {
    file: Output,
    options: &'o MergeOptions,
    /// What trees were converted to.
    trees: Trees,
    /// By their paths.
    ntuples: Vec<(String, NTupleMerger)>,
    known: HashMap<String, usize>,
    /// Their attribute sets.
    attributes: HashMap<String, AttributeSets>,
    /// The headers of the ntuples of the last input.
    headers: HashMap<String, KnownHeader>,
    /// The contents of the output before.
    existing: Option<Existing>,
    /// Paths of everything.
    paths: Paths,
    /// Paths of other objects that were taken.
    taken: HashSet<String>,
    /// What other objects are known by, if all of a name must be the same.
    copied: HashMap<String, Content>,
    /// Paths of histograms of the checked inputs.
    summed: HashSet<String>,
    histograms: Sums,
    /// The top-level fields that are asked for, and numbers of the names and patterns that none fits.
    fields: Chosen<'o>,
    unmatched: BTreeSet<usize>,
    /// Names of `precision` that no ntuple has.
    unfitted: HashSet<&'o str>,
    /// The ntuples that entries are selected from.
    scope: Scope<'o>,
    report: MergeReport,
    progress: Progress,
}

impl<'o> Job<'o> {
    fn new(file: Output, options: &'o MergeOptions, trees: Trees) -> Self {
        Self {
            file,
            options,
            trees,
            ntuples: Vec::new(),
            known: HashMap::new(),
            attributes: HashMap::new(),
            headers: HashMap::new(),
            existing: None,
            paths: Paths::default(),
            taken: HashSet::new(),
            copied: HashMap::new(),
            summed: HashSet::new(),
            histograms: Sums::default(),
            fields: Chosen::new(&options.fields),
            unmatched: (0..options.fields.len()).collect(),
            unfitted: options
                .precision
                .iter()
                .map(|(name, _)| name.as_str())
                .collect(),
            scope: Scope::new(&options.entries),
            report: MergeReport::default(),
            progress: Progress::default(),
        }
    }

    fn add_all(&mut self, inputs: &[Input], progress: OnProgress<'_>) -> Result<(), RNTupleError> {
        self.progress = Progress::of(inputs);
        self.check_all(inputs, progress)?;
        for (at, input) in inputs.iter().enumerate() {
            self.add(at, input, progress)?;
            self.progress.files += 1;
            if !progress(self.progress) {
                return Err(RNTupleError::Interrupted);
            }
        }
        Ok(())
    }

    /// Adds the ntuples and histograms of a file, or one of it; other objects were copied during the check.
    fn add(
        &mut self,
        at: usize,
        input: &Input,
        progress: OnProgress<'_>,
    ) -> Result<(), RNTupleError> {
        let mut opened = Opened::new(input)?;
        self.trees.give(at, &mut opened)?;
        let merged = self.report.inputs.get_mut(at);
        let mut merged = merged.map(std::mem::take).unwrap_or_default();
        for (own, key) in opened.objects(input.path.as_deref())? {
            let path = self.name_of(&own, &key);
            if key.class_name == RNTUPLE_CLASS && !self.known.contains_key(&path) {
                // none of its selected fields is in a file
                let reason = "no field of it is selected";
                let item = LeftBehind::object(&own, &key.class_name, reason);
                merged.left.push(item);
            } else if key.class_name == RNTUPLE_CLASS {
                self.add_ntuple(&opened, (&path, &own), &key, &mut merged, progress)?;
            } else if is_summed(&key) && self.takes_others() {
                self.add_histogram(&opened, &path, &key, &mut merged)?;
            }
        }
        if let Some(place) = self.report.inputs.get_mut(at) {
            *place = merged;
        }
        Ok(())
    }

    fn add_ntuple(
        &mut self,
        opened: &Opened,
        (path, own): (&str, &str),
        key: &Key,
        merged: &mut MergedInput,
        progress: OnProgress<'_>,
    ) -> Result<(), RNTupleError> {
        let options = self.options;
        let reader = Arc::new(self.reader(opened, (path, own), key)?);
        if !opened.is_converted(own) {
            self.trees.check_names(&reader)?;
        }
        let at = self.begun(&reader, path)?;
        let Some((_, ntuple)) = self.ntuples.get_mut(at) else {
            return Err(RNTupleError::internal(
                "internal error: this ntuple was not started",
            ));
        };
        let bytes = AtomicU64::new(self.progress.bytes);
        let last = Mutex::new(Instant::now());
        let now = self.progress;
        let tick = |n| {
            let bytes = bytes.fetch_add(n, Ordering::Relaxed) + n;
            let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
            if last.elapsed() < INTERVAL {
                return true;
            }
            *last = Instant::now();
            progress(Progress { bytes, ..now })
        };
        let chooser = Chooser::new(self.scope.of(path), &reader, options.write.threads)?;
        let mut taken = Vec::new();
        let mut choose = chooser.as_ref().map(|chooser| {
            |range| {
                if !tick(0) {
                    return Err(RNTupleError::Interrupted);
                }
                let chosen = chooser.choose(range)?;
                taken.extend_from_slice(&chosen);
                Ok(chosen)
            }
        });
        let first = ntuple.n_entries();
        let choose = choose.as_mut().map(|choose| choose as Choose<'_>);
        let takes = |name: &str| self.fields.takes(path, name);
        self.file.turn_to(path);
        let added = ntuple.add(&mut self.file, &reader, &takes, choose, &tick)?;
        self.progress.bytes = bytes.into_inner();
        if self.options.level == Level::L0 {
            insist_on_sharing(&reader, &added.levels)?;
        }
        if chooser.is_none() {
            taken.push(0..reader.n_entries());
        }
        let places = Places::new(taken, first);
        let sets = self.attributes.entry(path.to_owned()).or_default();
        sets.add(&reader, &places, options.others, merged)?;
        merged.ntuples.push((path.to_owned(), added));
        Ok(())
    }

    /// The path in the output of an object of an input.
    fn name_of(&self, own: &str, key: &Key) -> String {
        match key.class_name == RNTUPLE_CLASS {
            true => self.options.naming.name_of(own).to_owned(),
            false => own.to_owned(),
        }
    }

    /// Whether the output can have other things than ntuples.
    fn takes_others(&self) -> bool {
        matches!(self.file, Output::File(_))
    }

    /// Opens an ntuple; most files have the same header as the last one, which is kept until then.
    fn reader(
        &mut self,
        opened: &Opened,
        (path, own): (&str, &str),
        key: &Key,
    ) -> Result<Reader, RNTupleError> {
        let reader = opened.reader(own, key)?;
        self.headers
            .insert(path.to_owned(), reader.header().clone());
        Ok(reader)
    }

    /// The ntuple of this path in the output.
    fn begun(&mut self, reader: &Reader, path: &str) -> Result<usize, RNTupleError> {
        match self.known.get(path) {
            Some(&at) => Ok(at),
            None => match self.resume(path)? {
                Some(at) => Ok(at),
                None => self.begin(reader, path),
            },
        }
    }

    /// Begins an ntuple with the schema of this one.
    fn begin(&mut self, first: &Reader, path: &str) -> Result<usize, RNTupleError> {
        let descriptor = first.descriptor();
        if let Some(skipped) = descriptor
            .skipped
            .iter()
            .find(|skipped| self.fields.takes(path, &skipped.name))
        {
            let reason = format!(
                "{}; select the other fields to leave it out",
                skipped.reason
            );
            return Err(first.unsupported(&skipped.name, &reason));
        }
        let mut top_level = descriptor.top_level.clone();
        top_level.retain(|&id| self.fields.takes(path, descriptor.field_name(id)));
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let directory = self.file.directory(folder)?;
        let write = WriteOptions {
            description: descriptor.description.clone(),
            ..self.options.write.clone()
        };
        let pages = page_options((self.options, self.scope.of(path)), first, write);
        for reals in &pages.encodings.reals {
            self.unfitted.remove(reals.name.as_str());
        }
        let merger =
            NTupleMerger::new(&mut self.file, (directory, name), first, &top_level, pages)?;
        Ok(self.push(path, merger))
    }

    fn push(&mut self, path: &str, ntuple: NTupleMerger) -> usize {
        let at = self.ntuples.len();
        self.known.insert(path.to_owned(), at);
        self.ntuples.push((path.to_owned(), ntuple));
        at
    }

    /// Completes all ntuples; returns the output, which is to be finished.
    fn finish(mut self) -> Result<(MergeReport, Output), RNTupleError> {
        // an append may find that nothing is new
        let is_kept = self.existing.is_some() && self.options.others == OtherObjects::First;
        let mut inputs = self.report.inputs.iter();
        let is_known = is_kept && inputs.any(|input| !input.left.is_empty());
        let is_known = is_known || !self.copied.is_empty();
        if self.ntuples.is_empty() && self.taken.is_empty() && !is_known {
            return Err(RNTupleError::Usage {
                what: format!(
                    "nothing to merge in {}: it has no RNTuple{}",
                    self.report
                        .inputs
                        .iter()
                        .map(|input| input.url.as_str())
                        .take(3)
                        .collect::<Vec<_>>()
                        .join(", "),
                    match self.takes_others() {
                        true => ", TTree or histogram",
                        false => " or TTree",
                    }
                ),
            });
        }
        for (path, mut ntuple) in std::mem::take(&mut self.ntuples) {
            self.file.turn_to(&path);
            if let Some(sets) = self.attributes.get(&path) {
                sets.write(&mut self.file, &mut ntuple)?;
            }
            let inputs = self.report.inputs.iter_mut();
            let added = inputs.flat_map(|input| &mut input.ntuples);
            for (_, merged) in added.filter(|(own, _)| *own == path) {
                merged.missing = ntuple.missing_in(merged);
            }
            let n_before = self.n_before(&path);
            let n_entries = ntuple.finish(&mut self.file)?;
            let merged = MergedNTuple {
                n_entries,
                n_before,
                is_whole: self.scope.is_whole(&path),
            };
            self.report.ntuples.insert(path, merged);
        }
        self.report.histograms = self.histograms.len();
        let settings = self.options.write.compression;
        if self.report.histograms > 0 {
            self.histograms.finish(self.file.root_file()?, settings)?;
        }
        self.report.shared_bytes = self.report.shared_in(&self.file);
        Ok((self.report, self.file))
    }
}

/// Treatment of the pages of an ntuple.
fn page_options(
    (options, entries): (&MergeOptions, &Entries),
    first: &Reader,
    write: WriteOptions,
) -> PageOptions {
    let is_compressed = options
        .compression
        .is_none_or(|settings| !settings.is_multiple_of(100));
    PageOptions {
        mode: options.mode,
        share: matches!(options.level, Level::Auto | Level::L0),
        // a clone is independent of its input
        refers: options.takes_append && matches!(options.level, Level::Auto | Level::L0),
        sketches: false,
        compression: options.compression,
        encodings: Encodings {
            split: options
                .split
                .or((options.level == Level::L3).then_some(is_compressed)),
            reals: precision::resolve(&options.precision, first),
        },
        rebuild: match (options.level, entries) {
            (Level::L4, _) if options.keep_clusters => Rebuild::Pages,
            (Level::L4, _) => Rebuild::Always,
            (_, Entries::Where(_)) => Rebuild::Gathered,
            (Level::L0 | Level::L1 | Level::L2, Entries::All) => Rebuild::Never,
            _ => Rebuild::Needed,
        },
        chooses: !entries.are_all(),
        compatible: options.compatible,
        write,
    }
}

fn insist_on_sharing(reader: &Reader, levels: &Levels) -> Result<(), RNTupleError> {
    let others = levels.recompressed + levels.reencoded;
    if levels.refused == 0 && others == 0 && (levels.shared > 0 || levels.copied < 1 << 20) {
        return Ok(());
    }
    let why = if others > 0 {
        "some of its pages must be rebuilt"
    } else {
        "the file system cannot share blocks between it and the output"
    };
    Err(RNTupleError::Usage {
        what: format!("{} cannot be merged at level L0: {why}", reader.url()),
    })
}
