//! Jobs: what to do with the entries of a basket.

use std::sync::Arc;

use femtobarn_rntuple::encoding::Target;
use femtobarn_rntuple::read::storage::Fetched;
use femtobarn_rntuple::read::{PageKey, Part};
use femtobarn_rntuple::schema::DType;
use femtobarn_rntuple::spec::StoredRange;

use super::lengths::Lengths;
use super::op::Op;
use super::tree::Wanted;
use super::values::Sink;
use crate::interp::Number;
use crate::model::{Basket, BranchId};

/// Some entries of a basket, and what to do with them.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    pub part: usize,
    pub branch: BranchId,
    /// The index of the basket.
    pub number: usize,
    pub basket: Basket,
    /// First wanted entry, counted from the basket's first, and one past the last.
    pub low: usize,
    pub high: usize,
    pub task: Task<'a>,
}

/// What to do with entries.
#[derive(Debug)]
pub(crate) enum Task<'a> {
    /// Write a constant number of values per entry to their final position.
    Fixed {
        number: Number,
        each: usize,
        dtype: DType,
        out: &'a mut [u8],
    },
    /// Read numbers of items.
    Counts { number: Number, out: &'a mut [u64] },
    /// Determine the actual numbers of items from their size, if a counter exceeds what was written.
    Lengths { size: usize, counts: &'a mut [u64] },
    /// Write numbers of items given by `sums`: the number of items before each entry of the basket, and
    /// the total.
    Counted {
        number: Number,
        each: usize,
        dtype: DType,
        sums: &'a [u64],
        out: &'a mut [u8],
    },
    /// Decode any values, to be put together later.
    Pieces {
        op: &'a Op,
        fixed: Option<usize>,
        /// For lists whose lengths are in another branch.
        lengths: &'a Lengths,
        sinks: &'a mut Vec<Sink>,
    },
}

impl Fetched for Job<'_> {
    fn part(&self) -> usize {
        self.part
    }

    fn stored(&self) -> StoredRange {
        StoredRange::of_file(self.basket.place.range().unwrap_or_default())
    }
}

impl<'a> Job<'a> {
    pub fn new((part, branch): (usize, BranchId), wanted: Wanted, task: Task<'a>) -> Self {
        let Wanted {
            number,
            basket,
            entries,
        } = wanted;
        let entry = |at: u64| usize::try_from(at - basket.first_entry).unwrap_or(usize::MAX);
        let (low, high) = (entry(entries.start), entry(entries.end));
        Self {
            part,
            branch,
            number,
            basket,
            low,
            high,
            task,
        }
    }

    /// Key of the basket in a cache.
    pub fn key(&self, part: &Part) -> PageKey {
        PageKey {
            reader: Arc::as_ptr(&part.reader) as usize,
            column: u32::try_from(self.branch).unwrap_or(u32::MAX),
            address: self.stored().address,
            n_elements: u32::try_from(self.basket.n_entries).unwrap_or(u32::MAX),
            target: Target::Index,
        }
    }
}

/// Values of a basket, and the offsets of its entries, if known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Opened<'b> {
    pub values: &'b [u8],
    pub offsets: Offsets<'b>,
}

/// Offsets of entries.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Offsets<'b> {
    None,
    /// As stored: counted from the beginning of the key.
    Stored {
        words: &'b [[u8; 4]],
        key_len: u32,
    },
    Known(&'b [u32]),
}

impl Offsets<'_> {
    pub fn get(&self, entry: usize) -> Option<usize> {
        match self {
            Self::None => None,
            Self::Stored { words, key_len } => {
                let offset = u32::from_be_bytes(*words.get(entry)?);
                Some(offset.checked_sub(*key_len)? as usize)
            }
            Self::Known(offsets) => offsets.get(entry).map(|&offset| offset as usize),
        }
    }
}

/// Splits a basket into values and offsets.
pub(super) fn split(bytes: &[u8], border: usize, key_len: u32, n_entries: u64) -> Opened<'_> {
    let (values, behind) = bytes.split_at_checked(border).unwrap_or((bytes, &[]));
    // the number of offsets precedes them
    let words = behind.get(4..).unwrap_or_default().as_chunks::<4>().0;
    let offsets = if words.len() as u64 >= n_entries && n_entries > 0 && !behind.is_empty() {
        Offsets::Stored { words, key_len }
    } else {
        Offsets::None
    };
    Opened { values, offsets }
}
