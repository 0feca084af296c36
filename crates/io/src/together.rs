//! Threads that read for the same purpose, and end together.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

thread_local! {
    /// What the thread does at the moment, and what that is a part of.
    static DOES: RefCell<Vec<Arc<AtomicBool>>> = const { RefCell::new(Vec::new()) };
}

/// Work of several threads. Once it is stopped, those of them that wait for servers end that as interrupted: a signal is
/// noticed by one thread only, and others would wait for as long as a server may take.
#[derive(Debug, Clone)]
pub struct Together(Vec<Arc<AtomicBool>>);

impl Together {
    /// Work that is a part of what this thread does.
    #[must_use]
    pub fn of_this_thread() -> Self {
        let mut parts = DOES.with_borrow(Clone::clone);
        parts.push(Arc::default());
        Self(parts)
    }

    /// Does some of the work.
    pub fn work<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = DOES.replace(self.0.clone());
        let done = work();
        DOES.set(before);
        done
    }

    /// Ends it.
    pub fn stop(&self) {
        if let Some(own) = self.0.last() {
            own.store(true, Relaxed);
        }
    }
}

/// Whether what this thread does was stopped.
pub(crate) fn is_stopped() -> bool {
    DOES.with_borrow(|parts| parts.iter().any(|part| part.load(Relaxed)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::wait_for;

    #[test]
    fn who_waits_for_something_is_told_that_the_work_was_stopped() {
        let together = Together::of_this_thread();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                together.work(|| {
                    // a part of the work ends with the whole
                    let part = Together::of_this_thread();
                    part.work(|| wait_for("u", std::future::pending::<()>()))
                })
            });
            together.stop();
            assert_eq!(waits.join().unwrap().unwrap_err().kind(), "interrupted");
        });
        // and nobody else does
        assert!(!is_stopped());
        assert_eq!(
            Together::of_this_thread()
                .work(|| wait_for("u", async { 1 }))
                .unwrap(),
            1
        );
    }
}
