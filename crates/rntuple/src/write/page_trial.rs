//! Seals pages with other settings, to find out how these do.

use bytes::Bytes;
use femtobarn_codec::Decompressor;

use super::column::Sealer;
use crate::RNTupleError;
use crate::encoding::packed_size;
use crate::read::{Reader, check_page, page_error};
use crate::spec::{ColumnRecord, Page};

/// Decompresses pages, and compresses them with other settings. It has the contexts and the memory of one thread.
#[derive(Debug, Default)]
pub struct PageTrial {
    decompressor: Decompressor,
    sealer: Sealer,
}

impl PageTrial {
    /// Reads the encoded elements of a page.
    ///
    /// # Errors
    /// If the page cannot be read, or is damaged.
    pub fn encoded(
        &mut self,
        reader: &Reader,
        (column, cluster): (u32, u64),
        page: &Page,
    ) -> Result<Vec<u8>, RNTupleError> {
        let Some(record) = reader.descriptor().column(column) else {
            return Err(RNTupleError::internal("a page of no column"));
        };
        let stored = reader.read_stored(&page.stored())?;
        let body = check_page(reader, record, (column, cluster), page, &stored)?;
        let failed = |error| page_error(reader, record, cluster, page.body.address, error);
        let n = u64::from(page.n_elements);
        let size = packed_size(record, n, body.len() as u64).map_err(failed)?;
        if size == body.len() {
            return Ok(body.to_vec());
        }
        let mut encoded = vec![0; size];
        let done = self.decompressor.decompress(body, &mut encoded);
        done.map_err(|error| failed(error.into()))?;
        Ok(encoded)
    }

    /// The stored form, without a checksum, of a page with `n` encoded elements.
    ///
    /// # Errors
    /// If the settings are unknown.
    pub fn sealed(
        &mut self,
        record: &ColumnRecord,
        settings: u32,
        (n, encoded): (usize, &[u8]),
    ) -> Result<Bytes, RNTupleError> {
        let sealed = self
            .sealer
            .seal_encoded(record, settings, (n, encoded), false)?;
        Ok(sealed.bytes)
    }

    /// Decompresses a page of [`sealed`](Self::sealed) to memory of the size of its encoded elements.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn open(&mut self, sealed: &[u8], encoded: &mut [u8]) -> Result<(), RNTupleError> {
        if sealed.len() == encoded.len() {
            encoded.copy_from_slice(sealed);
            return Ok(());
        }
        let done = self.decompressor.decompress(sealed, encoded);
        done.map_err(RNTupleError::internal)
    }
}
