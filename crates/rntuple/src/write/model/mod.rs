//! The model of an ntuple to be written: fields, given by C++ type names, by an Arrow schema, or one by one.

mod arrow;
mod cpp;
mod descriptor;
mod layout;
mod projected;
mod shape;
mod words;

use crate::RNTupleError;
use crate::schema::DType;
use crate::spec::{ColumnType, FieldRecord};

pub(crate) use arrow::dtype_of;
pub use arrow::{Nulls, arrow_type_name};
pub use cpp::{SYNONYMS, is_same_type, normal_type_name};
pub(crate) use layout::{Layout, check_name, limits, plain_and_split};
pub(crate) use shape::{Limits, Order, Shape};
pub(crate) use words::in_words;

/// A field to be written, with its subfields.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the specification's names")]
pub struct FieldModel {
    pub name: String,
    /// The C++ type; empty for records and collections without a class.
    pub type_name: String,
    pub type_alias: String,
    pub description: String,
    pub type_version: u32,
    /// The checksum of a class, from TClass.
    pub type_checksum: Option<u32>,
    pub kind: FieldKind,
    /// Compression settings of its own columns, if they differ from those of the ntuple.
    pub compression: Option<u32>,
    /// For a set or a map: whether its items come from a file in their order, which is not checked.
    pub is_ordered: bool,
    /// For a collection: whether it is a struct of arrays in memory, of the class that is its type.
    pub is_soa: bool,
}

/// The structure of a field.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldKind {
    /// Numbers, booleans, characters.
    Leaf(LeafModel),
    /// `std::string`: UTF-8, or any bytes.
    String,
    /// A variable number of items: `std::vector` and similar types, sets, maps.
    Collection(Box<FieldModel>),
    /// Zero or one item.
    Optional(Box<FieldModel>),
    /// A fixed number of items.
    Array(u64, Box<FieldModel>),
    /// `std::bitset` of this size.
    Bitset(u64),
    /// Members; those named `:_0` and so on are base classes.
    Record(Vec<FieldModel>),
    /// A value of one of these types, or no value.
    Variant(Vec<FieldModel>),
    /// A type with the same storage as its only subfield: enums and `std::atomic`.
    Wrapper(Box<FieldModel>),
    /// Objects serialized by ROOT's streamers. The ntuple has the streamer infos of their classes.
    Streamed,
    /// A projected field, whose source is given by its path: names from the top-level field down, separated by dots. It
    /// has no data of its own, and its subfields are projected as well.
    Projected {
        /// Path of the source.
        source: String,
        /// The subfields, which have their own sources; the role is that of the source.
        subfields: Vec<FieldModel>,
    },
}

/// Numbers in memory and on disk.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LeafModel {
    /// Type of the values given.
    pub dtype: DType,
    /// The storage; none for ROOT's default.
    pub stored: Option<StoredAs>,
}

/// The storage of values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StoredAs {
    /// Elements of this column type (plain types become split if the column is compressed).
    Column(ColumnType),
    /// `Real32Trunc`: the upper 10 to 31 bits of single precision.
    Truncated(u16),
    /// `Real32Quant`: a fraction of a range with this number of bits. Values outside are errors, except for the bounds
    /// rounded to single precision.
    Quantized {
        /// 1 to 32.
        bits: u16,
        /// Least value.
        min: f64,
        /// Largest value.
        max: f64,
    },
}

impl FieldModel {
    /// A field with default properties.
    pub fn new(name: impl Into<String>, type_name: impl Into<String>, kind: FieldKind) -> Self {
        Self {
            name: name.into(),
            type_name: type_name.into(),
            type_alias: String::new(),
            description: String::new(),
            type_version: 0,
            type_checksum: None,
            kind,
            compression: None,
            is_ordered: false,
            is_soa: false,
        }
    }

    /// Numbers of a type.
    pub fn leaf(name: impl Into<String>, type_name: impl Into<String>, dtype: DType) -> Self {
        let leaf = LeafModel {
            dtype,
            stored: None,
        };
        Self::new(name, type_name, FieldKind::Leaf(leaf))
    }

    /// Numbers of a type, with its usual C++ name.
    pub fn number(name: impl Into<String>, dtype: DType) -> Self {
        let mut field = Self::leaf(name, dtype.type_name(), dtype);
        if dtype == DType::Float16 {
            field.kind = FieldKind::Leaf(LeafModel {
                dtype,
                stored: Some(StoredAs::Column(ColumnType::Real16)),
            });
        }
        field
    }

    /// A record with or without a class.
    pub fn record(
        name: impl Into<String>,
        class_name: impl Into<String>,
        members: Vec<Self>,
    ) -> Self {
        Self::new(name, class_name, FieldKind::Record(members))
    }

