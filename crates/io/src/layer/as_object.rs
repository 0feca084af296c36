//! A layer that reads a source as if it were in an object store, and counts the requests.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;

use super::{Held, find_held, joined_ends};
use crate::object_set::envelopes_of;
use crate::source::check_answers;
use crate::{
    ByteSource, IoError, ObjectSource, Settings, SourceCost, SourceInfo, SourceMeta, anchor_range,
    is_object_set,
};

/// A source that is opened and read like an [`ObjectSource`], or the objects of a set like an
/// [`ObjectSetSource`](crate::ObjectSetSource), so that it sends as many requests as these. Nothing that layers hold is
/// used.
#[derive(Debug)]
pub struct AsObject {
    inner: Arc<dyn ByteSource>,
    meta: SourceMeta,
    cost: SourceCost,
    /// What opening has read.
    held: Vec<Held>,
    requests: AtomicU64,
    bytes: AtomicU64,
}

impl AsObject {
    /// Opens it. The settings for objects apply.
    ///
    /// # Errors
    /// If a setting is invalid, or reading fails.
    pub fn open(inner: Arc<dyn ByteSource>, settings: &Settings) -> Result<Arc<Self>, IoError> {
        let meta = inner.meta().clone();
        let opening = match is_object_set(inner.url()) {
            true => vec![anchor_range(meta.size)],
            false => ObjectSource::ends(meta.size).to_vec(),
        };
        let answers = inner.read_ranges(&opening)?;
        check_answers(inner.url(), &opening, &answers)?;
        let n_requests = opening.len() as u64;
        let n_bytes = opening.iter().map(|range| range.end - range.start).sum();
        let mut held = opening.into_iter().zip(answers);
        let held = match (held.next(), held.next()) {
            (Some(head), Some(tail)) => joined_ends(head, tail),
            (Some(anchor), None) => {
                let mut held = envelopes_of(&anchor.1);
                held.push(anchor);
                held
            }
            _ => Vec::new(),
        };
        Ok(Arc::new(Self {
            cost: settings.cost(ObjectSource::cost())?,
            inner,
            meta,
            held,
            requests: AtomicU64::new(n_requests),
            bytes: AtomicU64::new(n_bytes),
        }))
    }

    /// Number of requests so far, and of the bytes that they have asked for.
    #[must_use]
    pub fn requested(&self) -> (u64, u64) {
        (self.requests.load(Relaxed), self.bytes.load(Relaxed))
    }
}

impl ByteSource for AsObject {
    fn info(&self) -> SourceInfo<'_> {
        SourceInfo::new(self.inner.url(), &self.meta, self.cost)
    }

    fn inner(&self) -> Option<&dyn ByteSource> {
        None
    }

    fn peek(&self, range: &Range<u64>) -> Option<Bytes> {
        find_held(&self.held, range).map(|(_, bytes)| bytes)
    }

    fn n_requests(&self, ranges: &[Range<u64>]) -> u64 {
        let asked = ranges.iter().filter(|range| self.peek(range).is_none());
        asked.count() as u64
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, IoError> {
        for range in ranges.iter().filter(|range| self.peek(range).is_none()) {
            self.requests.fetch_add(1, Relaxed);
            let length = range.end.saturating_sub(range.start);
            self.bytes.fetch_add(length, Relaxed);
        }
        self.inner.read_ranges(ranges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemorySource;

    #[test]
    fn both_ends_are_requested_once_and_held() {
        let settings = Settings::default();
        let open = |size: usize| {
            let source = MemorySource::new("mem:x", vec![7; size]);
            AsObject::open(source, &settings).unwrap()
        };
        let large = open(1 << 20);
        assert_eq!(large.requested(), (2, (64 << 10) + (256 << 10)));
        let ranges = [0..100, 100_000..100_010, (1 << 20) - 5..1 << 20];
        assert_eq!(large.n_requests(&ranges), 1);
        large.read_ranges(&ranges).unwrap();
        assert_eq!(large.requested(), (3, (64 << 10) + (256 << 10) + 10));
        assert_eq!(large.cost(), ObjectSource::cost());
        // both requests return all of a small object
        let small = open(1000);
        assert_eq!(small.requested(), (2, 2000));
        small.read_ranges(std::slice::from_ref(&(0..1000))).unwrap();
        assert_eq!(small.requested(), (2, 2000));
    }
}
