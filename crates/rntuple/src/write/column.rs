//! Columns of a cluster being filled: elements wait until they fill a page, pages wait until the cluster is written.

use std::ops::Range;

use arrow_buffer::BooleanBuffer;
use bytes::Bytes;
use femtobarn_codec::{CodecError, Compressor, bits, delta, real, transpose, xxh3, zigzag};

use super::numbers::in_range;
use super::waiting::{Blocks, Waiting};
use crate::RNTupleError;
use crate::schema::DType;
use crate::spec::{ColumnRecord, ColumnType, Page, PageAddress, StoredRange};

/// A page in its stored form.
#[derive(Debug)]
pub(super) struct SealedPage {
    pub n_elements: u32,
    /// Compressed bytes, followed by the checksum if there is one.
    pub bytes: Bytes,
    /// XXH3 of the encoded elements.
    pub hash: u64,
}

impl SealedPage {
    /// The record in the page list, for a page stored at an address.
    pub fn stored_at(&self, address: PageAddress, has_checksum: bool) -> Page {
        let checksum = if has_checksum { 8 } else { 0 };
        Page {
            n_elements: self.n_elements,
            has_checksum,
            body: StoredRange {
                address,
                size: (self.bytes.len() as u64).saturating_sub(checksum),
            },
        }
    }
}

/// A column.
#[derive(Debug)]
pub(super) struct ColumnBuffer {
    pub record: ColumnRecord,
    pub settings: u32,
    /// Type of the waiting elements; none for indexes and switches.
    dtype: Option<DType>,
    /// Size of a waiting element in bytes.
    size: usize,
    waiting: Waiting,
    pub sealed: Vec<SealedPage>,
    /// Number of elements in this cluster.
    pub n_elements: u64,
    /// For an index, the number of items in this cluster; for a switch, the number of values of each alternative.
    n_items: Vec<u64>,
}

impl ColumnBuffer {
    /// Creates an empty column; `dtype` is the type of the elements given.
    pub fn new(record: &ColumnRecord, dtype: Option<DType>, settings: u32) -> Self {
        let size = match record.column_type {
            ColumnType::Switch => 12,
            column if column.is_index() => 8,
            _ => dtype.map_or(1, DType::size),
        };
        Self {
            record: record.clone(),
            settings,
            dtype,
            size,
            waiting: Waiting::default(),
            sealed: Vec::new(),
            n_elements: 0,
            n_items: Vec::new(),
        }
    }

    /// Creates another empty column of the same kind.
    pub fn another(&self) -> Self {
        Self::new(&self.record, self.dtype, self.settings)
    }

    /// Adds elements as bytes.
    pub fn append(&mut self, blocks: &Blocks, elements: &[u8]) -> Result<(), RNTupleError> {
        self.waiting.append(blocks, elements)?;
        self.n_elements += (elements.len() / self.size) as u64;
        Ok(())
    }

    /// Adds booleans, one byte each.
    pub fn append_bools(
        &mut self,
        blocks: &Blocks,
        bools: &BooleanBuffer,
    ) -> Result<(), RNTupleError> {
        let chunks = bools.bit_chunks();
        for bits in &chunks {
            self.append(blocks, bytemuck::cast_slice(&spread(bits)))?;
        }
        let rest = spread(chunks.remainder_bits());
        let rest: &[u8] = bytemuck::cast_slice(&rest);
        let n = chunks.remainder_len();
        self.append(blocks, rest.get(..n).unwrap_or_default())
    }

    /// Adds lists by their offsets, one more than the number of lists.
    pub fn append_ends(
        &mut self,
        blocks: &Blocks,
        mut ends: impl Iterator<Item = i64>,
    ) -> Result<(), RNTupleError> {
        let first = ends.next().unwrap_or(0);
        let before = self.n_items.first().copied().unwrap_or(0);
        let mut last = before;
        let next = |end: i64| {
            last = before.wrapping_add(end.wrapping_sub(first).cast_unsigned());
            last.to_le_bytes()
        };
        self.append_each(blocks, ends.map(next))?;
        self.n_items.resize(1, 0);
        self.n_items.fill(last);
        Ok(())
    }

    /// Adds values of a variant by their alternatives, counted from 1 (0: no value).
    pub fn append_tags(&mut self, blocks: &Blocks, tags: &[u8]) -> Result<(), RNTupleError> {
        let mut n_items = std::mem::take(&mut self.n_items);
        let switch = |&tag: &u8| {
            let alternative = usize::from(tag);
            if n_items.len() <= alternative {
                n_items.resize(alternative + 1, 0);
            }
            let position = match n_items.get_mut(alternative) {
                Some(count) if tag > 0 => {
                    *count += 1;
                    *count - 1
                }
                _ => 0,
            };
            let mut element = [0; 12];
            let (index, number) = element.split_at_mut(8);
            index.copy_from_slice(&position.to_le_bytes());
            number.copy_from_slice(&u32::from(tag).to_le_bytes());
            element
        };
        let appended = self.append_each(blocks, tags.iter().map(switch));
        self.n_items = n_items;
        appended
    }

