//! Makes fields from those of an existing ntuple.

use super::{FieldKind, FieldModel, LeafModel, StoredAs, unwritable};
use crate::RNTupleError;
use crate::schema::{DType, Descriptor, FieldId};
use crate::spec::{ColumnType, FieldRecord, Role};

impl FieldModel {
    /// The fields of an ntuple, with the same types, names and encodings. Projected fields are last.
    ///
    /// # Errors
    /// If a field has a structure that cannot be written.
    pub fn from_descriptor(
        descriptor: &Descriptor,
        fields: &[FieldId],
    ) -> Result<Vec<Self>, RNTupleError> {
        fields
            .iter()
            .map(|&id| model(descriptor, id, true))
            .collect()
    }

    /// A field with its own data, even if it is a projected field.
    ///
    /// # Errors
    /// If it has a structure that cannot be written.
    pub fn with_data(descriptor: &Descriptor, field: FieldId) -> Result<Self, RNTupleError> {
        model(descriptor, field, false)
    }
}

fn model(
    descriptor: &Descriptor,
    id: FieldId,
    keep_projected: bool,
) -> Result<FieldModel, RNTupleError> {
    let refused = |reason: &str| unwritable(&descriptor.qualified_name(id), reason);
    let field = descriptor
        .field(id)
        .ok_or_else(|| refused("it does not exist"))?;
    let record = &field.record;
    let below = || -> Result<Vec<FieldModel>, RNTupleError> {
        field
            .children
            .iter()
            .map(|&child| model(descriptor, child, keep_projected))
            .collect()
    };
    let one = || -> Result<Box<FieldModel>, RNTupleError> {
        let mut fields = below()?;
        match (fields.pop(), fields.is_empty()) {
            (Some(item), true) => Ok(Box::new(item)),
            _ => Err(refused("it does not have exactly one subfield")),
        }
    };
    let n_columns = descriptor.n_columns(id);
    let kind = if let Some(source) = record.source_id.filter(|_| keep_projected) {
        FieldKind::Projected {
            source: descriptor.qualified_name(source),
            subfields: below()?,
        }
    } else {
        match (record.role, n_columns, record.array_size) {
            (Role::Record, ..) => FieldKind::Record(below()?),
            (Role::Variant, ..) => FieldKind::Variant(below()?),
            (Role::Streamer, ..) => FieldKind::Streamed,
            (Role::Collection, ..) if record.is_optional() => FieldKind::Optional(one()?),
            (Role::Collection, ..) => match field.children.as_slice() {
                [_] => FieldKind::Collection(one()?),
                _ => FieldKind::Collection(Box::new(FieldModel::record("_0", "", below()?))),
            },
            (Role::Plain, 0, Some(size)) => FieldKind::Array(size, one()?),
            (Role::Plain, 0, None) => FieldKind::Wrapper(one()?),
            (Role::Plain, 1, Some(size)) if record.type_name.starts_with("std::bitset") => {
                FieldKind::Bitset(size)
            }
            (Role::Plain, 1, None) if record.type_name.starts_with("ROOT::RNTupleCardinality") => {
                return length(record);
            }
            (Role::Plain, 1, None) => FieldKind::Leaf(leaf(descriptor, id)?),
            (Role::Plain, 2, None) => FieldKind::String,
            _ => return Err(refused("its structure is not supported for writing")),
        }
    };
    Ok(FieldModel {
        name: record.name.clone(),
        type_name: record.type_name.clone(),
        type_alias: record.type_alias.clone(),
        description: record.description.clone(),
        type_version: record.type_version,
        type_checksum: record.type_checksum,
        kind,
        compression: None,
        // as its writer had it, which may use another order
        is_ordered: true,
        is_soa: record.flags.soa(),
    })
}

/// The length of a collection as a separate number, which is read as a signed 32-bit or 64-bit integer.
fn length(record: &FieldRecord) -> Result<FieldModel, RNTupleError> {
    let is_wide = record.type_name.contains("64");
    let dtype = if is_wide { DType::Int64 } else { DType::Int32 };
    Ok(FieldModel {
        description: record.description.clone(),
        ..FieldModel::number(record.name.as_str(), dtype)
    })
}

/// The numbers of a field in the encoding of its columns, if they have the same encoding and it represents
/// every value.
fn leaf(descriptor: &Descriptor, id: FieldId) -> Result<LeafModel, RNTupleError> {
    let refused = |reason: &str| unwritable(&descriptor.qualified_name(id), reason);
    let columns: Vec<_> = descriptor
        .representations(id, 0)
        .into_iter()
        .filter_map(|column| descriptor.column(column))
        .collect();
    let type_name = descriptor.field(id).map(|field| &field.record.type_name);
    let dtype_of = |column_type| DType::of_leaf(column_type, type_name.map_or("", String::as_str));
    let types: Option<Vec<DType>> = columns.iter().map(|c| dtype_of(c.column_type)).collect();
    let dtype = types.and_then(|types| types.into_iter().reduce(DType::promote));
    let dtype = dtype.ok_or_else(|| refused("its columns do not contain numbers"))?;
    let stored = match columns.as_slice() {
        [only] => stored(only.column_type, only.bits),
        _ => None,
    };
    Ok(LeafModel { dtype, stored })
}

fn stored(column_type: ColumnType, bits: u16) -> Option<StoredAs> {
    use ColumnType as C;
    match column_type {
        C::Char | C::Byte | C::Real16 => Some(StoredAs::Column(column_type)),
        C::Real32Trunc => Some(StoredAs::Truncated(bits)),
        // values read from fractions need not be fractions again
        _ => None,
    }
}
