//! The columns of a lazy read: their names in the record of accesses, and which are fetched together before the record
//! knows anything.

use std::collections::HashMap;
use std::sync::Arc;

use super::accesses::Accesses;
use super::plan::Part;
use super::reader::Reader;
use super::selection::ReadSchema;
use super::sizes::{SlotSize, decoded_bytes};
use crate::RNTupleError;
use crate::schema::{FieldId, Slot, SlotId, SlotKind, SlotParent};

/// The columns of a lazy read, shared by its steps.
#[derive(Debug)]
pub struct LazyColumns {
    schema: Arc<ReadSchema>,
    names: Vec<String>,
    by_name: HashMap<String, SlotId>,
    groups: Vec<Group>,
    /// How many arrays a slot is part of.
    uses: Vec<usize>,
}

/// Columns that are likely to be touched together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Group {
    /// The first slot.
    first: SlotId,
    /// Whether they are in the same collection; otherwise their names begin alike.
    is_collection: bool,
}

impl LazyColumns {
    /// The columns of a schema; `reader` is the first file, which has named its fields.
    pub fn new(schema: Arc<ReadSchema>, reader: &Reader) -> Self {
        let names = names(&schema, reader);
        let by_name = names.iter().cloned().zip(0..).collect();
        let groups = groups(&schema, &names);
        let mut uses = vec![0; names.len()];
        for (_, node) in &schema.columns {
            node.slots(&mut |slot| {
                if let Some(n) = uses.get_mut(slot) {
                    *n += 1;
                }
            });
        }
        Self {
            schema,
            names,
            by_name,
            groups,
            uses,
        }
    }

    /// The schema of the read.
    pub fn schema(&self) -> &Arc<ReadSchema> {
        &self.schema
    }

    /// The name of a slot in the record.
    pub fn name(&self, slot: SlotId) -> &str {
        self.names.get(slot).map_or("", String::as_str)
    }

    /// Marks the slots with these names, and their parents. Names that the read does not have are ignored.
    pub(super) fn mark(&self, names: &[String], marks: &mut [bool]) {
        for name in names {
            if let Some(&slot) = self.by_name.get(name) {
                self.schema.slots.mark_with_parents(slot, marks);
            }
        }
    }

    /// How many touches each slot is kept for.
    pub(super) fn uses(&self) -> &[usize] {
        &self.uses
    }

    /// The size in memory of what steps touch; of everything if nothing was learned yet.
    ///
    /// # Errors
    /// As [`slot_sizes`].
    pub fn decoded_bytes(&self, accesses: &Accesses, parts: &[Part]) -> Result<u64, RNTupleError> {
        let Some(main) = accesses.main() else {
            return decoded_bytes(&self.schema, parts);
        };
        let mut marks = vec![false; self.names.len()];
        self.mark(&main, &mut marks);
        let ids = marks.iter().enumerate().filter(|(_, mark)| **mark);
        let ids: Vec<SlotId> = ids.map(|(id, _)| id).collect();
        let parts: Vec<Part> = parts.iter().map(|part| part.only(&ids)).collect();
        decoded_bytes(&self.schema.only(&ids), &parts)
    }

    /// Marks what to fetch with the first column that a first step touches: everything if it is small, else its
    /// collection, and columns with one value per entry as far as they are small together.
    pub(super) fn mark_first(
        &self,
        slot: SlotId,
        sizes: &[SlotSize],
        small: u64,
        marks: &mut [bool],
    ) {
        let total = sizes.iter().map(size_of);
        if total.fold(0, u64::saturating_add) <= small {
            marks.fill(true);
            return;
        }
        let left = self.mark_collection(slot, sizes, small, marks);
        let slots = self.schema.slots.as_slice().iter().enumerate();
        let is_single = |slot: &Slot| slot.parent == SlotParent::Entries && slot.multiplicity == 1;
        let singles = slots.filter(|(_, slot)| is_single(slot));
        self.mark_small(singles.map(|(id, _)| id).collect(), left, sizes, marks);
    }

