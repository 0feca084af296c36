//! Byte sinks: where bytes are written, by position.

mod aside;
mod local;
mod memory;

use std::fmt::Debug;

pub use aside::{Aside, wanted_name};
pub use local::LocalSink;
pub use memory::MemorySink;

use crate::IoError;

/// Something that bytes can be written to. What is written appears as a whole with [`ByteSink::commit`], or not at all.
pub trait ByteSink: Debug + Send + Sync {
    /// The name of the sink, for messages.
    fn url(&self) -> &str;

    /// Writes all of `bytes` at `offset`; calls for different places may run at the same time.
    ///
    /// # Errors
    /// If not all of them could be written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), IoError>;

    /// Makes everything written so far survive a crash of the machine.
    ///
    /// # Errors
    /// If the storage says that it could not.
    fn sync(&self) -> Result<(), IoError>;

    /// Cuts what is there already to a size; a sink that makes something new has nothing to cut.
    ///
    /// # Errors
    /// If the storage says that it could not.
    fn truncate(&self, _size: u64) -> Result<(), IoError> {
        Ok(())
    }

    /// Makes everything written appear under the sink's name. Nothing may be written afterwards.
    ///
    /// # Errors
    /// If it could not: then nothing has appeared.
    fn commit(&self) -> Result<(), IoError>;
}
