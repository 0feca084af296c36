//! Objects of a process cannot be used in forked children; there they are released without writing or waiting; except
//! for stores in Redis, whose locks are never held during a fork.

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
