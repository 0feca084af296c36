//! The store as a whole: connecting, targets, flushing, notes.

use std::ffi::{CString, c_char};

use femtobarn::events::{DataStore, EventsError, ObjectOptions, Parent};
use femtobarn::products::{CLASSES_KNOWN_FOR, Types};

use super::descriptor::fb_descriptor;
use super::error::{border, fb_error, free, handle};
use super::input::{fb_bytes, fb_text, given, given_mut};

/// An event store.
pub struct fb_store {
    pub(crate) store: DataStore,
    url: CString,
}

/// Bytes that the caller frees.
pub struct fb_value {
    bytes: Vec<u8>,
}

/// How a store is opened: one of the four modes below.
pub type fb_mode = u32;
/// Reads and writes; creates the store if it does not exist.
pub const FB_APPEND: u32 = 0;
/// Only reads, also while other processes write. The store must exist.
pub const FB_READ: u32 = 1;
/// Reads and writes; only reads if another process writes to the store, which a store in a directory allows to one.
pub const FB_APPEND_OR_READ: u32 = 2;
/// Reads and writes. The store must exist, so that a misspelt URL does not create one.
pub const FB_UPDATE: u32 = 3;

fn open(url: &str, mode: fb_mode) -> Result<DataStore, EventsError> {
    let connect = || DataStore::connect(url, ObjectOptions::default());
    let read = || DataStore::connect_to_read(url, ObjectOptions::default());
    match mode {
        FB_APPEND => connect(),
        FB_READ => read(),
        FB_APPEND_OR_READ => match connect() {
            Err(EventsError::Locked { .. }) => read(),
            opened => opened,
        },
        FB_UPDATE => DataStore::connect_existing(url, ObjectOptions::default()),
        mode => Err(EventsError::Usage {
            what: format!(
                "invalid store mode {mode}: expected FB_APPEND, FB_READ, FB_APPEND_OR_READ or FB_UPDATE"
            ),
        }),
    }
}

/// Opens a store by its URL or by a JSON configuration, which can also set the location of large products (`objects`).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_store_connect(
    url: fb_text,
    mode: fb_mode,
    error: *mut *mut fb_error,
) -> *mut fb_store {
    let make = || {
        // SAFETY: the caller passes a string.
        let store = open(unsafe { url.read() }?, mode)?;
        let url = CString::new(store.url().replace('\0', "\\0")).unwrap_or_default();
        Ok(handle(fb_store { store, url }))
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border(error, std::ptr::null_mut(), make) }
}

/// Closes a store. Batches, loaders and queues that were made from it may live longer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_store_free(store: *mut fb_store) {
    // SAFETY: the caller passes a store that is not freed, or NULL.
    unsafe { free(store) };
}

/// Returns the URL of a store, without secrets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_store_url(store: *const fb_store) -> *const c_char {
    // SAFETY: the caller passes a store, or NULL.
    unsafe { store.as_ref() }.map_or(c"".as_ptr(), |store| store.url.as_ptr())
}

/// Checks whether two handles are the same store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_store_is_same(a: *const fb_store, b: *const fb_store) -> bool {
    // SAFETY: the caller passes stores, or NULL.
    match unsafe { (a.as_ref(), b.as_ref()) } {
        (Some(a), Some(b)) => a.store == b.store,
        (a, b) => a.is_none() && b.is_none(),
    }
}

/// Checks whether flushed data survives the end of the processes that hold it. It does in a directory, and in Redis if
/// every server keeps an append-only file, but not in memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_store_is_durable(store: *const fb_store) -> bool {
    // SAFETY: the caller passes a store, or NULL.
    unsafe { store.as_ref() }.is_some_and(|store| store.store.backend().is_durable())
}

/// Returns the number of shards over which the containers and products are spread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_store_n_targets(store: *const fb_store) -> usize {
    // SAFETY: the caller passes a store, or NULL.
    unsafe { store.as_ref() }.map_or(0, |store| store.store.backend().n_targets())
}

