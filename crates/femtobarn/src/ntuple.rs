//! One or more files as one ntuple.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use arrow_array::RecordBatch;
use femtobarn_fork::lock;
use femtobarn_io::{ByteSource, Settings, SourceMeta, SourceStatus, Usage};
use femtobarn_rntuple::array::{ArrayError, Arrays, arrow_schema};
use femtobarn_rntuple::read::{
    Binding, PageStore, Part, Plan, ReadOptions, ReadSchema, Reader, Tick, VerifyReport,
    decoded_bytes, explain, read, verify,
};
use femtobarn_rntuple::schema::Node;
use femtobarn_rntuple::{RNTupleError, array};

use crate::common::SkippedFields;
use crate::odd::{odd_one, telling, without_common_field};
use crate::open::{OpenOptions, open_reader_of, open_soundly};
use crate::opening::open_all;
use crate::stream::StreamTypes;
use crate::target::Target;

/// Data read from a store; none if its reads are not counted.
fn usage_of(store: &dyn PageStore) -> Option<Usage> {
    Usage::of(store.info(), store.traffic(), store.cached())
}

/// The entries of one or more files, one after another. Immutable; several threads may read at once.
#[derive(Debug)]
pub struct NTuple {
    readers: Vec<Arc<Reader>>,
    /// The URL of each file as given, including secrets.
    urls: Vec<String>,
    /// First entry of each file, and the total number of entries.
    starts: Vec<u64>,
    left_out: RwLock<Arc<SkippedFields>>,
    /// The last selection: an iteration requests the same fields in every file.
    selected: Mutex<Option<Selected>>,
    n_selected: AtomicU64,
}

/// Selected fields, resolved in every file, and fields that were left out.
#[derive(Debug)]
struct Selected {
    left_out: Arc<SkippedFields>,
    selection: Selection,
}

/// Columns to be read, resolved in every file.
#[derive(Debug, Clone)]
pub struct Selection {
    pub(crate) schema: Arc<ReadSchema>,
    pub(crate) bindings: Arc<[Arc<Binding>]>,
    /// The requested paths; `None` for all.
    pub(crate) paths: Option<Arc<[String]>>,
    pub(crate) on_unreadable: OnUnreadable,
}

/// Treatment of fields that turn out to be unreadable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnUnreadable {
    /// Leave the field out.
    LeaveOut,
    /// Report an error, and leave the field out of the next read of all fields.
    LeaveOutNext,
    /// Report an error, because the field was selected.
    Refuse,
    /// Report an error without advice, which the caller handles.
    Tell,
}

impl Selection {
    /// The schema of the result.
    pub fn schema(&self) -> &ReadSchema {
        &self.schema
    }

    /// The same fields. Unreadable ones are left out, as in a selection of all fields.
    pub fn leaving_out(mut self) -> Self {
        self.on_unreadable = OnUnreadable::LeaveOut;
        self
    }

    /// Exactly the same fields. An unreadable one is an error, as after the first step of an iteration.
    pub fn fixed(mut self) -> Self {
        if self.on_unreadable == OnUnreadable::LeaveOut {
            self.on_unreadable = OnUnreadable::LeaveOutNext;
        }
        self
    }

    /// The same fields. An unreadable one is an error without advice, for a caller that starts again.
    pub(crate) fn telling(mut self) -> Self {
        self.on_unreadable = OnUnreadable::Tell;
        self
    }

    /// The same fields, with strings as binary in Arrow: RNTuples and trees may have strings that are not UTF-8.
    pub(crate) fn with_raw_strings(mut self) -> Self {
        let schema = Arc::make_mut(&mut self.schema);
        let nodes = schema.columns.iter_mut().map(|(_, node)| node);
        nodes.for_each(Node::texts_as_bytes);
        self
    }

    /// The Arrow schema of the result.
    pub fn arrow_schema(&self) -> array::ArrowSchema {
        self.arrow_schema_of(StreamTypes::default())
    }

    /// The Arrow schema of a stream.
    pub fn arrow_schema_of(&self, types: StreamTypes) -> array::ArrowSchema {
        let schema = match types.raw_strings {
            true => self.clone().with_raw_strings().schema,
            false => self.schema.clone(),
        };
        arrow_schema(&schema.columns, &schema.slots, types.byte_booleans)
    }
}

impl NTuple {
    /// Converts the result of a read to Arrow.
    ///
    /// # Errors
    /// If Arrow does not support the values, such as strings that are not UTF-8.
    pub(crate) fn to_arrow(&self, arrays: &Arrays) -> Result<RecordBatch, RNTupleError> {
        arrays.to_arrow().map_err(|error| {
            let first = self.readers.first();
            let (name, reason) = match error {
                ArrayError::Arrow { column, source } => (column, source.to_string()),
                other => (String::new(), other.to_string()),
            };
            RNTupleError::Unsupported {
                url: first
                    .map(|reader| reader.url().to_owned())
                    .unwrap_or_default(),
                ntuple: first
                    .map(|reader| reader.path().to_owned())
                    .unwrap_or_default(),
                name,
                reason: format!("Arrow does not take its values: {reason}"),
                hint: String::new(),
            }
        })
    }

