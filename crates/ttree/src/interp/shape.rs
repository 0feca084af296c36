//! What bytes mean: numbers, texts, lists, records, as they are stored and as they are shown.

use std::borrow::Cow;

use femtobarn_rntuple::schema::DType;

/// A number as stored and as shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Number {
    /// Type of the values that are shown.
    pub dtype: DType,
    /// How they are stored.
    pub wire: NumberWire,
}

/// How numbers are stored.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum NumberWire {
    /// As they are, big-endian.
    Plain,
    /// As `float`.
    Single,
    /// Four bytes that count steps from `low` on, `factor` of them to one.
    Steps { low: f64, factor: f64 },
    /// A byte of exponent, and two with sign and so many bits of mantissa.
    Truncated { bits: i32 },
    /// The bits of a TObject: two bytes follow if it is referenced.
    Bits,
}

impl Number {
    pub fn plain(dtype: DType) -> Self {
        Self {
            dtype,
            wire: NumberWire::Plain,
        }
    }

    /// Bytes as stored; none if that depends on the value.
    pub fn size(&self) -> Option<usize> {
        match self.wire {
            NumberWire::Plain => Some(self.dtype.size()),
            NumberWire::Single | NumberWire::Steps { .. } => Some(4),
            NumberWire::Truncated { .. } => Some(3),
            NumberWire::Bits => None,
        }
    }
}

/// How texts are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextWire {
    /// A byte of length, or 255 and four; `header`: a byte count and a version in front.
    Short { header: bool },
    /// The same without ever a header: a TString.
    Root,
    /// Four bytes of length.
    Long,
}

/// How lists are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListWire {
    /// Their number, then the items; `header`: a byte count and a version in front.
    Counted { header: bool },
    /// The same without ever a header: a TArray.
    Bare,
    /// Items up to the end of the entry.
    Rest,
    /// The same behind a byte that says whether there are any.
    Marked,
    /// As many as another branch says, behind a byte that says whether there are any.
    Elsewhere,
    /// As many as member `counter` of the record says, where the members of bases are counted in place of the base;
    /// `mark`: a byte in front says whether there are any; `header`: a byte count and a version are in front.
    Pointed {
        counter: usize,
        mark: bool,
        header: bool,
    },
    /// The upper right triangle of a symmetric matrix with as many rows as member `counter` says, row by row; all elements
    /// are shown.
    Triangle { counter: usize },
}

impl ListWire {
    /// The member that counts the items.
    pub fn counter(self) -> Option<usize> {
        match self {
            Self::Pointed { counter, .. } | Self::Triangle { counter } => Some(counter),
            _ => None,
        }
    }
}

/// What has no name and no column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hidden {
    /// A TObject.
    Object,
    /// So many bytes.
    Bytes(usize),
    /// The name of a class, and a zero behind it.
    ClassName,
}

/// How a record begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RecordWire {
    /// With its first member.
    Bare,
    /// With a byte count and the version of the class, which must be this one.
    Headed { version: i32, checksum: u32 },
    /// With or without such a header: with it, if its byte count is just that of the entry.
    Maybe { version: i32, checksum: u32 },
}

/// A member of a record.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Member {
    pub name: String,
    pub shape: Shape,
    /// Its members stand among those of the record.
    pub is_base: bool,
}

/// Members one after another.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Record {
    pub name: String,
    pub wire: RecordWire,
    pub members: Vec<Member>,
    /// Other versions of the class that the file describes, as far as they can be read.
    pub others: Vec<Version>,
    /// The versions and checksums of all that the file describes.
    pub described: Vec<(i32, u32)>,
}

/// The members that a class has in one version.
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

/// What bytes mean.
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
    /// Whether its members stand among those of the record also where these are stored one by one and counted.
    pub fn is_open_base(&self) -> bool {
        match &self.shape {
            // a TNamed is stored as a whole
            Shape::Record(base) => self.is_base && base.name != "TNamed",
            _ => false,
        }
    }
}

impl Shape {
    /// Bytes that it takes, if always the same.
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

    /// Number and repetitions, if it is numbers only.
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

    /// Fixed-size arrays of `self`, the outermost size first.
    pub fn in_arrays(self, sizes: &[u64]) -> Self {
        sizes.iter().rev().fold(self, |item, &n| Self::Array {
            n,
            item: Box::new(item),
        })
    }

    /// Whether values say of which version of a class they are, which may be one that is not described.
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

    /// Number of columns below it.
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

    /// The C++ type.
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
                // with its size
                (_, bitset) if bitset.starts_with("std::bitset<") => bitset.to_owned(),
                _ => format!("{container}<{}>", item.type_name()),
            },
            Self::Record(record) => record.name.clone(),
            Self::Hidden(_) => String::new(),
        }
    }
}
