//! Loads columns of record batches.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, Int64Array, LargeStringArray, RecordBatch, StructArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::DataType;
use femtobarn_io::did_you_mean;

use super::column::{Column, Data, Shape};
use super::excerpt::shortened;

/// Loads a column, or a member of one; the error is a message.
pub(super) fn load(batch: &RecordBatch, name: &str) -> Result<Column, String> {
    // column names may contain dots: the longest matching name is used
    let schema = batch.schema_ref();
    let cuts = name.rmatch_indices('.').map(|(at, _)| at);
    let found = std::iter::once(name.len()).chain(cuts).find_map(|cut| {
        let (at, field) = schema.column_with_name(name.get(..cut)?)?;
        let members = name.get(cut + 1..).unwrap_or_default();
        Some((batch.columns().get(at)?, field, members))
    });
    let Some((column, field, members)) = found else {
        let names = schema.fields().iter().map(|field| field.name().as_str());
        let hint = did_you_mean(name, names);
        return Err(format!("unknown column {:?}{hint}", shortened(name)));
    };
    let mut members: Vec<&str> = members.split('.').filter(|it| !it.is_empty()).collect();
    members.reverse();
    let place = (column.clone(), field.is_nullable());
    unnest(place, members, &shortened(name))
}

/// Descends through lists and records to the values. Whether they have a mask depends on their type alone: columns of two
/// batches have the same form.
fn unnest(
    (mut array, mut nullable): (ArrayRef, bool),
    mut members: Vec<&str>,
    name: &str,
) -> Result<Column, String> {
    let mut levels = Vec::new();
    let mut above: Option<NullBuffer> = None;
    loop {
        let valid = NullBuffer::union(above.as_ref(), array.nulls());
        if let Some((offsets, items)) = list(&array) {
            let (offsets, items) = dense(offsets, items, valid.as_ref())?;
            levels.push(offsets);
            nullable = has_nullable_items(&array);
            (array, above) = (items, None);
        } else if let Some(member) = members.pop() {
            let Some(record) = array.as_struct_opt() else {
                return Err(format!(
                    "{name}: {member:?} is a member of something that is not a record"
                ));
            };
            let at = member_of(record, member, name)?;
            nullable |= record.fields().get(at).is_some_and(|it| it.is_nullable());
            array = record.column(at).clone();
            above = valid;
        } else {
            let data = values(&array, valid.as_ref(), name)?;
            let all = || nullable.then(|| NullBuffer::new_valid(array.len()));
            return Ok(Column {
                data,
                valid: valid.or_else(all),
                shape: Shape::Levels(levels),
            });
        }
    }
}

fn list(array: &ArrayRef) -> Option<(OffsetBuffer<i64>, ArrayRef)> {
    if let Some(list) = array.as_list_opt::<i64>() {
        return Some((list.offsets().clone(), list.values().clone()));
    }
    let list = array.as_fixed_size_list_opt()?;
    let size = usize::try_from(list.value_length()).unwrap_or(0);
    let offsets = OffsetBuffer::from_repeated_length(size, list.len());
    Some((offsets, list.values().clone()))
}

/// Offsets that begin with 0, and their items. A missing list becomes an empty one.
fn dense(
    offsets: OffsetBuffer<i64>,
    items: ArrayRef,
    valid: Option<&NullBuffer>,
) -> Result<(OffsetBuffer<i64>, ArrayRef), String> {
    if !offsets.has_non_empty_nulls(valid) {
        let (first, last) = (offsets.first(), offsets.last());
        let place = |at: i64| usize::try_from(at).map_err(|error| error.to_string());
        let items = items.slice(place(first)?, place(last - first)?);
        return Ok((
            if first == 0 {
                offsets
            } else {
                offsets.subtract(first)
            },
            items,
        ));
    }
    let mut places: Vec<i64> = Vec::new();
    let mut lengths = Vec::with_capacity(offsets.len());
    for (at, (start, end)) in bounds(&offsets).enumerate() {
        let before = places.len();
        if valid.is_none_or(|valid| valid.is_valid(at)) {
            places.extend(start..end);
        }
        lengths.push(places.len() - before);
    }
    let items = arrow_select::take::take(&items, &Int64Array::from(places), None);
    let items = items.map_err(|error| error.to_string())?;
    Ok((OffsetBuffer::from_lengths(lengths), items))
}

/// The start and end of each list.
pub(super) fn bounds(offsets: &OffsetBuffer<i64>) -> impl Iterator<Item = (i64, i64)> {
    let ends = offsets.iter().skip(1);
    offsets.iter().zip(ends).map(|(&start, &end)| (start, end))
}

