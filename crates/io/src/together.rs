//! Groups of threads that work for the same caller and stop together.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

thread_local! {
    /// The work of the current thread, and the work that contains it.
    static DOES: RefCell<Together> = const { RefCell::new(Together::nothing()) };
}

/// Whether all background work must stop.
static BACKGROUND_ENDS: AtomicBool = AtomicBool::new(false);

/// The work of several threads. When it is stopped, threads that wait for servers fail as interrupted: only one
/// thread receives a signal, and others would wait until a server's timeout.
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

    /// New work that is part of the current thread's work.
    #[must_use]
    pub fn of_this_thread() -> Self {
        let mut own = DOES.with_borrow(Clone::clone);
        own.parts.push(Arc::default());
        own
    }

    /// New work on threads that no caller waits for. The registered functions may be gone before it ends, so only its
    /// owner can stop it.
    #[must_use]
    pub fn in_background() -> Self {
        Self {
            is_in_background: true,
            ..Self::of_this_thread()
        }
    }

    /// Runs a part of the work on the current thread.
    pub fn work<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = DOES.replace(self.clone());
        let done = work();
        DOES.set(before);
        done
    }

    /// Stops the work.
    pub fn stop(&self) {
        if let Some(own) = self.parts.last() {
            own.store(true, Relaxed);
        }
    }
}

/// Whether the work of this thread was stopped.
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

/// Stops all background work for good, because the process ends.
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
                    // a part ends with the whole
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
