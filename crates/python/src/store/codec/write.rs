//! Converts Python values to stored bytes.

use arrow_array::types::{ArrowPrimitiveType, Float16Type};
use femtobarn::events::{DataStore, Parent, Uuid};
use femtobarn::schema::DType;
use pyo3::PyTypeInfo as _;
use pyo3::exceptions::{PyAttributeError, PyUnicodeEncodeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMapping};
use pyo3::types::{PyMemoryView, PyString, PyTuple};

use super::part::{Class, Part};
use super::{Value, python};
use crate::store::container::Container;
use crate::store::is_same_store;

type Half = <Float16Type as ArrowPrimitiveType>::Native;

/// The error kind for numbers that a type cannot represent.
const UNWRITABLE: &str = "unwritable-field";
/// Up to this number, doubles represent all integers.
const MOST_EXACT: i128 = 1 << 53;

/// Why a value cannot be stored.
pub enum Misfit {
    /// The error kind, the path of members to the value, and the reason.
    Told {
        kind: &'static str,
        path: String,
        why: String,
    },
    Raised(PyErr),
}

impl From<PyErr> for Misfit {
    fn from(error: PyErr) -> Self {
        Self::Raised(error)
    }
}

impl Misfit {
    fn of(kind: &'static str, why: String) -> Self {
        let path = String::new();
        Self::Told { kind, path, why }
    }

    /// Prepends an outer member to the path.
    fn within(self, outer: impl FnOnce() -> String) -> Self {
        match self {
            Self::Told { kind, path, why } => {
                let path = outer() + &path;
                Self::Told { kind, path, why }
            }
            raised => raised,
        }
    }
}

/// A value in the form of `repr`.
pub fn shown(value: &Value<'_>) -> String {
    match value.repr() {
        Ok(text) => text.to_string_lossy().into_owned(),
        Err(_) => format!("this {}", class_of(value)),
    }
}

fn class_of(value: &Value<'_>) -> String {
    value
        .get_type()
        .name()
        .map_or_else(|_| "value".into(), |name| name.to_string())
}

/// The error that a value does not have the type.
fn none_of(value: &Value<'_>, part: &Part) -> Misfit {
    let (value, name) = (shown(value), part.python_name());
    let advice = match value == "None" {
        true => format!("; for values that may be missing, use {name} | None"),
        false => String::new(),
    };
    Misfit::of("usage", format!("{value} is not of type {name}{advice}"))
}

fn not_held(kind: &'static str, value: &Value<'_>, dtype: DType) -> Misfit {
    let why = format!("{} cannot be represented as {}", shown(value), dtype.name());
    Misfit::of(kind, why)
}

/// Writes values for a store.
pub struct Writer<'s>(pub &'s DataStore);

