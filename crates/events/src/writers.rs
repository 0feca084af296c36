//! Threads that write batches. Independent batches are written concurrently.
//!
//! If two batches share a product, their order decides which value remains. So a batch waits for all earlier batches with
//! which it shares products, including failed ones until they are tried again.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::{ABSENT, Batch, DataStore, EventsError, Parent, ProductName, Written};

/// Threads that write batches.
#[derive(Debug)]
pub struct Writers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Maximum number of waiting batches.
    most: usize,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// In the order of their arrival.
    waiting: VecDeque<Job>,
    writing: Vec<Arc<Footprint>>,
    /// Failed batches, and batches that wait for them, until they are tried again.
    failed: Vec<Job>,
    has_ended: bool,
    written: Written,
    error: Option<EventsError>,
}

#[derive(Debug)]
struct Job {
    batch: Batch,
    footprint: Arc<Footprint>,
}

impl Writers {
    /// Starts `n` threads.
    pub fn start(store: &DataStore, n: usize) -> Self {
        let shared = Arc::<Shared>::default();
        let thread = || {
            let (store, shared) = (store.clone(), shared.clone());
            thread::spawn(move || write_until_ended(&store, &shared))
        };
        Self {
            threads: (0..n).map(|_| thread()).collect(),
            shared: shared.clone(),
            most: 2 * n,
        }
    }

    /// Adds a batch; waits if too many are waiting.
    pub fn push(&self, batch: Batch) -> Result<(), EventsError> {
        let job = Job::new(batch);
        let mut state = self.shared.lock();
        while state.waiting.len() >= self.most {
            state = self.shared.wait(state);
        }
        state.waiting.push_back(job);
        self.shared.changed.notify_all();
        // The error of an earlier batch is returned by the next call.
        state.error.take().map_or(Ok(()), Err)
    }

    /// Writes failed batches again, before later ones.
    pub fn try_again(&self) {
        self.shared.lock().try_again();
        self.shared.changed.notify_all();
    }

    /// Waits until everything is written; returns the result.
    pub fn wait(&self) -> (Written, Option<EventsError>) {
        let mut state = self.shared.lock();
        while !state.writing.is_empty() || !state.waiting.is_empty() {
            state = self.shared.wait(state);
        }
        (std::mem::take(&mut state.written), state.error.take())
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        self.shared.lock().has_ended = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join(); // one that panicked has printed why
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The first batch that shares no products with earlier unwritten batches. Batches that share a container with a
    /// failed one are kept behind it.
    fn next(&mut self) -> Option<Job> {
        let mut at = 0;
        while let Some(job) = self.waiting.get(at) {
            let touches = |other: &Arc<Footprint>| job.footprint.touches(other);
            let mut before = self.waiting.iter().take(at).map(|job| &job.footprint);
            if before.any(touches) || self.writing.iter().any(touches) {
                at += 1;
                continue;
            }
            let is_held = self.failed.iter().any(|job| touches(&job.footprint));
            let job = self.waiting.remove(at)?;
            if !is_held {
                self.writing.push(job.footprint.clone());
                return Some(job);
            }
            self.failed.push(job);
        }
        None
    }

    fn end(&mut self, job: Job, written: Result<(Written, Option<EventsError>), EventsError>) {
        self.writing
            .retain(|other| !Arc::ptr_eq(other, &job.footprint));
        let error = match written {
            Ok((written, gone)) => {
                self.written.kept.extend(written.kept);
                gone
            }
            Err(error) => {
                self.failed.push(job);
                Some(error)
            }
        };
        self.error = self.error.take().or(error);
    }

    fn try_again(&mut self) {
        for job in self.failed.drain(..).rev() {
            self.waiting.push_front(job);
        }
    }
}

fn write_until_ended(store: &DataStore, shared: &Shared) {
    let mut state = shared.lock();
    loop {
        let n_waiting = state.waiting.len();
        let next = state.next();
        if state.waiting.len() < n_waiting {
            shared.changed.notify_all();
        }
        let Some(mut job) = next else {
            if state.has_ended && state.waiting.is_empty() {
                return;
            }
            state = shared.wait(state);
            continue;
        };
        drop(state);
        let written = store.write_rest(&mut job.batch);
        state = shared.lock();
        state.end(job, written);
        shared.changed.notify_all();
    }
}

impl Job {
    fn new(batch: Batch) -> Self {
        let footprint = Arc::new(Footprint::of(&batch));
        Self { batch, footprint }
    }
}

/// The range of products that a batch writes, possibly with a few more: the lowest and highest event per parent and name,
/// and the parent's own product, sorted. Containers may be created in any order.
#[derive(Debug, PartialEq)]
struct Footprint(Vec<(Parent, ProductName, u64, u64)>);

impl Footprint {
    fn of(batch: &Batch) -> Self {
        let mut found = Vec::new();
        for group in batch.products() {
            let range = |from: u64, to: u64| (group.parent, group.name.clone(), from, to);
            if let (Some(first), Some(last)) = (group.events().min(), group.events().max()) {
                found.push(range(first, last));
            }
            if group.entries.iter().any(|(event, _)| *event == ABSENT) {
                found.push(range(ABSENT, ABSENT));
            }
        }
        found.sort_unstable();
        Self(found)
    }

