//! Makes fields from Arrow schemas.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, FieldRef, IntervalUnit, Schema, TimeUnit};

use super::{FieldKind, FieldModel, all_or_none, unwritable};
use crate::RNTupleError;
use crate::schema::DType;
use crate::spec::ColumnType;

use super::{LeafModel, StoredAs};

impl FieldModel {
    /// The field for an Arrow field. Nullable types become `std::optional`, except if their type has no C++ name: records
    /// without a class, and types that contain them.
    ///
    /// # Errors
    /// If a type has no counterpart in RNTuple.
    pub fn from_arrow(field: &Field) -> Result<Self, RNTupleError> {
        from_field(field, field.name(), false)
    }

    /// The fields for all record batches of one schema: nullable types become `std::optional` only if a value is null.
    /// (Most producers of Arrow make all types nullable.)
    ///
    /// # Errors
    /// If a type has no counterpart in RNTuple.
    pub fn from_batches(
        schema: &Schema,
        batches: &[RecordBatch],
    ) -> Result<Vec<Self>, RNTupleError> {
        let fields = schema.fields().iter().enumerate();
        all_or_none(fields.map(|(i, field)| {
            let arrays: Vec<ArrayRef> = batches
                .iter()
                .filter_map(|batch| batch.columns().get(i).cloned())
                .collect();
            from_field(&tightened(field, &arrays), field.name(), true)
        }))
    }
}

/// Finds out which values of tables are null, batch by batch.
#[derive(Debug, Default)]
pub struct Nulls {
    fields: Option<Vec<Field>>,
}

impl Nulls {
    /// Adds a batch.
    pub fn add(&mut self, batch: &RecordBatch) {
        let schema = batch.schema();
        let columns = schema.fields().iter().zip(batch.columns());
        let own = columns.map(|(field, array)| tightened(field, std::slice::from_ref(array)));
        self.fields = Some(match self.fields.take() {
            None => own.collect(),
            Some(known) => known.iter().zip(own).map(|(a, b)| either(a, &b)).collect(),
        });
    }

    /// The fields: those with nulls are `std::optional`. Without any batch, they follow the schema.
    ///
    /// # Errors
    /// If a type has no counterpart in RNTuple.
    pub fn fields(self, schema: &Schema) -> Result<Vec<FieldModel>, RNTupleError> {
        let Some(fields) = self.fields else {
            let fields = schema.fields().iter();
            return all_or_none(fields.map(|field| FieldModel::from_arrow(field)));
        };
        let fields = fields.iter();
        all_or_none(fields.map(|field| from_field(field, field.name(), true)))
    }
}

/// A field that is nullable where one of two is.
fn either(a: &Field, b: &Field) -> Field {
    let both = |a: &FieldRef, b: &FieldRef| Arc::new(either(a, b));
    let data_type = match (a.data_type(), b.data_type()) {
        (DataType::List(a), DataType::List(b)) => DataType::List(both(a, b)),
        (DataType::LargeList(a), DataType::LargeList(b)) => DataType::LargeList(both(a, b)),
        (DataType::ListView(a), DataType::ListView(b)) => DataType::ListView(both(a, b)),
        (DataType::LargeListView(a), DataType::LargeListView(b)) => {
            DataType::LargeListView(both(a, b))
        }
        (DataType::FixedSizeList(a, n), DataType::FixedSizeList(b, _)) => {
            DataType::FixedSizeList(both(a, b), *n)
        }
        (DataType::Map(a, sorted), DataType::Map(b, _)) => DataType::Map(both(a, b), *sorted),
        (DataType::Struct(a), DataType::Struct(b)) => {
            DataType::Struct(a.iter().zip(b).map(|(a, b)| both(a, b)).collect())
        }
        (same, _) => same.clone(),
    };
    a.clone()
        .with_data_type(data_type)
        .with_nullable(a.is_nullable() || b.is_nullable())
}