impl Writer<'_> {
    /// Appends a value.
    pub fn put(&self, part: &Part, value: &Value<'_>, out: &mut Vec<u8>) -> Result<(), Misfit> {
        match part {
            Part::Number(dtype) => put_number(*dtype, part, value, out),
            Part::Text => put_text(part, value, out),
            Part::List(items) => {
                let start = out.len();
                out.extend_from_slice(&[0; 8]);
                let n = self.put_items(&items.part, part, value, out)? as u64;
                if let Some(head) = out.get_mut(start..start + 8) {
                    head.copy_from_slice(&n.to_le_bytes());
                }
                Ok(())
            }
            Part::Array(size, items) => match self.put_items(&items.part, part, value, out)? {
                n if n == *size => Ok(()),
                n => {
                    let why = format!("expected {size} items, but was given {n}");
                    Err(Misfit::of(UNWRITABLE, why))
                }
            },
            Part::Optional(_) if value.is_none() => {
                out.push(0);
                Ok(())
            }
            Part::Optional(item) => {
                out.push(1);
                self.put(item, value, out)
            }
            Part::Class(class) if class.is_ptr() => self.put_ptr(part, value, out),
            Part::Class(class) => self.put_class(class, part, value, out),
            Part::Variant(_) => Err(none_of(value, part)),
        }
    }

    /// Appends the items of a list; returns their number.
    fn put_items(
        &self,
        item: &Part,
        part: &Part,
        value: &Value<'_>,
        out: &mut Vec<u8>,
    ) -> Result<usize, Misfit> {
        let py = value.py();
        if let Ok(list) = value.cast::<PyList>() {
            return self.put_each(item, value, list.iter(), out);
        }
        if let Ok(tuple) = value.cast::<PyTuple>() {
            return self.put_each(item, value, tuple.iter(), out);
        }
        let is_bytes = value.is_instance_of::<PyBytes>()
            || value.is_instance_of::<PyByteArray>()
            || value.is_instance_of::<PyMemoryView>();
        if is_bytes && item.number() == Some(DType::UInt8) {
            let bytes = PyBytes::type_object(py).call1((value,))?;
            let bytes = bytes.cast::<PyBytes>().map_err(PyErr::from)?.as_bytes();
            out.extend_from_slice(bytes);
            return Ok(bytes.len());
        }
        if is_bytes || value.is_instance_of::<PyString>() || value.cast::<PyMapping>().is_ok() {
            return Err(none_of(value, part));
        }
        if value.is_exact_instance(python::ndarray(py)?) {
            if let Some((n, bytes)) = array_bytes(item, value)? {
                out.extend_from_slice(bytes.as_bytes());
                return Ok(n);
            }
            // datetime64 and complex arrays are not accepted as numbers, although they could be converted
            let kind: char = value.getattr("dtype")?.getattr("kind")?.extract()?;
            if !"biufOUS".contains(kind) {
                return Err(none_of(value, part));
            }
        }
        let list = match value.hasattr(intern!(py, "tolist"))? {
            true => value.call_method0(intern!(py, "tolist"))?,
            false => match value.try_iter() {
                Ok(_) => PyList::type_object(py).call1((value,))?,
                Err(_) => return Err(none_of(value, part)),
            },
        };
        let list = list.cast::<PyList>().map_err(|_| none_of(value, part))?;
        self.put_each(item, list, list.iter(), out)
    }

    fn put_each<'py>(
        &self,
        item: &Part,
        list: &Value<'py>,
        values: impl Iterator<Item = Value<'py>>,
        out: &mut Vec<u8>,
    ) -> Result<usize, Misfit> {
        let mut n = 0;
        for value in values {
            n += 1;
            match self.put(item, &value, out) {
                Err(Misfit::Told { .. }) if item.number() == Some(DType::Float32) => {
                    put_rounded(item, list, &value, out)?;
                }
                done => done?,
            }
        }
        Ok(n)
    }

    fn put_class(
        &self,
        class: &Class,
        part: &Part,
        value: &Value<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Misfit> {
        let (py, start) = (value.py(), out.len());
        let from = Source::of(class, value)?.ok_or_else(|| {
            let names = || format!(": it has the members {}", class.names(py));
            none_of(value, part).within(names)
        })?;
        for (at, member) in class.members.iter().enumerate() {
            if class.fixed.is_some() {
                out.resize(start + member.place, 0);
            }
            let name = member.name.bind(py);
            let own = match &from {
                Source::Attributes => value.getattr(name),
                Source::Items(items) => items.get_item(name),
                Source::Places(places) => places.get_item(at),
            };
            let own = own.map_err(|error| match error.is_instance_of::<PyAttributeError>(py) {
                true => {
                    let (name, class) = (shown(name), class_of(value));
                    let why = format!("member {name} of this {class} has no value");
                    Misfit::of("usage", why)
                }
                false => Misfit::Raised(error),
            })?;
            let which = || format!(", member {} of {}", shown(name), class.python_name());
            let put = self.put(&member.part, &own, out);
            put.map_err(|misfit| misfit.within(which))?;
        }
        if let Some(fixed) = class.fixed {
            out.resize(start + fixed.size, 0);
        }
        Ok(())
    }

    /// Appends a reference.
    fn put_ptr(&self, part: &Part, value: &Value<'_>, out: &mut Vec<u8>) -> Result<(), Misfit> {
        let py = value.py();
        if !value.is_instance(python::ptr(py)?)? {
            return Err(none_of(value, part));
        }
        let target = value.getattr(intern!(py, "_core"))?;
        let descriptor = match target.is_none() {
            true => Parent::dataset(Uuid::NIL).descriptor(),
            false => {
                let target = target.cast::<Container>().map_err(PyErr::from)?.get();
                let (url, other_url) = (self.0.url(), target.origin.store.url());
                if !is_same_store(self.0, &target.origin.store) {
                    let why = format!(
                        "{} refers to {other_url} and cannot be stored in {url}: stored references do not name a \
                         store",
                        value.str()?.to_string_lossy(),
                    );
                    return Err(Misfit::of("usage", why));
                }
                target.descriptor
            }
        };
        out.extend_from_slice(&descriptor.dataset.0);
        for number in [descriptor.run, descriptor.subrun, descriptor.event] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        let index: Option<u64> = value.getattr(intern!(py, "_index"))?.extract()?;
        out.extend_from_slice(&index.unwrap_or(u64::MAX).to_le_bytes());
        put_text(&Part::Text, &value.getattr(intern!(py, "_label"))?, out)?;
        put_text(&Part::Text, &value.getattr(intern!(py, "_type"))?, out)
    }
}

