//! Counters of trees, and their arrays.

use std::sync::Arc;

use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::{Part, ReadOptions, ReadSchema, read};
use femtobarn_rntuple::schema::DType;
use femtobarn_rntuple::write::FieldModel;
use femtobarn_ttree::Tree;
use femtobarn_ttree::model::BranchId;

use crate::ntuple::NTuple;

/// The arrays of one counter.
#[derive(Default)]
pub(super) struct Counted {
    pub branch: BranchId,
    /// The counter is to be converted, too.
    pub is_wanted: bool,
    /// Names in the tree and in the output, and the model of an array.
    pub members: Vec<(String, String, FieldModel)>,
}

impl Counted {
    /// Without its counter, one array is a vector of its own, and none is nothing.
    pub fn is_alone(&self) -> bool {
        !self.is_wanted && self.members.len() < 2
    }
}

/// Whether a counter is above the maximum of its leaf in some entry: arrays then have fewer items than it says.
pub(super) fn is_exceeded(ntuple: &NTuple, counter: &str) -> Result<bool, RNTupleError> {
    for reader in ntuple.readers() {
        let branches = Tree::model(reader).map_or(&[][..], |tree| tree.branches.as_slice());
        let named = branches.iter().zip(0..);
        let found = named.filter_map(|(branch, id)| Some((branch.leaves.first()?, id)));
        let Some((leaf, id)) = { found }.find(|(leaf, _)| leaf.name == counter) else {
            continue;
        };
        let (Some(maximum), Some(field)) = (leaf.maximum, Tree::field(reader, id)) else {
            continue;
        };
        let path = reader.descriptor().field_name(field).to_owned();
        let (schema, bindings) = ReadSchema::new(
            std::slice::from_ref(reader),
            Some(std::slice::from_ref(&path)),
        )?;
        let parts = bindings.into_iter().map(|binding| Part {
            reader: reader.clone(),
            binding: Arc::new(binding),
            start: 0,
            stop: reader.n_entries(),
        });
        let parts: Vec<Part> = parts.collect();
        let arrays = read(&schema, &parts, &ReadOptions::default())?;
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
