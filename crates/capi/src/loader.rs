//! Containers with products of theirs, many at a time, and events that are fetched ahead.

use femtobarn::events::{DataStore, EventsError, LoadOptions, Loaded, Loader, Parent, ProductName};

use crate::descriptor::fb_descriptor;
use crate::error::{border, fb_error, free, handle};
use crate::events::{Sought, chunks};
use crate::input::{array, fb_bytes, fb_text, given, given_mut};
use crate::product::names;
use crate::store::fb_store;

/// The events of a container, with products of theirs.
pub struct fb_loader {
    loader: Loader,
    sought: Sought,
}

/// Containers, and products of theirs.
pub struct fb_loaded {
    containers: Vec<fb_descriptor>,
    /// The values of each name, which point into `_loaded`.
    columns: Vec<Vec<fb_bytes>>,
    _loaded: Loaded,
}

impl fb_loaded {
    fn new(containers: Vec<fb_descriptor>, loaded: Loaded) -> Self {
        let column = |values: &femtobarn::events::Values| values.iter().map(fb_bytes::of).collect();
        Self {
            containers,
            columns: loaded.products.iter().map(column).collect(),
            _loaded: loaded,
        }
    }

    /// Loads products of containers of any kind.
    fn of(
        store: &DataStore,
        containers: &[fb_descriptor],
        names: &[ProductName],
    ) -> Result<Self, EventsError> {
        let mut groups: Vec<(Parent, Vec<u64>)> = Vec::new();
        for container in containers {
            let container = container.read()?;
            let parent = container.placed_by();
            match groups.last_mut().filter(|group| group.0 == parent) {
                Some(group) => group.1.push(container.event),
                None => groups.push((parent, vec![container.event])),
            }
        }
        let loaded = Loaded::load(store, groups, names)?;
        Ok(Self::new(containers.to_vec(), loaded))
    }
}

/// Begins to load the events of a container, with products of theirs, in pieces of `n_events`; `ahead` of these are
/// fetched by a thread, or with 0 each when it is asked for. `target` and `after` are those of fb_events_start.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_loader_start(
    store: *const fb_store,
    container: *const fb_descriptor,
    target: i64,
    after: *const fb_descriptor,
    products: *const fb_text,
    n_products: usize,
    n_events: usize,
    ahead: usize,
    error: *mut *mut fb_error,
) -> *mut fb_loader {
    let make = || {
        // SAFETY: the caller gives a store, descriptors and texts.
        let (store, chunks, names, sought) = unsafe {
            let chunks = chunks(store, container, target, after)?;
            let names = names(products, n_products)?;
            (given(store)?, chunks, names, Sought::new(store, container)?)
        };
        let options = LoadOptions {
            names,
            n_events,
            ahead,
        };
        let loader = Loader::start(&store.store, chunks, options);
        Ok(handle(fb_loader { loader, sought }))
    };
    // SAFETY: the caller gives a place for an error, or NULL.
    unsafe { border(error, std::ptr::null_mut(), make) }
}

/// The next events; NULL at the end. It fails if there are none since the dataset was deleted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_loader_next(
    loader: *mut fb_loader,
    loaded: *mut *mut fb_loaded,
    error: *mut *mut fb_error,
) -> bool {
    let make = || {
        // SAFETY: the caller gives a loader and a place for a handle.
        let (loader, place) = unsafe { (given_mut(loader)?, given_mut(loaded)?) };
        *place = std::ptr::null_mut();
        let loaded = loader.loader.next().transpose()?;
        loader.sought.gave(loaded.is_some())?;
        if let Some(loaded) = loaded {
            let containers = loaded.descriptors().map(Into::into).collect();
            *place = handle(fb_loaded::new(containers, loaded));
        }
        Ok(true)
    };
    // SAFETY: the caller gives a place for an error, or NULL.
    unsafe { border(error, false, make) }
}

/// Ends loading.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_loader_free(loader: *mut fb_loader) {
    // SAFETY: the caller gives a loader that is not freed, or NULL.
    unsafe { free(loader) };
}

/// Loads products of containers of any kind with few requests.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_loaded_of(
    store: *const fb_store,
    containers: *const fb_descriptor,
    n_containers: usize,
    products: *const fb_text,
    n_products: usize,
    error: *mut *mut fb_error,
) -> *mut fb_loaded {
    let make = || {
        // SAFETY: the caller gives a store, descriptors and texts.
        let (store, containers, names) = unsafe {
            let names = names(products, n_products)?;
            (given(store)?, array(containers, n_containers), names)
        };
        fb_loaded::of(&store.store, containers, &names).map(handle)
    };
    // SAFETY: the caller gives a place for an error, or NULL.
    unsafe { border(error, std::ptr::null_mut(), make) }
}

/// How many containers there are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_loaded_len(loaded: *const fb_loaded) -> usize {
    // SAFETY: the caller gives what is not freed, or NULL.
    unsafe { loaded.as_ref() }.map_or(0, |loaded| loaded.containers.len())
}

/// Which they are, in their order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_loaded_containers(loaded: *const fb_loaded) -> *const fb_descriptor {
    // SAFETY: the caller gives what is not freed, or NULL.
    unsafe { loaded.as_ref() }.map_or(std::ptr::null(), |loaded| loaded.containers.as_ptr())
}

/// The products of one of the names, one for each container; the data of those that are not there are NULL. NULL if there
/// are not so many names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_loaded_values(
    loaded: *const fb_loaded,
    product: usize,
) -> *const fb_bytes {
    // SAFETY: the caller gives what is not freed, or NULL.
    let column = unsafe { loaded.as_ref() }.and_then(|loaded| loaded.columns.get(product));
    column.map_or(std::ptr::null(), |column| column.as_ptr())
}

/// Frees what was loaded.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_loaded_free(loaded: *mut fb_loaded) {
    // SAFETY: the caller gives what is not freed, or NULL.
    unsafe { free(loaded) };
}
