//! Errors, and the border at which everything becomes one.

use std::any::Any;
use std::error::Error;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use femtobarn::events::EventsError;

/// What went wrong.
pub struct fb_error {
    kind: CString,
    message: CString,
}

impl fb_error {
    fn new(kind: &str, message: String) -> Self {
        let c_text = |text: &str| CString::new(text.replace('\0', "\\0")).unwrap_or_default();
        Self {
            kind: c_text(kind),
            message: c_text(&message),
        }
    }

    fn of(error: &EventsError) -> Self {
        let mut message = error.to_string();
        let mut next = error.source();
        while let Some(cause) = next {
            message = format!("{message}: {cause}");
            next = cause.source();
        }
        Self::new(error.kind(), message)
    }

    fn of_panic(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        let text = text.unwrap_or("it says nothing");
        let message = format!("a fault in femtobarn, please report it: {text}");
        Self::new("fault", message)
    }
}

/// The name of what went wrong, which stays the same from version to version: "not-in-store", "store-locked", …
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_error_kind(error: *const fb_error) -> *const c_char {
    // SAFETY: the caller gives an error that is not freed, or NULL.
    let error = unsafe { error.as_ref() };
    error.map_or(c"".as_ptr(), |error| error.kind.as_ptr())
}

/// What went wrong, for people.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_error_message(error: *const fb_error) -> *const c_char {
    // SAFETY: the caller gives an error that is not freed, or NULL.
    let error = unsafe { error.as_ref() };
    error.map_or(c"".as_ptr(), |error| error.message.as_ptr())
}

/// Frees an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_error_free(error: *mut fb_error) {
    // SAFETY: the caller gives an error that is not freed, or NULL.
    unsafe { free(error) };
}

/// Frees a handle.
///
/// # Safety
///
/// It came from [`handle`] and is not freed, or is null.
pub unsafe fn free<T>(handle: *mut T) {
    // SAFETY: as the caller promises.
    let owned = unsafe { taken(handle) };
    // A destructor that panics must not unwind into C; that it did has been printed.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(owned)));
}

/// What was given back by C.
///
/// # Safety
///
/// `handle` was made by [`handle`], and is not used any more; or is null.
pub unsafe fn taken<T>(handle: *mut T) -> Option<T> {
    // SAFETY: it was made by Box::into_raw, and nobody else has it.
    (!handle.is_null()).then(|| *unsafe { Box::from_raw(handle) })
}

/// A handle of something, which is C's from now on.
pub fn handle<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

/// What `f` gives, or `otherwise` and an error in `error`.
///
/// # Safety
///
/// `error` may be written to, or is null.
pub unsafe fn border<T>(
    error: *mut *mut fb_error,
    otherwise: T,
    f: impl FnOnce() -> Result<T, EventsError>,
) -> T {
    // What was changed halfway is behind locks that are poisoned then, or belongs to the handle that failed.
    let failed = match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(value)) => return value,
        Ok(Err(failed)) => fb_error::of(&failed),
        Err(panic) => fb_error::of_panic(&*panic),
    };
    // SAFETY: the caller gives a place for an error, or NULL.
    if let Some(place) = unsafe { error.as_mut() } {
        *place = handle(failed);
    }
    otherwise
}
