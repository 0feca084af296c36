//! Some entries of a read, and several reads as one.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::{SlotData, values};
use crate::RNTupleError;
use crate::read::storage::Slabs;
use crate::schema::{SlotParent, Slots};

/// Ranges of elements, in order.
type Runs = Arc<Vec<Range<usize>>>;

/// The elements of the slots below a slot.
#[derive(Default)]
enum Below {
    #[default]
    Nothing,
    Items(Runs),
    /// By alternative.
    Values(Vec<Runs>),
}

/// The chosen entries of slots, given as ranges in order. Slots without data, and all slots below them, get none.
///
/// # Errors
/// If the ranges are not within the data, or the memory does not suffice.
pub fn choose(
    slots: &Slots,
    data: &[Option<SlotData>],
    chosen: &[Range<u64>],
) -> Result<Vec<Option<SlotData>>, RNTupleError> {
    let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
    let entries = chosen
        .iter()
        .map(|range| place(range.start)..place(range.end));
    let entries: Runs = Arc::new(entries.collect());
    let mut below: Vec<Below> = Vec::with_capacity(slots.len());
    let mut plans: Vec<Option<(Runs, &SlotData)>> = Vec::with_capacity(slots.len());
    let mut sizes = Vec::new();
    for (slot, data) in slots.as_slice().iter().zip(data) {
        let runs = match slot.parent {
            SlotParent::Entries => Some(&entries),
            SlotParent::Index(parent) => match below.get(parent) {
                Some(Below::Items(runs)) => Some(runs),
                _ => None,
            },
            SlotParent::Switch(parent, alternative) => match below.get(parent) {
                Some(Below::Values(all)) => all.get(alternative),
                _ => None,
            },
        };
        let (Some(runs), Some(data)) = (runs, data) else {
            below.push(Below::Nothing);
            plans.push(None);
            continue;
        };
        let runs = scaled(runs, slot.multiplicity);
        let n: usize = runs.iter().map(ExactSizeIterator::len).sum();
        below.push(match data {
            SlotData::Leaf { dtype, .. } => {
                sizes.push(n.saturating_mul(dtype.size()));
                Below::Nothing
            }
            SlotData::Index { offsets } => {
                sizes.push(n.saturating_add(1).saturating_mul(8));
                Below::Items(Arc::new(items(values(Some(offsets)), &runs)?))
            }
            SlotData::Switch {
                tags,
                positions,
                lengths,
            } => {
                sizes.extend([n, n.saturating_mul(8)]);
                let all = alternatives((tags, positions), &runs, lengths.len())?;
                Below::Values(all)
            }
        });
        plans.push(Some((runs, data)));
    }
    let mut slabs = Slabs::allocate(&sizes)?;
    let mut buffers = slabs.buffers().into_iter();
    for (runs, data) in plans.iter().flatten() {
        let out = buffers.next().unwrap_or_default();
        match data {
            SlotData::Leaf { dtype, values } => copy(values, dtype.size(), runs, out)?,
            SlotData::Index { offsets } => rebase(values(Some(offsets)), runs, out)?,
            SlotData::Switch { tags, lengths, .. } => {
                copy(tags, 1, runs, out)?;
                let positions = buffers.next().unwrap_or_default();
                number(out, lengths.len(), positions);
            }
        }
    }
    drop(buffers);
    let mut frozen = slabs.freeze().into_iter();
    let mut next = || frozen.next().unwrap_or_default();
    let found = plans.into_iter().zip(&below).map(|(plan, below)| {
        let (_, data) = plan?;
        Some(made_as(data, &mut next, || match below {
            Below::Values(all) => all.iter().map(|runs| length(runs)).collect(),
            _ => Vec::new(),
        }))
    });
    Ok(found.collect())
}

fn length(runs: &[Range<usize>]) -> u64 {
    runs.iter().map(|run| run.len() as u64).sum()
}

fn scaled(runs: &Runs, by: u64) -> Runs {
    if by == 1 {
        return runs.clone();
    }
    let by = usize::try_from(by).unwrap_or(usize::MAX);
    let runs = runs.iter();
    let runs = runs.map(|run| run.start.saturating_mul(by)..run.end.saturating_mul(by));
    Arc::new(runs.collect())
}

fn outside() -> RNTupleError {
    RNTupleError::internal("chosen entries are not within what was read")
}

