//! Layers: sources that wrap another source.

mod held;
mod record;

pub use held::HeldSource;
pub use record::RecordSource;
