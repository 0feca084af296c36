//! Runs, subruns and events.

use femtobarn::events::{Container, EventsError};

use crate::descriptor::{fb_descriptor, holder, item};
use crate::error::{border, fb_error};
use crate::input::given_mut;
use crate::store::fb_store;

/// The container that holds one, as an item, and the number of the one in it.
fn place(item: &Container) -> Result<(Container, u64), EventsError> {
    let (parent, number) = holder(item.descriptor())?;
    let above = Container::new(item.datastore().clone(), parent.descriptor());
    Ok((above, number))
}

/// Does something with a container; says whether it was done.
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
        // SAFETY: the caller gives a store and a descriptor.
        let item = unsafe { item(store, container) }?;
        act(item).map(|()| true)
    };
    // SAFETY: the caller gives a place for an error, or NULL.
    unsafe { border(error, false, make) }
}

/// Creates a run, subrun or event, if it is not there.
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

/// Whether a run, subrun or event is there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_container_exists(
    store: *const fb_store,
    container: *const fb_descriptor,
    is_there: *mut bool,
    error: *mut *mut fb_error,
) -> bool {
    let make = || {
        // SAFETY: the caller gives a store, a descriptor and a place for an answer.
        let (item, is_there) = unsafe { (item(store, container)?, given_mut(is_there)?) };
        *is_there = item.exists()?;
        Ok(true)
    };
    // SAFETY: the caller gives a place for an error, or NULL.
    unsafe { border(error, false, make) }
}

/// Fails if a dataset, run, subrun or event was deleted. Whoever has passed over what it holds calls this at the end, as
/// others may have deleted it meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_container_check_left(
    store: *const fb_store,
    container: *const fb_descriptor,
    error: *mut *mut fb_error,
) -> bool {
    // SAFETY: as the caller promises.
    unsafe { act(store, container, error, |item| item.check_left()) }
}

/// Fails if a run, subrun or event is not there; the error says which numbers are near.
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

/// Removes a run, subrun or event, with all products and all that it holds. A dataset has a name, which must go with it:
/// fb_dataset_remove removes it.
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

/// The numbers of what a container holds, in their order, from `from` on: at most `limit`, for which `numbers` has room.
/// `n` says how many there were; fewer than `limit` are the last ones, and an error if the container was deleted meanwhile.
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
        // SAFETY: the caller gives a store, a descriptor and a place for a number.
        let (item, n) = unsafe { (item(store, container)?, given_mut(n)?) };
        let found = item.page(from.., limit)?;
        let found = found.get(..limit).unwrap_or(&found);
        if !found.is_empty() {
            // SAFETY: it points to something, as there is room for `limit` numbers, which is at least one.
            unsafe { given_mut(numbers)? };
            // SAFETY: there is room for `limit` numbers, and there are no more.
            unsafe { std::ptr::copy_nonoverlapping(found.as_ptr(), numbers, found.len()) };
        }
        *n = found.len();
        Ok(true)
    };
    // SAFETY: the caller gives a place for an error, or NULL.
    unsafe { border(error, false, make) }
}
