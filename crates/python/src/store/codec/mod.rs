//! Products as Python objects: walks values by the parts of their stored type, in both directions.

mod infer;
mod part;
mod python;
mod read;
mod write;

use std::sync::Arc;
use std::time::Instant;

use femtobarn::events::DataStore;
use femtobarn::products::{CLASSES_KNOWN_FOR, ClassNote, Described, Member, Types};
use femtobarn::rows::{Cursor, Rows};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyNotImplemented, PyString, PyTuple};

use super::{Name, detached};
use crate::error::{new, usage};
use part::Part;
use read::Read;
use write::Writer;

/// Maximum number of cached items.
const MOST: usize = 4096;

/// Any Python object.
type Value<'py> = Bound<'py, PyAny>;
/// The name of a type, and the bytes of a value.
type Stored<'py> = (Bound<'py, PyString>, Bound<'py, PyBytes>);

/// Converts between products of a store and Python objects.
#[pyclass(frozen, module = "femtobarn._core")]
pub struct Codec {
    store: DataStore,
    types: Arc<Types>,
    /// Cache of types and classes. There is no other one.
    known: Py<PyDict>,
}

/// A cached item. It is valid until a class of the store gets other members.
#[pyclass(frozen)]
struct Known {
    what: What,
    until: Instant,
}

enum What {
    /// Of a Python type, or a tuple of it for lists: the stored type of its values.
    Kind(Py<PyString>, Arc<Typed>),
    /// Of a tuple with a type name: its parts.
    Typed(Arc<Typed>),
    /// Of a type name and a Python type: how to convert; none if the result is an array.
    Reader(Option<Read>),
    /// Of a class in JSON: the store has recorded it.
    Noted,
}

/// A stored type.
struct Typed {
    part: Part,
    /// Whether its values are walked; values of other types must be columns.
    is_walked: bool,
}

/// Encoded values to be stored, one after another.
#[pyclass(frozen, module = "femtobarn._core")]
pub struct Encoded {
    pub(super) rows: Rows,
}

#[pymethods]
impl Encoded {
    /// Number of values.
    #[getter]
    fn num_entries(&self) -> usize {
        self.rows.ends.len()
    }
}

