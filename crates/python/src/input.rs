//! Converts Python arrays to Arrow arrays: from the nodes that Python makes of Awkward and NumPy arrays, and from
//! Arrow capsules. Nothing is copied.
#![expect(unsafe_code, reason = "Python buffers are accessed through pointers")]

use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, make_array, new_empty_array};
use arrow_buffer::{BooleanBuffer, Buffer, MutableBuffer};
use arrow_data::ArrayData;
use arrow_data::ffi::FFI_ArrowArray;
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{DataType, Field, Schema, UnionFields, UnionMode};
use femtobarn::write::{FieldKind, FieldModel};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList, PyTuple};

use crate::error::{new, usage};

/// A column: its array, and its field.
pub struct Column {
    pub array: ArrayRef,
    pub field: FieldModel,
}

fn refused(path: &str, reason: impl std::fmt::Display) -> PyErr {
    new(
        "UsageError",
        "unwritable-field",
        format!("field {path:?} cannot be written: {reason}"),
    )
}

/// The bytes of an object with the buffer protocol.
fn buffer(object: &Bound<'_, PyAny>) -> PyResult<Buffer> {
    let view = PyBuffer::<u8>::get(object)?;
    if !view.is_c_contiguous() {
        return Err(usage("the array is not contiguous"));
    }
    let (pointer, length) = (view.buf_ptr().cast::<u8>(), view.len_bytes());
    match NonNull::new(pointer) {
        Some(pointer) if length > 0 => {
            // SAFETY: the memory is valid for `length` bytes as long as the view is held, which the buffer does; it is
            // not written to as long as the caller keeps to the rule that arrays being written are left alone.
            Ok(unsafe { Buffer::from_custom_allocation(pointer, length, Arc::new(view)) })
        }
        // aligned for every type
        _ => Ok(MutableBuffer::new(0).into()),
    }
}

/// The column that a node describes.
pub fn column(name: &str, node: &Bound<'_, PyTuple>) -> PyResult<Column> {
    node_column(name, node, name)
}

fn node_column(name: &str, node: &Bound<'_, PyTuple>, path: &str) -> PyResult<Column> {
    let kind: String = node.get_item(0)?.extract()?;
    let (array, field) = match kind.as_str() {
        "numpy" => numpy(node, path)?,
        "list" => list(node, path)?,
        "string" => {
            let array = bytes(node, path)?;
            (array, FieldModel::new("", "std::string", FieldKind::String))
        }
        "bytes" => {
            let array = bytes(node, path)?;
            let field = Field::new("", array.data_type().clone(), false);
            (
                array,
                FieldModel::from_arrow(&field).map_err(crate::error::to_python)?,
            )
        }
        "option" => option(node, path)?,
        "regular" => regular(node, path)?,
        "record" => record(node, path)?,
        "union" => union(node, path)?,
        "arrow" => arrow(node, path)?,
        "unknown" => (
            new_empty_array(&DataType::Null),
            FieldModel::new("", "?", FieldKind::Record(Vec::new())),
        ),
        other => return Err(refused(path, format!("unknown node {other:?}"))),
    };
    let field = field.named(name);
    Ok(Column { array, field })
}

type Made = PyResult<(ArrayRef, FieldModel)>;

/// Makes an array from its parts, with validation.
fn checked(
    path: &str,
    data_type: DataType,
    length: usize,
    buffers: Vec<Buffer>,
    children: Vec<ArrayData>,
) -> PyResult<ArrayRef> {
    let data = ArrayData::try_new(data_type, length, None, 0, buffers, children);
    data.map(make_array).map_err(|error| refused(path, error))
}

fn numpy(node: &Bound<'_, PyTuple>, path: &str) -> Made {
    let (name, object) = (node.get_item(1)?.extract::<String>()?, node.get_item(2)?);
    let bytes = buffer(&object)?;
    let data_type = match name.as_str() {
        "bool" => {
            let bits = BooleanBuffer::collect_bool(bytes.len(), |i| {
                bytes.get(i).is_some_and(|&byte| byte != 0)
            });
            let bools = arrow_array::BooleanArray::new(bits, None);
            return Ok((Arc::new(bools), from_type(&DataType::Boolean)?));
        }
        "int8" => DataType::Int8,
        "uint8" => DataType::UInt8,
        "int16" => DataType::Int16,
        "uint16" => DataType::UInt16,
        "int32" => DataType::Int32,
        "uint32" => DataType::UInt32,
        "int64" => DataType::Int64,
        "uint64" => DataType::UInt64,
        "float16" => DataType::Float16,
        "float32" => DataType::Float32,
        "float64" => DataType::Float64,
        other => {
            let reason = format!(
                "NumPy's {other} has no counterpart in RNTuple; convert it to numbers or strings"
            );
            return Err(refused(path, reason));
        }
    };
    let length = bytes.len() / data_type.primitive_width().unwrap_or(1);
    let field = from_type(&data_type)?;
    Ok((
        checked(path, data_type, length, vec![bytes], vec![])?,
        field,
    ))
}

