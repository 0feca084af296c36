//! Values of Python as products: walked by the parts of the stored type, both ways.
//!
//! What is known of types and of classes of Python is kept here, and nowhere else, for as long as nobody gives a class of the
//! store other members.

mod infer;
mod part;
mod python;
mod read;
mod write;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use femtobarn::products::{CLASSES_KNOWN_FOR, ClassNote};
use femtobarn::rows::{Cursor, RowType, Rows};
use femtobarn::schema::DType;
use pyo3::PyClass;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyNotImplemented, PyString, PyTuple,
};

use super::{Store, detached};
use crate::callback::locked;
use crate::error::usage;
use part::Part;
use read::Read;
use write::Writer;

/// How many types, or pairs of types, are known at most.
const MOST: usize = 1024;

/// What is known of the types of a store.
pub struct Known {
    types: Mutex<HashMap<String, Arc<Typed>>>,
    /// By types of Python: as what their values are stored.
    kinds: Py<PyDict>,
    /// By types of products and of Python: how the one becomes the other.
    readers: Py<PyDict>,
    /// The classes that the store has been seen to note, and until when it has no others.
    noted: Mutex<HashMap<String, (ClassNote, Instant)>>,
}

/// A stored type.
pub struct Typed {
    rows: Arc<RowType>,
    part: Part,
}

/// As what values of a type of Python are stored.
#[pyclass(frozen)]
struct Kind {
    name: Py<PyString>,
    typed: Arc<Typed>,
    until: Instant,
    /// As what lists of them are stored.
    list: OnceLock<(Py<PyString>, Arc<Typed>)>,
}

/// How values of a stored type become a type of Python.
#[pyclass(frozen)]
struct Reader {
    /// None if it is an array, and nothing else is asked for.
    read: Option<Read>,
    until: Instant,
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

impl Known {
    /// Nothing yet.
    pub fn new(py: Python<'_>) -> Self {
        Self {
            types: Mutex::default(),
            kinds: PyDict::new(py).unbind(),
            readers: PyDict::new(py).unbind(),
            noted: Mutex::default(),
        }
    }

    /// Whether the store was seen to note a class shortly before.
    pub fn is_noted(&self, class: &ClassNote) -> bool {
        let noted = locked(&self.noted);
        let known = noted.get(&class.name);
        known.is_some_and(|(known, until)| known == class && *until > Instant::now())
    }

    /// Remembers that the store has noted a class.
    pub fn note(&self, class: ClassNote, until: Instant) {
        let mut noted = locked(&self.noted);
        if noted.len() >= MOST {
            noted.clear();
        }
        noted.insert(class.name.clone(), (class, until));
    }

    /// Has all looked up again.
    pub fn clear(&self, py: Python<'_>) {
        let types = std::mem::take(&mut *locked(&self.types));
        drop(types);
        locked(&self.noted).clear();
        self.kinds.bind(py).clear();
        self.readers.bind(py).clear();
    }
}

/// What a dict has of a key that may have no hash, if it is of a class.
fn found<'py, T: PyClass>(
    known: &Bound<'py, PyDict>,
    key: &Bound<'py, PyAny>,
) -> Option<Bound<'py, T>> {
    known.get_item(key).ok()??.cast_into().ok()
}

/// Adds to a dict, which is emptied if it is full; what has no hash is not added.
fn add(
    known: &Bound<'_, PyDict>,
    key: &Bound<'_, PyAny>,
    value: &Bound<'_, PyAny>,
) -> PyResult<()> {
    if key.hash().is_ok() {
        if known.len() >= MOST {
            known.clear();
        }
        known.set_item(key, value)?;
    }
    Ok(())
}

/// The name and the bytes of a value.
type Stored<'py> = (Bound<'py, PyString>, Bound<'py, PyBytes>);

impl Store {
    /// A type of the store.
    fn typed(&self, py: Python<'_>, type_name: &str) -> PyResult<Arc<Typed>> {
        let rows = detached(py, || self.types.of(type_name, "value"))?;
        // what is dropped or made here may run code of Python, and others want the lock with the GIL
        let known = locked(&self.known.types).get(type_name).cloned();
        if let Some(typed) = known.filter(|typed| Arc::ptr_eq(&typed.rows, &rows)) {
            return Ok(typed);
        }
        let typed = Arc::new(Typed {
            part: Part::of(py, &rows),
            rows,
        });
        let mut types = locked(&self.known.types);
        let full = (types.len() >= MOST).then(|| std::mem::take(&mut *types));
        let before = types.insert(type_name.to_owned(), typed.clone());
        drop((types, full, before));
        Ok(typed)
    }

