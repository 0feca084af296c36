//! Where traces are written.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use femtobarn_fork::lock;
use femtobarn_xrootd::notice;

use super::row::{Access, Action, Operation};
use crate::runtime::process;
use crate::{IoError, Settings, SourceMeta};

/// Most ranges of a vector read: XRootD servers allow no more.
const MOST_RANGES: usize = 1024;

/// Longer ranges are reads of their own: XRootD servers allow 2 MiB per range of a vector read, and clients read ranges
/// of this length by themselves.
const LARGEST_RANGE: u64 = 1 << 20;

/// `kXR_open_read`.
const FOR_READING: u32 = 0x10;

/// A file to which rows are appended. Each row is one write to a file opened for appending, so rows of threads, of
/// forked processes and of other processes do not mix, and a killed process loses none.
#[derive(Debug)]
pub(crate) struct Trace {
    path: String,
    file: File,
}

impl Trace {
    /// Opens a trace; with `anew`, an existing one is replaced.
    fn open(path: &str, anew: bool) -> Result<Arc<Self>, IoError> {
        let failed = |error| IoError::from_open(path, error);
        if anew {
            File::create(path).map_err(failed)?;
        }
        let mut options = File::options();
        let file = options.append(true).create(true).open(path);
        Ok(Arc::new(Self {
            path: path.to_owned(),
            file: file.map_err(failed)?,
        }))
    }

    fn write(&self, action: &Action) {
        let row = format!("{action}\n");
        if let Err(error) = (&self.file).write_all(row.as_bytes()) {
            let path = &self.path;
            notice(
                path,
                &format!("cannot write to the trace {path}: {error}; rows are missing"),
            );
        }
    }
}

/// The traces of [`record`]. Rows go to the last trace.
static RECORDED: Mutex<Vec<Arc<Trace>>> = Mutex::new(Vec::new());

/// Traces that settings name.
static NAMED: Mutex<BTreeMap<String, Arc<Trace>>> = Mutex::new(BTreeMap::new());

/// Records the operations on all files that are opened from now on in a new trace, in place of earlier ones and of the
/// setting `record`.
///
/// # Errors
/// If the file cannot be created.
pub fn record(path: &str) -> Result<(), IoError> {
    let trace = Trace::open(path, true)?;
    let mut recorded = lock(&RECORDED);
    recorded.retain(|trace| trace.path != path);
    recorded.push(trace);
    Ok(())
}

/// Ends the trace of this path. If another trace was begun before and has not ended, operations are recorded there again.
/// A warning says if the ended trace is empty.
pub fn end_record(path: &str) {
    let mut recorded = lock(&RECORDED);
    let ended = recorded.extract_if(.., |trace| trace.path == path).last();
    drop(recorded);
    let size = ended.and_then(|trace| trace.file.metadata().ok());
    if size.is_some_and(|found| found.is_file() && found.len() == 0) {
        let text = format!(
            "nothing was recorded in {path}: operations are recorded of files that are opened later"
        );
        notice(path, &text);
    }
}

/// The trace in which operations on the file with these settings are recorded; none if they are not.
///
/// # Errors
/// If the file cannot be created.
pub(crate) fn trace_of(settings: &Settings) -> Result<Option<Arc<Trace>>, IoError> {
    if let Some(trace) = lock(&RECORDED).last() {
        return Ok(Some(trace.clone()));
    }
    let Some(path) = settings.text("record")? else {
        return Ok(None);
    };
    if let Some(trace) = lock(&NAMED).get(&path) {
        return Ok(Some(trace.clone()));
    }
    let trace = Trace::open(&path, false)?;
    Ok(Some(lock(&NAMED).entry(path).or_insert(trace).clone()))
}

/// When an operation began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Started {
    wall: SystemTime,
    at: Instant,
}

impl Started {
    pub fn now() -> Self {
        Self {
            wall: SystemTime::now(),
            at: Instant::now(),
        }
    }

    /// The monotonic time.
    pub fn at(self) -> Instant {
        self.at
    }

    /// The start at another monotonic time.
    pub fn moved(self, at: Instant) -> Self {
        let later = at.saturating_duration_since(self.at);
        let earlier = self.at.saturating_duration_since(at);
        let wall = self.wall.checked_add(later);
        let wall = wall.and_then(|wall| wall.checked_sub(earlier));
        Self {
            wall: wall.unwrap_or(self.wall),
            at,
        }
    }

    fn since_1970(self) -> Duration {
        self.wall.duration_since(UNIX_EPOCH).unwrap_or_default()
    }
}

/// An open file whose operations are recorded.
#[derive(Debug)]
pub(crate) struct Recorded {
    trace: Arc<Trace>,
    url: String,
    /// The process, and the file's number in it.
    file: Mutex<(u32, u64)>,
}

