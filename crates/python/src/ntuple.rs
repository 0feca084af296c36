//! An ntuple of one or many files.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use femtobarn::documents;
use femtobarn::inspect::Info;
use femtobarn::io::{SourceMeta, Together};
use femtobarn::read::{LazyOptions, Reader, ReaderOptions};
use femtobarn::{
    BatchStream, Error, OpenOptions, PageCache, ReadOptions, Selection, Steps, StepsOptions,
    StreamTypes,
};
use femtobarn_cli::info_text;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyList};

use crate::arrow;
use crate::batch::Batch;
use crate::callback::Callback;
use crate::capi::error::handle;
use crate::capi::ntuple::{Around, fb_ntuple};
use crate::error::{new, to_python};
use crate::lazy::{Accesses, LazyReader};
use crate::metadata;
use crate::query::{self, QueryReader};
use crate::steps::{BatchIterator, BatchReader};
use crate::usage;

/// Decoded pages of an ntuple that go beyond a range of entries. Reads of neighbouring ranges share them.
#[pyclass(frozen, module = "femtobarn._core")]
pub struct SharedPages {
    /// Pages are known by the address of their reader, which must live as long as they.
    ntuple: Arc<femtobarn::NTuple>,
    cache: Arc<PageCache>,
}

impl SharedPages {
    fn of<'a>(
        pages: Option<&'a Self>,
        ntuple: &Arc<femtobarn::NTuple>,
    ) -> Option<&'a Arc<PageCache>> {
        let own = pages.filter(|pages| Arc::ptr_eq(&pages.ntuple, ntuple));
        own.map(|pages| &pages.cache)
    }
}

/// One or many files as one ntuple. It is immutable, and several threads can use it at the same time.
#[pyclass(frozen, module = "femtobarn._core")]
pub struct NTuple {
    inner: Arc<femtobarn::NTuple>,
}

#[pymethods]
impl NTuple {
    /// Opens files, given by URL and path of the ntuple; the path is None for files with only one ntuple. The files
    /// must be in `states`, as returned by `states()`.
    #[staticmethod]
    #[pyo3(signature = (files, *, verify_checksums = true, memory_map = true, allow_missing = false, settings = None, states = None))]
    fn open(
        py: Python<'_>,
        files: Files,
        verify_checksums: bool,
        memory_map: bool,
        allow_missing: bool,
        settings: Option<BTreeMap<String, String>>,
        states: Option<Vec<State>>,
    ) -> PyResult<Self> {
        let options = OpenOptions {
            reader: ReaderOptions {
                verify_checksums,
                memory_map,
            },
            allow_missing,
            settings: settings.unwrap_or_default(),
            states: states.into_iter().flatten().map(meta).collect(),
        };
        let inner = py
            .detach(|| femtobarn::NTuple::open(&files, options))
            .map_err(to_python)?;
        Ok(Self::new(inner))
    }

    #[getter]
    fn name(&self) -> PyResult<&str> {
        Ok(&self.first()?.descriptor().name)
    }

    #[getter]
    fn description(&self) -> PyResult<&str> {
        Ok(&self.first()?.descriptor().description)
    }

    #[getter]
    fn writer(&self) -> PyResult<&str> {
        Ok(&self.first()?.descriptor().writer)
    }

    #[getter]
    fn version(&self) -> PyResult<String> {
        Ok(self.first()?.version())
    }

    #[getter]
    fn num_entries(&self) -> u64 {
        self.inner.n_entries()
    }

    #[getter]
    fn files(&self) -> Vec<(String, String)> {
        self.inner
            .readers()
            .iter()
            .map(|reader| (reader.url().to_owned(), reader.path().to_owned()))
            .collect()
    }

    /// The files as they were given, to open them again: URLs may contain secrets.
    fn origins(&self) -> Vec<(String, String)> {
        let urls = self.inner.urls().iter().cloned();
        let paths = self.inner.readers().iter().map(|r| r.path().to_owned());
        urls.zip(paths).collect()
    }

