//! Files into an event store: the entries of RNTuples and TTrees become events, and their fields products.
//!
//! An [`Ingest`] knows which files a dataset lacks, writes events with products ([`Chunk`]) and treats products that
//! exist, and notes complete files in the dataset. It reads ROOT files itself; readers of other formats give it chunks.
//!
//! **Invariant.** After an interruption the same files give the same result. Memory holds a few chunks for each file
//! that is read, and 8 bytes for each entry while its numbers are checked.

mod advice;
mod choose;
mod columns;
mod files;
mod numbers;
mod open;
mod options;
mod plan;
mod read;
mod readers;
mod report;
mod steps;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::ArrayRef;
use femtobarn_events::{DataSet, Descriptor};
use femtobarn_io::units::plural;

pub(crate) use files::is_file_note;
pub use files::{FileKind, IngestFile};
pub use options::{IngestOptions, OnConflict, plain_namespace};
pub use read::Done;
pub use report::IngestReport;

use crate::products::{ClassNote, Form, Types};
use crate::transfer::{NUMBERS, TransferError, quoted, shortened};
use report::left_out;

/// Bytes of files for which several are read at once.
const WORTH: u64 = 64 << 20;

const EMPTY: &str = "no events found in the file";

/// Containers of one file, in order, with products by columns.
#[derive(Debug, Clone)]
pub struct Chunk {
    /// Events; or runs, subruns, or the dataset.
    pub containers: Vec<Descriptor>,
    /// Their products.
    pub products: Vec<Product>,
    /// Whether the containers are created; the dataset exists.
    pub is_created: bool,
}

/// Products of one label and type.
#[derive(Debug, Clone)]
pub struct Product {
    /// The label.
    pub label: String,
    /// The type.
    pub type_name: String,
    /// The classes in the type.
    pub classes: Vec<ClassNote>,
    /// What the values are.
    pub form: Form,
    /// One value for each container.
    pub values: ArrayRef,
}

/// A warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// Something is left out.
    Unreadable(String),
    /// Anything else.
    Note(String),
}

impl Warning {
    /// Its text.
    pub fn text(&self) -> &str {
        match self {
            Self::Unreadable(text) | Self::Note(text) => text,
        }
    }
}

/// Called with the bytes done and in all; `false` ends the work.
pub type OnIngest<'a> = &'a dyn Fn(u64, u64) -> bool;

/// Reads the classes of a file that this does not read.
pub type ClassesOf<'a> = &'a dyn Fn(&IngestFile) -> Result<Vec<ClassNote>, TransferError>;

/// Files that are brought into a dataset.
#[derive(Debug)]
pub struct Ingest {
    dataset: DataSet,
    types: Arc<Types>,
    options: Arc<IngestOptions>,
    report: IngestReport,
    files: Vec<IngestFile>,
    /// The files to read, by their numbers; the others are in the dataset.
    todo: Vec<usize>,
    unexpected: Vec<(String, String)>,
    warnings: Vec<Warning>,
    /// Notes, with the files.
    notes: Vec<(String, Vec<String>)>,
    empty: Vec<String>,
    /// The types of each label, with a file that has it so.
    kinds: BTreeMap<String, Vec<(String, String)>>,
    /// Bytes of complete files.
    done: u64,
    started: Instant,
}

impl Ingest {
    /// Finds out which of some files (path, name of the ntuple) a dataset lacks.
    ///
    /// # Errors
    /// If a file cannot be read or is of neither format, or if options do not apply to it.
    pub fn new(
        dataset: &DataSet,
        types: &Arc<Types>,
        files: &[(String, Option<String>)],
        options: IngestOptions,
    ) -> Result<Self, TransferError> {
        let options = options.checked()?;
        let mut own = Self {
            dataset: dataset.clone(),
            types: types.clone(),
            options: Arc::new(options),
            report: IngestReport::default(),
            files: Vec::new(),
            todo: Vec::new(),
            unexpected: Vec::new(),
            warnings: Vec::new(),
            notes: Vec::new(),
            empty: Vec::new(),
            kinds: BTreeMap::new(),
            done: 0,
            started: Instant::now(),
        };
        for (path, name) in files {
            let (name, kind) = (name.as_deref(), FileKind::of(path)?);
            let file = IngestFile::new(path, name, kind, dataset, &own.options)?;
            let is_same = |known: &IngestFile| known.label == file.label && known.name == file.name;
            if own.files.iter().any(is_same) {
                continue;
            }
            match !own.options.again && file.is_done(dataset, &own.options)? {
                true => own.report.skipped += 1,
                false => own.todo.push(own.files.len()),
            }
            own.files.push(file);
        }
        check_kinds(&own.files, &own.options)?;
        Ok(own)
    }

