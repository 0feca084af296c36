//! Named queues between programs.

use std::ffi::c_void;

use femtobarn::events::{EventsError, Queue, QueueMode};

use crate::error::{border, fb_error, free, handle};
use crate::input::{fb_bytes, fb_text, given, given_mut};
use crate::store::{fb_store, fb_value, maybe};

/// A queue that is open.
pub struct fb_queue {
    queue: Queue,
}

/// What one does with a queue: FB_CONSUMER or FB_PRODUCER.
pub type fb_queue_mode = u32;
/// Takes from it.
pub const FB_CONSUMER: u32 = 0;
/// Pushes to it.
pub const FB_PRODUCER: u32 = 1;

/// Says whether waiting goes on; asked about once a second. It must not throw.
pub type fb_goes_on = Option<unsafe extern "C" fn(context: *mut c_void) -> bool>;

/// Creates a queue; says whether there was none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_queue_create(
    store: *const fb_store,
    name: fb_text,
    is_new: *mut bool,
    error: *mut *mut fb_error,
) -> bool {
    let make = || {
        // SAFETY: the caller gives a store, a text and a place for an answer.
        let (store, name, is_new) = unsafe { (given(store)?, name.read()?, given_mut(is_new)?) };
        *is_new = store.store.create_queue(name)?;
        Ok(true)
    };
    // SAFETY: the caller gives a place for an error, or NULL.
    unsafe { border(error, false, make) }
}

/// Removes a queue, with what is in it; says whether there was one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_queue_destroy(
    store: *const fb_store,
    name: fb_text,
    was_there: *mut bool,
    error: *mut *mut fb_error,
) -> bool {
    let make = || {
        // SAFETY: the caller gives a store, a text and a place for an answer.
        let (store, name, was) = unsafe { (given(store)?, name.read()?, given_mut(was_there)?) };
        *was = store.store.destroy_queue(name)?;
        Ok(true)
    };
    // SAFETY: the caller gives a place for an error, or NULL.
    unsafe { border(error, false, make) }
}

/// Opens a queue. As long as a producer has it open, consumers wait for more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_queue_open(
    store: *const fb_store,
    name: fb_text,
    mode: fb_queue_mode,
    error: *mut *mut fb_error,
) -> *mut fb_queue {
    let make = || {
        // SAFETY: the caller gives a store and a text.
        let (store, name) = unsafe { (given(store)?, name.read()?) };
        let mode = match mode {
            FB_CONSUMER => QueueMode::Consumer,
            FB_PRODUCER => QueueMode::Producer,
            mode => {
                let what = format!("there is no mode {mode} of opening a queue");
                return Err(EventsError::Usage { what });
            }
        };
        let queue = store.store.open_queue(name, mode)?;
        Ok(handle(fb_queue { queue }))
    };
    // SAFETY: the caller gives a place for an error, or NULL.
    unsafe { border(error, std::ptr::null_mut(), make) }
}

/// Adds a value to its end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_queue_push(
    queue: *const fb_queue,
    value: fb_bytes,
    error: *mut *mut fb_error,
) -> bool {
    let make = || {
        // SAFETY: the caller gives a queue and bytes.
        let (queue, value) = unsafe { (given(queue)?, value.read()) };
        queue.queue.push(value).map(|()| true)
    };
    // SAFETY: the caller gives a place for an error, or NULL.
    unsafe { border(error, false, make) }
}

/// Takes a value from its front; waits for one as long as somebody may push. NULL if nobody will any more, or if `goes_on`
/// (or NULL) says that waiting is to end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_queue_pop(
    queue: *const fb_queue,
    goes_on: fb_goes_on,
    context: *mut c_void,
    value: *mut *mut fb_value,
    error: *mut *mut fb_error,
) -> bool {
    let make = || {
        // SAFETY: the caller gives a queue and a place for a handle.
        let (queue, value) = unsafe { (given(queue)?, given_mut(value)?) };
        let goes_on = || match goes_on {
            None => true,
            // SAFETY: the caller's function takes what it was declared to take, with the caller's context.
            Some(goes_on) => unsafe { goes_on(context) },
        };
        *value = maybe(queue.queue.pop(&goes_on)?);
        Ok(true)
    };
    // SAFETY: the caller gives a place for an error, or NULL.
    unsafe { border(error, false, make) }
}

/// How many values are in it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_queue_len(
    queue: *const fb_queue,
    n: *mut u64,
    error: *mut *mut fb_error,
) -> bool {
    let make = || {
        // SAFETY: the caller gives a queue and a place for a number.
        let (queue, n) = unsafe { (given(queue)?, given_mut(n)?) };
        *n = queue.queue.len()?;
        Ok(true)
    };
    // SAFETY: the caller gives a place for an error, or NULL.
    unsafe { border(error, false, make) }
}

/// Says that nothing more will be pushed from here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_queue_close(queue: *mut fb_queue, error: *mut *mut fb_error) -> bool {
    // SAFETY: the caller gives a queue.
    let make = || unsafe { given_mut(queue) }?.queue.close().map(|()| true);
    // SAFETY: the caller gives a place for an error, or NULL.
    unsafe { border(error, false, make) }
}

/// Closes a queue and frees its handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_queue_free(queue: *mut fb_queue) {
    // SAFETY: the caller gives a queue that is not freed, or NULL.
    unsafe { free(queue) };
}