fn from_type(data_type: &DataType) -> PyResult<FieldModel> {
    let field = Field::new("", data_type.clone(), false);
    FieldModel::from_arrow(&field).map_err(crate::error::to_python)
}

fn child<'py>(node: &Bound<'py, PyTuple>, at: usize) -> PyResult<Bound<'py, PyTuple>> {
    Ok(node.get_item(at)?.cast_into::<PyTuple>()?)
}

fn item(array: &ArrayRef, nullable: bool) -> Arc<Field> {
    Arc::new(Field::new("item", array.data_type().clone(), nullable))
}

fn list(node: &Bound<'_, PyTuple>, path: &str) -> Made {
    let offsets = buffer(&node.get_item(1)?)?;
    let inner = node_column("_0", &child(node, 2)?, path)?;
    let data_type = DataType::LargeList(item(&inner.array, true));
    let length = (offsets.len() / 8).saturating_sub(1);
    let array = checked(
        path,
        data_type,
        length,
        vec![offsets],
        vec![inner.array.to_data()],
    )?;
    Ok((array, FieldModel::vector("", inner.field)))
}

fn bytes(node: &Bound<'_, PyTuple>, path: &str) -> PyResult<ArrayRef> {
    let (offsets, bytes) = (buffer(&node.get_item(1)?)?, buffer(&node.get_item(2)?)?);
    let length = (offsets.len() / 8).saturating_sub(1);
    checked(
        path,
        DataType::LargeBinary,
        length,
        vec![offsets, bytes],
        vec![],
    )
}

fn option(node: &Bound<'_, PyTuple>, path: &str) -> Made {
    let index = buffer(&node.get_item(1)?)?;
    let inner = node_column("_0", &child(node, 2)?, path)?;
    let places = index.typed_data::<i64>();
    let n_values = i64::try_from(inner.array.len()).unwrap_or(i64::MAX);
    if let Some(place) = places.iter().find(|&&place| place >= n_values) {
        return Err(refused(
            path,
            format!("an index is out of range: {place} of {n_values} values"),
        ));
    }
    let places = arrow_array::Int64Array::from_iter(
        places.iter().map(|&place| (place >= 0).then_some(place)),
    );
    let array = arrow_select::take::take(&inner.array, &places, None);
    let array = array.map_err(|error| refused(path, error))?;
    Ok((array, FieldModel::optional("", inner.field)))
}

fn regular(node: &Bound<'_, PyTuple>, path: &str) -> Made {
    let (size, length): (usize, usize) =
        (node.get_item(1)?.extract()?, node.get_item(2)?.extract()?);
    let inner = node_column("_0", &child(node, 3)?, path)?;
    let n = i32::try_from(size).ok().filter(|&n| n > 0);
    let n =
        n.ok_or_else(|| refused(path, format!("arrays of length {size} have no type in C++")))?;
    let values = inner
        .array
        .slice(0, inner.array.len().min(size.saturating_mul(length)));
    let data_type = DataType::FixedSizeList(item(&values, true), n);
    let array = checked(path, data_type, length, vec![], vec![values.to_data()])?;
    Ok((array, FieldModel::array("", size as u64, inner.field)))
}

fn record(node: &Bound<'_, PyTuple>, path: &str) -> Made {
    let names: Option<Vec<String>> = node.get_item(1)?.extract()?;
    let nodes = node.get_item(2)?.cast_into::<PyList>()?;
    let length: usize = node.get_item(3)?.extract()?;
    let is_tuple = names.is_none();
    let mut members = Vec::new();
    let (mut fields, mut children) = (Vec::new(), Vec::new());
    for (i, member) in nodes.iter().enumerate() {
        let name = names.as_ref().and_then(|names| names.get(i).cloned());
        let name = name.unwrap_or_else(|| format!("_{i}"));
        let inner = node_column(&name, member.cast::<PyTuple>()?, &format!("{path}.{name}"))?;
        fields.push(Field::new(&name, inner.array.data_type().clone(), true));
        children.push(
            inner
                .array
                .slice(0, length.min(inner.array.len()))
                .to_data(),
        );
        members.push(inner.field);
    }
    let array = checked(
        path,
        DataType::Struct(fields.into()),
        length,
        vec![],
        children,
    )?;
    let field = if is_tuple {
        FieldModel::tuple("", members)
    } else {
        FieldModel::record("", "", members)
    };
    Ok((array, field))
}

