//! Files that femtobarn cannot read itself, through fsspec: Rust calls `femtobarn._files.fsspec`.
//!
//! The GIL is held only during the calls, by threads that hold no lock.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use femtobarn::io::{
    ByteSource, ForeignFs, IoError, RemoteEntry, Settings, SourceCost, SourceInfo, SourceMeta,
    is_in_background, is_stopped, public,
};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyModule;

use crate::error::stopped_by;

/// Reads files of schemes that femtobarn does not support.
pub const FOREIGN: ForeignFs = ForeignFs {
    open: |url, settings| Ok(Arc::new(FsspecSource::open(url, settings)?)),
    list,
    find,
};

/// Whether any file was opened through fsspec.
static IS_USED: AtomicBool = AtomicBool::new(false);

/// Runs a function that may read files, without the GIL if fsspec is in use: other threads need the GIL to read through
/// fsspec. Without fsspec the GIL is left alone, as the caller may hold it or not.
pub fn without_gil<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    match IS_USED.load(Relaxed) {
        true => Python::attach(|py| py.detach(work)),
        false => work(),
    }
}

/// A file of an fsspec file system. A vector read is one call of `cat_ranges`.
#[derive(Debug)]
struct FsspecSource {
    /// The URL for messages, without secrets.
    url: String,
    file: Py<PyAny>,
    meta: SourceMeta,
    /// Number of simultaneous vector reads that are useful.
    concurrency: usize,
}

impl FsspecSource {
    fn open(url: &str, settings: &Settings) -> Result<Self, IoError> {
        IS_USED.store(true, Relaxed);
        with_python(url, |py| {
            let file = module(py)?.call_method1("open_file", (url, settings.storage_options()))?;
            let modified: Option<f64> = file.getattr("modified")?.extract()?;
            Ok(Self {
                url: public(url),
                meta: SourceMeta {
                    size: file.getattr("size")?.extract()?,
                    modified: modified.and_then(time),
                    etag: file.getattr("identity")?.extract()?,
                },
                concurrency: file.getattr("concurrency")?.extract()?,
                file: file.unbind(),
            })
        })
    }
}

fn module(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    py.import("femtobarn._files.fsspec")
}

fn time(seconds: f64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(seconds).ok()?)
}

/// Lists a directory.
fn list(url: &str, settings: &Settings) -> Result<Vec<RemoteEntry>, IoError> {
    type Entry = (String, bool, Option<u64>, Option<f64>);
    with_python(url, |py| {
        let found = module(py)?.call_method1("list_folder", (url, settings.storage_options()))?;
        let entry = |(name, is_folder, size, modified): Entry| RemoteEntry {
            name,
            is_folder,
            size,
            modified: modified.and_then(time),
        };
        let found: Vec<Entry> = found.extract()?;
        Ok(found.into_iter().map(entry).collect())
    })
}

/// Finds the files that match a pattern.
fn find(url: &str, settings: &Settings) -> Result<Vec<String>, IoError> {
    with_python(url, |py| {
        let found = module(py)?.call_method1("find_files", (url, settings.storage_options()))?;
        found.extract()
    })
}

/// Number of background threads that are running Python code.
static IN_PYTHON: AtomicUsize = AtomicUsize::new(0);

/// Maximum time that the end of the interpreter waits for these threads, which usually notice it sooner.
const LEAVING: Duration = Duration::from_secs(1);

/// Counts one of these threads.
struct InPython;

impl InPython {
    fn new() -> Self {
        IN_PYTHON.fetch_add(1, SeqCst);
        Self
    }
}

impl Drop for InPython {
    fn drop(&mut self) {
        IN_PYTHON.fetch_sub(1, SeqCst);
    }
}

/// Ends background work, and waits until none of it runs Python code: at shutdown, the interpreter would kill threads
/// there that have Rust frames, and with them the process.
pub fn end_background() {
    femtobarn::io::end_background();
    let start = Instant::now();
    while IN_PYTHON.load(SeqCst) > 0 && start.elapsed() < LEAVING {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs a function with the GIL; fails if the interpreter is shutting down.
fn with_python<T>(
    url: &str,
    work: impl for<'py> FnOnce(Python<'py>) -> PyResult<T>,
) -> Result<T, IoError> {
    // counted before the check: then either this thread sees the shutdown, or the shutdown sees this thread
    let _in_python = is_in_background().then(InPython::new);
    if is_stopped() {
        return Err(IoError::Interrupted { url: public(url) });
    }
    let done = Python::try_attach(|py| work(py).map_err(|error| failed(py, url, error)));
    done.unwrap_or_else(|| Err(IoError::Interrupted { url: public(url) }))
}

/// The error for a `FsspecError` of `femtobarn._files.fsspec`, which has no secrets.
fn failed(py: Python<'_>, url: &str, error: PyErr) -> IoError {
    let url = public(url);
    if !error.is_instance_of::<PyException>(py) {
        // Ctrl-C, or the end of the program
        stopped_by(error);
        return IoError::Interrupted { url };
    }
    let text = |name| -> Option<String> { error.value(py).getattr(name).ok()?.extract().ok() };
    let (kind, why) = (text("kind").unwrap_or_default(), text("message"));
    let why = why.unwrap_or_else(|| error.to_string());
    match kind.as_str() {
        "interrupted" => IoError::Interrupted { url },
        "file-not-found" => IoError::NotFound { url },
        "permission-denied" => IoError::Refused { url, why },
        "file-changed" => IoError::Changed { url },
        "not-a-file" => IoError::NotAFile {
            url,
            found: "a directory",
        },
        "unsupported-url" | "missing-dependency" => IoError::Unsupported {
            url,
            why,
            is_missing: kind == "missing-dependency",
        },
        _ => IoError::Remote {
            url,
            source: why.into(),
        },
    }
}

impl ByteSource for FsspecSource {
    fn info(&self) -> SourceInfo<'_> {
        let cost = SourceCost {
            largest_gap: 2 << 10,
            largest_request: 8 << 20,
            // the same number as fsspec's own limit
            most_ranges: 128,
            concurrency: self.concurrency,
            ..SourceCost::default()
        };
        SourceInfo::new(&self.url, &self.meta, cost)
    }

    fn inner(&self) -> Option<&dyn ByteSource> {
        None
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, IoError> {
        for range in ranges {
            self.meta.check(&self.url, range)?;
        }
        if ranges.is_empty() {
            return Ok(Vec::new());
        }
        let pairs: Vec<(u64, u64)> = ranges.iter().map(|r| (r.start, r.end)).collect();
        let answers: Vec<PyBackedBytes> = with_python(&self.url, |py| {
            self.file.call_method1(py, "read", (pairs,))?.extract(py)
        })?;
        if answers.len() != ranges.len() {
            return Err(IoError::WrongAnswer {
                url: self.url.clone(),
                offset: ranges.first().map_or(0, |range| range.start),
                expected: ranges.len() as u64,
                found: answers.len() as u64,
            });
        }
        for (range, bytes) in ranges.iter().zip(&answers) {
            let (expected, found) = (range.end - range.start, bytes.len() as u64);
            if expected != found {
                return Err(IoError::ShortRead {
                    url: self.url.clone(),
                    offset: range.start,
                    expected,
                    found,
                });
            }
        }
        Ok(answers.into_iter().map(Bytes::from_owner).collect())
    }
}
