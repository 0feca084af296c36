//! Options and progress of a read.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::cache::PageCache;
use super::held::Held;
use crate::RNTupleError;

/// Called on the caller's thread with bytes fetched and bytes to fetch; `false` stops the read.
pub type Tick<'a> = &'a dyn Fn(u64, u64) -> bool;

/// Options of a read.
#[derive(Clone, Copy)]
pub struct ReadOptions<'a> {
    /// Number of decoding threads, including the caller's.
    pub threads: usize,
    /// The most fetched bytes that wait to be decoded; by default the source decides.
    pub in_flight: Option<u64>,
    /// Decoded pages that the steps of an iteration share.
    pub cache: Option<&'a PageCache>,
    /// Pages and baskets that are in memory as they are stored.
    pub held: Option<&'a Held>,
    /// Receives the progress.
    pub tick: Option<Tick<'a>>,
}

impl Default for ReadOptions<'_> {
    fn default() -> Self {
        Self {
            threads: 1,
            in_flight: None,
            cache: None,
            held: None,
            tick: None,
        }
    }
}

/// Bytes done and to be done, shared by threads.
#[derive(Debug)]
pub struct Progress {
    done: AtomicU64,
    pub(super) total: AtomicU64,
    last: Mutex<Instant>,
}

impl Progress {
    const INTERVAL: Duration = Duration::from_millis(50);

    pub(super) fn new() -> Self {
        Self {
            done: AtomicU64::new(0),
            total: AtomicU64::new(0),
            last: Mutex::new(Instant::now()),
        }
    }

    /// Adds to the bytes to be done.
    pub fn expect(&self, n: u64) {
        self.total.fetch_add(n, Relaxed);
    }

    /// Adds to the bytes done.
    pub fn advance(&self, n: u64) {
        self.done.fetch_add(n, Relaxed);
    }

    /// Calls back, at a limited rate.
    pub fn tick(&self, tick: Option<Tick<'_>>) -> Result<(), RNTupleError> {
        let Some(tick) = tick else { return Ok(()) };
        if let Ok(mut last) = self.last.lock() {
            if last.elapsed() < Self::INTERVAL {
                return Ok(());
            }
            *last = Instant::now();
        }
        if tick(self.done.load(Relaxed), self.total.load(Relaxed)) {
            Ok(())
        } else {
            Err(RNTupleError::Interrupted)
        }
    }
}
