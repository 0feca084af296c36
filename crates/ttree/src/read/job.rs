//! What is to be done with a basket.

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

/// Some entries of a basket, and what becomes of them.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    pub part: usize,
    pub branch: BranchId,
    /// The basket's number.
    pub number: usize,
    pub basket: Basket,
    /// First wanted entry, counted from the basket's first, and one past the last.
    pub low: usize,
    pub high: usize,
    pub task: Task<'a>,
}

/// What becomes of entries.
#[derive(Debug)]
pub(crate) enum Task<'a> {
    /// So many numbers an entry, into their place.
    Fixed {
        number: Number,
        each: usize,
        dtype: DType,
        out: &'a mut [u8],
    },
    /// Numbers of items.
    Counts { number: Number, out: &'a mut [u64] },
    /// How many items of so many bytes there are in truth, where a counter says more than were written.
    Lengths { size: usize, counts: &'a mut [u64] },
    /// As many items as `sums` says: of items before each entry of the basket, and in all.
    Counted {
        number: Number,
        each: usize,
        dtype: DType,
        sums: &'a [u64],
        out: &'a mut [u8],
    },
    /// Anything, to be put together later.
    Pieces {
        op: &'a Op,
        fixed: Option<usize>,
        /// Of lists whose lengths are in another branch.
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

/// Values of a basket, and where its entries begin in them, if that is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Opened<'b> {
    pub values: &'b [u8],
    pub offsets: Offsets<'b>,
}

/// Where entries begin.
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

/// Values and offsets of a basket.
pub(super) fn split(bytes: &[u8], border: usize, key_len: u32, n_entries: u64) -> Opened<'_> {
    let (values, behind) = bytes.split_at_checked(border).unwrap_or((bytes, &[]));
    // in front of the offsets stands their number
    let words = behind.get(4..).unwrap_or_default().as_chunks::<4>().0;
    let offsets = if words.len() as u64 >= n_entries && n_entries > 0 && !behind.is_empty() {
        Offsets::Stored { words, key_len }
    } else {
        Offsets::None
    };
    Opened { values, offsets }
}