    /// Whether both may write the same product.
    fn touches(&self, other: &Self) -> bool {
        let (mut ours, mut theirs) = (self.0.iter().peekable(), other.0.iter().peekable());
        while let (Some(a), Some(b)) = (ours.peek(), theirs.peek()) {
            let order = (a.0, &a.1).cmp(&(b.0, &b.1));
            if order == Ordering::Equal && a.2 <= b.3 && b.2 <= a.3 {
                return true;
            }
            match order.then(a.3.cmp(&b.3)) {
                Ordering::Less => ours.next(),
                _ => theirs.next(),
            };
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Uuid;

    fn batch(products: &[(u64, &str, u64)]) -> Batch {
        let mut batch = Batch::default();
        for (subrun, label, event) in products {
            let parent = Parent::subrun(Uuid([1; 16]), 1, *subrun);
            let name = ProductName::new(label, "T").unwrap();
            batch.store(parent, *event, &name, b"x");
            batch.create(parent, *event);
        }
        batch
    }

    #[test]
    fn batches_touch_where_they_have_a_product_in_common() {
        let touches = |a: &[(u64, &str, u64)], b: &[(u64, &str, u64)]| {
            let [a, b] = [a, b].map(|products| Footprint::of(&batch(products)));
            assert_eq!(a.touches(&b), b.touches(&a));
            a.touches(&b)
        };
        let some = [(1, "x", 5), (1, "x", 9), (1, "y", 3), (2, "x", 1)];
        assert!(touches(&some, &some));
        assert!(touches(&some, &[(2, "x", 1)]));
        assert!(touches(&some, &[(0, "z", 1), (1, "x", 9), (3, "x", 1)]));
        assert!(!touches(&some, &[(1, "x", 10), (1, "x", 11), (1, "y", 4)]));
        assert!(!touches(
            &some,
            &[(2, "y", 1), (3, "x", 1), (1, "x", ABSENT)]
        ));
        assert!(!touches(&some, &[]));
        // The product of a subrun itself does not belong to an event.
        let own = [(1, "x", 1), (1, "x", ABSENT)];
        assert!(touches(&own, &[(1, "x", ABSENT)]));
        assert!(!touches(&own, &[(1, "x", 2), (1, "x", 7)]));
    }

    #[test]
    fn what_touches_one_that_failed_stays_behind_it() {
        let job = |event| Job::new(batch(&[(1, "x", event)]));
        let mut state = State::default();
        state.waiting.extend([1, 2, 1, 3, 1].map(job));
        let first = state.next().unwrap();
        let second = state.next().unwrap();
        let third = state.next().unwrap();
        // The rest shares a container with the first batch, which is being written.
        assert!(state.next().is_none() && state.waiting.len() == 2);
        let failed = EventsError::Usage { what: "bad".into() };
        state.end(second, Ok((Written::default(), None)));
        state.end(third, Ok((Written::default(), None)));
        let of_first = first.footprint.clone();
        state.end(first, Err(failed));
        assert!(state.next().is_none());
        assert!(state.writing.is_empty() && state.waiting.is_empty());
        let later: Vec<_> = state
            .failed
            .iter()
            .map(|job| job.footprint.clone())
            .collect();
        assert_eq!(later.len(), 3);
        state.waiting.push_back(job(1));
        state.try_again();
        for footprint in &later {
            let job = state.next().unwrap();
            assert!(Arc::ptr_eq(&job.footprint, footprint));
            assert!(state.next().is_none());
            state.end(job, Ok((Written::default(), None)));
        }
        assert!(Arc::ptr_eq(&later[0], &of_first));
        assert!(state.next().is_some());
    }
}
