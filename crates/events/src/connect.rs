//! A store by its URL.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::{Backend, EventsError, MemoryBackend, Mode, open_dir};

/// The stores in memory that have names, as long as somebody has them.
static NAMED: Mutex<Option<HashMap<String, Weak<MemoryBackend>>>> = Mutex::new(None);

/// Opens the store of a URL: `memory:` (a new one), `memory:NAME` (shared in this process), `dir:PATH`.
///
/// # Errors
///
/// If the URL is none, and those of opening.
pub fn connect(url: &str) -> Result<Arc<dyn Backend>, EventsError> {
    match url.split_once(':') {
        Some(("memory", "")) => Ok(Arc::new(MemoryBackend::new(url))),
        Some(("memory", _)) => Ok(named(url)),
        Some(("dir", path)) if !path.is_empty() => Ok(open_dir(Path::new(path), Mode::Append)?),
        _ => Err(EventsError::Url {
            url: url.into(),
            why: "expected memory:, memory:NAME or dir:PATH".into(),
        }),
    }
}

fn named(url: &str) -> Arc<MemoryBackend> {
    let mut all = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
    let all = all.get_or_insert_default();
    if let Some(store) = all.get(url).and_then(Weak::upgrade) {
        return store;
    }
    let store = Arc::new(MemoryBackend::new(url));
    all.insert(url.into(), Arc::downgrade(&store));
    store
}
