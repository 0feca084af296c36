//! An ntuple of one or many files.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use femtobarn::read::{Reader, ReaderOptions};
use femtobarn::{Error, OpenOptions, ReadOptions, Selection, Steps, StepsOptions};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};

use crate::arrow;
use crate::batch::Batch;
use crate::error::{new, to_python};
use crate::metadata;

/// One or many files as one ntuple; immutable and safe to use from many threads.
#[pyclass(frozen, module = "femtobarn._core")]
pub struct NTuple {
    inner: Arc<femtobarn::NTuple>,
}

#[pymethods]
impl NTuple {
    /// Opens files: URL, and path of the ntuple or None where a file holds just one.
    #[staticmethod]
    #[pyo3(signature = (files, *, verify_checksums = true, memory_map = true, allow_missing = false))]
    fn open(
        py: Python<'_>,
        files: Vec<(String, Option<String>)>,
        verify_checksums: bool,
        memory_map: bool,
        allow_missing: bool,
    ) -> PyResult<Self> {
        let options = OpenOptions {
            reader: ReaderOptions {
                verify_checksums,
                memory_map,
            },
            allow_missing,
        };
        let inner = py
            .detach(|| femtobarn::NTuple::open(&files, options))
            .map_err(to_python)?;
        Ok(Self {
            inner: Arc::new(inner),
        })
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

    /// Number of entries of each file.
    fn file_entries(&self) -> Vec<u64> {
        self.inner
            .readers()
            .iter()
            .map(|reader| reader.n_entries())
            .collect()
    }

    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        metadata::fields(py, self.first()?, &self.inner.left_out())
    }

    /// Keys of all fields, depth first.
    fn keys(&self) -> PyResult<Vec<String>> {
        Ok(metadata::keys(self.first()?, &self.inner.left_out()))
    }

    /// Other names of fields, and their ids.
    fn aliases(&self) -> PyResult<std::collections::HashMap<String, u32>> {
        Ok(self.first()?.aliases().clone())
    }

    /// Fields that cannot be read, or not in every file, and why.
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

    /// Fields that turned out to be unreadable when they were read, the first one found first, and why.
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

    #[pyo3(signature = (paths, entry_start, entry_stop, *, threads = 1, named = true, tick = None))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn read(
        &self,
        py: Python<'_>,
        paths: Option<Vec<String>>,
        entry_start: u64,
        entry_stop: u64,
        threads: usize,
        named: bool,
        tick: Option<Py<PyAny>>,
    ) -> PyResult<Batch> {
        let raised = RefCell::new(None);
        let result = with_ticks(py, tick, &raised, |tick| {
            let selection = self.select(paths.as_deref(), named)?;
            let options = ReadOptions {
                threads,
                tick: Some(tick),
                ..ReadOptions::default()
            };
            self.inner
                .read(&selection, entry_start..entry_stop, &options)
        });
        let arrays = finish(result, raised)?;
        Ok(self.batch(entry_start..entry_stop, arrays))
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

    fn explain<'py>(
        &self,
        py: Python<'py>,
        paths: Option<Vec<String>>,
        entry_start: u64,
        entry_stop: u64,
    ) -> PyResult<Bound<'py, PyDict>> {
        let compute = || {
            let selection = self.inner.select(paths.as_deref())?;
            self.inner.explain(&selection, entry_start..entry_stop)
        };
        metadata::explanation(py, &py.detach(compute).map_err(to_python)?)
    }

    fn metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, value) in self.inner.metrics() {
            dict.set_item(name, value)?;
        }
        Ok(dict)
    }

    #[pyo3(signature = (*, threads = 1, tick = None))]
    fn verify<'py>(
        &self,
        py: Python<'py>,
        threads: usize,
        tick: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let raised = RefCell::new(None);
        let result = with_ticks(py, tick, &raised, |tick| {
            self.inner.verify(threads, Some(tick))
        });
        let reports = finish(result, raised)?;
        let urls = self
            .inner
            .readers()
            .iter()
            .map(|reader| reader.url().to_owned());
        let firsts = self.inner.file_starts().iter().copied();
        let rows: Vec<_> = urls
            .zip(firsts)
            .zip(reports)
            .map(|((url, first), report)| (url, first, report))
            .collect();
        metadata::report(py, &rows)
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

    /// Steps; `named`: whether the fields were asked for by name; `settled`: whether steps with them were given before.
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
        Ok(BatchIterator {
            steps: Mutex::new(steps),
            ntuple: self.inner.clone(),
        })
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
        let entries = entry_start..entry_stop;
        let selection = self.settled(py, paths, &entries)?;
        let schema = Arc::new(selection.arrow_schema());
        let options = StepsOptions {
            step,
            threads,
            ..StepsOptions::default()
        };
        let ntuple = self.inner.clone();
        let begin = move || Steps::new(ntuple, selection, entries, options);
        let reader = BatchReader {
            schema,
            begin: Some(Box::new(begin)),
            steps: None,
        };
        arrow::stream(py, Box::new(reader))
    }

    /// The Arrow schema of `paths`.
    #[pyo3(signature = (paths = None))]
    fn arrow_schema<'py>(
        &self,
        py: Python<'py>,
        paths: Option<Vec<String>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let selection = self.settled(py, paths, &(0..self.inner.n_entries()))?;
        arrow::schema(py, &selection.arrow_schema())
    }
}