    /// A value as it is stored, and the name of its type, if all is known that it takes: by itself, or by a type of Python
    /// that was seen shortly before.
    pub(super) fn dumped<'py>(
        &self,
        label: &Bound<'py, PyString>,
        value: &Bound<'py, PyAny>,
        kind: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Option<Stored<'py>>> {
        let py = value.py();
        if label.to_str().is_err() {
            return Ok(None);
        }
        let kinds = self.known.kinds.bind(py);
        let is_known = |kind: &Bound<'py, Kind>| kind.get().until > Instant::now();
        if let Some(kind) = kind {
            let known = found::<Kind>(kinds, kind).filter(is_known);
            let Some(known) = known else {
                return Ok(None);
            };
            let known = known.get();
            if !write::is_walked(value)? {
                return Ok(None);
            }
            let stored = match self.bytes_of(&known.typed.part, value) {
                Ok(stored) => stored,
                // as columns more is taken, and what is wrong is told as of columns
                Err(write::Misfit::Told(..)) if is_column(kind, value)? => return Ok(None),
                Err(misfit) => return Err(told(label, misfit)),
            };
            return Ok(Some((known.name.bind(py).clone(), stored)));
        }
        if let Some(number) = number_of(label, value)? {
            let mut out = Vec::with_capacity(8);
            write::put_number(number, &Part::Number(number), value, &mut out)
                .map_err(|misfit| told(label, misfit))?;
            let name = PyString::intern(py, number.type_name());
            return Ok(Some((name, PyBytes::new(py, &out))));
        }
        if value.is_exact_instance_of::<PyString>() {
            let stored = self
                .bytes_of(&Part::Text, value)
                .map_err(|misfit| told(label, misfit))?;
            return Ok(Some((PyString::intern(py, "std::string"), stored)));
        }
        if let Some(known) = found::<Kind>(kinds, value.get_type().as_any()).filter(is_known) {
            let stored = self
                .bytes_of(&known.get().typed.part, value)
                .map_err(|misfit| told(label, misfit))?;
            return Ok(Some((known.get().name.bind(py).clone(), stored)));
        }
        let (first, inferred) = if let Ok(list) = value.cast_exact::<PyList>() {
            (list.get_item(0).ok(), infer::list_name(list.iter()))
        } else if let Ok(tuple) = value.cast_exact::<PyTuple>() {
            (tuple.get_item(0).ok(), infer::list_name(tuple.iter()))
        } else if value.is_exact_instance(python::ndarray(py)?) {
            (None, array_name(value)?)
        } else {
            return Ok(None);
        };
        if let Some(name) = inferred {
            let typed = self.typed(py, &name)?;
            let stored = self
                .bytes_of(&typed.part, value)
                .map_err(|misfit| told(label, misfit))?;
            return Ok(Some((PyString::new(py, &name), stored)));
        }
        let known = first.and_then(|first| found::<Kind>(kinds, first.get_type().as_any()));
        let Some(known) = known.filter(is_known) else {
            return Ok(None);
        };
        let known = known.get();
        let (name, typed) = match known.list.get() {
            Some(list) => list,
            None => {
                let name = format!("std::vector<{}>", known.name.to_str(py)?);
                let list = (PyString::new(py, &name).unbind(), self.typed(py, &name)?);
                known.list.get_or_init(|| list)
            }
        };
        let stored = self
            .bytes_of(&typed.part, value)
            .map_err(|misfit| told(label, misfit))?;
        Ok(Some((name.bind(py).clone(), stored)))
    }

    fn bytes_of<'py>(
        &self,
        part: &Part,
        value: &Bound<'py, PyAny>,
    ) -> Result<Bound<'py, PyBytes>, write::Misfit> {
        let mut out = Vec::with_capacity(64);
        Writer { store: self }.put(part, value, &mut out)?;
        Ok(PyBytes::new(value.py(), &out))
    }

    /// Remembers for a while as what values of a type of Python are stored, unless they must be columns.
    pub(super) fn learned(
        &self,
        kind: &Bound<'_, PyAny>,
        type_name: &Bound<'_, PyString>,
    ) -> PyResult<()> {
        let py = kind.py();
        let until = Instant::now() + CLASSES_KNOWN_FOR;
        let typed = self.typed(py, type_name.to_str()?)?;
        if !typed.rows.takes_all() {
            return Ok(());
        }
        let known = Kind {
            name: type_name.clone().unbind(),
            typed,
            until,
            list: OnceLock::new(),
        };
        add(
            self.known.kinds.bind(py),
            kind,
            Bound::new(py, known)?.as_any(),
        )
    }

    /// A value of a type as it is stored; none if values of the type must be columns.
    pub(super) fn written<'py>(
        &self,
        label: &Bound<'py, PyString>,
        value: &Bound<'py, PyAny>,
        type_name: &str,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let typed = self.typed(value.py(), type_name)?;
        if !typed.rows.takes_all() {
            return Ok(None);
        }
        let stored = self.bytes_of(&typed.part, value);
        stored.map(Some).map_err(|misfit| told(label, misfit))
    }

    /// Values of a type as they are stored; none if values of the type must be columns.
    pub(super) fn all_written(
        &self,
        label: &Bound<'_, PyString>,
        values: &Bound<'_, PyAny>,
        type_name: &str,
    ) -> PyResult<Option<Encoded>> {
        let typed = self.typed(values.py(), type_name)?;
        if !typed.rows.takes_all() {
            return Ok(None);
        }
        let writer = Writer { store: self };
        let mut rows = Rows::default();
        for value in values.try_iter()? {
            let put = writer.put(&typed.part, &value?, &mut rows.bytes);
            put.map_err(|misfit| told(label, misfit))?;
            rows.ends.push(rows.bytes.len());
        }
        Ok(Some(Encoded { rows }))
    }

    /// A stored value as a type of Python; `NotImplemented` if none is given, and it is an array.
    pub(super) fn read_value<'py>(
        &self,
        store: &Bound<'py, PyAny>,
        label: &Bound<'py, PyString>,
        stored: &[u8],
        type_name: &Bound<'py, PyString>,
        form: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = store.py();
        let value =
            self.reader(label, type_name, form)
                .and_then(|reader| match &reader.get().read {
                    Some(read) => read.whole(store, stored),
                    None => Ok(PyNotImplemented::get(py).to_owned().into_any()),
                });
        value.map_err(|misfit| match misfit {
            read::Misfit::NotMade(why) => is_none(label, type_name, form, &why),
            read::Misfit::Damaged(expected, found) => damaged(type_name, &expected, &found),
            read::Misfit::Raised(error) => error,
        })
    }

    fn reader<'py>(
        &self,
        label: &Bound<'py, PyString>,
        type_name: &Bound<'py, PyString>,
        form: &Bound<'py, PyAny>,
    ) -> Result<Bound<'py, Reader>, read::Misfit> {
        let py = form.py();
        let readers = self.known.readers.bind(py);
        let key = (type_name, form).into_pyobject(py)?;
        let known = found::<Reader>(readers, &key);
        if let Some(known) = known.filter(|known| known.get().until > Instant::now()) {
            return Ok(known);
        }
        if !form.is_none() {
            python::forms(py, "check_form")?.call1((label, form))?;
        }
        let until = Instant::now() + CLASSES_KNOWN_FOR;
        let typed = self.typed(py, type_name.to_str()?)?;
        let read = match form.is_none() {
            true => Read::natural(py, &typed.part)?,
            false => Some(Read::as_whole(&typed.part, form)?),
        };
        let reader = Bound::new(py, Reader { read, until })?;
        add(readers, &key, reader.as_any())?;
        Ok(reader)
    }

    /// What lies as arrays of NumPy do: NumPy's name of the numbers, the shape, and where they begin; or of a list of a class of
    /// numbers its name, the bytes of an element, and the names, numbers and places of its members. None of anything else.
    pub(super) fn array_view<'py>(
        &self,
        py: Python<'py>,
        stored: &[u8],
        type_name: &str,
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let typed = self.typed(py, type_name)?;
        let mut from = Cursor::new(stored);
        let mut shape = Vec::new();
        let mut part = &typed.part;
        if let Part::List(items) = part
            && items.size.is_some()
        {
            let Ok(n) = from.count(items.least) else {
                return Ok(None);
            };
            shape.push(n);
            part = &items.part;
        }
        while let Part::Array(n, items) = part {
            shape.push(*n);
            part = &items.part;
        }
        let n = shape
            .iter()
            .try_fold(1usize, |n, size| n.checked_mul(*size));
        let is_whole = |size: usize| n.and_then(|n| n.checked_mul(size)) == Some(from.left());
        match part {
            Part::Number(dtype) if !shape.is_empty() && is_whole(dtype.size()) => {
                let view = (dtype.name(), shape, from.at());
                Ok(Some(view.into_pyobject(py)?))
            }
            Part::Class(class) if shape.len() == 1 && from.at() == 8 && !class.is_tuple => {
                let numbers = class.members.iter().map(|member| {
                    let name = member.name.bind(py).clone();
                    Some((name, member.part.number()?.name(), member.place))
                });
                let numbers = numbers.collect::<Option<Vec<_>>>();
                match (numbers, class.fixed) {
                    (Some(numbers), Some(fixed)) if !numbers.is_empty() && is_whole(fixed.size) => {
                        let view = (&class.name, fixed.size, numbers);
                        Ok(Some(view.into_pyobject(py)?))
                    }
                    _ => Ok(None),
                }
            }
            _ => Ok(None),
        }
    }

    /// Whether both are one store: two in memory without a name are two, though their URLs are the same.
    pub(super) fn is_one_with(&self, other: &Self) -> bool {
        let url = self.store.url();
        self.store == other.store || (url == other.store.url() && url != "memory:")
    }
}

