//! Page stores: where pages and envelopes are read from.
//!
//! All other code addresses pages by their [`PageAddress`](crate::spec::PageAddress) only. A file is one kind of store
//! ([`SourceStore`](super::SourceStore)); objects of an object store, or values of keys, are others.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use femtobarn_io::{ByteSource, CacheUse, SourceInfo, SourceStatus, Stage, Traffic, coalesce};

use crate::RNTupleError;
use crate::spec::{Anchor, ObjectAnchor, PageAddress, StoredRange};

/// A store, and the anchor of the ntuple in it.
pub type OpenedStore = (Arc<dyn PageStore>, Anchor);

/// Why bytes cannot be in a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotStored {
    /// The address belongs to another kind of store.
    Elsewhere,
    /// The bytes are not within the store.
    Beyond {
        /// The extent of the store.
        expected: String,
    },
}

/// Reads stored bytes by their address. The bytes do not change while the store is open.
pub trait PageStore: Send + Sync + Debug {
    /// URL, size, and how requests should be cut. The size is an upper limit for the total size of pages.
    fn info(&self) -> SourceInfo<'_>;

    /// The file with the pages; none if they are not in one file. Pages of a file can be copied and shared as regions.
    fn file(&self) -> Option<&Arc<dyn ByteSource>>;

    /// The anchor of the objects of a set; none of other stores. Their pages can be part of another set.
    fn objects(&self) -> Option<&ObjectAnchor> {
        None
    }

    /// The store of an attribute set that is not in this store, and its anchor; none if there is none.
    ///
    /// # Errors
    /// If it cannot be opened.
    fn attribute_set(&self, _name: &str) -> Result<Option<OpenedStore>, RNTupleError> {
        Ok(None)
    }

    /// The address of a page list with a locator: another one, if the store numbers page lists apart from pages.
    fn page_list(&self, located: PageAddress) -> PageAddress {
        located
    }

    /// Checks address and size of bytes, without reading them.
    ///
    /// # Errors
    /// Why the bytes cannot be in the store.
    fn check(&self, stored: &StoredRange) -> Result<(), NotStored>;

    /// Reads all of these in their order: parts of pages, whole pages, or several adjacent ones. One call is one vector
    /// read.
    ///
    /// # Errors
    /// If any of the bytes are not in the store, or cannot be read completely.
    fn read(&self, stored: &[StoredRange]) -> Result<Vec<Bytes>, RNTupleError>;

    /// Reads into memory of the caller, which has the size of the range.
    ///
    /// # Errors
    /// As [`read`](Self::read); the content of `buffer` is then unspecified.
    fn read_into(&self, stored: &StoredRange, buffer: &mut [u8]) -> Result<(), RNTupleError> {
        copy_into(self, stored, buffer)
    }

    /// The largest payload that is stored in one piece, so that parts of it can be read, mapped or copied.
    fn largest_piece(&self) -> u64 {
        u64::MAX
    }

    /// A hint that these will be read soon. It does not block, cannot fail, and may do nothing.
    fn will_need(&self, _stored: &[StoredRange]) {}

    /// Tells the store that these bytes contradict a checksum or their format, as [`ByteSource::reject`]. Returns whether
    /// reading them again may give other bytes, because there is another copy of them.
    fn reject(&self, _stored: &StoredRange, _again: bool) -> bool {
        false
    }

    /// Bytes that the store has in memory; nothing is read.
    fn peek(&self, _stored: &StoredRange) -> Option<Bytes> {
        None
    }

    /// Bytes that are accessible as memory without a read.
    fn map(&self, _stored: &StoredRange) -> Option<Bytes> {
        None
    }

    /// Number of requests that the server receives for a vector read.
    fn n_requests(&self, stored: &[StoredRange]) -> u64 {
        stored.len() as u64
    }

    /// The requests sent to the server; none if they are not counted.
    fn traffic(&self) -> Option<Traffic> {
        None
    }

    /// What a cache served in place of the server; none without a cache.
    fn cached(&self) -> Option<CacheUse> {
        None
    }

    /// The servers that the pages are read from, if there may be several.
    fn sources(&self) -> Option<Vec<SourceStatus>> {
        None
    }

    /// The same store for reads of another stage; none if stages are not distinguished.
    fn at_stage(&self, _stage: Stage) -> Option<Arc<dyn PageStore>> {
        None
    }
}

/// How often damaged bytes are read again. Caches and servers may have several copies, and some copies may be damaged, too.
pub(crate) const MOST_COPIES: usize = 8;

/// Does work with stored bytes, which fails if they are damaged. If it fails and the store has another copy, all of the
/// request is read again: the rest of it may be damaged, too. Returns the outcome of the work, and the bytes of the request
/// if it was read again.
pub(crate) fn soundly<T, E>(
    store: &dyn PageStore,
    (stored, request): (&StoredRange, &StoredRange),
    bytes: &[u8],
    mut work: impl FnMut(&[u8]) -> Result<T, E>,
) -> Result<(Result<T, E>, Option<Bytes>), RNTupleError> {
    let mut done = work(bytes);
    let mut again = None;
    for _ in 0..MOST_COPIES {
        if done.is_ok() || !store.reject(stored, again.is_some()) {
            break;
        }
        let read = store.read(std::slice::from_ref(request))?.pop();
        let read = again.insert(read.unwrap_or_default());
        done = work(part_of(request, read, stored).unwrap_or_default());
    }
    Ok((done, again))
}

/// Reads into memory of the caller, by way of [`PageStore::read`].
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

/// A request to a store, and the indices of the wanted ranges that it serves.
#[derive(Debug)]
pub(crate) struct StoredRequest {
    pub stored: StoredRange,
    /// Indices into the wanted ranges.
    pub members: Vec<usize>,
}

/// Combines wanted ranges into requests as the store prefers: within each object as [`coalesce`] does. Payloads in
/// several pieces stay alone, after the others.
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

/// The part of a request's bytes that belongs to `wanted`, which is within the request.
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

    use super::super::SourceStore;
    use super::*;

    fn stored(id: u64, offset: u32, size: u64) -> StoredRange {
        let address = PageAddress::Object { id, offset };
        StoredRange { address, size }
    }

    #[test]
    fn requests_reach_over_pages_of_an_object_and_not_over_objects_or_pieces() {
        // in memory, reading gaps has no benefit
        let source = MemorySource::new("mem:x", vec![0; 1 << 20]);
        let store = SourceStore::new(source, "x", 1000);
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
