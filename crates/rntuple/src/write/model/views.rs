//! Views of other fields, which take no place. A view is made only of what ROOT reads as its type, and without a loss: of
//! one that does not fit its columns, ROOT cannot build the model of the whole ntuple.

use super::layout::{Layout, Place};
use super::shape::Order;
use super::{FieldKind, FieldModel, LeafModel, StoredAs, unwritable};
use crate::RNTupleError;
use crate::schema::{CARDINALITY, DType};
use crate::spec::{AliasColumn, ColumnRecord, ColumnType, FieldRecord, Role};

impl Layout {
    /// Types that views may have in theirs and that only the ntuple knows: classes and enums; and lengths.
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

    /// Adds a view. What it shows must be repeated as often as the view: by `repeated`, the field that the view above shows,
    /// or one above that.
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
                "a field below a view is a view, too",
            ));
        };
        if field.compression.is_some() {
            let reason = format!(
                "its compression is asked for, but it is a view: it is that of what it shows, {source:?}"
            );
            return Err(unwritable(place.path, reason));
        }
        let Some(&source_id) = self.paths.get(source) else {
            let reason = format!("it shows {source:?}, which is not there");
            return Err(unwritable(place.path, reason));
        };
        let is_length = field.type_name.starts_with(CARDINALITY);
        let Some(seen) = self.schema.fields.get(source_id as usize).cloned() else {
            return Ok(());
        };
        if seen.source_id.is_some() || (is_length && seen.role != Role::Collection) {
            let reason =
                format!("it shows {source:?}, which is no collection with data of its own");
            return Err(unwritable(place.path, reason));
        }
        let above = self.repeated_above(source_id);
        if above != repeated && self.is_across(above) {
            let reason = format!(
                "it shows {source:?}, which is in an array or a variant: there are no views of what is in these, \
                 nor does ROOT make any"
            );
            return Err(unwritable(place.path, reason));
        }
        if above != repeated {
            let reason = format!(
                "it shows {source:?}, of which an entry has more or fewer values than a view of the type {:?}",
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
                "it shows {source:?}, a {:?}: there are no views of arrays and variants, nor does ROOT make any",
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
                "it shows {source:?}, {what}, which cannot be seen as a {:?} without a loss",
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

    /// The nearest field above one that has other numbers of values than what it is in.
    fn repeated_above(&self, id: u32) -> Option<u32> {
        let above = |id: &u32| {
            let parent = self.schema.fields.get(*id as usize)?.parent_id;
            (parent != *id).then_some(parent)
        };
        let record = |id: &u32| self.schema.fields.get(*id as usize);
        std::iter::successors(above(&id), above).find(|id| record(id).is_some_and(is_repeated))
    }
}

/// Whether what is below a field has another number of values.
fn is_repeated(field: &FieldRecord) -> bool {
    field.array_size.is_some() || matches!(field.role, Role::Collection | Role::Variant)
}

/// Whether a field with these columns of its own is seen as what the view is; those below it are looked at one by one.
fn fits(
    view: &FieldModel,
    seen: &FieldRecord,
    columns: &[ColumnType],
    classes: &[FieldModel],
) -> bool {
    let Ok(model) = FieldModel::from_type_name_with("", &view.type_name, classes) else {
        // records and collections without a class, and what only its own reader knows
        return view.type_name == seen.type_name
            || (view.type_name.is_empty() && matches!(seen.role, Role::Record | Role::Collection));
    };
    let is_class = classes
        .iter()
        .any(|class| class.type_name == model.type_name);
    if is_class && view.type_name == seen.type_name {
        return true;
    }
    let below = model.subfields().iter().zip(view.subfields());
    let is_mirrored = model.subfields().len() == view.subfields().len()
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
            // items that come from a file are in whatever order they were in
            let is_ordered = view.is_ordered || order == Order::default();
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

/// Whether a view has the type that the type of the view above it says.
fn is_same(said: &FieldModel, view: &FieldModel, classes: &[FieldModel]) -> bool {
    let known = FieldModel::from_type_name_with("", &view.type_name, classes);
    known.map_or(said.type_name == view.type_name, |known| {
        said.type_name == known.type_name
    })
}

/// Whether every number of a column is one of the type, and ROOT reads it as such.
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