/// The source of a class's members.
enum Source<'v, 'py> {
    Attributes,
    Items(&'v Bound<'py, PyMapping>),
    Places(&'v Bound<'py, PyTuple>),
}

impl<'v, 'py> Source<'v, 'py> {
    /// The source of a value's members; none if it has other members.
    fn of(class: &Class, value: &'v Value<'py>) -> PyResult<Option<Self>> {
        let (py, kind) = (value.py(), value.get_type());
        if class.known.get(py).is_some_and(|known| known.is(&kind)) {
            return Ok(Some(Self::Attributes));
        }
        if let Some(names) = python::members(&kind)? {
            let own = class
                .members
                .iter()
                .map(|member| member.name.to_string_lossy(py));
            let is_it = own.eq(names.iter().map(|name| name.to_string_lossy()));
            if is_it {
                // cache the class, which is nearly always the only one
                let _ = class.known.set(py, kind.unbind());
            }
            return Ok(is_it.then_some(Self::Attributes));
        }
        if class.is_tuple
            && let Ok(places) = value.cast_exact::<PyTuple>()
        {
            let is_it = places.len() == class.members.len();
            return Ok(is_it.then_some(Self::Places(places)));
        }
        let Ok(items) = value.cast::<PyMapping>() else {
            return Ok(None);
        };
        let mut is_it = items.len()? == class.members.len();
        for member in &class.members {
            is_it = is_it && items.contains(member.name.bind(py))?;
        }
        Ok(is_it.then_some(Self::Items(items)))
    }
}

/// The number type of a NumPy array, and whether its byte order must be swapped.
pub fn number_of_numpy(value: &Value<'_>) -> PyResult<Option<(DType, bool)>> {
    let py = value.py();
    let name = value
        .getattr(intern!(py, "dtype"))?
        .getattr(intern!(py, "str"))?;
    let name = name.cast::<PyString>()?.to_str()?;
    let (order, name) = name.split_at_checked(1).unwrap_or_default();
    let number = match name {
        "b1" => DType::Bool,
        "i1" => DType::Int8,
        "u1" => DType::UInt8,
        "i2" => DType::Int16,
        "u2" => DType::UInt16,
        "i4" => DType::Int32,
        "u4" => DType::UInt32,
        "i8" => DType::Int64,
        "u8" => DType::UInt64,
        "f4" => DType::Float32,
        "f8" => DType::Float64,
        _ => return Ok(None),
    };
    Ok(Some((number, order == ">")))
}

