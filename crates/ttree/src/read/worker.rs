//! Decoding baskets on one thread.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use femtobarn_codec::Decompressor;
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::encoding::{Scratch, Target};
use femtobarn_rntuple::read::storage::{Decode, Fetched, Stats, add, elapsed};
use femtobarn_rntuple::read::{PageCache, PageKey, Part};
use femtobarn_rntuple::schema::DType;

use super::basket::BasketKey;
use super::numbers::{numbers, promoted};
use super::op::Op;
use super::storage::tree_of;
use super::values::{Decoder, Sink};
use crate::TreeError;
use crate::cursor::Cursor;
use crate::interp::{ListWire, Number, RecordWire};
use crate::model::{Basket, BranchId, Place};

/// No codec makes more of a byte.
const LARGEST_RATIO: usize = 1 << 15;

/// Some entries of a basket, and what becomes of them.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    pub part: usize,
    pub branch: BranchId,
    /// The basket's number.
    pub number: usize,
    pub basket: &'a Basket,
    /// First wanted entry, counted from the basket's first, and one past the last.
    pub low: usize,
    pub high: usize,
    pub task: Task<'a>,
}

/// What becomes of entries.
#[derive(Debug)]
pub(crate) enum Task<'a> {
    /// So many numbers an entry, into their place.
    Fixed {
        number: Number,
        each: usize,
        dtype: DType,
        out: &'a mut [u8],
    },
    /// Numbers of items.
    Counts { number: Number, out: &'a mut [u64] },
    /// As many items as `sums` says: of items before each entry of the basket, and in all.
    Counted {
        number: Number,
        each: usize,
        dtype: DType,
        sums: &'a [u64],
        out: &'a mut [u8],
    },
    /// Anything, to be put together later.
    Pieces {
        op: &'a Op,
        fixed: Option<usize>,
        sinks: &'a mut Vec<Sink>,
    },
}

impl Fetched for Job<'_> {
    fn part(&self) -> usize {
        self.part
    }

    fn range(&self) -> Range<u64> {
        match self.basket.place {
            Place::File { offset, n_bytes } => offset..offset.saturating_add(n_bytes),
            Place::Tree { .. } => 0..0,
        }
    }
}

impl Job<'_> {
    /// Key of the basket in a cache.
    pub fn key(&self, part: &Part) -> PageKey {
        PageKey {
            reader: Arc::as_ptr(&part.reader) as usize,
            column: u32::try_from(self.branch).unwrap_or(u32::MAX),
            offset: self.range().start,
            n_elements: u32::try_from(self.basket.n_entries).unwrap_or(u32::MAX),
            target: Target::Index,
        }
    }
}

/// Values of a basket, and where its entries begin in them, if that is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Opened<'b> {
    pub values: &'b [u8],
    pub offsets: Offsets<'b>,
}

/// Where entries begin.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Offsets<'b> {
    None,
    /// As stored: counted from the beginning of the key.
    Stored {
        words: &'b [[u8; 4]],
        key_len: u32,
    },
    Known(&'b [u32]),
}

impl Offsets<'_> {
    fn get(&self, entry: usize) -> Option<usize> {
        match self {
            Self::None => None,
            Self::Stored { words, key_len } => {
                let offset = u32::from_be_bytes(*words.get(entry)?);
                Some(offset.checked_sub(*key_len)? as usize)
            }
            Self::Known(offsets) => offsets.get(entry).map(|&offset| offset as usize),
        }
    }
}

/// Decodes baskets on one thread.
pub(crate) struct Worker<'a> {
    parts: &'a [Part],
    cache: Option<&'a PageCache>,
    decompressor: Decompressor,
    scratch: Scratch,
    narrow: Vec<u8>,
    stats: Stats,
}

