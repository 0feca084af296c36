//! Merging: ntuples to one, whose pages are those of the inputs wherever they can be.
//!
//! The levels are those of ROOT's `tree/ntuple/doc/Merging.md`: pages share the input's blocks (L0), are copied (L1),
//! recompressed (L2), or encoded again (L3). What must be taken apart to its values (L4) is not done here, but by reading
//! and writing.

mod attributes;
mod clusters;
mod join;
mod kept;
mod mapping;
mod options;
mod pages;
mod rebuild;
mod recode;
mod regions;
mod representations;
mod resume;
mod schema;
mod stored;
mod writer;

pub use join::{JoinedNTuple, join_columns};
pub use options::{Levels, MergeOptions, Merged, Rebuild, hull};
pub use recode::{Encodings, StoredReals};
pub use schema::{MergedSchema, Mode};
pub use writer::{Choose, NTupleMerger};
