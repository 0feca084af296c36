//! Shares the memory of a result through the buffer protocol.
#![expect(unsafe_code, reason = "the buffer protocol is a C interface")]

use std::ffi::c_int;

use bytes::Bytes;
use pyo3::ffi;
use pyo3::prelude::*;

/// Read-only bytes, the memory of an array.
#[pyclass(frozen, module = "femtobarn._core")]
pub struct Buffer(pub Bytes);

#[pymethods]
impl Buffer {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let bytes = &slf.get().0;
        let length = isize::try_from(bytes.len())?;
        let pointer = bytes.as_ptr().cast_mut().cast();
        // SAFETY: `view` is valid by the protocol; the memory is read-only, lives as long as `slf`, of which the view
        // takes a reference, and is never moved or written, as `Buffer` is frozen and `Bytes` immutable.
        let status =
            unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), pointer, length, 1, flags) };
        if status == 0 {
            Ok(())
        } else {
            Err(PyErr::fetch(slf.py()))
        }
    }
}
