//! What a fork does not bring along: threads, and what others were about to do with locks. So what a process has opened is
//! of no use to those that are forked from it, and is let go there without anything being written or waited for.

use std::process;

use crate::EventsError;

/// The process in which something was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Process(u32);

impl Process {
    /// This one.
    pub fn this() -> Self {
        Self(process::id())
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
