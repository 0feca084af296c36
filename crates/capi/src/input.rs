//! Arguments from C: strings, bytes, arrays, handles and pointers for results.

use std::ffi::c_char;
use std::slice;

use femtobarn::events::{EventsError, ProductName};

/// A string in UTF-8. It need not end with NUL, and `data` may be NULL if it is empty.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fb_text {
    /// The first byte.
    pub data: *const c_char,
    /// The number of bytes.
    pub size: usize,
}

impl fb_text {
    /// A string that lives as long as `text`.
    pub fn of(text: &str) -> Self {
        Self {
            data: text.as_ptr().cast(),
            size: text.len(),
        }
    }

    /// The string.
    ///
    /// # Safety
    ///
    /// `data` points to `size` bytes that live as long as `'a`.
    pub unsafe fn read<'a>(self) -> Result<&'a str, EventsError> {
        // SAFETY: as the caller promises.
        let bytes = unsafe { array(self.data.cast::<u8>(), self.size) };
        std::str::from_utf8(bytes).map_err(|_| EventsError::Name {
            what: "string",
            name: String::from_utf8_lossy(bytes).into_owned(),
            why: "not valid UTF-8".into(),
        })
    }

    /// The name of a product, as in keys: `label#type`.
    ///
    /// # Safety
    ///
    /// As for [`read`](Self::read).
    pub unsafe fn product_name(self) -> Result<ProductName, EventsError> {
        // SAFETY: as the caller promises.
        product_name(unsafe { self.read() }?)
    }
}

/// Parses the name of a product, `label#type`.
pub fn product_name(text: &str) -> Result<ProductName, EventsError> {
    match text.split_once('#') {
        Some((label, type_name)) => ProductName::new(label, type_name),
        None => Err(EventsError::Name {
            what: "product name",
            name: text.into(),
            why: "expected label#type".into(),
        }),
    }
}

/// Bytes. NULL stands for an absent value where the value is optional.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fb_bytes {
    /// The first byte.
    pub data: *const u8,
    /// The number of bytes.
    pub size: usize,
}

impl fb_bytes {
    /// Bytes that live as long as `bytes`.
    pub fn of(bytes: Option<&[u8]>) -> Self {
        Self {
            data: bytes.map_or(std::ptr::null(), <[u8]>::as_ptr),
            size: bytes.map_or(0, <[u8]>::len),
        }
    }

    /// The bytes.
    ///
    /// # Safety
    ///
    /// `data` points to `size` bytes that live as long as `'a`.
    pub unsafe fn read<'a>(self) -> &'a [u8] {
        // SAFETY: as the caller promises.
        unsafe { array(self.data, self.size) }
    }
}

/// An array from C.
///
/// # Safety
///
/// It has `n` elements that live as long as `'a`; it may be null if `n` is 0.
pub unsafe fn array<'a, T>(first: *const T, n: usize) -> &'a [T] {
    if first.is_null() || n == 0 {
        return &[];
    }
    // SAFETY: as the caller promises.
    unsafe { slice::from_raw_parts(first, n) }
}

/// An array from C, to change its elements.
///
/// # Safety
///
/// It has `n` elements that live as long as `'a` and are not used by others meanwhile; it may be null if `n` is 0.
pub unsafe fn array_mut<'a, T>(first: *mut T, n: usize) -> &'a mut [T] {
    if first.is_null() || n == 0 {
        return &mut [];
    }
    // SAFETY: as the caller promises.
    unsafe { slice::from_raw_parts_mut(first, n) }
}

/// Dereferences a pointer.
///
/// # Errors
///
/// If the pointer is null.
///
/// # Safety
///
/// The pointer is null, or its target lives as long as `'a`.
pub unsafe fn given<'a, T>(pointer: *const T) -> Result<&'a T, EventsError> {
    // SAFETY: as the caller promises.
    unsafe { pointer.as_ref() }.ok_or_else(null)
}

/// Dereferences a pointer, to change its target.
///
/// # Errors
///
/// If the pointer is null.
///
/// # Safety
///
/// The pointer is null, or its target lives as long as `'a` and is not used by others meanwhile.
pub unsafe fn given_mut<'a, T>(pointer: *mut T) -> Result<&'a mut T, EventsError> {
    // SAFETY: as the caller promises.
    unsafe { pointer.as_mut() }.ok_or_else(null)
}

fn null() -> EventsError {
    EventsError::Usage {
        what: "a required pointer argument is NULL".into(),
    }
}
