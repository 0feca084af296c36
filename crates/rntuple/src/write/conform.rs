//! Converts Arrow arrays to the values of a model, or returns an error that names the field and the reason. Matching
//! arrays are not copied.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    BinaryViewType, ByteViewType, Int16Type, Int32Type, Int64Type, RunEndIndexType, StringViewType,
};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Int64Array, UInt64Array, downcast_integer_array, new_null_array,
};
use arrow_buffer::{ArrowNativeType, Buffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::DataType;

use super::choose::variant;
use super::members::record;
use super::model::{Shape, in_words, unwritable};
use super::numbers::{check_limits, leaf};
use super::values::{Ends, Values};
use crate::RNTupleError;
use crate::schema::DType;

/// Converts `array` for a field of this shape. `path` names the field in messages.
///
/// # Errors
/// If the array has another type than the field, or has nulls where the field does not allow them.
pub(crate) fn conform(shape: &Shape, array: &ArrayRef, path: &str) -> Result<Values, RNTupleError> {
    let array = &plain(array, path)?;
    // an empty array need not have the right type
    if array.data_type() == &DataType::Null && array.is_empty() {
        return Ok(Values::none(shape));
    }
    if !matches!(shape, Shape::Optional { .. } | Shape::Variant { .. })
        && array.logical_null_count() > 0
    {
        let reason = format!(
            "{} of {} values are missing, but its type does not allow that: declare it as std::optional, or fill them",
            array.logical_null_count(),
            array.len()
        );
        return Err(unwritable(path, reason));
    }
    match shape {
        Shape::Leaf { dtype, limits, .. } => {
            let values = leaf(*dtype, array, path)?;
            if let Values::Leaf { bytes, .. } = &values {
                check_limits(*dtype, *limits, bytes, path)?;
            }
            Ok(values)
        }
        Shape::List { item, text, .. } => list(item, *text, array, path),
        // not decided by the content of the lists, which may differ in the next batch
        Shape::Optional {
            item,
            as_lists: true,
            ..
        } if is_list(array.data_type()) => pointer(item, array, path),
        Shape::Optional { item, .. } => optional(item, array, path),
        Shape::Array { size, item } => fixed(*size, item, array, path),
        Shape::Record { class, members } => record(class, members, array, path),
        Shape::Variant { alternatives, .. } => variant(alternatives, array, path),
    }
}

pub(super) fn wrong(path: &str, array: &ArrayRef, wanted: &str) -> RNTupleError {
    unwritable(
        path,
        format!(
            "expected {wanted}, but was given {}",
            in_words(array.data_type())
        ),
    )
}

fn arrow(path: &str) -> impl Fn(arrow_schema::ArrowError) -> RNTupleError + '_ {
    move |error| unwritable(path, error.to_string())
}

/// Decodes dictionary and run-end encoded arrays, which may be nested.
fn plain(array: &ArrayRef, path: &str) -> Result<ArrayRef, RNTupleError> {
    let values = match array.data_type() {
        DataType::Dictionary(..) => looked_up(array, path)?,
        DataType::RunEndEncoded(..) => runs::<Int16Type>(array, path)
            .or_else(|| runs::<Int32Type>(array, path))
            .or_else(|| runs::<Int64Type>(array, path))
            .unwrap_or_else(|| Err(wrong(path, array, "values")))?,
        _ => return Ok(array.clone()),
    };
    plain(&values, path)
}

/// Decodes a dictionary array. A null may have any key, and the dictionary may be empty.
fn looked_up(array: &ArrayRef, path: &str) -> Result<ArrayRef, RNTupleError> {
    let Some(dictionary) = array.as_any_dictionary_opt() else {
        return Err(wrong(path, array, "values"));
    };
    let (keys, values) = (dictionary.keys(), dictionary.values());
    let n = values.len();
    let place = |key: usize| {
        let found = || format!("the key of a value is outside the dictionary's {n} entries");
        let place = (key < n).then_some(key as u64);
        place.ok_or_else(|| unwritable(path, found()))
    };
    let at: UInt64Array = downcast_integer_array!(
        keys => {
            let each = keys.iter().map(|key| key.map(|key| place(key.as_usize())).transpose());
            each.collect::<Result<_, _>>()?
        }
        _ => return Err(wrong(path, array, "values")),
    );
    if n == 0 {
        return Ok(new_null_array(values.data_type(), at.len()));
    }
    arrow_select::take::take(values, &at, None).map_err(arrow(path))
}

/// Decodes a run-end encoded array with run ends of type `R`.
fn runs<R: RunEndIndexType>(
    array: &ArrayRef,
    path: &str,
) -> Option<Result<ArrayRef, RNTupleError>> {
    let runs = array.as_run_opt::<R>()?;
    let ends = runs.run_ends();
    let places = (0..runs.len()).map(|i| ends.get_physical_index(i) as u64);
    let places = UInt64Array::from_iter_values(places);
    Some(arrow_select::take::take(runs.values(), &places, None).map_err(arrow(path)))
}

