//! The encoding of values.

use crate::RNTupleError;
use crate::schema::DType;
use crate::write::{Shape, unwritable};

/// The encoding of a value.
#[derive(Debug, Clone)]
pub enum Plan {
    /// A number, little-endian.
    Leaf(DType),
    /// An 8-byte length, and as many bytes of UTF-8.
    Text,
    /// An 8-byte length, and as many items.
    List(Box<Plan>),
    /// A byte 0 or 1, and the item if it is 1.
    Optional(Box<Plan>),
    /// A fixed number of items.
    Array(usize, Box<Plan>),
    /// The members, one after another; if the record has a fixed size, at the offsets of a C++ compiler.
    Record(Record),
    /// A byte: 0, or the alternative counted from 1; then its value.
    Variant(Vec<Plan>),
}

/// A record.
#[derive(Debug, Clone)]
pub struct Record {
    /// The class name.
    pub class: String,
    /// The names of the members; none for a tuple.
    pub names: Option<Vec<String>>,
    /// The members.
    pub members: Vec<Plan>,
    /// Size and member offsets, if all members have a fixed size.
    pub fixed: Option<(Fixed, Vec<usize>)>,
}

/// Size and alignment of a type with a fixed size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fixed {
    /// Size in bytes.
    pub size: usize,
    /// Alignment in bytes.
    pub align: usize,
}

impl Plan {
    /// The plan of a shape. `path` names it in messages.
    pub(super) fn new(shape: &Shape, path: &str) -> Result<Self, RNTupleError> {
        Ok(match shape {
            Shape::Leaf { dtype, .. } => Self::Leaf(*dtype),
            Shape::List { text: true, .. } => Self::Text,
            Shape::List { item, .. } => {
                let item = Self::new(item, path)?;
                if item.least() == 0 {
                    let reason = "lists of items of size zero cannot be stored as a product";
                    return Err(unwritable(path, reason));
                }
                Self::List(Box::new(item))
            }
            Shape::Optional { item, .. } => Self::Optional(Box::new(Self::new(item, path)?)),
            Shape::Array { size, item } => {
                let item = Self::new(item, path)?;
                if item
                    .fixed()
                    .and_then(|fixed| fixed.size.checked_mul(*size))
                    .is_none()
                    && item.fixed().is_some()
                {
                    return Err(unwritable(path, "its arrays are too long"));
                }
                Self::Array(*size, Box::new(item))
            }
            Shape::Record { class, members } => Self::record(class, members, path)?,
            Shape::Variant { alternatives, .. } => {
                let alternatives = alternatives.iter().map(|shape| Self::new(shape, path));
                Self::Variant(alternatives.collect::<Result<_, _>>()?)
            }
        })
    }

    fn record(class: &str, members: &[(String, Shape)], path: &str) -> Result<Self, RNTupleError> {
        let plan = |(name, shape): &(String, Shape)| Self::new(shape, &format!("{path}.{name}"));
        let plans = members.iter().map(plan).collect::<Result<Vec<_>, _>>()?;
        let is_tuple = members
            .iter()
            .enumerate()
            .all(|(at, (name, _))| *name == format!("_{at}"));
        let names = members.iter().map(|(name, _)| name.clone()).collect();
        Ok(Self::Record(Record {
            class: class.into(),
            names: (!is_tuple).then_some(names),
            fixed: in_memory(&plans),
            members: plans,
        }))
    }

    /// Size and alignment, if all values have the same size.
    pub fn fixed(&self) -> Option<Fixed> {
        match self {
            Self::Leaf(dtype) => Some(Fixed {
                size: dtype.size(),
                align: dtype.size(),
            }),
            Self::Array(n, item) => {
                let item = item.fixed()?;
                let size = item.size.checked_mul(*n)?;
                Some(Fixed { size, ..item })
            }
            Self::Record(record) => record.fixed.as_ref().map(|(fixed, _)| *fixed),
            Self::Text | Self::List(_) | Self::Optional(_) | Self::Variant(_) => None,
        }
    }

    /// The smallest size of a value.
    pub fn least(&self) -> usize {
        if let Some(fixed) = self.fixed() {
            return fixed.size;
        }
        match self {
            Self::Text | Self::List(_) => 8,
            Self::Optional(_) | Self::Variant(_) => 1,
            Self::Array(n, item) => n.saturating_mul(item.least()),
            Self::Record(record) => {
                let each = record.members.iter().map(Self::least);
                each.fold(0, usize::saturating_add)
            }
            Self::Leaf(_) => 0,
        }
    }
}

/// Size and member offsets of a record in memory, as compilers lay out a struct on x86-64 and AArch64 (System V ABI:
/// each member at the next multiple of its alignment; the size is a multiple of the largest alignment).
fn in_memory(members: &[Plan]) -> Option<(Fixed, Vec<usize>)> {
    let mut all = Fixed { size: 0, align: 1 };
    let mut places = Vec::with_capacity(members.len());
    for member in members {
        let fixed = member.fixed()?;
        let place = all.size.checked_next_multiple_of(fixed.align)?;
        places.push(place);
        all.size = place.checked_add(fixed.size)?;
        all.align = all.align.max(fixed.align);
    }
    // a record without members has one byte
    all.size = all.size.max(1).checked_next_multiple_of(all.align)?;
    Some((all, places))
}
