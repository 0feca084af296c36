//! Export to Arrow. Lists and strings have 64-bit offsets. All types except booleans, optional values and variants
//! share the buffers of the result.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BooleanArray, FixedSizeListArray, Int64Array, LargeBinaryArray, LargeListArray,
    LargeStringArray, NullArray, RecordBatch, RecordBatchOptions, StructArray, UnionArray,
    make_array,
};
use arrow_buffer::{BooleanBuffer, Buffer, OffsetBuffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, Schema, UnionFields, UnionMode};

use super::{Arrays, SlotData, values};
use crate::RNTupleError;
use crate::schema::{DType, Node, NodeKind, SlotKind, Slots};

/// An error of exporting a result to Arrow.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArrayError {
    /// Arrow rejects the data.
    #[error("column {column:?} cannot be exported to Arrow; read it as an Awkward Array instead")]
    Arrow {
        /// Top-level column.
        column: String,
        /// Arrow's error.
        source: ArrowError,
    },
}

fn memory(error: RNTupleError) -> ArrowError {
    ArrowError::MemoryError(error.to_string())
}

/// The Arrow schema of a read; with `byte_booleans`, of its result [`Arrays::with_byte_booleans`].
pub fn arrow_schema(columns: &[(String, Node)], slots: &Slots, byte_booleans: bool) -> Schema {
    let kinds = |id: usize| match slots.get(id).map(|slot| slot.kind) {
        Some(SlotKind::Leaf(DType::Bool)) if byte_booleans => Some(SlotKind::Leaf(DType::UInt8)),
        kind => kind,
    };
    let fields: Vec<FieldRef> = columns
        .iter()
        .map(|(name, node)| Arc::new(field(name, node, &kinds)))
        .collect();
    Schema::new(fields)
}

type Kinds<'a> = &'a dyn Fn(usize) -> Option<SlotKind>;

fn field(name: &str, node: &Node, kinds: Kinds<'_>) -> Field {
    let nullable = matches!(
        node.kind,
        NodeKind::Optional { .. } | NodeKind::Variant { .. }
    );
    let field = Field::new(name, data_type(node, kinds), nullable);
    match &node.kind {
        NodeKind::Bytes { class_name, .. } if !class_name.is_empty() => field.with_metadata(
            HashMap::from([("ROOT:class".to_owned(), class_name.clone())]),
        ),
        _ => field,
    }
}

fn data_type(node: &Node, kinds: Kinds<'_>) -> DataType {
    match &node.kind {
        NodeKind::Leaf { slot } => match kinds(*slot) {
            Some(SlotKind::Leaf(dtype)) => arrow_type(dtype),
            _ => DataType::Null,
        },
        NodeKind::Cardinality { wide: true, .. } => DataType::Int64,
        NodeKind::Cardinality { wide: false, .. } => DataType::Int32,
        NodeKind::String { .. } => DataType::LargeUtf8,
        NodeKind::Bytes { .. } => DataType::LargeBinary,
        NodeKind::List { item, .. } => DataType::LargeList(Arc::new(field("item", item, kinds))),
        NodeKind::Optional { item, .. } => data_type(item, kinds),
        NodeKind::Regular { size, item } => DataType::FixedSizeList(
            Arc::new(field("item", item, kinds)),
            i32::try_from(*size).unwrap_or(i32::MAX),
        ),
        NodeKind::Record { names, members, .. } => {
            DataType::Struct(member_fields(names.as_deref(), members, kinds))
        }
        NodeKind::Variant { alternatives, .. } => {
            DataType::Union(union_fields(alternatives, kinds), UnionMode::Dense)
        }
    }
}

fn member_fields(names: Option<&[String]>, members: &[Node], kinds: Kinds<'_>) -> Fields {
    let name = |i: usize| match names.and_then(|names| names.get(i)) {
        Some(name) => name.clone(),
        None => format!("_{i}"),
    };
    members
        .iter()
        .enumerate()
        .map(|(i, member)| field(&name(i), member, kinds))
        .collect()
}

/// Type 0 is a variant without value; alternatives count from 1.
fn union_fields(alternatives: &[Node], kinds: Kinds<'_>) -> UnionFields {
    let valueless = std::iter::once((0i8, Arc::new(Field::new("valueless", DataType::Null, true))));
    let others = (1i8..)
        .zip(alternatives)
        .map(|(k, node)| (k, Arc::new(field(&format!("_{}", k - 1), node, kinds))));
    valueless.chain(others).collect()
}

