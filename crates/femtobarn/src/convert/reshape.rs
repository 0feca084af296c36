//! Combines the columns of a tree into the columns of the output.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, LargeListArray, RecordBatch, RecordBatchOptions,
    StructArray,
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field, Fields, Schema};
use femtobarn_rntuple::RNTupleError;

use super::levels::Levels;
use super::source::refused;

/// How a column of the output is made from columns of the input.
#[derive(Debug, Clone)]
pub(super) enum Piece {
    /// A column without changes.
    Column(String),
    /// A column of nested arrays, or of records of these, flattened.
    Flat(String),
    /// A column with records for the bases of its classes.
    Levels(String, Levels),
    /// A record of columns.
    Record(Vec<(String, Piece)>),
    /// Lists of equal lengths as one list of records.
    Zip(Vec<(String, Piece)>),
    /// Lists of empty items, with the lengths from a counter.
    Count(String),
}

impl Piece {
    /// The input columns, each with a description of its result.
    pub fn columns<'p>(&'p self, path: &str, out: &mut Vec<(String, &'p str)>) {
        match self {
            Self::Column(name) | Self::Flat(name) | Self::Levels(name, _) | Self::Count(name) => {
                out.push((path.to_owned(), name));
            }
            Self::Record(members) | Self::Zip(members) => {
                for (name, piece) in members {
                    piece.columns(&format!("{path}.{name}"), out);
                }
            }
        }
    }
}

/// Reshapes a batch.
pub(super) fn reshape(
    batch: &RecordBatch,
    pieces: &[(String, Piece)],
) -> Result<RecordBatch, RNTupleError> {
    let mut fields = Vec::with_capacity(pieces.len());
    let mut arrays = Vec::with_capacity(pieces.len());
    for (name, piece) in pieces {
        let array = make(batch, piece, name)?;
        fields.push(Field::new(name, array.data_type().clone(), true));
        arrays.push(array);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
        .map_err(|error| refused("", error.to_string()))
}

fn column<'b>(batch: &'b RecordBatch, name: &str) -> Result<&'b ArrayRef, RNTupleError> {
    batch
        .column_by_name(name)
        .ok_or_else(|| refused(name, "it was not read"))
}

fn make(batch: &RecordBatch, piece: &Piece, path: &str) -> Result<ArrayRef, RNTupleError> {
    match piece {
        Piece::Column(name) => column(batch, name).cloned(),
        Piece::Flat(name) => flat(column(batch, name)?),
        Piece::Levels(name, levels) => levels.array(column(batch, name)?),
        Piece::Record(members) => {
            let members = members
                .iter()
                .map(|(name, piece)| Ok((name.clone(), make(batch, piece, path)?)))
                .collect::<Result<Vec<_>, RNTupleError>>()?;
            record(members, batch.num_rows())
        }
        Piece::Zip(members) => {
            let mut offsets = None;
            let item = items(batch, members, path, &mut offsets)?;
            let offsets = offsets.unwrap_or_else(|| OffsetBuffer::new_zeroed(batch.num_rows()));
            list(offsets, item)
        }
        Piece::Count(name) => {
            let counts = column(batch, name)?;
            let lengths = lengths(counts).ok_or_else(|| refused(name, "it is not a counter"))?;
            let n = lengths.iter().sum();
            let offsets = OffsetBuffer::<i64>::from_lengths(lengths);
            list(offsets, record(Vec::new(), n)?)
        }
    }
}

/// Flattens nested arrays, also in members of records.
fn flat(array: &ArrayRef) -> Result<ArrayRef, RNTupleError> {
    if let Some(records) = array.as_struct_opt() {
        let members = records.fields().iter().zip(records.columns());
        let members = members.map(|(field, member)| Ok((field.name().clone(), flat(member)?)));
        return record(members.collect::<Result<_, RNTupleError>>()?, array.len());
    }
    let is_nested = |outer: &FixedSizeListArray| outer.values().as_fixed_size_list_opt().is_some();
    if !array.as_fixed_size_list_opt().is_some_and(is_nested) {
        return Ok(array.clone());
    }
    let (mut size, mut items) = (1i32, array.clone());
    while let Some(inner) = items.as_fixed_size_list_opt() {
        size = size.saturating_mul(inner.value_length());
        items = inner.values().clone();
    }
    let field = Arc::new(Field::new("item", items.data_type().clone(), true));
    let made = FixedSizeListArray::try_new(field, size, items, None);
    Ok(Arc::new(
        made.map_err(|error| refused("", error.to_string()))?,
    ))
}

