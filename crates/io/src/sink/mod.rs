//! Byte sinks, which are written by position.

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
pub(crate) use object::{MAKER, random_name};
pub use object::{ObjectSink, UploadRequests};
pub use temp_sibling::{TempSibling, sweep, wanted_name};
pub use transfer::Transferred;
pub use whole::{OnBytes, Sent, send};
pub use xrootd::XrootdSink;

use crate::{ByteSource, IoError};

/// A destination for bytes. Written data appear as a whole with [`ByteSink::commit`], or not at all.
pub trait ByteSink: Debug + Send + Sync {
    /// The name of the sink, for messages.
    fn url(&self) -> &str;

    /// Writes all of `bytes` at `offset`; calls for different positions may run concurrently.
    ///
    /// # Errors
    /// If not all bytes could be written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), IoError>;

    /// Copies `range` of a source to `offset`; calls for different positions may run concurrently. With `share`, blocks
    /// are shared instead of copied if the file system supports it. Then both must begin at the same offset within a
    /// block of [`share_block`](Self::share_block) bytes.
    ///
    /// # Errors
    /// If not all bytes could be read and written.
    fn transfer(
        &self,
        source: &dyn ByteSource,
        range: &Range<u64>,
        offset: u64,
        _share: bool,
    ) -> Result<Transferred, IoError> {
        transfer::through_memory(self, source, range, offset)
    }

    /// Copies a complete source to an empty sink, in concurrent pieces. `tick` receives the number of bytes so far; if
    /// it returns `false`, copying stops.
    ///
    /// # Errors
    /// If not all bytes could be read and written, or `tick` has stopped it.
    fn bring(
        &self,
        source: &Arc<dyn ByteSource>,
        tick: OnBytes<'_>,
    ) -> Result<Transferred, IoError> {
        whole::in_pieces(self, &**source, whole::PIECE, tick)
    }

    /// The server's checksum of the written data, if it provides one: its kind, and its digits. All data must have been
    /// written.
    ///
    /// # Errors
    /// If no server answers.
    fn checksum(&self) -> Result<Option<(String, String)>, IoError> {
        Ok(None)
    }

    /// The block size, if the sink may share blocks with the source.
    fn share_block(&self, _source: &dyn ByteSource) -> Option<u64> {
        None
    }

    /// Bytes of a written range in blocks that are shared with other files; `None` if unknown.
    fn shared_bytes(&self, _range: &Range<u64>) -> Option<u64> {
        None
    }

    /// Makes everything written so far survive a crash of the machine.
    ///
    /// # Errors
    /// If the storage reports an error.
    fn sync(&self) -> Result<(), IoError>;

    /// Truncates existing data. New files ignore this.
    ///
    /// # Errors
    /// If the storage reports an error.
    fn truncate(&self, _size: u64) -> Result<(), IoError> {
        Ok(())
    }

    /// Makes all written data appear under the sink's name. Nothing may be written afterwards.
    ///
    /// # Errors
    /// If this fails; then nothing has appeared.
    fn commit(&self) -> Result<(), IoError>;
}
