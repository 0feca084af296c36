//! Named queues between programs.

use std::ffi::c_void;

use femtobarn::events::{EventsError, Queue, QueueMode};

use super::error::{border, fb_error, free, handle};
use super::input::{fb_bytes, fb_text, given, given_mut};
use super::store::{fb_store, fb_value, maybe};

/// An open queue.
pub struct fb_queue {
    queue: Queue,
}

/// How a queue is used: FB_CONSUMER or FB_PRODUCER.
pub type fb_queue_mode = u32;
/// Pops values.
pub const FB_CONSUMER: u32 = 0;
/// Pushes values.
pub const FB_PRODUCER: u32 = 1;

/// Returns whether to continue waiting; called about once a second. It must not throw.
pub type fb_goes_on = Option<unsafe extern "C" fn(context: *mut c_void) -> bool>;

/// Creates a queue if it does not exist; `is_new` returns whether it was created.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_queue_create(
    store: *const fb_store,
    name: fb_text,
    is_new: *mut bool,
    error: *mut *mut fb_error,
) -> bool {
    let make = || {
        // SAFETY: the caller passes a store, a string and a pointer to a boolean.
        let (store, name, is_new) = unsafe { (given(store)?, name.read()?, given_mut(is_new)?) };
        *is_new = store.store.create_queue(name)?;
        Ok(true)
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border(error, false, make) }
}

/// Removes a queue with its values; `was_there` returns whether it existed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_queue_destroy(
    store: *const fb_store,
    name: fb_text,
    was_there: *mut bool,
    error: *mut *mut fb_error,
) -> bool {
    let make = || {
        // SAFETY: the caller passes a store, a string and a pointer to a boolean.
        let (store, name, was) = unsafe { (given(store)?, name.read()?, given_mut(was_there)?) };
        *was = store.store.destroy_queue(name)?;
        Ok(true)
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border(error, false, make) }
}

/// Opens a queue. Consumers wait for more values as long as a producer has the queue open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_queue_open(
    store: *const fb_store,
    name: fb_text,
    mode: fb_queue_mode,
    error: *mut *mut fb_error,
) -> *mut fb_queue {
    let make = || {
        // SAFETY: the caller passes a store and a string.
        let (store, name) = unsafe { (given(store)?, name.read()?) };
        let mode = match mode {
            FB_CONSUMER => QueueMode::Consumer,
            FB_PRODUCER => QueueMode::Producer,
            mode => {
                let what =
                    format!("invalid mode {mode} of a queue: expected FB_CONSUMER or FB_PRODUCER");
                return Err(EventsError::Usage { what });
            }
        };
        let queue = store.store.open_queue(name, mode)?;
        Ok(handle(fb_queue { queue }))
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border(error, std::ptr::null_mut(), make) }
}

/// Adds a value at the end of the queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_queue_push(
    queue: *const fb_queue,
    value: fb_bytes,
    error: *mut *mut fb_error,
) -> bool {
    let make = || {
        // SAFETY: the caller passes a queue and bytes.
        let (queue, value) = unsafe { (given(queue)?, value.read()) };
        queue.queue.push(value).map(|()| true)
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border(error, false, make) }
}

/// Takes a value from the front of the queue. Waits for a value as long as a producer has the queue open. `value` is
/// NULL if all producers are done, or if `goes_on` returns false; `goes_on` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_queue_pop(
    queue: *const fb_queue,
    goes_on: fb_goes_on,
    context: *mut c_void,
    value: *mut *mut fb_value,
    error: *mut *mut fb_error,
) -> bool {
    let make = || {
        // SAFETY: the caller passes a queue and a pointer to a handle.
        let (queue, value) = unsafe { (given(queue)?, given_mut(value)?) };
        let goes_on = || match goes_on {
            None => true,
            // SAFETY: the caller's function takes what it was declared to take, with the caller's context.
            Some(goes_on) => unsafe { goes_on(context) },
        };
        *value = maybe(queue.queue.pop(&goes_on)?);
        Ok(true)
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border(error, false, make) }
}

/// Returns the number of values in the queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_queue_len(
    queue: *const fb_queue,
    n: *mut u64,
    error: *mut *mut fb_error,
) -> bool {
    let make = || {
        // SAFETY: the caller passes a queue and a pointer to a number.
        let (queue, n) = unsafe { (given(queue)?, given_mut(n)?) };
        *n = queue.queue.len()?;
        Ok(true)
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border(error, false, make) }
}

/// Closes a queue: this handle pushes no more values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_queue_close(queue: *mut fb_queue, error: *mut *mut fb_error) -> bool {
    // SAFETY: the caller passes a queue.
    let make = || unsafe { given_mut(queue) }?.queue.close().map(|()| true);
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border(error, false, make) }
}

/// Closes a queue and frees its handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_queue_free(queue: *mut fb_queue) {
    // SAFETY: the caller passes a queue that is not freed, or NULL.
    unsafe { free(queue) };
}