impl<'a> Worker<'a> {
    pub fn new(parts: &'a [Part], cache: Option<&'a PageCache>) -> Self {
        Self {
            parts,
            cache,
            decompressor: Decompressor::new(),
            scratch: Scratch::default(),
            narrow: Vec::new(),
            stats: Stats::default(),
        }
    }

    /// Decodes a basket that is in the tree's own object, or in the cache; says whether it is.
    pub fn decode_held(&mut self, job: &mut Job<'_>) -> Result<bool, RNTupleError> {
        let Some(part) = self.parts.get(job.part) else {
            return Ok(false);
        };
        if let Place::Tree { data, offsets } = &job.basket.place {
            let tree = tree_of(part)?;
            let values = tree.object().get(data.clone()).unwrap_or_default();
            let offsets = match offsets {
                Some(offsets) => Offsets::Known(offsets),
                None => Offsets::None,
            };
            let opened = Opened { values, offsets };
            self.task(job, opened)
                .map_err(|error| failed(part, job, error))?;
            return Ok(true);
        }
        let is_last = job.high as u64 >= job.basket.n_entries;
        let held = self.cache.and_then(|cache| match is_last {
            true => cache.get_last(&job.key(part)),
            false => cache.get(&job.key(part)),
        });
        let Some(bytes) = held else {
            return Ok(false);
        };
        add(&part.reader.stats().cached_pages, 1);
        let Some((bytes, tail)) = bytes.split_last_chunk::<12>() else {
            return Ok(false);
        };
        let (border, key_len) = (word(tail, 0), word(tail, 8));
        let opened = split(bytes, border as usize, key_len, job.basket.n_entries);
        self.task(job, opened)
            .map_err(|error| failed(part, job, error))?;
        Ok(true)
    }

    fn basket(&mut self, job: &mut Job<'_>, stored: &[u8]) -> Result<(), RNTupleError> {
        let Some(part) = self.parts.get(job.part) else {
            return Err(RNTupleError::internal("the plan names what is not there"));
        };
        let key = BasketKey::parse(&mut Cursor::new(stored));
        let key = key.and_then(|key| check_key(&key, job.basket, stored).map(|()| key));
        let key = key.map_err(|error| failed(part, job, error))?;
        let payload = stored.get(usize::from(key.key_len)..).unwrap_or_default();
        let length = key.object_len as usize;
        let mut scratch = std::mem::take(&mut self.scratch);
        let result = self.open(part, job, payload, length, &mut scratch);
        let result = result.and_then(|bytes| {
            let border = key.border().unwrap_or(0);
            let n_entries = job.basket.n_entries;
            if let Some(cache) = self.cache.filter(|_| (job.high as u64) < n_entries) {
                let mut kept = bytes.to_vec();
                kept.extend_from_slice(&u32::try_from(border).unwrap_or(0).to_ne_bytes());
                kept.extend_from_slice(&[0; 4]);
                kept.extend_from_slice(&u32::from(key.key_len).to_ne_bytes());
                cache.insert(job.key(part), &kept);
            }
            let opened = split(bytes, border, u32::from(key.key_len), n_entries);
            let is_compressed = length > payload.len();
            self.task(job, opened)
                .map_err(|error| failed(part, job, blamed(error, job, is_compressed)))
        });
        self.scratch = scratch;
        result
    }