    /// Opens files (URL, path of the ntuple in the file). The path is optional for files with a single ntuple.
    pub fn open(
        files: &[(String, Option<String>)],
        options: OpenOptions,
    ) -> Result<Self, RNTupleError> {
        let mut readers = Vec::with_capacity(files.len());
        let mut urls = Vec::with_capacity(files.len());
        for (reader, (url, _)) in open_all(files, &options)?.into_iter().zip(files) {
            if let Some(reader) = reader {
                readers.push(Arc::new(reader));
                urls.push(url.clone());
            }
        }
        let named = files.iter().any(|(_, path)| path.is_some());
        Self::together(readers, urls, named)
    }

    /// Opens the files of `FILE:NAME` arguments, patterns and URLs as one ntuple: see [`Target::find`].
    ///
    /// ```
    /// # fn main() -> Result<(), femtobarn::Error> {
    /// # std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).unwrap();
    /// use femtobarn::{NTuple, OpenOptions};
    /// let events = NTuple::open_files(&["testdata/dimu*.root:Events"], OpenOptions::default())?;
    /// assert_eq!(events.n_entries(), 12_000);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If no file matches, and errors of [`open`](Self::open).
    pub fn open_files(
        files: &[impl AsRef<str>],
        options: OpenOptions,
    ) -> Result<Self, RNTupleError> {
        let mut found = Vec::with_capacity(files.len());
        for text in files {
            let target = Target::parse(text.as_ref())?;
            let settings = Settings::new(&target.file, options.settings.clone())?;
            let targets = target.expand(Some(&settings))?.into_iter();
            found.extend(targets.map(|target| (target.file, target.name)));
        }
        Self::open(&found, options)
    }

    /// Combines open ntuples, one per file, with the URL of each as given. `named` tells whether any name was given.
    pub(crate) fn together(
        readers: Vec<Arc<Reader>>,
        urls: Vec<String>,
        named: bool,
    ) -> Result<Self, RNTupleError> {
        let ntuple = Self {
            urls,
            ..Self::of(readers)
        };
        ntuple.check_together(named)?;
        Ok(ntuple)
    }

    /// Opens one ntuple of a source.
    pub fn open_source(
        source: Arc<dyn ByteSource>,
        path: Option<&str>,
        options: OpenOptions,
    ) -> Result<Self, RNTupleError> {
        let reader = open_soundly(&source, |source| open_reader_of(source, path, &options))?;
        Ok(Self::of(reader.into_iter().map(Arc::new).collect()))
    }

    pub(crate) fn of(readers: Vec<Arc<Reader>>) -> Self {
        let mut starts = vec![0u64];
        let mut sum = 0u64;
        for reader in &readers {
            sum = sum.saturating_add(reader.n_entries());
            starts.push(sum);
        }
        Self {
            left_out: RwLock::new(Arc::new(SkippedFields::new(&readers))),
            selected: Mutex::default(),
            n_selected: AtomicU64::new(0),
            urls: readers
                .iter()
                .map(|reader| reader.url().to_owned())
                .collect(),
            readers,
            starts,
        }
    }

    /// The URL of each file as given, including secrets, for opening it again.
    pub fn urls(&self) -> &[String] {
        &self.urls
    }

    /// The state of each file when it was opened, for opening the same state again.
    pub fn states(&self) -> impl Iterator<Item = &SourceMeta> {
        let stores = self.readers.iter().map(|reader| reader.store());
        stores.map(|store| store.info().meta)
    }

    /// Refuses files that do not belong together: files with different ntuple names where none was given, or without
    /// any common field. The error names the file that differs from the others.
    fn check_together(&self, named: bool) -> Result<(), RNTupleError> {
        let readers = &self.readers;
        let unrelated = |(odd, other), reason: &dyn Fn(&Reader, &Reader) -> String| {
            let (Some(odd), Some(other)) = (readers.get::<usize>(odd), readers.get::<usize>(other))
            else {
                return Ok(());
            };
            Err(RNTupleError::Unrelated {
                url: odd.url().into(),
                other: other.url().into(),
                reason: reason(odd, other),
            })
        };
        let is_tree = |reader: &Reader| reader.storage().is_some();
        if let Some(pair) = odd_one(readers.iter().map(|reader| is_tree(reader))) {
            let kind = |reader: &Reader| match is_tree(reader) {
                true => "a TTree",
                false => "an RNTuple",
            };
            return unrelated(pair, &|here, there| {
                let (here, there) = (kind(here), kind(there));
                format!(
                    "{here} here, {there} there; convert the trees first, or open the files one by one"
                )
            });
        }
        let paths = readers.iter().map(|reader| reader.path());
        if let Some(pair) = odd_one(paths).filter(|_| !named) {
            return unrelated(pair, &|here, there| {
                let (here, there) = (here.path(), there.path());
                format!(
                    "{here:?} here, {there:?} there; name the one that is meant, or open the files one by one"
                )
            });
        }
        let common = match readers.len() {
            0 | 1 => None,
            _ => self.common(&self.left_out(), None)?,
        };
        match common.filter(Vec::is_empty) {
            Some(_) => match without_common_field(readers) {
                Some(pair) => unrelated(pair, &|_, _| {
                    "no field is in all files; open them one by one".to_owned()
                }),
                None => Ok(()),
            },
            None => Ok(()),
        }
    }