    /// The servers that each file is read from, as dictionaries.
    fn sources<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let sources = py.detach(|| self.inner.sources());
        usage::servers(py, &sources)
    }

    /// The state of each file when it was opened: size, time of the last change (nanoseconds since 1970) and entity
    /// tag.
    fn states(&self) -> Vec<State> {
        self.inner.states().map(state).collect()
    }

    /// The UUID of each file, 16 bytes; zeros if it has none.
    fn uuids<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyBytes>> {
        let readers = self.inner.readers().iter();
        readers
            .map(|reader| PyBytes::new(py, &reader.file_uuid()))
            .collect()
    }

    /// Number of entries of each file.
    fn file_entries(&self) -> Vec<u64> {
        self.inner
            .readers()
            .iter()
            .map(|reader| reader.n_entries())
            .collect()
    }

    /// The kind of each file, numbered in order of occurrence: files with the same schema have the same kind.
    fn kinds(&self) -> Vec<usize> {
        self.inner.kinds()
    }

    /// Whether all files of this ntuple and of another one have the same schema, with all of its fields.
    fn is_alike(&self, other: &Self) -> bool {
        self.inner.is_alike(&other.inner)
    }

    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let types = py.detach(|| self.inner.common_types());
        metadata::fields(py, self.first()?, &self.inner.left_out(), &types)
    }

    /// The keys of all fields, depth first.
    fn keys(&self) -> PyResult<Vec<String>> {
        Ok(metadata::keys(self.first()?, &self.inner.left_out()))
    }

    /// Other names of fields, and the IDs of the fields.
    fn aliases(&self) -> PyResult<std::collections::HashMap<String, u32>> {
        Ok(self.first()?.aliases().clone())
    }

    /// Fields that cannot be read, or are not in every file, with the reasons.
    fn skipped(&self) -> PyResult<Vec<(String, String)>> {
        let skipped = &self.first()?.descriptor().skipped;
        let unreadable = skipped
            .iter()
            .map(|skipped| (skipped.name.clone(), skipped.reason.clone()));
        let left_out = self.inner.left_out();
        Ok(unreadable
            .chain(
                left_out
                    .iter()
                    .map(|(path, why)| (path.to_owned(), why.to_owned())),
            )
            .collect())
    }

    /// Fields that not all files have, with the reasons why they are left out.
    fn lacking(&self) -> Vec<(String, String)> {
        let left_out = self.inner.left_out();
        let lacking = left_out.lacking().iter();
        lacking
            .map(|(path, why)| (path.clone(), why.clone()))
            .collect()
    }

    /// Fields that turned out to be unreadable during reading, in this order, with the reasons.
    fn unreadable(&self) -> Vec<(String, String)> {
        self.inner.left_out().unreadable().to_vec()
    }

    #[pyo3(signature = (details = false))]
    fn clusters<'py>(&self, py: Python<'py>, details: bool) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for (reader, &first) in self.inner.readers().iter().zip(self.inner.file_starts()) {
            metadata::clusters(&list, reader, first, details)?;
        }
        Ok(list)
    }

    fn column_sizes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let sizes = py.detach(|| self.inner.column_sizes()).map_err(to_python)?;
        let dict = PyDict::new(py);
        for (column, sizes) in sizes {
            dict.set_item(column, metadata::sizes(py, &sizes)?)?;
        }
        Ok(dict)
    }

    /// Pages that later reads of neighbouring entries can share.
    fn pages(&self) -> SharedPages {
        SharedPages {
            ntuple: self.inner.clone(),
            // as many pieces as may be read at the same time in a process
            cache: Arc::new(PageCache::shared(StepsOptions::default().page_cache, 8)),
        }
    }

    #[pyo3(signature = (paths, entry_start, entry_stop, *, threads = 1, named = true, pages = None, tick = None))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn read(
        &self,
        py: Python<'_>,
        paths: Option<Vec<String>>,
        entry_start: u64,
        entry_stop: u64,
        threads: usize,
        named: bool,
        pages: Option<&SharedPages>,
        tick: Option<Py<PyAny>>,
    ) -> PyResult<Batch> {
        let callback = Callback::new(tick);
        let entries = entry_start..entry_stop;
        let result = py.detach(|| {
            let selection = self.select(paths.as_deref(), named)?;
            let options = ReadOptions {
                threads,
                cache: SharedPages::of(pages, &self.inner).map(|cache| &**cache),
                tick: Some(&|done, total| callback.call((done, total))),
                ..ReadOptions::default()
            };
            self.inner.read(&selection, entries.clone(), &options)
        });
        let arrays = callback.finish(result)?;
        Ok(Batch::of(&self.inner, entries, arrays))
    }

    fn decoded_bytes(
        &self,
        py: Python<'_>,
        paths: Option<Vec<String>>,
        entry_start: u64,
        entry_stop: u64,
    ) -> PyResult<u64> {
        let compute = || {
            let selection = self.inner.select(paths.as_deref())?;
            self.inner
                .decoded_bytes(&selection, entry_start..entry_stop)
        };
        py.detach(compute).map_err(to_python)
    }

    fn explain(
        &self,
        py: Python<'_>,
        paths: Option<Vec<String>>,
        entry_start: u64,
        entry_stop: u64,
    ) -> PyResult<String> {
        let compute = || {
            let selection = self.inner.select(paths.as_deref())?;
            self.inner.explain(&selection, entry_start..entry_stop)
        };
        let plan = py.detach(compute).map_err(to_python)?;
        Ok(documents::plan(&plan).to_string())
    }

    /// What was read of all files, also as a summary of several lines; wall time and CPU time in seconds.
    fn metrics<'py>(
        &self,
        py: Python<'py>,
        real: f64,
        processor: f64,
    ) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, value) in self.inner.metrics() {
            dict.set_item(name, value)?;
        }
        dict.set_item("selections", self.inner.n_selected())?;
        dict.set_item("schemas", self.inner.n_schemas())?;
        dict.set_item("page_list_bytes", self.inner.page_list_bytes())?;
        let usages = self.inner.usage();
        dict.set_item("sources", usage::sources(py, &usages)?)?;
        let [real, processor] = [real, processor]
            .map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default());
        dict.set_item("summary", femtobarn::io::summary(&usages, real, processor))?;
        Ok(dict)
    }

    #[pyo3(signature = (*, threads = 1, tick = None))]
    fn verify(
        &self,
        py: Python<'_>,
        threads: usize,
        tick: Option<Py<PyAny>>,
    ) -> PyResult<Vec<(&str, u64, String)>> {
        let callback = Callback::new(tick);
        let result = py.detach(|| {
            let tick = |done, total| callback.call((done, total));
            self.inner.verify(threads, Some(&tick))
        });
        let reports = callback.finish(result)?;
        let files = self.inner.readers().iter().zip(self.inner.file_starts());
        let files = files.zip(&reports).map(|((reader, &first), report)| {
            let document = documents::verified(report).to_string();
            (reader.url(), first, document)
        });
        Ok(files.collect())
    }

    /// What `fb info` prints of the first file, and its document.
    fn info(&self, py: Python<'_>) -> PyResult<(String, String)> {
        let compute = || {
            let reader = self.inner.readers().first().cloned();
            let reader = reader.ok_or_else(|| Error::internal("the ntuple has no file"))?;
            let info = Info::new(&self.inner, &reader)?;
            Ok((info_text(&info), info.document().to_string()))
        };
        py.detach(compute).map_err(to_python)
    }

    fn attributes(&self, py: Python<'_>) -> PyResult<Vec<(String, NTuple)>> {
        let sets = py
            .detach(|| self.inner.attribute_sets())
            .map_err(to_python)?;
        Ok(sets
            .into_iter()
            .map(|(name, set)| {
                (
                    name,
                    NTuple {
                        inner: Arc::new(set),
                    },
                )
            })
            .collect())
    }

    /// Reads in steps. `named`: whether the fields were requested by name; `settled`: whether steps were returned
    /// before.
    #[pyo3(signature = (paths, entry_start, entry_stop, step, *, threads = 1, prefetch = true, page_cache = None, named = true, settled = false))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn iterate(
        &self,
        py: Python<'_>,
        paths: Option<Vec<String>>,
        entry_start: u64,
        entry_stop: u64,
        step: u64,
        threads: usize,
        prefetch: bool,
        page_cache: Option<u64>,
        named: bool,
        settled: bool,
    ) -> PyResult<BatchIterator> {
        let mut selection = py
            .detach(|| self.select(paths.as_deref(), named))
            .map_err(to_python)?;
        if settled {
            selection = selection.fixed();
        }
        let defaults = StepsOptions::default();
        let options = StepsOptions {
            step,
            threads,
            prefetch,
            page_cache: page_cache.unwrap_or(defaults.page_cache),
            ..defaults
        };
        let ntuple = self.inner.clone();
        let steps = Steps::new(ntuple, selection, entry_start..entry_stop, options);
        Ok(BatchIterator::new(steps, self.inner.clone()))
    }

    /// The record of what a function touches in ntuples with this schema, also kept in a directory if one is given.
    #[pyo3(signature = (function, directory = None, *, learns = true))]
    fn accesses(&self, function: &str, directory: Option<PathBuf>, learns: bool) -> Accesses {
        Accesses::of(&self.inner, function, directory, learns)
    }

    /// Reads columns when they are touched, `small` bytes beside them as long as nothing was learned.
    #[pyo3(signature = (paths, accesses, *, threads = 1, small = None, pages = None))]
    fn lazy(
        &self,
        py: Python<'_>,
        paths: Option<Vec<String>>,
        accesses: &Accesses,
        threads: usize,
        small: Option<u64>,
        pages: Option<&SharedPages>,
    ) -> PyResult<LazyReader> {
        let selection = py.detach(|| self.inner.select(paths.as_deref()));
        let defaults = LazyOptions::default();
        let options = LazyOptions {
            threads,
            small: small.unwrap_or(defaults.small),
            cache: SharedPages::of(pages, &self.inner).cloned(),
        };
        LazyReader::new(
            &self.inner,
            selection.map_err(to_python)?,
            accesses,
            options,
        )
    }

    /// Reads fields and computed columns, of the entries that pass a cut.
    #[pyo3(signature = (paths, computed, cut, *, threads = 1, named = true))]
    fn query(
        &self,
        py: Python<'_>,
        paths: Option<Vec<String>>,
        computed: Vec<query::Column<'_>>,
        cut: Option<&query::Expression>,
        threads: usize,
        named: bool,
    ) -> PyResult<QueryReader> {
        let query = query::query(paths, computed, cut);
        QueryReader::new(py, &self.inner, query, threads, named)
    }

    /// Streams all entries of `paths`, `step` at a time.
    #[pyo3(signature = (paths, entry_start, entry_stop, step, *, threads = 1))]
    fn arrow_stream<'py>(
        &self,
        py: Python<'py>,
        paths: Option<Vec<String>>,
        entry_start: u64,
        entry_stop: u64,
        step: u64,
        threads: usize,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let options = StepsOptions {
            step,
            threads,
            ..StepsOptions::default()
        };
        let make = || {
            let selection = self.inner.select(paths.as_deref())?;
            let (ntuple, entries) = (self.inner.clone(), entry_start..entry_stop);
            BatchStream::new(ntuple, &selection, entries, options, StreamTypes::default())
        };
        let stream = py.detach(make).map_err(to_python)?;
        arrow::stream(py, Box::new(BatchReader(stream)))
    }

    /// The address of a handle of the C ABI, which its receiver frees.
    fn c_handle(&self) -> usize {
        let around: Around = without_gil;
        handle(fb_ntuple::new(self.inner.clone(), Some(around))).expose_provenance()
    }

    /// The Arrow schema of `paths`.
    #[pyo3(signature = (paths = None))]
    fn arrow_schema<'py>(
        &self,
        py: Python<'py>,
        paths: Option<Vec<String>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let settled = || {
            let selection = self.inner.select(paths.as_deref())?;
            let entries = 0..self.inner.n_entries();
            self.inner.without_unreadable(&selection, &entries)
        };
        let selection = py.detach(settled).map_err(to_python)?;
        arrow::schema(py, &selection.arrow_schema())
    }
}

