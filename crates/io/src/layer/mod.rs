//! Layers: sources that wrap another source.

mod held;
mod metered;
mod origin;
mod record;

pub use held::HeldSource;
pub(crate) use held::{Held, find_held, joined_ends};
pub use metered::MeteredSource;
pub use origin::OriginSource;
pub use record::RecordSource;

use std::borrow::Cow;
use std::ops::Range;

use crate::ByteSource;

/// Those of these ranges that are read: held bytes were counted when they were read.
fn read_of<'a>(source: &dyn ByteSource, ranges: &'a [Range<u64>]) -> Cow<'a, [Range<u64>]> {
    let is_read = |range: &Range<u64>| source.peek(range).is_none();
    if ranges.iter().all(is_read) {
        return Cow::Borrowed(ranges);
    }
    let read = ranges.iter().filter(|range| is_read(range));
    read.cloned().collect()
}
