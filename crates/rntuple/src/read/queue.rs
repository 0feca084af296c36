//! The queue of requests to fetch and bytes to decode, within a budget of bytes.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::fetch::Work;
use super::plan::Part;
use crate::spec::StoredRange;

/// After this time, a waiting thread can check whether to continue.
const PATIENCE: Duration = Duration::from_millis(100);

/// The time over which the rate of a source is measured.
const WINDOW: Duration = Duration::from_secs(1);

/// The next task of a decoding thread.
pub(super) enum Next<J> {
    /// Work, with its bytes if they were fetched ahead.
    Work(Work<J>, Option<Bytes>),
    /// No work yet: check whether to continue.
    Nothing,
}

#[derive(Debug)]
struct State<J> {
    /// Work whose bytes are in memory.
    held: VecDeque<Work<J>>,
    /// The vector reads to make, in their order.
    waiting: VecDeque<Vec<Work<J>>>,
    ready: VecDeque<(Work<J>, Bytes)>,
    /// Number of vector reads in flight.
    reading: usize,
    in_flight: u64,
    /// Start of the measurement, and the bytes received since. It starts when a read ends, as the time before the first
    /// bytes is latency.
    window: Option<(Instant, u64)>,
    stopped: bool,
}

/// The work, in its order.
#[derive(Debug)]
pub(super) struct Queue<J> {
    state: Mutex<State<J>>,
    changed: Condvar,
    fetched_ahead: bool,
    budget: u64,
}

impl<J> Queue<J> {
    pub fn new(
        held: Vec<Work<J>>,
        work: Vec<Vec<Work<J>>>,
        fetched_ahead: bool,
        budget: u64,
    ) -> Self {
        let state = State {
            held: held.into(),
            waiting: work.into(),
            ready: VecDeque::new(),
            reading: 0,
            in_flight: 0,
            window: None,
            stopped: false,
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            fetched_ahead,
            budget,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<J>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next work, with its bytes if they were fetched ahead; none at the end. While there is no work, it returns from
    /// time to time.
    pub fn next(&self) -> Option<Next<J>> {
        let mut state = self.lock();
        loop {
            if state.stopped {
                return None;
            }
            if let Some(work) = state.held.pop_front() {
                return Some(Next::Work(work, None));
            }
            if !self.fetched_ahead {
                // work that is read here consists of one request
                let work = state.waiting.pop_front()?.pop();
                return work.map(|work| Next::Work(work, None));
            }
            if let Some((work, bytes)) = state.ready.pop_front() {
                return Some(Next::Work(work, Some(bytes)));
            }
            if state.waiting.is_empty() && state.reading == 0 {
                return None;
            }
            let waited = self.changed.wait_timeout(state, PATIENCE);
            let (woken, result) = waited.unwrap_or_else(PoisonError::into_inner);
            if result.timed_out() {
                return Some(Next::Nothing);
            }
            state = woken;
        }
    }

    /// Work for one vector read, as soon as its bytes are within the budget and the number of reads in flight allows
    /// another one.
    pub fn take_batch(&self, parts: &[Part]) -> Option<Vec<Work<J>>> {
        let mut state = self.lock();
        loop {
            if state.stopped {
                return None;
            }
            let next = state.waiting.front()?;
            let bytes: u64 = next.iter().map(Work::n_bytes).sum();
            let fits = state.in_flight.saturating_add(bytes) <= self.budget;
            if state.in_flight == 0 || fits && state.reading < depth_of(next, parts) {
                state.in_flight += bytes;
                state.reading += 1;
                return state.waiting.pop_front();
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Adds the result of a vector read. Returns the rate in bytes per second whenever it was measured for long enough;
    /// small reads at the beginning are not meaningful.
    pub fn put_all(&self, found: impl Iterator<Item = (Work<J>, Bytes)>) -> Option<u64> {
        let mut state = self.lock();
        state.reading -= 1;
        let mut n_bytes = 0;
        for (work, bytes) in found {
            n_bytes += work.n_bytes();
            state.ready.push_back((work, bytes));
        }
        self.changed.notify_all();
        let Some((start, before)) = state.window else {
            state.window = Some((Instant::now(), 0));
            return None;
        };
        let (sum, elapsed) = (before + n_bytes, start.elapsed());
        if elapsed < WINDOW {
            state.window = Some((start, sum));
            return None;
        }
        state.window = Some((Instant::now(), 0));
        let rate = u128::from(sum) * 1000 / elapsed.as_millis().max(1);
        u64::try_from(rate).ok()
    }

    /// Releases the bytes of completed work.
    pub fn done(&self, n_bytes: u64) {
        if self.fetched_ahead {
            self.lock().in_flight -= n_bytes;
            self.changed.notify_all();
        }
    }

    /// The request that a thread that reads itself should announce: some way ahead, within the budget.
    pub fn ahead(&self, largest_request: u64) -> Option<(usize, Vec<StoredRange>)> {
        let distance = usize::try_from(self.budget / largest_request.max(1))
            .unwrap_or(usize::MAX)
            .max(1);
        let state = self.lock();
        let work = state.waiting.get(distance.min(8))?.first()?;
        Some((work.part, vec![work.stored]))
    }

    pub fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }
}

/// Number of vector reads to have in flight for the next file.
pub(super) fn depth_of<J>(next: &[Work<J>], parts: &[Part]) -> usize {
    let part = next.first().and_then(|work| parts.get(work.part));
    part.map_or(1, |part| {
        let info = part.reader.store().info();
        match info.meter {
            Some(meter) => meter.depth(&info.cost),
            None => info.cost.concurrency,
        }
    })
}
