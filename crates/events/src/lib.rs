//! The event store: products by dataset, run, subrun and event.
//!
//! Datasets are named and nested. They hold runs, runs hold subruns, and subruns hold events. Each of the four may have
//! products, which are found by label and type. The data model and the names are those of HEPnOS (Ali et al., "HEPnOS:
//! a Specialized Data Service for High Energy Physics Analysis").
//!
//! # Invariants
//!
//! - A product is loaded as it was stored, or loading it is an error.
//! - A large product may be stored as an object. The object exists before anything refers to it.
//! - A reader that finds an event by iteration finds the products that were written in the same batch.

mod backend;
mod batch;
mod chunks;
mod config;
mod connect;
mod container;
mod entry;
mod error;
mod event_products;
mod forked;
mod key;
mod loader;
mod objects;
mod passed;
mod process;
mod queue;
mod seal;
mod session;
mod sizes;
mod store;
#[cfg(test)]
mod tests;
mod uuid;
mod verify;
mod write_batch;
mod writers;

pub use backend::{
    Backend, Compacted, DirBackend, MemoryBackend, Mode, NameCount, Popped, Queues, RedisBackend,
    Scan, Visit, Wanted, Written, open_dir,
};
pub use batch::{Batch, Items, Overwrite, Products};
pub use chunks::{EventChunk, EventChunks};
pub use config::Config;
pub use connect::{StoreUrl, absolute, check_url, compact, connect, connect_to_read};
pub use container::{Children, Container, DataSet, DataSets, FILE_NOTES};
pub use entry::DataSetEntry;
pub use error::{EventsError, Refusal};
pub use event_products::RemovedProducts;
pub use key::{
    ABSENT, DEEPEST, DataSetPath, Descriptor, ItemType, LONGEST_NAME, Parent, ProductId,
    ProductName, number,
};
pub use loader::{LoadOptions, Loaded, Loader, Values};
pub use objects::{ObjectOptions, Swept, objects_moved};
pub use passed::Passed;
pub use process::{LoadedEvent, ProcessError, ProcessOptions, process};
pub use queue::{Queue, QueueMode, Taken};
pub use session::Session;
pub use store::{DataStore, VisitProduct};
pub use uuid::Uuid;
pub use verify::Verified;
pub use write_batch::{BatchOptions, WriteBatch};
