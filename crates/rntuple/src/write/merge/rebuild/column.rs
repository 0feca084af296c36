//! Copies elements of an input's column to a cluster being filled.

use std::collections::HashMap;
use std::ops::Range;

use bytes::Bytes;

use super::ranges::Ranges;
use super::reorder::reorder;
use crate::RNTupleError;
use crate::encoding::{PageDecoder, Scratch, Target};
use crate::read::{Reader, check_page, page_error, soundly};
use crate::spec::{ColumnRecord, Page};
use crate::write::column::ColumnBuffer;
use crate::write::merge::pages::{Encoding, element_target, in_place};
use crate::write::model::Limits;
use crate::write::numbers::check_limits;
use crate::write::waiting::Blocks;

/// A column of a cluster of an input.
#[derive(Debug)]
pub(super) struct Given<'a> {
    pub reader: &'a Reader,
    pub column: u32,
    pub record: &'a ColumnRecord,
    pub cluster: u64,
    pub pages: &'a [Page],
    /// Number of zeros that are not stored, before the first page.
    pub n_zeros: u64,
    /// The index of the first element of each page.
    pub starts: Vec<u64>,
    pub settings: u32,
    /// Whether its field has type `double`.
    pub of_double: bool,
}

/// The source of elements.
#[derive(Debug)]
pub(super) enum Source<'a> {
    /// The input does not have them: all are zero.
    Zeros,
    Pages(Given<'a>),
    /// They were copied before, and wait in another order.
    Waiting(&'a ColumnBuffer),
}

impl Source<'_> {
    /// The settings of its pages.
    pub fn settings(&self) -> Option<u32> {
        match self {
            Self::Zeros => None,
            Self::Pages(given) => Some(given.settings),
            Self::Waiting(column) => Some(column.settings),
        }
    }
}

/// The selected elements of a column.
#[derive(Debug)]
pub(super) struct Job<'a> {
    /// The column of the output, and whether it is the first one of its field.
    pub output: u32,
    pub field: u32,
    pub position: usize,
    pub source: Source<'a>,
    pub ranges: Ranges,
    /// Whether the total number of items is needed.
    pub wants_total: bool,
    /// Number of alternatives of a variant.
    pub n_alternatives: usize,
}

/// The elements that belong to the selected ones.
#[derive(Debug, Default)]
pub(super) struct Below {
    /// Items, or values for each alternative of a variant.
    pub ranges: Vec<Ranges>,
    /// Total number of items in the cluster, if requested.
    pub total: Option<u64>,
}

/// Decodes and copies elements. It has the contexts and the memory of one thread.
#[derive(Debug, Default)]
pub(super) struct Worker {
    decoder: PageDecoder,
    scratch: Scratch,
}

impl Given<'_> {
    /// The end of the elements.
    fn end(&self) -> u64 {
        let last = self.starts.last().zip(self.pages.last());
        last.map_or(self.n_zeros, |(start, page)| {
            start + u64::from(page.n_elements)
        })
    }

    fn page_of(&self, element: u64) -> Option<usize> {
        let behind = self.starts.partition_point(|&start| start <= element);
        behind.checked_sub(1)
    }
}

impl<'a> Job<'a> {
    /// The column of the input.
    pub fn given(&self) -> Option<&Given<'a>> {
        match &self.source {
            Source::Pages(given) => Some(given),
            Source::Zeros | Source::Waiting(_) => None,
        }
    }

    /// Size of elements that wait in another order.
    pub fn n_waiting(&self) -> u64 {
        match &self.source {
            Source::Waiting(column) => column.n_waiting() as u64,
            Source::Zeros | Source::Pages(_) => 0,
        }
    }

    /// Indices of the pages needed, sorted and without duplicates.
    pub fn needed(&self) -> Vec<usize> {
        let Some(given) = self.given() else {
            return Vec::new();
        };
        let is_index = given.record.column_type.is_index();
        let mut needed = Vec::new();
        for range in self.ranges.iter() {
            // a list begins at the end of the preceding one
            let start = range.start.saturating_sub(u64::from(is_index));
            if let Some(last) = given.page_of(range.end - 1) {
                needed.extend(given.page_of(start).unwrap_or(0)..=last);
            }
        }
        if self.wants_total && is_index {
            needed.extend(given.pages.len().checked_sub(1));
        }
        needed.sort_unstable();
        needed.dedup();
        needed
    }
}

/// Stored bytes of the pages of a job, by index.
pub(super) type Stored = HashMap<usize, Bytes>;

/// The pages of a job, decoded when they are needed.
struct Pages<'j> {
    given: &'j Given<'j>,
    stored: &'j Stored,
    /// Those that were damaged, as other copies have them.
    again: Stored,
    target: Target,
    worker: &'j mut Worker,
    /// The page decoded last.
    current: Option<usize>,
    /// All decoded pages, if they are needed in any order.
    kept: Option<HashMap<usize, Vec<u8>>>,
}

