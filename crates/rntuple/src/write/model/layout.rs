//! Makes records and columns of the schema from fields, and the shapes that fill them.

use std::collections::{HashMap, HashSet};

use super::shape::{Limits, Order, Shape};
use super::{FieldKind, FieldModel, LeafModel, StoredAs, unwritable};
use crate::RNTupleError;
use crate::schema::DType;
use crate::spec::{
    ColumnFlags, ColumnRecord, ColumnType, FieldFlags, FieldRecord, Role, SchemaDescription,
};

/// The schema of an ntuple being written; it can grow.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layout {
    pub schema: SchemaDescription,
    /// Names of the top-level fields with data, and their shapes.
    pub tops: Vec<(String, Shape)>,
    /// For each top-level field, the number of columns up to its end.
    pub column_ends: Vec<usize>,
    /// Compression settings of each column.
    pub settings: Vec<u32>,
    /// Fields by path: names separated by dots.
    pub(super) paths: HashMap<String, u32>,
    /// Whether names that ROOT rejects are allowed, because the ntuple is never written.
    pub any_name: bool,
    /// Names of all top-level fields.
    pub names: HashSet<String>,
}

/// The column types of offsets, plain and split.
const INDEX: (ColumnType, ColumnType) = (ColumnType::Index64, ColumnType::SplitIndex64);

/// Where a field is added.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub parent: Option<u32>,
    pub path: &'a str,
    /// First element of a column: not zero for columns added later.
    pub first: i64,
}

impl Layout {
    /// An empty layout, for an ntuple that is never written.
    pub fn unwritten() -> Self {
        Self {
            any_name: true,
            ..Self::default()
        }
    }

    /// Adds top-level fields that begin at `entry`. Projected fields may precede their sources.
    ///
    /// # Errors
    /// If a name is taken, or a field cannot be written. No field is added then.
    pub fn extend(
        &mut self,
        fields: &[FieldModel],
        entry: u64,
        settings: u32,
    ) -> Result<(), RNTupleError> {
        let mut next = self.clone();
        let first = i64::try_from(entry).unwrap_or(i64::MAX);
        let place = |path| Place {
            parent: None,
            path,
            first,
        };
        for field in fields {
            next.check(&field.name)?;
            if !next.names.insert(field.name.clone()) {
                return Err(unwritable(&field.name, "another field has this name"));
            }
        }
        let is_projected = |field: &&FieldModel| matches!(field.kind, FieldKind::Projected { .. });
        // the sources of projected fields must exist
        for field in fields.iter().filter(|field| !is_projected(field)) {
            let shape = next.add(field, place(&field.name), settings)?;
            next.tops.push((field.name.clone(), shape));
            next.column_ends.push(next.schema.columns.len());
        }
        let classes = next.classes();
        for field in fields.iter().filter(is_projected) {
            next.project(field, place(&field.name), None, &classes)?;
        }
        *self = next;
        Ok(())
    }

    fn check(&self, name: &str) -> Result<(), RNTupleError> {
        if self.any_name {
            Ok(())
        } else {
            check_name(name)
        }
    }

    pub(super) fn record(&mut self, field: &FieldModel, role: Role, place: Place<'_>) -> u32 {
        let id = u32::try_from(self.schema.fields.len()).unwrap_or(u32::MAX);
        let has_checksum = if field.type_checksum.is_some() { 4 } else { 0 };
        let flags = has_checksum | if field.is_soa { 8 } else { 0 };
        self.schema.fields.push(FieldRecord {
            field_version: 0,
            type_version: field.type_version,
            parent_id: place.parent.unwrap_or(id),
            role,
            flags: FieldFlags(flags),
            name: field.name.clone(),
            type_name: field.type_name.clone(),
            type_alias: field.type_alias.clone(),
            description: field.description.clone(),
            array_size: None,
            source_id: None,
            type_checksum: field.type_checksum,
        });
        self.paths.insert(place.path.to_owned(), id);
        id
    }

    fn repeat(&mut self, id: u32, size: u64) {
        if let Some(record) = self.schema.fields.get_mut(id as usize) {
            record.flags.0 |= 1;
            record.array_size = Some(size);
        }
    }

    fn column(
        &mut self,
        field_id: u32,
        (plain, split): (ColumnType, ColumnType),
        first: i64,
        settings: u32,
    ) -> usize {
        let is_compressed = !settings.is_multiple_of(100);
        let column_type = if is_compressed { split } else { plain };
        self.schema.columns.push(ColumnRecord {
            column_type,
            bits: column_type.default_bits(),
            field_id,
            flags: ColumnFlags(u16::from(first != 0)),
            representation: 0,
            first_element: first,
            range: None,
        });
        self.settings.push(settings);
        self.schema.columns.len() - 1
    }