/// The field in which only types with nulls in the arrays are nullable.
pub(super) fn tightened(field: &Field, arrays: &[ArrayRef]) -> Field {
    let items = |item: &Field, get: &dyn Fn(&ArrayRef) -> ArrayRef| {
        let below: Vec<ArrayRef> = arrays.iter().map(get).collect();
        Arc::new(tightened(item, &below))
    };
    let data_type = match field.data_type() {
        DataType::List(item) => {
            DataType::List(items(item, &|a| a.as_list::<i32>().values().clone()))
        }
        DataType::LargeList(item) => {
            DataType::LargeList(items(item, &|a| a.as_list::<i64>().values().clone()))
        }
        DataType::ListView(item) => {
            DataType::ListView(items(item, &|a| a.as_list_view::<i32>().values().clone()))
        }
        DataType::LargeListView(item) => {
            DataType::LargeListView(items(item, &|a| a.as_list_view::<i64>().values().clone()))
        }
        DataType::FixedSizeList(item, size) => {
            let item = items(item, &|a| a.as_fixed_size_list().values().clone());
            DataType::FixedSizeList(item, *size)
        }
        DataType::Map(entries, sorted) => {
            let entries = items(entries, &|a| Arc::new(a.as_map().entries().clone()));
            DataType::Map(entries, *sorted)
        }
        DataType::Struct(members) => {
            let member = |(i, member): (usize, &FieldRef)| {
                items(member, &|a| match a.as_struct().columns().get(i) {
                    Some(column) => column.clone(),
                    None => a.clone(),
                })
            };
            DataType::Struct(members.iter().enumerate().map(member).collect())
        }
        other => other.clone(),
    };
    let nullable = field.is_nullable()
        && (matches!(data_type, DataType::Null)
            || arrays.iter().any(|array| array.logical_null_count() > 0));
    Field::new(field.name().as_str(), data_type, nullable).with_metadata(field.metadata().clone())
}

/// `has_nulls`: whether nullable values are null somewhere.
fn from_field(field: &Field, path: &str, has_nulls: bool) -> Result<FieldModel, RNTupleError> {
    let is_union = matches!(field.data_type(), DataType::Union(..));
    let inner = from_type(field.data_type(), path, has_nulls)?.named(field.name().as_str());
    // a union has no nulls of its own: a variant may have no value
    let is_optional = field.is_nullable() && (has_nulls || !inner.type_name.is_empty());
    if is_optional && !is_union {
        return Ok(FieldModel::optional(field.name().as_str(), inner));
    }
    Ok(inner)
}

fn from_type(
    data_type: &DataType,
    path: &str,
    has_nulls: bool,
) -> Result<FieldModel, RNTupleError> {
    let item = |field: &Field| from_field(field, path, has_nulls);
    Ok(match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            FieldModel::new("", "std::string", FieldKind::String)
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            FieldModel::vector("", byte())
        }
        DataType::FixedSizeBinary(size) => {
            FieldModel::array("", u64::try_from(*size).unwrap_or(0), byte())
        }
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field) => FieldModel::vector("", item(field)?),
        DataType::FixedSizeList(field, size) => {
            FieldModel::array("", u64::try_from(*size).unwrap_or(0), item(field)?)
        }
        DataType::Map(entries, _) => map(entries, path, has_nulls)?,
        DataType::Struct(members) => {
            let members = members
                .iter()
                .map(|member| from_field(member, &format!("{path}.{}", member.name()), has_nulls));
            let members: Vec<FieldModel> = members.collect::<Result<_, _>>()?;
            let mut numbered = (0..).zip(&members);
            let is_tuple = numbered.all(|(i, member): (usize, _)| member.name == format!("_{i}"));
            if is_tuple && !members.is_empty() {
                FieldModel::tuple("", members)
            } else {
                FieldModel::record("", "", members)
            }
        }
        DataType::Union(fields, _) => {
            let alternatives = fields
                .iter()
                .filter(|(_, field)| *field.data_type() != DataType::Null)
                .map(|(_, field)| {
                    let plain = field.as_ref().clone().with_nullable(false);
                    from_field(
                        if field.is_nullable() { &plain } else { field },
                        path,
                        has_nulls,
                    )
                });
            FieldModel::variant("", alternatives.collect::<Result<_, _>>()?)
        }
        DataType::Dictionary(_, values) => from_type(values, path, has_nulls)?,
        DataType::RunEndEncoded(_, values) => from_type(values.data_type(), path, has_nulls)?,
        other => match dtype_of(other) {
            Some(dtype) => FieldModel::number("", dtype),
            None => {
                let reason = if other == &DataType::Null {
                    "all of its values are missing, and it has no type: leave it out, or give its type, for example with types".to_owned()
                } else {
                    let name = arrow_type_name(other);
                    let hint = if is_counted(other) {
                        " (converting a Parquet or Arrow IPC file does so automatically)"
                    } else {
                        ""
                    };
                    format!(
                        "Arrow's {name} has no counterpart in RNTuple; cast it to numbers or strings first{hint}"
                    )
                };
                return Err(unwritable(path, reason));
            }
        },
    })
}

fn map(entries: &Field, path: &str, has_nulls: bool) -> Result<FieldModel, RNTupleError> {
    let DataType::Struct(members) = entries.data_type() else {
        return Err(unwritable(path, "a map without entries"));
    };
    let members: Vec<FieldModel> = members
        .iter()
        .map(|member| from_field(member, path, has_nulls))
        .collect::<Result<_, _>>()?;
    let names: Vec<&str> = members
        .iter()
        .map(|member| member.type_name.as_str())
        .collect();
    let inner = if names.contains(&"") {
        String::new()
    } else {
        names.join(",")
    };
    let pair = |name: &str| {
        if inner.is_empty() {
            String::new()
        } else {
            format!("{name}<{inner}>")
        }
    };
    let (map, pair) = (pair("std::map"), pair("std::pair"));
    let members = members
        .into_iter()
        .enumerate()
        .map(|(i, member)| member.named(format!("_{i}")));
    let item = FieldModel::record("_0", pair, members.collect());
    Ok(FieldModel::new(
        "",
        map,
        FieldKind::Collection(Box::new(item)),
    ))
}