impl Pages<'_> {
    /// The elements of a page.
    fn elements(&mut self, number: usize) -> Result<&[u8], RNTupleError> {
        let missing = || RNTupleError::internal("a page that was not read");
        let page = self.given.pages.get(number).ok_or_else(missing)?;
        let n = page.n_elements as usize;
        let n_bytes = n.saturating_mul(self.target.size());
        if self
            .kept
            .as_ref()
            .is_some_and(|kept| kept.contains_key(&number))
        {
            let kept = self.kept.as_ref().and_then(|kept| kept.get(&number));
            return kept.map(Vec::as_slice).ok_or_else(missing);
        }
        let failed = |error| {
            let given = self.given;
            let at = page.body.address;
            page_error(given.reader, given.record, given.cluster, at, error)
        };
        let out = self.worker.scratch.bytes(n_bytes).map_err(failed)?;
        if self.current != Some(number) {
            let (given, target) = (self.given, self.target);
            let stored = self.again.get(&number).or(self.stored.get(&number));
            let stored = stored.ok_or_else(missing)?;
            let (place, own) = ((given.column, given.cluster), &page.stored());
            self.worker.decoder.of_double = given.of_double;
            let decoder = &mut self.worker.decoder;
            let decode = |stored: &[u8]| {
                let body = check_page(given.reader, given.record, place, page, stored)?;
                let decoded = decoder.decode(given.record, n, body, target, out);
                decoded.map_err(failed)
            };
            let (decoded, again) = soundly(given.reader.store(), (own, own), stored, decode)?;
            decoded?;
            self.again.extend(again.map(|bytes| (number, bytes)));
            self.current = Some(number);
            if let Some(kept) = &mut self.kept {
                kept.insert(number, out.to_vec());
            }
        }
        Ok(out)
    }

    /// Calls `take` with the elements of a range, piece by piece.
    fn each(
        &mut self,
        range: &Range<u64>,
        take: &mut dyn FnMut(&[u8]) -> Result<(), RNTupleError>,
    ) -> Result<(), RNTupleError> {
        let size = self.target.size();
        let mut at = range.start;
        let zeros = self.given.n_zeros.min(range.end).saturating_sub(at);
        append_zeros(zeros, size, take)?;
        at += zeros;
        while at < range.end {
            let number = self.given.page_of(at);
            let start = number.and_then(|number| self.given.starts.get(number));
            let (Some(number), Some(&start)) = (number, start) else {
                return Err(RNTupleError::internal("an element of no page"));
            };
            let elements = self.elements(number)?;
            let own = start + (elements.len() / size) as u64;
            let end = range.end.min(own);
            let place = |element: u64| usize::try_from(element - start).unwrap_or(usize::MAX);
            let bytes = place(at).saturating_mul(size)..place(end).saturating_mul(size);
            match elements.get(bytes) {
                Some(bytes) if end > at => take(bytes)?,
                _ => return Err(RNTupleError::internal("an element of no page")),
            }
            at = end;
        }
        Ok(())
    }

    /// The end of the lists before a position.
    fn end_before(&mut self, place: u64) -> Result<u64, RNTupleError> {
        let mut end = 0;
        if place > 0 {
            self.each(&(place - 1..place), &mut |bytes| {
                end = word(bytes);
                Ok(())
            })?;
        }
        Ok(end)
    }
}

impl Worker {
    /// Appends the selected elements to a column of the output, whose leaves wait as values of `dtype`.
    pub fn run(
        &mut self,
        job: &Job<'_>,
        stored: &Stored,
        (buffer, Encoding { dtype, limits }): (&mut ColumnBuffer, Encoding),
        blocks: &Blocks,
    ) -> Result<Below, RNTupleError> {
        let target = element_target(&buffer.record, dtype);
        let given = match &job.source {
            Source::Zeros => return zeros(job, target, buffer, blocks),
            Source::Waiting(from) => return reorder(job, target, from, (buffer, blocks)),
            Source::Pages(given) => given,
        };
        if job.ranges.end() > given.end() {
            return Err(given.reader.inconsistent(
                &format!("elements of {:?} in a cluster", label(given)),
                format!("at least {}", job.ranges.end()),
                given.end(),
            ));
        }
        self.decoder.decompress_ns = 0;
        let mut pages = Pages {
            given,
            stored,
            again: Stored::new(),
            target,
            worker: self,
            current: None,
            kept: (!job.ranges.are_sorted()).then(HashMap::new),
        };
        match target {
            Target::Index => lists(job, &mut pages, buffer, blocks),
            Target::Switch => variants(job, &mut pages, buffer, blocks),
            Target::Leaf(_) => {
                for range in job.ranges.iter() {
                    pages.each(range, &mut |bytes| {
                        if limits != Limits::None {
                            check_limits(dtype, limits, bytes, &label(given))
                                .map_err(|error| in_place(error, given.reader, given.cluster))?;
                        }
                        buffer.append(blocks, bytes)
                    })?;
                }
                Ok(Below::default())
            }
        }
    }
}