    fn add(
        &mut self,
        field: &FieldModel,
        place: Place<'_>,
        settings: u32,
    ) -> Result<Shape, RNTupleError> {
        let settings = field.compression.unwrap_or(settings);
        Ok(match &field.kind {
            FieldKind::Leaf(leaf) => {
                let id = self.record(field, Role::Plain, place);
                self.leaf(id, *leaf, place, settings)
            }
            FieldKind::String => {
                let id = self.record(field, Role::Plain, place);
                self.bytes(id, ColumnType::Char, place, settings)
            }
            FieldKind::Streamed => {
                let id = self.record(field, Role::Streamer, place);
                self.bytes(id, ColumnType::Byte, place, settings)
            }
            FieldKind::Collection(item) | FieldKind::Optional(item) => {
                let id = self.record(field, Role::Collection, place);
                let index = self.column(id, INDEX, place.first, settings);
                let item = Box::new(self.below(item, id, place, 0, settings)?);
                if matches!(field.kind, FieldKind::Optional(_)) {
                    // a pointer is read as a list, which cannot be a value of such items
                    let is_pointer = field.type_name.starts_with("std::unique_ptr<");
                    let as_lists = is_pointer && item.is_no_list();
                    Shape::Optional {
                        index,
                        item,
                        as_lists,
                    }
                } else {
                    let order = if field.is_ordered {
                        Order::default()
                    } else {
                        Order::of(&field.type_name)
                    };
                    Shape::List {
                        index,
                        item,
                        text: false,
                        order,
                    }
                }
            }
            FieldKind::Array(size, item) => {
                let id = self.record(field, Role::Plain, place);
                self.repeat(id, *size);
                let first = scaled(field, place.first, *size)?;
                let item = Box::new(self.below(item, id, place, first, settings)?);
                let size = usize::try_from(*size).unwrap_or(usize::MAX);
                Shape::Array { size, item }
            }
            FieldKind::Bitset(size) => {
                let id = self.record(field, Role::Plain, place);
                self.repeat(id, *size);
                let first = scaled(field, place.first, *size)?;
                let bits = (ColumnType::Bit, ColumnType::Bit);
                let column = self.column(id, bits, first, settings);
                let dtype = DType::Bool;
                let item = Box::new(Shape::Leaf {
                    column,
                    dtype,
                    limits: Limits::None,
                });
                let size = usize::try_from(*size).unwrap_or(usize::MAX);
                Shape::Array { size, item }
            }
            FieldKind::Record(members) => {
                let id = self.record(field, Role::Record, place);
                let mut shapes: Vec<(String, Shape)> = Vec::with_capacity(members.len());
                for member in members {
                    self.check(&member.name)?;
                    if shapes.iter().any(|(name, _)| *name == member.name) {
                        let reason = format!("two members are named {:?}", member.name);
                        return Err(unwritable(place.path, reason));
                    }
                    let shape = self.below(member, id, place, place.first, settings)?;
                    shapes.push((member.name.clone(), shape));
                }
                Shape::Record {
                    class: field.type_name.clone(),
                    members: shapes,
                }
            }
            FieldKind::Variant(alternatives) => {
                if alternatives.is_empty() || alternatives.len() > 125 {
                    let reason = format!("{} alternatives, not 1 to 125", alternatives.len());
                    return Err(unwritable(place.path, reason));
                }
                if field.type_name.is_empty() {
                    let reason = "a variant's alternatives have C++ types, and a record without a class has none: \
                                  declare its class";
                    return Err(unwritable(place.path, reason));
                }
                let id = self.record(field, Role::Variant, place);
                let switch = (ColumnType::Switch, ColumnType::Switch);
                let switch = self.column(id, switch, place.first, settings);
                let alternatives = alternatives
                    .iter()
                    .map(|alternative| self.below(alternative, id, place, 0, settings))
                    .collect::<Result<_, _>>()?;
                Shape::Variant {
                    switch,
                    alternatives,
                }
            }
            FieldKind::Wrapper(item) => {
                let id = self.record(field, Role::Plain, place);
                self.below(item, id, place, place.first, settings)?
            }
            FieldKind::Projected { .. } => {
                return Err(unwritable(
                    place.path,
                    "projected fields must be top-level fields",
                ));
            }
        })
    }