    /// A `std::pair` of two members, or a `std::tuple` of others.
    pub fn tuple(name: impl Into<String>, members: Vec<Self>) -> Self {
        let types: Vec<&str> = members
            .iter()
            .map(|member| member.type_name.as_str())
            .collect();
        let class = match types.as_slice() {
            types if types.contains(&"") => String::new(),
            [a, b] => format!("std::pair<{a},{b}>"),
            types => format!("std::tuple<{}>", types.join(",")),
        };
        let members = members.into_iter().enumerate();
        let members = members.map(|(i, member)| member.named(format!("_{i}")));
        Self::record(name, class, members.collect())
    }

    /// A `std::vector` of an item.
    #[must_use]
    pub fn vector(name: impl Into<String>, item: Self) -> Self {
        let type_name = wrapped("std::vector", &item.type_name);
        Self::new(
            name,
            type_name,
            FieldKind::Collection(Box::new(item.named("_0"))),
        )
    }

    /// A `std::optional` of an item. If the item's type has no name, other readers see a collection without a class.
    #[must_use]
    pub fn optional(name: impl Into<String>, item: Self) -> Self {
        let type_name = wrapped("std::optional", &item.type_name);
        let is_untyped = type_name.is_empty();
        let kind = FieldKind::Optional(Box::new(item.named("_0")));
        let mut field = Self::new(name, type_name, kind);
        if is_untyped {
            field.type_alias = FieldRecord::UNTYPED_OPTIONAL.to_owned();
        }
        field
    }

    /// A `std::array` of an item. RNTuple has no arrays of types without a name, so for these it is a collection.
    #[must_use]
    pub fn array(name: impl Into<String>, size: u64, item: Self) -> Self {
        if item.type_name.is_empty() {
            return Self::vector(name, item);
        }
        let type_name = format!("std::array<{},{size}>", item.type_name);
        Self::new(
            name,
            type_name,
            FieldKind::Array(size, Box::new(item.named("_0"))),
        )
    }

    /// A `std::variant` of alternatives.
    #[must_use]
    pub fn variant(name: impl Into<String>, alternatives: Vec<Self>) -> Self {
        let named = alternatives.into_iter().enumerate();
        let alternatives: Vec<Self> = named
            .map(|(i, field)| field.named(format!("_{i}")))
            .collect();
        let names: Vec<&str> = alternatives
            .iter()
            .map(|field| field.type_name.as_str())
            .collect();
        let type_name = if names.contains(&"") {
            String::new()
        } else {
            format!("std::variant<{}>", names.join(","))
        };
        Self::new(name, type_name, FieldKind::Variant(alternatives))
    }

    /// The length of each list of `source`, as `ROOT::RNTupleCardinality`.
    #[must_use]
    pub fn cardinality(name: impl Into<String>, source: impl Into<String>, wide: bool) -> Self {
        let bits = if wide { 64 } else { 32 };
        Self::projected(
            name,
            format!("ROOT::RNTupleCardinality<std::uint{bits}_t>"),
            source,
            Vec::new(),
        )
    }

    /// A projected field.
    #[must_use]
    pub fn projected(
        name: impl Into<String>,
        type_name: impl Into<String>,
        source: impl Into<String>,
        subfields: Vec<Self>,
    ) -> Self {
        let kind = FieldKind::Projected {
            source: source.into(),
            subfields,
        };
        Self::new(name, type_name, kind)
    }

    /// The field with another name.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// The direct subfields.
    pub fn subfields(&self) -> &[Self] {
        match &self.kind {
            FieldKind::Leaf(_) | FieldKind::String | FieldKind::Streamed | FieldKind::Bitset(_) => {
                &[]
            }
            FieldKind::Collection(item)
            | FieldKind::Optional(item)
            | FieldKind::Array(_, item)
            | FieldKind::Wrapper(item) => std::slice::from_ref(item),
            FieldKind::Record(fields)
            | FieldKind::Variant(fields)
            | FieldKind::Projected {
                subfields: fields, ..
            } => fields,
        }
    }

    fn subfields_mut(&mut self) -> &mut [Self] {
        match &mut self.kind {
            FieldKind::Leaf(_) | FieldKind::String | FieldKind::Streamed | FieldKind::Bitset(_) => {
                &mut []
            }
            FieldKind::Collection(item)
            | FieldKind::Optional(item)
            | FieldKind::Array(_, item)
            | FieldKind::Wrapper(item) => std::slice::from_mut(item),
            FieldKind::Record(fields)
            | FieldKind::Variant(fields)
            | FieldKind::Projected {
                subfields: fields, ..
            } => fields,
        }
    }

    /// The field at a path below this one: names separated by dots; the `_0` of items and alternatives may be omitted.
    pub fn find_mut(&mut self, path: &[&str]) -> Option<&mut Self> {
        let Some((first, rest)) = path.split_first() else {
            return Some(self);
        };
        let is_item = matches!(
            self.kind,
            FieldKind::Collection(_)
                | FieldKind::Optional(_)
                | FieldKind::Array(..)
                | FieldKind::Wrapper(_)
        );
        let fields = self.subfields_mut();
        if fields.iter().any(|field| field.name == *first) {
            let found = fields.iter_mut().find(|field| field.name == *first);
            return found?.find_mut(rest);
        }
        match fields {
            [item] if is_item => item.find_mut(path),
            _ => None,
        }
    }

