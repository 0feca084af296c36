//! What a fork does not bring along: threads, and what others were about to do with locks. So what a process has opened is
//! of no use to those that are forked from it, and is let go there without anything being written or waited for.

#![expect(
    unsafe_code,
    reason = "to be told of forks costs nothing in between; to ask the system who we are costs as much as loading a product"
)]

use std::process;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::EventsError;

/// Which process this is, of those that were forked from the first that has asked.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The process in which something was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Process(u32);

impl Process {
    /// This one.
    pub fn this() -> Self {
        static IS_TOLD: OnceLock<bool> = OnceLock::new();
        // SAFETY: the function may be called at any time, and does what may be done behind a fork.
        let told = || unsafe { libc::pthread_atfork(None, None, Some(count)) } == 0;
        match IS_TOLD.get_or_init(told) {
            true => Self(FORKS.load(Ordering::Relaxed)),
            false => Self(process::id()),
        }
    }

    /// Whether it is this one, and not one that this one was forked from.
    pub fn is_this(self) -> bool {
        self == Self::this()
    }

    /// Fails in a process that was forked since.
    ///
    /// # Errors
    ///
    /// [`EventsError::Usage`], which says what it was (`dir:a: this store was opened`), and what to do.
    pub fn check(self, what: impl FnOnce() -> String, again: &str) -> Result<(), EventsError> {
        match self.is_this() {
            true => Ok(()),
            false => Err(EventsError::Usage {
                what: format!(
                    "{} before the process was forked: {again} in each process",
                    what()
                ),
            }),
        }
    }
}

/// Is called in each process that was forked, by its only thread.
extern "C" fn count() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}
