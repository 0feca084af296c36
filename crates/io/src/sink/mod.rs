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

/// Something that bytes can be written to. Written data appear as a whole with [`ByteSink::commit`], or not at all.
pub trait ByteSink: Debug + Send + Sync {
    /// The name of the sink, for messages.
    fn url(&self) -> &str;

    /// Writes all of `bytes` at `offset`; calls for different positions may run concurrently.
    ///
    /// # Errors
    /// If not all of them could be written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), IoError>;

    /// Brings `range` of a source to `offset`; calls for different positions may run concurrently. With `share`, blocks
    /// are shared instead of copied where the file system can: both must begin at the same offset within a block of
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

    /// Brings all of a source to a sink that nothing was written to, in pieces, several at once. `tick` gets the number
    /// of bytes so far, and ends it by returning `false`.
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

    /// The server's checksum of the written data, if it provides one: how it is made, and its digits. Everything is to
    /// be written before.
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

    /// Bytes of a written range that share their blocks with other files; none if unknown.
    fn shared_bytes(&self, _range: &Range<u64>) -> Option<u64> {
        None
    }

    /// Makes everything written so far survive a crash of the machine.
    ///
    /// # Errors
    /// If the storage reports an error.
    fn sync(&self) -> Result<(), IoError>;

    /// Truncates existing data to a size; a sink that makes something new has nothing to cut.
    ///
    /// # Errors
    /// If the storage reports an error.
    fn truncate(&self, _size: u64) -> Result<(), IoError> {
        Ok(())
    }

    /// Makes everything written appear under the sink's name. Nothing may be written afterwards.
    ///
    /// # Errors
    /// If it could not: then nothing has appeared.
    fn commit(&self) -> Result<(), IoError>;
}
