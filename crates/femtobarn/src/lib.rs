//! One storehouse for collision events: the facade over femtobarn's crates.
//!
//! ```no_run
//! use femtobarn::{NTuple, OpenOptions};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let ntuple = NTuple::open_files(&["run*/events.root:Events"], OpenOptions::default())?;
//! let selection = ntuple.select(Some(&["Muon_pt".to_owned()]))?;
//! let arrays = ntuple.read(&selection, 0..ntuple.n_entries(), &Default::default())?;
//! let batch = arrays.to_arrow()?; // an Arrow record batch
//! # Ok(()) }
//! ```

mod common;
pub mod convert;
mod copy;
mod counters;
pub mod expression;
mod inputs;
mod iterate;
pub mod kinds;
mod left_behind;
pub mod merge;
mod ntuple;
mod objects;
mod odd;
mod open;
mod opening;
mod pattern;
pub mod products;
pub mod proof;
mod sizes;
mod staged;
mod target;
mod unreadable;
pub mod url;
mod writable;

pub use femtobarn_codec as codec;
pub use femtobarn_events as events;
pub use femtobarn_io as io;
pub use femtobarn_rntuple::read::{Damage, PageCache, Plan, ReadOptions, Tick, VerifyReport};
pub use femtobarn_rntuple::{RNTupleError as Error, array, fuzz, read, rows, schema, spec, write};
pub use femtobarn_rootfile as rootfile;
pub use femtobarn_ttree as ttree;

pub use common::SkippedFields;
pub use copy::{Copied, CopyOptions, copy, destination};
pub use iterate::{Steps, StepsOptions};
pub use left_behind::{AllLeftBehind, LeftBehind};
pub use ntuple::{NTuple, Selection};
pub use objects::ntuples;
pub use open::{OpenOptions, RNTUPLE_CLASS, look_into, open_file, open_source};
pub use opening::Opening;
pub use pattern::matches;
pub use sizes::{ClusterSizes, ColumnSizes, PageCounter};
pub use staged::Delivery;
pub use target::{Target, is_store, plain_name};
pub use writable::{create_file, create_file_with, create_new_file, update_file};
