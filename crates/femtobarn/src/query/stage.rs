//! The columns of a selection for the chosen entries. What earlier stages have is not read again.

use std::ops::Range;

use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::array::{Arrays, SlotData, choose};
use femtobarn_rntuple::read::{ReadOptions, read_slots};

use crate::ntuple::{NTuple, Selection};

/// Gaps between chosen entries that are shorter are read, too: the entries around them are mostly in the same pages.
const GAP: u64 = 512;

/// The most ranges of entries that are read at once; for more, longer gaps are read.
const MOST_RANGES: usize = 512;

/// The columns of the chosen entries.
#[derive(Debug)]
pub(super) struct Stage {
    selection: Selection,
    data: Vec<Option<SlotData>>,
}

impl Stage {
    /// The chosen entries of columns that were read from the entry `first` on.
    pub fn chosen(
        selection: &Selection,
        arrays: Arrays,
        chosen: &[Range<u64>],
        first: u64,
    ) -> Result<Self, RNTupleError> {
        let n = arrays.n_entries();
        let data = arrays.into_slots().into_iter().map(Some).collect();
        let own = chosen.iter();
        let own: Vec<Range<u64>> = own.map(|it| it.start - first..it.end - first).collect();
        Ok(Self {
            data: of_ranges(selection, data, &own, n)?,
            selection: selection.clone(),
        })
    }

    /// Reads the columns that no earlier stage has.
    pub fn read(
        ntuple: &NTuple,
        selection: &Selection,
        chosen: &[Range<u64>],
        known: &[Self],
        options: &ReadOptions<'_>,
    ) -> Result<Self, RNTupleError> {
        let mut data: Vec<Option<SlotData>> = vec![None; selection.schema.slots.len()];
        for stage in known {
            let there = (&*stage.selection.schema, &*stage.selection.bindings);
            let slots = selection.schema.slots_in(&selection.bindings, there);
            for (own, slot) in data.iter_mut().zip(slots) {
                let found = slot.and_then(|slot| stage.data.get(slot)?.as_ref());
                if own.is_none() {
                    *own = found.cloned();
                }
            }
        }
        let wanted: Vec<bool> = data.iter().map(Option::is_none).collect();
        if wanted.contains(&true) {
            let ranges = ranges(chosen);
            let mut parts = Vec::new();
            for range in &ranges {
                parts.extend(ntuple.parts(selection, range)?);
            }
            let found = read_slots(&selection.schema, &parts, &wanted, options)?;
            let n = ranges.iter().map(|range| range.end - range.start).sum();
            let found = of_ranges(selection, found, &within(chosen, &ranges), n)?;
            for (own, found) in data.iter_mut().zip(found) {
                if own.is_none() {
                    *own = found;
                }
            }
        }
        Ok(Self {
            selection: selection.clone(),
            data,
        })
    }

    /// The columns.
    pub fn arrays(&self, chosen: &[Range<u64>]) -> Result<Arrays, RNTupleError> {
        let n = chosen.iter().map(|range| range.end - range.start).sum();
        let slots: Option<Vec<SlotData>> = self.data.iter().cloned().collect();
        let slots = slots.ok_or_else(|| RNTupleError::internal("a column was not read"))?;
        Ok(Arrays::new(n, self.selection.schema.columns.clone(), slots))
    }
}

/// The data of ranges of `n` entries. Nothing is copied if that is all of them.
fn of_ranges(
    selection: &Selection,
    data: Vec<Option<SlotData>>,
    ranges: &[Range<u64>],
    n: u64,
) -> Result<Vec<Option<SlotData>>, RNTupleError> {
    match ranges {
        [all] if *all == (0..n) => Ok(data),
        [] if n == 0 => Ok(data),
        _ => choose(&selection.schema.slots, &data, ranges),
    }
}

/// The ranges to read: the chosen entries, with short gaps.
fn ranges(chosen: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut gap = GAP;
    loop {
        let mut out: Vec<Range<u64>> = Vec::new();
        for range in chosen {
            match out.last_mut() {
                Some(last) if range.start - last.end <= gap => last.end = range.end,
                _ => out.push(range.clone()),
            }
        }
        if out.len() <= MOST_RANGES {
            return out;
        }
        gap = gap.saturating_mul(2);
    }
}

/// The positions of the chosen entries in the entries of the ranges, which contain them.
fn within(chosen: &[Range<u64>], ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut out = Vec::with_capacity(chosen.len());
    let mut ranges = ranges.iter().peekable();
    // entries of the ranges before the current one
    let mut before = 0;
    for own in chosen {
        while let Some(range) = ranges.next_if(|range| range.end <= own.start) {
            before += range.end - range.start;
        }
        if let Some(range) = ranges.peek() {
            let shift = |entry: u64| before + (entry - range.start);
            out.push(shift(own.start)..shift(own.end));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_gaps_are_read_and_long_ones_are_not() {
        let chosen = [3..4, 10..12, 10 + GAP + 1..600, 10_000..10_001];
        let found = ranges(&chosen);
        assert_eq!(found, [3..600, 10_000..10_001]);
        let places = [0..1, 7..9, GAP + 8..597, 597..598];
        assert_eq!(within(&chosen, &found), places);
    }

    #[test]
    fn the_number_of_ranges_is_limited() {
        let chosen: Vec<Range<u64>> = (0..5000).map(|n| n * 1000..n * 1000 + 1).collect();
        let found = ranges(&chosen);
        assert!(found.len() <= MOST_RANGES, "{}", found.len());
        let n: u64 = within(&chosen, &found)
            .iter()
            .map(|it| it.end - it.start)
            .sum();
        assert_eq!(n, 5000);
    }

    #[test]
    fn nothing_is_read_for_no_entries() {
        assert!(ranges(&[]).is_empty());
    }
}