fn union(node: &Bound<'_, PyTuple>, path: &str) -> Made {
    let (tags, index) = (buffer(&node.get_item(1)?)?, buffer(&node.get_item(2)?)?);
    let nodes = node.get_item(3)?.cast_into::<PyList>()?;
    let (mut alternatives, mut children) = (Vec::new(), Vec::new());
    // tag 0 is for items without a value
    let mut fields = vec![(0i8, Arc::new(Field::new("valueless", DataType::Null, true)))];
    let narrow: Option<Vec<i32>> = index
        .typed_data::<i64>()
        .iter()
        .map(|&place| i32::try_from(place).ok())
        .collect();
    let narrow = narrow.ok_or_else(|| refused(path, "a union with more than 2^31 values"))?;
    let zeros = tags.iter().filter(|&&tag| tag == 0).count();
    children.push(arrow_array::NullArray::new(zeros.max(1)).into());
    for (k, alternative) in (1i8..).zip(nodes.iter()) {
        let name = format!("_{}", k - 1);
        let inner = node_column(&name, alternative.cast::<PyTuple>()?, path)?;
        fields.push((
            k,
            Arc::new(Field::new(&name, inner.array.data_type().clone(), true)),
        ));
        children.push(inner.array.to_data());
        alternatives.push(inner.field);
    }
    let length = tags.len();
    let offsets = narrow
        .iter()
        .zip(tags.iter())
        .map(|(&place, &tag)| if tag == 0 { 0 } else { place });
    let offsets = Buffer::from_vec(offsets.collect::<Vec<i32>>());
    let data_type = DataType::Union(UnionFields::from_iter(fields), UnionMode::Dense);
    let array = checked(path, data_type, length, vec![tags, offsets], children)?;
    Ok((array, FieldModel::variant("", alternatives)))
}

/// An array from the two capsules of `__arrow_c_array__`.
fn arrow(node: &Bound<'_, PyTuple>, path: &str) -> Made {
    let schema = node.get_item(1)?.cast_into::<PyCapsule>()?;
    let array = node.get_item(2)?.cast_into::<PyCapsule>()?;
    let schema = schema
        .pointer_checked(Some(c"arrow_schema"))?
        .cast::<FFI_ArrowSchema>();
    let array = array
        .pointer_checked(Some(c"arrow_array"))?
        .cast::<FFI_ArrowArray>();
    // SAFETY: the capsules' names say what they point to; the array is moved out, as the protocol has it: what is left
    // behind is marked as released.
    let data = unsafe {
        let array = FFI_ArrowArray::from_raw(array.as_ptr());
        arrow_array::ffi::from_ffi(array, schema.as_ref())
    };
    let array = make_array(data.map_err(|error| refused(path, error))?);
    let field = Field::new(path, array.data_type().clone(), true);
    let schema = Schema::new(vec![field]);
    let batch = RecordBatch::try_new(Arc::new(schema.clone()), vec![array.clone()]);
    let batch = batch.map_err(|error| refused(path, error))?;
    let fields = FieldModel::from_batches(&schema, &[batch]).map_err(crate::error::to_python)?;
    let field = fields.into_iter().next();
    Ok((array, field.ok_or_else(|| refused(path, "no type"))?))
}

/// A record batch of columns, each of `length` values.
pub fn batch(columns: &[Column], length: usize) -> PyResult<RecordBatch> {
    let field = |column: &Column| {
        Field::new(
            column.field.name.as_str(),
            column.array.data_type().clone(),
            true,
        )
    };
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    for column in columns {
        if column.array.len() != length {
            let reason = format!(
                "it has {} values, but the others have {length}",
                column.array.len()
            );
            return Err(refused(&column.field.name, reason));
        }
    }
    let options = RecordBatchOptions::new().with_row_count(Some(length));
    let arrays = columns.iter().map(|column| column.array.clone()).collect();
    RecordBatch::try_new_with_options(Arc::new(schema), arrays, &options)
        .map_err(|error| refused("", error))
}

/// The reader of a capsule from `__arrow_c_stream__`.
pub fn stream(capsule: &Bound<'_, PyCapsule>) -> PyResult<RecordBatchStreamReader> {
    let pointer = capsule.pointer_checked(Some(c"arrow_array_stream"))?;
    // SAFETY: the capsule's name says what it points to; the stream is moved out, and what is left behind is marked as
    // released.
    let stream =
        unsafe { FFI_ArrowArrayStream::from_raw(pointer.cast::<FFI_ArrowArrayStream>().as_ptr()) };
    RecordBatchStreamReader::try_new(stream)
        .map_err(|error| usage(format!("cannot read the stream of record batches: {error}")))
}

/// The schema in a capsule from `__arrow_c_schema__`.
pub fn schema(capsule: &Bound<'_, PyCapsule>) -> PyResult<Schema> {
    let pointer = capsule.pointer_checked(Some(c"arrow_schema"))?;
    // SAFETY: the capsule's name says what it points to, and it lives as long as the reference.
    let schema = unsafe { pointer.cast::<FFI_ArrowSchema>().as_ref() };
    Schema::try_from(schema).map_err(|error| usage(format!("cannot read the schema: {error}")))
}
