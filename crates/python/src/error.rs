//! Conversion of errors to the exception classes of `femtobarn.errors`.

use std::sync::Mutex;

use femtobarn::Error;
use femtobarn::events::EventsError;
use femtobarn::io::is_in_background;
use femtobarn::kinds::{kind as kind_of, store_class};
use femtobarn::transfer::TransferError;
use pyo3::exceptions::{PyException, PyKeyboardInterrupt, PyRuntimeError};
use pyo3::prelude::*;

use crate::callback::locked;

/// The exception that a signal handler raised during a wait for a server.
static RAISED: Mutex<Option<PyErr>> = Mutex::new(None);

/// Handles signals, which Python does only on its main thread; returns whether to continue.
pub fn goes_on() -> bool {
    if is_in_background() {
        // never the main thread, and never joined: the interpreter may end meanwhile
        return true;
    }
    let looked = Python::try_attach(|py| match py.check_signals() {
        Ok(()) => true,
        Err(error) => {
            stopped_by(error);
            false
        }
    });
    // without an interpreter the result is not needed any more
    looked.unwrap_or(false)
}

/// Issues a warning.
pub fn warn(text: &str) {
    Python::attach(|py| {
        let warned = py
            .import("femtobarn._shared.warning")
            .and_then(|module| module.call_method1("warn_of_server", (text,)));
        if let Err(error) = warned {
            // it cannot be raised during a wait for a server
            error.write_unraisable(py, None);
        }
    });
}

/// Stores the exception that ended a wait. It is raised instead of the error that results from it.
pub fn stopped_by(error: PyErr) {
    locked(&RAISED).get_or_insert(error);
}

/// The Python exception for an error: its class by kind, its message with all causes.
pub fn to_python(error: Error) -> PyErr {
    let kind = error.kind();
    if kind == "interrupted" {
        return interrupted();
    }
    let raised = new(kind_of(kind).class, kind, error.with_causes());
    if let Error::Unsupported { name, reason, .. } | Error::Unwritable { name, reason } = &error {
        // if the attribute cannot be set, only the wording of a message differs
        Python::attach(|py| raised.value(py).setattr("_told", (name, reason)).ok());
    }
    raised
}

/// The exception from a signal handler that ended the wait.
fn interrupted() -> PyErr {
    let raised = locked(&RAISED).take();
    raised.unwrap_or_else(|| PyKeyboardInterrupt::new_err("interrupted"))
}

/// Makes an exception of a class of `femtobarn.errors`.
pub fn new(class: &str, kind: &str, message: String) -> PyErr {
    Python::attach(|py| {
        let built = py
            .import("femtobarn.errors")
            .and_then(|module| module.getattr(class))
            .and_then(|class| class.call1((message.clone(),)))
            .and_then(|error| {
                error.setattr("kind", kind)?;
                Ok(PyErr::from_value(error))
            });
        // Python code can raise a signal's exception: Ctrl-C must not be lost if an error occurs at the same time
        built.unwrap_or_else(|error| match error.is_instance_of::<PyException>(py) {
            true => PyRuntimeError::new_err(message),
            false => error,
        })
    })
}

/// Makes a UsageError.
pub fn usage(message: impl Into<String>) -> PyErr {
    new("UsageError", "usage", message.into())
}

/// Takes the exception that a signal handler raised, if any.
pub fn take_raised() -> Option<PyErr> {
    locked(&RAISED).take()
}

/// The Python exception for an error of an event store.
pub fn events_to_python(error: EventsError) -> PyErr {
    if error.kind() == "interrupted" {
        return interrupted();
    }
    let class = store_class(&error);
    let raised = new(class, error.kind(), femtobarn::io::with_causes(&error));
    if let EventsError::Object { object, .. } = &error {
        // the message has it as well
        Python::attach(|py| raised.value(py).setattr("_object", object).ok());
    }
    raised
}

/// The Python exception for an error of ingesting or exporting.
pub fn transfer_to_python(error: TransferError) -> PyErr {
    match error {
        TransferError::Store(error) => events_to_python(error),
        TransferError::File(error) => to_python(error),
        error if error.kind() == "interrupted" => interrupted(),
        error => new(error.class(), error.kind(), error.to_string()),
    }
}