fn arrow_type(dtype: DType) -> DataType {
    match dtype {
        DType::Bool => DataType::Boolean,
        DType::Int8 => DataType::Int8,
        DType::UInt8 => DataType::UInt8,
        DType::Int16 => DataType::Int16,
        DType::UInt16 => DataType::UInt16,
        DType::Int32 => DataType::Int32,
        DType::UInt32 => DataType::UInt32,
        DType::Int64 => DataType::Int64,
        DType::UInt64 => DataType::UInt64,
        DType::Float16 => DataType::Float16,
        DType::Float32 => DataType::Float32,
        DType::Float64 => DataType::Float64,
    }
}

impl Arrays {
    /// Exports the columns as an Arrow record batch.
    pub fn to_arrow(&self) -> Result<RecordBatch, ArrayError> {
        let n = usize::try_from(self.n_entries).unwrap_or(usize::MAX);
        let kinds = |id: usize| self.slot(id).map(SlotData::kind);
        let mut fields = Vec::with_capacity(self.columns.len());
        let mut arrays = Vec::with_capacity(self.columns.len());
        for (name, node) in &self.columns {
            let array = self.array(node, n, &kinds);
            arrays.push(array.map_err(|source| ArrayError::Arrow {
                column: name.clone(),
                source,
            })?);
            fields.push(field(name, node, &kinds));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(n));
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options).map_err(
            |source| ArrayError::Arrow {
                column: String::new(),
                source,
            },
        )
    }

    fn array(&self, node: &Node, length: usize, kinds: Kinds<'_>) -> Result<ArrayRef, ArrowError> {
        let missing = || ArrowError::InvalidArgumentError("a column without data".into());
        Ok(match &node.kind {
            NodeKind::Leaf { slot } => {
                let (dtype, bytes) = self.leaf(*slot).ok_or_else(missing)?;
                if dtype == DType::Bool {
                    let bit = |i: usize| bytes.get(i).is_some_and(|&b| b != 0);
                    Arc::new(BooleanArray::new(
                        BooleanBuffer::collect_bool(length, bit),
                        None,
                    ))
                } else {
                    primitive(arrow_type(dtype), length, Buffer::from(bytes.clone()))?
                }
            }
            NodeKind::Cardinality { index, wide } => {
                let dtype = if *wide {
                    DataType::Int64
                } else {
                    DataType::Int32
                };
                let lengths = self.cardinality(*index, *wide).map_err(memory)?;
                primitive(dtype, length, Buffer::from(lengths))?
            }
            NodeKind::String { index, chars } => {
                let (_, bytes) = self.leaf(*chars).ok_or_else(missing)?;
                let offsets = self.offset_buffer(*index, length)?;
                Arc::new(LargeStringArray::try_new(
                    offsets,
                    Buffer::from(bytes.clone()),
                    None,
                )?)
            }
            NodeKind::Bytes { index, bytes, .. } => {
                let (_, bytes) = self.leaf(*bytes).ok_or_else(missing)?;
                let offsets = self.offset_buffer(*index, length)?;
                Arc::new(LargeBinaryArray::try_new(
                    offsets,
                    Buffer::from(bytes.clone()),
                    None,
                )?)
            }
            NodeKind::List { index, item, .. } => {
                let child = self.array(item, self.items(*index), kinds)?;
                let offsets = self.offset_buffer(*index, length)?;
                Arc::new(LargeListArray::try_new(
                    Arc::new(field("item", item, kinds)),
                    offsets,
                    child,
                    None,
                )?)
            }
            NodeKind::Optional { index, item } => {
                let child = self.array(item, self.items(*index), kinds)?;
                arrow_select::take::take(&child, &self.option_positions(*index)?, None)?
            }
            NodeKind::Regular { size, item } => self.regular(*size, item, length, kinds)?,
            NodeKind::Record { names, members, .. } => {
                let arrays: Vec<ArrayRef> = members
                    .iter()
                    .map(|member| self.array(member, length, kinds))
                    .collect::<Result<_, _>>()?;
                let fields = member_fields(names.as_deref(), members, kinds);
                Arc::new(StructArray::try_new_with_length(
                    fields, arrays, None, length,
                )?)
            }
            NodeKind::Variant {
                switch,
                alternatives,
            } => self.union(*switch, alternatives, kinds)?,
        })
    }

    fn items(&self, index: usize) -> usize {
        usize::try_from(self.n_items(index)).unwrap_or(usize::MAX)
    }

    fn offset_buffer(&self, index: usize, length: usize) -> Result<OffsetBuffer<i64>, ArrowError> {
        let bytes = self.offsets(index).cloned().unwrap_or_default();
        if bytes.len() != (length + 1) * 8 {
            return Err(ArrowError::InvalidArgumentError(format!(
                "{} bytes of offsets for {length} lists",
                bytes.len()
            )));
        }
        Ok(OffsetBuffer::new(ScalarBuffer::from(Buffer::from(bytes))))
    }

    fn option_positions(&self, index: usize) -> Result<Int64Array, ArrowError> {
        let bytes = self.optional_index(index).map_err(memory)?;
        let positions = bytes
            .as_chunks::<8>()
            .0
            .iter()
            .map(|b| i64::from_le_bytes(*b));
        Ok(positions.map(|p| (p >= 0).then_some(p)).collect())
    }

    fn regular(
        &self,
        size: u64,
        item: &Node,
        length: usize,
        kinds: Kinds<'_>,
    ) -> Result<ArrayRef, ArrowError> {
        let too_large = || {
            ArrowError::InvalidArgumentError(format!(
                "arrays of {size} elements; Arrow's limit is 2^31"
            ))
        };
        let width = i32::try_from(size).map_err(|_| too_large())?;
        let n = usize::try_from(size)
            .ok()
            .and_then(|size| size.checked_mul(length))
            .ok_or_else(too_large)?;
        let child = self.array(item, n, kinds)?;
        let field = Arc::new(field("item", item, kinds));
        Ok(Arc::new(FixedSizeListArray::try_new_with_length(
            field, width, child, None, length,
        )?))
    }

    fn union(
        &self,
        switch: usize,
        alternatives: &[Node],
        kinds: Kinds<'_>,
    ) -> Result<ArrayRef, ArrowError> {
        let Some(SlotData::Switch {
            tags,
            positions,
            lengths,
        }) = self.slot(switch)
        else {
            return Err(ArrowError::InvalidArgumentError(
                "a variant without data".into(),
            ));
        };
        let mut n_valueless = 0i32;
        let mut offsets: Vec<i32> = Vec::with_capacity(tags.len());
        for (&tag, &position) in tags.iter().zip(values(Some(positions))) {
            if tag == 0 {
                offsets.push(n_valueless);
                n_valueless += 1;
            } else {
                let offset = i32::try_from(position);
                offsets
                    .push(offset.map_err(|_| ArrowError::OffsetOverflowError(i32::MAX as usize))?);
            }
        }
        let mut children: Vec<ArrayRef> = vec![Arc::new(NullArray::new(
            n_valueless.unsigned_abs() as usize,
        ))];
        for (node, &n) in alternatives.iter().zip(lengths) {
            children.push(self.array(node, usize::try_from(n).unwrap_or(usize::MAX), kinds)?);
        }
        let types: ScalarBuffer<i8> = tags.iter().map(|&tag| i8::from_le_bytes([tag])).collect();
        let offsets: ScalarBuffer<<Int32Type as arrow_array::ArrowPrimitiveType>::Native> =
            offsets.into();
        Ok(Arc::new(UnionArray::try_new(
            union_fields(alternatives, kinds),
            types,
            Some(offsets),
            children,
        )?))
    }
}

impl SlotData {
    fn kind(&self) -> SlotKind {
        match self {
            Self::Leaf { dtype, .. } => SlotKind::Leaf(*dtype),
            Self::Index { .. } => SlotKind::Index,
            Self::Switch { lengths, .. } => SlotKind::Switch(lengths.len()),
        }
    }
}

fn primitive(data_type: DataType, length: usize, buffer: Buffer) -> Result<ArrayRef, ArrowError> {
    Ok(make_array(
        ArrayData::builder(data_type)
            .len(length)
            .add_buffer(buffer)
            .build()?,
    ))
}
