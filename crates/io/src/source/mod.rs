//! Byte sources.

use std::borrow::Cow;
use std::fmt::Debug;
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;

use crate::IoError;
use crate::meter::{CacheUse, Meter, Opening, Stage, Traffic};

mod handles;
mod http;
mod local;
mod map;
mod memory;
mod object;
mod several;
mod sparse;
mod xrootd;

pub(crate) use map::{is_local, map as map_file};

pub use http::{HttpError, HttpSource};
pub(crate) use http::{
    HttpProbe, HttpUpload, list as list_http, probe as http_probe, start as http_start,
    state_of as state_of_http,
};
pub use local::LocalSource;
pub use memory::MemorySource;
pub use object::ObjectSource;
pub(crate) use object::{Ranged, list as list_objects, of_object, state_of as state_of_object};
pub(crate) use several::open_several;
pub use several::{SourceState, SourceStatus};
pub use sparse::SparseMemory;
pub use xrootd::XrootdSource;
pub(crate) use xrootd::{client as xrootd_client, failed as xrootd_failed, list as list_xrootd};

/// A source with a size whose bytes can be read by ranges. The bytes do not change while it is open.
///
/// A layer over another source implements [`info`](Self::info), [`inner`](Self::inner) and
/// [`read_ranges`](Self::read_ranges), and overrides other methods if it changes them. The defaults call the inner
/// source.
pub trait ByteSource: Send + Sync + Debug {
    /// Known properties of the source. A layer starts from the info of its inner source.
    fn info(&self) -> SourceInfo<'_>;

    /// The inner source of a layer; `None` for other sources.
    fn inner(&self) -> Option<&dyn ByteSource>;

    /// Reads all `ranges` in order. One call is one vector read.
    ///
    /// # Errors
    /// If any range is not inside the source or cannot be read completely; then nothing is returned.
    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, IoError>;

    /// Reads as [`read_ranges`](Self::read_ranges), and adds the ranges that neither this source nor others have held to
    /// `read`.
    ///
    /// # Errors
    /// Errors of [`read_ranges`](Self::read_ranges).
    fn read_noting(
        &self,
        ranges: &[Range<u64>],
        read: &mut Vec<Range<u64>>,
    ) -> Result<Vec<Bytes>, IoError> {
        read.extend_from_slice(&read_of(self, ranges));
        self.read_ranges(ranges)
    }

    /// Reads one range into `buffer`, filling it.
    ///
    /// # Errors
    /// Errors of [`read_ranges`](Self::read_ranges); the content of `buffer` is then unspecified.
    fn read_into(&self, offset: u64, buffer: &mut [u8]) -> Result<(), IoError> {
        let range = self.meta().range_at(self.url(), offset, buffer.len())?;
        let bytes = read_one(self, range)?;
        buffer.copy_from_slice(&bytes);
        Ok(())
    }

    /// A hint that these ranges will be read soon. Does not block, and may do nothing.
    fn will_need(&self, ranges: &[Range<u64>]) {
        if let Some(inner) = self.inner() {
            inner.will_need(ranges);
        }
    }

    /// Reports that the bytes of `range` do not match a checksum or their format; `again` tells whether they were read once
    /// more after they had been rejected. Returns whether reading them again may return other bytes, because another copy
    /// exists.
    fn reject(&self, range: &Range<u64>, again: bool) -> bool {
        self.inner().is_some_and(|inner| inner.reject(range, again))
    }

    /// The bytes of `range` if the source or a layer has them in memory; reads nothing.
    fn peek(&self, range: &Range<u64>) -> Option<Bytes> {
        self.inner()?.peek(range)
    }

    /// Whether the source or a layer has the bytes of `range`, so that its server is not asked for them.
    fn holds(&self, range: &Range<u64>) -> bool {
        let in_memory = self.peek(range).is_some();
        in_memory || self.inner().is_some_and(|inner| inner.holds(range))
    }

    /// The state of the file, as its server reports it. Of several servers, that of one of them: they may report different
    /// times and tags of equal files, so that [`meta`](Self::info) has none.
    fn state(&self) -> SourceMeta {
        self.info().meta.clone()
    }

    /// The file behind the source, if it is local.
    fn file(&self) -> Option<Result<Arc<File>, IoError>> {
        self.inner()?.file()
    }

    /// Number of requests for a vector read of these ranges, as counted by the server.
    fn n_requests(&self, ranges: &[Range<u64>]) -> u64 {
        let inner = self.inner().map(|inner| inner.n_requests(ranges));
        inner.unwrap_or(ranges.len() as u64)
    }