#[pymethods]
impl Codec {
    /// The stored form of a value and its type name: from the value itself, or from a Python type that was learned
    /// recently. None for other values.
    #[pyo3(signature = (label, value, kind = None))]
    fn dump<'py>(
        &self,
        label: &Bound<'py, PyString>,
        value: &Value<'py>,
        kind: Option<&Value<'py>>,
    ) -> PyResult<Option<Stored<'py>>> {
        let py = value.py();
        let (name, typed) = match kind {
            Some(kind) => match self.kind(kind) {
                Some(known) if write::is_walked(value)? => known,
                _ => return Ok(None),
            },
            None => match self.natural(value)? {
                Some(found) => found,
                None => return Ok(None),
            },
        };
        match self.bytes(py, &typed.part, value) {
            Ok(stored) => Ok(label.to_str().is_ok().then_some((name, stored))),
            // columns accept more types, and give better messages
            Err(write::Misfit::Told { .. }) if is_column(kind, value)? => Ok(None),
            Err(misfit) => Err(told(label, misfit)),
        }
    }

    /// Remembers the stored type for values of a Python type, so that `dump` accepts them, unless they must be columns.
    fn learn(&self, kind: &Value<'_>, type_name: Bound<'_, PyString>) -> PyResult<()> {
        let until = known_until();
        let typed = self.typed(&type_name)?;
        match typed.is_walked {
            true => self
                .keep(kind, What::Kind(type_name.unbind(), typed), until)
                .map(drop),
            false => Ok(()),
        }
    }

    /// The stored form of a value; None if values of the type must be columns.
    fn write<'py>(
        &self,
        label: &Bound<'py, PyString>,
        value: &Value<'py>,
        type_name: &Bound<'py, PyString>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let typed = self.typed(type_name)?;
        let stored = typed
            .is_walked
            .then(|| self.bytes(value.py(), &typed.part, value));
        stored.transpose().map_err(|misfit| told(label, misfit))
    }

    /// The stored form of values; None if values of the type must be columns.
    fn write_all(
        &self,
        label: &Bound<'_, PyString>,
        values: &Value<'_>,
        type_name: &Bound<'_, PyString>,
    ) -> PyResult<Option<Encoded>> {
        let typed = self.typed(type_name)?;
        if !typed.is_walked {
            return Ok(None);
        }
        let mut rows = Rows::default();
        for value in values.try_iter()? {
            let put = Writer(&self.store).put(&typed.part, &value?, &mut rows.bytes);
            put.map_err(|misfit| told(label, misfit))?;
            rows.ends.push(rows.bytes.len());
        }
        Ok(Some(Encoded { rows }))
    }

    /// A stored value as a Python type; `NotImplemented` if no type is given and the value is an array. References refer
    /// to `store`.
    #[pyo3(signature = (store, label, stored, type_name, form))]
    fn read<'py>(
        &self,
        store: &Value<'py>,
        label: &Bound<'py, PyString>,
        stored: &[u8],
        type_name: &Bound<'py, PyString>,
        form: &Value<'py>,
    ) -> PyResult<Value<'py>> {
        let py = store.py();
        let read = |reader: Bound<'py, Known>| match &reader.get().what {
            What::Reader(Some(read)) => read.whole(store, stored),
            _ => Ok(PyNotImplemented::get(py).to_owned().into_any()),
        };
        let value = self.reader(label, type_name, form).and_then(read);
        value.map_err(|misfit| match misfit {
            read::Misfit::Damaged(expected, found) => damaged(type_name, &expected, &found),
            read::Misfit::Raised(error) => error,
            read::Misfit::NotMade(why) => match python::shown(form) {
                Ok(form) => {
                    let why = if why.is_empty() {
                        why
                    } else {
                        format!(": {why}")
                    };
                    let label = write::shown(label);
                    usage(format!(
                        "product {label} has type {type_name} and cannot be loaded as {form}{why}"
                    ))
                }
                Err(error) => error,
            },
        })
    }

    /// The layout of a stored value that is a NumPy array: NumPy's type name, the shape, and the offset of the numbers.
    /// For a list of a class of numbers: its name, the size of an element, and names, types and offsets of the members.
    /// None for other values.
    fn view<'py>(
        &self,
        py: Python<'py>,
        stored: &[u8],
        type_name: &Bound<'py, PyString>,
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let typed = self.typed(type_name)?;
        let (mut part, mut shape, mut from) = (&typed.part, Vec::new(), Cursor::new(stored));
        if let Part::List(items) = part {
            let (Some(_), Ok(n)) = (items.size, from.count(items.least)) else {
                return Ok(None);
            };
            (part, shape) = (&items.part, vec![n]);
        }
        let (is_list, left) = (!shape.is_empty(), from.left());
        while let Part::Array(n, items) = part {
            shape.push(*n);
            part = &items.part;
        }
        let n = shape
            .iter()
            .try_fold(1usize, |n, size| n.checked_mul(*size));
        let is_whole = |size: usize| n.and_then(|n| n.checked_mul(size)) == Some(left);
        Ok(match part {
            Part::Number(dtype) if !shape.is_empty() && is_whole(dtype.size()) => {
                Some((dtype.name(), shape, from.at()).into_pyobject(py)?)
            }
            Part::Class(class) if is_list && shape.len() == 1 && !class.is_tuple => {
                let number = |member: &part::Member| {
                    Some((
                        member.name.clone_ref(py),
                        member.part.number()?.name(),
                        member.place,
                    ))
                };
                let numbers: Option<Vec<_>> = class.members.iter().map(number).collect();
                match (numbers, class.fixed) {
                    (Some(numbers), Some(fixed)) if is_whole(fixed.size) => {
                        Some((&class.name, fixed.size, numbers).into_pyobject(py)?)
                    }
                    _ => None,
                }
            }
            _ => None,
        })
    }

    /// Records a class with these members.
    fn note_class(&self, py: Python<'_>, name: String, members: Vec<Name>) -> PyResult<()> {
        let member = |(name, type_name)| Member { name, type_name };
        let members = members.into_iter().map(member).collect();
        let class = ClassNote {
            name: name.clone(),
            members,
        };
        let (until, key) = (known_until(), PyBytes::new(py, &class.to_json()));
        if self.find(&key).is_some() {
            return Ok(());
        }
        let described = Described {
            type_name: name,
            classes: vec![class],
        };
        detached(py, || self.types.note(&described))?;
        self.keep(&key, What::Noted, until).map(drop)
    }

    /// Removes a class that no product uses.
    fn forget_class(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let forgotten = detached(py, || self.types.forget(name));
        self.known.bind(py).clear();
        forgotten
    }
}

impl Codec {
    /// The codec of a store.
    pub fn new(py: Python<'_>, store: &DataStore, types: &Arc<Types>) -> Self {
        Self {
            store: store.clone(),
            types: types.clone(),
            known: PyDict::new(py).unbind(),
        }
    }