/// Whether a value that does not fit may be one as a column: its type is given by name, or it is an array.
fn is_column(kind: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let is_array = value.is_exact_instance(python::ndarray(value.py())?);
    Ok(is_array || kind.is_instance_of::<PyString>())
}

fn told(label: &Bound<'_, PyString>, misfit: write::Misfit) -> PyErr {
    match misfit {
        write::Misfit::Told(kind, path, why) => {
            let message = format!("product {}{path}: {why}", write::shown(label));
            crate::error::new("UsageError", kind, message)
        }
        write::Misfit::Raised(error) => error,
    }
}

/// The error of a stored value that is nothing that is asked for.
fn is_none(
    label: &Bound<'_, PyString>,
    type_name: &Bound<'_, PyString>,
    form: &Bound<'_, PyAny>,
    why: &str,
) -> PyErr {
    let shown = python::forms(form.py(), "shown").and_then(|shown| shown.call1((form,)));
    let shown = match shown {
        Ok(shown) => shown.to_string(),
        Err(error) => return error,
    };
    let label = write::shown(label);
    let why = match why.is_empty() {
        true => String::new(),
        false => format!(": {why}"),
    };
    usage(format!(
        "product {label} is a {type_name}, which is no {shown}{why}"
    ))
}

/// The error of bytes that are no value of their type.
pub fn damaged(type_name: impl std::fmt::Display, expected: &str, found: &str) -> PyErr {
    let message =
        format!("a value is none of type {type_name}: expected {expected}, found {found}");
    crate::error::new("FormatError", "product-damaged", message)
}