    /// The requests that were sent to the server; `None` without counters.
    fn traffic(&self) -> Option<Traffic> {
        self.inner()?.traffic()
    }

    /// The server on which the file is open, as host and port; none if it is that of the URL.
    fn server(&self) -> Option<String> {
        self.inner()?.server()
    }

    /// What a cache served in place of the server; none without a cache.
    fn cached(&self) -> Option<CacheUse> {
        self.inner()?.cached()
    }

    /// A number that changes whenever bytes arrive, also of answers that are not complete; none if that is not known.
    fn progress(&self) -> Option<u64> {
        self.inner()?.progress()
    }

    /// The server that a redirector has chosen, which may know others; none if the URL names the server.
    fn chosen_server(&self) -> Option<String> {
        self.inner()?.chosen_server()
    }

    /// The servers that the file is read from, if there may be several.
    fn sources(&self) -> Option<Vec<SourceStatus>> {
        self.inner()?.sources()
    }

    /// The objects of another set, at a base relative to that of these objects; `None` if the source has no objects.
    ///
    /// # Errors
    /// If they cannot be opened.
    fn objects_below(&self, base: &str) -> Result<Option<Arc<dyn ByteSource>>, IoError> {
        match self.inner() {
            Some(inner) => inner.objects_below(base),
            None => Ok(None),
        }
    }

    /// The same source for reads of another stage; `None` if stages are not recorded.
    fn at_stage(&self, _stage: Stage) -> Option<Arc<dyn ByteSource>> {
        None
    }

    /// The whole source as memory, if this is possible without reading. Cheap to call repeatedly.
    fn map(&self) -> Option<Bytes> {
        self.inner()?.map()
    }

    /// The name of the source as given by the user; errors contain it.
    fn url(&self) -> &str {
        self.info().url
    }

    /// Size, modification time and entity tag.
    fn meta(&self) -> &SourceMeta {
        self.info().meta
    }

    /// How requests to this source should be split.
    fn cost(&self) -> SourceCost {
        self.info().cost
    }

    /// Counters for reads, if any.
    fn meter(&self) -> Option<&Meter> {
        self.info().meter
    }
}

/// Known properties of a source.
#[derive(Debug, Clone, Copy)]
pub struct SourceInfo<'a> {
    /// The name of the source as given by the user; errors contain it.
    pub url: &'a str,
    /// Size, modification time and entity tag.
    pub meta: &'a SourceMeta,
    /// How requests to this source should be split.
    pub cost: SourceCost,
    /// The vector read at opening; `None` if opening reads nothing.
    pub opening: Option<&'a Opening>,
    /// Counters for reads, if any.
    pub meter: Option<&'a Meter>,
}

impl<'a> SourceInfo<'a> {
    /// The info of a source that reads nothing at opening and has no counters.
    #[must_use]
    pub fn new(url: &'a str, meta: &'a SourceMeta, cost: SourceCost) -> Self {
        Self {
            url,
            meta,
            cost,
            opening: None,
            meter: None,
        }
    }
}

/// Checks that answers are as many and as long as the wanted ranges.
pub(crate) fn check_answers<'a>(
    url: &str,
    wanted: impl IntoIterator<Item = &'a Range<u64>, IntoIter: ExactSizeIterator + Clone>,
    answers: &[Bytes],
) -> Result<(), IoError> {
    let wanted = wanted.into_iter();
    if wanted.len() != answers.len() {
        return Err(IoError::WrongAnswer {
            url: url.to_owned(),
            offset: wanted.clone().next().map_or(0, |range| range.start),
            expected: wanted.len() as u64,
            found: answers.len() as u64,
        });
    }
    for (range, bytes) in wanted.zip(answers) {
        let (expected, found) = (range.end - range.start, bytes.len() as u64);
        if found != expected {
            return Err(IoError::ShortRead {
                url: url.to_owned(),
                offset: range.start,
                expected,
                found,
            });
        }
    }
    Ok(())
}

/// The ranges that are really read: held bytes were counted when they were fetched.
pub(crate) fn read_of<'a, S: ByteSource + ?Sized>(
    source: &S,
    ranges: &'a [Range<u64>],
) -> Cow<'a, [Range<u64>]> {
    let Some(at) = ranges.iter().position(|range| source.holds(range)) else {
        return Cow::Borrowed(ranges);
    };
    let (read, rest) = ranges.split_at(at);
    let rest = rest.iter().skip(1).filter(|range| !source.holds(range));
    read.iter().chain(rest).cloned().collect()
}

