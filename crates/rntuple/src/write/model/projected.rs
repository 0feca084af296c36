//! Projected fields, which take no space. The type must be one that ROOT can read from the source's columns, and without
//! loss: if it is not, ROOT cannot build the model of the whole ntuple.

use super::layout::{Layout, Place};
use super::shape::Order;
use super::{FieldKind, FieldModel, LeafModel, StoredAs, unwritable};
use crate::RNTupleError;
use crate::schema::{CARDINALITY, DType};
use crate::spec::{AliasColumn, ColumnRecord, ColumnType, FieldRecord, Role};

impl Layout {
    /// Types in projected fields that only the ntuple knows: classes, enums, and lengths.
    pub(super) fn classes(&self) -> Vec<FieldModel> {
        let length = |wide| FieldModel::cardinality("", "", wide);
        let mut classes = vec![length(false), length(true)];
        for field in &self.schema.fields {
            let is_wrapper = field.role == Role::Plain && field.array_size.is_none();
            let is_class = matches!(field.role, Role::Record | Role::Collection) || is_wrapper;
            let name = field.type_name.as_str();
            let is_own =
                !name.is_empty() && !name.starts_with("std::") && !name.starts_with("ROOT::");
            if is_class && is_own && FieldModel::from_type_name_with("", name, &classes).is_err() {
                classes.push(FieldModel::record("", name, Vec::new()));
            }
        }
        classes
    }

    /// Adds a projected field. Its source must have the same number of values, that is, be below `repeated` (the source
    /// of the parent, or one of its ancestors).
    pub(super) fn project(
        &mut self,
        field: &FieldModel,
        place: Place<'_>,
        repeated: Option<u32>,
        classes: &[FieldModel],
    ) -> Result<(), RNTupleError> {
        let FieldKind::Projected { source, subfields } = &field.kind else {
            return Err(unwritable(
                place.path,
                "a subfield of a projected field must be projected as well",
            ));
        };
        if field.compression.is_some() {
            let reason = format!(
                "its compression is set, but it is a projected field: set that of its source {source:?}"
            );
            return Err(unwritable(place.path, reason));
        }
        let Some(&source_id) = self.paths.get(source) else {
            let reason = format!("its source {source:?} does not exist");
            return Err(unwritable(place.path, reason));
        };
        let is_length = field.type_name.starts_with(CARDINALITY);
        let Some(seen) = self.schema.fields.get(source_id as usize).cloned() else {
            return Ok(());
        };
        if seen.source_id.is_some() || (is_length && seen.role != Role::Collection) {
            let reason = format!("its source {source:?} is not a collection with its own data");
            return Err(unwritable(place.path, reason));
        }
        let above = self.repeated_above(source_id);
        if above != repeated && self.is_across(above) {
            let reason = format!(
                "its source {source:?} is in an array or a variant: fields in these cannot be projected, \
                 also not by ROOT"
            );
            return Err(unwritable(place.path, reason));
        }
        if above != repeated {
            let reason = format!(
                "its source {source:?} has more or fewer values per entry than type {:?}",
                field.type_name
            );
            return Err(unwritable(place.path, reason));
        }
        let columns: Vec<(u32, ColumnRecord)> = (0u32..)
            .zip(&self.schema.columns)
            .filter(|(_, column)| column.field_id == source_id)
            .map(|(id, column)| (id, column.clone()))
            .collect();
        let has_items = (0u32..)
            .zip(&self.schema.fields)
            .any(|(id, below)| below.parent_id == source_id && id != source_id);
        let lacks_items = has_items && subfields.is_empty() && !is_length;
        if lacks_items && (seen.array_size.is_some() || seen.role == Role::Variant) {
            let reason = format!(
                "its source {source:?} is a {:?}: arrays and variants cannot be projected, also not by ROOT",
                seen.type_name
            );
            return Err(unwritable(place.path, reason));
        }
        let types: Vec<ColumnType> = columns
            .iter()
            .map(|(_, column)| column.column_type)
            .collect();
        if lacks_items || !(is_length || fits(field, &seen, &types, classes)) {
            let what = match (seen.type_name.as_str(), seen.role) {
                ("", Role::Record) => "a record without a class".to_owned(),
                ("", _) => "a collection without a class".to_owned(),
                (name, _) => format!("a {name:?}"),
            };
            let reason = format!(
                "its source {source:?}, {what}, cannot be read as {:?} without loss",
                field.type_name
            );
            return Err(unwritable(place.path, reason));
        }
        let repeated = if is_repeated(&seen) {
            Some(source_id)
        } else {
            repeated
        };
        let role = if is_length { Role::Plain } else { seen.role };
        let id = self.record(field, role, place);
        if let Some(record) = self.schema.fields.get_mut(id as usize) {
            record.flags.0 |= 2 | (seen.flags.0 & 1);
            record.array_size = seen.array_size;
            record.source_id = Some(source_id);
        }
        let aliases = columns.iter().map(|&(physical_id, _)| AliasColumn {
            physical_id,
            field_id: id,
        });
        self.schema.alias_columns.extend(aliases);
        for subfield in subfields {
            let path = format!("{}.{}", place.path, subfield.name);
            let place = Place {
                parent: Some(id),
                path: &path,
                ..place
            };
            self.project(subfield, place, repeated, classes)?;
        }
        Ok(())
    }

