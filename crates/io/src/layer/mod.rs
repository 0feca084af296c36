//! Layers: sources that wrap another source.

mod cached;
mod held;
mod metered;
mod record;

pub use cached::CachedSource;
pub use held::HeldSource;
pub(crate) use held::{Held, find_held, joined_ends};
pub use metered::MeteredSource;
pub use record::RecordSource;
