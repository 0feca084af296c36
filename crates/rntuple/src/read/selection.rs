//! The schema of a read, which may cover several files.

use std::collections::HashMap;
use std::sync::Arc;

use super::reader::Reader;
use crate::RNTupleError;
use crate::schema::{
    FieldId, Node, Schema, Slot, SlotId, SlotKind, SlotParent, Slots, build, member_ranks,
    wanted_fields,
};

/// The columns of a read, and the slots that fill them.
#[derive(Debug, Clone)]
pub struct ReadSchema {
    /// Names of the top-level columns, and their trees.
    pub columns: Vec<(String, Node)>,
    /// The distinct columns to decode.
    pub slots: Slots,
}

impl ReadSchema {
    /// The schema of `paths` (all fields if none) over several files, and the physical columns of its slots in each
    /// file.
    ///
    /// The first file determines names and order. In the other files, fields must have the same structure; different
    /// element types are promoted.
    pub fn new(
        readers: &[Arc<Reader>],
        paths: Option<&[String]>,
    ) -> Result<(Self, Vec<Arc<Binding>>), RNTupleError> {
        match (paths, readers) {
            (None, [first, _, ..]) => {
                Self::of_chosen(readers, Chosen::Paths(&top_level_names(first)))
            }
            (None, _) => Self::of_chosen(readers, Chosen::All),
            (Some(paths), _) => Self::of_chosen(readers, Chosen::Paths(paths)),
        }
    }

    /// The same for fields that are given by their IDs in each file, without looking up names.
    pub fn of_fields(
        readers: &[Arc<Reader>],
        fields: &[Vec<FieldId>],
    ) -> Result<(Self, Vec<Arc<Binding>>), RNTupleError> {
        Self::of_chosen(readers, Chosen::Fields(fields))
    }

    fn of_chosen(
        readers: &[Arc<Reader>],
        chosen: Chosen<'_>,
    ) -> Result<(Self, Vec<Arc<Binding>>), RNTupleError> {
        match Self::build_all(readers, chosen, true) {
            // files may differ in which fields share a collection: then no fields share it
            Err(RNTupleError::SchemaMismatch { .. }) if readers.len() > 1 => {
                Self::build_all(readers, chosen, false)
            }
            other => other,
        }
    }

    fn build_all(
        readers: &[Arc<Reader>],
        chosen: Chosen<'_>,
        share: bool,
    ) -> Result<(Self, Vec<Arc<Binding>>), RNTupleError> {
        let Some(first) = readers.first() else {
            return Ok((
                Self {
                    columns: Vec::new(),
                    slots: Slots::default(),
                },
                Vec::new(),
            ));
        };
        let mut schema = Self::of_file(first, &chosen.fields(0, first)?, share, first)?;
        let binding = Arc::new(Binding::of(&schema.slots));
        let mut known = HashMap::from([(chosen.key(0, first), binding.clone())]);
        let mut bindings = vec![binding];
        for (at, reader) in readers.iter().enumerate().skip(1) {
            if let Some(binding) = known.get(&chosen.key(at, reader)) {
                bindings.push(binding.clone());
                continue;
            }
            let other = Self::of_file(reader, &chosen.fields(at, reader)?, share, first)?;
            schema.check_against(&other, first, reader)?;
            schema.promote(&other.slots, first, reader)?;
            for ((_, node), (_, there)) in schema.columns.iter_mut().zip(&other.columns) {
                node.loosen(there);
            }
            let binding = Arc::new(Binding::of(&other.slots));
            known.insert(chosen.key(at, reader), binding.clone());
            bindings.push(binding);
        }
        Ok((schema, bindings))
    }