/// The items of runs of lists.
fn items(offsets: &[i64], runs: &[Range<usize>]) -> Result<Vec<Range<usize>>, RNTupleError> {
    let mut out: Vec<Range<usize>> = Vec::with_capacity(runs.len());
    for run in runs {
        let (Some(&start), Some(&end)) = (offsets.get(run.start), offsets.get(run.end)) else {
            return Err(outside());
        };
        let place = |at: i64| usize::try_from(at).map_err(|_| outside());
        push(&mut out, place(start)?..place(end)?);
    }
    Ok(out)
}

/// Adds a run, to the last one if it follows that.
fn push(runs: &mut Vec<Range<usize>>, run: Range<usize>) {
    match runs.last_mut() {
        _ if run.is_empty() => {}
        Some(last) if last.end == run.start => last.end = run.end,
        _ => runs.push(run),
    }
}

/// The values of each alternative in runs of variants.
fn alternatives(
    (tags, positions): (&Bytes, &Bytes),
    runs: &[Range<usize>],
    n: usize,
) -> Result<Vec<Runs>, RNTupleError> {
    let positions = values(Some(positions));
    let mut out: Vec<Vec<Range<usize>>> = vec![Vec::new(); n];
    for run in runs {
        let own = (tags.get(run.clone()), positions.get(run.clone()));
        let (Some(tags), Some(positions)) = own else {
            return Err(outside());
        };
        for (&tag, &position) in tags.iter().zip(positions) {
            let alternative = usize::from(tag).checked_sub(1);
            if let Some(runs) = alternative.and_then(|alternative| out.get_mut(alternative)) {
                let at = usize::try_from(position).map_err(|_| outside())?;
                push(runs, at..at.saturating_add(1));
            }
        }
    }
    Ok(out.into_iter().map(Arc::new).collect())
}

/// Copies runs of elements.
fn copy(
    from: &[u8],
    size: usize,
    runs: &[Range<usize>],
    mut out: &mut [u8],
) -> Result<(), RNTupleError> {
    for run in runs {
        let bytes = run.start.saturating_mul(size)..run.end.saturating_mul(size);
        let bytes = from.get(bytes).ok_or_else(outside)?;
        let taken = std::mem::take(&mut out).split_at_mut_checked(bytes.len());
        let (to, rest) = taken.ok_or_else(outside)?;
        to.copy_from_slice(bytes);
        out = rest;
    }
    Ok(())
}

/// Writes the offsets of runs of lists, beginning with 0.
fn rebase(offsets: &[i64], runs: &[Range<usize>], out: &mut [u8]) -> Result<(), RNTupleError> {
    // buffers of slabs are aligned
    let out: &mut [i64] = bytemuck::try_cast_slice_mut(out).unwrap_or_default();
    let (first, mut rest) = out.split_first_mut().ok_or_else(outside)?;
    *first = 0;
    let mut n_items = 0i64;
    for run in runs {
        let own = offsets.get(run.start..run.end.saturating_add(1));
        let (start, ends) = own.and_then(<[i64]>::split_first).ok_or_else(outside)?;
        let taken = std::mem::take(&mut rest).split_at_mut_checked(ends.len());
        let (to, left) = taken.ok_or_else(outside)?;
        let shift = n_items - start;
        to.iter_mut()
            .zip(ends)
            .for_each(|(to, end)| *to = end + shift);
        n_items = to.last().copied().unwrap_or(n_items);
        rest = left;
    }
    Ok(())
}

/// Writes the positions of values, which are numbered within each alternative.
fn number(tags: &[u8], n_alternatives: usize, positions: &mut [u8]) {
    let positions: &mut [i64] = bytemuck::try_cast_slice_mut(positions).unwrap_or_default();
    let mut counts = vec![0i64; n_alternatives];
    for (tag, position) in tags.iter().zip(positions) {
        let alternative = usize::from(*tag).checked_sub(1);
        *position = match alternative.and_then(|alternative| counts.get_mut(alternative)) {
            Some(count) => {
                *count += 1;
                *count - 1
            }
            None => 0,
        };
    }
}

/// The data of reads of the same slots, one after another. Slots that the first read does not have are left out.
///
/// # Errors
/// If the memory does not suffice.
pub fn joined(
    n_slots: usize,
    mut reads: Vec<Vec<Option<SlotData>>>,
) -> Result<Vec<Option<SlotData>>, RNTupleError> {
    if reads.len() < 2 {
        return Ok(reads.pop().unwrap_or_else(|| vec![None; n_slots]));
    }
    (0..n_slots)
        .map(|slot| {
            // memory of a slot is free when it is copied
            let own = reads.iter_mut().map(|read| read.get_mut(slot)?.take());
            match own.collect::<Option<Vec<SlotData>>>() {
                Some(own) => join(&own).map(Some),
                None => Ok(None),
            }
        })
        .collect()
}

