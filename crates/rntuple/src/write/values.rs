//! Values between Arrow arrays and columns: checked against the model, in one form per shape.

use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer, OffsetBuffer};

use super::column::ColumnBuffer;
use super::model::Shape;
use super::waiting::Blocks;
use crate::RNTupleError;
use crate::schema::DType;

/// The checked values of a field: they have the shape's type, and none is missing.
#[derive(Debug)]
pub(crate) enum Values {
    /// Little-endian elements of this size.
    Leaf { bytes: Buffer, size: usize },
    /// Booleans.
    Bools(BooleanBuffer),
    /// Lists, strings and optional values, with the ends of lists.
    List { ends: Ends, item: Box<Values> },
    /// Lists of a fixed size.
    Array { size: usize, item: Box<Values> },
    /// Members in the order of the shape.
    Record(Vec<Values>),
    /// The alternative of each value, counted from 1 (0: no value), and the values of each alternative in
    /// order.
    Variant {
        tags: Vec<u8>,
        alternatives: Vec<Values>,
    },
}

/// Offsets of lists, one more than the number of lists. The first need not be zero; the items begin there.
#[derive(Debug)]
pub(crate) enum Ends {
    Narrow(OffsetBuffer<i32>),
    Wide(OffsetBuffer<i64>),
}

impl Ends {
    /// The start of a list among the items.
    pub fn at(&self, index: usize) -> usize {
        fn from_first<T: ArrowNativeType>(ends: &[T], index: usize) -> usize {
            let at = |index| ends.get(index).map_or(0, |end: &T| end.as_usize());
            at(index).saturating_sub(at(0))
        }
        match self {
            Self::Narrow(ends) => from_first(ends, index),
            Self::Wide(ends) => from_first(ends, index),
        }
    }
}

/// The columns of a field.
#[derive(Debug)]
pub(super) struct Columns<'a> {
    /// Index of its first column among all columns.
    pub first: usize,
    pub columns: &'a mut [ColumnBuffer],
    /// The memory of waiting elements.
    pub blocks: &'a Blocks,
}

impl<'a> Columns<'a> {
    /// A column, by its index among all columns.
    fn column(&mut self, at: usize) -> Result<(&mut ColumnBuffer, &'a Blocks), RNTupleError> {
        let own = at.checked_sub(self.first);
        let column = own.and_then(|at| self.columns.get_mut(at));
        let wrong = || RNTupleError::internal("a column that is not its field's");
        Ok((column.ok_or_else(wrong)?, self.blocks))
    }
}

impl Values {
    /// Adds the values `from..to` to their columns. They have been checked.
    pub(super) fn append(
        &self,
        shape: &Shape,
        from: usize,
        to: usize,
        columns: &mut Columns<'_>,
    ) -> Result<(), RNTupleError> {
        let wrong = || RNTupleError::internal("values of another shape than their field's");
        match (self, shape) {
            (Self::Leaf { bytes, size }, Shape::Leaf { column, .. }) => {
                let elements = bytes.get(from * size..to * size).ok_or_else(wrong)?;
                let (column, blocks) = columns.column(*column)?;
                column.append(blocks, elements)?;
            }
            (Self::Bools(bools), Shape::Leaf { column, .. }) => {
                if to > bools.len() {
                    return Err(wrong());
                }
                let own = bools.slice(from, to - from);
                let (column, blocks) = columns.column(*column)?;
                column.append_bools(blocks, &own)?;
            }
            (
                Self::List { ends, item },
                Shape::List {
                    index, item: below, ..
                }
                | Shape::Optional {
                    index, item: below, ..
                },
            ) => {
                let (column, blocks) = columns.column(*index)?;
                match ends {
                    Ends::Narrow(ends) => {
                        let ends = ends.get(from..=to).ok_or_else(wrong)?;
                        column.append_ends(blocks, ends.iter().map(|&end| i64::from(end)))?;
                    }
                    Ends::Wide(ends) => {
                        let ends = ends.get(from..=to).ok_or_else(wrong)?;
                        column.append_ends(blocks, ends.iter().copied())?;
                    }
                }
                item.append(below, ends.at(from), ends.at(to), columns)?;
            }
            (Self::Array { size, item }, Shape::Array { item: below, .. }) => {
                item.append(below, from * size, to * size, columns)?;
            }
            (
                Self::Record(members),
                Shape::Record {
                    members: shapes, ..
                },
            ) => {
                for (member, (_, shape)) in members.iter().zip(shapes) {
                    member.append(shape, from, to, columns)?;
                }
            }
            (
                Self::Variant { tags, alternatives },
                Shape::Variant {
                    switch,
                    alternatives: shapes,
                },
            ) => {
                let own = tags.get(from..to).ok_or_else(wrong)?;
                let (column, blocks) = columns.column(*switch)?;
                column.append_tags(blocks, own)?;
                for ((tag, values), shape) in (1u8..).zip(alternatives).zip(shapes) {
                    let count = |tags: &[u8]| tags.iter().filter(|&&t| t == tag).count();
                    let first = count(tags.get(..from).unwrap_or_default());
                    values.append(shape, first, first + count(own), columns)?;
                }
            }
            _ => return Err(wrong()),
        }
        Ok(())
    }

    /// Size of the values `from..to` when they wait; approximate for variants.
    pub fn n_bytes(&self, from: usize, to: usize) -> usize {
        let n = to.saturating_sub(from);
        match self {
            Self::Leaf { size, .. } => n * size,
            Self::Bools(_) => n,
            Self::List { ends, item } => 8 * n + item.n_bytes(ends.at(from), ends.at(to)),
            Self::Array { size, item } => item.n_bytes(from * size, to * size),
            Self::Record(members) => members.iter().map(|member| member.n_bytes(from, to)).sum(),
            Self::Variant { tags, alternatives } => {
                // as if the alternatives were distributed evenly
                let share = |values: &Self| {
                    let all = values.len();
                    let first = all * from / tags.len().max(1);
                    values.n_bytes(first, (all * to).div_ceil(tags.len().max(1)))
                };
                12 * n + alternatives.iter().map(share).sum::<usize>()
            }
        }
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            Self::Leaf { bytes, size } => bytes.len() / size.max(&1),
            Self::Bools(bools) => bools.len(),
            Self::List { ends, .. } => match ends {
                Ends::Narrow(ends) => ends.len() - 1,
                Ends::Wide(ends) => ends.len() - 1,
            },
            Self::Array { size, item } => item.len() / size.max(&1),
            Self::Record(members) => members.first().map_or(0, Self::len),
            Self::Variant { tags, .. } => tags.len(),
        }
    }

    /// No values of a field.
    pub fn none(shape: &Shape) -> Self {
        let item = |shape: &Shape| Box::new(Self::none(shape));
        match shape {
            Shape::Leaf {
                dtype: DType::Bool, ..
            } => Self::Bools(BooleanBuffer::new_unset(0)),
            Shape::Leaf { dtype, .. } => Self::Leaf {
                bytes: Buffer::default(),
                size: dtype.size(),
            },
            Shape::List { item: below, .. } | Shape::Optional { item: below, .. } => Self::List {
                ends: Ends::Wide(OffsetBuffer::new_empty()),
                item: item(below),
            },
            Shape::Array { size, item: below } => Self::Array {
                size: *size,
                item: item(below),
            },
            Shape::Record { members, .. } => {
                Self::Record(members.iter().map(|(_, shape)| Self::none(shape)).collect())
            }
            Shape::Variant { alternatives, .. } => Self::Variant {
                tags: Vec::new(),
                alternatives: alternatives.iter().map(Self::none).collect(),
            },
        }
    }
}
