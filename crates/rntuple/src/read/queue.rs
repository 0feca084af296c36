//! What is to be fetched and what waits to be decoded, under a budget of bytes.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use super::fetch::Work;
use super::plan::Part;

/// How long nothing is said to who waits.
const PATIENCE: Duration = Duration::from_millis(100);

/// What a thread that decodes is to do.
pub(super) enum Next<J> {
    /// This, with its bytes where they were fetched ahead.
    Work(Work<J>, Option<Bytes>),
    /// Ask whether to go on.
    Nothing,
}

#[derive(Debug)]
struct State<J> {
    waiting: VecDeque<Work<J>>,
    ready: VecDeque<(Work<J>, Bytes)>,
    /// Work that a waiting thread has taken and not put back.
    fetching: usize,
    in_flight: u64,
    stopped: bool,
}

/// Work to do, in order.
#[derive(Debug)]
pub(super) struct Queue<J> {
    state: Mutex<State<J>>,
    changed: Condvar,
    fetched_ahead: bool,
    budget: u64,
}

impl<J> Queue<J> {
    pub fn new(work: Vec<Work<J>>, fetched_ahead: bool, budget: u64) -> Self {
        let state = State {
            waiting: work.into(),
            ready: VecDeque::new(),
            fetching: 0,
            in_flight: 0,
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

    /// The next work, with its bytes where they were fetched ahead; none at the end. Who waits is told so now and then.
    pub fn next(&self) -> Option<Next<J>> {
        let mut state = self.lock();
        loop {
            if state.stopped {
                return None;
            }
            if !self.fetched_ahead {
                let work = state.waiting.pop_front();
                return work.map(|work| Next::Work(work, None));
            }
            if let Some((work, bytes)) = state.ready.pop_front() {
                return Some(Next::Work(work, Some(bytes)));
            }
            if state.waiting.is_empty() && state.fetching == 0 {
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

    /// Work for one vector read: of one file, as many ranges as its source takes, within the budget.
    pub fn take_batch(&self, parts: &[Part]) -> Option<Vec<Work<J>>> {
        let mut state = self.lock();
        loop {
            if state.stopped || state.waiting.is_empty() {
                return None;
            }
            let next = state.waiting.front().map_or(0, Work::n_bytes);
            if state.in_flight == 0 || state.in_flight.saturating_add(next) <= self.budget {
                break;
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let mut batch: Vec<Work<J>> = Vec::new();
        let cost = state
            .waiting
            .front()
            .and_then(|work| parts.get(work.part))
            .map(|p| p.reader.source().cost());
        let most = cost.map_or(1, |cost| cost.most_ranges.max(1));
        // one read takes its share of the budget, so that others are in flight beside it
        let share = self.budget / cost.map_or(1, |cost| cost.concurrency.max(1)) as u64;
        let mut bytes = 0u64;
        while let Some(work) = state.waiting.front() {
            let fits = batch.first().is_none_or(|first| {
                first.part == work.part
                    && !first.split
                    && !work.split
                    && bytes.saturating_add(work.n_bytes()) <= share
            });
            if !fits || batch.len() >= most {
                break;
            }
            bytes += work.n_bytes();
            batch.extend(state.waiting.pop_front());
        }
        state.in_flight += bytes;
        state.fetching += batch.len();
        Some(batch)
    }

    pub fn put(&self, work: Work<J>, bytes: Bytes) {
        let mut state = self.lock();
        state.fetching -= 1;
        state.ready.push_back((work, bytes));
        self.changed.notify_all();
    }

    /// A work's bytes are no longer held.
    pub fn done(&self, n_bytes: u64) {
        if self.fetched_ahead {
            self.lock().in_flight -= n_bytes;
            self.changed.notify_all();
        }
    }

    /// What a thread that reads by itself should announce: a request some way ahead, within the budget.
    pub fn ahead(&self, largest_request: u64) -> Option<(usize, Vec<Range<u64>>)> {
        let distance = usize::try_from(self.budget / largest_request.max(1))
            .unwrap_or(usize::MAX)
            .max(1);
        let state = self.lock();
        let work = state.waiting.get(distance.min(8))?;
        Some((work.part, vec![work.range.clone()]))
    }

    pub fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }
}