    /// All files, and which of them are to be read.
    pub fn files(&self) -> (&[IngestFile], &[usize]) {
        (&self.files, &self.todo)
    }

    /// The dataset.
    pub fn dataset(&self) -> &DataSet {
        &self.dataset
    }

    /// The bytes of complete files, and of all files to read.
    pub fn progress(&self) -> (u64, u64) {
        (self.done, self.total())
    }

    /// The bytes of all files to read.
    fn total(&self) -> u64 {
        let sizes = self
            .todo
            .iter()
            .filter_map(|at| Some(self.files.get(*at)?.size));
        sizes.sum()
    }

    /// How many files are read at the same time.
    pub fn workers(&self) -> usize {
        let usual = if self.total() >= WORTH {
            self.options.threads
        } else {
            1
        };
        self.options.workers.unwrap_or(usual)
    }

    /// The state after an interruption.
    pub fn state(&self) -> String {
        let report = &self.report;
        let there = report.files + report.skipped;
        let is = |n: u64| if n == 1 { "is" } else { "are" };
        format!(
            "{there} of {} {} completely in dataset {}, at least {} of this call {} there: repeat the call to continue",
            plural(self.files.len() as u64, "file"),
            is(there),
            quoted(self.dataset.path().as_str()),
            plural(report.events, "event"),
            is(report.events)
        )
    }

    /// Warnings since the last call.
    pub fn take_warnings(&mut self) -> Vec<Warning> {
        std::mem::take(&mut self.warnings)
    }

    /// Notes that a file is complete in the dataset.
    ///
    /// # Errors
    /// If the file has changed since it was read first, and errors of the store.
    pub fn finish_file(&mut self, at: usize, done: Done) -> Result<(), TransferError> {
        let Some(file) = self.files.get(at) else {
            return Ok(());
        };
        self.report.files += 1;
        self.report.n_bytes += file.size;
        self.report.leave_out(&done.left_out);
        self.unexpected.extend(done.unexpected);
        for note in done.notes {
            match self.notes.iter_mut().find(|(known, _)| *known == note) {
                Some((_, files)) => files.push(file.shown()),
                None => self.notes.push((note, vec![file.shown()])),
            }
        }
        if file.products == 0 && file.events == 0 {
            self.report.leave_out(&[(file.shown(), EMPTY.to_owned())]);
            self.empty.push(file.shown());
        }
        if file.has_changed(&self.dataset, &self.options)? {
            let what = format!(
                "{}: the file changed while it was read: ingest it again",
                file.path
            );
            return Err(TransferError::new("io", what));
        }
        if file.conflicts > 0 && self.options.on_conflict == OnConflict::Replace {
            self.forget_others()?;
        }
        file.note(&self.dataset, &self.options)?;
        self.done += file.size;
        Ok(())
    }

    /// Forgets that other files than those at hand are in the dataset: values of theirs were replaced.
    fn forget_others(&self) -> Result<(), TransferError> {
        for name in files::notes(&self.dataset)? {
            if !self.files.iter().any(|file| file.label == name.label()) {
                self.dataset.remove_products(Some(&name))?;
            }
        }
        Ok(())
    }

