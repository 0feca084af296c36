//! Values on their way from Arrow arrays to columns: checked against the model, in one form for each shape.

use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer, OffsetBuffer};

use super::column::ColumnBuffer;
use super::model::Shape;
use crate::RNTupleError;

/// The values of a field, checked: of the shape's type, without anything missing.
#[derive(Debug)]
pub(super) enum Values {
    /// Little-endian elements of that many bytes.
    Leaf { bytes: Buffer, size: usize },
    /// Booleans.
    Bools(BooleanBuffer),
    /// Lists, texts and optional values: where they end.
    List { ends: Ends, item: Box<Values> },
    /// Lists of a fixed size.
    Array { size: usize, item: Box<Values> },
    /// Members in the order of the shape's.
    Record(Vec<Values>),
    /// For each value its alternative, counted from 1 (0: none), and the values of each in their order.
    Variant {
        tags: Vec<u8>,
        alternatives: Vec<Values>,
    },
}

/// Offsets of lists, one more than there are lists.
#[derive(Debug)]
pub(super) enum Ends {
    Narrow(OffsetBuffer<i32>),
    Wide(OffsetBuffer<i64>),
}

impl Ends {
    pub fn at(&self, index: usize) -> usize {
        match self {
            Self::Narrow(ends) => ends.get(index).map_or(0, |end| end.as_usize()),
            Self::Wide(ends) => ends.get(index).map_or(0, |end| end.as_usize()),
        }
    }
}

impl Values {
    /// Adds the values `from..to` to their columns. Nothing can be wrong with them any more.
    pub fn append(
        &self,
        shape: &Shape,
        from: usize,
        to: usize,
        columns: &mut [ColumnBuffer],
    ) -> Result<(), RNTupleError> {
        let wrong = || RNTupleError::internal("values of another shape than their field's");
        match (self, shape) {
            (Self::Leaf { bytes, size }, Shape::Leaf { column, .. }) => {
                let elements = bytes.get(from * size..to * size).ok_or_else(wrong)?;
                columns.get_mut(*column).ok_or_else(wrong)?.append(elements);
            }
            (Self::Bools(bools), Shape::Leaf { column, .. }) => {
                let bytes = (from..to).map(|i| u8::from(bools.value(i)));
                columns
                    .get_mut(*column)
                    .ok_or_else(wrong)?
                    .append_bools(bytes);
            }
            (
                Self::List { ends, item },
                Shape::List {
                    index, item: below, ..
                }
                | Shape::Optional { index, item: below },
            ) => {
                let column = columns.get_mut(*index).ok_or_else(wrong)?;
                match ends {
                    Ends::Narrow(ends) => {
                        let ends = ends.get(from..=to).ok_or_else(wrong)?;
                        column.append_ends(ends.iter().map(|&end| i64::from(end)));
                    }
                    Ends::Wide(ends) => {
                        let ends = ends.get(from..=to).ok_or_else(wrong)?;
                        column.append_ends(ends.iter().copied());
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
                columns.get_mut(*switch).ok_or_else(wrong)?.append_tags(own);
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

    /// Bytes of the values, about.
    pub fn n_bytes(&self) -> usize {
        match self {
            Self::Leaf { bytes, .. } => bytes.len(),
            Self::Bools(bools) => bools.len(),
            Self::List { ends, item } => {
                let n = match ends {
                    Ends::Narrow(ends) => ends.len(),
                    Ends::Wide(ends) => ends.len(),
                };
                8 * n + item.n_bytes()
            }
            Self::Array { item, .. } => item.n_bytes(),
            Self::Record(members) => members.iter().map(Self::n_bytes).sum(),
            Self::Variant { tags, alternatives } => {
                12 * tags.len() + alternatives.iter().map(Self::n_bytes).sum::<usize>()
            }
        }
    }
}
