//! Loads products of many containers at once, and prefetches events.

use femtobarn::events::{DataStore, EventsError, LoadOptions, Loaded, Loader, ProductName};

use super::descriptor::fb_descriptor;
use super::error::{border, fb_error, free, handle};
use super::events::chunks;
use super::input::{array, fb_bytes, fb_text, given, given_mut};
use super::product::names;
use super::store::fb_store;

/// Iterates over the events of a container together with some of their products.
pub struct fb_loader {
    loader: Loader,
}

/// Containers and some of their products.
pub struct fb_loaded {
    containers: Vec<fb_descriptor>,
    /// The values of each product name, which point into `_loaded`.
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

    /// Loads products of containers of any type.
    fn of(
        store: &DataStore,
        containers: &[fb_descriptor],
        names: &[ProductName],
    ) -> Result<Self, EventsError> {
        let read = containers.iter().map(fb_descriptor::read);
        let loaded = Loaded::of(store, read.collect::<Result<Vec<_>, _>>()?, names)?;
        Ok(Self::new(containers.to_vec(), loaded))
    }
}

/// Starts loading the events of a container with some of their products, `n_events` at a time. A thread prefetches up
/// to `ahead` chunks; with 0, each chunk is loaded on request. `target` and `after` are as for fb_events_start.
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
        // SAFETY: the caller passes a store, descriptors and strings.
        let (store, chunks, names) = unsafe {
            let chunks = chunks(store, container, target, after)?;
            let names = names(products, n_products)?;
            (given(store)?, chunks, names)
        };
        let options = LoadOptions {
            names,
            n_events,
            ahead,
        };
        let loader = Loader::start(&store.store, chunks, options);
        Ok(handle(fb_loader { loader }))
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border(error, std::ptr::null_mut(), make) }
}

/// Returns the next events; NULL at the end. Fails at the end if the container was deleted meanwhile, or a run or subrun in
/// it that was listed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_loader_next(
    loader: *mut fb_loader,
    loaded: *mut *mut fb_loaded,
    error: *mut *mut fb_error,
) -> bool {
    let make = || {
        // SAFETY: the caller passes a loader and a pointer to a handle.
        let (loader, place) = unsafe { (given_mut(loader)?, given_mut(loaded)?) };
        *place = std::ptr::null_mut();
        let loaded = loader.loader.next().transpose()?;
        if let Some(loaded) = loaded {
            let containers = loaded.descriptors().map(Into::into).collect();
            *place = handle(fb_loaded::new(containers, loaded));
        }
        Ok(true)
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border(error, false, make) }
}

/// Stops loading and frees the loader.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_loader_free(loader: *mut fb_loader) {
    // SAFETY: the caller passes a loader that is not freed, or NULL.
    unsafe { free(loader) };
}

/// Loads products of containers of any type with few requests.
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
        // SAFETY: the caller passes a store, descriptors and strings.
        let (store, containers, names) = unsafe {
            let names = names(products, n_products)?;
            (given(store)?, array(containers, n_containers), names)
        };
        fb_loaded::of(&store.store, containers, &names).map(handle)
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border(error, std::ptr::null_mut(), make) }
}

/// Returns the number of containers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_loaded_len(loaded: *const fb_loaded) -> usize {
    // SAFETY: the caller passes a handle that is not freed, or NULL.
    unsafe { loaded.as_ref() }.map_or(0, |loaded| loaded.containers.len())
}

/// Returns the descriptors of the containers, in their order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_loaded_containers(loaded: *const fb_loaded) -> *const fb_descriptor {
    // SAFETY: the caller passes a handle that is not freed, or NULL.
    unsafe { loaded.as_ref() }.map_or(std::ptr::null(), |loaded| loaded.containers.as_ptr())
}

/// Returns the products of one product name, one for each container. The data of a missing product is NULL. Returns
/// NULL if `product` is out of range.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_loaded_values(
    loaded: *const fb_loaded,
    product: usize,
) -> *const fb_bytes {
    // SAFETY: the caller passes a handle that is not freed, or NULL.
    let column = unsafe { loaded.as_ref() }.and_then(|loaded| loaded.columns.get(product));
    column.map_or(std::ptr::null(), |column| column.as_ptr())
}

/// Frees the loaded containers and products.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_loaded_free(loaded: *mut fb_loaded) {
    // SAFETY: the caller passes a handle that is not freed, or NULL.
    unsafe { free(loaded) };
}
