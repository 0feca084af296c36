//! Page stores: where the pages and envelopes of an ntuple are read from.
//!
//! Everything above a store knows pages by their [`PageAddress`](crate::spec::PageAddress) alone. A file is one store
//! ([`FileStore`](super::FileStore)); objects of an object store, or the values of keys, are others.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use femtobarn_io::{ByteSource, SourceInfo, Stage, Traffic, coalesce};

use crate::RNTupleError;
use crate::spec::{PageAddress, StoredRange};

/// What a store says of bytes that cannot be in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotStored {
    /// The address is of another kind of store.
    Elsewhere,
    /// The bytes are not within the store.
    Beyond {
        /// What the store has.
        expected: String,
    },
}

/// Where stored bytes are read by their address. Immutable: the bytes do not change while it is open.
pub trait PageStore: Send + Sync + Debug {
    /// URL, size, and how requests should be cut. The size is the most bytes that pages can have together.
    fn info(&self) -> SourceInfo<'_>;

    /// The source of the file that holds the pages; none if they are not in one file. Pages of a file can be copied and
    /// shared as regions.
    fn file(&self) -> Option<&Arc<dyn ByteSource>>;

    /// Whether bytes can be in the store, by their address and size alone.
    ///
    /// # Errors
    /// What is wrong with them.
    fn check(&self, stored: &StoredRange) -> Result<(), NotStored>;

    /// Reads all of these, in their order: parts of pages, whole ones, or several that are one behind the other. One call
    /// is one vector read.
    ///
    /// # Errors
    /// If any of the bytes are not in the store or cannot be read in full.
    fn read(&self, stored: &[StoredRange]) -> Result<Vec<Bytes>, RNTupleError>;

    /// Reads into memory of the caller, which has the size of what is read.
    ///
    /// # Errors
    /// As [`read`](Self::read); the content of `buffer` is then undefined, though initialized.
    fn read_into(&self, stored: &StoredRange, buffer: &mut [u8]) -> Result<(), RNTupleError> {
        copy_into(self, stored, buffer)
    }

    /// The largest payload that is stored in one piece, so that a part of it can be read, mapped or copied.
    fn largest_piece(&self) -> u64 {
        u64::MAX
    }

    /// A hint that these will be read soon. Does not block, cannot fail, may do nothing.
    fn will_need(&self, _stored: &[StoredRange]) {}

    /// Bytes that the store holds in memory; nothing is read.
    fn peek(&self, _stored: &StoredRange) -> Option<Bytes> {
        None
    }

    /// Bytes that can be had as memory without reading them.
    fn map(&self, _stored: &StoredRange) -> Option<Bytes> {
        None
    }

    /// How many requests a vector read is, as the server counts them.
    fn n_requests(&self, stored: &[StoredRange]) -> u64 {
        stored.len() as u64
    }

    /// The requests that were sent to the server; none where nobody counts.
    fn traffic(&self) -> Option<Traffic> {
        None
    }

    /// The same store, for reads of another stage; none where nobody asks what reads are for.
    fn at_stage(&self, _stage: Stage) -> Option<Arc<dyn PageStore>> {
        None
    }
}

/// Reads into memory of the caller by way of another.
pub(super) fn copy_into<S: PageStore + ?Sized>(
    store: &S,
    stored: &StoredRange,
    buffer: &mut [u8],
) -> Result<(), RNTupleError> {
    let mut found = store.read(std::slice::from_ref(stored))?;
    match found.pop().filter(|found| found.len() == buffer.len()) {
        Some(bytes) => buffer.copy_from_slice(&bytes),
        None => return Err(RNTupleError::internal("a store gave another size")),
    }
    Ok(())
}

/// One request to a store, and which of the wanted ranges it serves.
#[derive(Debug)]
pub(crate) struct StoredRequest {
    pub stored: StoredRange,
    /// Indices into the wanted ranges.
    pub members: Vec<usize>,
}

/// Cuts what is wanted into requests as the store prefers: within each object as [`coalesce`] does; what is not in one piece
/// stays alone, behind the others.
pub(crate) fn requests(store: &dyn PageStore, wanted: &[StoredRange]) -> Vec<StoredRequest> {
    let largest = store.largest_piece();
    let mut cost = store.info().cost;
    cost.largest_request = cost.largest_request.min(largest);
    let mut objects: BTreeMap<PageAddress, (Vec<usize>, Vec<Range<u64>>)> = BTreeMap::new();
    let mut alone = Vec::new();
    for (at, stored) in wanted.iter().enumerate() {
        if stored.size <= largest {
            let (members, ranges) = objects.entry(stored.address.base()).or_default();
            members.push(at);
            ranges.push(stored.range());
        } else {
            alone.push(StoredRequest {
                stored: *stored,
                members: vec![at],
            });
        }
    }
    let mut out = Vec::new();
    for (base, (members, ranges)) in objects {
        out.extend(coalesce(&ranges, &cost).into_iter().map(|request| {
            let own = request.members.into_iter();
            StoredRequest {
                stored: StoredRange {
                    address: base.plus(request.range.start).unwrap_or(base),
                    size: request.range.end - request.range.start,
                },
                members: own.filter_map(|at| members.get(at).copied()).collect(),
            }
        }));
    }
    out.append(&mut alone);
    out
}

/// The part of what was read that belongs to `wanted`, which lies inside.
pub(crate) fn part_of<'b>(
    read: &StoredRange,
    bytes: &'b [u8],
    wanted: &StoredRange,
) -> Option<&'b [u8]> {
    let start = wanted.range().start.checked_sub(read.range().start)?;
    let start = usize::try_from(start).ok()?;
    bytes.get(start..start.checked_add(usize::try_from(wanted.size).ok()?)?)
}

#[cfg(test)]
mod tests {
    use femtobarn_io::MemorySource;

    use super::super::FileStore;
    use super::*;

    fn stored(id: u64, offset: u32, size: u64) -> StoredRange {
        let address = PageAddress::Object { id, offset };
        StoredRange { address, size }
    }

    #[test]
    fn requests_reach_over_pages_of_an_object_and_not_over_objects_or_pieces() {
        // in memory nothing is gained by reading a gap
        let source = MemorySource::new("mem:x", vec![0; 1 << 20]);
        let store = FileStore::new(source, "x", 1000);
        let file = |range| StoredRange::of_file(range);
        let wanted = [
            stored(4, 100, 50),
            stored(3, 0, 100),
            file(500..600),
            stored(4, 0, 100),
            file(0..1001),
            file(600..700),
            stored(4, 160, 10),
        ];
        let cut: Vec<_> = requests(&store, &wanted)
            .into_iter()
            .map(|request| (request.stored, request.members))
            .collect();
        assert_eq!(
            cut,
            [
                (file(500..700), vec![2, 5]),
                (stored(3, 0, 100), vec![1]),
                (stored(4, 0, 150), vec![3, 0]),
                (stored(4, 160, 10), vec![6]),
                (file(0..1001), vec![4]),
            ]
        );
    }

    #[test]
    fn a_part_is_cut_out_of_what_was_read() {
        let read = stored(4, 10, 5);
        let cut = |wanted| part_of(&read, b"abcde", &wanted);
        assert_eq!(cut(stored(4, 11, 2)), Some(&b"bc"[..]));
        assert_eq!(cut(stored(4, 9, 2)), None);
        assert_eq!(cut(stored(4, 14, 2)), None);
    }
}
