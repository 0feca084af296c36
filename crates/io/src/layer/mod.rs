//! Layers: sources that wrap another source.

use std::sync::Arc;

use crate::report::report_if_set;
use crate::{ByteSource, IoError, Settings, is_object_set, open_remote};

mod as_object;
mod cached;
mod held;
mod lazy_download;
mod metered;
mod origin;
mod record;

pub use as_object::AsObject;
pub use cached::CachedSource;
pub use held::HeldSource;
pub(crate) use held::{Held, find_held, joined_ends};
pub use lazy_download::LazyDownload;
pub use metered::MeteredSource;
pub use origin::OriginSource;
pub use record::RecordSource;

/// Opens a file of a server with the layers that its settings name: a download in chunks, or a cache.
///
/// # Errors
/// As [`open_remote`].
pub fn open_layered(url: &str, settings: &Settings) -> Result<Arc<dyn ByteSource>, IoError> {
    // a cache may have all of it, and then no server is asked
    report_if_set(settings)?;
    match settings.bytes("lazy_download")? {
        // objects are chunks already
        Some(chunk) if !is_object_set(url) => Ok(LazyDownload::over(
            open_remote(url, settings)?,
            chunk,
            settings,
        )?),
        _ => CachedSource::open(url, settings),
    }
}