/// Reads one range and checks its length.
pub(crate) fn read_one<S: ByteSource + ?Sized>(
    source: &S,
    range: Range<u64>,
) -> Result<Bytes, IoError> {
    let mut answers = source.read_ranges(std::slice::from_ref(&range))?;
    check_answers(source.url(), [&range], &answers)?;
    Ok(answers.pop().unwrap_or_default())
}

/// Properties of the whole source, known since its opening.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SourceMeta {
    /// Size in bytes.
    pub size: u64,
    /// Modification time, if known.
    pub modified: Option<SystemTime>,
    /// Entity tag, if the storage has one.
    pub etag: Option<String>,
}

impl SourceMeta {
    /// Whether the source may be unchanged since the `known` state: if both have an entity tag, it decides, otherwise
    /// the modification time.
    pub fn may_be(&self, known: &Self) -> bool {
        let tag = Option::zip(self.etag.as_ref(), known.etag.as_ref());
        let time = Option::zip(self.modified, known.modified);
        self.size == known.size
            && match (tag, time) {
                (Some((now, then)), _) => now == then,
                (None, Some((now, then))) => now == then,
                (None, None) => true,
            }
    }

    /// Checks that `range` is inside the source, before memory is allocated; returns its length.
    ///
    /// # Errors
    /// If the range is inverted, ends beyond the source, or exceeds the address space.
    pub fn check(&self, url: &str, range: &Range<u64>) -> Result<usize, IoError> {
        let offset = range.start;
        let Some(length) = range.end.checked_sub(offset) else {
            return Err(IoError::InvertedRange {
                url: url.to_owned(),
                offset,
                found: range.end,
            });
        };
        if range.end > self.size {
            let found = self.size.saturating_sub(offset);
            return Err(IoError::OutOfRange {
                url: url.to_owned(),
                offset,
                expected: length,
                found,
                size: self.size,
            });
        }
        usize::try_from(length).map_err(|_| IoError::TooLarge {
            url: url.to_owned(),
            offset,
            expected: usize::MAX as u64,
            found: length,
        })
    }

    /// The range of `length` bytes at `offset`, if it is inside the source.
    ///
    /// # Errors
    /// If it ends beyond the source.
    pub fn range_at(&self, url: &str, offset: u64, length: usize) -> Result<Range<u64>, IoError> {
        let expected = length as u64;
        let Some(end) = offset.checked_add(expected) else {
            let found = self.size.saturating_sub(offset);
            return Err(IoError::OutOfRange {
                url: url.to_owned(),
                offset,
                expected,
                found,
                size: self.size,
            });
        };
        self.check(url, &(offset..end))?;
        Ok(offset..end)
    }
}

/// Small enough to cost nothing, and large enough to save a round trip or request if pages are large.
const MOST_GAPS: u64 = 4;

/// How requests to a source should be split, for [`coalesce`](crate::coalesce) and schedulers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceCost {
    /// Whether ranges are merged into requests before they are read. If not, the source gets them as they are wanted, and
    /// merges them itself.
    pub merges: bool,
    /// The largest gap between two ranges, in bytes, that is cheaper to read than to skip.
    pub largest_gap: u64,
    /// Maximum bytes in such gaps, in percent of the requested bytes; unlimited if `None`. Without a limit, pages of a
    /// few hundred bytes are so close that reading one column would read all.
    pub most_gaps: Option<u64>,
    /// Maximum useful size of a request in bytes; larger requests should be split.
    pub largest_request: u64,
    /// Maximum number of bytes per vector read.
    pub largest_vector: u64,
    /// Maximum number of ranges per vector read.
    pub most_ranges: usize,
    /// Maximum useful number of concurrent vector reads.
    pub concurrency: usize,
    /// Maximum number of bytes to fetch before earlier ones are used.
    pub in_flight: u64,
}

impl SourceCost {
    /// Whether reads take longer than a copy, so that several are worth having in flight.
    #[must_use]
    pub fn is_far(&self) -> bool {
        self.concurrency > 1
    }
}

impl Default for SourceCost {
    /// Costs of an unknown source.
    fn default() -> Self {
        Self {
            merges: true,
            largest_gap: 64 << 10,
            most_gaps: Some(MOST_GAPS),
            largest_request: 16 << 20,
            largest_vector: 8 << 20,
            most_ranges: 1024,
            concurrency: 4,
            in_flight: 64 << 20,
        }
    }
}
