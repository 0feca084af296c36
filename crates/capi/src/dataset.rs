//! Datasets, by their paths from the root of the store: `fermilab/nova`.

use femtobarn::events::{DataSet, EventsError, Uuid};

use super::descriptor::{fb_descriptor, item, path};
use super::error::{border, fb_error, free, handle};
use super::input::{fb_text, given, given_mut};
use super::store::fb_store;

/// The datasets in another dataset, sorted by name.
pub struct fb_datasets {
    found: Vec<(String, Uuid)>,
}

fn descriptor(uuid: Uuid) -> fb_descriptor {
    let parent = femtobarn::events::Parent::dataset(uuid);
    parent.descriptor().into()
}

/// Creates a dataset and its parent datasets if they do not exist.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_dataset_create(
    store: *const fb_store,
    name: fb_text,
    dataset: *mut fb_descriptor,
    error: *mut *mut fb_error,
) -> bool {
    // SAFETY: as the caller promises.
    unsafe {
        get(store, name, dataset, error, |root, name| {
            root.create_dataset(name)
        })
    }
}

/// Creates a dataset in another one, and the datasets between them, if they do not exist. The other one is given by its
/// name and its descriptor. Fails if it was deleted, also if a new dataset has its name now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_dataset_create_in(
    store: *const fb_store,
    holder_name: fb_text,
    holder: *const fb_descriptor,
    name: fb_text,
    dataset: *mut fb_descriptor,
    error: *mut *mut fb_error,
) -> bool {
    let make = || {
        // SAFETY: the caller passes a store, a string and a descriptor.
        let holder = unsafe { opened(store, holder_name, holder) }?;
        // SAFETY: the caller passes a string and a pointer to a descriptor.
        let (name, dataset) = unsafe { (name.read()?, given_mut(dataset)?) };
        *dataset = holder.create_dataset(name)?.descriptor().into();
        Ok(true)
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border(error, false, make) }
}

/// The dataset of a name and a descriptor. They are not compared with the content of the store.
///
/// # Safety
///
/// As for all functions of the header.
unsafe fn opened(
    store: *const fb_store,
    name: fb_text,
    dataset: *const fb_descriptor,
) -> Result<DataSet, EventsError> {
    // SAFETY: as the caller promises.
    let (item, name) = unsafe { (item(store, dataset)?, name.read()?) };
    let uuid = item.descriptor().dataset;
    Ok(DataSet::new(item.datastore().clone(), path(name)?, uuid))
}

/// Opens the dataset with this name. The empty name is the root, which holds only datasets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_dataset_open(
    store: *const fb_store,
    name: fb_text,
    dataset: *mut fb_descriptor,
    error: *mut *mut fb_error,
) -> bool {
    // SAFETY: as the caller promises.
    unsafe { get(store, name, dataset, error, |root, name| root.dataset(name)) }
}

/// # Safety
///
/// As for all functions of the header.
unsafe fn get(
    store: *const fb_store,
    name: fb_text,
    dataset: *mut fb_descriptor,
    error: *mut *mut fb_error,
    how: impl FnOnce(DataSet, &str) -> Result<DataSet, EventsError>,
) -> bool {
    let make = || {
        // SAFETY: the caller passes a store, a string and a pointer to a descriptor.
        let (store, name, dataset) = unsafe { (given(store)?, name.read()?, given_mut(dataset)?) };
        *dataset = how(store.store.root(), name)?.descriptor().into();
        Ok(true)
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border(error, false, make) }
}

/// Looks up the dataset with this name; `is_there` returns whether it exists.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_dataset_find(
    store: *const fb_store,
    name: fb_text,
    dataset: *mut fb_descriptor,
    is_there: *mut bool,
    error: *mut *mut fb_error,
) -> bool {
    let make = || {
        // SAFETY: the caller passes a store, a string and pointers to a descriptor and a boolean.
        let (store, name, dataset, is_there) = unsafe {
            let (store, is_there) = (given(store)?, given_mut(is_there)?);
            (store, name.read()?, given_mut(dataset)?, is_there)
        };
        let found = store.store.root().find_dataset(name)?;
        *is_there = found.is_some();
        if let Some(found) = found {
            *dataset = found.descriptor().into();
        }
        Ok(true)
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border(error, false, make) }
}

