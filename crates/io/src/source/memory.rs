//! A source in memory.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::{ByteSource, IoError, SourceCost, SourceInfo, SourceMeta};

/// Bytes in memory. Reads return slices without a copy.
#[derive(Debug)]
pub struct MemorySource {
    url: String,
    meta: SourceMeta,
    bytes: Bytes,
}

impl MemorySource {
    /// A source for `bytes`; `url` is its name in errors.
    #[must_use]
    pub fn new(url: impl Into<String>, bytes: impl Into<Bytes>) -> Arc<Self> {
        let bytes = bytes.into();
        let meta = SourceMeta {
            size: bytes.len() as u64,
            modified: None,
            etag: None,
        };
        Arc::new(Self {
            url: url.into(),
            meta,
            bytes,
        })
    }

    fn slice(&self, range: &Range<u64>) -> Result<Bytes, IoError> {
        let length = self.meta.check(&self.url, range)?;
        let too_large = || IoError::TooLarge {
            url: self.url.clone(),
            offset: range.start,
            expected: usize::MAX as u64,
            found: range.end,
        };
        let start = usize::try_from(range.start).map_err(|_| too_large())?;
        Ok(self.bytes.slice(start..start + length))
    }
}

impl ByteSource for MemorySource {
    fn info(&self) -> SourceInfo<'_> {
        // Slicing costs nothing, so merging ranges or splitting requests has no advantage.
        let cost = SourceCost {
            largest_gap: 0,
            largest_request: u64::MAX,
            most_ranges: usize::MAX,
            concurrency: 1,
            ..SourceCost::default()
        };
        SourceInfo::new(&self.url, &self.meta, cost)
    }

    fn inner(&self) -> Option<&dyn ByteSource> {
        None
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, IoError> {
        ranges.iter().map(|range| self.slice(range)).collect()
    }

    fn map(&self) -> Option<Bytes> {
        Some(self.bytes.clone())
    }
}
