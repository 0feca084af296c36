//! Reading metadata: envelopes, wherever their bytes are, of payloads in one key or in several.

use std::ops::Range;

use bytes::Bytes;
use femtobarn_codec::Decompressor;
use femtobarn_io::ByteSource;

use super::stats::{Stats, add, elapsed};
use crate::RNTupleError;
use crate::encoding::LARGEST_RATIO;
use crate::spec::{EnvelopeLink, LocatorKind, SpecError};

/// Most bytes that an envelope may have uncompressed; guards against hostile lengths.
const LARGEST_ENVELOPE: u64 = 1 << 32;

/// Least MaxKeySize with which a split payload makes sense.
const SMALLEST_KEY: u64 = 64;

/// What is needed to read metadata.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub url: &'a str,
    pub path: &'a str,
    pub source: &'a dyn ByteSource,
    pub max_key_size: u64,
    pub stats: &'a Stats,
}

impl Context<'_> {
    /// The error of a structure that is not as the specification says.
    pub fn malformed(
        &self,
        structure: &'static str,
        offset: u64,
        source: SpecError,
    ) -> RNTupleError {
        RNTupleError::Spec {
            url: self.url.into(),
            ntuple: self.path.into(),
            structure,
            offset,
            source,
        }
    }

    pub fn inconsistent(
        &self,
        what: &str,
        expected: impl ToString,
        found: impl ToString,
    ) -> RNTupleError {
        RNTupleError::Inconsistent {
            url: self.url.into(),
            ntuple: self.path.into(),
            what: what.into(),
            expected: expected.to_string(),
            found: found.to_string(),
        }
    }

    /// Reads and decompresses envelopes.
    pub fn envelopes(
        &self,
        links: &[EnvelopeLink],
        structure: &'static str,
    ) -> Result<Vec<Bytes>, RNTupleError> {
        let stored = self.stored(links, structure)?.into_iter().zip(links);
        stored
            .map(|(stored, link)| self.decompress(stored, link, structure))
            .collect()
    }

    /// Reads envelopes, as they are stored.
    pub fn stored(
        &self,
        links: &[EnvelopeLink],
        structure: &'static str,
    ) -> Result<Vec<Bytes>, RNTupleError> {
        for link in links {
            if let LocatorKind::Other(kind) = link.locator.kind {
                let error = SpecError::Unsupported {
                    what: "locator",
                    offset: 0,
                    found: format!("type {kind:#x}, which is no place in a file"),
                };
                return Err(self.malformed(structure, 0, error));
            }
            let most = link.locator.size.saturating_mul(LARGEST_RATIO);
            if link.length > LARGEST_ENVELOPE.min(most) || link.locator.size > link.length {
                let found = format!("{} stored as {}", link.length, link.locator.size);
                return Err(self.inconsistent(
                    &format!("size of the {structure}"),
                    "stored size ≤ length, which is at most 4 GiB and 32768 times that",
                    found,
                ));
            }
        }
        let places: Vec<(u64, u64)> = links
            .iter()
            .map(|link| (link.locator.offset, link.locator.size))
            .collect();
        self.blobs(&places)
    }

    /// Decompresses an envelope.
    pub fn decompress(
        &self,
        stored: Bytes,
        link: &EnvelopeLink,
        structure: &str,
    ) -> Result<Bytes, RNTupleError> {
        if link.locator.size == link.length {
            return Ok(stored);
        }
        let length = usize::try_from(link.length).unwrap_or(usize::MAX);
        let mut bytes = vec![0; length];
        let result = Decompressor::new().decompress(&stored, &mut bytes);
        result.map_err(|source| RNTupleError::Codec {
            url: self.url.into(),
            ntuple: self.path.into(),
            structure: structure.into(),
            offset: link.locator.offset,
            source,
        })?;
        Ok(bytes.into())
    }

    /// Reads payloads (offset, size) in one vector read, or two where some are split over several keys.
    pub fn blobs(&self, places: &[(u64, u64)]) -> Result<Vec<Bytes>, RNTupleError> {
        let first = |&(offset, size): &(u64, u64)| {
            let stored = if self.max_key_size > 0 {
                size.min(self.max_key_size)
            } else {
                size
            };
            self.range(offset, stored)
        };
        let ranges: Vec<Range<u64>> = places.iter().map(first).collect::<Result<_, _>>()?;
        let mut blobs = self.read(&ranges)?;
        for (blob, &(_, size)) in blobs.iter_mut().zip(places) {
            if self.max_key_size > 0 && size > self.max_key_size {
                *blob = self.join(blob, size)?;
            }
        }
        Ok(blobs)
    }

    /// Joins a payload whose first key ends with the offsets of the other keys.
    fn join(&self, first: &Bytes, size: u64) -> Result<Bytes, RNTupleError> {
        let largest = self.max_key_size;
        if largest < SMALLEST_KEY || size > self.source.meta().size {
            let found = format!("{size} bytes in keys of {largest}");
            return Err(self.inconsistent(
                "payload over MaxKeySize",
                "keys of 64 bytes or more, within the file",
                found,
            ));
        }
        let mut n_keys = size.div_ceil(largest);
        while n_keys
            .saturating_mul(largest)
            .saturating_sub(8 * (n_keys - 1))
            < size
        {
            n_keys += 1;
        }
        let pointers = usize::try_from(8 * (n_keys - 1)).unwrap_or(usize::MAX);
        let Some((data, offsets)) = first
            .len()
            .checked_sub(pointers)
            .and_then(|at| first.split_at_checked(at))
        else {
            return Err(self.inconsistent(
                "payload over MaxKeySize",
                format!("{pointers} bytes of offsets"),
                first.len(),
            ));
        };
        let mut left = size - data.len() as u64;
        let mut ranges = Vec::new();
        for pointer in offsets.as_chunks::<8>().0 {
            let part = left.min(largest);
            ranges.push(self.range(u64::from_le_bytes(*pointer), part)?);
            left -= part;
        }
        let parts = self.read(&ranges)?;
        Ok(std::iter::once(data)
            .chain(parts.iter().map(|part| &part[..]))
            .collect::<Vec<_>>()
            .concat()
            .into())
    }

    fn range(&self, offset: u64, size: u64) -> Result<Range<u64>, RNTupleError> {
        let end = offset
            .checked_add(size)
            .filter(|&end| end <= self.source.meta().size);
        end.map(|end| offset..end).ok_or_else(|| {
            let found = format!("{size} bytes at offset {offset}");
            self.inconsistent(
                "position of a payload",
                format!("a range in {} bytes", self.source.meta().size),
                found,
            )
        })
    }

    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, RNTupleError> {
        let start = std::time::Instant::now();
        let bytes = self.source.read_ranges(ranges)?;
        let total: u64 = ranges.iter().map(|r| r.end - r.start).sum();
        add(&self.stats.bytes_needed, total);
        if let Some(meter) = self.source.meter() {
            meter.note_used(total);
        }
        add(&self.stats.io_ns, elapsed(start));
        Ok(bytes)
    }
}