    fn of_file(
        reader: &Reader,
        selected: &[FieldId],
        share: bool,
        first: &Reader,
    ) -> Result<Self, RNTupleError> {
        let descriptor = reader.descriptor();
        let wanted = wanted_fields(descriptor, selected);
        let is_wanted = |id: FieldId| wanted.get(id as usize).copied().unwrap_or(false);
        let same = std::ptr::eq(reader, first) || descriptor.is_same_schema(first.descriptor());
        let ranks = if same {
            Vec::new()
        } else {
            member_ranks(first.descriptor())
        };
        let rank = |id: FieldId| {
            // members have the order of the first file
            let path = reader.paths().get(id as usize).and_then(Option::as_deref);
            let there = path.filter(|_| !same && !descriptor.is_in_variant(id));
            let there = there.and_then(|path| first.find_field(path));
            let rank = there.and_then(|id| ranks.get(id as usize).copied());
            is_wanted(id).then_some(rank.unwrap_or(0))
        };
        let mut tops: Vec<FieldId> = Vec::new();
        let mut seen = vec![false; descriptor.fields.len()];
        for &id in selected {
            let top = descriptor.top_of(id);
            if let Some(seen) = seen.get_mut(top as usize).filter(|seen| !**seen) {
                *seen = true;
                tops.push(top);
            }
        }
        let mut slots = Slots::default();
        let mut columns = Vec::with_capacity(tops.len());
        for id in tops {
            let name = descriptor.field_name(id).to_owned();
            match build(descriptor, reader.names(), &rank, share, &mut slots, id) {
                Ok(node) => columns.push((name, node)),
                Err(reason) => return Err(reader.unsupported(&name, &reason)),
            }
        }
        Ok(Self { columns, slots })
    }

    /// For each slot, the slot of another selection of the same files that has the same elements; none if it has none.
    pub fn slots_in(
        &self,
        bindings: &[Arc<Binding>],
        (other, others): (&Self, &[Arc<Binding>]),
    ) -> Vec<Option<SlotId>> {
        let key = |slot: &Slot, parent| (slot.field, slot.position, parent, slot.multiplicity);
        let mut known: HashMap<_, Vec<SlotId>> = HashMap::new();
        for (id, slot) in other.slots.as_slice().iter().enumerate() {
            known.entry(key(slot, slot.parent)).or_default().push(id);
        }
        // most files share one binding
        let mut pairs: Vec<(&Arc<Binding>, &Arc<Binding>)> = bindings.iter().zip(others).collect();
        pairs.dedup_by(|(a, b), (c, d)| Arc::ptr_eq(a, c) && Arc::ptr_eq(b, d));
        let mut out: Vec<Option<SlotId>> = Vec::with_capacity(self.slots.len());
        for (id, slot) in self.slots.as_slice().iter().enumerate() {
            let found = |parent: SlotId| out.get(parent).copied().flatten();
            let parent = match slot.parent {
                SlotParent::Entries => Some(SlotParent::Entries),
                SlotParent::Index(parent) => found(parent).map(SlotParent::Index),
                SlotParent::Switch(parent, n) => {
                    found(parent).map(|parent| SlotParent::Switch(parent, n))
                }
            };
            let is_same = |there: &SlotId| {
                let kind = other.slots.get(*there).map(|slot| slot.kind);
                let mut pairs = pairs.iter();
                kind == Some(slot.kind) && pairs.all(|(a, b)| a.columns(id) == b.columns(*there))
            };
            let near = parent.and_then(|parent| known.get(&key(slot, parent)));
            out.push(near.and_then(|near| near.iter().copied().find(is_same)));
        }
        out
    }

    /// These slots alone, which include their parents; without the trees of the columns.
    pub(super) fn only(&self, slots: &[SlotId]) -> Self {
        let new_id = |id: SlotId| slots.binary_search(&id).unwrap_or(id);
        let mut out = Slots::default();
        for slot in slots.iter().filter_map(|&id| self.slots.get(id)) {
            let mut slot = slot.clone();
            slot.parent = match slot.parent {
                SlotParent::Entries => SlotParent::Entries,
                SlotParent::Index(parent) => SlotParent::Index(new_id(parent)),
                SlotParent::Switch(parent, n) => SlotParent::Switch(new_id(parent), n),
            };
            out.push(slot);
        }
        Self {
            columns: Vec::new(),
            slots: out,
        }
    }