fn list(item: &Shape, text: bool, array: &ArrayRef, path: &str) -> Result<Values, RNTupleError> {
    let is_bytes = matches!(
        item,
        Shape::Leaf {
            dtype: DType::UInt8,
            ..
        }
    );
    let wanted = if text { "strings" } else { "lists" };
    // the values of a slice are those of the whole array
    let bytes = |ends: Ends, place: Range<usize>, bytes: &Buffer| {
        let bytes = bytes.slice_with_length(place.start, place.len());
        let item = Box::new(Values::Leaf { bytes, size: 1 });
        Ok(Values::List { ends, item })
    };
    let lists = |ends: Ends, place: Range<usize>, values: &dyn Array| {
        let values = values.slice(place.start, place.len());
        let item = Box::new(conform(item, &values, path)?);
        Ok(Values::List { ends, item })
    };
    let narrow = |ends: &OffsetBuffer<i32>| (Ends::Narrow(ends.clone()), outer(ends));
    let wide = |ends: &OffsetBuffer<i64>| (Ends::Wide(ends.clone()), outer(ends));
    match array.data_type() {
        DataType::Utf8 if text => {
            let texts = array.as_string::<i32>();
            let (ends, place) = narrow(texts.offsets());
            bytes(ends, place, texts.values())
        }
        DataType::LargeUtf8 if text => {
            let texts = array.as_string::<i64>();
            let (ends, place) = wide(texts.offsets());
            bytes(ends, place, texts.values())
        }
        DataType::Binary if is_bytes || text => {
            let blobs = array.as_binary::<i32>();
            let (ends, place) = narrow(blobs.offsets());
            bytes(ends, place, blobs.values())
        }
        DataType::LargeBinary if is_bytes || text => {
            let blobs = array.as_binary::<i64>();
            let (ends, place) = wide(blobs.offsets());
            bytes(ends, place, blobs.values())
        }
        DataType::Utf8View if text => views::<StringViewType>(array),
        DataType::BinaryView if is_bytes || text => views::<BinaryViewType>(array),
        DataType::List(_) if !text => {
            let given = array.as_list::<i32>();
            let (ends, place) = narrow(given.offsets());
            lists(ends, place, given.values())
        }
        DataType::LargeList(_) if !text => {
            let given = array.as_list::<i64>();
            let (ends, place) = wide(given.offsets());
            lists(ends, place, given.values())
        }
        DataType::Map(..) if !text => {
            let map = array.as_map();
            let (ends, place) = narrow(map.offsets());
            lists(ends, place, map.entries())
        }
        DataType::FixedSizeList(_, size) if !text => {
            let lists = array.as_fixed_size_list();
            let item = Box::new(conform(item, lists.values(), path)?);
            let size = i64::from(*size);
            let ends = (0..=array.len() as u64).map(|i| i.cast_signed() * size);
            let ends = Ends::Wide(OffsetBuffer::new(ends.collect()));
            Ok(Values::List { ends, item })
        }
        DataType::ListView(_) | DataType::LargeListView(_) if !text => list_view(item, array, path),
        _ => Err(wrong(path, array, wanted)),
    }
}

fn views<T: ByteViewType>(array: &ArrayRef) -> Result<Values, RNTupleError> {
    let views = array.as_byte_view::<T>();
    let mut ends = vec![0i64];
    let mut bytes: Vec<u8> = Vec::new();
    for i in 0..views.len() {
        bytes.extend_from_slice(views.value(i).as_ref());
        ends.push(i64::try_from(bytes.len()).unwrap_or(i64::MAX));
    }
    let bytes = Buffer::from_vec(bytes);
    let item = Box::new(Values::Leaf { bytes, size: 1 });
    let ends = Ends::Wide(OffsetBuffer::new(ScalarBuffer::from(ends)));
    Ok(Values::List { ends, item })
}

fn list_view(item: &Shape, array: &ArrayRef, path: &str) -> Result<Values, RNTupleError> {
    let mut ends = vec![0i64];
    let mut at: Vec<i64> = Vec::new();
    let mut add = |offset: i64, size: i64| {
        at.extend(offset..offset.saturating_add(size));
        ends.push(i64::try_from(at.len()).unwrap_or(i64::MAX));
    };
    let values = if let Some(lists) = array.as_list_view_opt::<i32>() {
        let places = lists.offsets().iter().zip(lists.sizes());
        places.for_each(|(&offset, &size)| add(i64::from(offset), i64::from(size)));
        lists.values().clone()
    } else {
        let lists = array.as_list_view::<i64>();
        let places = lists.offsets().iter().zip(lists.sizes());
        places.for_each(|(&offset, &size)| add(offset, size));
        lists.values().clone()
    };
    let values = arrow_select::take::take(&values, &Int64Array::from(at), None);
    let item = Box::new(conform(item, &values.map_err(arrow(path))?, path)?);
    let ends = Ends::Wide(OffsetBuffer::new(ScalarBuffer::from(ends)));
    Ok(Values::List { ends, item })
}

