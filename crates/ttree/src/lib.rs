//! Reads TTree: the model of a tree, the meaning of its branches, and baskets as columns.
//!
//! A tree is presented like an ntuple: [`open`] returns a [`Reader`](femtobarn_rntuple::read::Reader) whose
//! descriptor has a field for every branch with data, and whose columns come from baskets. So all code above works
//! for both.
//!
//! - `object`: reads objects by the streamer infos of the file, as far as a tree needs them;
//! - [`model`]: the tree: branches, leaves, baskets, clusters;
//! - `interp`: interprets branches: what their bytes mean;
//! - `read`: decodes baskets into buffers.
//!
//! References: ROOT's reference guide (`TTree`, `TBranch`, `TBranchElement`, `TBasket`, `TLeaf`, `TBufferFile`,
//! `TStreamerInfo`), and its sources.

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
