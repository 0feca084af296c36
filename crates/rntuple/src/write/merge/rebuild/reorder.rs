//! Copies waiting elements in another order to a cluster being filled.

use std::ops::Range;

use super::column::{Below, Job};
use super::ranges::Ranges;
use crate::RNTupleError;
use crate::encoding::Target;
use crate::write::column::ColumnBuffer;
use crate::write::waiting::Blocks;

/// Number of bytes, or of offsets, that are collected before they are added.
const SOME: usize = 16 << 10;

/// Appends the elements of a job's ranges, from another column of the same type.
pub(super) fn reorder(
    job: &Job<'_>,
    target: Target,
    from: &ColumnBuffer,
    (to, blocks): (&mut ColumnBuffer, &Blocks),
) -> Result<Below, RNTupleError> {
    let mut elements = Elements {
        from,
        gathered: Vec::new(),
    };
    match target {
        Target::Leaf(_) => leaves(job, &mut elements, to, blocks),
        Target::Index => lists(job, &mut elements, to, blocks),
        Target::Switch => variants(job, &mut elements, to, blocks),
    }
}

/// The waiting elements.
struct Elements<'f> {
    from: &'f ColumnBuffer,
    gathered: Vec<u8>,
}

impl Elements<'_> {
    /// The elements of a range.
    fn of(&mut self, range: &Range<u64>) -> Result<&[u8], RNTupleError> {
        if range.end > self.from.n_elements {
            return Err(RNTupleError::internal("an element that does not wait"));
        }
        let place = |element: u64| usize::try_from(element).unwrap_or(usize::MAX);
        let range = place(range.start)..place(range.end);
        Ok(self.from.elements(&range, &mut self.gathered))
    }

    /// The end of the lists before a position.
    fn end_before(&mut self, place: u64) -> Result<u64, RNTupleError> {
        match place.checked_sub(1) {
            None => Ok(0),
            Some(last) => Ok(word(self.of(&(last..place))?)),
        }
    }
}

fn leaves(
    job: &Job<'_>,
    elements: &mut Elements<'_>,
    to: &mut ColumnBuffer,
    blocks: &Blocks,
) -> Result<Below, RNTupleError> {
    let mut some: Vec<u8> = Vec::new();
    for range in job.ranges.iter() {
        some.extend_from_slice(elements.of(range)?);
        if some.len() >= SOME {
            to.append(blocks, &some)?;
            some.clear();
        }
    }
    to.append(blocks, &some)?;
    Ok(Below::default())
}

fn lists(
    job: &Job<'_>,
    elements: &mut Elements<'_>,
    to: &mut ColumnBuffer,
    blocks: &Blocks,
) -> Result<Below, RNTupleError> {
    let mut items = Ranges::default();
    // the ends of some lists, after the start of the first
    let mut ends = vec![0];
    let mut end = 0;
    for range in job.ranges.iter() {
        let first = elements.end_before(range.start)?;
        let mut last = first;
        for next in elements.of(range)?.as_chunks::<8>().0 {
            let next = u64::from_le_bytes(*next);
            end += next.wrapping_sub(last).cast_signed();
            last = next;
            ends.push(end);
        }
        items.push(first..last);
        if ends.len() >= SOME {
            to.append_ends(blocks, ends.drain(..))?;
            ends.push(end);
        }
    }
    to.append_ends(blocks, ends.into_iter())?;
    Ok(Below {
        ranges: vec![items],
        total: None,
    })
}

fn variants(
    job: &Job<'_>,
    elements: &mut Elements<'_>,
    to: &mut ColumnBuffer,
    blocks: &Blocks,
) -> Result<Below, RNTupleError> {
    let mut values = vec![Ranges::default(); job.n_alternatives];
    let mut tags = Vec::new();
    for range in job.ranges.iter() {
        for element in elements.of(range)?.as_chunks::<12>().0 {
            let (index, tag) = (word(element), element.get(8).copied().unwrap_or(0));
            let alternative = usize::from(tag).checked_sub(1);
            if let Some(values) = alternative.and_then(|at| values.get_mut(at)) {
                values.push(index..index + 1);
            }
            tags.push(tag);
        }
        if tags.len() >= SOME {
            to.append_tags(blocks, &tags)?;
            tags.clear();
        }
    }
    to.append_tags(blocks, &tags)?;
    Ok(Below {
        ranges: values,
        total: None,
    })
}

fn word(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |b| u64::from_le_bytes(*b))
}