    /// Adds elements, some hundred at a time.
    fn append_each<const N: usize>(
        &mut self,
        blocks: &Blocks,
        mut elements: impl Iterator<Item = [u8; N]>,
    ) -> Result<(), RNTupleError> {
        let mut some = [[0; N]; 512];
        loop {
            let mut n = 0;
            for (to, element) in some.iter_mut().zip(&mut elements) {
                *to = element;
                n += 1;
            }
            let given = some.get(..n).unwrap_or_default().as_flattened();
            self.append(blocks, given)?;
            if n < some.len() {
                return Ok(());
            }
        }
    }

    /// Takes the pages, and begins the next cluster.
    pub fn finish(&mut self) -> (u64, Vec<SealedPage>) {
        self.n_items.clear();
        let n_elements = std::mem::take(&mut self.n_elements);
        (n_elements, std::mem::take(&mut self.sealed))
    }

    /// Removes all elements.
    pub fn clear(&mut self, blocks: &Blocks) {
        self.finish();
        self.waiting.drop_first(blocks, self.waiting.len());
    }

    /// Number of bytes that wait for a page.
    pub fn n_waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Memory of the waiting elements in bytes.
    pub fn n_held(&self) -> usize {
        self.waiting.n_held()
    }

    /// The elements of full pages with at most `page_bytes` encoded bytes, or of all pages.
    pub fn pages(
        &self,
        page_bytes: usize,
        all: bool,
    ) -> impl Iterator<Item = Range<usize>> + use<> {
        let bits = usize::from(self.record.bits).max(1);
        let n_page = (page_bytes.saturating_mul(8) / bits).clamp(1, i32::MAX as usize);
        let whole = self.waiting.len() / self.size;
        let n_pages = if all {
            whole.div_ceil(n_page)
        } else {
            whole / n_page
        };
        (0..n_pages).map(move |i| i * n_page..whole.min((i + 1) * n_page))
    }

    /// The waiting elements of a page; copied to `gathered` if they are not contiguous.
    pub fn elements<'a>(&'a self, page: &Range<usize>, gathered: &'a mut Vec<u8>) -> &'a [u8] {
        let bytes = page.start * self.size..page.end * self.size;
        self.waiting.bytes(bytes, gathered)
    }

    /// Removes elements that have become pages.
    pub fn drop_first(&mut self, blocks: &Blocks, n_elements: usize) {
        self.waiting.drop_first(blocks, n_elements * self.size);
    }
}

/// Encodes and compresses pages. It has the contexts and the memory of one thread.
#[derive(Debug, Default)]
pub(super) struct Sealer {
    compressor: Compressor,
    gathered: Vec<u8>,
    encoded: Vec<u8>,
}

impl Sealer {
    /// Makes a page of the `n` elements of a column.
    pub fn seal(
        &mut self,
        column: &ColumnBuffer,
        page: &Range<usize>,
        checksum: bool,
    ) -> Result<SealedPage, RNTupleError> {
        let mut gathered = std::mem::take(&mut self.gathered);
        let elements = column.elements(page, &mut gathered);
        let (record, n) = (&column.record, page.len());
        let sealed = self.seal_elements(
            record,
            column.dtype,
            column.settings,
            (n, elements),
            checksum,
        );
        self.gathered = gathered;
        sealed
    }

    /// Makes a page of `n` elements of type `dtype`.
    pub fn seal_elements(
        &mut self,
        record: &ColumnRecord,
        dtype: Option<DType>,
        settings: u32,
        (n, elements): (usize, &[u8]),
        checksum: bool,
    ) -> Result<SealedPage, RNTupleError> {
        let packed = record
            .packed_bytes(n as u64)
            .and_then(|size| usize::try_from(size).ok());
        let mut encoded = std::mem::take(&mut self.encoded);
        encoded.clear();
        encoded.resize(packed.unwrap_or(0), 0);
        encode(record, dtype, elements, &mut encoded).map_err(RNTupleError::internal)?;
        let sealed = self.seal_encoded(record, settings, (n, &encoded), checksum);
        self.encoded = encoded;
        sealed
    }

    /// Makes a page of `n` encoded elements.
    pub fn seal_encoded(
        &mut self,
        record: &ColumnRecord,
        settings: u32,
        (n, encoded): (usize, &[u8]),
        checksum: bool,
    ) -> Result<SealedPage, RNTupleError> {
        let mut bytes = Vec::new();
        let compressor = &mut self.compressor;
        let plane = if record.column_type.is_split() {
            n
        } else {
            encoded.len()
        };
        let shrunk = if record.column_type == ColumnType::Char {
            // compression levels are made for text
            compressor.compress(settings, encoded, &mut bytes)
        } else {
            compressor.compress_planes(settings, plane, encoded, &mut bytes)
        };
        if !shrunk.map_err(RNTupleError::internal)? {
            bytes.reserve_exact(encoded.len() + 8);
            bytes.extend_from_slice(encoded);
        }
        let hash = xxh3(&bytes);
        if checksum {
            bytes.extend_from_slice(&hash.to_le_bytes());
        }
        bytes.shrink_to_fit();
        let n_elements = u32::try_from(n).unwrap_or(u32::MAX);
        Ok(SealedPage {
            n_elements,
            bytes: bytes.into(),
            hash,
        })
    }
}