/// Computes the shard that has the products and children of a container.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_store_target(
    store: *const fb_store,
    container: *const fb_descriptor,
    target: *mut usize,
    error: *mut *mut fb_error,
) -> bool {
    let make = || {
        // SAFETY: the caller passes a store, a descriptor and a pointer to a number.
        let (store, container, target) =
            unsafe { (given(store)?, given(container)?, given_mut(target)?) };
        let parent: Parent = container.read()?.placed_by();
        *target = store.store.backend().target(&parent);
        Ok(true)
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border(error, false, make) }
}

/// Returns when all written data is as durable as the store makes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_store_flush(store: *const fb_store, error: *mut *mut fb_error) -> bool {
    // SAFETY: the caller passes a store.
    let make = || unsafe { given(store) }?.store.flush().map(|()| true);
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border(error, false, make) }
}

/// Stores a note about the store as a whole, unless a note with this key exists. `noted` returns the note that the
/// store has now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_store_note(
    store: *const fb_store,
    key: fb_text,
    value: fb_bytes,
    noted: *mut *mut fb_value,
    error: *mut *mut fb_error,
) -> bool {
    let make = || {
        // SAFETY: the caller passes a store, a string, bytes and a pointer to a handle.
        let (store, key, value, noted) = unsafe {
            let (store, noted) = (given(store)?, given_mut(noted)?);
            (store, key.read()?, value.read(), noted)
        };
        *noted = value_of(store.store.backend().note(key, value)?);
        Ok(true)
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border(error, false, make) }
}

/// Returns a note about the store, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_store_noted(
    store: *const fb_store,
    key: fb_text,
    noted: *mut *mut fb_value,
    error: *mut *mut fb_error,
) -> bool {
    let make = || {
        // SAFETY: the caller passes a store, a string and a pointer to a handle.
        let (store, key, noted) = unsafe { (given(store)?, key.read()?, given_mut(noted)?) };
        *noted = maybe(store.store.backend().noted(key)?);
        Ok(true)
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border(error, false, make) }
}

/// For how many milliseconds the noted members of a class need not be looked up again. A forgotten class gets no other
/// members before this time has passed.
#[unsafe(no_mangle)]
pub extern "C" fn fb_classes_known_for() -> u64 {
    u64::try_from(CLASSES_KNOWN_FOR.as_millis()).unwrap_or(0)
}

/// Forgets the members of a class that no product has any more, so that the class can be noted with other members.
/// Takes some seconds, until other programs have dropped the old members from their caches.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_store_forget_class(
    store: *const fb_store,
    name: fb_text,
    error: *mut *mut fb_error,
) -> bool {
    let make = || {
        // SAFETY: the caller passes a store and a string.
        let (store, name) = unsafe { (given(store)?, name.read()?) };
        Types::new(&store.store).forget(name)?;
        store.store.flush().map(|()| true)
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border(error, false, make) }
}

/// Computes how many bytes a value of a class has, from its noted members; 0 if the size varies. Fails if the class is
/// not noted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_store_class_size(
    store: *const fb_store,
    name: fb_text,
    size: *mut usize,
    error: *mut *mut fb_error,
) -> bool {
    let make = || {
        // SAFETY: the caller passes a store, a string and a pointer to a number.
        let (store, name, size) = unsafe { (given(store)?, name.read()?, given_mut(size)?) };
        *size = Types::new(&store.store).of(name, name)?.size().unwrap_or(0);
        Ok(true)
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border(error, false, make) }
}

/// A handle of bytes.
pub fn value_of(bytes: Vec<u8>) -> *mut fb_value {
    handle(fb_value { bytes })
}

/// A handle of bytes, or null for none.
pub fn maybe(bytes: Option<Vec<u8>>) -> *mut fb_value {
    bytes.map_or(std::ptr::null_mut(), value_of)
}

/// Returns the bytes of a value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_value_bytes(value: *const fb_value) -> fb_bytes {
    // SAFETY: the caller passes a value that is not freed, or NULL.
    fb_bytes::of(unsafe { value.as_ref() }.map(|value| value.bytes.as_slice()))
}

/// Frees a value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_value_free(value: *mut fb_value) {
    // SAFETY: the caller passes a value that is not freed, or NULL.
    unsafe { free(value) };
}

/// Returns the version of femtobarn.
#[unsafe(no_mangle)]
pub extern "C" fn fb_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}
