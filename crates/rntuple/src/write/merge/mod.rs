//! Merging: ntuples to one, whose pages are those of the inputs wherever they can be.
//!
//! The levels are those of ROOT's `tree/ntuple/doc/Merging.md`: pages share the input's blocks (L0), are copied (L1),
//! recompressed (L2), or encoded again (L3). What must be taken apart to its values (L4) is not done here, but by reading
//! and writing.

mod clusters;
mod pages;
mod regions;
mod schema;
mod writer;

pub use schema::{MergedSchema, Mode};
pub use writer::{Levels, MergeOptions, Merged, NTupleMerger};