/// The bytes of a NumPy array with such items, and their number; none if it has other items.
pub fn array_bytes<'py>(
    mut item: &Part,
    array: &Value<'py>,
) -> PyResult<Option<(usize, Bound<'py, PyBytes>)>> {
    let py = array.py();
    let shape: Vec<usize> = array.getattr(intern!(py, "shape"))?.extract()?;
    let (Some((number, is_swapped)), Some((n, sizes))) =
        (number_of_numpy(array)?, shape.split_first())
    else {
        return Ok(None);
    };
    for size in sizes {
        match item {
            Part::Array(n, items) if n == size => item = &items.part,
            _ => return Ok(None),
        }
    }
    if item.number() != Some(number) {
        return Ok(None);
    }
    let bytes = match is_swapped {
        true => array.call_method0(intern!(py, "byteswap"))?,
        false => array.clone(),
    };
    let bytes = bytes.call_method0(intern!(py, "tobytes"))?;
    Ok(Some((*n, bytes.cast_into()?)))
}

fn put_text(part: &Part, value: &Value<'_>, out: &mut Vec<u8>) -> Result<(), Misfit> {
    let text = value.cast::<PyString>().map_err(|_| none_of(value, part))?;
    let text = text.to_str().map_err(|error| {
        if !error.is_instance_of::<PyUnicodeEncodeError>(value.py()) {
            return Misfit::Raised(error);
        }
        let reason = error
            .value(value.py())
            .getattr("reason")
            .map(|reason| reason.to_string());
        let (value, reason) = (shown(value), reason.unwrap_or_default());
        Misfit::of("usage", format!("{value} is not valid UTF-8 ({reason})"))
    })?;
    out.extend_from_slice(&(text.len() as u64).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

/// A number of Python or NumPy.
enum Number {
    Integer(i128),
    Float(f64),
}

impl Number {
    /// Converts a value; none if it is not a number, or has more than 64 bits.
    fn of(value: &Value<'_>) -> PyResult<Option<Self>> {
        let py = value.py();
        if let Ok(own) = value.cast::<PyFloat>() {
            return Ok(Some(Self::Float(own.value())));
        }
        if value.is_instance_of::<PyInt>() || value.is_instance(python::integer(py)?)? {
            let of_64_bits = i128::from(i64::MIN)..=i128::from(u64::MAX);
            let integer = value.extract().ok().filter(|own| of_64_bits.contains(own));
            return Ok(integer.map(Self::Integer));
        }
        if value.is_instance(python::bool_(py)?)? {
            return Ok(Some(Self::Integer(value.is_truthy()?.into())));
        }
        let is_float = value.is_instance(python::floating(py)?)?
            && !value.is_instance(python::longdouble(py)?)?;
        is_float
            .then(|| value.extract().map(Self::Float))
            .transpose()
    }

    /// The number as a double, if that represents it exactly.
    fn float(&self) -> Option<f64> {
        match self {
            Self::Float(own) => Some(*own),
            #[expect(clippy::cast_precision_loss, reason = "doubles hold it exactly")]
            Self::Integer(own) => (-MOST_EXACT..=MOST_EXACT)
                .contains(own)
                .then_some(*own as f64),
        }
    }

    /// Appends the number, if the type can represent it.
    fn append(&self, dtype: DType, out: &mut Vec<u8>) -> Option<()> {
        let integer = match self {
            Self::Integer(own) => Some(*own),
            Self::Float(_) => None,
        };
        macro_rules! integer {
            ($to:ty) => {
                out.extend_from_slice(&<$to>::try_from(integer?).ok()?.to_le_bytes())
            };
        }
        match dtype {
            DType::Bool => out.push(u8::try_from(integer?).ok().filter(|own| *own <= 1)?),
            DType::Int8 => integer!(i8),
            DType::UInt8 => integer!(u8),
            DType::Int16 => integer!(i16),
            DType::UInt16 => integer!(u16),
            DType::Int32 => integer!(i32),
            DType::UInt32 => integer!(u32),
            DType::Int64 => integer!(i64),
            DType::UInt64 => integer!(u64),
            DType::Float64 => out.extend_from_slice(&self.float()?.to_le_bytes()),
            DType::Float32 => {
                let wide = self.float()?;
                let narrow = narrowed(wide);
                // floats are rounded, but not to infinity; integers must be exact
                let is_rounded = integer.is_none() && (narrow.is_finite() || !wide.is_finite());
                let is_held = is_rounded || f64::from(narrow) == wide;
                out.extend_from_slice(&is_held.then_some(narrow)?.to_le_bytes());
            }
            DType::Float16 => {
                let wide = self.float()?;
                let narrow = Half::from_f64(wide);
                let is_held = narrow.to_f64() == wide || wide.is_nan();
                out.extend_from_slice(&is_held.then_some(narrow)?.to_le_bytes());
            }
        }
        Some(())
    }
}

fn put_number(
    dtype: DType,
    part: &Part,
    value: &Value<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Misfit> {
    if dtype == DType::Float64
        && let Ok(own) = value.cast::<PyFloat>()
    {
        out.extend_from_slice(&own.value().to_le_bytes());
        return Ok(());
    }
    let number = Number::of(value)?.ok_or_else(|| match value.is_instance_of::<PyInt>() {
        true => not_held("usage", value, dtype),
        false => none_of(value, part),
    })?;
    number.append(dtype, out).ok_or_else(|| match number {
        Number::Float(_) if !matches!(dtype, DType::Float32 | DType::Float16) => {
            let why = format!(
                "{} is not of type {}: floats are not converted to integers; convert it first, as with int()",
                shown(value),
                part.python_name()
            );
            Misfit::of(UNWRITABLE, why)
        }
        _ => not_held(UNWRITABLE, value, dtype),
    })
}

#[expect(clippy::cast_possible_truncation, reason = "single precision is meant")]
fn narrowed(wide: f64) -> f32 {
    wide as f32
}

/// Appends integers to single-precision floats. If there are floats among them, all are rounded.
fn put_rounded(
    part: &Part,
    list: &Value<'_>,
    value: &Value<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Misfit> {
    let mut has_floats = false;
    for item in list.try_iter()? {
        has_floats |= item?.is_instance_of::<PyFloat>();
    }
    match Number::of(value)? {
        Some(number @ Number::Integer(_)) if has_floats && number.float().is_some() => {
            let narrow = narrowed(number.float().unwrap_or_default());
            out.extend_from_slice(&narrow.to_le_bytes());
            Ok(())
        }
        _ => put_number(DType::Float32, part, value, out),
    }
}

/// Whether a value is walked: Python's own types, dataclasses, references, and NumPy numbers and arrays.
pub fn is_walked(value: &Value<'_>) -> PyResult<bool> {
    let py = value.py();
    if value.is_exact_instance(python::ndarray(py)?) {
        let is_array = value.getattr(intern!(py, "ndim"))?.gt(0)?;
        return Ok(is_array && number_of_numpy(value)?.is_some());
    }
    let is_of_python = value.is_none()
        || value.is_instance_of::<PyList>()
        || value.is_instance_of::<PyTuple>()
        || value.is_instance_of::<PyDict>()
        || value.is_instance_of::<PyString>()
        || value.is_instance_of::<PyInt>()
        || value.is_instance_of::<PyFloat>();
    Ok(is_of_python
        || value.is_instance(python::generic(py)?)?
        || value.is_instance(python::ptr(py)?)?
        || python::members(&value.get_type())?.is_some())
}
