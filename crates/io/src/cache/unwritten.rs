//! Bytes that were fetched and are not written yet: readers do not wait for disks.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64;

use super::file::FileCache;
use super::reading::Flight;
use crate::runtime::in_background;

/// The most bytes that wait to be written. A reader that fetches more writes them before it goes on.
const MOST: u64 = 64 << 20;

/// The longest time that a thread waits until bytes are written.
const LONGEST: Duration = Duration::from_secs(30);

/// The ranges of one file that are not written yet.
#[derive(Debug, Default)]
pub(super) struct Unwritten {
    /// The end of each range by its start.
    ranges: Mutex<BTreeMap<u64, u64>>,
    changed: Condvar,
}

impl Unwritten {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, u64>> {
        self.ranges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a range is among them.
    pub fn has(&self, range: &Range<u64>) -> bool {
        let ranges = self.lock();
        let before = ranges.range(..=range.start).next_back();
        before.is_some_and(|(_, end)| *end >= range.end)
    }

    /// Waits until what was fetched in these ranges is written.
    pub fn wait(&self, wanted: &[Range<u64>]) {
        let start = Instant::now();
        let mut ranges = self.lock();
        let is_unwritten = |ranges: &BTreeMap<u64, u64>, range: &Range<u64>| {
            let before = ranges.range(..range.end).next_back();
            before.is_some_and(|(_, end)| *end > range.start)
        };
        while wanted.iter().any(|range| is_unwritten(&ranges, range)) && start.elapsed() < LONGEST {
            let waited = self.changed.wait_timeout(ranges, LONGEST);
            ranges = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Adds ranges; returns the number of bytes in all.
    fn add(&self, fetched: &[(Range<u64>, Bytes)]) -> u64 {
        let mut ranges = self.lock();
        ranges.extend(fetched.iter().map(|(range, _)| (range.start, range.end)));
        let sizes = ranges.iter().map(|(start, end)| end - start);
        sizes.fold(0, u64::saturating_add)
    }
}

/// Bytes that are being written. When this is dropped, threads that wait for them go on.
pub(super) struct Writing {
    /// None at the end, so that a thread that waits has the last reference to the file.
    file: Option<Arc<FileCache>>,
    flight: Option<Flight>,
    unwritten: Arc<Unwritten>,
    fetched: Vec<(Range<u64>, Bytes)>,
}

impl Writing {
    /// Writes bytes in a thread; if too many wait already, before it returns.
    pub fn begin(file: &Arc<FileCache>, fetched: Vec<(Range<u64>, Bytes)>, flight: Flight) {
        let waiting = file.unwritten.add(&fetched);
        let writing = Self {
            file: Some(file.clone()),
            flight: Some(flight),
            unwritten: file.unwritten.clone(),
            fetched,
        };
        if waiting > MOST {
            writing.run();
        } else {
            // without threads, they are not kept
            let _ = in_background(move || writing.run());
        }
    }

    fn run(self) {
        let hashed = |(range, bytes): &(Range<u64>, Bytes)| {
            let hash = xxh3_64(bytes);
            (range.clone(), bytes.clone(), hash)
        };
        if let Some(file) = &self.file {
            file.keep(self.fetched.iter().map(hashed).collect());
        }
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        drop(self.flight.take());
        drop(self.file.take());
        let mut ranges = self.unwritten.lock();
        for (range, _) in &self.fetched {
            ranges.remove(&range.start);
        }
        drop(ranges);
        self.unwritten.changed.notify_all();
    }
}