    fn check_against(
        &self,
        other: &Self,
        first: &Reader,
        reader: &Reader,
    ) -> Result<(), RNTupleError> {
        let mismatch = |name: &str, reason| mismatch(first, reader, name, reason);
        let type_name = |reader: &Reader, node: &Node| {
            reader
                .descriptor()
                .field(node.field)
                .map(|f| f.record.type_name.clone())
                .unwrap_or_default()
        };
        for ((name, a), (_, b)) in self.columns.iter().zip(&other.columns) {
            if !a.same_structure(b) {
                let (here, there) = (type_name(reader, b), type_name(first, a));
                let reason = if here == there {
                    "its members differ, or share columns with other fields".to_owned()
                } else {
                    format!("{here:?} here, {there:?} there")
                };
                return Err(mismatch(name, reason));
            }
        }
        for (a, b) in self.slots.as_slice().iter().zip(other.slots.as_slice()) {
            let same_kind = matches!((a.kind, b.kind), (SlotKind::Leaf(_), SlotKind::Leaf(_)))
                || a.kind == b.kind;
            if !same_kind || a.parent != b.parent || a.multiplicity != b.multiplicity {
                let name = reader.descriptor().field_name(b.field);
                return Err(mismatch(name, "its columns depend on other columns".into()));
            }
        }
        if self.slots.len() != other.slots.len() || self.columns.len() != other.columns.len() {
            return Err(mismatch(
                "",
                format!(
                    "{} columns here, {} there",
                    other.slots.len(),
                    self.slots.len()
                ),
            ));
        }
        Ok(())
    }

    fn promote(
        &mut self,
        other: &Slots,
        first: &Reader,
        reader: &Reader,
    ) -> Result<(), RNTupleError> {
        for (slot, other) in self.slots.as_mut_slice().iter_mut().zip(other.as_slice()) {
            if let (SlotKind::Leaf(a), SlotKind::Leaf(b)) = (slot.kind, other.kind) {
                let both = a.promote_exactly(b).ok_or_else(|| {
                    let reason = format!(
                        "{} here, {} there, and no type can represent the values of both",
                        b.name(),
                        a.name()
                    );
                    mismatch(first, reader, &reader.label(other.field), reason)
                })?;
                slot.kind = SlotKind::Leaf(both);
            }
        }
        Ok(())
    }
}

/// The selected fields.
#[derive(Clone, Copy)]
enum Chosen<'a> {
    /// All top-level fields of the only file.
    All,
    /// Fields with these paths.
    Paths(&'a [String]),
    /// Fields with these IDs, for each file.
    Fields(&'a [Vec<FieldId>]),
}

impl<'a> Chosen<'a> {
    /// The selected fields of a file.
    fn fields(self, at: usize, reader: &Reader) -> Result<Vec<FieldId>, RNTupleError> {
        match self {
            Self::All => Ok(reader.descriptor().top_level.clone()),
            Self::Paths(paths) => {
                let fields = paths.iter().map(|path| reader.field_by_path(path));
                fields.collect()
            }
            Self::Fields(fields) => Ok(fields.get(at).cloned().unwrap_or_default()),
        }
    }

    /// What files must have in common to share a binding.
    fn key(self, at: usize, reader: &Reader) -> (*const Schema, Option<&'a [FieldId]>) {
        let fields = match self {
            Self::Fields(fields) => fields.get(at).map(Vec::as_slice),
            Self::All | Self::Paths(_) => None,
        };
        (shared_schema(reader), fields)
    }
}

/// The schema of a file: files that share it have the same columns for the same fields.
fn shared_schema(reader: &Reader) -> *const Schema {
    Arc::as_ptr(&reader.descriptor().schema)
}

/// The error of a file that differs from the first.
fn mismatch(first: &Reader, reader: &Reader, name: &str, reason: String) -> RNTupleError {
    RNTupleError::SchemaMismatch {
        url: reader.url().into(),
        other: first.url().into(),
        ntuple: reader.path().into(),
        name: name.into(),
        reason,
    }
}

fn top_level_names(reader: &Reader) -> Vec<String> {
    reader
        .descriptor()
        .top_level
        .iter()
        .map(|&id| reader.descriptor().field_name(id).to_owned())
        .collect()
}

/// The physical columns of each slot in one file, one per representation.
#[derive(Debug, Clone)]
pub struct Binding(pub(super) Vec<Vec<u32>>);

impl Binding {
    fn of(slots: &Slots) -> Self {
        Self(
            slots
                .as_slice()
                .iter()
                .map(|slot| slot.columns.clone())
                .collect(),
        )
    }

    /// The columns of all slots.
    pub fn all_columns(&self) -> Vec<u32> {
        self.0.iter().flatten().copied().collect()
    }

    /// The columns of these slots.
    pub(super) fn only(&self, slots: &[SlotId]) -> Self {
        let columns = slots.iter().map(|&slot| self.columns(slot).to_vec());
        Self(columns.collect())
    }

    /// The columns of a slot.
    pub fn columns(&self, slot: usize) -> &[u32] {
        self.0.get(slot).map_or(&[], Vec::as_slice)
    }
}