    /// The report, when all files are complete. Adds the last warnings.
    pub fn finish(&mut self) -> IngestReport {
        let notes = self
            .notes
            .iter()
            .map(|(note, files)| format!("{note} ({})", shortened(files)));
        let notes: Vec<String> = notes.collect();
        let mut report = std::mem::take(&mut self.report);
        report.warnings = self.several_types();
        report.warnings.extend(notes.iter().cloned());
        report.seconds = self.started.elapsed().as_secs_f64();
        let files = plural(self.todo.len() as u64, "file");
        let skipped = left_out(&self.unexpected, &files, "ingested", "report's left_out");
        self.warnings.extend(skipped.map(Warning::Unreadable));
        self.warnings.extend(notes.into_iter().map(Warning::Note));
        if !self.empty.is_empty() {
            let text = format!("{}: {EMPTY}", shortened(&self.empty));
            self.warnings.push(Warning::Unreadable(text));
        }
        report
    }

    /// The labels whose products have several types, which are columns of their own.
    fn several_types(&self) -> Vec<String> {
        let several = self.kinds.iter().filter(|(_, kinds)| kinds.len() > 1);
        let told = several.map(|(label, kinds)| {
            let kinds = kinds
                .iter()
                .map(|(kind, path)| format!("{kind} ({})", femtobarn_io::public(path)));
            format!(
                "products {} have several types: {}: select one as (label, type)",
                quoted(label),
                crate::transfer::joined(kinds)
            )
        });
        told.collect()
    }

    /// The classes of the products that a ROOT file has.
    fn classes_of(&self, file: &IngestFile) -> Result<Vec<ClassNote>, TransferError> {
        let tree = file.name.as_deref().or(self.options.tree.as_deref());
        let plan = plan::Plan::new(&file.path, tree, &self.options)?;
        Ok(plan.classes().cloned().collect())
    }
}

/// Checks that files exist, and that the first can be ingested, before a store is created for them.
///
/// # Errors
/// Those of [`Ingest`]; of other formats only their options are checked.
pub fn check(
    files: &[(String, Option<String>)],
    options: IngestOptions,
) -> Result<Vec<FileKind>, TransferError> {
    let options = options.checked()?;
    let kinds = files.iter().map(|(path, _)| FileKind::of(path));
    let kinds: Vec<FileKind> = kinds.collect::<Result<_, _>>()?;
    if let (Some((path, name)), Some(FileKind::Root)) = (files.first(), kinds.first()) {
        let tree = name.as_deref().or(options.tree.as_deref());
        check_groups(path, &options)?;
        plan::Plan::new(path, tree, &options)?;
    }
    Ok(kinds)
}

fn check_groups(path: &str, options: &IngestOptions) -> Result<(), TransferError> {
    match options.groups.is_empty() {
        true => Ok(()),
        false => {
            let [groups, fields] = ["groups", "fields"]
                .map(|name| options.words.name(name).trim_end_matches('=').to_owned());
            let what = format!(
                "{path}: {groups} is for HDF5 files; select fields of this ROOT file with {fields}"
            );
            Err(TransferError::usage(what))
        }
    }
}

/// Raises if an option does not apply to a file.
fn check_kinds(files: &[IngestFile], options: &IngestOptions) -> Result<(), TransferError> {
    let words = options.words;
    let of = |kind: FileKind| files.iter().filter(move |file| file.kind == kind);
    if let Some(file) = of(FileKind::Hdf5).next() {
        let path = &file.path;
        for (name, is_given) in [
            ("tree", options.tree.is_some()),
            ("collections", options.collections),
        ] {
            if is_given {
                return Err(TransferError::usage(format!(
                    "{path}: {} is for ROOT files, but this is HDF5; ingest one format at a time",
                    words.name(name)
                )));
            }
        }
        let given = NUMBERS
            .iter()
            .enumerate()
            .find(|(at, _)| options.number(*at).is_some());
        if let Some((_, number)) = given {
            return Err(TransferError::usage(format!(
                "{path}: for HDF5 files, {} must be the name of a dataset, not a number",
                words.name(number)
            )));
        }
    }
    match (of(FileKind::Root).nth(1), options.number(2)) {
        (Some(second), Some(_)) => Err(TransferError::usage(format!(
            "{}: events of several files would get the same numbers: with a number for {}, ingest one file at a time, \
             each with another {}, {} or {}",
            second.path,
            words.name("event"),
            words.name("run"),
            words.name("subrun"),
            words.name("event")
        ))),
        _ => Ok(()),
    }
}
