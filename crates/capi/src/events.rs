//! All events of a container as one sequence.

use femtobarn::events::{EventChunk, EventChunks, EventsError, Parent, Uuid};

use super::descriptor::{fb_descriptor, item};
use super::error::{border, fb_error, free, handle};
use super::input::{given, given_mut};
use super::store::fb_store;

/// Iterates over the events of a container in the order of run, subrun and event.
pub struct fb_events {
    chunks: EventChunks,
    chunk: EventChunk,
}

/// The events of a container: those after `after` if it is given, and of one target if it is given.
///
/// # Safety
///
/// As for all functions of the header.
pub unsafe fn chunks(
    store: *const fb_store,
    container: *const fb_descriptor,
    target: i64,
    after: *const fb_descriptor,
) -> Result<EventChunks, EventsError> {
    // SAFETY: the caller passes a store and a descriptor, and another descriptor or NULL.
    let (item, after) = unsafe { (item(store, container)?, after.as_ref()) };
    let chunks = match after {
        None => item.events(),
        Some(after) => {
            EventChunks::after(item.datastore().clone(), item.descriptor(), after.read()?)
        }
    };
    match usize::try_from(target) {
        Err(_) => Ok(chunks),
        Ok(target) if target < item.datastore().backend().n_targets().max(1) => {
            Ok(chunks.of_target(target))
        }
        Ok(target) => Err(EventsError::Usage {
            what: format!("{} has no target {target}", item.datastore().url()),
        }),
    }
}

/// Starts an iteration over the events of a container: of one target of the store, or of all if `target` is negative;
/// after the event `after`, or from the first if it is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_events_start(
    store: *const fb_store,
    container: *const fb_descriptor,
    target: i64,
    after: *const fb_descriptor,
    error: *mut *mut fb_error,
) -> *mut fb_events {
    let make = || {
        // SAFETY: as the caller promises.
        let chunks = unsafe { chunks(store, container, target, after) }?;
        let chunk = EventChunk {
            parent: Parent::dataset(Uuid::NIL),
            events: Vec::new(),
        };
        Ok(handle(fb_events { chunks, chunk }))
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border(error, std::ptr::null_mut(), make) }
}

/// Returns the next events, all of one subrun, as `n` numbers that stay valid until the next call. At the end `n` is 0.
/// Fails at the end if the container was deleted meanwhile, or a run or subrun in it that was listed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_events_next(
    events: *mut fb_events,
    subrun: *mut fb_descriptor,
    numbers: *mut *const u64,
    n: *mut usize,
    error: *mut *mut fb_error,
) -> bool {
    let make = || {
        // SAFETY: the caller passes events, and pointers to a descriptor, a pointer and a number.
        let (events, subrun, numbers, n) = unsafe {
            let (events, subrun) = (given_mut(events)?, given_mut(subrun)?);
            (events, subrun, given_mut(numbers)?, given_mut(n)?)
        };
        events.chunk.events.clear();
        if let Some(chunk) = events.chunks.next() {
            events.chunk = chunk?;
            *subrun = events.chunk.parent.descriptor().into();
        }
        *numbers = events.chunk.events.as_ptr();
        *n = events.chunk.events.len();
        Ok(true)
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border(error, false, make) }
}

/// Fails if the container was deleted, or a run or subrun in it that was listed so far. Call this after processing the
/// events if that took longer than listing them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_events_check_left(
    events: *const fb_events,
    error: *mut *mut fb_error,
) -> bool {
    let make = || {
        // SAFETY: the caller passes events.
        unsafe { given(events) }?.chunks.passed().check_left()?;
        Ok(true)
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border(error, false, make) }
}

/// Ends the iteration and frees it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_events_free(events: *mut fb_events) {
    // SAFETY: the caller passes events that are not freed, or NULL.
    unsafe { free(events) };
}
