//! What comes from C: texts, bytes, arrays, handles and places for results.

use std::ffi::c_char;
use std::slice;

use femtobarn::events::{EventsError, ProductName};

/// A text in UTF-8; it need not end with NUL, and may be NULL if it is empty.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fb_text {
    /// Its first byte.
    pub data: *const c_char,
    /// The number of its bytes.
    pub size: usize,
}

impl fb_text {
    /// A text of ours, for as long as that lives.
    pub fn of(text: &str) -> Self {
        Self {
            data: text.as_ptr().cast(),
            size: text.len(),
        }
    }

    /// What it says.
    ///
    /// # Safety
    ///
    /// It points to `size` bytes that live as long as `'a`.
    pub unsafe fn read<'a>(self) -> Result<&'a str, EventsError> {
        // SAFETY: as the caller promises.
        let bytes = unsafe { array(self.data.cast::<u8>(), self.size) };
        std::str::from_utf8(bytes).map_err(|_| EventsError::Name {
            what: "text",
            name: String::from_utf8_lossy(bytes).into_owned(),
            why: "it is not UTF-8".into(),
        })
    }

    /// The name of a product, as it stands in keys: `label#type`.
    ///
    /// # Safety
    ///
    /// As for [`read`](Self::read).
    pub unsafe fn product_name(self) -> Result<ProductName, EventsError> {
        // SAFETY: as the caller promises.
        product_name(unsafe { self.read() }?)
    }
}

/// The name of a product that is written `label#type`.
pub fn product_name(text: &str) -> Result<ProductName, EventsError> {
    match text.split_once('#') {
        Some((label, type_name)) => ProductName::new(label, type_name),
        None => Err(EventsError::Name {
            what: "name of a product",
            name: text.into(),
            why: "expected label#type".into(),
        }),
    }
}

/// Bytes; NULL stands for none where something may be absent.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fb_bytes {
    /// The first.
    pub data: *const u8,
    /// How many there are.
    pub size: usize,
}

impl fb_bytes {
    /// Bytes of ours, for as long as they live.
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
    /// It points to `size` bytes that live as long as `'a`.
    pub unsafe fn read<'a>(self) -> &'a [u8] {
        // SAFETY: as the caller promises.
        unsafe { array(self.data, self.size) }
    }
}

/// An array of C.
///
/// # Safety
///
/// It has `n` elements that live as long as `'a`; null if it has none.
pub unsafe fn array<'a, T>(first: *const T, n: usize) -> &'a [T] {
    if first.is_null() || n == 0 {
        return &[];
    }
    // SAFETY: as the caller promises.
    unsafe { slice::from_raw_parts(first, n) }
}

/// What a pointer points to.
///
/// # Errors
///
/// If it is null.
///
/// # Safety
///
/// It is null, or what it points to lives as long as `'a`.
pub unsafe fn given<'a, T>(pointer: *const T) -> Result<&'a T, EventsError> {
    // SAFETY: as the caller promises.
    unsafe { pointer.as_ref() }.ok_or_else(null)
}

/// What a pointer points to, to be changed.
///
/// # Errors
///
/// If it is null.
///
/// # Safety
///
/// It is null, or what it points to lives as long as `'a` and nobody else uses it meanwhile.
pub unsafe fn given_mut<'a, T>(pointer: *mut T) -> Result<&'a mut T, EventsError> {
    // SAFETY: as the caller promises.
    unsafe { pointer.as_mut() }.ok_or_else(null)
}

fn null() -> EventsError {
    EventsError::Usage {
        what: "a pointer is NULL that must not be".into(),
    }
}
