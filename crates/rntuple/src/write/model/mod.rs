//! What an ntuple to be written is made of: fields, given by names of C++ types, by an Arrow schema, or one by one.

mod arrow;
mod cpp;
mod descriptor;
mod layout;
mod shape;
mod views;
mod words;

use crate::RNTupleError;
use crate::schema::DType;
use crate::spec::{ColumnType, FieldRecord};

pub(crate) use arrow::dtype_of;
pub use arrow::{Nulls, arrow_type_name};
pub use cpp::{is_same_type, normal_type_name};
pub(crate) use layout::{Layout, check_name, limits, plain_and_split};
pub(crate) use shape::{Limits, Order, Shape};
pub(crate) use words::in_words;

/// A field that is to be written, and those below it.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the specification's names")]
pub struct FieldModel {
    pub name: String,
    /// Of C++; empty for records and collections without a class.
    pub type_name: String,
    pub type_alias: String,
    pub description: String,
    pub type_version: u32,
    /// TClass's checksum of a class.
    pub type_checksum: Option<u32>,
    pub kind: FieldKind,
    /// Compression settings of its own columns, if they are others than the ntuple's.
    pub compression: Option<u32>,
    /// Of a set or a map: its items are given as they stood in a file, in an order that is not looked at.
    pub is_ordered: bool,
    /// Of a collection: in memory it is a struct of arrays, of the class that is its type.
    pub is_soa: bool,
}

/// Structure of a field.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldKind {
    /// Numbers, booleans, characters.
    Leaf(LeafModel),
    /// `std::string`: UTF-8, or whatever bytes there are.
    String,
    /// Any number of items: `std::vector` and its kin, sets, maps.
    Collection(Box<FieldModel>),
    /// An item or none.
    Optional(Box<FieldModel>),
    /// Always so many items.
    Array(u64, Box<FieldModel>),
    /// `std::bitset` of so many bits.
    Bitset(u64),
    /// Members; those that are named `:_0` and so on are base classes.
    Record(Vec<FieldModel>),
    /// A value of one of these types, or none.
    Variant(Vec<FieldModel>),
    /// What has the type of its one subfield on disk: enums and `std::atomic`.
    Wrapper(Box<FieldModel>),
    /// Objects as ROOT's streamers write them: bytes. The ntuple has the streamer infos of their classes.
    Streamed,
    /// A view of another field, given by its path: names from the top-level field down, with dots between. It has no data
    /// of its own; its subfields are views, too.
    Projected {
        /// What is seen.
        source: String,
        /// The role of the field that is seen, but with subfields that have sources of their own.
        subfields: Vec<FieldModel>,
    },
}

/// Numbers in memory and on disk.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LeafModel {
    /// Type of the values that are given.
    pub dtype: DType,
    /// How they are stored; none: as ROOT stores them by default.
    pub stored: Option<StoredAs>,
}

/// How values are stored.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StoredAs {
    /// As elements of this column type, as it is (the unsplit types become split where the column is compressed).
    Column(ColumnType),
    /// `Real32Trunc`: the upper bits of single precision, 10 to 31.
    Truncated(u16),
    /// `Real32Quant`: as that many bits' fraction of a range; values outside of it are errors, but for the bounds in single
    /// precision, which may be.
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
    /// A field without anything special.
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

    /// Numbers of a type, with its usual name in C++.
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

    /// A record of a class, or of none.
    pub fn record(
        name: impl Into<String>,
        class_name: impl Into<String>,
        members: Vec<Self>,
    ) -> Self {
        Self::new(name, class_name, FieldKind::Record(members))
    }

    /// `std::pair` of two members, `std::tuple` of others.
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

    /// `std::vector` of an item.
    #[must_use]
    pub fn vector(name: impl Into<String>, item: Self) -> Self {
        let type_name = wrapped("std::vector", &item.type_name);
        Self::new(
            name,
            type_name,
            FieldKind::Collection(Box::new(item.named("_0"))),
        )
    }

    /// `std::optional` of an item. Where the item's type has no name, it is a collection without a class for readers other
    /// than femtobarn.
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

    /// `std::array` of an item. Where the item's type has no name, RNTuple knows no array of it: then it is a collection.
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

    /// `std::variant` of alternatives.
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

    /// The number of items of each list of `source`, as `ROOT::RNTupleCardinality`.
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

    /// A view of another field.
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

    /// The fields right below.
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

    /// The field at a path below this one: names with dots between; of items and alternatives, `_0` may be left out.
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

    /// Stores all reals at and below this field in another way.
    ///
    /// # Errors
    /// If there are none, or the way does not exist.
    pub fn store_reals(&mut self, stored: StoredAs) -> Result<(), RNTupleError> {
        check_stored(&self.name, stored)?;
        if let FieldKind::Projected { source, .. } = &self.kind {
            let reason = format!(
                "its precision is asked for, but it is a view: it is that of what it shows, {source:?}"
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
                let reason = format!("{min} to {max} is no range of single precision");
                return Err(unwritable(&self.name, reason));
            }
            _ => {}
        }
        if n == 0 {
            return Err(unwritable(
                &self.name,
                format!(
                    "its precision is asked for, but {:?} has no reals",
                    self.type_name
                ),
            ));
        }
        Ok(())
    }

    /// Compresses the columns at and below this field in another way.
    pub fn compress(&mut self, settings: u32) {
        self.compression = Some(settings);
        self.subfields_mut()
            .iter_mut()
            .for_each(|field| field.compress(settings));
    }

    /// Whether an ntuple can have this field.
    ///
    /// # Errors
    /// If a name or a structure below it is none that RNTuple has.
    pub fn check(&self) -> Result<(), RNTupleError> {
        Layout::default().extend(std::slice::from_ref(self), 0, 505)
    }

    /// Makes `char` of all `std::int8_t` at and below this field.
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

/// The name of a template's instance; empty for what has no name.
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
                    format!("{min} to {max} is no range of values"),
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

/// What was made of each field, or one error that names all that cannot be written, with the reasons.
///
/// # Errors
/// If any cannot be written; at once if the error is another.
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
