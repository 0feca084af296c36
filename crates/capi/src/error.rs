//! Errors, and the border that turns panics and Rust errors into C errors.

use std::any::Any;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use femtobarn::Error as FileError;
use femtobarn::events::EventsError;
use femtobarn::io::with_causes;

/// An error.
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

    fn of_panic(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        let text = text.unwrap_or("no message");
        let message = format!("internal error in femtobarn, please report it: {text}");
        Self::new("fault", message)
    }
}

impl From<EventsError> for fb_error {
    fn from(error: EventsError) -> Self {
        Self::new(error.kind(), with_causes(&error))
    }
}

impl From<FileError> for fb_error {
    fn from(error: FileError) -> Self {
        Self::new(error.kind(), error.with_causes())
    }
}

/// Returns the kind of the error, which is stable across versions: "not-in-store", "store-locked", …
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_error_kind(error: *const fb_error) -> *const c_char {
    // SAFETY: the caller passes an error that is not freed, or NULL.
    let error = unsafe { error.as_ref() };
    error.map_or(c"".as_ptr(), |error| error.kind.as_ptr())
}

/// Returns the message of the error, for people.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_error_message(error: *const fb_error) -> *const c_char {
    // SAFETY: the caller passes an error that is not freed, or NULL.
    let error = unsafe { error.as_ref() };
    error.map_or(c"".as_ptr(), |error| error.message.as_ptr())
}

/// Frees an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_error_free(error: *mut fb_error) {
    // SAFETY: the caller passes an error that is not freed, or NULL.
    unsafe { free(error) };
}

/// Frees a handle.
///
/// # Safety
///
/// The pointer came from [`handle`] and is not freed yet, or is null.
pub unsafe fn free<T>(handle: *mut T) {
    // SAFETY: as the caller promises.
    let owned = unsafe { taken(handle) };
    // A panic in a destructor must not unwind into C; the panic message was printed already.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(owned)));
}

/// Takes back a handle from C.
///
/// # Safety
///
/// `handle` was made by [`handle`] and is not used afterwards, or it is null.
pub unsafe fn taken<T>(handle: *mut T) -> Option<T> {
    // SAFETY: it was made by Box::into_raw, and is not used elsewhere.
    (!handle.is_null()).then(|| *unsafe { Box::from_raw(handle) })
}

/// Moves a value into a handle that C owns.
pub fn handle<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

/// Returns the result of `f`; if `f` fails, returns `otherwise` and stores the error in `error`.
///
/// # Safety
///
/// `error` is writable or null.
pub unsafe fn border<T>(
    error: *mut *mut fb_error,
    otherwise: T,
    f: impl FnOnce() -> Result<T, EventsError>,
) -> T {
    // SAFETY: as the caller promises.
    unsafe { border_of(error, otherwise, f) }
}

/// The same for other errors.
///
/// # Safety
///
/// As for [`border`].
pub unsafe fn border_of<T, E: Into<fb_error>>(
    error: *mut *mut fb_error,
    otherwise: T,
    f: impl FnOnce() -> Result<T, E>,
) -> T {
    // State that was changed halfway is protected by poisoned locks, or belongs to the handle that failed.
    let failed = match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(value)) => return value,
        Ok(Err(failed)) => failed.into(),
        Err(panic) => fb_error::of_panic(&*panic),
    };
    // SAFETY: the caller passes an error pointer or NULL.
    if let Some(place) = unsafe { error.as_mut() } {
        *place = handle(failed);
    }
    otherwise
}
