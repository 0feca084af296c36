//! Taking arrays apart: from Arrow arrays to the elements of columns.

use arrow_array::cast::AsArray;
use arrow_array::types::{BinaryType, ByteArrayType, LargeBinaryType, LargeUtf8Type, Utf8Type};
use arrow_array::{Array, ArrayRef, BooleanArray, OffsetSizeTrait};
use arrow_schema::DataType;

use super::column::ColumnBuffer;
use super::model::Shape;
use crate::RNTupleError;

/// Adds the elements of `array`, whose shape is `shape`, to the columns.
pub(crate) fn take(
    shape: &Shape,
    array: &ArrayRef,
    columns: &mut [ColumnBuffer],
    name: &str,
) -> Result<(), RNTupleError> {
    let wrong = |reason: String| RNTupleError::Unwritable {
        name: name.to_owned(),
        reason,
    };
    if !matches!(shape, Shape::Optional { .. }) && array.null_count() > 0 {
        let reason = "a value is missing in a field that was said to have none".to_owned();
        return Err(wrong(reason));
    }
    match shape {
        Shape::Leaf { column } => {
            leaf(array, column_at(columns, *column)?);
        }
        Shape::Optional { index, item } => {
            let count = (0..array.len()).scan(0i64, |sum, i| {
                *sum += i64::from(array.is_valid(i));
                Some(*sum)
            });
            column_at(columns, *index)?.append_ends(count);
            let there = BooleanArray::from_iter((0..array.len()).map(|i| Some(array.is_valid(i))));
            let values = arrow_select::filter::filter(array, &there)
                .map_err(|error| wrong(error.to_string()))?;
            take(item, &values, columns, name)?;
        }
        Shape::String { index, chars } => {
            let (ends, bytes) =
                text(array).ok_or_else(|| wrong(format!("is {}, not text", array.data_type())))?;
            column_at(columns, *index)?.append_ends(ends.into_iter());
            column_at(columns, *chars)?.append(&bytes);
        }
        Shape::List { index, item } => {
            let (ends, values) = list(array)
                .ok_or_else(|| wrong(format!("is {}, not a list", array.data_type())))?;
            column_at(columns, *index)?.append_ends(ends.into_iter());
            take(item, &values, columns, name)?;
        }
        Shape::Array { size, item } => {
            let list = array
                .as_fixed_size_list_opt()
                .filter(|list| list.value_length() as usize == *size);
            let list = list
                .ok_or_else(|| wrong(format!("is {}, not lists of {size}", array.data_type())))?;
            take(item, list.values(), columns, name)?;
        }
        Shape::Record { members } => {
            let record = array
                .as_struct_opt()
                .filter(|record| record.num_columns() == members.len());
            let record = record
                .ok_or_else(|| wrong(format!("is {}, not the record it was", array.data_type())))?;
            for (member, values) in members.iter().zip(record.columns()) {
                take(member, values, columns, name)?;
            }
        }
    }
    Ok(())
}

fn column_at(columns: &mut [ColumnBuffer], at: usize) -> Result<&mut ColumnBuffer, RNTupleError> {
    columns
        .get_mut(at)
        .ok_or_else(|| RNTupleError::internal("a shape names a column that is not there"))
}

/// The values of numbers, one after another.
fn leaf(array: &ArrayRef, column: &mut ColumnBuffer) {
    if let Some(bools) = array.as_boolean_opt() {
        let bytes: Vec<u8> = (0..bools.len()).map(|i| u8::from(bools.value(i))).collect();
        column.append(&bytes);
        return;
    }
    let data = array.to_data();
    let size = data.data_type().primitive_width().unwrap_or(1);
    let range = data.offset() * size..(data.offset() + data.len()) * size;
    let values = data
        .buffers()
        .first()
        .and_then(|buffer| buffer.as_slice().get(range));
    column.append(values.unwrap_or_default());
}

/// Ends counted from the first item, and the place of the items.
fn ends<T: Copy + Into<i64>>(offsets: &[T]) -> (Vec<i64>, std::ops::Range<usize>) {
    let first = offsets.first().map_or(0, |&first| first.into());
    let last = offsets.last().map_or(0, |&last| last.into());
    let ends = offsets
        .iter()
        .skip(1)
        .map(|&end| end.into() - first)
        .collect();
    let at = |offset: i64| usize::try_from(offset).unwrap_or(0);
    (ends, at(first)..at(last))
}

/// Ends of strings, and their bytes.
fn text(array: &ArrayRef) -> Option<(Vec<i64>, Vec<u8>)> {
    match array.data_type() {
        DataType::Utf8 => text_of::<Utf8Type>(array),
        DataType::LargeUtf8 => text_of::<LargeUtf8Type>(array),
        DataType::Binary => text_of::<BinaryType>(array),
        DataType::LargeBinary => text_of::<LargeBinaryType>(array),
        _ => None,
    }
}

fn text_of<T: ByteArrayType<Offset: Into<i64>>>(array: &ArrayRef) -> Option<(Vec<i64>, Vec<u8>)> {
    let array = array.as_bytes_opt::<T>()?;
    let (ends, range) = ends(array.offsets());
    Some((ends, array.values().get(range)?.to_vec()))
}

/// Ends of lists, and their items.
fn list(array: &ArrayRef) -> Option<(Vec<i64>, ArrayRef)> {
    match array.data_type() {
        DataType::List(_) => list_of::<i32>(array),
        DataType::LargeList(_) => list_of::<i64>(array),
        _ => None,
    }
}

fn list_of<O: OffsetSizeTrait + Into<i64>>(array: &ArrayRef) -> Option<(Vec<i64>, ArrayRef)> {
    let array = array.as_list_opt::<O>()?;
    let (ends, range) = ends(array.offsets());
    Some((ends, array.values().slice(range.start, range.len())))
}
