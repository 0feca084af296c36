//! The schema description: fields, columns, alias columns, extra type information.

use super::column_type::ColumnType;
use super::cursor::{Cursor, SpecError};

/// Structural role of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the specification's names")]
pub enum Role {
    Plain,
    Collection,
    Record,
    Variant,
    Streamer,
    /// A role of a later version; the top-level field is skipped.
    Unknown(u16),
}

impl Role {
    fn from_code(code: u16) -> Self {
        match code {
            0 => Self::Plain,
            1 => Self::Collection,
            2 => Self::Record,
            3 => Self::Variant,
            4 => Self::Streamer,
            other => Self::Unknown(other),
        }
    }

    /// Lower-case name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Collection => "collection",
            Self::Record => "record",
            Self::Variant => "variant",
            Self::Streamer => "streamer",
            Self::Unknown(_) => "unknown",
        }
    }
}

/// Flags of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldFlags(pub u16);

impl FieldFlags {
    /// Whether it is a fixed-size array or a bitset.
    pub fn repetitive(self) -> bool {
        self.0 & 1 != 0
    }
    /// Whether it is a projected field.
    pub fn projected(self) -> bool {
        self.0 & 2 != 0
    }
    /// Whether it has TClass's checksum.
    pub fn has_type_checksum(self) -> bool {
        self.0 & 4 != 0
    }
    /// Whether it is a struct of arrays in memory.
    pub fn soa(self) -> bool {
        self.0 & 8 != 0
    }
}

/// The serialized record of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the specification's names")]
pub struct FieldRecord {
    pub field_version: u32,
    pub type_version: u32,
    pub parent_id: u32,
    pub role: Role,
    pub flags: FieldFlags,
    pub name: String,
    pub type_name: String,
    pub type_alias: String,
    pub description: String,
    pub array_size: Option<u64>,
    pub source_id: Option<u32>,
    pub type_checksum: Option<u32>,
}

impl FieldRecord {
    /// The type alias of an optional value whose type has no C++ name, because its item's type has none. It is not part
    /// of the specification: other readers see a collection without a class, with zero or one item.
    pub const UNTYPED_OPTIONAL: &str = "std::optional";

    /// Whether a collection has at most one item, and is read as an optional value.
    pub fn is_optional(&self) -> bool {
        self.type_name.starts_with("std::optional<")
            || (self.type_name.is_empty() && self.type_alias == Self::UNTYPED_OPTIONAL)
    }

    fn parse(list: &mut Cursor<'_>) -> Result<Self, SpecError> {
        let mut c = list.record("field record")?;
        let field_version = c.u32("field version")?;
        let type_version = c.u32("type version")?;
        let parent_id = c.u32("parent field id")?;
        let role = Role::from_code(c.u16("structural role")?);
        let flags = FieldFlags(c.u16("field flags")?);
        Ok(Self {
            field_version,
            type_version,
            parent_id,
            role,
            flags,
            name: c.string("field name")?,
            type_name: c.string("type name")?,
            type_alias: c.string("type alias")?,
            description: c.string("field description")?,
            array_size: flags
                .repetitive()
                .then(|| c.u64("array size"))
                .transpose()?,
            source_id: flags
                .projected()
                .then(|| c.u32("source field id"))
                .transpose()?,
            type_checksum: flags
                .has_type_checksum()
                .then(|| c.u32("type checksum"))
                .transpose()?,
        })
    }
}

/// Flags of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnFlags(pub u16);

impl ColumnFlags {
    /// Whether the first element's index is not zero.
    pub fn deferred(self) -> bool {
        self.0 & 1 != 0
    }
    /// Whether it has a value range.
    pub fn has_range(self) -> bool {
        self.0 & 2 != 0
    }
}

/// The serialized record of a physical column.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the specification's names")]
pub struct ColumnRecord {
    pub column_type: ColumnType,
    pub bits: u16,
    pub field_id: u32,
    pub flags: ColumnFlags,
    pub representation: u16,
    /// In elements; negative for deferred and suppressed.
    pub first_element: i64,
    pub range: Option<(f64, f64)>,
}