    /// Looks up a cached item; the key may be unhashable.
    fn find<'py>(&self, key: &Value<'py>) -> Option<Bound<'py, Known>> {
        let found = self.known.bind(key.py()).get_item(key).ok()??;
        let known: Bound<'py, Known> = found.cast_into().ok()?;
        (known.get().until > Instant::now()).then_some(known)
    }

    /// Caches an item, unless its key is unhashable.
    fn keep<'py>(
        &self,
        key: &Value<'py>,
        what: What,
        until: Instant,
    ) -> PyResult<Bound<'py, Known>> {
        let (py, known) = (key.py(), self.known.bind(key.py()));
        let kept = Bound::new(py, Known { what, until })?;
        if key.hash().is_ok() {
            if known.len() >= MOST {
                known.clear();
            }
            known.set_item(key, &kept)?;
        }
        Ok(kept)
    }

    fn typed(&self, type_name: &Bound<'_, PyString>) -> PyResult<Arc<Typed>> {
        let py = type_name.py();
        let key = PyTuple::new(py, [type_name])?;
        if let Some(known) = self.find(&key)
            && let What::Typed(typed) = &known.get().what
        {
            return Ok(typed.clone());
        }
        let (until, name) = (known_until(), type_name.to_str()?);
        let rows = detached(py, || self.types.of(name, "value"))?;
        let typed = Arc::new(Typed {
            part: Part::new(py, rows.plan()),
            is_walked: rows.takes_all(),
        });
        self.keep(&key, What::Typed(typed.clone()), until)?;
        Ok(typed)
    }

    /// The stored type of values of a Python type, or of lists of it.
    fn kind<'py>(&self, kind: &Value<'py>) -> Option<(Bound<'py, PyString>, Arc<Typed>)> {
        match &self.find(kind)?.get().what {
            What::Kind(name, typed) => Some((name.bind(kind.py()).clone(), typed.clone())),
            _ => None,
        }
    }

    /// The stored type of a value without annotations; none if it cannot be inferred.
    fn natural<'py>(
        &self,
        value: &Value<'py>,
    ) -> PyResult<Option<(Bound<'py, PyString>, Arc<Typed>)>> {
        let (py, kind) = (value.py(), value.get_type());
        let is_list =
            value.is_exact_instance_of::<PyList>() || value.is_exact_instance_of::<PyTuple>();
        let name = match infer::type_name(value)? {
            Some(name) => PyString::intern(py, &name),
            None if is_list => {
                let Ok(first) = value.get_item(0) else {
                    return Ok(None);
                };
                let first = first.get_type();
                let lists = PyTuple::new(py, [&first])?;
                if let Some(known) = self.kind(&lists) {
                    return Ok(Some(known));
                }
                let Some((item, _)) = self.kind(&first) else {
                    return Ok(None);
                };
                let name = PyString::new(py, &format!("std::vector<{item}>"));
                self.learn(&lists, name.clone())?;
                name
            }
            None => return Ok(self.kind(&kind)),
        };
        let typed = self.typed(&name)?;
        Ok(Some((name, typed)))
    }

    fn bytes<'py>(
        &self,
        py: Python<'py>,
        part: &Part,
        value: &Value<'py>,
    ) -> Result<Bound<'py, PyBytes>, write::Misfit> {
        if let Part::List(items) = part
            && value.is_exact_instance(python::ndarray(py)?)
            && let Some((n, numbers)) = write::array_bytes(&items.part, value)?
        {
            let numbers = numbers.as_bytes();
            return Ok(PyBytes::new_with(py, 8 + numbers.len(), |out| {
                if let Some((head, rest)) = out.split_at_mut_checked(8) {
                    head.copy_from_slice(&(n as u64).to_le_bytes());
                    rest.copy_from_slice(numbers);
                }
                Ok(())
            })?);
        }
        let mut out = Vec::with_capacity(64);
        Writer(&self.store).put(part, value, &mut out)?;
        Ok(PyBytes::new(py, &out))
    }

    fn reader<'py>(
        &self,
        label: &Bound<'py, PyString>,
        type_name: &Bound<'py, PyString>,
        form: &Value<'py>,
    ) -> Result<Bound<'py, Known>, read::Misfit> {
        let py = form.py();
        let key = (type_name, form).into_pyobject(py)?;
        if let Some(known) = self.find(&key) {
            return Ok(known);
        }
        if !form.is_none() {
            python::forms(py, "check_form")?.call1((label, form))?;
        }
        let (until, typed) = (known_until(), self.typed(type_name)?);
        let read = match form.is_none() {
            true => Read::natural(py, &typed.part)?,
            false => Some(Read::as_whole(&typed.part, form)?),
        };
        Ok(self.keep(&key, What::Reader(read), until)?)
    }
}

/// The time until which cached items are valid.
fn known_until() -> Instant {
    Instant::now() + CLASSES_KNOWN_FOR
}

/// Whether a value that does not match may be valid as a column: its type is given by name, or it is an array.
fn is_column(kind: Option<&Value<'_>>, value: &Value<'_>) -> PyResult<bool> {
    let is_array = value.is_exact_instance(python::ndarray(value.py())?);
    Ok(kind.is_some_and(|kind| is_array || kind.is_instance_of::<PyString>()))
}

fn told(label: &Bound<'_, PyString>, misfit: write::Misfit) -> PyErr {
    match misfit {
        write::Misfit::Told { kind, path, why } => {
            let message = format!("product {}{path}: {why}", write::shown(label));
            new("UsageError", kind, message)
        }
        write::Misfit::Raised(error) => error,
    }
}

/// The error that bytes are not a valid value of their type.
pub fn damaged(type_name: impl std::fmt::Display, expected: &str, found: &str) -> PyErr {
    let message = format!("a value is not a valid {type_name}: expected {expected}, found {found}");
    new("FormatError", "product-damaged", message)
}
