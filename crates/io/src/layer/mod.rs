//! Layers: sources that wrap another source.

mod head_tail;
mod record;

pub use head_tail::HeadTailSource;
pub use record::RecordSource;
