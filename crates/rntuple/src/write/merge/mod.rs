//! Merges ntuples into one, keeping the pages of the inputs if possible.
//!
//! The levels are those of ROOT's `tree/ntuple/doc/Merging.md`: pages share the input's blocks (L0), are copied (L1),
//! recompressed (L2), or re-encoded (L3). Rebuilding clusters (L4) works on columns; data that must be converted to
//! values are read and written instead.

mod attributes;
mod clusters;
mod incoming;
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

pub use clusters::steps;
pub use join::{JoinedNTuple, join_columns};
pub use options::{Levels, MergeOptions, Merged, Rebuild, hull};
pub use recode::{Encodings, StoredReals};
pub use schema::{MergedSchema, Mode};
pub use writer::{Choose, NTupleMerger};