fn optional(item: &Shape, array: &ArrayRef, path: &str) -> Result<Values, RNTupleError> {
    if array.data_type() == &DataType::Null {
        let ends = Ends::Wide(OffsetBuffer::new(ScalarBuffer::from(vec![
            0i64;
            array.len() + 1
        ])));
        let item = Box::new(Values::none(item));
        return Ok(Values::List { ends, item });
    }
    let nulls = array.logical_nulls();
    let is_there = |i: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(i));
    let mut ends = Vec::with_capacity(array.len() + 1);
    let mut n = 0i64;
    ends.push(n);
    for i in 0..array.len() {
        n += i64::from(is_there(i));
        ends.push(n);
    }
    let values = if nulls.is_none() {
        array.clone()
    } else {
        let there = BooleanArray::from_iter((0..array.len()).map(|i| Some(is_there(i))));
        arrow_select::filter::filter(array, &there).map_err(arrow(path))?
    };
    let item = Box::new(conform(item, &values, path)?);
    let ends = Ends::Wide(OffsetBuffer::new(ScalarBuffer::from(ends)));
    Ok(Values::List { ends, item })
}

fn is_list(data_type: &DataType) -> bool {
    use DataType as D;
    matches!(
        data_type,
        D::List(_) | D::LargeList(_) | D::FixedSizeList(..) | D::ListView(_) | D::LargeListView(_)
    )
}

/// Lists of zero or one item, which is how pointers are read.
fn pointer(item: &Shape, array: &ArrayRef, path: &str) -> Result<Values, RNTupleError> {
    if array.null_count() > 0 {
        let reason = "it was given lists and missing values: give either lists of zero or one item, or values of which some are \
                      missing";
        return Err(unwritable(path, reason));
    }
    let values = list(item, false, array, path)?;
    let long = match &values {
        Values::List {
            ends: Ends::Wide(ends),
            ..
        } => ends.lengths().any(|n| n > 1),
        Values::List {
            ends: Ends::Narrow(ends),
            ..
        } => ends.lengths().any(|n| n > 1),
        _ => false,
    };
    if long {
        return Err(unwritable(
            path,
            "it has zero or one value, but was given longer lists",
        ));
    }
    Ok(values)
}

fn fixed(size: usize, item: &Shape, array: &ArrayRef, path: &str) -> Result<Values, RNTupleError> {
    let wanted = format!("{size} values each");
    match array.data_type() {
        DataType::FixedSizeList(_, n) if usize::try_from(*n) == Ok(size) => {
            let item = Box::new(conform(item, array.as_fixed_size_list().values(), path)?);
            Ok(Values::Array { size, item })
        }
        DataType::FixedSizeBinary(n) if usize::try_from(*n) == Ok(size) => {
            let bytes = array.as_fixed_size_binary();
            let bytes = Buffer::from(bytes.value_data());
            let item = Box::new(Values::Leaf { bytes, size: 1 });
            Ok(Values::Array { size, item })
        }
        DataType::List(_) | DataType::LargeList(_) => lists_of(size, item, array, path),
        _ => Err(wrong(path, array, &wanted)),
    }
}

/// Lists of variable length that all have the right size.
fn lists_of(
    size: usize,
    item: &Shape,
    array: &ArrayRef,
    path: &str,
) -> Result<Values, RNTupleError> {
    let (place, other, values) = if let Some(lists) = array.as_list_opt::<i32>() {
        let ends = lists.offsets();
        (
            outer(ends),
            ends.lengths().find(|&n| n != size),
            lists.values(),
        )
    } else {
        let lists = array.as_list::<i64>();
        let ends = lists.offsets();
        (
            outer(ends),
            ends.lengths().find(|&n| n != size),
            lists.values(),
        )
    };
    if let Some(n) = other {
        let reason = format!("it has {size} values per entry, but was given a list of {n}");
        return Err(unwritable(path, reason));
    }
    let values = values.slice(place.start, place.len());
    let item = Box::new(conform(item, &values, path)?);
    Ok(Values::Array { size, item })
}

/// The range from the first to the last offset.
fn outer<T: ArrowNativeType>(ends: &[T]) -> Range<usize> {
    let at = |end: Option<&T>| end.map_or(0, |end| end.as_usize());
    at(ends.first())..at(ends.last())
}