/// The data of one slot, one after another.
fn join(reads: &[SlotData]) -> Result<SlotData, RNTupleError> {
    let mixed = || RNTupleError::internal("reads of one slot differ in kind");
    let mut sizes = [0usize; 2];
    for read in reads {
        let [first, second] = match read {
            SlotData::Leaf { values, .. } => [values.len(), 0],
            SlotData::Index { offsets } => [offsets.len().saturating_sub(8), 0],
            SlotData::Switch {
                tags, positions, ..
            } => [tags.len(), positions.len()],
        };
        sizes = [
            sizes[0].saturating_add(first),
            sizes[1].saturating_add(second),
        ];
    }
    let is_index = matches!(reads.first(), Some(SlotData::Index { .. }));
    sizes[0] = sizes[0].saturating_add(if is_index { 8 } else { 0 });
    let mut slabs = Slabs::allocate(&sizes)?;
    let mut buffers = slabs.buffers().into_iter();
    let (first, second) = (buffers.next(), buffers.next());
    let (mut first, second) = (first.unwrap_or_default(), second.unwrap_or_default());
    let mut positions: &mut [i64] = bytemuck::try_cast_slice_mut(second).unwrap_or_default();
    let mut n_items = 0i64;
    let mut lengths: Vec<u64> = Vec::new();
    if is_index {
        let (zero, rest) = first.split_at_mut_checked(8).ok_or_else(mixed)?;
        zero.fill(0);
        first = rest;
    }
    for read in reads {
        match read {
            SlotData::Leaf { values, .. } => first = put(first, values).ok_or_else(mixed)?,
            SlotData::Index { offsets } => {
                let ends = values(Some(offsets)).get(1..).unwrap_or_default();
                let taken = first.split_at_mut_checked(ends.len() * 8);
                let (to, rest) = taken.ok_or_else(mixed)?;
                let to: &mut [i64] = bytemuck::try_cast_slice_mut(to).unwrap_or_default();
                to.iter_mut()
                    .zip(ends)
                    .for_each(|(to, end)| *to = end + n_items);
                n_items = to.last().copied().unwrap_or(n_items);
                first = rest;
            }
            SlotData::Switch {
                tags,
                positions: own,
                lengths: more,
            } => {
                lengths.resize(more.len().max(lengths.len()), 0);
                let own = values(Some(own));
                let taken = positions.split_at_mut_checked(own.len());
                let (to, rest) = taken.ok_or_else(mixed)?;
                for ((to, &position), &tag) in to.iter_mut().zip(own).zip(tags.iter()) {
                    let before = usize::from(tag)
                        .checked_sub(1)
                        .and_then(|at| lengths.get(at));
                    *to = position + before.map_or(0, |&n| i64::try_from(n).unwrap_or(i64::MAX));
                }
                lengths.iter_mut().zip(more).for_each(|(sum, n)| *sum += n);
                positions = rest;
                first = put(first, tags).ok_or_else(mixed)?;
            }
        }
    }
    let kind = reads.first().ok_or_else(mixed)?;
    let mut frozen = slabs.freeze().into_iter();
    let mut next = || frozen.next().unwrap_or_default();
    Ok(made_as(kind, &mut next, || lengths))
}

/// Data of the same kind, of the next buffers.
fn made_as(
    kind: &SlotData,
    next: &mut impl FnMut() -> Bytes,
    lengths: impl FnOnce() -> Vec<u64>,
) -> SlotData {
    match kind {
        SlotData::Leaf { dtype, .. } => SlotData::Leaf {
            dtype: *dtype,
            values: next(),
        },
        SlotData::Index { .. } => SlotData::Index { offsets: next() },
        SlotData::Switch { .. } => SlotData::Switch {
            tags: next(),
            positions: next(),
            lengths: lengths(),
        },
    }
}