/// Numbers of items, from integers of any type.
fn lengths(counts: &ArrayRef) -> Option<Vec<usize>> {
    fn of<T: ArrowPrimitiveType>(counts: &ArrayRef) -> Option<Vec<usize>>
    where
        usize: TryFrom<T::Native>,
    {
        let counts = counts.as_primitive_opt::<T>()?.values().iter();
        counts.map(|&n| usize::try_from(n).ok()).collect()
    }
    of::<Int32Type>(counts)
        .or_else(|| of::<UInt32Type>(counts))
        .or_else(|| of::<Int64Type>(counts))
        .or_else(|| of::<UInt64Type>(counts))
        .or_else(|| of::<Int16Type>(counts))
        .or_else(|| of::<UInt16Type>(counts))
        .or_else(|| of::<Int8Type>(counts))
        .or_else(|| of::<UInt8Type>(counts))
}

pub(super) fn record(
    members: Vec<(String, ArrayRef)>,
    length: usize,
) -> Result<ArrayRef, RNTupleError> {
    let field =
        |(name, array): &(String, ArrayRef)| Field::new(name, array.data_type().clone(), true);
    let fields: Fields = members.iter().map(field).collect();
    let arrays = members.into_iter().map(|(_, array)| array).collect();
    let made = StructArray::try_new_with_length(fields, arrays, None, length);
    Ok(Arc::new(
        made.map_err(|error| refused("", error.to_string()))?,
    ))
}

pub(super) fn list(offsets: OffsetBuffer<i64>, item: ArrayRef) -> Result<ArrayRef, RNTupleError> {
    let field = Arc::new(Field::new("item", item.data_type().clone(), true));
    let made = LargeListArray::try_new(field, offsets, item, None);
    Ok(Arc::new(
        made.map_err(|error| refused("", error.to_string()))?,
    ))
}

/// The items of lists, which must all have the same lengths.
fn items(
    batch: &RecordBatch,
    members: &[(String, Piece)],
    path: &str,
    offsets: &mut Option<OffsetBuffer<i64>>,
) -> Result<ArrayRef, RNTupleError> {
    let mut out = Vec::with_capacity(members.len());
    for (name, piece) in members {
        let values = match piece {
            Piece::Record(inner) => items(batch, inner, path, offsets)?,
            other => {
                let array = make(batch, other, path)?;
                let lists = array
                    .as_list_opt::<i64>()
                    .filter(|_| matches!(array.data_type(), DataType::LargeList(_)));
                let lists = lists.ok_or_else(|| {
                    refused(
                        path,
                        format!("its member {name:?} is {}, not a list", array.data_type()),
                    )
                })?;
                match offsets {
                    None => *offsets = Some(lists.offsets().clone()),
                    Some(known) if known.ptr_eq(lists.offsets()) || known == lists.offsets() => {}
                    Some(_) => return Err(odd_one_out(batch, members, path, name)),
                }
                lists.values().clone()
            }
        };
        out.push((name.clone(), values));
    }
    let n = offsets
        .as_ref()
        .and_then(|offsets| offsets.iter().last().copied())
        .unwrap_or(0);
    record(out, usize::try_from(n).unwrap_or(0))
}

/// The error for lists with different lengths: of the first column and the differing one, the one whose lengths
/// fewer of the other columns share.
fn odd_one_out(
    batch: &RecordBatch,
    members: &[(String, Piece)],
    path: &str,
    name: &str,
) -> RNTupleError {
    let lists = members.iter().filter_map(|(name, piece)| {
        let Piece::Column(column) = piece else {
            return None;
        };
        let lists = batch.column_by_name(column)?.as_list_opt::<i64>()?;
        Some((name.as_str(), column, lists.offsets()))
    });
    let lists: Vec<_> = lists.collect();
    let alike = |own: &OffsetBuffer<i64>| lists.iter().filter(|(.., other)| *other == own).count();
    let seen = lists.iter().find(|(member, ..)| *member == name);
    let odd = match (lists.first(), seen) {
        (Some(first), Some(seen)) if alike(first.2) < alike(seen.2) => Some(first),
        (_, seen) => seen,
    };
    match odd {
        Some((_, column, _)) => RNTupleError::Unsupported {
            url: String::new(),
            ntuple: String::new(),
            name: (*column).clone(),
            reason: format!("its lists have other lengths than the other members of {path:?}"),
            hint: String::new(),
        },
        None => {
            let reason =
                format!("its member {name:?} has other lengths than the members before it");
            refused(path, reason)
        }
    }
}