    /// The ntuples, one per file.
    pub fn readers(&self) -> &[Arc<Reader>] {
        &self.readers
    }

    /// Number of entries.
    pub fn n_entries(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// First entry of each file, and the total number of entries.
    pub fn file_starts(&self) -> &[u64] {
        &self.starts
    }

    /// The fields that some files lack, and fields that turned out to be unreadable so far.
    pub fn left_out(&self) -> Arc<SkippedFields> {
        let left_out = self.left_out.read();
        left_out.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Leaves a top-level field out of everything from now on.
    pub(crate) fn leave_out(&self, path: &str, reason: &str) {
        let mut left_out = self
            .left_out
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut left_out).add_unreadable(path, reason);
    }

    /// Resolves columns by their paths; `None` selects all common columns. Subfields of a named field that some files
    /// lack are left out.
    ///
    /// If all fields are selected, fields that turn out to be unreadable during reading are left out, too: branches of
    /// trees whose objects differ from their description in the file. [`NTuple::left_out`] then lists them. An
    /// unreadable named field is an error.
    pub fn select(&self, paths: Option<&[String]>) -> Result<Selection, RNTupleError> {
        let left_out = self.left_out();
        if let Some(last) = &*lock(&self.selected)
            && last.selection.paths.as_deref() == paths
            && Arc::ptr_eq(&last.left_out, &left_out)
        {
            return Ok(last.selection.clone());
        }
        self.n_selected.fetch_add(1, Relaxed);
        let common = self.common(&left_out, paths)?;
        let found = ReadSchema::new(&self.readers, common.as_deref().or(paths));
        let (schema, bindings) = found.map_err(|error| telling(error, &self.readers))?;
        let selection = Selection {
            schema: Arc::new(schema),
            bindings: bindings.into(),
            paths: paths.map(Arc::from),
            on_unreadable: match paths {
                None => OnUnreadable::LeaveOut,
                Some(_) => OnUnreadable::Refuse,
            },
        };
        *lock(&self.selected) = Some(Selected {
            left_out,
            selection: selection.clone(),
        });
        Ok(selection)
    }

    /// The fields to read if files differ.
    fn common(
        &self,
        left_out: &SkippedFields,
        paths: Option<&[String]>,
    ) -> Result<Option<Vec<String>>, RNTupleError> {
        let Some(first) = self.readers.first().filter(|_| !left_out.is_empty()) else {
            return Ok(None);
        };
        let mut out = Vec::new();
        for path in paths.unwrap_or_default() {
            if left_out.reason(path).is_some() {
                // the file that lacks it, or its reading, reports this
                out.push(path.clone());
            } else {
                left_out.common(first, first.field_by_path(path)?, &mut out);
            }
        }
        if paths.is_none() {
            for &id in &first.descriptor().top_level {
                left_out.common(first, id, &mut out);
            }
        }
        Ok(Some(out))
    }

    /// The parts of files that make up an entry range.
    pub(crate) fn parts(
        &self,
        selection: &Selection,
        entries: &Range<u64>,
    ) -> Result<Vec<Part>, RNTupleError> {
        if entries.start > entries.end || entries.end > self.n_entries() {
            let ntuple = self
                .readers
                .first()
                .map(|reader| reader.path().to_owned())
                .unwrap_or_default();
            let (start, stop, n_entries) = (entries.start, entries.end, self.n_entries());
            return Err(RNTupleError::EntryRange {
                ntuple,
                start,
                stop,
                n_entries,
            });
        }
        let mut parts = Vec::new();
        // a step of an iteration covers few of many files
        let ends = self.starts.get(1..).unwrap_or_default();
        let skipped = ends.partition_point(|&end| end <= entries.start);
        let files = self.readers.iter().zip(&*selection.bindings);
        for ((reader, binding), &first) in files.zip(&self.starts).skip(skipped) {
            if first >= entries.end {
                break;
            }
            let last = first.saturating_add(reader.n_entries());
            let (start, stop) = (entries.start.max(first), entries.end.min(last));
            if start < stop {
                let (reader, binding) = (reader.clone(), binding.clone());
                parts.push(Part {
                    reader,
                    binding,
                    start: start - first,
                    stop: stop - first,
                });
            }
        }
        Ok(parts)
    }

    /// Reads entries of the selected fields into arrays. If all fields are selected, unreadable ones are left out.
    pub fn read(
        &self,
        selection: &Selection,
        entries: Range<u64>,
        options: &ReadOptions<'_>,
    ) -> Result<Arrays, RNTupleError> {
        self.read_settling(&mut selection.clone(), &entries, options)
    }

    pub(crate) fn read_exactly(
        &self,
        selection: &Selection,
        entries: &Range<u64>,
        options: &ReadOptions<'_>,
    ) -> Result<Arrays, RNTupleError> {
        let parts = self.parts(selection, entries)?;
        read(&selection.schema, &parts, options)
    }

    /// The cost of a read.
    pub fn explain(
        &self,
        selection: &Selection,
        entries: Range<u64>,
    ) -> Result<Plan, RNTupleError> {
        explain(&selection.schema, &self.parts(selection, &entries)?)
    }

    /// Estimated size of the result of a read in bytes, from metadata.
    pub fn decoded_bytes(
        &self,
        selection: &Selection,
        entries: Range<u64>,
    ) -> Result<u64, RNTupleError> {
        decoded_bytes(&selection.schema, &self.parts(selection, &entries)?)
    }

    /// Verifies every file; the reports are in the order of the files.
    pub fn verify(
        &self,
        threads: usize,
        tick: Option<Tick<'_>>,
    ) -> Result<Vec<VerifyReport>, RNTupleError> {
        self.readers
            .iter()
            .map(|reader| verify(reader, threads, tick))
            .collect()
    }

    /// Attribute sets of all files, by name.
    pub fn attribute_sets(&self) -> Result<Vec<(String, NTuple)>, RNTupleError> {
        let mut out = Vec::new();
        for reader in &self.readers {
            for link in &reader.descriptor().attribute_sets {
                out.push((
                    link.name.clone(),
                    Self::of(vec![Arc::new(reader.attribute_set(link)?)]),
                ));
            }
        }
        Ok(out)
    }

    /// Data read from each file since it was opened.
    pub fn usage(&self) -> Vec<Usage> {
        let stores = self.readers.iter().map(|reader| reader.store());
        stores.filter_map(usage_of).collect()
    }

    /// The sources of each file: its servers, or itself if it has no others.
    pub fn sources(&self) -> Vec<Vec<SourceStatus>> {
        let stores = self.readers.iter().map(|reader| reader.store());
        let sources = stores.map(|store| {
            store.sources().unwrap_or_else(|| {
                let usage = usage_of(store);
                usage.iter().map(Usage::as_source).collect()
            })
        });
        sources.collect()
    }

    /// Number of times that fields were resolved in every file; an iteration does this once, for any number of files.
    pub fn n_selected(&self) -> u64 {
        self.n_selected.load(Relaxed)
    }

    /// The kind of each file: files with the same header share their schema and have the same kind. Kinds are numbered
    /// by their first occurrence.
    pub fn kinds(&self) -> Vec<usize> {
        let mut known = HashMap::new();
        let schemas = self.readers.iter();
        let schemas = schemas.map(|reader| Arc::as_ptr(&reader.descriptor().schema));
        let kinds = schemas.map(|schema| {
            let next = known.len();
            *known.entry(schema).or_insert(next)
        });
        kinds.collect()
    }

    /// Whether all files of both ntuples have one schema, with all fields selected.
    pub fn is_alike(&self, other: &Self) -> bool {
        let readers = self.readers.iter().chain(&other.readers);
        let mut schemas = readers.map(|reader| &reader.descriptor().schema);
        let Some(first) = schemas.next() else {
            return false;
        };
        schemas.all(|schema| Arc::ptr_eq(schema, first))
            && [self, other]
                .map(Self::left_out)
                .iter()
                .all(|out| out.is_empty())
    }

    /// Number of distinct schemas in memory.
    pub fn n_schemas(&self) -> usize {
        self.kinds().into_iter().max().map_or(0, |last| last + 1)
    }

    /// Bytes of the page lists in memory.
    pub fn page_list_bytes(&self) -> u64 {
        let readers = self.readers.iter();
        readers.map(|reader| reader.page_list_bytes()).sum()
    }

    /// Counters of all reads of all files.
    pub fn metrics(&self) -> Vec<(&'static str, u64)> {
        let sum = femtobarn_rntuple::read::Stats::default();
        self.readers
            .iter()
            .for_each(|reader| sum.merge(reader.stats()));
        sum.snapshot()
    }
}
