//! Brackets: one element of each list, or the elements that fulfil a condition.

use arrow_buffer::{BooleanBuffer, NullBuffer, OffsetBuffer};

use super::column::{Column, Data, Shape};
use super::load::bounds;

/// The elements of lists at indexes, which are one per entry or one for all. An index outside a list gives a missing
/// value. Negative indexes count from the end.
pub(super) fn element(list: &Column, offsets: &OffsetBuffer<i64>, places: &Column) -> Column {
    let place = |at: usize| -> Option<i64> {
        let at = if matches!(places.shape, Shape::Constant) {
            0
        } else {
            at
        };
        if places.valid.as_ref().is_some_and(|it| !it.is_valid(at)) {
            return None;
        }
        match &places.data {
            Data::Int(values) => values.get(at).copied(),
            // no list is that long
            _ => None,
        }
    };
    let pick = |(at, (start, end)): (usize, (i64, i64))| {
        let place = place(at)?;
        let place = place.checked_add(if place < 0 { end } else { start })?;
        (start..end).contains(&place).then_some(place)
    };
    let places: Vec<i64> = bounds(offsets)
        .enumerate()
        .map(|it| pick(it).unwrap_or(-1))
        .collect();
    let (data, valid) = list.gather(&places);
    Column {
        data,
        // also if no list is too short
        valid: valid.or_else(|| Some(NullBuffer::new_valid(places.len()))),
        shape: Shape::Levels(Vec::new()),
    }
}

/// The selected elements of the innermost lists.
pub(super) fn filter(column: &Column, keep: &BooleanBuffer) -> Column {
    let Some((inner, outer)) = column.levels().split_last() else {
        return column.clone();
    };
    let mut places: Vec<i64> = Vec::with_capacity(keep.count_set_bits());
    let kept = keep
        .set_indices()
        .map(|at| i64::try_from(at).unwrap_or(i64::MAX));
    places.extend(kept);
    let mut ends = places.iter().copied().peekable();
    let mut n = 0usize;
    let lengths = bounds(inner).map(|(_, end)| {
        let before = n;
        while ends.next_if(|&place| place < end).is_some() {
            n += 1;
        }
        n - before
    });
    let offsets = OffsetBuffer::from_lengths(lengths.collect::<Vec<_>>());
    let (data, valid) = column.gather(&places);
    let levels = outer.iter().cloned().chain([offsets]).collect();
    Column {
        data,
        valid,
        shape: Shape::Levels(levels),
    }
}
