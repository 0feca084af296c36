//! Products as objects of Python: walked by the parts of the stored type, both ways.

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
pub use write::shown;

/// How much is known at most.
const MOST: usize = 4096;

/// Any object of Python.
type Value<'py> = Bound<'py, PyAny>;
/// The name of a type, and the bytes of a value.
type Stored<'py> = (Bound<'py, PyString>, Bound<'py, PyBytes>);

/// Products of a store as objects of Python.
#[pyclass(frozen, module = "femtobarn._core")]
pub struct Codec {
    store: DataStore,
    types: Arc<Types>,
    /// What is known of types and classes, by what they are; nowhere else is any of it kept.
    known: Py<PyDict>,
}

/// What is known for as long as nobody gives a class of the store other members.
#[pyclass(frozen)]
struct Known {
    what: What,
    until: Instant,
}

enum What {
    /// Of a type of Python, or a tuple of it for lists: as what its values are stored.
    Kind(Py<PyString>, Arc<Typed>),
    /// Of a tuple of a type's name: its parts.
    Typed(Arc<Typed>),
    /// Of the name of a type and a type of Python: how the one becomes the other; none if it is an array.
    Reader(Option<Read>),
    /// Of a class in JSON: the store has noted it.
    Noted,
}

/// A stored type.
struct Typed {
    part: Part,
    /// Whether its values are walked; others must be columns.
    is_walked: bool,
}

/// Values that wait to be stored, one behind the other.
#[pyclass(frozen, module = "femtobarn._core")]
pub struct Encoded {
    pub(super) rows: Rows,
}

#[pymethods]
impl Encoded {
    /// How many there are.
    #[getter]
    fn num_entries(&self) -> usize {
        self.rows.ends.len()
    }
}

#[pymethods]
impl Codec {
    /// A value as it is stored, and its type's name: by itself, or by a type of Python that was learned shortly before. None
    /// of anything else.
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
            // as columns more is taken, and what is wrong is told as of columns
            Err(write::Misfit::Told { .. }) if is_column(kind, value)? => Ok(None),
            Err(misfit) => Err(told(label, misfit)),
        }
    }

    /// Remembers for a while as what values of a type of Python are stored, of which `dump` takes them from then on, unless
    /// they must be columns.
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

    /// A value of a type as it is stored; None if values of the type must be columns.
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

    /// Values of a type as they are stored; None if values of the type must be columns.
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

    /// A stored value as a type of Python; `NotImplemented` if none is given, and it is an array. References refer into
    /// `store`.
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

    /// How a value lies that does as an array of NumPy: NumPy's name of the numbers, the shape, and where they begin; or of a
    /// list of a class of numbers its name, the bytes of an element, and the names, numbers and places of the members. None
    /// of anything else.
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

    /// Notes a class of which the members are said.
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

    /// Forgets a class that no product has.
    fn forget_class(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let forgotten = detached(py, || self.types.forget(name));
        self.known.bind(py).clear();
        forgotten
    }
}

impl Codec {
    /// That of a store.
    pub fn new(py: Python<'_>, store: &DataStore, types: &Arc<Types>) -> Self {
        Self {
            store: store.clone(),
            types: types.clone(),
            known: PyDict::new(py).unbind(),
        }
    }

    /// What is known of something, which may have no hash.
    fn find<'py>(&self, key: &Value<'py>) -> Option<Bound<'py, Known>> {
        let found = self.known.bind(key.py()).get_item(key).ok()??;
        let known: Bound<'py, Known> = found.cast_into().ok()?;
        (known.get().until > Instant::now()).then_some(known)
    }

    /// Remembers something, unless it has no hash.
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

    /// As what values of a type of Python are stored, or as what lists of it.
    fn kind<'py>(&self, kind: &Value<'py>) -> Option<(Bound<'py, PyString>, Arc<Typed>)> {
        match &self.find(kind)?.get().what {
            What::Kind(name, typed) => Some((name.bind(kind.py()).clone(), typed.clone())),
            _ => None,
        }
    }

    /// As what a value is stored of which nothing more is said; none if that is not known.
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

/// Until when what is looked up now is known.
fn known_until() -> Instant {
    Instant::now() + CLASSES_KNOWN_FOR
}

/// Whether a value that does not fit may be one as a column: its type is given by name, or it is an array.
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

/// The error of bytes that are no value of their type.
pub fn damaged(type_name: impl std::fmt::Display, expected: &str, found: &str) -> PyErr {
    let message = format!("a value is not a valid {type_name}: expected {expected}, found {found}");
    new("FormatError", "product-damaged", message)
}
