//! A layer that records reads.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::{ByteSource, IoError, SourceInfo};

/// Records every vector read, for metrics and for tests of the cost of operations.
///
/// A read into the caller's memory counts as a vector read of one range. The memory map of the inner source is
/// hidden, because reads through it would not be recorded.
#[derive(Debug)]
pub struct RecordSource {
    inner: Arc<dyn ByteSource>,
    log: Mutex<Vec<Vec<Range<u64>>>>,
}

impl RecordSource {
    /// Records reads of `inner`.
    #[must_use]
    pub fn new(inner: Arc<dyn ByteSource>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            log: Mutex::new(Vec::new()),
        })
    }

    /// All vector reads so far in order, including failed ones.
    #[must_use]
    pub fn log(&self) -> Vec<Vec<Range<u64>>> {
        self.lock().clone()
    }

    /// Total number of requested bytes.
    #[must_use]
    pub fn bytes_asked(&self) -> u64 {
        self.lock()
            .iter()
            .flatten()
            .map(|range| range.end.saturating_sub(range.start))
            .sum()
    }

    /// Clears the record.
    pub fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Vec<Range<u64>>>> {
        // The log is consistent even after a panic: it is only appended to.
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ByteSource for RecordSource {
    fn info(&self) -> SourceInfo<'_> {
        self.inner.info()
    }

    fn inner(&self) -> Option<&dyn ByteSource> {
        Some(&*self.inner)
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, IoError> {
        self.lock().push(ranges.to_vec());
        self.inner.read_ranges(ranges)
    }

    fn read_into(&self, offset: u64, buffer: &mut [u8]) -> Result<(), IoError> {
        self.lock()
            .push(vec![offset..offset.saturating_add(buffer.len() as u64)]);
        self.inner.read_into(offset, buffer)
    }

    fn map(&self) -> Option<Bytes> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemorySource;

    #[test]
    fn every_read_is_recorded_until_cleared() {
        let source = RecordSource::new(MemorySource::new("mem:digits", b"0123456789".to_vec()));
        source.read_ranges(&[0..2, 4..5]).unwrap();
        source.read_into(7, &mut [0; 2]).unwrap();
        source.read_ranges(&[9..11]).unwrap_err();
        assert_eq!(source.log(), [vec![0..2, 4..5], vec![7..9], vec![9..11]]);
        assert_eq!(source.bytes_asked(), 7);
        source.clear();
        assert!(source.log().is_empty());
    }
}