/// What a number of Python or NumPy is, if it is one by itself.
fn number_of(label: &Bound<'_, PyString>, value: &Bound<'_, PyAny>) -> PyResult<Option<DType>> {
    if value.is_exact_instance_of::<PyFloat>() {
        return Ok(Some(DType::Float64));
    }
    if value.is_exact_instance_of::<PyBool>() {
        return Ok(Some(DType::Bool));
    }
    if value.is_exact_instance_of::<PyInt>() {
        if value.extract::<i64>().is_ok() {
            return Ok(Some(DType::Int64));
        }
        if value.extract::<u64>().is_ok() {
            return Ok(Some(DType::UInt64));
        }
        let label = write::shown(label);
        let message = format!("product {label}: {value} is no number that 64 bits hold as integer");
        return Err(usage(message));
    }
    match value.is_instance(python::generic(value.py())?)? {
        true => Ok(write::number_of_numpy(value)?.map(|(number, _)| number)),
        false => Ok(None),
    }
}

/// The name of the type of an array of NumPy: the first dimension is a vector, the others are arrays.
fn array_name(array: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    let Some((number, _)) = write::number_of_numpy(array)? else {
        return Ok(None);
    };
    let shape: Vec<usize> = array.getattr(intern!(array.py(), "shape"))?.extract()?;
    let mut item = number.type_name().to_owned();
    for size in shape.iter().skip(1).rev() {
        item = format!("std::array<{item},{size}>");
    }
    let is_list = !shape.is_empty() && !shape.iter().skip(1).any(|size| *size == 0);
    Ok(is_list.then(|| format!("std::vector<{item}>")))
}
