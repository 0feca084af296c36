//! Callbacks to Python during work without the GIL, which also check for signals.

use std::sync::{Mutex, MutexGuard, PoisonError};

use femtobarn::Error;
use pyo3::call::PyCallArgs;
use pyo3::prelude::*;

use crate::error::to_python;

/// A callback that is called from any thread, and the error that it or a signal raised.
pub struct Callback {
    function: Option<Py<PyAny>>,
    raised: Mutex<Option<PyErr>>,
}

impl Callback {
    pub fn new(function: Option<Py<PyAny>>) -> Self {
        Self {
            function,
            raised: Mutex::default(),
        }
    }

    /// Takes the GIL to handle signals and to call the function; returns whether neither raised an error.
    pub fn call(&self, arguments: impl for<'py> PyCallArgs<'py>) -> bool {
        Python::attach(|py| {
            let mut result = py.check_signals();
            if let (Ok(()), Some(function)) = (&result, &self.function) {
                result = function.call1(py, arguments).map(|_| ());
            }
            result
                .map_err(|error| {
                    locked(&self.raised).get_or_insert(error);
                })
                .is_ok()
        })
    }

    /// Takes the error that the function or a signal raised.
    pub fn raised(&self) -> Option<PyErr> {
        locked(&self.raised).take()
    }

    /// Returns the result of the work, or the error that was raised meanwhile.
    pub fn finish<T>(self, result: Result<T, Error>) -> PyResult<T> {
        match self.raised() {
            Some(error) => Err(error),
            None => result.map_err(to_python),
        }
    }
}

/// Locks a mutex, also if a thread has panicked while holding it.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
