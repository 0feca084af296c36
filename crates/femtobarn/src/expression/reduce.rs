//! Reductions of lists. Missing values in a list are skipped.

use std::ops::Range;

use arrow_buffer::{BooleanBuffer, NullBuffer, OffsetBuffer};

use super::arithmetic::extreme_float;
use super::column::{Column, Data, Integers, Shape};
use super::function::Reduction;
use super::index::filter;
use super::load::bounds;

/// Number of items in each outermost list.
pub(super) fn lengths(offsets: &OffsetBuffer<i64>) -> Column {
    let lengths = bounds(offsets).map(|(start, end)| end - start);
    Column {
        data: Data::Int(lengths.collect()),
        valid: None,
        shape: Shape::Levels(Vec::new()),
    }
}

/// Reduces the innermost lists of a column, which has lists. The error is a message.
pub(super) fn reduce(reduction: Reduction, column: &Column) -> Result<Column, String> {
    if matches!(
        reduction,
        Reduction::Any | Reduction::All | Reduction::Count
    ) {
        let truths = column.truths().ok_or_else(|| {
            let instead = match reduction {
                Reduction::Count => "; use len(…) for the number of elements",
                _ => ", e.g. `… != 0`",
            };
            format!("takes conditions{instead}")
        })?;
        let inner = inner(column)?;
        let data = conditions(reduction, inner, &truths);
        return Ok(outer(column, data, None));
    }
    let column = &without_missing(column);
    let inner = inner(column)?;
    let (data, has) = match reduction {
        Reduction::Mean => {
            let values = numbers(column)?;
            let sums = lists(inner).map(|range| sum(&values, &range));
            let means = sums.zip(inner.lengths()).map(|(sum, n)| sum / n as f64);
            (Data::floats(means), Some(filled(inner)))
        }
        _ => (sums(column, inner)?, None),
    };
    Ok(outer(column, data, has))
}

/// The minimum or maximum of each list; missing for an empty list.
pub(super) fn extreme(greater: bool, column: &Column) -> Result<Column, String> {
    let column = &without_missing(column);
    let inner = inner(column)?;
    let pick = |a: i128, b: i128| if greater { a.max(b) } else { a.min(b) };
    let data = match column.data.as_integers() {
        Some(Integers::Narrow(values)) => {
            let of = |range: Range<usize>| values.get(range).unwrap_or_default().iter().copied();
            let pick = |a: i64, b: i64| if greater { a.max(b) } else { a.min(b) };
            let found = lists(inner).map(|range| of(range).reduce(pick).unwrap_or(0));
            Data::Int(found.collect())
        }
        Some(Integers::Wide(values)) => {
            let of = |range: Range<usize>| values.get(range).unwrap_or_default().iter().copied();
            let found = lists(inner).map(|range| of(range).reduce(pick).unwrap_or(0));
            Data::integers(found.collect())
        }
        None => {
            let values = numbers(column)?;
            let of = |range: Range<usize>| values.get(range).unwrap_or_default().iter().copied();
            let pick = |a, b| extreme_float(greater, a, b);
            let found = lists(inner).map(|range| of(range).reduce(pick).unwrap_or(f64::NAN));
            Data::floats(found)
        }
    };
    Ok(outer(column, data, Some(filled(inner))))
}

fn inner(column: &Column) -> Result<&OffsetBuffer<i64>, String> {
    let last = column.levels().last();
    last.ok_or_else(|| "takes a list, found one value per entry".to_owned())
}

/// The result, without the innermost level of lists.
fn outer(column: &Column, data: Data, has: Option<BooleanBuffer>) -> Column {
    let levels = column.levels().split_last().map_or(&[][..], |it| it.1);
    Column {
        data,
        valid: has.map(NullBuffer::new),
        shape: Shape::Levels(levels.to_vec()),
    }
}

fn without_missing(column: &Column) -> Column {
    match &column.valid {
        Some(valid) => filter(column, valid.inner()),
        None => column.clone(),
    }
}

fn lists(offsets: &OffsetBuffer<i64>) -> impl Iterator<Item = Range<usize>> {
    let place = |at| usize::try_from(at).unwrap_or(0);
    bounds(offsets).map(move |(start, end)| place(start)..place(end))
}

fn filled(offsets: &OffsetBuffer<i64>) -> BooleanBuffer {
    offsets.lengths().map(|n| n > 0).collect()
}

fn numbers(column: &Column) -> Result<Vec<f64>, String> {
    let values = column.data.as_floats();
    let values = values.ok_or_else(|| format!("takes numbers, found {}", column.data.kind()))?;
    Ok(values.to_vec())
}

fn sum(values: &[f64], range: &Range<usize>) -> f64 {
    let values = values.get(range.clone()).unwrap_or_default().iter();
    // the sum of an empty list is 0.0, not -0.0
    values.fold(0.0, |sum, it| sum + it)
}

fn sums(column: &Column, inner: &OffsetBuffer<i64>) -> Result<Data, String> {
    let too_large = || "an integer needs more than 128 bits".to_owned();
    match column.data.as_integers() {
        Some(Integers::Narrow(values)) => {
            let of = |range: Range<usize>| values.get(range).unwrap_or_default().iter();
            let sum = |range| of(range).map(|&it| i128::from(it)).sum();
            Ok(Data::integers(lists(inner).map(sum).collect()))
        }
        Some(Integers::Wide(values)) => {
            let of = |range: Range<usize>| values.get(range).unwrap_or_default().iter();
            let sum = |range| of(range).try_fold(0i128, |sum, &it| sum.checked_add(it));
            let sums: Option<Vec<i128>> = lists(inner).map(sum).collect();
            Ok(Data::integers(sums.ok_or_else(too_large)?))
        }
        None => {
            let values = numbers(column)?;
            Ok(Data::floats(lists(inner).map(|range| sum(&values, &range))))
        }
    }
}

fn conditions(reduction: Reduction, inner: &OffsetBuffer<i64>, truths: &BooleanBuffer) -> Data {
    let truths: Vec<bool> = truths.iter().collect();
    let of = |range: Range<usize>| truths.get(range).unwrap_or_default();
    match reduction {
        Reduction::Any => Data::truths(lists(inner).map(|it| of(it).contains(&true))),
        Reduction::All => Data::truths(lists(inner).map(|it| !of(it).contains(&false))),
        _ => {
            let count = |range| of(range).iter().map(|&it| i64::from(it)).sum();
            Data::Int(lists(inner).map(count).collect())
        }
    }
}
