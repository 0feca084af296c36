//! Merging files: all ntuples of all inputs, joined by name, into one file whose pages are those of the inputs wherever they
//! can be.
//!
//! One input is open at a time. What was brought at which level is in the report, and why.

mod report;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use femtobarn_io::{Aside, ByteSource, HeldSource};
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::{Reader, ReaderOptions};
use femtobarn_rntuple::write::{MergeOptions as PageOptions, Mode, NTupleMerger, WriteOptions};
use femtobarn_rootfile::{FileWriter, Key, RootFile};

pub use report::{MergeReport, MergedInput, MergedNTuple};

use crate::convert::{Input, check_apart, check_inputs};
use crate::open::{HEAD, RNTUPLE_CLASS, TAIL, open_source, reader_of};
use crate::pattern::matches;
use crate::writable::{create_beside, local};

/// What is done with pages, by the levels of ROOT's `tree/ntuple/doc/Merging.md`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Level {
    /// The cheapest that keeps the result right, for each input.
    #[default]
    Auto,
    /// They share the blocks of the input's file; an error where they cannot.
    L0,
    /// They are copied.
    L1,
    /// They are decompressed and compressed where their settings are others.
    L2,
}

/// What is done with objects that are neither ntuples nor directories.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Others {
    /// The first of each name is taken.
    First,
    /// They are an error.
    #[default]
    Error,
    /// They are left out.
    Drop,
}

/// How files are merged.
#[derive(Debug, Clone)]
pub struct MergeOptions {
    /// What is done with pages.
    pub level: Level,
    /// Which fields the inputs must have.
    pub mode: Mode,
    /// Patterns (`*`, `?`) of the top-level fields to take; all if empty.
    pub fields: Vec<String>,
    /// Settings that all pages are to have; none: each keeps its own.
    pub compression: Option<u32>,
    /// Only what ROOT 6.40 and uproot 5.7 read is written: columns get no further representations.
    pub compatible: bool,
    /// What is done with objects that are neither ntuples nor directories.
    pub others: Others,
    /// Whether the output replaces what is there.
    pub overwrite: bool,
    /// How metadata and new pages are written; its threads are those of the whole merge.
    pub write: WriteOptions,
}

impl Default for MergeOptions {
    fn default() -> Self {
        Self {
            level: Level::default(),
            mode: Mode::default(),
            fields: Vec::new(),
            compression: None,
            compatible: true,
            others: Others::default(),
            overwrite: false,
            write: WriteOptions::default(),
        }
    }
}

/// How far a merge is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pulse {
    /// Files that were added.
    pub files: usize,
    /// Files that there are.
    pub n_files: usize,
    /// Bytes of pages that were brought.
    pub bytes: u64,
    /// Bytes of the inputs.
    pub n_bytes: u64,
}

/// The least time between two calls.
const INTERVAL: Duration = Duration::from_millis(50);

/// Called now and then; `false` stops the merge.
pub type OnPulse<'a> = &'a (dyn Fn(Pulse) -> bool + Sync);

/// Merges files into one. It appears when it is complete.
///
/// # Errors
/// If inputs do not fit together, or something cannot be read or written: nothing appears then.
pub fn merge(
    inputs: &[Input],
    output: &Path,
    options: &MergeOptions,
    pulse: OnPulse<'_>,
) -> Result<MergeReport, RNTupleError> {
    let start = Instant::now();
    check(inputs, output, options)?;
    let mut unseen = Aside::create(output, true)?;
    let mut job = Job::new(create_beside(&unseen, options.write.compression)?, options);
    job.pulse.n_files = inputs.len();
    let sizes = inputs
        .iter()
        .filter_map(|input| std::fs::metadata(local(&input.url)).ok());
    job.pulse.n_bytes = sizes.map(|found| found.len()).sum();
    for input in inputs {
        job.add(input, pulse)?;
        job.pulse.files += 1;
        if !pulse(job.pulse) {
            return Err(RNTupleError::Interrupted);
        }
    }
    let mut report = job.finish()?;
    report.bytes_out = std::fs::metadata(unseen.path()).map_or(0, |found| found.len());
    unseen.appear()?;
    report.output = output.to_owned();
    report.seconds = start.elapsed().as_secs_f64();
    Ok(report)
}

fn check(inputs: &[Input], output: &Path, options: &MergeOptions) -> Result<(), RNTupleError> {
    let misused = |what: String| RNTupleError::Usage { what };
    if inputs.is_empty() {
        return Err(misused("there is nothing to merge".to_owned()));
    }
    check_inputs(inputs)?;
    check_apart(inputs, output)?;
    if options.level == Level::L2 && options.compression.is_none() {
        return Err(misused(
            "level L2 recompresses: give the compression".to_owned(),
        ));
    }
    if matches!(options.level, Level::L0 | Level::L1) && options.compression.is_some() {
        let what = format!(
            "level {:?} leaves pages as they are: give no compression",
            options.level
        );
        return Err(misused(what));
    }
    if output.exists() && !options.overwrite {
        let what = format!(
            "{:?} is there already: give another name, or say that it may be replaced (overwrite=True, --force)",
            output.to_string_lossy()
        );
        return Err(misused(what));
    }
    Ok(())
}

