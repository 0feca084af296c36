//! Variants: finds the alternative of each value in an array.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, Int64Array, UnionArray};
use arrow_schema::{DataType, UnionMode};

use super::conform::conform;
use super::model::{Shape, dtype_of, unwritable};
use super::values::Values;
use crate::RNTupleError;
use crate::schema::DType;

/// The values of a variant: of a union array, or of an array with one alternative. Nulls have no value, except in optional
/// alternatives of a union.
///
/// # Errors
/// If values match none of the alternatives.
pub(super) fn variant(
    alternatives: &[Shape],
    array: &ArrayRef,
    path: &str,
) -> Result<Values, RNTupleError> {
    let parts = match array.as_union_opt() {
        Some(union) => Parts::of_union(union, alternatives, path)?,
        None => Parts::of_one(array, path)?,
    };
    let mut chosen: Vec<Option<Values>> = alternatives.iter().map(|_| None).collect();
    // for each part, its alternative counted from 1
    let mut numbers = vec![0u8; parts.values.len()];
    let same_number = parts.n_alternatives == alternatives.len();
    for (i, (values, number)) in parts.values.iter().zip(&mut numbers).enumerate() {
        if values.is_empty() {
            continue;
        }
        let mut order: Vec<usize> = (0..alternatives.len()).collect();
        // alternatives in the given order if their number matches; otherwise the closest type
        let distance = |k: &usize| match alternatives.get(*k) {
            _ if same_number && *k == i => 0,
            Some(shape) => 1 + distance(shape, values.data_type()),
            None => usize::MAX,
        };
        order.sort_by_key(distance);
        let mut failure = None;
        for k in order {
            let (Some(shape), Some(place)) = (alternatives.get(k), chosen.get_mut(k)) else {
                continue;
            };
            if place.is_some() {
                continue;
            }
            match conform(shape, values, path) {
                Ok(found) => {
                    *place = Some(found);
                    *number = u8::try_from(k + 1).unwrap_or(0);
                    break;
                }
                Err(error) => {
                    failure.get_or_insert(error);
                }
            }
        }
        if *number == 0 {
            let none = || unwritable(path, "the values have more types than the variant");
            return Err(failure.unwrap_or_else(none));
        }
    }
    let number = |&part: &usize| numbers.get(part).copied().unwrap_or(0);
    let chosen = chosen.into_iter().zip(alternatives);
    Ok(Values::Variant {
        tags: parts.of_entry.iter().map(number).collect(),
        alternatives: chosen
            .map(|(values, shape)| values.unwrap_or_else(|| Values::none(shape)))
            .collect(),
    })
}

/// The distance between a type and a shape: equal, of the same kind, different.
fn distance(shape: &Shape, data_type: &DataType) -> usize {
    let kind = |dtype: DType| match dtype {
        DType::Bool => 0,
        DType::Float16 | DType::Float32 | DType::Float64 => 1,
        _ => 2,
    };
    match (shape, dtype_of(data_type)) {
        (Shape::Leaf { dtype, .. }, Some(found)) if *dtype == found => 0,
        (Shape::Leaf { dtype, .. }, Some(found)) if kind(*dtype) == kind(found) => 1,
        _ => 2,
    }
}

/// An array, split by the types of its values.
struct Parts {
    n_alternatives: usize,
    /// Values of each type, in the order of the entries.
    values: Vec<ArrayRef>,
    /// Index of the part with each entry's value; `usize::MAX` if it has none.
    of_entry: Vec<usize>,
}

impl Parts {
    fn of_union(
        union: &UnionArray,
        alternatives: &[Shape],
        path: &str,
    ) -> Result<Self, RNTupleError> {
        let DataType::Union(fields, mode) = union.data_type() else {
            return Err(unwritable(path, "a union without alternatives"));
        };
        // nulls have no value
        let real = fields
            .iter()
            .filter(|(_, field)| *field.data_type() != DataType::Null);
        let ids: Vec<i8> = real.map(|(id, _)| id).collect();
        // an optional alternative that is missing is the alternative nevertheless
        let is_optional = |part: usize| {
            let shape = alternatives.get(part);
            ids.len() == alternatives.len() && matches!(shape, Some(Shape::Optional { .. }))
        };
        let mut of_entry = Vec::with_capacity(union.len());
        let mut places: Vec<Vec<i64>> = vec![Vec::new(); ids.len()];
        for i in 0..union.len() {
            let id = union.type_id(i);
            let offset = match mode {
                UnionMode::Dense => union.value_offset(i),
                UnionMode::Sparse => i,
            };
            let part = ids.iter().position(|&known| known == id);
            let part = part.filter(|&part| union.child(id).is_valid(offset) || is_optional(part));
            if let Some(places) = part.and_then(|part| places.get_mut(part)) {
                places.push(i64::try_from(offset).unwrap_or(i64::MAX));
            }
            of_entry.push(part.unwrap_or(usize::MAX));
        }
        let parts = ids.iter().zip(places);
        let values = parts.map(|(&id, places)| taken(union.child(id), places, path));
        Ok(Self {
            n_alternatives: ids.len(),
            values: values.collect::<Result<_, _>>()?,
            of_entry,
        })
    }

    fn of_one(array: &ArrayRef, path: &str) -> Result<Self, RNTupleError> {
        let nulls = array.logical_nulls();
        let is_there = |i: &usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*i));
        let there = (0..array.len()).filter(is_there);
        let places = there.map(|i| i64::try_from(i).unwrap_or(i64::MAX));
        let of_entry = (0..array.len()).map(|i| if is_there(&i) { 0 } else { usize::MAX });
        Ok(Self {
            n_alternatives: 1,
            of_entry: of_entry.collect(),
            values: vec![taken(array, places.collect(), path)?],
        })
    }
}

fn taken(array: &ArrayRef, places: Vec<i64>, path: &str) -> Result<ArrayRef, RNTupleError> {
    let is_whole = places.len() == array.len() && places.iter().zip(0..).all(|(&a, b)| a == b);
    if is_whole {
        return Ok(array.clone());
    }
    arrow_select::take::take(array, &Int64Array::from(places), None)
        .map_err(|error| unwritable(path, error.to_string()))
}
