//! Slots: the distinct columns of a read, each with all its representations.

use super::descriptor::FieldId;
use super::dtype::DType;

/// Index of a slot in [`Slots`].
pub type SlotId = usize;

/// The form of a slot's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotKind {
    /// Values.
    Leaf(DType),
    /// Offsets of a collection.
    Index,
    /// Tags and positions of a variant with this many alternatives.
    Switch(usize),
}

/// What determines the elements of a slot that belong to a range of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SlotParent {
    /// The entries themselves.
    Entries,
    /// The items of a collection.
    Index(SlotId),
    /// The values of an alternative (from 0) of a variant.
    Switch(SlotId, usize),
}

/// A logical column of a read: a column of a physical field in all representations.
#[derive(Debug, Clone)]
pub struct Slot {
    /// The physical field.
    pub field: FieldId,
    /// Index of the column in its representation.
    pub position: usize,
    /// Physical columns, one per representation.
    pub columns: Vec<u32>,
    /// The form of the data.
    pub kind: SlotKind,
    /// The parent.
    pub parent: SlotParent,
    /// Number of elements per item of the parent (the product of array sizes in between).
    pub multiplicity: u64,
}

impl Slot {
    /// Whether another slot has the same elements.
    fn is_same(&self, other: &Self) -> bool {
        let key = |slot: &Self| (slot.field, slot.position, slot.parent, slot.multiplicity);
        key(self) == key(other)
    }
}

/// The slots of a read; each slot follows its parent.
#[derive(Debug, Clone, Default)]
pub struct Slots {
    slots: Vec<Slot>,
    /// For each field, its last slot that may be shared; for each slot, the previous one of its field.
    last: Vec<Option<SlotId>>,
    before: Vec<Option<SlotId>>,
}

impl Slots {
    /// Returns the ID of an equal slot, or adds a new one: columns that several fields share are decoded
    /// once.
    pub fn intern(&mut self, slot: Slot) -> SlotId {
        let field = slot.field as usize;
        let mut candidate = self.last.get(field).copied().flatten();
        while let Some(id) = candidate {
            if self.slots.get(id).is_some_and(|known| known.is_same(&slot)) {
                return id;
            }
            candidate = self.before.get(id).copied().flatten();
        }
        let id = self.push(slot);
        if self.last.len() <= field {
            self.last.resize(field + 1, None);
        }
        if let (Some(last), Some(before)) = (self.last.get_mut(field), self.before.get_mut(id)) {
            *before = last.replace(id);
        }
        id
    }

    /// Adds a slot, even if an equal one exists.
    pub fn push(&mut self, slot: Slot) -> SlotId {
        self.slots.push(slot);
        self.before.push(None);
        self.slots.len() - 1
    }

    /// All slots.
    pub fn as_slice(&self) -> &[Slot] {
        &self.slots
    }

    /// All slots, mutable.
    pub fn as_mut_slice(&mut self) -> &mut [Slot] {
        &mut self.slots
    }

    /// A slot by ID.
    pub fn get(&self, id: SlotId) -> Option<&Slot> {
        self.slots.get(id)
    }

    /// Marks a slot, and those that its elements depend on.
    pub fn mark_with_parents(&self, id: SlotId, marks: &mut [bool]) {
        let mut next = Some(id);
        while let Some(id) = next {
            if let Some(mark) = marks.get_mut(id) {
                *mark = true;
            }
            next = match self.get(id).map(|slot| slot.parent) {
                Some(SlotParent::Index(parent) | SlotParent::Switch(parent, _)) => Some(parent),
                Some(SlotParent::Entries) | None => None,
            };
        }
    }

    /// The slots that are marked, in their order.
    pub fn marked(marks: &[bool]) -> Vec<SlotId> {
        let marks = marks.iter().enumerate();
        marks.filter_map(|(id, mark)| mark.then_some(id)).collect()
    }

    /// Number of slots.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether nothing is read.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}