impl NTuple {
    fn first(&self) -> PyResult<&Arc<Reader>> {
        let missing = || new("UsageError", "no-files", "no file was opened".into());
        self.inner.readers().first().ok_or_else(missing)
    }

    fn batch(&self, entries: Range<u64>, arrays: femtobarn::array::Arrays) -> Batch {
        Batch {
            url: url_of(&self.inner, entries.start),
            start: entries.start,
            stop: entries.end,
            arrays,
        }
    }

    /// Fields to be read; those that were not `named` may be left out.
    fn select(&self, paths: Option<&[String]>, named: bool) -> Result<Selection, Error> {
        let selection = self.inner.select(paths)?;
        Ok(match named {
            true => selection,
            false => selection.leaving_out(),
        })
    }

    /// Fields of a stream, whose schema comes first.
    fn settled(
        &self,
        py: Python<'_>,
        paths: Option<Vec<String>>,
        entries: &Range<u64>,
    ) -> PyResult<Selection> {
        let settled = || {
            let selection = self.inner.select(paths.as_deref())?;
            self.inner.settled(&selection, entries)
        };
        py.detach(settled).map_err(to_python)
    }
}

/// URL of the file that holds an entry.
fn url_of(ntuple: &femtobarn::NTuple, entry: u64) -> String {
    let after = ntuple
        .file_starts()
        .partition_point(|&first| first <= entry);
    let reader = ntuple
        .readers()
        .get(after.saturating_sub(1))
        .or(ntuple.readers().last());
    reader
        .map(|reader| reader.url().to_owned())
        .unwrap_or_default()
}

/// Runs `work` without the GIL; its tick takes the GIL to look for signals and to call `callback`.
fn with_ticks<T: Send>(
    py: Python<'_>,
    callback: Option<Py<PyAny>>,
    raised: &RefCell<Option<PyErr>>,
    work: impl FnOnce(&dyn Fn(u64, u64) -> bool) -> Result<T, Error>,
) -> Result<T, Error> {
    let tick = |done: u64, total: u64| {
        Python::attach(|py| {
            let mut result = py.check_signals();
            if let (Ok(()), Some(callback)) = (&result, &callback) {
                result = callback.call1(py, (done, total)).map(|_| ());
            }
            result.map_err(|error| raised.replace(Some(error))).is_ok()
        })
    };
    let released = Released {
        work: || work(&tick),
    };
    py.detach(move || released.run())
}

/// Work that runs on the calling thread, whose captures therefore need not be `Send`.
struct Released<F> {
    work: F,
}

impl<F: FnOnce() -> T, T> Released<F> {
    fn run(self) -> T {
        (self.work)()
    }
}

#[expect(unsafe_code, reason = "the closure does not leave the thread")]
// SAFETY: `Python::detach` runs its closure on the calling thread; it asks for `Send` only to keep Python objects out,
// and the closure touches Python objects only after taking the GIL again.
unsafe impl<F> Send for Released<F> {}

fn finish<T>(result: Result<T, Error>, raised: RefCell<Option<PyErr>>) -> PyResult<T> {
    match raised.into_inner() {
        Some(error) => Err(error),
        None => result.map_err(to_python),
    }
}

/// Steps of an iteration.
#[pyclass(frozen, module = "femtobarn._core")]
pub struct BatchIterator {
    steps: Mutex<Steps>,
    ntuple: Arc<femtobarn::NTuple>,
}

#[pymethods]
impl BatchIterator {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        let mut raised = None;
        let step = py.detach(|| {
            let mut waiting = || {
                let result = Python::attach(|py| py.check_signals());
                result.map_err(|error| raised = Some(error)).is_ok()
            };
            self.steps
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .next_or(&mut waiting)
        });
        if let Some(error) = raised {
            return Err(error);
        }
        let Some((entries, arrays)) = step.transpose().map_err(to_python)? else {
            return Ok(None);
        };
        let url = url_of(&self.ntuple, entries.start);
        Ok(Some(Batch {
            url,
            start: entries.start,
            stop: entries.end,
            arrays,
        }))
    }
}

/// Steps as a stream of record batches.
struct BatchReader {
    schema: SchemaRef,
    /// Begins to read, at the first batch: what is found to be unreadable is not told before.
    begin: Option<Box<dyn FnOnce() -> Steps + Send>>,
    steps: Option<Steps>,
}

impl Iterator for BatchReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let external =
            |error: Box<dyn std::error::Error + Send + Sync>| ArrowError::ExternalError(error);
        if let Some(begin) = self.begin.take() {
            self.steps = Some(begin());
        }
        Some(match self.steps.as_mut()?.next()? {
            Ok((_, arrays)) => arrays.to_arrow().map_err(|error| external(error.into())),
            Err(error) => Err(external(error.into())),
        })
    }
}

impl arrow_array::RecordBatchReader for BatchReader {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
