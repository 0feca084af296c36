//! The columns of a lazy read: their names in the record of accesses, and which are fetched together before the record
//! knows anything.

use std::collections::HashMap;
use std::sync::Arc;

use super::accesses::Accesses;
use super::plan::{Part, only};
use super::reader::Reader;
use super::selection::ReadSchema;
use super::sizes::decoded_bytes;
use crate::RNTupleError;
use crate::schema::{FieldId, SlotId, SlotKind, SlotParent, Slots};

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
    /// As [`decoded_bytes`](super::decoded_bytes).
    pub fn decoded_bytes(&self, accesses: &Accesses, parts: &[Part]) -> Result<u64, RNTupleError> {
        let Some(main) = accesses.main() else {
            return decoded_bytes(&self.schema, parts);
        };
        let mut marks = vec![false; self.names.len()];
        self.mark(&main, &mut marks);
        let (schema, parts) = only(&self.schema, parts, &Slots::marked(&marks));
        decoded_bytes(&schema, &parts)
    }

    /// Marks columns to fetch with a column that no step has touched: its collection, and as many others as are small
    /// together, those with a name of the same beginning first. `sizes` are those of all slots in the file.
    pub(super) fn mark_near(&self, slot: SlotId, sizes: &[u64], small: u64) -> Vec<bool> {
        let mut marks = vec![false; self.names.len()];
        self.schema.slots.mark_with_parents(slot, &mut marks);
        let own = self.groups.get(slot);
        let size_of = |id: SlotId| sizes.get(id).copied().unwrap_or(0);
        let mut others: Vec<(bool, SlotId)> = Vec::with_capacity(self.names.len());
        for (id, group) in self.groups.iter().enumerate() {
            let is_near = Some(group) == own;
            match is_near && group.is_collection {
                true => self.schema.slots.mark_with_parents(id, &mut marks),
                false => others.push((!is_near, id)),
            }
        }
        others.sort_by_key(|&(is_other, id)| (is_other, size_of(id)));
        let mut left = small;
        for (_, id) in others {
            if let Some(rest) = left.checked_sub(size_of(id)) {
                left = rest;
                self.schema.slots.mark_with_parents(id, &mut marks);
            }
        }
        marks
    }
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