    /// Marks a column with its collection; of columns that only have the beginning of their name in common, as many as are
    /// small together. Returns how many bytes may still be added.
    pub(super) fn mark_collection(
        &self,
        slot: SlotId,
        sizes: &[SlotSize],
        small: u64,
        marks: &mut [bool],
    ) -> u64 {
        self.schema.slots.mark_with_parents(slot, marks);
        let Some(own) = self.groups.get(slot) else {
            return small;
        };
        let others = self.groups.iter().enumerate();
        let others = others.filter(|(_, group)| *group == own);
        let others = others.map(|(id, _)| id).collect();
        let most = if own.is_collection { u64::MAX } else { small };
        self.mark_small(others, most, sizes, marks).min(small)
    }

    /// Marks slots, the smallest first, as far as they fit; returns how many bytes are left.
    fn mark_small(
        &self,
        mut slots: Vec<SlotId>,
        mut left: u64,
        sizes: &[SlotSize],
        marks: &mut [bool],
    ) -> u64 {
        let size_of = |id: SlotId| sizes.get(id).map_or(0, size_of);
        slots.sort_by_key(|&id| size_of(id));
        for id in slots {
            let Some(rest) = left.checked_sub(size_of(id)) else {
                break;
            };
            left = rest;
            self.schema.slots.mark_with_parents(id, marks);
        }
        left
    }
}

/// What decides whether a column is small: fetching and decoding both take time.
fn size_of(size: &SlotSize) -> u64 {
    size.stored.max(size.decoded)
}

/// Names of slots: paths of fields. Those of offsets end with `[]`, those of variants with `?`.
fn names(schema: &ReadSchema, reader: &Reader) -> Vec<String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let slots = schema.slots.as_slice().iter();
    let names = slots.map(|slot| {
        let mut name = path_of(reader, slot.field);
        match slot.kind {
            SlotKind::Leaf(_) => {}
            SlotKind::Index => name.push_str("[]"),
            SlotKind::Switch(_) => name.push('?'),
        }
        let n = seen.entry(name.clone()).or_default();
        *n += 1;
        match *n {
            1 => name,
            n => format!("{name}#{n}"),
        }
    });
    names.collect()
}

/// The path of a field, or of the nearest field above it that has one.
fn path_of(reader: &Reader, field: FieldId) -> String {
    let mut at = Some(field);
    while let Some(id) = at {
        if let Some(path) = reader.paths().get(id as usize).and_then(Option::as_ref) {
            return path.clone();
        }
        at = reader.descriptor().field(id).and_then(|field| field.parent);
    }
    reader.label(field)
}

/// The group of each slot.
fn groups(schema: &ReadSchema, names: &[String]) -> Vec<Group> {
    let slots = schema.slots.as_slice();
    let mut roots: Vec<SlotId> = Vec::with_capacity(slots.len());
    for (id, slot) in slots.iter().enumerate() {
        roots.push(match slot.parent {
            SlotParent::Entries => id,
            SlotParent::Index(parent) | SlotParent::Switch(parent, _) => {
                roots.get(parent).copied().unwrap_or(id)
            }
        });
    }
    let mut n_leaves = vec![0usize; slots.len()];
    for (&root, slot) in roots.iter().zip(slots) {
        if let (SlotKind::Leaf(_), Some(n)) = (slot.kind, n_leaves.get_mut(root)) {
            *n += 1;
        }
    }
    let mut of_beginnings: HashMap<&str, usize> = HashMap::new();
    let groups = roots.iter().zip(names).map(|(&root, name)| {
        if n_leaves.get(root).is_some_and(|&n| n > 1) {
            return Group {
                first: root,
                is_collection: true,
            };
        }
        let mut parts = name.trim_start_matches('_').split(['_', '.', '[']);
        let beginning = parts.next().unwrap_or(name);
        Group {
            first: *of_beginnings.entry(beginning).or_insert(root),
            is_collection: false,
        }
    });
    groups.collect()
}