/// Runs work of C++ on a thread that may hold the GIL, which threads that read need in order to handle signals. A thread
/// that Python does not know has no GIL, and must not wait for it: its owner may wait for this thread, as in
/// `ROOT.RDF.RunGraphs`.
#[expect(unsafe_code, reason = "PyO3 has no safe function for it")]
fn without_gil(work: &mut (dyn FnMut() + Send)) {
    // SAFETY: it can be called on any thread
    if unsafe { pyo3::ffi::PyGILState_GetThisThreadState() }.is_null() {
        Together::in_background().work(work);
    } else {
        Python::attach(|py| py.detach(work));
    }
}

/// Files, and the paths of ntuples in them.
pub type Files = Vec<(String, Option<String>)>;

/// The state of a file: size, time of the last change in nanoseconds since 1970, entity tag.
type State = (u64, Option<u64>, Option<String>);

fn state(meta: &SourceMeta) -> State {
    let since = |time: SystemTime| time.duration_since(UNIX_EPOCH).ok();
    let modified = meta.modified.and_then(since);
    let nanoseconds = modified.and_then(|since| u64::try_from(since.as_nanos()).ok());
    (meta.size, nanoseconds, meta.etag.clone())
}

fn meta((size, nanoseconds, etag): State) -> SourceMeta {
    let time = |nanoseconds| UNIX_EPOCH.checked_add(Duration::from_nanos(nanoseconds));
    SourceMeta {
        size,
        modified: nanoseconds.and_then(time),
        etag,
    }
}

impl NTuple {
    pub fn new(inner: femtobarn::NTuple) -> Self {
        Self {
            inner: Arc::new(inner),
        }
    }

    fn first(&self) -> PyResult<&Arc<Reader>> {
        let missing = || new("UsageError", "no-files", "no file was opened".into());
        self.inner.readers().first().ok_or_else(missing)
    }

    /// Selects the fields to read; unless they are `named`, missing fields are left out.
    fn select(&self, paths: Option<&[String]>, named: bool) -> Result<Selection, Error> {
        let selection = self.inner.select(paths)?;
        Ok(match named {
            true => selection,
            false => selection.leaving_out(),
        })
    }
}
