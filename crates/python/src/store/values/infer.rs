//! The type of values of Python that nothing says: numbers, texts, and lists of them.

use femtobarn::schema::DType;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyList, PyString};

/// How deep lists may lie in lists.
const DEEPEST: usize = 32;

#[derive(PartialEq, Eq)]
enum Found {
    /// A list without items.
    Nothing,
    Number(DType),
    Text,
    List(Box<Found>),
}

/// The name of the type of a list with these items; none if they are others, of several types, or none.
pub fn list_name<'py>(items: impl Iterator<Item = Bound<'py, PyAny>>) -> Option<String> {
    name(&Found::List(Box::new(all(items, 0)?)))
}

fn all<'py>(items: impl Iterator<Item = Bound<'py, PyAny>>, depth: usize) -> Option<Found> {
    let mut found = Found::Nothing;
    for item in items {
        found = joined(found, one(&item, depth)?)?;
    }
    Some(found)
}

fn one(value: &Bound<'_, PyAny>, depth: usize) -> Option<Found> {
    if value.is_exact_instance_of::<PyFloat>() {
        return Some(Found::Number(DType::Float64));
    }
    if value.is_exact_instance_of::<PyInt>() {
        // others are found by looking at all of them
        value.extract::<i64>().ok()?;
        return Some(Found::Number(DType::Int64));
    }
    if value.is_exact_instance_of::<PyBool>() {
        return Some(Found::Number(DType::Bool));
    }
    if value.is_exact_instance_of::<PyString>() {
        return Some(Found::Text);
    }
    match value.cast_exact::<PyList>() {
        Ok(list) if depth < DEEPEST => Some(Found::List(Box::new(all(list.iter(), depth + 1)?))),
        _ => None,
    }
}

fn joined(one: Found, other: Found) -> Option<Found> {
    match (one, other) {
        (Found::Nothing, found) | (found, Found::Nothing) => Some(found),
        (Found::List(one), Found::List(other)) => {
            Some(Found::List(Box::new(joined(*one, *other)?)))
        }
        (one, other) if one == other => Some(one),
        _ => None,
    }
}

fn name(found: &Found) -> Option<String> {
    match found {
        Found::Nothing => None,
        Found::Number(dtype) => Some(dtype.type_name().into()),
        Found::Text => Some("std::string".into()),
        Found::List(items) => Some(format!("std::vector<{}>", name(items)?)),
    }
}