/// Appends lists, which begin after the existing ones.
fn lists(
    job: &Job<'_>,
    pages: &mut Pages<'_>,
    buffer: &mut ColumnBuffer,
    blocks: &Blocks,
) -> Result<Below, RNTupleError> {
    let mut items = Ranges::default();
    for range in job.ranges.iter() {
        let first = pages.end_before(range.start)?;
        let mut last = first;
        let given = pages.given;
        pages.each(range, &mut |bytes| {
            let before = last;
            let mut falls = false;
            let ends = bytes.as_chunks::<8>().0.iter().map(|word| {
                let end = u64::from_le_bytes(*word);
                falls |= end < last;
                last = end;
                end.cast_signed()
            });
            let all = std::iter::once(before.cast_signed()).chain(ends);
            buffer.append_ends(blocks, all)?;
            if falls {
                let what = format!("ends of the lists of {:?}", label(given));
                return Err(given
                    .reader
                    .inconsistent(&what, "no less than before", "less"));
            }
            Ok(())
        })?;
        items.push(first..last);
    }
    let total = match job.wants_total {
        true => Some(pages.end_before(pages.given.end())?),
        false => None,
    };
    Ok(Below {
        ranges: vec![items],
        total,
    })
}

/// Appends values of a variant.
fn variants(
    job: &Job<'_>,
    pages: &mut Pages<'_>,
    buffer: &mut ColumnBuffer,
    blocks: &Blocks,
) -> Result<Below, RNTupleError> {
    let mut values = vec![Ranges::default(); job.n_alternatives];
    let mut tags = Vec::new();
    let given = pages.given;
    for range in job.ranges.iter() {
        pages.each(range, &mut |bytes| {
            tags.clear();
            for element in bytes.as_chunks::<12>().0 {
                let index = word(element);
                let tag = element
                    .last_chunk::<4>()
                    .map_or(0, |b| u32::from_le_bytes(*b));
                let known = u8::try_from(tag).ok();
                let known = known.filter(|&tag| usize::from(tag) <= job.n_alternatives);
                let Some(known) = known else {
                    let what = format!("alternative of {:?}", label(given));
                    let expected = format!("at most {}", job.n_alternatives);
                    return Err(given.reader.inconsistent(&what, expected, tag));
                };
                tags.push(known);
                let alternative = usize::from(known).checked_sub(1);
                if let Some(values) = alternative.and_then(|at| values.get_mut(at)) {
                    values.push(index..index.saturating_add(1));
                }
            }
            buffer.append_tags(blocks, &tags)
        })?;
    }
    Ok(Below {
        ranges: values,
        total: None,
    })
}

/// Appends zeros for a column that an input does not have.
fn zeros(
    job: &Job<'_>,
    target: Target,
    buffer: &mut ColumnBuffer,
    blocks: &Blocks,
) -> Result<Below, RNTupleError> {
    let n = job.ranges.n_elements();
    match target {
        Target::Index => {
            let n = usize::try_from(n).unwrap_or(usize::MAX);
            buffer.append_ends(blocks, std::iter::repeat_n(0, n.saturating_add(1)))?;
        }
        Target::Switch => {
            append_zeros(n, 1, &mut |tags| buffer.append_tags(blocks, tags))?;
        }
        Target::Leaf(dtype) => {
            let range = buffer.record.range;
            if let Some((min, max)) = range.filter(|(min, max)| n > 0 && (*min > 0.0 || *max < 0.0))
            {
                let reason = format!(
                    "an input does not have it, and its storage range {min} to {max} does not contain zero: leave it out by naming the other fields"
                );
                return Err(crate::write::model::unwritable(
                    &format!("column {}", job.output),
                    reason,
                ));
            }
            append_zeros(n, dtype.size(), &mut |bytes| buffer.append(blocks, bytes))?;
            return Ok(Below::default());
        }
    }
    Ok(Below {
        ranges: vec![Ranges::default(); job.n_alternatives.max(1)],
        total: job.wants_total.then_some(0),
    })
}

fn append_zeros(
    n: u64,
    size: usize,
    take: &mut dyn FnMut(&[u8]) -> Result<(), RNTupleError>,
) -> Result<(), RNTupleError> {
    const SOME: [u8; 12 << 10] = [0; 12 << 10];
    let at_once = (SOME.len() / size) as u64;
    let mut left = n;
    while left > 0 {
        let some = left.min(at_once);
        let n_bytes = usize::try_from(some).unwrap_or(0) * size;
        take(SOME.get(..n_bytes).unwrap_or_default())?;
        left -= some;
    }
    Ok(())
}

fn word(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |b| u64::from_le_bytes(*b))
}

fn label(given: &Given<'_>) -> String {
    given.reader.label(given.record.field_id)
}