/// A merge that is under way.
struct Job<'o> {
    file: FileWriter,
    options: &'o MergeOptions,
    /// By their paths.
    ntuples: Vec<(String, NTupleMerger)>,
    known: HashMap<String, usize>,
    /// Paths of other objects that were taken.
    taken: HashSet<String>,
    unmatched: HashSet<&'o str>,
    report: MergeReport,
    pulse: Pulse,
}

/// An input that is open.
struct Opened {
    source: Arc<dyn ByteSource>,
    metadata: Arc<dyn ByteSource>,
    file: RootFile,
}

impl<'o> Job<'o> {
    fn new(file: FileWriter, options: &'o MergeOptions) -> Self {
        Self {
            file,
            options,
            ntuples: Vec::new(),
            known: HashMap::new(),
            taken: HashSet::new(),
            unmatched: options.fields.iter().map(String::as_str).collect(),
            report: MergeReport::default(),
            pulse: Pulse::default(),
        }
    }

    /// Adds all that is in a file, or one ntuple of it.
    fn add(&mut self, input: &Input, pulse: OnPulse<'_>) -> Result<(), RNTupleError> {
        let source = open_source(&input.url)?;
        let metadata: Arc<dyn ByteSource> = HeldSource::with_ends(source.clone(), HEAD, TAIL)?;
        let file = RootFile::open(metadata.clone())?;
        let opened = Opened {
            source,
            metadata,
            file,
        };
        let mut merged = MergedInput::of(&input.url);
        for (path, key) in wanted(&opened.file, input.path.as_deref())? {
            if key.is_directory() {
                self.file.directory(&path)?;
            } else if key.class_name == RNTUPLE_CLASS {
                self.add_ntuple(&opened, &path, &key, &mut merged, pulse)?;
            } else {
                self.add_other(&opened, &path, &key, &mut merged)?;
            }
        }
        self.report.inputs.push(merged);
        Ok(())
    }

    fn add_ntuple(
        &mut self,
        opened: &Opened,
        path: &str,
        key: &Key,
        merged: &mut MergedInput,
        pulse: OnPulse<'_>,
    ) -> Result<(), RNTupleError> {
        let options = self.options;
        let reader = reader_of(
            opened.source.clone(),
            &*opened.metadata,
            &opened.file,
            path,
            key,
            ReaderOptions::default(),
        )?;
        for &id in &reader.descriptor().top_level {
            let name = reader.descriptor().field_name(id);
            self.unmatched.retain(|pattern| !matches(pattern, name));
        }
        self.refuse_attribute_sets(&reader, path, merged)?;
        let at = match self.known.get(path) {
            Some(&at) => at,
            None => self.begin(&reader, path)?,
        };
        let Some((_, ntuple)) = self.ntuples.get_mut(at) else {
            return Err(RNTupleError::internal("an ntuple that was not begun"));
        };
        let bytes = AtomicU64::new(self.pulse.bytes);
        let last = Mutex::new(Instant::now());
        let now = self.pulse;
        let tick = |n| {
            let bytes = bytes.fetch_add(n, Ordering::Relaxed) + n;
            let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
            if last.elapsed() < INTERVAL {
                return true;
            }
            *last = Instant::now();
            pulse(Pulse { bytes, ..now })
        };
        let added = ntuple.add(&mut self.file, &reader, &|name| takes(options, name), &tick)?;
        self.pulse.bytes = bytes.into_inner();
        if self.options.level == Level::L0 {
            insist_on_sharing(&reader, &added.levels)?;
        }
        merged.ntuples.push((path.to_owned(), added));
        Ok(())
    }

    /// Attribute sets speak of entries by their numbers, which are others in the output.
    fn refuse_attribute_sets(
        &self,
        reader: &Reader,
        path: &str,
        merged: &mut MergedInput,
    ) -> Result<(), RNTupleError> {
        let sets = &reader.descriptor().attribute_sets;
        match (sets.first(), self.options.others) {
            (Some(set), Others::Error) => Err(RNTupleError::Usage {
                what: format!(
                    "{}:{path} has an attribute set {:?}, and these are not merged: leave them out with others=\"drop\"",
                    reader.url(),
                    set.name
                ),
            }),
            _ => {
                let named = |name: &str| (format!("{path} {name}"), "attribute set".to_owned());
                merged
                    .dropped
                    .extend(sets.iter().map(|set| named(&set.name)));
                Ok(())
            }
        }
    }

