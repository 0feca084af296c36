//! The result of a read: a tree over shared buffers.

mod arrow;
mod choose;

use bytes::Bytes;

pub use arrow_schema::Schema as ArrowSchema;

pub use self::arrow::{ArrayError, arrow_schema};
pub use self::choose::{choose, joined};
use crate::RNTupleError;
use crate::read::filled;
use crate::schema::{DType, Node, SlotId};

/// The decoded elements of a slot.
#[derive(Debug, Clone)]
pub enum SlotData {
    /// Values, little-endian; booleans take a byte each.
    Leaf {
        /// Their type.
        dtype: DType,
        /// The values.
        values: Bytes,
    },
    /// Offsets of a collection: `i64`, beginning with 0, one more than the number of lists.
    Index {
        /// The offsets.
        offsets: Bytes,
    },
    /// A variant.
    Switch {
        /// One byte per value: 0 for no value, else the alternative counted from 1.
        tags: Bytes,
        /// The position among the values of the alternative, as `i64`.
        positions: Bytes,
        /// Number of values of each alternative.
        lengths: Vec<u64>,
    },
}

impl SlotData {
    /// Offsets of a collection.
    pub fn offsets(&self) -> Option<&Bytes> {
        match self {
            Self::Index { offsets } => Some(offsets),
            _ => None,
        }
    }

    /// The lengths of a collection's lists, as `i64` if `wide`, else `i32`.
    pub fn cardinality(&self, wide: bool) -> Result<Bytes, RNTupleError> {
        let offsets = values(self.offsets());
        let n = offsets.len().saturating_sub(1);
        let ends = offsets.get(1..).unwrap_or_default();
        let lengths = offsets.iter().zip(ends).map(|(a, b)| b - a);
        if wide {
            filled(n, |out| {
                out.iter_mut().zip(lengths).for_each(|(to, n)| *to = n)
            })
        } else {
            let narrow = |n: i64| i32::try_from(n).unwrap_or(i32::MAX);
            filled(n, |out| {
                out.iter_mut()
                    .zip(lengths)
                    .for_each(|(to, n)| *to = narrow(n))
            })
        }
    }

    /// For optional values: the position of each value as `i64`, −1 if it is missing.
    pub fn optional_index(&self) -> Result<Bytes, RNTupleError> {
        let offsets = values(self.offsets());
        let position = |(a, b): (&i64, &i64)| if a == b { -1 } else { *a };
        let ends = offsets.get(1..).unwrap_or_default();
        let positions = offsets.iter().zip(ends).map(position);
        filled(offsets.len().saturating_sub(1), |out: &mut [i64]| {
            out.iter_mut().zip(positions).for_each(|(to, n)| *to = n);
        })
    }
}

/// The columns of a range of entries.
#[derive(Debug, Clone)]
pub struct Arrays {
    n_entries: u64,
    columns: Vec<(String, Node)>,
    slots: Vec<SlotData>,
}

impl Arrays {
    /// Columns of `n_entries` entries over the data of slots, which the nodes of the columns name by their indexes.
    pub fn new(n_entries: u64, columns: Vec<(String, Node)>, slots: Vec<SlotData>) -> Self {
        Self {
            n_entries,
            columns,
            slots,
        }
    }

    /// Several reads of the same columns, one after another.
    ///
    /// # Errors
    /// If the memory does not suffice.
    pub fn joined(reads: Vec<Self>) -> Result<Self, RNTupleError> {
        let Some(first) = reads.first() else {
            return Ok(Self::new(0, Vec::new(), Vec::new()));
        };
        let (columns, n_slots) = (first.columns.clone(), first.slots.len());
        let n_entries = reads.iter().map(|read| read.n_entries).sum();
        let slots = reads
            .into_iter()
            .map(|read| read.slots.into_iter().map(Some).collect());
        let slots = joined(n_slots, slots.collect())?;
        Ok(Self::new(
            n_entries,
            columns,
            slots.into_iter().flatten().collect(),
        ))
    }

    /// The data of all slots.
    pub fn into_slots(self) -> Vec<SlotData> {
        self.slots
    }

    /// Adds data of a slot, for a column that will be inserted.
    pub fn add_slot(&mut self, data: SlotData) -> SlotId {
        self.slots.push(data);
        self.slots.len() - 1
    }

    /// Inserts a column before the column with this index; at the end if there is none.
    pub fn insert_column(&mut self, at: usize, name: &str, node: Node) {
        let at = at.min(self.columns.len());
        self.columns.insert(at, (name.to_owned(), node));
    }

    /// Gives strings as bytes, which need not be UTF-8.
    #[must_use]
    pub fn with_texts_as_bytes(mut self) -> Self {
        let nodes = self.columns.iter_mut();
        nodes.for_each(|(_, node)| node.texts_as_bytes());
        self
    }

    /// Gives booleans as the bytes 0 and 1, which share the buffers of the result.
    #[must_use]
    pub fn with_byte_booleans(mut self) -> Self {
        for slot in &mut self.slots {
            if let SlotData::Leaf { dtype, .. } = slot
                && *dtype == DType::Bool
            {
                *dtype = DType::UInt8;
            }
        }
        self
    }

    /// Number of entries.
    pub fn n_entries(&self) -> u64 {
        self.n_entries
    }

    /// Top-level columns by name.
    pub fn columns(&self) -> &[(String, Node)] {
        &self.columns
    }

    /// The data of a slot.
    pub fn slot(&self, id: SlotId) -> Option<&SlotData> {
        self.slots.get(id)
    }

    /// Type and values of a leaf.
    pub fn leaf(&self, id: SlotId) -> Option<(DType, &Bytes)> {
        match self.slot(id)? {
            SlotData::Leaf { dtype, values } => Some((*dtype, values)),
            _ => None,
        }
    }

    /// Offsets of a collection.
    pub fn offsets(&self, id: SlotId) -> Option<&Bytes> {
        self.slot(id)?.offsets()
    }

    /// Total number of items of a collection.
    pub fn n_items(&self, id: SlotId) -> u64 {
        let last = self
            .offsets(id)
            .and_then(|offsets| offsets.last_chunk::<8>());
        last.map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    /// The lengths of a collection's lists, as `i64` if `wide`, else `i32`.
    pub fn cardinality(&self, id: SlotId, wide: bool) -> Result<Bytes, RNTupleError> {
        let lengths = self.slot(id).map(|slot| slot.cardinality(wide));
        lengths.unwrap_or_else(|| Ok(Bytes::new()))
    }

    /// For optional values: the position of each value as `i64`, −1 if it is missing.
    pub fn optional_index(&self, id: SlotId) -> Result<Bytes, RNTupleError> {
        let positions = self.slot(id).map(SlotData::optional_index);
        positions.unwrap_or_else(|| Ok(Bytes::new()))
    }

    /// Total size of all buffers in bytes.
    pub fn n_bytes(&self) -> u64 {
        let size = |slot: &SlotData| match slot {
            SlotData::Leaf { values, .. } => values.len(),
            SlotData::Index { offsets } => offsets.len(),
            SlotData::Switch {
                tags, positions, ..
            } => tags.len() + positions.len(),
        };
        self.slots.iter().map(|slot| size(slot) as u64).sum()
    }
}

/// A buffer of offsets as numbers.
fn values(bytes: Option<&Bytes>) -> &[i64] {
    bytes
        .and_then(|bytes| bytemuck::try_cast_slice(bytes).ok())
        .unwrap_or_default()
}
