//! Reads ahead of the plan: it is known early which bytes will be needed, although not yet where their values go.
//!
//! The positions of a list's items follow from counters that are stored elsewhere. While these are read, the first vector
//! reads of the items are started, cut in the same way as by the plan, so nothing is read needlessly.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use femtobarn_io::Together;

use super::fetch::{Fetched, batches, budget_of, requests};
use super::options::ReadOptions;
use super::plan::Part;
use super::queue::depth_of;
use super::stats::{add, elapsed};
use crate::RNTupleError;
use crate::spec::StoredRange;

/// Bytes of a file that will be needed.
#[derive(Debug)]
pub struct Needed {
    /// Index of the file's part.
    pub part: usize,
    /// Their stored range.
    pub stored: StoredRange,
}

impl Fetched for Needed {
    fn part(&self) -> usize {
        self.part
    }

    fn stored(&self) -> StoredRange {
        self.stored
    }

    fn is_needed(&self) -> bool {
        false
    }
}

/// A vector read and its state.
#[derive(Debug)]
struct Vector {
    part: usize,
    wanted: Vec<StoredRange>,
    state: State,
}

#[derive(Debug)]
enum State {
    Waits,
    IsRead,
    Here(Result<Vec<Bytes>, RNTupleError>),
    /// Another thread has taken it, or reads it itself.
    Gone,
}

/// The vector reads in their order.
#[derive(Debug)]
struct Vectors {
    all: Vec<Vector>,
    may_begin: bool,
}

/// Vector reads that start before their bytes are requested.
#[derive(Debug)]
pub struct Ahead {
    vectors: Mutex<Vectors>,
    changed: Condvar,
    together: Together,
}

/// Releases threads that wait for the start, when dropped.
struct End<'a>(&'a Ahead);

impl Drop for End<'_> {
    fn drop(&mut self) {
        for vector in &mut self.0.lock().all {
            if matches!(vector.state, State::Waits) {
                vector.state = State::Gone;
            }
        }
        self.0.begin();
    }
}

impl Ahead {
    /// Makes the first vector reads for these bytes, as many as the source should have in flight and the budget of a read
    /// allows; none for sources that answer at once.
    pub fn new(parts: &[Part], needed: Vec<Needed>, options: &ReadOptions<'_>) -> Self {
        let budget = budget_of(parts, options);
        let answers_at_once = |part: &Part| !part.reader.cost().is_far();
        let mut vectors = Vec::new();
        let mut n_bytes = 0u64;
        let mut work = requests(parts, needed, options.held);
        work.retain(|work| work.held.is_none());
        for batch in batches(parts, work, budget) {
            let Some(part) = batch.first().map(|work| work.part) else {
                break;
            };
            n_bytes = batch
                .iter()
                .map(|work| work.n_bytes())
                .fold(n_bytes, u64::saturating_add);
            let depth = depth_of(&batch, parts);
            if n_bytes > budget
                || vectors.len() >= depth
                || parts.get(part).is_none_or(answers_at_once)
            {
                break;
            }
            vectors.push(Vector {
                part,
                wanted: batch.iter().map(|work| work.stored).collect(),
                state: State::Waits,
            });
        }
        Self {
            vectors: Mutex::new(Vectors {
                all: vectors,
                may_begin: false,
            }),
            changed: Condvar::new(),
            together: Together::of_this_thread(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vectors> {
        self.vectors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads while `work` runs, once `work` has requested its own bytes. Reads that have not started by its end are
    /// dropped.
    pub fn meanwhile<T>(&self, parts: &[Part], work: impl FnOnce() -> T) -> T {
        let n_vectors = self.lock().all.len();
        std::thread::scope(|scope| {
            for _ in 0..n_vectors {
                scope.spawn(|| self.together.work(|| while self.read_one(parts) {}));
            }
            let _end = End(self);
            work()
        })
    }

    /// Cancels reading ahead, and informs threads that wait for it.
    pub(super) fn stop(&self) {
        self.together.stop();
    }

    /// Allows reading ahead to start.
    pub(super) fn begin(&self) {
        self.lock().may_begin = true;
        self.changed.notify_all();
    }

    /// Makes the first read that has not started; returns whether there was one.
    fn read_one(&self, parts: &[Part]) -> bool {
        let mut vectors = self.lock();
        while !vectors.may_begin {
            let waited = self.changed.wait(vectors);
            vectors = waited.unwrap_or_else(PoisonError::into_inner);
        }
        let waits = |vector: &Vector| matches!(vector.state, State::Waits);
        let Some(at) = vectors.all.iter().position(waits) else {
            return false;
        };
        let Some((part, wanted)) = vectors.all.get_mut(at).and_then(|vector| {
            vector.state = State::IsRead;
            Some((parts.get(vector.part)?, vector.wanted.clone()))
        }) else {
            return false;
        };
        drop(vectors);
        let start = Instant::now();
        let answer = part.reader.store().read(&wanted);
        add(&part.reader.stats().io_ns, elapsed(start));
        if let Some(vector) = self.lock().all.get_mut(at) {
            vector.state = State::Here(answer);
        }
        self.changed.notify_all();
        true
    }

    /// Waits for the result of a vector read; none if it is not made here.
    pub(super) fn take(
        &self,
        part: usize,
        wanted: &[StoredRange],
    ) -> Option<Result<Vec<Bytes>, RNTupleError>> {
        let mut vectors = self.lock();
        let at = vectors
            .all
            .iter()
            .position(|vector| vector.part == part && vector.wanted == wanted)?;
        loop {
            let vector = vectors.all.get_mut(at)?;
            if let State::IsRead = vector.state {
                let waited = self.changed.wait(vectors);
                vectors = waited.unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            return match std::mem::replace(&mut vector.state, State::Gone) {
                State::Here(answer) => Some(answer),
                State::Waits | State::IsRead | State::Gone => None,
            };
        }
    }
}
