//! Files that are opened in the background.

use std::collections::BTreeMap;
use std::sync::Mutex;

use femtobarn::OpenOptions;
use femtobarn::read::ReaderOptions;
use pyo3::prelude::*;

use crate::callback::locked;
use crate::error::{to_python, usage};
use crate::ntuple::{Files, NTuple};

/// Files that are opened in the background, by a thread of Rust: at the end, the interpreter would join a Python
/// thread, whatever it waits for.
#[pyclass(frozen, module = "femtobarn._core")]
pub struct Opening {
    inner: Mutex<Option<femtobarn::Opening>>,
}

#[pymethods]
impl Opening {
    /// Starts opening files, with the arguments of `NTuple.open`.
    #[new]
    #[pyo3(signature = (files, *, verify_checksums = true, memory_map = true, allow_missing = false, settings = None))]
    fn new(
        files: Files,
        verify_checksums: bool,
        memory_map: bool,
        allow_missing: bool,
        settings: Option<BTreeMap<String, String>>,
    ) -> Self {
        let options = OpenOptions {
            reader: ReaderOptions {
                verify_checksums,
                memory_map,
            },
            allow_missing,
            settings: settings.unwrap_or_default(),
            states: Vec::new(),
        };
        Self {
            inner: Mutex::new(Some(femtobarn::Opening::new(files, options))),
        }
    }

    /// Whether `result` would return without waiting.
    fn is_done(&self) -> bool {
        let mut inner = locked(&self.inner);
        inner.as_mut().is_none_or(femtobarn::Opening::is_done)
    }

    /// Waits for the files and returns the ntuple; may be called once.
    fn result(&self, py: Python<'_>) -> PyResult<NTuple> {
        let opening = locked(&self.inner).take();
        let opening = opening.ok_or_else(|| usage("the result was taken already"))?;
        let mut raised = None;
        let opened = py.detach(|| {
            let mut waiting = || {
                let result = Python::attach(|py| py.check_signals());
                result.map_err(|error| raised = Some(error)).is_ok()
            };
            opening.wait(&mut waiting)
        });
        match raised {
            Some(error) => Err(error),
            None => opened.map(NTuple::new).map_err(to_python),
        }
    }

    /// Cancels opening, also while it waits for a server.
    fn stop(&self) {
        drop(locked(&self.inner).take());
    }
}
