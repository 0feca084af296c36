//! Layers: sources that wrap another source.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use crate::{ByteSource, IoError, Settings, open_remote};

mod cached;
mod held;
mod lazy_download;
mod metered;
mod origin;
mod record;

pub use cached::CachedSource;
pub use held::HeldSource;
pub(crate) use held::{Held, find_held, joined_ends};
pub use lazy_download::LazyDownload;
pub use metered::MeteredSource;
pub use origin::OriginSource;
pub use record::RecordSource;

/// The ranges that are really read: held bytes were counted when they were fetched.
fn read_of<'a>(source: &dyn ByteSource, ranges: &'a [Range<u64>]) -> Cow<'a, [Range<u64>]> {
    let Some(at) = ranges.iter().position(|range| source.holds(range)) else {
        return Cow::Borrowed(ranges);
    };
    let (read, rest) = ranges.split_at(at);
    let rest = rest.iter().skip(1).filter(|range| !source.holds(range));
    read.iter().chain(rest).cloned().collect()
}

/// Opens a file of a server with the layers that its settings name: a download in chunks, or a cache.
///
/// # Errors
/// As [`open_remote`].
pub fn open_layered(url: &str, settings: &Settings) -> Result<Arc<dyn ByteSource>, IoError> {
    match settings.bytes("lazy_download")? {
        Some(chunk) => Ok(LazyDownload::over(
            open_remote(url, settings)?,
            chunk,
            settings,
        )?),
        None => CachedSource::open(url, settings),
    }
}
