//! Detects the use of objects in forked child processes. There, objects are dropped without writing or waiting.
//! Stores in Redis may be used after a fork, because their locks are never held during one.

pub use femtobarn_fork::{Process, lock};

use crate::EventsError;

/// An object that a forked child process must not use.
pub trait Forked {
    /// Fails in a process that was forked since the object was created.
    ///
    /// # Errors
    ///
    /// [`EventsError::Usage`] with the name of the object (`dir:a: this store was opened`) and advice.
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