impl ColumnRecord {
    fn parse(list: &mut Cursor<'_>) -> Result<Self, SpecError> {
        let mut c = list.record("column record")?;
        let at = c.offset();
        let column_type = ColumnType::from_code(c.u16("column type")?);
        let bits = c.u16("bits on storage")?;
        let field_id = c.u32("column's field id")?;
        let flags = ColumnFlags(c.u16("column flags")?);
        let representation = c.u16("representation index")?;
        let first_element = if flags.deferred() {
            c.i64("first element index")?
        } else {
            0
        };
        let range = if flags.has_range() {
            Some((c.f64("min value")?, c.f64("max value")?))
        } else {
            None
        };
        if !matches!(column_type, ColumnType::Unknown(_)) && !column_type.allows_bits(bits) {
            return Err(SpecError::Unexpected {
                what: "bits on storage",
                offset: at,
                expected: format!("a width of {}", column_type.name()),
                found: bits.to_string(),
            });
        }
        if column_type == ColumnType::Real32Quant
            && !range.is_some_and(|(min, max)| min.is_finite() && max.is_finite() && min < max)
        {
            return Err(SpecError::Unexpected {
                what: "range of a Real32Quant column",
                offset: at,
                expected: "finite min < max".into(),
                found: format!("{range:?}"),
            });
        }
        Ok(Self {
            column_type,
            bits,
            field_id,
            flags,
            representation,
            first_element,
            range,
        })
    }

    /// Size of `n` elements in an uncompressed page; none if it overflows.
    pub fn packed_bytes(&self, n: u64) -> Option<u64> {
        n.checked_mul(u64::from(self.bits))
            .map(|bits| bits.div_ceil(8))
    }
}

/// An alias column of a projected field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AliasColumn {
    /// The column with the data.
    pub physical_id: u32,
    /// The projected field.
    pub field_id: u32,
}

/// Extra information about a type, such as serialized streamer infos.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtraTypeInfo {
    /// The kind of content; 0 for streamer info.
    pub content_id: u32,
    /// Version of the type.
    pub type_version: u32,
    /// Name of the type.
    pub type_name: String,
    /// The uninterpreted content.
    pub content: Vec<u8>,
}

/// Fields and columns of a header or a schema extension.
#[derive(Debug, Clone, Default)]
#[expect(missing_docs, reason = "the specification's names")]
pub struct SchemaDescription {
    pub fields: Vec<FieldRecord>,
    pub columns: Vec<ColumnRecord>,
    pub alias_columns: Vec<AliasColumn>,
    pub extra_type_infos: Vec<ExtraTypeInfo>,
}

impl SchemaDescription {
    /// Splits into the part in the header (with so many fields, columns and alias columns) and the extension, without
    /// type information.
    #[must_use]
    pub fn split_at(&self, (fields, columns, aliases): (usize, usize, usize)) -> (Self, Self) {
        fn parts<T: Clone>(all: &[T], n: usize) -> (Vec<T>, Vec<T>) {
            let (first, rest) = all.split_at(n.min(all.len()));
            (first.to_vec(), rest.to_vec())
        }
        let fields = parts(&self.fields, fields);
        let columns = parts(&self.columns, columns);
        let aliases = parts(&self.alias_columns, aliases);
        let part = |fields, columns, alias_columns| Self {
            fields,
            columns,
            alias_columns,
            extra_type_infos: Vec::new(),
        };
        (
            part(fields.0, columns.0, aliases.0),
            part(fields.1, columns.1, aliases.1),
        )
    }

    /// Parses the four lists.
    pub fn parse(c: &mut Cursor<'_>) -> Result<Self, SpecError> {
        Ok(Self {
            fields: c.items("field list", 8, FieldRecord::parse)?,
            columns: c.items("column list", 8, ColumnRecord::parse)?,
            alias_columns: c.items("alias column list", 8, |list| {
                let mut record = list.record("alias column record")?;
                let physical_id = record.u32("physical column id")?;
                Ok(AliasColumn {
                    physical_id,
                    field_id: record.u32("alias column's field id")?,
                })
            })?,
            extra_type_infos: c.items("extra type information list", 8, |list| {
                let mut record = list.record("extra type information")?;
                let content_id = record.u32("content identifier")?;
                let type_version = record.u32("type version")?;
                let type_name = record.string("type name")?;
                let length = record.u32("extra type information content")? as usize;
                let content = record
                    .bytes(length, "extra type information content")?
                    .to_vec();
                Ok(ExtraTypeInfo {
                    content_id,
                    type_version,
                    type_name,
                    content,
                })
            })?,
        })
    }
}
