//! Errors as the classes of `femtobarn.errors`.

use std::sync::Mutex;

use femtobarn::Error;
use femtobarn::events::EventsError;
use femtobarn::io::is_in_background;
use femtobarn::kinds::{kind as kind_of, store_class};
use pyo3::exceptions::{PyException, PyKeyboardInterrupt, PyRuntimeError};
use pyo3::prelude::*;

use crate::callback::locked;

/// What a signal has raised while a server was waited for.
static RAISED: Mutex<Option<PyErr>> = Mutex::new(None);

/// Looks for signals, which Python handles on its main thread only; says whether to go on.
pub fn goes_on() -> bool {
    if is_in_background() {
        // never the main thread, and nobody waits for it: the interpreter may end meanwhile
        return true;
    }
    let looked = Python::try_attach(|py| match py.check_signals() {
        Ok(()) => true,
        Err(error) => {
            stopped_by(error);
            false
        }
    });
    // without an interpreter nobody wants it any more
    looked.unwrap_or(false)
}

/// Warns of what should be known although nothing has failed.
pub fn warn(text: &str) {
    Python::attach(|py| {
        let warned = py
            .import("femtobarn._shared.warning")
            .and_then(|module| module.call_method1("warn_of_server", (text,)));
        if let Err(error) = warned {
            // what waits for a server cannot raise it
            error.write_unraisable(py, None);
        }
    });
}

/// Notes what ends the waiting, which is raised in place of the error that comes of it.
pub fn stopped_by(error: PyErr) {
    locked(&RAISED).get_or_insert(error);
}

/// The Python exception of an error: its class by kind, its message with all causes.
pub fn to_python(error: Error) -> PyErr {
    let kind = error.kind();
    if kind == "interrupted" {
        return interrupted();
    }
    let raised = new(kind_of(kind).class, kind, error.with_causes());
    if let Error::Unsupported { name, reason, .. } | Error::Unwritable { name, reason } = &error {
        // whatever cannot be set is only said in other words
        Python::attach(|py| raised.value(py).setattr("_told", (name, reason)).ok());
    }
    raised
}

/// What a signal has raised that has ended the waiting.
fn interrupted() -> PyErr {
    let raised = locked(&RAISED).take();
    raised.unwrap_or_else(|| PyKeyboardInterrupt::new_err("interrupted"))
}

/// An exception of a class of `femtobarn.errors`.
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
        // Python code hears of signals: Ctrl-C is not to be lost in an error that comes at the same time
        built.unwrap_or_else(|error| match error.is_instance_of::<PyException>(py) {
            true => PyRuntimeError::new_err(message),
            false => error,
        })
    })
}

/// The exception of wrong usage.
pub fn usage(message: impl Into<String>) -> PyErr {
    new("UsageError", "usage", message.into())
}

/// What a signal has raised, if one has.
pub fn take_raised() -> Option<PyErr> {
    locked(&RAISED).take()
}

/// The Python exception of an error of an event store.
pub fn events_to_python(error: EventsError) -> PyErr {
    if error.kind() == "interrupted" {
        return interrupted();
    }
    let class = store_class(&error);
    let raised = new(class, error.kind(), femtobarn::io::with_causes(&error));
    if let EventsError::Object { object, .. } = &error {
        // it is said in the message as well
        Python::attach(|py| raised.value(py).setattr("_object", object).ok());
    }
    raised
}
