//! Columns of a cluster that is being filled: elements wait until there are enough for a page, pages until the cluster
//! is written.

use femtobarn_codec::{Compressor, bits, delta, transpose, xxh3, zigzag};

use crate::RNTupleError;
use crate::spec::{ColumnRecord, ColumnType};

/// A page as it will be stored.
#[derive(Debug)]
pub(crate) struct SealedPage {
    pub n_elements: u32,
    /// Compressed, with its checksum behind it.
    pub bytes: Vec<u8>,
}

/// One column.
#[derive(Debug)]
pub(crate) struct ColumnBuffer {
    record: ColumnRecord,
    /// Bytes of an element as it waits: native, a byte for a bit, 8 for an index.
    size: usize,
    waiting: Vec<u8>,
    pub sealed: Vec<SealedPage>,
    /// Elements of this cluster.
    pub n_elements: u64,
    /// Of an index: items of this cluster.
    n_items: u64,
}

impl ColumnBuffer {
    pub fn new(record: &ColumnRecord) -> Self {
        use ColumnType as C;
        let size = match record.column_type {
            C::Bit => 1,
            C::Index32 | C::Index64 | C::SplitIndex32 | C::SplitIndex64 => 8,
            _ => usize::from(record.bits.div_ceil(8)),
        };
        Self {
            record: record.clone(),
            size,
            waiting: Vec::new(),
            sealed: Vec::new(),
            n_elements: 0,
            n_items: 0,
        }
    }

    /// Adds elements as bytes.
    pub fn append(&mut self, elements: &[u8]) {
        self.waiting.extend_from_slice(elements);
        self.n_elements += (elements.len() / self.size) as u64;
    }

    /// Adds lists by their ends, as numbers of items from the first of these lists.
    pub fn append_ends(&mut self, ends: impl Iterator<Item = i64>) {
        let before = self.n_items;
        for end in ends {
            self.n_items = before.saturating_add(end.unsigned_abs());
            self.waiting.extend_from_slice(&self.n_items.to_le_bytes());
            self.n_elements += 1;
        }
    }

    /// Takes the pages, and begins the next cluster.
    pub fn finish(&mut self) -> Vec<SealedPage> {
        (self.n_elements, self.n_items) = (0, 0);
        std::mem::take(&mut self.sealed)
    }

    /// Bytes that wait for a page.
    pub fn n_waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Seals full pages of at most `page_bytes` encoded bytes, or all that waits.
    pub fn seal(
        &mut self,
        page_bytes: usize,
        all: bool,
        settings: u32,
        sealer: &mut Sealer,
    ) -> Result<(), RNTupleError> {
        let bits = usize::from(self.record.bits).max(1);
        let n_page = (page_bytes.saturating_mul(8) / bits).max(1);
        let whole = self.waiting.len() / self.size;
        let mut done = 0;
        while done < whole && (all || whole - done >= n_page) {
            let n = n_page.min(whole - done);
            let elements = self.waiting.get(done * self.size..(done + n) * self.size);
            let bytes = sealer.seal(&self.record, elements.unwrap_or_default(), n, settings)?;
            let n_elements = u32::try_from(n).unwrap_or(u32::MAX);
            self.sealed.push(SealedPage { n_elements, bytes });
            done += n;
        }
        self.waiting.drain(..done * self.size);
        Ok(())
    }
}

/// Encodes and compresses pages; holds contexts and memory for one thread.
#[derive(Debug, Default)]
pub(crate) struct Sealer {
    compressor: Compressor,
    encoded: Vec<u8>,
}

impl Sealer {
    fn seal(
        &mut self,
        record: &ColumnRecord,
        elements: &[u8],
        n: usize,
        settings: u32,
    ) -> Result<Vec<u8>, RNTupleError> {
        let packed = record
            .packed_bytes(n as u64)
            .and_then(|size| usize::try_from(size).ok());
        self.encoded.clear();
        self.encoded.resize(packed.unwrap_or(0), 0);
        encode(record.column_type, elements, &mut self.encoded).map_err(RNTupleError::internal)?;
        let mut out = Vec::new();
        let shrunk = self.compressor.compress(settings, &self.encoded, &mut out);
        if !shrunk.map_err(RNTupleError::internal)? {
            out.extend_from_slice(&self.encoded);
        }
        let checksum = xxh3(&out);
        out.extend_from_slice(&checksum.to_le_bytes());
        Ok(out)
    }
}

fn encode(
    column_type: ColumnType,
    elements: &[u8],
    out: &mut [u8],
) -> Result<(), femtobarn_codec::CodecError> {
    use ColumnType as C;
    match column_type {
        C::Bit => bits::pack_bools(elements, out),
        C::SplitUInt16 => transpose::split(elements, 2, out),
        C::SplitUInt32 | C::SplitReal32 => transpose::split(elements, 4, out),
        C::SplitUInt64 | C::SplitReal64 => transpose::split(elements, 8, out),
        C::SplitInt16 => zigzag::split_zigzag(elements, 2, out),
        C::SplitInt32 => zigzag::split_zigzag(elements, 4, out),
        C::SplitInt64 => zigzag::split_zigzag(elements, 8, out),
        C::SplitIndex64 => {
            let ends: Vec<u64> = elements
                .as_chunks::<8>()
                .0
                .iter()
                .map(|end| u64::from_le_bytes(*end))
                .collect();
            delta::split_delta_64(&ends, out)
        }
        _ => {
            if out.len() == elements.len() {
                out.copy_from_slice(elements);
            }
            Ok(())
        }
    }
}
