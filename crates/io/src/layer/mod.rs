//! Layers: sources that wrap another source.

mod held;
mod metered;
mod record;

pub use held::HeldSource;
pub use metered::MeteredSource;
pub use record::RecordSource;