    /// Whether this is an array or a variant.
    fn is_across(&self, above: Option<u32>) -> bool {
        let above = above.and_then(|id| self.schema.fields.get(id as usize));
        above.is_some_and(|field| field.array_size.is_some() || field.role == Role::Variant)
    }

    /// The nearest ancestor whose items have another number than itself.
    fn repeated_above(&self, id: u32) -> Option<u32> {
        let above = |id: &u32| {
            let parent = self.schema.fields.get(*id as usize)?.parent_id;
            (parent != *id).then_some(parent)
        };
        let record = |id: &u32| self.schema.fields.get(*id as usize);
        std::iter::successors(above(&id), above).find(|id| record(id).is_some_and(is_repeated))
    }
}

/// Whether the subfields of a field have another number of values.
fn is_repeated(field: &FieldRecord) -> bool {
    field.array_size.is_some() || matches!(field.role, Role::Collection | Role::Variant)
}

/// Whether a source with these columns can be read as the projected field, ignoring subfields, which are checked
/// separately.
fn fits(
    projected: &FieldModel,
    seen: &FieldRecord,
    columns: &[ColumnType],
    classes: &[FieldModel],
) -> bool {
    let Ok(model) = FieldModel::from_type_name_with("", &projected.type_name, classes) else {
        // records and collections without a class, and classes that only their reader knows
        return projected.type_name == seen.type_name
            || (projected.type_name.is_empty()
                && matches!(seen.role, Role::Record | Role::Collection));
    };
    let is_class = classes
        .iter()
        .any(|class| class.type_name == model.type_name);
    if is_class && projected.type_name == seen.type_name {
        return true;
    }
    let below = model.subfields().iter().zip(projected.subfields());
    let is_mirrored = model.subfields().len() == projected.subfields().len()
        && below
            .clone()
            .all(|(a, b)| a.name == b.name && is_same(a, b, classes));
    let is_plain = seen.role == Role::Plain && seen.array_size.is_none();
    let is_pointer = seen.type_name.starts_with("std::unique_ptr<");
    let has_size = |size: u64| seen.role == Role::Plain && seen.array_size == Some(size);
    match &model.kind {
        FieldKind::Leaf(leaf) => {
            matches!(columns, [column] if is_plain && holds(*leaf, *column, &seen.type_name))
        }
        FieldKind::String => is_plain && matches!(columns, [_, ColumnType::Char]),
        FieldKind::Collection(_) => {
            let order = Order::of(&model.type_name);
            // items from a file may have any order
            let is_ordered = projected.is_ordered || order == Order::default();
            seen.role == Role::Collection
                && is_mirrored
                && (is_ordered || order == Order::of(&seen.type_name))
        }
        FieldKind::Optional(_) => is_mirrored && (is_pointer || seen.is_optional()),
        FieldKind::Array(size, _) => is_mirrored && has_size(*size) && columns.is_empty(),
        FieldKind::Bitset(size) => has_size(*size) && columns == [ColumnType::Bit],
        FieldKind::Record(_) => seen.role == Role::Record && (is_class || is_mirrored),
        FieldKind::Variant(_) => seen.role == Role::Variant && is_mirrored,
        FieldKind::Wrapper(_) => is_plain && columns.is_empty() && is_mirrored,
        FieldKind::Streamed | FieldKind::Projected { .. } => false,
    }
}

/// Whether a projected subfield has the type that the parent's type requires.
fn is_same(said: &FieldModel, projected: &FieldModel, classes: &[FieldModel]) -> bool {
    let known = FieldModel::from_type_name_with("", &projected.type_name, classes);
    known.map_or(said.type_name == projected.type_name, |known| {
        said.type_name == known.type_name
    })
}

/// Whether the type represents every number of a column, and ROOT reads it so.
fn holds(leaf: LeafModel, column: ColumnType, type_name: &str) -> bool {
    let is_byte = leaf.stored == Some(StoredAs::Column(ColumnType::Byte));
    if is_byte || column == ColumnType::Byte {
        return is_byte && column == ColumnType::Byte;
    }
    let found = DType::of_leaf(column, type_name);
    if column == ColumnType::Real32Quant {
        // fractions of a range are computed in the precision of the type
        return found == Some(leaf.dtype);
    }
    found.is_some_and(|found| {
        found.is_float() == leaf.dtype.is_float() && found.promote(leaf.dtype) == leaf.dtype
    })
}
