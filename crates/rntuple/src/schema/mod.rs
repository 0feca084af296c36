//! The schema of an ntuple, names of its fields, and the schema of a read.

mod build;
mod collections;
mod descriptor;
mod dtype;
mod members;
mod node;
mod paths;
mod slots;

pub use build::build;
pub(crate) use collections::NUMBERED;
pub use collections::same_collections;
pub(crate) use descriptor::CARDINALITY;
pub use descriptor::{Column, Descriptor, Field, FieldId, Schema, SkippedField};
pub use dtype::DType;
pub(crate) use members::{member_ranks, wanted_fields};
pub use node::{ListSort, Node, NodeKind};
pub(crate) use paths::is_tuple;
pub use paths::{FieldNames, field_paths, is_anonymous};
pub use slots::{Slot, SlotId, SlotKind, SlotParent, Slots};
