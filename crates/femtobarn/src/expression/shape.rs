//! Aligns values per entry, and lists of equal lengths.

use std::borrow::Cow;

use arrow_buffer::{NullBuffer, OffsetBuffer};

use super::column::{Column, Shape};
use super::load::bounds;

/// Two columns with the same shape; constants stay constants.
pub(super) struct Pair<'a> {
    pub a: Cow<'a, Column>,
    pub b: Cow<'a, Column>,
    pub shape: Shape,
}

/// Lists with different lengths.
pub(super) struct Mismatch {
    /// The entry, counted from the start of the batch.
    pub entry: usize,
    pub lengths: [i64; 2],
}

/// Repeats the values of one operand, one per entry, for each element of the other operand's lists. Lists must
/// have equal lengths.
pub(super) fn align<'a>(a: &'a Column, b: &'a Column) -> Result<Pair<'a>, Mismatch> {
    let (left, right) = (a.levels(), b.levels());
    let is_constant = |column: &Column| matches!(column.shape, Shape::Constant);
    if is_constant(a) || is_constant(b) {
        let shape = if is_constant(a) { &b.shape } else { &a.shape };
        return Ok(Pair {
            a: Cow::Borrowed(a),
            b: Cow::Borrowed(b),
            shape: shape.clone(),
        });
    }
    check_equal(left, right)?;
    let deeper = if left.len() < right.len() { b } else { a };
    Ok(Pair {
        a: spread(a, right.get(left.len()..).unwrap_or_default()),
        b: spread(b, left.get(right.len()..).unwrap_or_default()),
        shape: deeper.shape.clone(),
    })
}

impl Pair<'_> {
    /// The mask of existing results: both operands must exist.
    pub fn valid(&self, n: usize) -> Option<NullBuffer> {
        let valid = |column: &Column| match (&column.valid, &column.shape) {
            // a constant that is missing is missing everywhere
            (Some(valid), Shape::Constant) if valid.null_count() > 0 => {
                Some(NullBuffer::new_null(n))
            }
            (Some(_), Shape::Constant) => Some(NullBuffer::new_valid(n)),
            (valid, _) => valid.clone(),
        };
        both(valid(&self.a), valid(&self.b))
    }
}

/// The mask of values that exist in both; none only if both have none, whatever the values are.
pub(super) fn both(a: Option<NullBuffer>, b: Option<NullBuffer>) -> Option<NullBuffer> {
    match (a, b) {
        (Some(a), Some(b)) => Some(NullBuffer::new(a.inner() & b.inner())),
        (a, b) => a.or(b),
    }
}

/// Repeats each element for the items in the lists of the lower levels.
fn spread<'a>(column: &'a Column, below: &[OffsetBuffer<i64>]) -> Cow<'a, Column> {
    let Some((first, rest)) = below.split_first() else {
        return Cow::Borrowed(column);
    };
    let n = usize::try_from(first.last()).unwrap_or(0);
    let mut places: Vec<i64> = Vec::with_capacity(n);
    for (place, length) in (0i64..).zip(first.lengths()) {
        places.extend(std::iter::repeat_n(place, length));
    }
    for level in rest {
        let mut next = Vec::new();
        for (&place, length) in places.iter().zip(level.lengths()) {
            next.extend(std::iter::repeat_n(place, length));
        }
        places = next;
    }
    let (data, valid) = column.gather(&places);
    let levels = [column.levels(), below].concat();
    Cow::Owned(Column {
        data,
        valid,
        shape: Shape::Levels(levels),
    })
}

/// Checks that lists have the same lengths at all levels that both have.
fn check_equal(left: &[OffsetBuffer<i64>], right: &[OffsetBuffer<i64>]) -> Result<(), Mismatch> {
    for (depth, (a, b)) in left.iter().zip(right).enumerate() {
        if a.ptr_eq(b) || a.as_ref() == b.as_ref() {
            continue;
        }
        let lengths = |of: &OffsetBuffer<i64>| -> Vec<i64> {
            bounds(of).map(|(start, end)| end - start).collect()
        };
        let (a, b) = (lengths(a), lengths(b));
        let differs = a.iter().zip(&b).position(|(a, b)| a != b);
        let at = differs.unwrap_or(0);
        let length = |of: &[i64]| of.get(at).copied().unwrap_or(0);
        let above = left.get(..depth).unwrap_or_default();
        let list_of = |at: usize, level: &OffsetBuffer<i64>| {
            let at = i64::try_from(at).unwrap_or(i64::MAX);
            level
                .partition_point(|&start| start <= at)
                .saturating_sub(1)
        };
        return Err(Mismatch {
            entry: above.iter().rev().fold(at, list_of),
            lengths: [length(&a), length(&b)],
        });
    }
    Ok(())
}