    /// Sets the storage of all floats at and below this field.
    ///
    /// # Errors
    /// If there are none, or the storage is invalid.
    pub fn store_reals(&mut self, stored: StoredAs) -> Result<(), RNTupleError> {
        check_stored(&self.name, stored)?;
        if let FieldKind::Projected { source, .. } = &self.kind {
            let reason = format!(
                "its precision is set, but it is a projected field: set that of its source {source:?}"
            );
            return Err(unwritable(&self.name, reason));
        }
        let (mut n, mut is_single) = (0, false);
        self.each_leaf(&mut |leaf| {
            if matches!(leaf.dtype, DType::Float32 | DType::Float64) {
                is_single |= leaf.dtype == DType::Float32;
                leaf.stored = Some(stored);
                n += 1;
            }
        });
        let most = f64::from(f32::MAX);
        match stored {
            StoredAs::Quantized { min, max, .. } if is_single && (min < -most || max > most) => {
                let reason = format!("{min} to {max} is not a valid range in single precision");
                return Err(unwritable(&self.name, reason));
            }
            _ => {}
        }
        if n == 0 {
            return Err(unwritable(
                &self.name,
                format!(
                    "its precision is set, but {:?} has no floats",
                    self.type_name
                ),
            ));
        }
        Ok(())
    }

    /// Sets the compression of the columns at and below this field.
    pub fn compress(&mut self, settings: u32) {
        self.compression = Some(settings);
        self.subfields_mut()
            .iter_mut()
            .for_each(|field| field.compress(settings));
    }

    /// Checks that an ntuple can have this field.
    ///
    /// # Errors
    /// If RNTuple does not support a name or a structure in it.
    pub fn check(&self) -> Result<(), RNTupleError> {
        Layout::default().extend(std::slice::from_ref(self), 0, 505)
    }

    /// Converts all `std::int8_t` at and below this field to `char`.
    pub fn make_chars(&mut self) {
        self.type_name = self.type_name.replace("std::int8_t", "char");
        if let FieldKind::Leaf(leaf) = &mut self.kind
            && leaf.dtype == DType::Int8
        {
            *leaf = LeafModel {
                dtype: DType::Int8,
                stored: Some(StoredAs::Column(ColumnType::Char)),
            };
        }
        self.subfields_mut().iter_mut().for_each(Self::make_chars);
    }

    fn each_leaf(&mut self, change: &mut dyn FnMut(&mut LeafModel)) {
        if let FieldKind::Leaf(leaf) = &mut self.kind {
            change(leaf);
        }
        self.subfields_mut()
            .iter_mut()
            .for_each(|field| field.each_leaf(change));
    }
}

/// The name of a template instance; empty for a type without a name.
fn wrapped(template: &str, inner: &str) -> String {
    if inner.is_empty() {
        String::new()
    } else {
        format!("{template}<{inner}>")
    }
}

pub(crate) fn check_stored(name: &str, stored: StoredAs) -> Result<(), RNTupleError> {
    let (column, bits) = match stored {
        StoredAs::Column(_) => return Ok(()),
        StoredAs::Truncated(bits) => (ColumnType::Real32Trunc, bits),
        StoredAs::Quantized { bits, min, max } => {
            let range = min.is_finite() && max.is_finite() && min < max;
            if !range || !(max - min).is_finite() {
                return Err(unwritable(
                    name,
                    format!("{min} to {max} is not a valid range"),
                ));
            }
            (ColumnType::Real32Quant, bits)
        }
    };
    if column.allows_bits(bits) {
        return Ok(());
    }
    let (least, most) = if column == ColumnType::Real32Trunc {
        (10, 31)
    } else {
        (1, 32)
    };
    let reason = format!("{} takes {least} to {most} bits, not {bits}", column.name());
    Err(unwritable(name, reason))
}

/// The result for each field, or one error that names all fields that cannot be written, with the reasons.
///
/// # Errors
/// If any cannot be written; immediately if it is another error.
pub fn all_or_none<T>(
    each: impl IntoIterator<Item = Result<T, RNTupleError>>,
) -> Result<Vec<T>, RNTupleError> {
    let mut made = Vec::new();
    let mut refused: Option<(String, String)> = None;
    for result in each {
        match result {
            Ok(field) => made.push(field),
            Err(RNTupleError::Unwritable { name, reason }) => match &mut refused {
                None => refused = Some((name, reason)),
                Some((_, reasons)) => {
                    reasons.push_str(&format!("; {name:?} cannot be written: {reason}"));
                }
            },
            Err(other) => return Err(other),
        }
    }
    match refused {
        None => Ok(made),
        Some((name, reason)) => Err(unwritable(&name, reason)),
    }
}

pub(crate) fn unwritable(name: &str, reason: impl Into<String>) -> RNTupleError {
    RNTupleError::Unwritable {
        name: name.to_owned(),
        reason: reason.into(),
    }
}
