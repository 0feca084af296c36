//! The size of columns in memory, from metadata.

use super::plan::{Part, segments, slot_source};
use super::selection::ReadSchema;
use crate::RNTupleError;
use crate::schema::{SlotKind, SlotParent};

/// The size of a read's result in memory, from metadata; for partly read clusters, in proportion.
///
/// # Errors
/// If page lists cannot be read, or are inconsistent.
pub fn decoded_bytes(schema: &ReadSchema, parts: &[Part]) -> Result<u64, RNTupleError> {
    let mut total = 0u64;
    for part in parts {
        if let Some(storage) = part.reader.storage() {
            let costs = storage.costs(schema, part)?;
            let bytes = costs.iter().map(|cost| cost.bytes_decoded);
            total = bytes.fold(total, u64::saturating_add);
        }
    }
    let is_stored = |part: &&Part| part.reader.storage().is_none();
    let parts: Vec<Part> = parts.iter().filter(is_stored).cloned().collect();
    let parts = parts.as_slice();
    for segment in segments(parts)? {
        let Some(part) = parts.get(segment.part) else {
            continue;
        };
        for (index, slot) in schema.slots.as_slice().iter().enumerate() {
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
            let wanted = elements * u128::from(segment.n_entries())
                / u128::from(segment.summary.n_entries.max(1));
            let bytes = wanted.saturating_mul(size as u128);
            total = total.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
        }
    }
    Ok(total)
}
