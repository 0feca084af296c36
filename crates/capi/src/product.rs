//! Products: bytes, identified by a container and a name `label#type`.

use std::ffi::c_void;

use femtobarn::events::{EventsError, ItemType, Overwrite, Parent, ProductId, ProductName, Wanted};

use super::descriptor::{fb_descriptor, item};
use super::error::{border, fb_error, free, handle};
use super::input::{array, fb_bytes, fb_text, given, given_mut};
use super::store::{fb_store, fb_value, maybe};

/// What happens to a product that exists already: FB_REPLACE or FB_KEEP.
pub type fb_overwrite = u32;
/// The new product replaces it.
pub const FB_REPLACE: u32 = 0;
/// It is kept: storing a single product fails, and a batch reports which products it kept.
pub const FB_KEEP: u32 = 1;

/// What happens to a product that exists already.
pub fn overwrite(given: fb_overwrite) -> Result<Overwrite, EventsError> {
    match given {
        FB_REPLACE => Ok(Overwrite::Replace),
        FB_KEEP => Ok(Overwrite::Keep),
        other => Err(EventsError::Usage {
            what: format!("invalid value {other} of fb_overwrite: expected FB_REPLACE or FB_KEEP"),
        }),
    }
}

/// A list of products: containers and names.
pub struct fb_products {
    pub(crate) found: Vec<ProductId>,
}

/// Stores a product. Its name has the form `label#type`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_product_store(
    store: *const fb_store,
    container: *const fb_descriptor,
    name: fb_text,
    value: fb_bytes,
    if_there: fb_overwrite,
    error: *mut *mut fb_error,
) -> bool {
    let make = || {
        // SAFETY: the caller passes a store, a descriptor, a string and bytes.
        let (item, name, value) =
            unsafe { (item(store, container)?, name.product_name()?, value.read()) };
        item.store(&name, value, overwrite(if_there)?)?;
        Ok(true)
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border(error, false, make) }
}

/// Loads a product; `value` is NULL if it does not exist.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_product_load(
    store: *const fb_store,
    container: *const fb_descriptor,
    name: fb_text,
    value: *mut *mut fb_value,
    error: *mut *mut fb_error,
) -> bool {
    let make = || {
        // SAFETY: the caller passes a store, a descriptor, a string and a pointer to a handle.
        let (item, name, value) = unsafe {
            let value = given_mut(value)?;
            (item(store, container)?, name.product_name()?, value)
        };
        *value = maybe(item.load(&name)?);
        Ok(true)
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border(error, false, make) }
}

/// Called with each requested product: the index of the container, the index of the name, and the bytes. The bytes are
/// NULL if the product does not exist, and are valid only during the call. It must not throw.
pub type fb_visit = Option<
    unsafe extern "C" fn(context: *mut c_void, container: usize, name: usize, value: fb_bytes),
>;

/// Consecutive containers that are stored together, and the index of the first one.
struct Run {
    parent: Parent,
    start: usize,
    events: Vec<u64>,
}

fn runs(containers: &[fb_descriptor]) -> Result<Vec<Run>, EventsError> {
    let mut runs: Vec<Run> = Vec::new();
    for (start, container) in containers.iter().enumerate() {
        let container = container.read()?;
        let parent = container.placed_by();
        match runs.last_mut().filter(|run| run.parent == parent) {
            Some(run) => run.events.push(container.event),
            None => runs.push(Run {
                parent,
                start,
                events: vec![container.event],
            }),
        }
    }
    Ok(runs)
}

/// The names of products.
///
/// # Safety
///
/// The pointer points to `n` strings.
pub unsafe fn names(first: *const fb_text, n: usize) -> Result<Vec<ProductName>, EventsError> {
    // SAFETY: as the caller promises.
    let texts = unsafe { array(first, n) };
    // SAFETY: as the caller promises.
    let name = |text: &fb_text| unsafe { text.product_name() };
    texts.iter().map(name).collect()
}

/// Loads several products of several containers with few requests. Each is visited once, in any order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_products_load(
    store: *const fb_store,
    containers: *const fb_descriptor,
    n_containers: usize,
    products: *const fb_text,
    n_products: usize,
    visit: fb_visit,
    context: *mut c_void,
    error: *mut *mut fb_error,
) -> bool {
    let make = || {
        // SAFETY: the caller passes a store, descriptors and strings.
        let (store, containers, names) = unsafe {
            let names = names(products, n_products)?;
            (given(store)?, array(containers, n_containers), names)
        };
        let Some(visit) = visit else {
            let what =
                "the argument visit is NULL: pass a function that receives the products".into();
            return Err(EventsError::Usage { what });
        };
        let runs = runs(containers)?;
        let mut wanted = Vec::with_capacity(runs.len() * names.len());
        let mut places = Vec::with_capacity(wanted.capacity());
        for (n, name) in names.iter().enumerate() {
            for run in &runs {
                wanted.push(Wanted {
                    parent: run.parent,
                    name,
                    events: &run.events,
                });
                places.push((run.start, n));
            }
        }
        store.store.load_many(&wanted, &mut |w, e, value| {
            if let Some((start, name)) = places.get(w) {
                // SAFETY: the caller's function takes what it was declared to take, with the caller's context.
                unsafe { visit(context, start + e, *name, fb_bytes::of(value)) };
            }
            Ok(())
        })?;
        Ok(true)
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border(error, false, make) }
}

