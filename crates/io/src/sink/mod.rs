//! Byte sinks: where bytes are written, by position.

mod checksum;
mod http;
mod local;
mod memory;
mod object;
mod parts;
mod reflink;
mod temp_sibling;
mod transfer;
mod whole;
mod xrootd;

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

pub use http::HttpSink;
pub use local::LocalSink;
pub use memory::MemorySink;
pub use object::ObjectSink;
pub use temp_sibling::{TempSibling, sweep, wanted_name};
pub use transfer::Transferred;
pub use whole::{OnBytes, Sent, send};
pub use xrootd::XrootdSink;

use crate::{ByteSource, IoError};

/// Something that bytes can be written to. What is written appears as a whole with [`ByteSink::commit`], or not at all.
pub trait ByteSink: Debug + Send + Sync {
    /// The name of the sink, for messages.
    fn url(&self) -> &str;

    /// Writes all of `bytes` at `offset`; calls for different places may run at the same time.
    ///
    /// # Errors
    /// If not all of them could be written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), IoError>;

    /// Brings `range` of a source to `offset`; calls for different places may run at the same time. With `share`, blocks are
    /// shared instead of copied where the file system can: both must begin at the same place in a block of
    /// [`share_block`](Self::share_block) bytes.
    ///
    /// # Errors
    /// If not all of them could be read and written.
    fn transfer(
        &self,
        source: &dyn ByteSource,
        range: &Range<u64>,
        offset: u64,
        _share: bool,
    ) -> Result<Transferred, IoError> {
        transfer::through_memory(self, source, range, offset)
    }

    /// Brings all of a source to a sink that nothing was written to, in pieces, several at once. `tick` is given the bytes that
    /// are there, and `false` ends it.
    ///
    /// # Errors
    /// If not all of them could be read and written, or `tick` has ended it.
    fn bring(
        &self,
        source: &Arc<dyn ByteSource>,
        tick: OnBytes<'_>,
    ) -> Result<Transferred, IoError> {
        whole::in_pieces(self, &**source, whole::PIECE, tick)
    }

    /// The checksum of what was written as the server has it, if it gives one: how it is made, and its digits. Everything is
    /// to be written before.
    ///
    /// # Errors
    /// If no server answers.
    fn checksum(&self) -> Result<Option<(String, String)>, IoError> {
        Ok(None)
    }

    /// The size of blocks, if this sink might share some with the source.
    fn share_block(&self, _source: &dyn ByteSource) -> Option<u64> {
        None
    }

    /// Bytes of a range of what was written that share their blocks with something else; none if nobody knows.
    fn shared_bytes(&self, _range: &Range<u64>) -> Option<u64> {
        None
    }

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
