//! Python classes and functions that are used often, each looked up once.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyType};

type Once = PyOnceLock<Py<PyType>>;

macro_rules! class {
    ($function:ident, $module:literal, $name:literal) => {
        pub fn $function(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
            static CLASS: Once = PyOnceLock::new();
            CLASS.import(py, $module, $name)
        }
    };
}

class!(ndarray, "numpy", "ndarray");
class!(generic, "numpy", "generic");
class!(bool_, "numpy", "bool_");
class!(integer, "numpy", "integer");
class!(floating, "numpy", "floating");
class!(longdouble, "numpy", "longdouble");
class!(ptr, "femtobarn._store.ptr", "Ptr");

/// The member names of a dataclass; none for other classes.
pub fn members<'py>(kind: &Bound<'py, PyType>) -> PyResult<Option<Vec<Bound<'py, PyString>>>> {
    static FIELDS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = kind.py();
    if !kind.hasattr(intern!(py, "__dataclass_fields__"))? {
        return Ok(None);
    }
    let fields = FIELDS.import(py, "dataclasses", "fields")?.call1((kind,))?;
    let name = |field: PyResult<Bound<'py, PyAny>>| {
        let name = field?.getattr(intern!(py, "name"))?;
        Ok(name.cast_into::<PyString>()?)
    };
    fields
        .try_iter()?
        .map(name)
        .collect::<PyResult<_>>()
        .map(Some)
}

/// A Python type in the notation of users.
pub fn shown(form: &Bound<'_, PyAny>) -> PyResult<String> {
    forms(form.py(), "shown")?.call1((form,))?.extract()
}

/// A function of the module that interprets Python types.
pub fn forms<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("femtobarn._store.product_forms")?.getattr(name)
}
