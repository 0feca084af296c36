//! Columns in another format than RNTuple: what such a format must provide to be read like an ntuple.
//!
//! A [`Storage`] belongs to a [`Reader`](super::Reader) that was created from a descriptor. Names, schemas, selections
//! and arrays are those of any ntuple. The storage does the reading, for which this module has the parts of the engine
//! that do not depend on pages.

use std::any::Any;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

pub use super::ahead::{Ahead, Needed};
pub use super::fetch::{Decode, FetchCost, Fetched, Work, cost_of, requests, run, total_bytes};
pub use super::memory::Slabs;
pub use super::options::Progress;
pub use super::stats::{Stats, add, elapsed};
use super::{Part, ReadOptions, ReadSchema, Tick, VerifyReport};
use crate::RNTupleError;
use crate::array::SlotData;
use crate::schema::FieldId;
use crate::spec::PageList;

/// The cost of one column in one part, for [`Storage::costs`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cost {
    /// The records with its bytes.
    pub ranges: Vec<Range<u64>>,
    /// The round in which they are read; the records of a round are fetched together.
    pub round: u64,
    /// The estimated size of the column in the result.
    pub bytes_decoded: u64,
}

/// Columns in another format than RNTuple.
pub trait Storage: Debug + Send + Sync {
    /// The storage itself, for code that knows its type.
    fn as_any(&self) -> &dyn Any;

    /// The format, for example "TTree".
    fn version(&self) -> String;

    /// Reads the entries of all parts, which have this kind of storage, one after another. Returns the data of all slots.
    fn read(
        &self,
        schema: &ReadSchema,
        parts: &[Part],
        options: &ReadOptions<'_>,
        progress: &Progress,
    ) -> Result<Vec<SlotData>, RNTupleError>;

    /// The cost of each slot. Costs that several slots share are counted with the first.
    fn costs(&self, schema: &ReadSchema, part: &Part) -> Result<Vec<Cost>, RNTupleError>;

    /// The clusters, and the positions of their records. A record that several clusters need belongs to the one in which
    /// it begins. The list is created on request, and kept as far as the budget allows.
    fn page_list(&self) -> Arc<PageList>;

    /// Top-level fields whose readability is only known when they are read, because their values state their own type.
    fn doubtful(&self) -> Vec<FieldId> {
        Vec::new()
    }

    /// Reads everything and reports damage.
    fn verify(
        &self,
        reader: &Arc<super::Reader>,
        threads: usize,
        tick: Option<Tick<'_>>,
    ) -> Result<VerifyReport, RNTupleError>;
}