    /// The basket's bytes, decompressed where they are compressed.
    fn open<'b>(
        &mut self,
        part: &Part,
        job: &Job<'_>,
        payload: &'b [u8],
        length: usize,
        scratch: &'b mut Scratch,
    ) -> Result<&'b [u8], RNTupleError> {
        if length <= payload.len() {
            return Ok(payload.get(..length).unwrap_or_default());
        }
        if length > payload.len().saturating_mul(LARGEST_RATIO) {
            let most = format!(
                "at most {} bytes",
                payload.len().saturating_mul(LARGEST_RATIO)
            );
            let error = Cursor::new(&[]).corrupt("decompressed size", most, length);
            return Err(failed(part, job, error));
        }
        let start = Instant::now();
        let bytes = scratch.bytes(length).map_err(|_| RNTupleError::Memory {
            bytes: length as u64,
            reason: format!("a basket of {}", part.reader.url()),
        })?;
        let result = self.decompressor.decompress(payload, bytes);
        add(&self.stats.decompress_ns, elapsed(start));
        add(&self.stats.bytes_decompressed, length as u64);
        match result {
            Ok(()) => Ok(bytes),
            Err(source) => Err(RNTupleError::Codec {
                url: part.reader.url().into(),
                ntuple: part.reader.path().into(),
                structure: describe(part, job),
                offset: job.range().start,
                source,
            }),
        }
    }

    fn task(&mut self, job: &mut Job<'_>, opened: Opened<'_>) -> Result<(), TreeError> {
        let (low, high, n) = (job.low, job.high, job.basket.n_entries);
        let n = usize::try_from(n).unwrap_or(usize::MAX);
        match &mut job.task {
            Task::Fixed {
                number,
                each,
                dtype,
                out,
            } => {
                let size = number.size().unwrap_or(4).saturating_mul(*each);
                expect(opened.values.len(), n.checked_mul(size))?;
                let values = opened
                    .values
                    .get(low * size..high * size)
                    .unwrap_or_default();
                self.write(*number, *dtype, values, out);
                Ok(())
            }
            Task::Counts { number, out } => {
                let size = number.size().unwrap_or(4);
                expect(opened.values.len(), n.checked_mul(size))?;
                counts(*number, opened.values.get(low * size..high * size), out)
            }
            Task::Counted {
                number,
                each,
                dtype,
                sums,
                out,
            } => {
                let size = number.size().unwrap_or(4).saturating_mul(*each);
                let at = |entry: usize| sums.get(entry).copied().unwrap_or(0);
                let first = at(0);
                let byte =
                    |entry: usize| usize::try_from(at(entry) - first).ok()?.checked_mul(size);
                expect(opened.values.len(), byte(n))?;
                check_offsets(opened, n, &byte)?;
                let range = byte(low).unwrap_or(0)..byte(high).unwrap_or(0);
                let values = opened.values.get(range).unwrap_or_default();
                self.write(*number, *dtype, values, out);
                Ok(())
            }
            Task::Pieces { op, fixed, sinks } => pieces(op, *fixed, sinks, opened, low..high, n),
        }
    }

    /// Writes numbers into their place.
    fn write(&mut self, number: Number, dtype: DType, values: &[u8], out: &mut [u8]) {
        add(&self.stats.bytes_decoded, out.len() as u64);
        if dtype == number.dtype {
            return numbers(number, values, out);
        }
        let n = values.len() / number.size().unwrap_or(4).max(1);
        self.narrow.resize(n.saturating_mul(number.dtype.size()), 0);
        numbers(number, values, &mut self.narrow);
        promoted(&self.narrow, number.dtype, dtype, out);
    }
}

impl<'j> Decode<Job<'j>> for Worker<'_> {
    fn decode(&mut self, job: &mut Job<'j>, stored: &[u8]) -> Result<(), RNTupleError> {
        let start = Instant::now();
        let before = self
            .stats
            .decompress_ns
            .load(std::sync::atomic::Ordering::Relaxed);
        let result = self.basket(job, stored);
        let after = self
            .stats
            .decompress_ns
            .load(std::sync::atomic::Ordering::Relaxed);
        let all = elapsed(start);
        add(&self.stats.decode_ns, all.saturating_sub(after - before));
        add(&self.stats.pages, 1);
        result
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }

    fn into_stats(self) -> Stats {
        self.stats
    }
}

fn word(bytes: &[u8; 12], at: usize) -> u32 {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
    word.map_or(0, |word| u32::from_ne_bytes(*word))
}

