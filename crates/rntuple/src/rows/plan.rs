//! Where the parts of a value lie.

use crate::RNTupleError;
use crate::schema::DType;
use crate::write::{Shape, unwritable};

/// The parts of a value.
#[derive(Debug, Clone)]
pub enum Plan {
    /// A number, little-endian.
    Leaf(DType),
    /// A number of 8 bytes: how many, and so many bytes of UTF-8.
    Text,
    /// A number of 8 bytes: how many, and so many items.
    List(Box<Plan>),
    /// A byte that is 0 or 1, and the item if it is 1.
    Optional(Box<Plan>),
    /// So many items.
    Array(usize, Box<Plan>),
    /// The members, each behind the other; of one that has a size, where a compiler of C++ would put them.
    Record(Record),
    /// A byte: 0, or which alternative counted from 1, and its value.
    Variant(Vec<Plan>),
}

/// A record.
#[derive(Debug, Clone)]
pub struct Record {
    /// The name of its class.
    pub class: String,
    /// The names of its members; none of a tuple.
    pub names: Option<Vec<String>>,
    /// Its members.
    pub members: Vec<Plan>,
    /// If all members have a size, where they lie.
    pub fixed: Option<(Fixed, Vec<usize>)>,
}

/// The size of what has one, and what its place must be a multiple of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fixed {
    /// Bytes.
    pub size: usize,
    /// The multiple.
    pub align: usize,
}

impl Plan {
    /// That of a shape. `path` names it in messages.
    pub(super) fn new(shape: &Shape, path: &str) -> Result<Self, RNTupleError> {
        Ok(match shape {
            Shape::Leaf { dtype, .. } => Self::Leaf(*dtype),
            Shape::List { text: true, .. } => Self::Text,
            Shape::List { item, .. } => {
                let item = Self::new(item, path)?;
                if item.least() == 0 {
                    let reason = "lists of items without bytes cannot be stored as a product";
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

    /// Its size, if all values have the same.
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

    /// How many bytes a value has at least.
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

/// The size of a record in memory and the places of its members, as compilers lay out a struct on x86-64 and AArch64
/// (System V ABI: each at the next multiple of its alignment, and the size a multiple of the largest).
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
    // One without members has a byte of its own.
    all.size = all.size.max(1).checked_next_multiple_of(all.align)?;
    Some((all, places))
}
