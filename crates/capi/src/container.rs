//! Runs, subruns and events.

use femtobarn::events::{Container, EventsError};

use super::descriptor::{fb_descriptor, holder, item};
use super::error::{border, fb_error};
use super::input::given_mut;
use super::store::fb_store;

/// The container that holds this one, and the number of this one in it.
fn place(item: &Container) -> Result<(Container, u64), EventsError> {
    let (parent, number) = holder(item.descriptor())?;
    let above = Container::new(item.datastore().clone(), parent.descriptor());
    Ok((above, number))
}

/// Calls a function with a container; returns whether it succeeded.
///
/// # Safety
///
/// As for all functions of the header.
unsafe fn act(
    store: *const fb_store,
    container: *const fb_descriptor,
    error: *mut *mut fb_error,
    act: impl FnOnce(Container) -> Result<(), EventsError>,
) -> bool {
    let make = || {
        // SAFETY: the caller passes a store and a descriptor.
        let item = unsafe { item(store, container) }?;
        act(item).map(|()| true)
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border(error, false, make) }
}

/// Creates a run, subrun or event if it does not exist.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_container_create(
    store: *const fb_store,
    container: *const fb_descriptor,
    error: *mut *mut fb_error,
) -> bool {
    // SAFETY: as the caller promises.
    unsafe {
        act(store, container, error, |item| {
            let (above, number) = place(&item)?;
            above.create(number).map(drop)
        })
    }
}

/// Checks whether a run, subrun or event exists.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_container_exists(
    store: *const fb_store,
    container: *const fb_descriptor,
    is_there: *mut bool,
    error: *mut *mut fb_error,
) -> bool {
    let make = || {
        // SAFETY: the caller passes a store, a descriptor and a pointer to a boolean.
        let (item, is_there) = unsafe { (item(store, container)?, given_mut(is_there)?) };
        *is_there = item.exists()?;
        Ok(true)
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border(error, false, make) }
}

/// Fails if a dataset, run, subrun or event was deleted. Call this after iterating over the children of a container, as
/// another process may have deleted the container meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_container_check_left(
    store: *const fb_store,
    container: *const fb_descriptor,
    error: *mut *mut fb_error,
) -> bool {
    // SAFETY: as the caller promises.
    unsafe { act(store, container, error, |item| item.check_left()) }
}

/// Fails if a run, subrun or event does not exist; the error lists numbers close to the requested one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_container_require(
    store: *const fb_store,
    container: *const fb_descriptor,
    error: *mut *mut fb_error,
) -> bool {
    // SAFETY: as the caller promises.
    unsafe {
        act(store, container, error, |item| {
            let (above, number) = place(&item)?;
            above.get(number).map(drop)
        })
    }
}

/// Removes a run, subrun or event with all its products and children. Remove a dataset with fb_dataset_remove, which
/// also removes its name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_container_remove(
    store: *const fb_store,
    container: *const fb_descriptor,
    error: *mut *mut fb_error,
) -> bool {
    // SAFETY: as the caller promises.
    unsafe {
        act(store, container, error, |item| {
            holder(item.descriptor())?;
            item.remove()
        })
    }
}

/// Lists the numbers of the children of a container in ascending order, starting at `from`. `numbers` must have room
/// for `limit` numbers; `n` returns how many were written. Fewer than `limit` means that these are the last ones. Fails
/// if the container was deleted meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_container_numbers(
    store: *const fb_store,
    container: *const fb_descriptor,
    from: u64,
    limit: usize,
    numbers: *mut u64,
    n: *mut usize,
    error: *mut *mut fb_error,
) -> bool {
    let make = || {
        // SAFETY: the caller passes a store, a descriptor and a pointer to a number.
        let (item, n) = unsafe { (item(store, container)?, given_mut(n)?) };
        let found = item.page(from.., limit)?;
        let found = found.get(..limit).unwrap_or(&found);
        if !found.is_empty() {
            // SAFETY: `numbers` has room for `limit` numbers, which is at least one.
            unsafe { given_mut(numbers)? };
            // SAFETY: `numbers` has room for `limit` numbers, and at most `limit` are copied.
            unsafe { std::ptr::copy_nonoverlapping(found.as_ptr(), numbers, found.len()) };
        }
        *n = found.len();
        Ok(true)
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border(error, false, make) }
}