/// Whether it is a count of units: times, dates, durations, decimals.
fn is_counted(data_type: &DataType) -> bool {
    use DataType as D;
    data_type.is_decimal()
        || matches!(
            data_type,
            D::Timestamp(..) | D::Date32 | D::Date64 | D::Time32(_) | D::Time64(_) | D::Duration(_)
        )
}

/// `std::byte`.
pub(super) fn byte() -> FieldModel {
    let leaf = LeafModel {
        dtype: DType::UInt8,
        stored: Some(StoredAs::Column(ColumnType::Byte)),
    };
    FieldModel::new("_0", "std::byte", FieldKind::Leaf(leaf))
}

/// The element type of an Arrow number type.
pub(crate) fn dtype_of(data_type: &DataType) -> Option<DType> {
    Some(match data_type {
        DataType::Boolean => DType::Bool,
        DataType::Int8 => DType::Int8,
        DataType::UInt8 => DType::UInt8,
        DataType::Int16 => DType::Int16,
        DataType::UInt16 => DType::UInt16,
        DataType::Int32 => DType::Int32,
        DataType::UInt32 => DType::UInt32,
        DataType::Int64 => DType::Int64,
        DataType::UInt64 => DType::UInt64,
        DataType::Float16 => DType::Float16,
        DataType::Float32 => DType::Float32,
        DataType::Float64 => DType::Float64,
        _ => return None,
    })
}

/// The usual notation of an Arrow type, for example `timestamp[us]` or `list<float>`.
pub fn arrow_type_name(data_type: &DataType) -> String {
    use DataType as D;
    let item = |what: &str, item: &Field| format!("{what}<{}>", arrow_type_name(item.data_type()));
    let unit = |unit: &TimeUnit| match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    };
    match data_type {
        D::Utf8 => "string".to_owned(),
        D::LargeUtf8 => "large_string".to_owned(),
        D::Utf8View => "string_view".to_owned(),
        D::LargeBinary => "large_binary".to_owned(),
        D::BinaryView => "binary_view".to_owned(),
        D::FixedSizeBinary(size) => format!("fixed_size_binary[{size}]"),
        D::Timestamp(of, None) => format!("timestamp[{}]", unit(of)),
        D::Timestamp(of, Some(zone)) => format!("timestamp[{}, tz={zone}]", unit(of)),
        D::Time32(of) => format!("time32[{}]", unit(of)),
        D::Time64(of) => format!("time64[{}]", unit(of)),
        D::Duration(of) => format!("duration[{}]", unit(of)),
        D::Interval(IntervalUnit::YearMonth) => "month_interval".to_owned(),
        D::Interval(IntervalUnit::DayTime) => "day_time_interval".to_owned(),
        D::Interval(IntervalUnit::MonthDayNano) => "month_day_nano_interval".to_owned(),
        D::Decimal32(digits, scale) => format!("decimal32({digits}, {scale})"),
        D::Decimal64(digits, scale) => format!("decimal64({digits}, {scale})"),
        D::Decimal128(digits, scale) => format!("decimal128({digits}, {scale})"),
        D::Decimal256(digits, scale) => format!("decimal256({digits}, {scale})"),
        D::List(field) => item("list", field),
        D::LargeList(field) => item("large_list", field),
        D::ListView(field) => item("list_view", field),
        D::LargeListView(field) => item("large_list_view", field),
        D::FixedSizeList(field, size) => format!("{}[{size}]", item("fixed_size_list", field)),
        D::Map(entries, _) => item("map", entries),
        D::Struct(members) => {
            let member = |member: &FieldRef| {
                format!("{}: {}", member.name(), arrow_type_name(member.data_type()))
            };
            let members: Vec<String> = members.iter().map(member).collect();
            format!("struct<{}>", members.join(", "))
        }
        D::Union(fields, _) => {
            let types = fields
                .iter()
                .map(|(_, field)| arrow_type_name(field.data_type()));
            format!("union<{}>", types.collect::<Vec<_>>().join(", "))
        }
        D::Dictionary(_, values) => format!("dictionary<{}>", arrow_type_name(values)),
        D::RunEndEncoded(_, values) => item("run_end_encoded", values),
        // names of numbers, booleans, dates and other types are one word
        other => other.to_string().to_lowercase(),
    }
}
