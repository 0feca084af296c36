//! Reads ntuples: planning (pure), fetching within a budget of bytes, and decoding into final buffers.
//!
//! A read covers a list of [`Part`]s (a file and a range of its entries), so that many files are one read. Its columns
//! are [slots](crate::schema::Slot). A slot whose elements are known from metadata is read at once. A slot below a
//! collection of which only some entries are wanted waits for the collection's offsets. Each such round is planned,
//! combined into requests, fetched, and decoded by all threads directly into the buffers of the result.

mod accesses;
mod ahead;
mod cache;
mod decode;
mod engine;
mod envelopes;
mod explain;
mod fetch;
mod fill;
mod finish;
mod groups;
mod held;
mod hold;
mod invariants;
mod known;
mod lazy;
mod lazy_columns;
mod memory;
mod options;
mod plan;
mod queue;
mod reader;
mod report;
mod rounds;
mod selection;
mod sizes;
mod source_store;
mod stats;
pub mod storage;
mod store;
mod verify;

pub(crate) use decode::check_page;
pub(crate) use invariants::{check_zeros, cover};
pub(crate) use memory::{Piece, Slab, filled};
pub(crate) use plan::check_pages;
pub(crate) use reader::page_error;
pub(crate) use store::{part_of, requests as requests_of, soundly};

pub use accesses::{AccessCounts, AccessedColumn, Accesses};
pub use cache::{PageCache, PageKey};
pub use engine::{read, read_slots};
pub use explain::{ColumnCost, OpeningCost, Plan, explain};
pub use held::Held;
pub use invariants::{ENTRIES_OF_ANY_FILE, most_entries};
pub use known::{Known, KnownHeader};
pub use lazy::{LazyArrays, LazyOptions};
pub use lazy_columns::LazyColumns;
pub use options::{Progress, ReadOptions, Tick};
pub use plan::{Part, Segment, segments};
pub use reader::{Reader, ReaderOptions};
pub use report::{Damage, VerifyReport};
pub use selection::{Binding, ReadSchema};
pub use sizes::decoded_bytes;
pub use source_store::SourceStore;
pub use stats::Stats;
pub use store::{NotStored, OpenedStore, PageStore};
pub use verify::verify;
