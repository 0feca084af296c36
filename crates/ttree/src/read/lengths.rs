//! Lengths of arrays in the items of a collection, which are in another branch of the collection.

use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::array::SlotData;
use femtobarn_rntuple::encoding::promote;
use femtobarn_rntuple::read::{Part, ReadSchema};
use femtobarn_rntuple::schema::DType;

use super::engine::{Read, read};
use crate::model::BranchId;

/// The lengths in a range of entries.
#[derive(Debug, Clone, Default)]
pub(super) struct Lengths {
    /// The first entry.
    start: u64,
    /// The number of lengths before each entry, and the total.
    before: Vec<usize>,
    all: Vec<u64>,
}

impl Lengths {
    /// The lengths in an entry.
    pub fn of(&self, entry: u64) -> &[u64] {
        let at = entry.checked_sub(self.start);
        let at = at.and_then(|at| usize::try_from(at).ok());
        let before = at.and_then(|at| self.before.get(at..)?.first_chunk());
        let own = before.and_then(|&[from, to]| self.all.get(from..to));
        own.unwrap_or_default()
    }
}

impl Read<'_> {
    /// The field of a branch.
    fn field_name(&self, part_id: usize, branch: BranchId) -> String {
        let data = self.trees.get(part_id).and_then(|tree| tree.data(branch));
        let part = self.parts.get(part_id);
        let name = part.zip(data).map(|(part, data)| {
            let descriptor = part.reader.descriptor();
            descriptor.field_name(data.field).to_owned()
        });
        name.unwrap_or_default()
    }

    /// Reads the items of branch `lengths` in the entries that are read: the lengths of the arrays of
    /// branch `of`.
    pub fn lengths(
        &self,
        part_id: usize,
        branch: BranchId,
        of: BranchId,
    ) -> Result<Lengths, RNTupleError> {
        let Part {
            reader,
            start,
            stop,
            ..
        } = self.part(part_id)?;
        let data = self.trees.get(part_id).and_then(|tree| tree.data(branch));
        let Some(data) = data else {
            let name = &self.branch(part_id, branch)?.name;
            let reason = format!("the lengths of its arrays are in {name:?}, which cannot be read");
            return Err(reader.unsupported(&self.field_name(part_id, of), &reason));
        };
        let name = reader.descriptor().field_name(data.field).to_owned();
        let (schema, mut bindings) = ReadSchema::new(std::slice::from_ref(reader), Some(&[name]))?;
        let Some(binding) = bindings.pop() else {
            return Err(RNTupleError::internal("a branch without columns"));
        };
        let own = Part {
            reader: reader.clone(),
            binding,
            start: *start,
            stop: *stop,
        };
        let mut lengths = Lengths {
            start: *start,
            ..Lengths::default()
        };
        let found = read(&schema, &[own], self.options, self.progress);
        // arrays cannot be read without their lengths, whether the lengths are wanted or not
        let found = found.map_err(|error| match error {
            RNTupleError::Unsupported { name, reason, .. } => {
                let reason = format!("the lengths of its arrays are in {name:?}, where {reason}");
                reader.unsupported(&self.field_name(part_id, of), &reason)
            }
            other => other,
        })?;
        for slot in found {
            match slot {
                SlotData::Index { offsets } => {
                    let offsets = offsets.as_chunks::<8>().0.iter();
                    let offsets = offsets.map(|&offset| i64::from_ne_bytes(offset));
                    lengths.before = offsets
                        .map(|offset| usize::try_from(offset).unwrap_or(usize::MAX))
                        .collect();
                }
                SlotData::Leaf { dtype, values } => {
                    let mut wide = vec![0; values.len() / dtype.size() * 8];
                    promote(&values, dtype, DType::Int64, &mut wide);
                    let wide = wide.as_chunks::<8>().0.iter();
                    // negative lengths are zero, as for counters
                    lengths.all = wide
                        .map(|&n| u64::try_from(i64::from_le_bytes(n)).unwrap_or(0))
                        .collect();
                }
                SlotData::Switch { .. } => {}
            }
        }
        Ok(lengths)
    }
}