/// Fails if a dataset was deleted, also if a new dataset has its name now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_dataset_require(
    store: *const fb_store,
    name: fb_text,
    dataset: *const fb_descriptor,
    error: *mut *mut fb_error,
) -> bool {
    // SAFETY: the caller passes a store, a string and a descriptor.
    let make = || {
        unsafe { opened(store, name, dataset) }?
            .check_there()
            .map(|()| true)
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border(error, false, make) }
}

/// Removes a dataset with everything in it. Also finishes an interrupted removal. With a descriptor, the call fails if
/// a new dataset has this name now; with NULL, it removes whichever dataset has the name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_dataset_remove(
    store: *const fb_store,
    name: fb_text,
    dataset: *const fb_descriptor,
    error: *mut *mut fb_error,
) -> bool {
    let make = || {
        if dataset.is_null() {
            // SAFETY: the caller passes a store and a string.
            let (store, name) = unsafe { (given(store)?, name.read()?) };
            return store.store.root().delete_dataset(name).map(|()| true);
        }
        // SAFETY: the caller passes a store, a string and a descriptor.
        let dataset = unsafe { opened(store, name, dataset) }?;
        if !dataset.is_left()? {
            dataset.check_there()?;
        }
        dataset.remove().map(|()| true)
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border(error, false, make) }
}

/// Lists the datasets in another one (the root, if `name` is empty) that follow `after` (all, if `after` is empty), at
/// most `limit`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_datasets_list(
    store: *const fb_store,
    name: fb_text,
    after: fb_text,
    limit: usize,
    error: *mut *mut fb_error,
) -> *mut fb_datasets {
    let make = || {
        // SAFETY: the caller passes a store and strings.
        let (store, name, after) = unsafe { (given(store)?, name.read()?, after.read()?) };
        let after = (!after.is_empty()).then_some(after);
        let parent = DataSet::new(store.store.clone(), path(name)?, Uuid::NIL);
        let found = parent.datasets(after).take(limit).map(|dataset| {
            let dataset = dataset?;
            Ok((dataset.path().split().1.to_owned(), dataset.uuid()))
        });
        let found = found.collect::<Result<_, EventsError>>()?;
        Ok(handle(fb_datasets { found }))
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border(error, std::ptr::null_mut(), make) }
}

/// Returns the number of datasets in the list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_datasets_len(datasets: *const fb_datasets) -> usize {
    // SAFETY: the caller passes a list that is not freed, or NULL.
    unsafe { datasets.as_ref() }.map_or(0, |datasets| datasets.found.len())
}

/// Returns the last part of the name of one dataset.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_datasets_name(datasets: *const fb_datasets, at: usize) -> fb_text {
    // SAFETY: the caller passes a list that is not freed, or NULL.
    let found = unsafe { datasets.as_ref() }.and_then(|datasets| datasets.found.get(at));
    fb_text::of(found.map_or("", |(name, _)| name))
}

/// Returns the descriptor of one dataset.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_datasets_descriptor(
    datasets: *const fb_datasets,
    at: usize,
) -> fb_descriptor {
    // SAFETY: the caller passes a list that is not freed, or NULL.
    let found = unsafe { datasets.as_ref() }.and_then(|datasets| datasets.found.get(at));
    descriptor(found.map_or(Uuid::NIL, |(_, uuid)| *uuid))
}

/// Frees a list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_datasets_free(datasets: *mut fb_datasets) {
    // SAFETY: the caller passes a list that is not freed, or NULL.
    unsafe { free(datasets) };
}
