//! The schema of one ntuple, names of its fields, and the part of it that a read needs.

mod descriptor;
mod dtype;
mod node;
mod paths;
mod slots;

pub use descriptor::{Column, Descriptor, Field, FieldId, SkippedField};
pub use dtype::DType;
pub(crate) use node::wanted_fields;
pub use node::{FieldNames, Node, NodeKind, build};
pub use paths::{field_paths, is_anonymous, nearest};
pub use slots::{Slot, SlotId, SlotKind, SlotParent, Slots};
