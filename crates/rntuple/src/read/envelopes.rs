//! Reads envelopes, wherever they are stored.

use bytes::Bytes;
use femtobarn_codec::Decompressor;

use super::stats::{Stats, add, elapsed};
use super::store::{NotStored, PageStore};
use crate::RNTupleError;
use crate::encoding::LARGEST_RATIO;
use crate::spec::{EnvelopeLink, PageAddress, SpecError, StoredRange};

/// The largest uncompressed size of an envelope; protects against malicious lengths.
const LARGEST_ENVELOPE: u64 = 1 << 32;

/// Context for reading metadata.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub path: &'a str,
    pub store: &'a dyn PageStore,
    pub stats: &'a Stats,
}

impl Context<'_> {
    fn url(&self) -> &str {
        self.store.info().url
    }

    /// The error for a structure that violates the specification.
    pub fn malformed(
        &self,
        structure: &'static str,
        at: PageAddress,
        source: SpecError,
    ) -> RNTupleError {
        RNTupleError::Spec {
            url: self.url().into(),
            ntuple: self.path.into(),
            structure,
            at,
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
            url: self.url().into(),
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

    /// Reads envelopes in their stored form.
    pub fn stored(
        &self,
        links: &[EnvelopeLink],
        structure: &'static str,
    ) -> Result<Vec<Bytes>, RNTupleError> {
        for link in links {
            let at = link.stored.address;
            if self.store.check(&link.stored) == Err(NotStored::Elsewhere) {
                let error = SpecError::Unsupported {
                    what: "locator",
                    offset: 0,
                    found: format!("{at}, which this store does not have"),
                };
                return Err(self.malformed(structure, at, error));
            }
        }
        let stored = links.iter().map(|link| link.stored);
        self.read(&stored.collect::<Vec<_>>())
    }

    /// Decompresses an envelope.
    pub fn decompress(
        &self,
        stored: Bytes,
        link: &EnvelopeLink,
        structure: &str,
    ) -> Result<Bytes, RNTupleError> {
        let most = LARGEST_ENVELOPE.min(link.stored.size.saturating_mul(LARGEST_RATIO));
        if link.length > most || link.stored.size > link.length {
            return Err(self.inconsistent(
                &format!("size of the {structure}"),
                "stored size ≤ length ≤ 4 GiB, and length ≤ 32768 × stored size",
                format!("{} stored as {}", link.length, link.stored.size),
            ));
        }
        if link.stored.size == link.length {
            return Ok(stored);
        }
        let length = usize::try_from(link.length).unwrap_or(usize::MAX);
        let mut bytes = vec![0; length];
        let result = Decompressor::new().decompress(&stored, &mut bytes);
        result.map_err(|source| RNTupleError::Codec {
            url: self.url().into(),
            ntuple: self.path.into(),
            structure: structure.into(),
            at: link.stored.address,
            source,
        })?;
        Ok(bytes.into())
    }

    /// Reads payloads in one vector read, or in two if some consist of several pieces.
    pub fn read(&self, stored: &[StoredRange]) -> Result<Vec<Bytes>, RNTupleError> {
        let start = std::time::Instant::now();
        let bytes = self.store.read(stored)?;
        let total: u64 = stored.iter().map(|stored| stored.size).sum();
        add(&self.stats.bytes_needed, total);
        if let Some(meter) = self.store.info().meter {
            meter.note_used(total);
        }
        add(&self.stats.io_ns, elapsed(start));
        Ok(bytes)
    }
}
