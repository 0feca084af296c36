//! The sizes of columns, from metadata.

use super::plan::{Part, segments, slot_source};
use super::selection::ReadSchema;
use crate::RNTupleError;
use crate::schema::{SlotKind, SlotParent};

/// The size of a slot in a range of entries; for partly read clusters, in proportion.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SlotSize {
    /// Bytes in the file.
    pub stored: u64,
    /// Bytes in memory.
    pub decoded: u64,
}

impl SlotSize {
    fn add(&mut self, stored: u64, decoded: u64) {
        self.stored = self.stored.saturating_add(stored);
        self.decoded = self.decoded.saturating_add(decoded);
    }
}

/// The size of each slot.
///
/// # Errors
/// If page lists cannot be read, or are inconsistent.
pub fn slot_sizes(schema: &ReadSchema, parts: &[Part]) -> Result<Vec<SlotSize>, RNTupleError> {
    let mut out = vec![SlotSize::default(); schema.slots.len()];
    for part in parts {
        if let Some(storage) = part.reader.storage() {
            for (size, cost) in out.iter_mut().zip(storage.costs(schema, part)?) {
                let stored = cost.ranges.iter().map(|range| range.end - range.start);
                size.add(stored.fold(0, u64::saturating_add), cost.bytes_decoded);
            }
        }
    }
    let is_stored = |part: &&Part| part.reader.storage().is_none();
    let parts: Vec<Part> = parts.iter().filter(is_stored).cloned().collect();
    let parts = parts.as_slice();
    for segment in segments(parts)? {
        let Some(part) = parts.get(segment.part) else {
            continue;
        };
        let n_entries = u128::from(segment.summary.n_entries.max(1));
        let share = |n: u128| {
            let share = n.saturating_mul(u128::from(segment.n_entries())) / n_entries;
            u64::try_from(share).unwrap_or(u64::MAX)
        };
        let slots = schema.slots.as_slice().iter().enumerate();
        for ((index, slot), out) in slots.zip(&mut out) {
            let size = match slot.kind {
                SlotKind::Leaf(dtype) => dtype.size(),
                SlotKind::Index => 8,
                SlotKind::Switch(_) => 9,
            };
            let source = slot_source(part, &segment, index, slot)?;
            // elements before the first one of a column that was added later are zeros
            let entries = segment.summary.n_entries.saturating_mul(slot.multiplicity);
            let zeros = source.deferred && slot.parent == SlotParent::Entries;
            let zeros = if zeros { entries } else { 0 };
            let elements = u128::from(source.n_elements().max(zeros));
            let stored = source.pages.iter().map(|page| page.stored_size());
            let stored = stored.fold(0, u64::saturating_add);
            out.add(share(u128::from(stored)), share(elements * size as u128));
        }
    }
    Ok(out)
}

/// The size of a read's result in memory.
///
/// # Errors
/// As [`slot_sizes`].
pub fn decoded_bytes(schema: &ReadSchema, parts: &[Part]) -> Result<u64, RNTupleError> {
    let sizes = slot_sizes(schema, parts)?.into_iter();
    Ok(sizes.fold(0, |sum, size| sum.saturating_add(size.decoded)))
}
