//! Infers the types of Python values without annotations: numbers, strings, lists of these, and NumPy
//! arrays.

use femtobarn::schema::DType;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyList, PyString, PyTuple};

use super::write::number_of_numpy;
use super::{Value, python};

/// Maximum nesting of lists.
const DEEPEST: usize = 32;

#[derive(PartialEq, Eq)]
enum Found {
    /// The type of a list without items.
    Nothing,
    Named(&'static str),
    List(Box<Found>),
}

/// The type name of a value; none if the value is of another type, or has items of several types or of
/// none.
pub fn type_name(value: &Value<'_>) -> PyResult<Option<String>> {
    let py = value.py();
    if value.is_exact_instance_of::<PyInt>() && value.extract::<i64>().is_err() {
        return Ok(Some(DType::UInt64.type_name().into()));
    }
    if let Ok(tuple) = value.cast_exact::<PyTuple>() {
        let item = all(tuple.iter(), 0).and_then(|item| name(&item));
        return Ok(item.map(|item| format!("std::vector<{item}>")));
    }
    let is_array = value.is_exact_instance(python::ndarray(py)?);
    if !is_array && !value.is_instance(python::generic(py)?)? {
        return Ok(one(value, 0).and_then(|found| name(&found)));
    }
    let Some((number, _)) = number_of_numpy(value)? else {
        return Ok(None);
    };
    // the first dimension becomes a vector, the others become arrays
    let shape: Vec<usize> = value.getattr(intern!(py, "shape"))?.extract()?;
    let (mut name, sizes) = (
        number.type_name().to_owned(),
        shape.get(1..).unwrap_or_default(),
    );
    for size in sizes.iter().rev() {
        name = format!("std::array<{name},{size}>");
    }
    let is_none = is_array && (shape.is_empty() || sizes.contains(&0));
    let name = if is_array {
        format!("std::vector<{name}>")
    } else {
        name
    };
    Ok((!is_none).then_some(name))
}

fn all<'py>(mut items: impl Iterator<Item = Value<'py>>, depth: usize) -> Option<Found> {
    items.try_fold(Found::Nothing, |found, item| {
        joined(found, one(&item, depth)?)
    })
}

fn one(value: &Value<'_>, depth: usize) -> Option<Found> {
    let number = |number: DType| Some(Found::Named(number.type_name()));
    if value.is_exact_instance_of::<PyFloat>() {
        number(DType::Float64)
    } else if value.is_exact_instance_of::<PyInt>() {
        // for larger integers, all values must be inspected
        value
            .extract::<i64>()
            .ok()
            .and_then(|_| number(DType::Int64))
    } else if value.is_exact_instance_of::<PyBool>() {
        number(DType::Bool)
    } else if value.is_exact_instance_of::<PyString>() {
        Some(Found::Named("std::string"))
    } else {
        let list = value
            .cast_exact::<PyList>()
            .ok()
            .filter(|_| depth < DEEPEST)?;
        Some(Found::List(Box::new(all(list.iter(), depth + 1)?)))
    }
}

fn joined(one: Found, other: Found) -> Option<Found> {
    match (one, other) {
        (Found::Nothing, found) | (found, Found::Nothing) => Some(found),
        (Found::List(one), Found::List(other)) => {
            Some(Found::List(Box::new(joined(*one, *other)?)))
        }
        (one, other) => (one == other).then_some(one),
    }
}

fn name(found: &Found) -> Option<String> {
    match found {
        Found::Nothing => None,
        Found::Named(name) => Some((*name).into()),
        Found::List(item) => Some(format!("std::vector<{}>", name(item)?)),
    }
}
