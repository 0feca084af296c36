//! Slots: the distinct columns that a read decodes, each over all its representations.

use super::descriptor::FieldId;
use super::dtype::DType;

/// Index of a slot in [`Slots`].
pub type SlotId = usize;

/// What a slot decodes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotKind {
    /// Values.
    Leaf(DType),
    /// Offsets of a collection.
    Index,
    /// Tags and positions of a variant with this many alternatives.
    Switch(usize),
}

/// What says which elements of a slot belong to an entry range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SlotParent {
    /// The entries themselves.
    Entries,
    /// The items of a collection.
    Index(SlotId),
    /// The values of one alternative (from 0) of a variant.
    Switch(SlotId, usize),
}

/// One logical column of a read: a column of a physical field, whatever its representation in a cluster.
#[derive(Debug, Clone)]
pub struct Slot {
    /// The physical field.
    pub field: FieldId,
    /// Position of the column in its representation.
    pub position: usize,
    /// Physical columns, one for each representation.
    pub columns: Vec<u32>,
    /// What it decodes to.
    pub kind: SlotKind,
    /// What it hangs on.
    pub parent: SlotParent,
    /// Elements for each item of the parent (sizes of the arrays between).
    pub multiplicity: u64,
}

impl Slot {
    /// Whether the other has the same elements.
    fn is_same(&self, other: &Self) -> bool {
        let key = |slot: &Self| (slot.field, slot.position, slot.parent, slot.multiplicity);
        key(self) == key(other)
    }
}

/// The slots of a read; a slot stands behind its parent.
#[derive(Debug, Clone, Default)]
pub struct Slots {
    slots: Vec<Slot>,
    /// For each field, its last slot that may be shared; for each slot, the one of its field before it.
    last: Vec<Option<SlotId>>,
    before: Vec<Option<SlotId>>,
}

impl Slots {
    /// The id of an equal slot, or of the new one: columns that several fields share are decoded once.
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

    /// Adds a slot, equal to another or not.
    pub fn push(&mut self, slot: Slot) -> SlotId {
        self.slots.push(slot);
        self.before.push(None);
        self.slots.len() - 1
    }

    /// All slots.
    pub fn as_slice(&self) -> &[Slot] {
        &self.slots
    }

    /// All slots, to be changed.
    pub fn as_mut_slice(&mut self) -> &mut [Slot] {
        &mut self.slots
    }

    /// A slot by id.
    pub fn get(&self, id: SlotId) -> Option<&Slot> {
        self.slots.get(id)
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