/// Values and offsets of a basket.
fn split(bytes: &[u8], border: usize, key_len: u32, n_entries: u64) -> Opened<'_> {
    let (values, behind) = bytes.split_at_checked(border).unwrap_or((bytes, &[]));
    // in front of the offsets stands their number
    let words = behind.get(4..).unwrap_or_default().as_chunks::<4>().0;
    let offsets = if words.len() as u64 >= n_entries && n_entries > 0 && !behind.is_empty() {
        Offsets::Stored { words, key_len }
    } else {
        Offsets::None
    };
    Opened { values, offsets }
}

fn check_key(key: &BasketKey, basket: &Basket, stored: &[u8]) -> Result<(), TreeError> {
    let bad =
        |what, expected: String, found: u64| Err(Cursor::new(&[]).corrupt(what, expected, found));
    if key.n_bytes as usize != stored.len() {
        return bad(
            "size of the record",
            stored.len().to_string(),
            key.n_bytes.into(),
        );
    }
    if usize::from(key.key_len) > stored.len() {
        return bad(
            "size of the key",
            format!("at most {}", stored.len()),
            key.key_len.into(),
        );
    }
    if u64::from(key.n_entries) != basket.n_entries {
        return bad(
            "number of entries",
            basket.n_entries.to_string(),
            key.n_entries.into(),
        );
    }
    if key.border().is_none() {
        let within = format!("within {} bytes", key.object_len);
        return bad("end of the values", within, key.last.into());
    }
    Ok(())
}

fn expect(found: usize, expected: Option<usize>) -> Result<(), TreeError> {
    match expected {
        Some(expected) if expected == found => Ok(()),
        expected => {
            let expected = expected.map_or("a size that can be".into(), |n| n.to_string());
            Err(Cursor::new(&[]).corrupt("bytes of the values", expected, found))
        }
    }
}

/// Whether the entries begin where their counter says, where the basket says it, too.
fn check_offsets(
    opened: Opened<'_>,
    n: usize,
    byte: &impl Fn(usize) -> Option<usize>,
) -> Result<(), TreeError> {
    if matches!(opened.offsets, Offsets::None) {
        return Ok(());
    }
    for entry in 0..n {
        let (expected, found) = (byte(entry), opened.offsets.get(entry));
        if found.is_some() && found != expected {
            let expected = format!("byte {}, as its counter says", expected.unwrap_or(0));
            let what = "beginning of an entry";
            return Err(Cursor::new(&[]).corrupt(what, expected, found.unwrap_or(0)));
        }
    }
    Ok(())
}

fn counts(number: Number, values: Option<&[u8]>, out: &mut [u64]) -> Result<(), TreeError> {
    let size = number.size().unwrap_or(4);
    let values = values.unwrap_or_default().chunks_exact(size);
    for (bytes, out) in values.zip(out) {
        let is_signed = matches!(
            number.dtype,
            DType::Int8 | DType::Int16 | DType::Int32 | DType::Int64
        );
        let is_negative = bytes.first().is_some_and(|first| first & 0x80 != 0);
        let value = bytes
            .iter()
            .fold(0u64, |sum, &byte| (sum << 8) | u64::from(byte));
        if is_signed && is_negative {
            // ROOT takes a negative number of items for none
            *out = 0;
        } else {
            *out = value;
        }
    }
    Ok(())
}

/// Decodes all entries of a basket that begin where `offsets` says, or one after another.
pub(crate) fn decode_entries(
    op: &Op,
    sinks: &mut [Sink],
    values: &[u8],
    offsets: Option<&[u32]>,
    n: usize,
) -> Result<(), TreeError> {
    let offsets = offsets.map_or(Offsets::None, Offsets::Known);
    let opened = Opened { values, offsets };
    pieces(op, None, sinks, opened, 0..n, n)
}

