//! From an Arrow schema to fields and columns, as ROOT would write them.

use arrow_schema::{DataType, Field, Schema};

use crate::RNTupleError;
use crate::spec::{
    ColumnFlags, ColumnRecord, ColumnType, FieldFlags, FieldRecord, Role, SchemaDescription,
};

/// What a field of the model is made of, for taking arrays apart.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shape {
    /// Numbers or booleans: one column.
    Leaf { column: usize },
    /// Strings: offsets and characters.
    String { index: usize, chars: usize },
    /// Lists of any length.
    List { index: usize, item: Box<Shape> },
    /// None or one.
    Optional { index: usize, item: Box<Shape> },
    /// Lists of a fixed size.
    Array { size: usize, item: Box<Shape> },
    /// Members.
    Record { members: Vec<Shape> },
}

/// The fields and columns of an ntuple that is to be written.
#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    pub schema: SchemaDescription,
    /// Names of the top-level fields, and what they are made of.
    pub tops: Vec<(String, Shape)>,
}

impl Model {
    /// The model of record batches with this schema. Columns are split if `compressed`, as ROOT's are.
    ///
    /// Fields that may be null become `std::optional`.
    ///
    /// # Errors
    /// If a type has no counterpart in RNTuple.
    pub fn new(schema: &Schema, compressed: bool) -> Result<Self, RNTupleError> {
        let mut builder = Builder {
            model: Self::default(),
            compressed,
        };
        for field in schema.fields() {
            let shape = builder.field(field, field.name(), None)?;
            builder.model.tops.push((field.name().clone(), shape));
        }
        Ok(builder.model)
    }
}

struct Builder {
    model: Model,
    compressed: bool,
}

/// A name in C++ of a type, and its column, plain and split.
fn number(data_type: &DataType) -> Option<(&'static str, ColumnType, ColumnType)> {
    use ColumnType as C;
    Some(match data_type {
        DataType::Boolean => ("bool", C::Bit, C::Bit),
        DataType::Int8 => ("std::int8_t", C::Int8, C::Int8),
        DataType::UInt8 => ("std::uint8_t", C::UInt8, C::UInt8),
        DataType::Int16 => ("std::int16_t", C::Int16, C::SplitInt16),
        DataType::UInt16 => ("std::uint16_t", C::UInt16, C::SplitUInt16),
        DataType::Int32 => ("std::int32_t", C::Int32, C::SplitInt32),
        DataType::UInt32 => ("std::uint32_t", C::UInt32, C::SplitUInt32),
        DataType::Int64 => ("std::int64_t", C::Int64, C::SplitInt64),
        DataType::UInt64 => ("std::uint64_t", C::UInt64, C::SplitUInt64),
        DataType::Float16 => ("float", C::Real16, C::Real16),
        DataType::Float32 => ("float", C::Real32, C::SplitReal32),
        DataType::Float64 => ("double", C::Real64, C::SplitReal64),
        _ => return None,
    })
}

/// The type in C++ of what an Arrow field holds; empty for records, which have none.
fn type_name(field: &Field) -> Option<String> {
    let inner = match field.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 => "std::string".to_owned(),
        DataType::Binary | DataType::LargeBinary => "std::vector<std::byte>".to_owned(),
        DataType::List(item) | DataType::LargeList(item) => match type_name(item)?.as_str() {
            "" => String::new(),
            item => format!("std::vector<{item}>"),
        },
        DataType::FixedSizeList(item, n) => match type_name(item)?.as_str() {
            "" => String::new(),
            item => format!("std::array<{item},{n}>"),
        },
        DataType::Struct(_) => String::new(),
        other => number(other)?.0.to_owned(),
    };
    Some(match (field.is_nullable(), inner.as_str()) {
        (true, "") | (false, _) => inner,
        (true, _) => format!("std::optional<{inner}>"),
    })
}

impl Builder {
    fn add(&mut self, name: &str, type_name: String, role: Role, parent: Option<u32>) -> u32 {
        let id = u32::try_from(self.model.schema.fields.len()).unwrap_or(u32::MAX);
        self.model.schema.fields.push(FieldRecord {
            field_version: 0,
            type_version: 0,
            parent_id: parent.unwrap_or(id),
            role,
            flags: FieldFlags(0),
            name: name.to_owned(),
            type_name,
            type_alias: String::new(),
            description: String::new(),
            array_size: None,
            source_id: None,
            type_checksum: None,
        });
        id
    }