/// Lists the products of a container.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_products_list(
    store: *const fb_store,
    container: *const fb_descriptor,
    error: *mut *mut fb_error,
) -> *mut fb_products {
    let make = || {
        // SAFETY: the caller passes a store and a descriptor.
        let item = unsafe { item(store, container) }?;
        let container = item.descriptor();
        let id = |name| ProductId { container, name };
        let found = item.names(None)?.into_iter().map(id).collect();
        Ok(handle(fb_products { found }))
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border(error, std::ptr::null_mut(), make) }
}

/// Removes one product of a container, or all of its products if the name is empty.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_products_remove(
    store: *const fb_store,
    container: *const fb_descriptor,
    name: fb_text,
    error: *mut *mut fb_error,
) -> bool {
    let make = || {
        // SAFETY: the caller passes a store, a descriptor and a string.
        let item = unsafe { item(store, container) }?;
        let name = match name.size {
            0 => None,
            // SAFETY: the caller passes a string.
            _ => Some(unsafe { name.product_name() }?),
        };
        item.remove_products(name.as_ref()).map(|()| true)
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border(error, false, make) }
}

/// Removes products with this label from all events in a dataset, run or subrun; only those of one type if `type_name`
/// is not empty. `n` returns how many were removed. Products of the container itself, and of runs and subruns in it,
/// stay. Fails if no event has such a product.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_products_remove_of_events(
    store: *const fb_store,
    container: *const fb_descriptor,
    label: fb_text,
    type_name: fb_text,
    n: *mut u64,
    error: *mut *mut fb_error,
) -> bool {
    let make = || {
        // SAFETY: the caller passes a store, a descriptor, strings and a pointer to a number.
        let (item, n) = unsafe { (item(store, container)?, given_mut(n)?) };
        // SAFETY: the caller passes strings.
        let (label, type_name) = unsafe { (label.read()?, type_name.read()?) };
        let type_name = (!type_name.is_empty()).then_some(type_name);
        let done = item.remove_event_products(label, type_name)?;
        *n = done.n();
        if *n > 0 {
            return Ok(true);
        }
        let of = match item.item_type() {
            ItemType::DataSet => "the dataset".to_owned(),
            _ => item.descriptor().to_string(),
        };
        Err(done.not_found(item.datastore().url(), (label, type_name), &of))
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border(error, false, make) }
}

/// Product names, and how many events have a product of each name.
pub struct fb_event_products {
    found: Vec<(ProductName, u64)>,
}

/// Lists the product names of the events in a dataset, run or subrun, sorted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_event_products_list(
    store: *const fb_store,
    container: *const fb_descriptor,
    error: *mut *mut fb_error,
) -> *mut fb_event_products {
    let make = || {
        // SAFETY: the caller passes a store and a descriptor.
        let item = unsafe { item(store, container) }?;
        let found: Vec<_> = item.event_products()?.into_iter().collect();
        if found.is_empty() {
            item.datastore().check_left(item.descriptor().dataset)?;
        }
        Ok(handle(fb_event_products { found }))
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border(error, std::ptr::null_mut(), make) }
}

/// Returns the number of names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_event_products_len(products: *const fb_event_products) -> usize {
    // SAFETY: the caller passes a list that is not freed, or NULL.
    unsafe { products.as_ref() }.map_or(0, |products| products.found.len())
}

/// Returns one name: `label#type`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_event_products_name(
    products: *const fb_event_products,
    at: usize,
) -> fb_text {
    // SAFETY: the caller passes a list that is not freed, or NULL.
    let found = unsafe { products.as_ref() }.and_then(|products| products.found.get(at));
    fb_text::of(found.map_or("", |(name, _)| name.as_str()))
}

/// Returns how many events have a product with this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_event_products_n_events(
    products: *const fb_event_products,
    at: usize,
) -> u64 {
    // SAFETY: the caller passes a list that is not freed, or NULL.
    let found = unsafe { products.as_ref() }.and_then(|products| products.found.get(at));
    found.map_or(0, |(_, n_events)| *n_events)
}

/// Frees a list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_event_products_free(products: *mut fb_event_products) {
    // SAFETY: the caller passes a list that is not freed, or NULL.
    unsafe { free(products) };
}

/// Returns the number of products in the list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_products_len(products: *const fb_products) -> usize {
    // SAFETY: the caller passes a list that is not freed, or NULL.
    unsafe { products.as_ref() }.map_or(0, |products| products.found.len())
}

/// Returns the container of one product.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_products_container(
    products: *const fb_products,
    at: usize,
) -> fb_descriptor {
    // SAFETY: the caller passes a list that is not freed, or NULL.
    let found = unsafe { products.as_ref() }.and_then(|products| products.found.get(at));
    let none = fb_descriptor { bytes: [0xff; 40] };
    found.map_or(none, |id| id.container.into())
}

/// Returns the name of one product: `label#type`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_products_name(products: *const fb_products, at: usize) -> fb_text {
    // SAFETY: the caller passes a list that is not freed, or NULL.
    let found = unsafe { products.as_ref() }.and_then(|products| products.found.get(at));
    fb_text::of(found.map_or("", |id| id.name.as_str()))
}

/// Frees a list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_products_free(products: *mut fb_products) {
    // SAFETY: the caller passes a list that is not freed, or NULL.
    unsafe { free(products) };
}
