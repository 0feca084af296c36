//! Decodes baskets on one thread.

use std::borrow::Cow;
use std::time::Instant;

use femtobarn_codec::{Algorithm, Decompressor, RecordHeader};
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::encoding::{LARGEST_RATIO, Scratch, promote};
use femtobarn_rntuple::read::storage::{Decode, Fetched, Stats, add, elapsed};
use femtobarn_rntuple::read::{PageCache, PageKey, Part};
use femtobarn_rntuple::schema::DType;

use super::basket::{BasketKey, check_key, with_offsets};
use super::entries::{check_offsets, counts, expect, lengths, pieces};
use super::job::{Job, Offsets, Opened, Task, split};
use super::numbers::numbers;
use super::tree::tree_of;
use crate::TreeError;
use crate::cursor::Cursor;
use crate::interp::Number;
use crate::model::Place;

/// Decodes baskets on one thread.
pub(crate) struct Worker<'a> {
    parts: &'a [Part],
    cache: Option<&'a PageCache>,
    decompressor: Decompressor,
    scratch: Scratch,
    /// The basket whose decompressed bytes are in `scratch`.
    held: Option<PageKey>,
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
            held: None,
            narrow: Vec::new(),
            stats: Stats::default(),
        }
    }

    /// Decodes a basket that is within the tree's own object or in the cache; returns whether it is.
    pub fn decode_held(&mut self, job: &mut Job<'_>) -> Result<bool, RNTupleError> {
        let Some(part) = self.parts.get(job.part) else {
            return Ok(false);
        };
        if let Place::Tree { data, offsets } = &mut job.basket.place {
            let tree = tree_of(part)?;
            let (data, offsets) = (data.clone(), offsets.take());
            let values = tree.object().get(data).unwrap_or_default();
            let offsets = match &offsets {
                Some(offsets) => Offsets::Known(offsets),
                None => Offsets::None,
            };
            let opened = Opened { values, offsets };
            self.task(job, opened)
                .map_err(|error| failed(part, job, blamed(error, job, false)))?;
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
        let is_checked = word(tail, 4) != 0;
        self.task(job, opened)
            .map_err(|error| failed(part, job, blamed(error, job, is_checked)))?;
        Ok(true)
    }

    fn basket(&mut self, job: &mut Job<'_>, stored: &[u8]) -> Result<(), RNTupleError> {
        let Some(part) = self.parts.get(job.part) else {
            return Err(RNTupleError::internal("the plan names what is not there"));
        };
        let key = BasketKey::parse(&mut Cursor::new(stored));
        let key = key.and_then(|key| check_key(&key, &job.basket, stored).map(|()| key));
        let key = key.map_err(|error| failed(part, job, error))?;
        let payload = stored.get(usize::from(key.key_len)..).unwrap_or_default();
        let length = key.object_len as usize;
        let mut scratch = std::mem::take(&mut self.scratch);
        let result = self.open(part, job, payload, length, &mut scratch);
        let result = result.and_then(|bytes| {
            let border = key.border().unwrap_or(0);
            let bytes = match key.has_sizes {
                true => Cow::Owned(with_offsets(bytes, border, key.key_len)),
                false => Cow::Borrowed(bytes),
            };
            let is_checked = length > payload.len() && has_checksums(payload);
            let n_entries = job.basket.n_entries;
            if let Some(cache) = self.cache.filter(|_| (job.high as u64) < n_entries) {
                let mut kept = bytes.to_vec();
                kept.extend_from_slice(&u32::try_from(border).unwrap_or(0).to_ne_bytes());
                kept.extend_from_slice(&u32::from(is_checked).to_ne_bytes());
                kept.extend_from_slice(&u32::from(key.key_len).to_ne_bytes());
                cache.insert(job.key(part), &kept);
            }
            let opened = split(&bytes, border, u32::from(key.key_len), n_entries);
            self.task(job, opened)
                .map_err(|error| failed(part, job, blamed(error, job, is_checked)))
        });
        self.scratch = scratch;
        if result.is_err() {
            // another copy may be undamaged
            self.held = None;
        }
        result
    }

    /// The bytes of the basket, decompressed if necessary.
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
        let most = (payload.len() as u64).saturating_mul(LARGEST_RATIO);
        if length as u64 > most {
            let most = format!("at most {most} bytes");
            let error = Cursor::new(&[]).corrupt("decompressed size", most, length);
            return Err(failed(part, job, error));
        }
        let start = Instant::now();
        let bytes = scratch.bytes(length).map_err(|_| RNTupleError::Memory {
            bytes: length as u64,
            reason: format!("a basket of {}", part.reader.url()),
        })?;
        let wanted = job.key(part);
        if self.held.take() == Some(wanted) {
            self.held = Some(wanted);
            return Ok(bytes);
        }
        let result = self.decompressor.decompress(payload, bytes);
        add(&self.stats.decompress_ns, elapsed(start));
        add(&self.stats.bytes_decompressed, length as u64);
        match result {
            Ok(()) => {
                self.held = Some(wanted);
                Ok(bytes)
            }
            Err(source) => Err(RNTupleError::Codec {
                url: part.reader.url().into(),
                ntuple: part.reader.path().into(),
                structure: describe(part, job),
                at: job.stored().address,
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
            Task::Lengths { size, counts } => lengths(opened, *size, low..high, n, counts),
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
            Task::Pieces {
                op,
                fixed,
                lengths,
                sinks,
            } => {
                let first = job.basket.first_entry;
                let lengths = |entry: usize| lengths.of(first.saturating_add(entry as u64));
                pieces(op, *fixed, &lengths, sinks, opened, low..high, n)
                    .map_err(|error| error.counted_from(first))
            }
        }
    }

    /// Writes numbers to their final position.
    fn write(&mut self, number: Number, dtype: DType, values: &[u8], out: &mut [u8]) {
        add(&self.stats.bytes_decoded, out.len() as u64);
        if dtype == number.dtype {
            return numbers(number, values, out);
        }
        let n = values.len() / number.size().unwrap_or(4).max(1);
        self.narrow.resize(n.saturating_mul(number.dtype.size()), 0);
        numbers(number, values, &mut self.narrow);
        promote(&self.narrow, number.dtype, dtype, out);
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

fn describe(part: &Part, job: &Job<'_>) -> String {
    let tree = tree_of(part).ok();
    let name = tree.map_or_else(String::new, |tree| tree.model().path(job.branch));
    format!("basket {} of branch {name:?}", job.number)
}

/// Whether all records of a basket have checksums, which the decompressor has verified. (ROOT's zstd records have none,
/// nor have records from before version 5.18.)
fn has_checksums(payload: &[u8]) -> bool {
    let mut rest = payload;
    while !rest.is_empty() {
        let Ok(header) = RecordHeader::parse(rest) else {
            return false;
        };
        if !matches!(
            header.algorithm,
            Algorithm::Zlib | Algorithm::Lz4 | Algorithm::Lzma
        ) {
            return false;
        }
        rest = rest
            .get(RecordHeader::SIZE.saturating_add(header.compressed)..)
            .unwrap_or_default();
    }
    true
}

/// Decides whether values that do not match their description are damaged. They are not in two cases: if the bytes were
/// verified, they were written like that; and in the first basket of a branch with objects or containers, the types
/// differ from the description. If the bytes are not verified and the first basket matched the description, a later one
/// that does not is damaged.
fn blamed(error: TreeError, job: &Job<'_>, is_checked: bool) -> TreeError {
    let is_foreign = is_checked || (matches!(job.task, Task::Pieces { .. }) && job.number == 0);
    match error {
        TreeError::Unsupported(_) => error,
        TreeError::Undescribed(reason) if is_foreign => TreeError::Unsupported(reason),
        other if is_foreign => TreeError::Unsupported(format!(
            "values that do not match the file's description: {other}"
        )),
        other => other,
    }
}

/// Adds the position to an error. An unsupported structure, unlike damage, is an error of the field.
fn failed(part: &Part, job: &Job<'_>, source: TreeError) -> RNTupleError {
    if let TreeError::Unsupported(reason) = &source {
        let tree = tree_of(part).ok();
        let reason = format!("basket {} has {reason}", job.number);
        let descriptor = part.reader.descriptor();
        // the unreadable field is then the one whose items are counted, whether the counter is a field and wanted or not
        if let (Task::Counts { .. }, Some(tree)) = (&job.task, tree)
            && let Some(field) = tree.counted_in(&part.binding, job.branch)
        {
            let counter = tree.model().path(job.branch);
            let reason =
                format!("the number of its items is in branch {counter:?}, whose {reason}");
            return part
                .reader
                .unsupported(descriptor.field_name(field), &reason);
        }
        let data = tree.and_then(|tree| tree.data(job.branch));
        let name = data.map_or("", |data| descriptor.field_name(data.field));
        return part.reader.unsupported(name, &reason);
    }
    RNTupleError::Object {
        url: part.reader.url().into(),
        ntuple: part.reader.path().into(),
        structure: describe(part, job),
        at: job.stored().address,
        source: Box::new(source),
    }
}
