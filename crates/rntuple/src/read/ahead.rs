//! Reading before there is a plan: which bytes will be needed is known sooner than where they go.
//!
//! The places of a list's items follow from counters that are stored elsewhere. While these are read, the first vector reads
//! of the items are under way already, cut just as the plan will cut them: nothing is read that would not have been.

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
    /// Where they are.
    pub stored: StoredRange,
}

impl Fetched for Needed {
    fn part(&self) -> usize {
        self.part
    }

    fn stored(&self) -> StoredRange {
        self.stored
    }
}

/// One vector read, and how far it is.
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
    /// Somebody has it, or reads it by himself.
    Gone,
}

/// The vector reads, in their order.
#[derive(Debug)]
struct Vectors {
    all: Vec<Vector>,
    may_begin: bool,
}

/// Vector reads that are made before anybody asks for their bytes.
#[derive(Debug)]
pub struct Ahead {
    vectors: Mutex<Vectors>,
    changed: Condvar,
    together: Together,
}

/// Lets threads go that wait to begin, when this is dropped.
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
    /// The first of the vector reads for these bytes, as many as are worth having in flight and fit into the budget of a read;
    /// none for sources that answer at once.
    pub fn new(parts: &[Part], needed: Vec<Needed>, options: &ReadOptions<'_>) -> Self {
        let budget = budget_of(parts, options);
        let answers_at_once = |part: &Part| part.reader.cost().concurrency <= 1;
        let mut vectors = Vec::new();
        let mut n_bytes = 0u64;
        for batch in batches(parts, requests(parts, needed), budget) {
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

    /// Reads while something is done, as soon as that has asked for its own bytes. What is not begun by its end is not read.
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

    /// What is read ahead will not be needed: those that wait for it are told.
    pub(super) fn stop(&self) {
        self.together.stop();
    }

    /// What has to come first is asked for.
    pub(super) fn begin(&self) {
        self.lock().may_begin = true;
        self.changed.notify_all();
    }

    /// Makes the first read that nobody has begun; says whether there was one.
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

    /// What a vector read gave, once it is there; none if nobody makes it here.
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
