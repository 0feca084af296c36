//! The meaning of bytes: numbers, strings, lists and records, in stored and presented form.

use std::borrow::Cow;

use femtobarn_rntuple::schema::DType;

/// A number in stored and presented form.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Number {
    /// Type of the presented values.
    pub dtype: DType,
    /// The storage.
    pub wire: NumberWire,
}

/// The storage of numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum NumberWire {
    /// Big-endian numbers of the same type.
    Plain,
    /// As `float`.
    Single,
    /// A 32-bit integer that counts steps above `low`, `factor` steps per unit.
    Steps { low: f64, factor: f64 },
    /// One byte of exponent, and two bytes with the sign and so many bits of the mantissa.
    Truncated { bits: i32 },
    /// The bits of a TObject: two more bytes follow if it is referenced.
    Bits,
}

impl Number {
    pub fn plain(dtype: DType) -> Self {
        Self {
            dtype,
            wire: NumberWire::Plain,
        }
    }

    /// Stored size in bytes; none if that depends on the value.
    pub fn size(&self) -> Option<usize> {
        match self.wire {
            NumberWire::Plain => Some(self.dtype.size()),
            NumberWire::Single | NumberWire::Steps { .. } => Some(4),
            NumberWire::Truncated { .. } => Some(3),
            NumberWire::Bits => None,
        }
    }
}

/// The storage of strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextWire {
    /// One length byte, or 255 and a 32-bit length. `header`: byte count and version come first.
    Short { header: bool },
    /// The same, never with a header: a TString.
    Root,
    /// A 32-bit length.
    Long,
}

/// The storage of lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListWire {
    /// Number of items, then the items. `header`: byte count and version come first.
    Counted { header: bool },
    /// The same, never with a header: a TArray.
    Bare,
    /// Items up to the end of the entry.
    Rest,
    /// The same, after a byte that states whether there are items.
    Marked,
    /// The number of items is in another branch. A byte states whether there are items.
    Elsewhere,
    /// The number of items is in member `counter` of the record, where members of bases count in place of the base.
    /// `mark`: a byte states whether there are items. `header`: byte count and version come first.
    Pointed {
        counter: usize,
        mark: bool,
        header: bool,
    },
    /// The upper right triangle of a symmetric matrix, row by row. Member `counter` has the number of rows. All elements
    /// are presented.
    Triangle { counter: usize },
}

impl ListWire {
    /// The member with the number of items.
    pub fn counter(self) -> Option<usize> {
        match self {
            Self::Pointed { counter, .. } | Self::Triangle { counter } => Some(counter),
            _ => None,
        }
    }
}

/// Stored parts without name and column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hidden {
    /// A TObject.
    Object,
    /// So many bytes.
    Bytes(usize),
    /// The name of a class, and a zero byte.
    ClassName,
}

/// The beginning of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RecordWire {
    /// No header: its first member.
    Bare,
    /// A byte count, and the version of the class, which must be this one.
    Headed { version: i32, checksum: u32 },
    /// With or without such a header: there is one if its byte count equals the size of the entry.
    Maybe { version: i32, checksum: u32 },
}

/// A member of a record.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Member {
    pub name: String,
    pub shape: Shape,
    /// Whether it is a base class, whose members count among those of the record.
    pub is_base: bool,
}

/// A sequence of members.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Record {
    pub name: String,
    pub wire: RecordWire,
    pub members: Vec<Member>,
    /// Other versions of the class in the file that can be read.
    pub others: Vec<Version>,
    /// Versions and checksums of all descriptions in the file.
    pub described: Vec<(i32, u32)>,
}

/// The members of a class in one version.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Version {
    pub version: i32,
    pub checksum: u32,
    pub members: Vec<Member>,
}

impl Record {
    /// A record without a header.
    pub fn bare(name: String, members: Vec<Member>) -> Self {
        Self {
            name,
            wire: RecordWire::Bare,
            members,
            others: Vec::new(),
            described: Vec::new(),
        }
    }
}

