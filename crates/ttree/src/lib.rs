//! Reading TTree: the model of a tree, the meaning of its branches, and their baskets as columns.
//!
//! A tree presents itself as an ntuple does: [`open`] gives a [`Reader`](femtobarn_rntuple::read::Reader) whose
//! descriptor has a field for every branch that has data, and whose columns come from baskets. So everything above
//! works for both.
//!
//! - `object`: objects of a file, read by the streamer infos in it, as far as they are needed to know a tree;
//! - [`model`]: the tree: branches, leaves, baskets, clusters;
//! - `interp`: from a branch to what its bytes mean;
//! - `read`: baskets to buffers.
//!
//! Described by ROOT's reference guide (`TTree`, `TBranch`, `TBranchElement`, `TBasket`, `TLeaf`, `TBufferFile`,
//! `TStreamerInfo`) and its sources.

mod common;
mod cursor;
mod descriptor;
mod error;
pub mod fuzz;
mod interp;
pub mod model;
mod object;
mod open;
mod read;
#[cfg(test)]
mod tests;

pub use error::TreeError;
pub use open::{TREE_CLASSES, Tree, is_tree, open};
