//! What a process has opened is of no use to those that are forked from it, and is let go there without anything being written
//! or waited for; but for stores in a Redis, whose locks are held only where no fork happens.

pub use femtobarn_io::forked::{Process, lock};

use crate::EventsError;

/// Something that a forked child process must not use.
pub trait Forked {
    /// Fails in a process that was forked since.
    ///
    /// # Errors
    ///
    /// [`EventsError::Usage`], which says what it was (`dir:a: this store was opened`), and what to do.
    fn check(self, what: impl FnOnce() -> String, again: &str) -> Result<(), EventsError>;
}

impl Forked for Process {
    fn check(self, what: impl FnOnce() -> String, again: &str) -> Result<(), EventsError> {
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
