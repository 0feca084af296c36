//! Columns that are not stored as an RNTuple's: what another format must give to be read as one is.
//!
//! A [`Storage`] stands behind a [`Reader`](super::Reader) that was made from a descriptor of its own. Names, schemas,
//! selections and arrays are then those of every ntuple; the storage does the reading, for which the parts of the
//! engine that know nothing of pages are here.

use std::any::Any;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

pub use super::ahead::{Ahead, Needed};
pub use super::fetch::{Decode, Fetched, Work, cost_of, requests, run, total_bytes};
pub use super::memory::Slabs;
pub use super::options::Progress;
pub use super::stats::{Stats, add, elapsed};
use super::{Part, ReadOptions, ReadSchema, Tick, VerifyReport};
use crate::RNTupleError;
use crate::array::SlotData;
use crate::schema::FieldId;
use crate::spec::PageList;

/// Bytes of one column in one part: what [`Storage::costs`] counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cost {
    /// The records that hold them.
    pub ranges: Vec<Range<u64>>,
    /// In which round they are read: those of one are fetched together.
    pub round: u64,
    /// Bytes of the column in the result, estimated.
    pub bytes_decoded: u64,
}

/// Columns that are stored in another way than an RNTuple's.
pub trait Storage: Debug + Send + Sync {
    /// The storage itself, for those who know its type.
    fn as_any(&self) -> &dyn Any;

    /// The format, as "TTree".
    fn version(&self) -> String;

    /// Reads the entries of all parts, which all are of this kind of storage, one after another: the data of all slots
    /// of the schema.
    fn read(
        &self,
        schema: &ReadSchema,
        parts: &[Part],
        options: &ReadOptions<'_>,
        progress: &Progress,
    ) -> Result<Vec<SlotData>, RNTupleError>;

    /// What reading costs, for each slot. What several slots share is counted with the first.
    fn costs(&self, schema: &ReadSchema, part: &Part) -> Result<Vec<Cost>, RNTupleError>;

    /// Clusters and the places of the records in them; a record that several clusters need is listed where it begins. It is
    /// made when somebody asks, and kept as long as there is room.
    fn page_list(&self) -> Arc<PageList>;

    /// Top-level fields of which only reading tells whether they can be read: those whose values say themselves what they
    /// are.
    fn doubtful(&self) -> Vec<FieldId> {
        Vec::new()
    }

    /// Reads everything and reports what is damaged.
    fn verify(
        &self,
        reader: &Arc<super::Reader>,
        threads: usize,
        tick: Option<Tick<'_>>,
    ) -> Result<VerifyReport, RNTupleError>;
}
