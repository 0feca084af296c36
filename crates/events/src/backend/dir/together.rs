//! Writes small batches of several threads in one transaction.
//!
//! A commit waits for the disk, whatever its size. While one caller commits, the others wait. Then the first of them
//! writes all waiting batches, so many threads share one disk wait.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::{Batch, EventsError, Written};

/// Larger batches are written separately: most of their time is writing, not waiting.
pub const SMALL: usize = 64 << 10;
/// Maximum number of batches per transaction.
const MOST: usize = 1000;

/// The result of a batch.
pub type Outcome = Result<Written, EventsError>;

#[derive(Debug, Default)]
pub struct Together {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Whether a caller is writing.
    is_led: bool,
    next: u64,
    /// Waiting batches with their numbers.
    waiting: Vec<(u64, Batch)>,
    done: HashMap<u64, Outcome>,
}

/// Ends writing, even after a panic.
struct Leading<'a>(&'a Together);

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        self.0.lock().is_led = false;
        self.0.changed.notify_all();
    }
}

impl Together {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The locked data are always consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a batch, alone or with others. `write` returns one outcome per batch, in order; if it returns fewer, the
    /// others get `poisoned`.
    pub fn write(
        &self,
        batch: &Batch,
        write: impl Fn(&[&Batch]) -> Vec<Outcome>,
        poisoned: impl Fn() -> EventsError,
    ) -> Outcome {
        let mut state = self.lock();
        if !state.is_led && state.waiting.is_empty() {
            state.is_led = true;
            drop(state);
            let _leading = Leading(self);
            return write(&[batch]).pop().unwrap_or_else(|| Err(poisoned()));
        }
        let own = state.next;
        state.next += 1;
        state.waiting.push((own, batch.clone()));
        loop {
            if let Some(done) = state.done.remove(&own) {
                return done;
            }
            if state.is_led {
                state = self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            if !state.waiting.iter().any(|(number, _)| *number == own) {
                // The writing thread failed without an error.
                return Err(poisoned());
            }
            state.is_led = true;
            let n = state.waiting.len().min(MOST);
            let all: Vec<_> = state.waiting.drain(..n).collect();
            drop(state);
            let leading = Leading(self);
            let batches: Vec<_> = all.iter().map(|(_, batch)| batch).collect();
            let outcomes = write(&batches);
            let numbers = all.iter().map(|(number, _)| *number);
            self.lock().done.extend(numbers.zip(outcomes));
            drop(leading);
            state = self.lock();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::{ABSENT, Parent, ProductId, ProductName, Uuid};

    /// A batch with its number, and its outcome.
    fn numbered(number: u64) -> (Batch, ProductId) {
        let parent = Parent::run(Uuid([1; 16]), number);
        let name = ProductName::new("x", "T").unwrap();
        let mut batch = Batch::default();
        batch.store(parent, ABSENT, &name, b"x");
        let id = ProductId {
            container: parent.descriptor(),
            name,
        };
        (batch, id)
    }

    fn poisoned() -> EventsError {
        EventsError::Poisoned { url: "u".into() }
    }

    #[test]
    fn each_gets_what_came_of_its_own() {
        let together = Together::default();
        let n_writes = AtomicUsize::new(0);
        let write = |batches: &[&Batch]| {
            n_writes.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(2));
            let one = |batch: &&Batch| {
                let group = &batch.products()[0];
                let kept = vec![ProductId {
                    container: group.parent.descriptor(),
                    name: group.name.clone(),
                }];
                match group.parent.run % 7 {
                    0 => Err(poisoned()),
                    _ => Ok(Written { kept }),
                }
            };
            batches.iter().map(one).collect()
        };
        std::thread::scope(|scope| {
            for thread in 0..16 {
                let (together, write) = (&together, &write);
                scope.spawn(move || {
                    for n in 0..50 {
                        let number = thread * 50 + n;
                        let (batch, id) = numbered(number);
                        match together.write(&batch, write, poisoned) {
                            Ok(written) => assert_eq!(written.kept, [id]),
                            Err(_) => assert_eq!(number % 7, 0),
                        }
                    }
                });
            }
        });
        let n_writes = n_writes.into_inner();
        assert!(n_writes < 400, "{n_writes} for 800 batches");
        let state = together.lock();
        assert!(!state.is_led && state.waiting.is_empty() && state.done.is_empty());
    }

    #[test]
    fn one_that_panics_leaves_nobody_waiting() {
        let together = Together::default();
        std::thread::scope(|scope| {
            for number in 0..8 {
                let together = &together;
                scope.spawn(move || {
                    let (batch, _) = numbered(number);
                    let outcome = std::panic::catch_unwind(|| {
                        let write = |batches: &[&Batch]| {
                            std::thread::sleep(Duration::from_millis(5));
                            assert!(batches.len() < 2, "many at once");
                            vec![Ok(Written::default())]
                        };
                        together.write(&batch, write, poisoned)
                    });
                    if let Ok(Err(error)) = outcome {
                        assert_eq!(error.kind(), "store-poisoned");
                    }
                });
            }
        });
    }
}