impl Recorded {
    /// Records that a file was opened, or could not be; its URL is without secrets.
    pub fn open(
        trace: Arc<Trace>,
        url: &str,
        (start, duration): (Started, Duration),
        opened: Result<&SourceMeta, &IoError>,
    ) -> Self {
        let recorded = Self {
            url: absolute(url),
            file: Mutex::new((process(), number())),
            trace,
        };
        recorded.write_open(start, duration, opened.err());
        if let Ok(meta) = opened {
            let stat = Operation::Stat { force: false };
            let modified = meta
                .modified
                .and_then(|at| at.duration_since(UNIX_EPOCH).ok());
            let modified = modified.unwrap_or_default().as_secs();
            // as answers of servers: readable; unknown are the other times, mode, owner, group and checksum
            let response = format!("{};16;{modified};0;0;;;;", meta.size);
            let end = start.moved(start.at + duration);
            recorded.write(stat, end, Duration::ZERO, None, response);
        }
        recorded
    }

    /// Records a read.
    pub fn read(
        &self,
        ranges: &[Range<u64>],
        start: Started,
        duration: Duration,
        error: Option<&IoError>,
    ) {
        for (access, ranges) in requests(ranges) {
            let operation = Operation::Read(access, ranges);
            let response = match (error, access) {
                (Some(_), _) => String::new(),
                (None, Access::Vector) => {
                    let chunks = operation.ranges().iter();
                    let chunks = chunks.map(|r| format!(";{};{}", r.start, r.end - r.start));
                    format!("{}{}", operation.n_bytes(), chunks.collect::<String>())
                }
                (None, _) => operation.n_bytes().to_string(),
            };
            self.write(operation, start, duration, error, response);
        }
    }

    /// Records that the file was closed, by the process that opened it.
    pub fn close(&self) {
        if lock(&self.file).0 == process() {
            let none = String::new();
            self.write(Operation::Close, Started::now(), Duration::ZERO, None, none);
        }
    }

    fn write_open(&self, start: Started, duration: Duration, error: Option<&IoError>) {
        let open = Operation::Open {
            url: self.url.clone(),
            flags: FOR_READING,
            mode: 0,
        };
        self.write(open, start, duration, error, String::new());
    }

    fn write(
        &self,
        operation: Operation,
        start: Started,
        duration: Duration,
        error: Option<&IoError>,
        response: String,
    ) {
        let since = start.since_1970();
        self.trace.write(&Action {
            file: self.number(start),
            operation,
            start: since,
            stop: since.saturating_add(duration),
            // the message may name what is nobody else's business
            error: error.map(|error| format!("[ERROR] {}", error.kind())),
            response,
        });
    }

    /// The number of the file. In a process that was forked after the file was opened, the file is another one.
    fn number(&self, start: Started) -> u64 {
        let found = *lock(&self.file);
        if found.0 == process() {
            return found.1;
        }
        let own = number();
        *lock(&self.file) = (process(), own);
        self.write_open(start, Duration::ZERO, None);
        own
    }
}

/// A number that no other open file has: the time, which is another one in each process.
fn number() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let now = Started::now().since_1970().as_nanos();
    let now = u64::try_from(now).unwrap_or(u64::MAX);
    let later = |last: u64| Some(now.max(last.saturating_add(1)));
    let before = LAST.fetch_update(Relaxed, Relaxed, later);
    before.map_or(now, |last| now.max(last.saturating_add(1)))
}

/// The path of a local file from the root, so that a trace can be replayed anywhere.
fn absolute(url: &str) -> String {
    if url.contains("://") {
        return url.to_owned();
    }
    let path = std::path::absolute(Path::new(url));
    path.map_or_else(
        |_| url.to_owned(),
        |path| path.to_string_lossy().into_owned(),
    )
}

/// The requests of a vector read that any XRootD server accepts.
fn requests(ranges: &[Range<u64>]) -> Vec<(Access, Vec<Range<u64>>)> {
    let length = |range: &Range<u64>| range.end.saturating_sub(range.start);
    let wanted = ranges.iter().filter(|range| length(range) > 0).cloned();
    let (small, large): (Vec<_>, Vec<_>) = wanted.partition(|range| length(range) <= LARGEST_RANGE);
    let small = small.chunks(MOST_RANGES).map(<[_]>::to_vec);
    let all = small.chain(large.into_iter().map(|range| vec![range]));
    let access = |ranges: &Vec<_>| match ranges.len() {
        1 => Access::Single,
        _ => Access::Vector,
    };
    all.map(|ranges| (access(&ranges), ranges)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_what_servers_accept() {
        assert_eq!(requests(&[3..3]), []);
        assert_eq!(requests(&[3..5]), [(Access::Single, vec![3..5])]);
        let many: Vec<_> = (0..1025).map(|i| i * 10..i * 10 + 5).collect();
        let large = 1 << 21..1 << 23;
        let found = requests(&[many.clone(), vec![large.clone()]].concat());
        assert_eq!(found[0], (Access::Vector, many[..1024].to_vec()));
        assert_eq!(found[1], (Access::Single, many[1024..].to_vec()));
        assert_eq!(found[2], (Access::Single, vec![large]));
    }

    #[test]
    fn numbers_of_files_differ() {
        let mut numbers: Vec<u64> = (0..1000).map(|_| number()).collect();
        numbers.dedup();
        assert_eq!(numbers.len(), 1000);
    }
}