/// Decodes entries into sinks.
fn pieces(
    op: &Op,
    fixed: Option<usize>,
    sinks: &mut [Sink],
    opened: Opened<'_>,
    wanted: Range<usize>,
    n: usize,
) -> Result<(), TreeError> {
    let values = opened.values;
    let is_rest = matches!(
        op,
        Op::List {
            wire: ListWire::Rest | ListWire::Marked,
            ..
        } | Op::Record {
            wire: RecordWire::Maybe { .. },
            ..
        }
    );
    let known = !matches!(opened.offsets, Offsets::None);
    let even = match fixed {
        Some(size) => {
            expect(values.len(), n.checked_mul(size))?;
            Some(size)
        }
        None if is_rest && n > 0 && values.len().is_multiple_of(n) => Some(values.len() / n),
        None if is_rest && !known => {
            return Err(Cursor::new(&[]).corrupt("basket", "the offsets of its entries", "none"));
        }
        None => None,
    };
    let mut decoder = Decoder { sinks };
    if !known && even.is_none() {
        // entries follow each other
        let mut cursor = Cursor::new(values);
        for entry in 0..wanted.end {
            if entry == wanted.start {
                decoder.sinks.iter_mut().for_each(|sink| sink.bytes.clear());
            }
            decoder.one(op, &mut cursor)?;
        }
        return match (wanted.end == n, cursor.remaining()) {
            (true, left) if left > 0 => Err(cursor.corrupt(
                "basket",
                "the end of the values",
                format_args!("{left} bytes"),
            )),
            _ => Ok(()),
        };
    }
    for entry in wanted {
        let (start, end) = match (known, even) {
            (true, _) => (
                opened.offsets.get(entry).unwrap_or(usize::MAX),
                if entry + 1 < n {
                    opened.offsets.get(entry + 1).unwrap_or(0)
                } else {
                    values.len()
                },
            ),
            (false, Some(size)) => (entry * size, (entry + 1) * size),
            (false, None) => (0, 0),
        };
        let Some(bytes) = values.get(start..end) else {
            let range = format!("{start}..{end}");
            let within = format!("within {} bytes", values.len());
            return Err(Cursor::new(&[]).corrupt("place of an entry", within, range));
        };
        let mut cursor = Cursor::new(bytes);
        decoder.one(op, &mut cursor)?;
        if cursor.remaining() > 0 {
            let left = format!("{} bytes", cursor.remaining());
            return Err(cursor.corrupt("entry", "its end", left));
        }
    }
    Ok(())
}

fn describe(part: &Part, job: &Job<'_>) -> String {
    let tree = tree_of(part).ok();
    let name = tree.map_or_else(String::new, |tree| tree.model().path(job.branch));
    format!("basket {} of branch {name:?}", job.number)
}

/// What does not fit is damage, but for objects in bytes that came whole out of a decompressor, which has checked them:
/// these are of other classes than the file says.
fn blamed(error: TreeError, job: &Job<'_>, is_compressed: bool) -> TreeError {
    match &job.task {
        Task::Pieces { op, .. } if is_compressed && op.has_records() => match error {
            TreeError::Unsupported(_) => error,
            other => TreeError::Unsupported(format!(
                "objects that are not as the file describes them: {other}"
            )),
        },
        _ => error,
    }
}

/// An error with its place; what is not understood rather than damaged is an error of the field.
fn failed(part: &Part, job: &Job<'_>, source: TreeError) -> RNTupleError {
    if let TreeError::Unsupported(reason) = &source {
        let tree = tree_of(part).ok();
        let data = tree.and_then(|tree| tree.data(job.branch));
        let name = data.map_or("", |data| part.reader.descriptor().field_name(data.field));
        let reason = format!("basket {} has {reason}", job.number);
        return part.reader.unsupported(name, &reason);
    }
    RNTupleError::Object {
        url: part.reader.url().into(),
        ntuple: part.reader.path().into(),
        structure: describe(part, job),
        offset: job.range().start,
        source: Box::new(source),
    }
}