    fn below(
        &mut self,
        field: &FieldModel,
        parent: u32,
        above: Place<'_>,
        first: i64,
        settings: u32,
    ) -> Result<Shape, RNTupleError> {
        let path = format!("{}.{}", above.path, field.name);
        let place = Place {
            parent: Some(parent),
            path: &path,
            first,
        };
        self.add(field, place, settings)
    }

    /// Strings and streamed objects.
    fn bytes(&mut self, id: u32, bytes: ColumnType, place: Place<'_>, settings: u32) -> Shape {
        let index = self.column(id, INDEX, place.first, settings);
        let column = self.column(id, (bytes, bytes), 0, settings);
        let item = Box::new(Shape::Leaf {
            column,
            dtype: DType::UInt8,
            limits: Limits::None,
        });
        let text = bytes == ColumnType::Char;
        Shape::List {
            index,
            item,
            text,
            order: Order::default(),
        }
    }

    fn leaf(&mut self, id: u32, leaf: LeafModel, place: Place<'_>, settings: u32) -> Shape {
        let types = match leaf.stored {
            None => plain_and_split(leaf.dtype.plain_column()),
            Some(StoredAs::Column(column)) => plain_and_split(column),
            Some(StoredAs::Truncated(_)) => (ColumnType::Real32Trunc, ColumnType::Real32Trunc),
            Some(StoredAs::Quantized { .. }) => (ColumnType::Real32Quant, ColumnType::Real32Quant),
        };
        let column = self.column(id, types, place.first, settings);
        let record = self.schema.columns.get_mut(column);
        match (leaf.stored, record) {
            (Some(StoredAs::Truncated(bits)), Some(record)) => record.bits = bits,
            (Some(StoredAs::Quantized { bits, min, max }), Some(record)) => {
                record.bits = bits;
                record.range = Some((min, max));
                record.flags.0 |= 2;
            }
            _ => {}
        }
        Shape::Leaf {
            column,
            dtype: leaf.dtype,
            limits: limits(leaf),
        }
    }
}

/// Checks that ROOT accepts the name of a field or an ntuple.
pub(crate) fn check_name(name: &str) -> Result<(), RNTupleError> {
    if name.is_empty() {
        return Err(unwritable(name, "it has no name"));
    }
    // dots separate subfields, slashes directories
    let bad = name
        .chars()
        .find(|c| matches!(c, '.' | '/' | '\\' | ' ') || c.is_ascii_control());
    match bad {
        Some(c) => {
            let plain = |c: char| if c.is_alphanumeric() { c } else { '_' };
            let plain: String = name.chars().map(plain).collect();
            let reason = format!("names cannot contain {c:?}: rename it, for example to {plain:?}");
            Err(unwritable(name, reason))
        }
        None => Ok(()),
    }
}

fn scaled(field: &FieldModel, first: i64, size: u64) -> Result<i64, RNTupleError> {
    let size = i64::try_from(size)
        .ok()
        .filter(|&n| n > 0 && n <= i64::from(i32::MAX));
    size.and_then(|size| first.checked_mul(size))
        .ok_or_else(|| unwritable(&field.name, "its size is not a valid number of items"))
}

/// Which numbers can be represented in the storage.
pub(crate) fn limits(leaf: LeafModel) -> Limits {
    use ColumnType as C;
    match (leaf.dtype, leaf.stored) {
        (_, Some(StoredAs::Quantized { min, max, .. })) => Limits::Range(min, max),
        (DType::Float32 | DType::Float64, Some(StoredAs::Column(C::Real16))) => Limits::Half,
        (DType::Float64, Some(StoredAs::Truncated(_) | StoredAs::Column(C::Real32))) => {
            Limits::Single
        }
        _ => Limits::None,
    }
}

/// A column type and its split form, ROOT's default pairs.
pub(crate) fn plain_and_split(column: ColumnType) -> (ColumnType, ColumnType) {
    use ColumnType as C;
    let split = match column {
        C::Int16 => C::SplitInt16,
        C::UInt16 => C::SplitUInt16,
        C::Int32 => C::SplitInt32,
        C::UInt32 => C::SplitUInt32,
        C::Int64 => C::SplitInt64,
        C::UInt64 => C::SplitUInt64,
        C::Real32 => C::SplitReal32,
        C::Real64 => C::SplitReal64,
        C::Index32 => C::SplitIndex32,
        C::Index64 => C::SplitIndex64,
        other => other,
    };
    (column, split)
}