/// Copies bytes to the beginning of a buffer; returns the rest of it.
fn put<'b>(out: &'b mut [u8], bytes: &[u8]) -> Option<&'b mut [u8]> {
    let (to, rest) = out.split_at_mut_checked(bytes.len())?;
    to.copy_from_slice(bytes);
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{DType, Slot, SlotKind};

    fn numbers(values: &[i64]) -> Bytes {
        Bytes::from(bytemuck::cast_slice::<i64, u8>(values).to_vec())
    }

    fn slot(kind: SlotKind, parent: SlotParent, multiplicity: u64) -> Slot {
        Slot {
            field: 0,
            position: 0,
            columns: Vec::new(),
            kind,
            parent,
            multiplicity,
        }
    }

    fn slots(all: Vec<Slot>) -> Slots {
        let mut slots = Slots::default();
        for slot in all {
            slots.push(slot);
        }
        slots
    }

    fn leaf(values: &[u8]) -> Option<SlotData> {
        Some(SlotData::Leaf {
            dtype: DType::UInt8,
            values: Bytes::from(values.to_vec()),
        })
    }

    fn shown(data: &Option<SlotData>) -> String {
        match data {
            None => "none".to_owned(),
            Some(SlotData::Leaf { values, .. }) => format!("{:?}", &values[..]),
            Some(SlotData::Index { offsets }) => format!("{:?}", values(Some(offsets))),
            Some(SlotData::Switch {
                tags,
                positions,
                lengths,
            }) => format!("{:?} {:?} {lengths:?}", &tags[..], values(Some(positions))),
        }
    }

    /// Lists of pairs of numbers, and a variant per entry with a list as its second alternative.
    fn example() -> (Slots, Vec<Option<SlotData>>) {
        let u8s = SlotKind::Leaf(DType::UInt8);
        let slots = slots(vec![
            slot(SlotKind::Index, SlotParent::Entries, 1),
            slot(u8s, SlotParent::Index(0), 2),
            slot(SlotKind::Switch(2), SlotParent::Entries, 1),
            slot(u8s, SlotParent::Switch(2, 0), 1),
            slot(SlotKind::Index, SlotParent::Switch(2, 1), 1),
            slot(u8s, SlotParent::Index(4), 1),
        ]);
        let data = vec![
            Some(SlotData::Index {
                offsets: numbers(&[0, 2, 2, 3, 6]),
            }),
            leaf(&[0, 1, 10, 11, 20, 21, 30, 31, 40, 41, 50, 51]),
            Some(SlotData::Switch {
                tags: Bytes::from(vec![2, 1, 0, 2]),
                positions: numbers(&[0, 0, 0, 1]),
                lengths: vec![1, 2],
            }),
            leaf(&[7]),
            Some(SlotData::Index {
                offsets: numbers(&[0, 3, 5]),
            }),
            leaf(&[1, 2, 3, 4, 5]),
        ];
        (slots, data)
    }

    #[test]
    fn chosen_entries_bring_the_items_of_their_lists_and_variants() {
        let (slots, data) = example();
        let chosen = choose(&slots, &data, &[0..1, 3..4]).unwrap();
        let found: Vec<String> = chosen.iter().map(shown).collect();
        assert_eq!(
            found,
            [
                "[0, 2, 5]",
                "[0, 1, 10, 11, 30, 31, 40, 41, 50, 51]",
                "[2, 2] [0, 1] [0, 2]",
                "[]",
                "[0, 3, 5]",
                "[1, 2, 3, 4, 5]",
            ]
        );
        let none = choose(&slots, &data, &[]).unwrap();
        assert_eq!(shown(&none[0]), "[0]");
        assert_eq!(shown(&none[2]), "[] [] [0, 0]");
    }

    #[test]
    fn entries_one_by_one_are_together_all_entries() {
        let (slots, data) = example();
        let each = (0..4)
            .map(|entry| choose(&slots, &data, std::slice::from_ref(&(entry..entry + 1))).unwrap());
        let all = joined(slots.len(), each.collect()).unwrap();
        let shown = |data: &[Option<SlotData>]| data.iter().map(shown).collect::<Vec<_>>();
        assert_eq!(shown(&all), shown(&data));
    }

    #[test]
    fn slots_below_one_without_data_get_none() {
        let (slots, mut data) = example();
        data[0] = None;
        data[3] = None;
        let chosen = choose(&slots, &data, &[1..2, 2..3]).unwrap();
        let found: Vec<String> = chosen.iter().map(shown).collect();
        assert_eq!(
            found,
            ["none", "none", "[1, 0] [0, 0] [1, 0]", "none", "[0]", "[]"]
        );
    }

    #[test]
    fn entries_beyond_the_data_are_an_error() {
        let (slots, data) = example();
        assert!(choose(&slots, &data, &[0..1, 2..5]).is_err());
    }
}
