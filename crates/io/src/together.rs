//! Threads that read for the same purpose, and end together.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

thread_local! {
    /// What the thread does at the moment, and what that is a part of.
    static DOES: RefCell<Together> = const { RefCell::new(Together::nothing()) };
}

/// Whether all work in the background is to end.
static BACKGROUND_ENDS: AtomicBool = AtomicBool::new(false);

/// Work of several threads. Once it is stopped, threads that wait for servers end as interrupted: a signal is noticed
/// by one thread only, and others would wait for as long as a server may take.
#[derive(Debug, Clone)]
pub struct Together {
    parts: Vec<Arc<AtomicBool>>,
    is_in_background: bool,
}

impl Together {
    const fn nothing() -> Self {
        Self {
            parts: Vec::new(),
            is_in_background: false,
        }
    }

    /// Work that is a part of what this thread does.
    #[must_use]
    pub fn of_this_thread() -> Self {
        let mut own = DOES.with_borrow(Clone::clone);
        own.parts.push(Arc::default());
        own
    }

    /// The same, for threads that no caller waits for: the registered functions may be gone before they end, so only
    /// their owner stops them.
    #[must_use]
    pub fn in_background() -> Self {
        Self {
            is_in_background: true,
            ..Self::of_this_thread()
        }
    }

    /// Does some of the work.
    pub fn work<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = DOES.replace(self.clone());
        let done = work();
        DOES.set(before);
        done
    }

    /// Ends it.
    pub fn stop(&self) {
        if let Some(own) = self.parts.last() {
            own.store(true, Relaxed);
        }
    }
}

/// Whether what this thread does was stopped.
pub fn is_stopped() -> bool {
    DOES.with_borrow(|does| {
        does.parts.iter().any(|part| part.load(Relaxed))
            || does.is_in_background && BACKGROUND_ENDS.load(SeqCst)
    })
}

/// Whether no caller waits for the work of this thread.
pub fn is_in_background() -> bool {
    DOES.with_borrow(|does| does.is_in_background)
}

/// Stops all that is done in the background, from now on: the process ends.
pub fn end_background() {
    BACKGROUND_ENDS.store(true, SeqCst);
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
        // and no other thread does
        assert!(!is_stopped());
        assert_eq!(
            Together::of_this_thread()
                .work(|| wait_for("u", async { 1 }))
                .unwrap(),
            1
        );
    }

    #[test]
    fn work_in_the_background_is_stopped_by_those_who_began_it() {
        let background = Together::in_background();
        background.work(|| {
            assert!(is_in_background() && !is_stopped());
            Together::of_this_thread().work(|| assert!(is_in_background()));
        });
        background.stop();
        background.work(|| assert!(is_stopped()));
        assert!(!is_in_background() && !is_stopped());
    }
}
