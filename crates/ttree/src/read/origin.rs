//! The origin of wanted data.

use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::Part;
use femtobarn_rntuple::schema::DType;

use super::tree::TreeStorage;
use crate::descriptor::Owner;
use crate::interp::{Content, Number, Shape};
use crate::model::BranchId;

/// The origin of a slot's elements in one part.
#[derive(Debug, Clone, Copy)]
pub(super) enum Origin {
    /// A constant number of values per entry.
    Fixed {
        branch: BranchId,
        number: Number,
        each: usize,
    },
    /// A constant number of values per item; a counter has the number of items.
    Counted {
        branch: BranchId,
        counter: BranchId,
        number: Number,
        each: usize,
    },
    /// Offsets that follow from a counter.
    Offsets(BranchId),
    /// A column of a branch whose baskets are put together.
    Pieces { branch: BranchId, local: usize },
}

/// Determines the origin of a slot.
pub(super) fn origin(part: &Part, tree: &TreeStorage, slot: usize) -> Result<Origin, RNTupleError> {
    let wrong = || RNTupleError::internal("a column that no branch has");
    let column = *part.binding.columns(slot).first().ok_or_else(wrong)?;
    match tree.owner(column).ok_or_else(wrong)? {
        Owner::Counter(counter) => Ok(Origin::Offsets(counter)),
        Owner::Branch { branch, local } => {
            let data = tree.data(branch).ok_or_else(wrong)?;
            Ok(match (&data.content, &data.shape) {
                (Content::Fixed { .. }, shape) if shape.as_numbers().is_some() => {
                    let (number, each) = shape.as_numbers().ok_or_else(wrong)?;
                    Origin::Fixed {
                        branch,
                        number,
                        each,
                    }
                }
                (Content::Counted { counter, .. }, Shape::List { item, .. }) => {
                    let (number, each) = item.as_numbers().ok_or_else(wrong)?;
                    Origin::Counted {
                        branch,
                        counter: *counter,
                        number,
                        each,
                    }
                }
                _ => Origin::Pieces { branch, local },
            })
        }
    }
}

/// Types of the columns of a shape; none for lengths.
pub(super) fn column_types(shape: &Shape) -> Vec<Option<DType>> {
    match shape {
        Shape::Number(number) => vec![Some(number.dtype)],
        Shape::Text(_) => vec![None, Some(DType::UInt8)],
        Shape::Array { item, .. } => column_types(item),
        Shape::List { item, .. } => {
            let mut types = vec![None];
            types.extend(column_types(item));
            types
        }
        Shape::Record(record) => {
            let members = record.members.iter();
            members
                .flat_map(|member| column_types(&member.shape))
                .collect()
        }
        Shape::Hidden(_) => Vec::new(),
    }
}