    fn column(&mut self, field_id: u32, plain: ColumnType, split: ColumnType) -> usize {
        let column_type = if self.compressed { split } else { plain };
        self.model.schema.columns.push(ColumnRecord {
            column_type,
            bits: column_type.default_bits(),
            field_id,
            flags: ColumnFlags(0),
            representation: 0,
            first_element: 0,
            range: None,
        });
        self.model.schema.columns.len() - 1
    }

    fn index(&mut self, field_id: u32) -> usize {
        self.column(field_id, ColumnType::Index64, ColumnType::SplitIndex64)
    }

    /// Adds a field, with the option around it if it may be null.
    fn field(
        &mut self,
        field: &Field,
        name: &str,
        parent: Option<u32>,
    ) -> Result<Shape, RNTupleError> {
        let unsupported = || RNTupleError::Unwritable {
            name: field.name().clone(),
            reason: format!(
                "Arrow's {} has no counterpart in RNTuple",
                field.data_type()
            ),
        };
        let type_name = type_name(field).ok_or_else(unsupported)?;
        if !field.is_nullable() {
            return self.inner(field, name, type_name, parent);
        }
        if type_name.is_empty() {
            return Err(RNTupleError::Unwritable {
                name: field.name().clone(),
                reason:
                    "a record that may be null: ROOT has no optional of a record without a class"
                        .into(),
            });
        }
        let id = self.add(name, type_name.clone(), Role::Collection, parent);
        let index = self.index(id);
        let inner = type_name
            .strip_prefix("std::optional<")
            .and_then(|rest| rest.strip_suffix('>'));
        let item = self.inner(field, "_0", inner.unwrap_or_default().to_owned(), Some(id))?;
        Ok(Shape::Optional {
            index,
            item: Box::new(item),
        })
    }

    fn inner(
        &mut self,
        field: &Field,
        name: &str,
        type_name: String,
        parent: Option<u32>,
    ) -> Result<Shape, RNTupleError> {
        Ok(match field.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 => {
                let id = self.add(name, type_name, Role::Plain, parent);
                let index = self.index(id);
                let chars = self.column(id, ColumnType::Char, ColumnType::Char);
                Shape::String { index, chars }
            }
            DataType::Binary | DataType::LargeBinary => {
                let id = self.add(name, type_name, Role::Collection, parent);
                let index = self.index(id);
                let item = self.add("_0", "std::byte".into(), Role::Plain, Some(id));
                let chars = self.column(item, ColumnType::Byte, ColumnType::Byte);
                Shape::String { index, chars }
            }
            DataType::List(item) | DataType::LargeList(item) => {
                let id = self.add(name, type_name, Role::Collection, parent);
                let index = self.index(id);
                let item = Box::new(self.field(item, "_0", Some(id))?);
                Shape::List { index, item }
            }
            DataType::FixedSizeList(item, size) => {
                let id = self.add(name, type_name, Role::Plain, parent);
                let size = usize::try_from(*size).unwrap_or(0);
                if let Some(record) = self.model.schema.fields.get_mut(id as usize) {
                    record.flags = FieldFlags(1);
                    record.array_size = Some(size as u64);
                }
                let item = Box::new(self.field(item, "_0", Some(id))?);
                Shape::Array { size, item }
            }
            DataType::Struct(members) => {
                let id = self.add(name, type_name, Role::Record, parent);
                let members = members
                    .iter()
                    .map(|member| self.field(member, member.name(), Some(id)));
                Shape::Record {
                    members: members.collect::<Result<_, _>>()?,
                }
            }
            other => {
                let id = self.add(name, type_name, Role::Plain, parent);
                let (_, plain, split) =
                    number(other).unwrap_or(("", ColumnType::Byte, ColumnType::Byte));
                Shape::Leaf {
                    column: self.column(id, plain, split),
                }
            }
        })
    }
}