/// The meaning of bytes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shape {
    Number(Number),
    Text(TextWire),
    Array {
        n: u64,
        item: Box<Shape>,
    },
    List {
        wire: ListWire,
        item: Box<Shape>,
        /// The C++ container.
        container: Cow<'static, str>,
    },
    Record(Record),
    Hidden(Hidden),
}

impl Member {
    /// Whether its members count among those of the record even where members are stored and counted one by one.
    pub fn is_open_base(&self) -> bool {
        match &self.shape {
            // a TNamed is stored as a whole
            Shape::Record(base) => self.is_base && base.name != "TNamed",
            _ => false,
        }
    }
}

impl Shape {
    /// Size in bytes, if it is constant.
    pub fn size(&self) -> Option<usize> {
        match self {
            Self::Number(number) => number.size(),
            Self::Array { n, item } => usize::try_from(*n).ok()?.checked_mul(item.size()?),
            Self::Record(record) if record.wire == RecordWire::Bare => {
                let mut sum = 0usize;
                for member in &record.members {
                    sum = sum.checked_add(member.shape.size()?)?;
                }
                Some(sum)
            }
            Self::Hidden(Hidden::Bytes(n)) => Some(*n),
            _ => None,
        }
    }

    /// Number type and count, if it consists of equal numbers only.
    pub fn as_numbers(&self) -> Option<(Number, usize)> {
        match self {
            Self::Number(number) => Some((*number, 1)),
            Self::Array { n, item } => {
                let (number, inner) = item.as_numbers()?;
                Some((number, usize::try_from(*n).ok()?.checked_mul(inner)?))
            }
            _ => None,
        }
    }

    /// Fixed-size arrays of `self`, outermost dimension first.
    pub fn in_arrays(self, sizes: &[u64]) -> Self {
        sizes.iter().rev().fold(self, |item, &n| Self::Array {
            n,
            item: Box::new(item),
        })
    }

    /// Whether values state the version of their class, which may be one without a description.
    pub fn has_versions(&self) -> bool {
        match self {
            Self::Number(_) | Self::Text(_) | Self::Hidden(_) => false,
            Self::Array { item, .. } | Self::List { item, .. } => item.has_versions(),
            Self::Record(record) => {
                let mut members = record.members.iter();
                record.wire != RecordWire::Bare || members.any(|member| member.shape.has_versions())
            }
        }
    }

    /// Number of columns.
    pub fn n_columns(&self) -> usize {
        match self {
            Self::Number(_) => 1,
            Self::Text(_) => 2,
            Self::Array { item, .. } => item.n_columns(),
            Self::List { item, .. } => 1 + item.n_columns(),
            Self::Record(record) => record
                .members
                .iter()
                .map(|member| member.shape.n_columns())
                .sum(),
            Self::Hidden(_) => 0,
        }
    }

    /// The C++ type name.
    pub fn type_name(&self) -> String {
        match self {
            Self::Number(number) => number.dtype.type_name().to_owned(),
            Self::Text(_) => "std::string".to_owned(),
            Self::Array { n, item } => format!("std::array<{},{n}>", item.type_name()),
            Self::List {
                item, container, ..
            } => match (item.as_ref(), container.as_ref()) {
                (Self::Record(pair), "std::map" | "std::multimap" | "std::unordered_map") => {
                    let parts: Vec<String> = pair
                        .members
                        .iter()
                        .map(|member| member.shape.type_name())
                        .collect();
                    format!("{container}<{}>", parts.join(","))
                }
                // including its size
                (_, bitset) if bitset.starts_with("std::bitset<") => bitset.to_owned(),
                _ => format!("{container}<{}>", item.type_name()),
            },
            Self::Record(record) => record.name.clone(),
            Self::Hidden(_) => String::new(),
        }
    }
}
