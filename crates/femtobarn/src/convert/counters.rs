//! Counters of trees and their arrays.

use std::sync::Arc;

use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::array::Arrays;
use femtobarn_rntuple::read::Reader;
use femtobarn_rntuple::schema::{DType, FieldId};
use femtobarn_rntuple::write::FieldModel;
use femtobarn_ttree::Tree;
use femtobarn_ttree::model::{BranchId, Leaf};

use crate::ntuple::NTuple;
use crate::unreadable::read_fields;

/// The arrays of one counter.
#[derive(Default)]
pub(super) struct Counted {
    pub branch: BranchId,
    /// Whether the counter itself is converted.
    pub is_wanted: bool,
    pub members: Vec<CountedArray>,
}

/// An array with a counter.
pub(super) struct CountedArray {
    /// Its branch.
    pub branch: BranchId,
    /// The name of the column that reads it.
    pub column: String,
    /// Its name in the output.
    pub name: String,
    pub model: FieldModel,
}

impl Counted {
    /// Whether the counter is not converted and has only one array, which becomes a separate vector.
    pub fn is_alone(&self) -> bool {
        !self.is_wanted && self.members.len() < 2
    }
}

/// The reason why arrays become separate vectors, if they do: in some entry, their lengths differ from the counter.
pub(super) fn why_apart(
    ntuple: &NTuple,
    leaf: &Leaf,
    is_wanted: bool,
) -> Result<Option<String>, RNTupleError> {
    // other counters cannot exceed their maximum, and need not be read
    if leaf.is_unsigned && leaf.size < 4 && is_exceeded(ntuple, &leaf.name)? {
        return Ok(Some(format!(
            "its lengths differ from its counter {:?}",
            leaf.name
        )));
    }
    if leaf.is_unsigned || !is_wanted {
        return Ok(None);
    }
    // a negative length counts as zero
    Ok(match n_negative(ntuple, &leaf.name)? {
        0 => None,
        n => {
            let entries = if n == 1 { "entry" } else { "entries" };
            let name = &leaf.name;
            Some(format!(
                "{name:?} is negative in {n} {entries}, where the list is empty"
            ))
        }
    })
}

/// Whether a counter exceeds the maximum of its leaf in some entry: then the arrays have fewer items than the counter
/// says.
fn is_exceeded(ntuple: &NTuple, counter: &str) -> Result<bool, RNTupleError> {
    for reader in ntuple.readers() {
        let Some((Some(maximum), field)) =
            find(reader, counter).map(|(branch, field)| (maximum(reader, branch), field))
        else {
            continue;
        };
        let arrays = values(reader, field)?;
        let is_above = |value: u64| i64::try_from(value).is_ok_and(|value| value > maximum);
        let exceeds = match arrays.leaf(0) {
            Some((DType::UInt8, values)) => values.iter().any(|&value| is_above(value.into())),
            Some((DType::UInt16, values)) => {
                let mut values = values.as_chunks::<2>().0.iter();
                values.any(|&value| is_above(u16::from_le_bytes(value).into()))
            }
            _ => false,
        };
        if exceeds {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Number of entries with a negative counter.
fn n_negative(ntuple: &NTuple, counter: &str) -> Result<usize, RNTupleError> {
    let mut n = 0;
    for reader in ntuple.readers() {
        let Some((_, field)) = find(reader, counter) else {
            continue;
        };
        let arrays = values(reader, field)?;
        if let Some((dtype, values)) = arrays.leaf(0)
            && matches!(
                dtype,
                DType::Int8 | DType::Int16 | DType::Int32 | DType::Int64
            )
        {
            let last_bytes = values.iter().skip(dtype.size() - 1).step_by(dtype.size());
            n += last_bytes.filter(|&&byte| byte & 0x80 != 0).count();
        }
    }
    Ok(n)
}

/// The branch of a counter in a file, and its field.
fn find(reader: &Reader, counter: &str) -> Option<(BranchId, FieldId)> {
    let tree = Tree::model(reader)?;
    // members of objects may have the same name
    let mut ids = tree.top_level.iter().copied().chain(0..tree.branches.len());
    let leaf = |id: BranchId| tree.branch(id)?.leaves.first();
    let id = ids.find(|&id| leaf(id).is_some_and(|leaf| leaf.name == counter))?;
    Some((id, Tree::field(reader, id)?))
}

/// The largest value of a counter, according to the file.
fn maximum(reader: &Reader, counter: BranchId) -> Option<i64> {
    Tree::filling(reader)?.contents(counter).maximum
}

/// All values of a field of a file.
fn values(reader: &Arc<Reader>, field: FieldId) -> Result<Arrays, RNTupleError> {
    read_fields(reader, &[field], 0..reader.n_entries())
}
