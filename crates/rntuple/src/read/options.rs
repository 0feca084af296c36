//! How a read is done, and how far it is.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::cache::PageCache;
use crate::RNTupleError;

/// Called on the caller's thread with bytes fetched and bytes to fetch; `false` stops the read.
pub type Tick<'a> = &'a dyn Fn(u64, u64) -> bool;

/// How a read is done.
#[derive(Clone, Copy)]
pub struct ReadOptions<'a> {
    /// Threads that decode, the caller's included.
    pub threads: usize,
    /// Most fetched bytes that wait to be decoded; none for what the source says.
    pub in_flight: Option<u64>,
    /// Decoded pages that steps of an iteration share.
    pub cache: Option<&'a PageCache>,
    /// Progress.
    pub tick: Option<Tick<'a>>,
}

impl Default for ReadOptions<'_> {
    fn default() -> Self {
        Self {
            threads: 1,
            in_flight: None,
            cache: None,
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

    /// Adds bytes to those to be done.
    pub fn expect(&self, n: u64) {
        self.total.fetch_add(n, Relaxed);
    }

    /// Adds bytes to those done.
    pub fn advance(&self, n: u64) {
        self.done.fetch_add(n, Relaxed);
    }

    /// Calls back, not too often.
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