/// One byte for each of 64 bits.
fn spread(bits: u64) -> [u64; 8] {
    bits.to_le_bytes().map(|byte| {
        // each byte keeps one of the eight bits, and moves it to its lowest position
        let kept = (u64::from(byte) * 0x0101_0101_0101_0101) & 0x8040_2010_0804_0201;
        let bools = ((kept + 0x7f7f_7f7f_7f7f_7f7f) >> 7) & 0x0101_0101_0101_0101;
        bools.to_le()
    })
}

/// Encodes waiting elements as those of a page.
fn encode(
    record: &ColumnRecord,
    dtype: Option<DType>,
    elements: &[u8],
    out: &mut [u8],
) -> Result<(), CodecError> {
    use ColumnType as C;
    let bits = u32::from(record.bits);
    let (min, max) = record.range.unwrap_or((0.0, 0.0));
    match record.column_type {
        C::Bit => bits::pack_bools(elements, out),
        C::SplitUInt16 => transpose::split(elements, 2, out),
        C::SplitUInt32 => transpose::split(elements, 4, out),
        C::SplitUInt64 | C::SplitReal64 => transpose::split(elements, 8, out),
        C::SplitInt16 => zigzag::split_zigzag(elements, 2, out),
        C::SplitInt32 => zigzag::split_zigzag(elements, 4, out),
        C::SplitInt64 => zigzag::split_zigzag(elements, 8, out),
        C::SplitIndex64 => delta::split_delta_64(&words(elements), out),
        C::SplitIndex32 => delta::split_delta_32(&words(elements), out),
        C::Index32 => narrow_words(&words(elements), out),
        C::SplitReal32 if dtype == Some(DType::Float64) => {
            transpose::split(bytemuck::cast_slice(&singles(elements)), 4, out)
        }
        C::SplitReal32 => transpose::split(elements, 4, out),
        C::Real32 if dtype == Some(DType::Float64) => {
            copy(bytemuck::cast_slice(&singles(elements)), out)
        }
        C::Real16 if dtype == Some(DType::Float32) => real::f32_to_half(&reals(elements), out),
        C::Real16 if dtype == Some(DType::Float64) => real::f32_to_half(&singles(elements), out),
        C::Real32Trunc if dtype == Some(DType::Float64) => {
            real::pack_truncated(&singles(elements), bits, out)
        }
        C::Real32Trunc => real::pack_truncated(&reals(elements), bits, out),
        C::Real32Quant if dtype == Some(DType::Float64) => {
            real::pack_quantized(&doubles(elements), bits, min, max, out)
        }
        C::Real32Quant => {
            let reals: Vec<f64> = reals(elements)
                .into_iter()
                .map(|value| in_range(value, (min, max)))
                .collect();
            real::pack_quantized(&reals, bits, min, max, out)
        }
        _ => copy(elements, out),
    }
}

fn copy(elements: &[u8], out: &mut [u8]) -> Result<(), CodecError> {
    // the sizes are equal, as the model chose the column for the elements
    for (to, from) in out.iter_mut().zip(elements) {
        *to = *from;
    }
    Ok(())
}

fn words(elements: &[u8]) -> Vec<u64> {
    let words = elements.as_chunks::<8>().0.iter();
    words.map(|word| u64::from_le_bytes(*word)).collect()
}

fn narrow_words(words: &[u64], out: &mut [u8]) -> Result<(), CodecError> {
    for (index, (to, word)) in out.as_chunks_mut::<4>().0.iter_mut().zip(words).enumerate() {
        let encoding = "32-bit indexes";
        let narrow = u32::try_from(*word);
        *to = narrow
            .map_err(|_| CodecError::OutOfRange { encoding, index })?
            .to_le_bytes();
    }
    Ok(())
}

fn reals(elements: &[u8]) -> Vec<f32> {
    let reals = elements.as_chunks::<4>().0.iter();
    reals.map(|real| f32::from_le_bytes(*real)).collect()
}

fn doubles(elements: &[u8]) -> Vec<f64> {
    let reals = elements.as_chunks::<8>().0.iter();
    reals.map(|real| f64::from_le_bytes(*real)).collect()
}

/// Converts doubles to single precision, if the field's type says so.
fn singles(elements: &[u8]) -> Vec<f32> {
    let doubles = doubles(elements).into_iter();
    doubles.map(femtobarn_codec::real::narrowed).collect()
}