    /// Begins an ntuple with the schema of this one.
    fn begin(&mut self, first: &Reader, path: &str) -> Result<usize, RNTupleError> {
        let descriptor = first.descriptor();
        if let Some(skipped) = descriptor
            .skipped
            .iter()
            .find(|skipped| takes(self.options, &skipped.name))
        {
            let reason = format!("{}; name the other fields to leave it out", skipped.reason);
            return Err(first.unsupported(&skipped.name, &reason));
        }
        let mut top_level = descriptor.top_level.clone();
        top_level.retain(|&id| takes(self.options, descriptor.field_name(id)));
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let directory = self.file.directory(folder)?;
        let write = WriteOptions {
            description: descriptor.description.clone(),
            ..self.options.write.clone()
        };
        let pages = PageOptions {
            mode: self.options.mode,
            share: matches!(self.options.level, Level::Auto | Level::L0),
            compression: self.options.compression,
            compatible: self.options.compatible,
            write,
        };
        let merger =
            NTupleMerger::new(&mut self.file, (directory, name), first, &top_level, pages)?;
        let at = self.ntuples.len();
        self.known.insert(path.to_owned(), at);
        self.ntuples.push((path.to_owned(), merger));
        Ok(at)
    }

    fn add_other(
        &mut self,
        opened: &Opened,
        path: &str,
        key: &Key,
        merged: &mut MergedInput,
    ) -> Result<(), RNTupleError> {
        match self.options.others {
            Others::Drop => merged
                .dropped
                .push((path.to_owned(), key.class_name.clone())),
            Others::Error => {
                let url = opened.source.url();
                return Err(RNTupleError::Usage {
                    what: format!(
                        "{url} has a {} called {path:?}, which is no RNTuple: say what is to be done with such objects (others=\"first\" takes the first of each name, \"drop\" leaves them out)",
                        key.class_name
                    ),
                });
            }
            Others::First if self.taken.contains(path) => {
                merged
                    .dropped
                    .push((path.to_owned(), key.class_name.clone()));
            }
            Others::First => {
                let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
                let directory = self.file.directory(folder)?;
                let object = opened.file.read_object(key)?;
                for info in opened.file.streamer_infos()? {
                    self.file.add_streamer_info(info);
                }
                let names = (key.class_name.as_str(), name, key.title.as_str());
                let settings = self.options.write.compression;
                self.file
                    .write_object(directory, names, &object, settings)?;
                self.taken.insert(path.to_owned());
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<MergeReport, RNTupleError> {
        if let Some(pattern) = self.unmatched.iter().next() {
            return Err(RNTupleError::Usage {
                what: format!("no field fits {pattern:?}"),
            });
        }
        if self.ntuples.is_empty() && self.taken.is_empty() {
            return Err(RNTupleError::Usage {
                what: "there is nothing to merge in these files".to_owned(),
            });
        }
        for (path, ntuple) in self.ntuples {
            let n_entries = ntuple.finish(&mut self.file)?;
            self.report.ntuples.insert(path, MergedNTuple { n_entries });
        }
        let places = self.report.inputs.iter().flat_map(|input| &input.ntuples);
        let places = places.flat_map(|(_, merged)| &merged.places);
        self.report.shared_bytes = places
            .map(|place| self.file.sink().shared_bytes(place))
            .sum::<Option<u64>>();
        self.file.finish()?;
        Ok(self.report)
    }
}

/// Whether a top-level field is asked for.
fn takes(options: &MergeOptions, name: &str) -> bool {
    let patterns = &options.fields;
    patterns.is_empty() || patterns.iter().any(|pattern| matches(pattern, name))
}

/// The newest cycle of all that is in a file, or of one object of it.
fn wanted(file: &RootFile, path: Option<&str>) -> Result<Vec<(String, Key)>, RNTupleError> {
    if let Some(path) = path {
        let key = file.find(path)?;
        let path = path.split(';').next().unwrap_or_default();
        return Ok(vec![(path.trim_matches('/').to_owned(), key)]);
    }
    let mut newest: BTreeMap<String, usize> = BTreeMap::new();
    let mut out: Vec<(String, Key)> = Vec::new();
    for entry in file.walk()? {
        match newest.get(&entry.path).and_then(|&at| out.get_mut(at)) {
            Some((_, known)) if known.cycle < entry.key.cycle => *known = entry.key,
            Some(_) => {}
            None => {
                newest.insert(entry.path.clone(), out.len());
                out.push((entry.path, entry.key));
            }
        }
    }
    Ok(out)
}

fn insist_on_sharing(
    reader: &Reader,
    levels: &femtobarn_rntuple::write::Levels,
) -> Result<(), RNTupleError> {
    let others = levels.recompressed + levels.reencoded;
    if levels.refused == 0 && others == 0 && (levels.shared > 0 || levels.copied < 1 << 20) {
        return Ok(());
    }
    let why = if others > 0 {
        "some of its pages must be made anew"
    } else {
        "the file system does not share blocks between it and the output"
    };
    Err(RNTupleError::Usage {
        what: format!("{} cannot be merged at level L0: {why}", reader.url()),
    })
}