/// Whether the items of a list may be missing.
fn has_nullable_items(list: &ArrayRef) -> bool {
    match list.data_type() {
        DataType::LargeList(item) | DataType::FixedSizeList(item, _) => item.is_nullable(),
        _ => false,
    }
}

/// The number of a member.
fn member_of(record: &StructArray, member: &str, name: &str) -> Result<usize, String> {
    let names = record.column_names();
    let numbered = |name: &str| names.iter().position(|own| *own == name);
    // members of tuples are `0` in paths and `_0` in Arrow; members of pairs are `first` and `second`
    // in C++
    let in_pair = || {
        // the name without the underscore, unless it is another member
        let (place, alone) = match member {
            "first" => ("_0", "0"),
            "second" => ("_1", "1"),
            _ => return None,
        };
        let is_pair = (names.iter()).all(|name| matches!(*name, "_0" | "_1" | "0" | "1"));
        let found = numbered(place).or_else(|| numbered(alone));
        found.filter(|_| is_pair)
    };
    let found = numbered(member)
        .or_else(|| numbered(&format!("_{member}")))
        .or_else(|| numbered(member.strip_prefix('_')?))
        .or_else(in_pair);
    found.ok_or_else(|| {
        let hint = did_you_mean(member, names.iter().copied());
        format!("{name}: unknown member {member:?}{hint}")
    })
}

fn values(array: &ArrayRef, valid: Option<&NullBuffer>, name: &str) -> Result<Data, String> {
    Ok(match array.data_type() {
        DataType::Boolean => Data::Bool(array.as_boolean().values().clone()),
        DataType::Int8 => integers::<Int8Type>(array, valid),
        DataType::Int16 => integers::<Int16Type>(array, valid),
        DataType::Int32 => integers::<Int32Type>(array, valid),
        DataType::Int64 if valid.is_none() => {
            Data::Int(array.as_primitive::<Int64Type>().values().clone())
        }
        DataType::Int64 => integers::<Int64Type>(array, valid),
        DataType::UInt8 => integers::<UInt8Type>(array, valid),
        DataType::UInt16 => integers::<UInt16Type>(array, valid),
        DataType::UInt32 => integers::<UInt32Type>(array, valid),
        DataType::UInt64 => unsigned(array, valid),
        DataType::Float16 => {
            let values = array.as_primitive::<Float16Type>().values();
            Data::floats(values.iter().map(|it| it.to_f64()))
        }
        DataType::Float32 => {
            let values = array.as_primitive::<Float32Type>().values();
            Data::floats(values.iter().map(|&it| f64::from(it)))
        }
        DataType::Float64 => Data::Float(array.as_primitive::<Float64Type>().values().clone()),
        DataType::LargeUtf8 => {
            let texts = array.as_string::<i64>();
            let (offsets, bytes) = (texts.offsets().clone(), texts.values().clone());
            let texts = LargeStringArray::try_new(offsets, bytes, None);
            Data::Text(texts.map_err(|error| format!("{name}: {error}"))?)
        }
        DataType::Struct(_) => Data::Other("a record"),
        DataType::Union(..) => Data::Other("a variant"),
        DataType::LargeBinary => Data::Other("an object"),
        _ => Data::Other("of a type that expressions do not support"),
    })
}

/// Loads integers. Missing values become 0, so that arithmetic cannot fail on them.
fn integers<T: ArrowPrimitiveType>(array: &ArrayRef, valid: Option<&NullBuffer>) -> Data
where
    i64: From<T::Native>,
{
    let values = array.as_primitive::<T>().values().iter();
    let values = values.map(|&it| i64::from(it));
    Data::Int(match valid {
        None => values.collect(),
        Some(valid) => {
            let values = values.zip(valid.iter());
            values
                .map(|(it, valid)| if valid { it } else { 0 })
                .collect()
        }
    })
}

fn unsigned(array: &ArrayRef, valid: Option<&NullBuffer>) -> Data {
    let values = array.as_primitive::<UInt64Type>().values();
    let narrow: Result<Vec<i64>, _> = values.iter().map(|&it| i64::try_from(it)).collect();
    if let (Ok(narrow), None) = (narrow, valid) {
        return Data::Int(narrow.into());
    }
    let is_valid = |at| valid.is_none_or(|valid| valid.is_valid(at));
    let wide = |(at, &it)| if is_valid(at) { i128::from(it) } else { 0 };
    Data::integers(values.iter().enumerate().map(wide).collect())
}
