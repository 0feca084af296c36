//! From values of Python to the bytes of a stored type.

use arrow_array::types::{ArrowPrimitiveType, Float16Type};
use femtobarn::schema::DType;
use pyo3::PyTypeInfo as _;
use pyo3::exceptions::{PyAttributeError, PyUnicodeEncodeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMapping, PyMemoryView,
    PyString, PyTuple,
};

use super::part::{Class, Items, Part};
use super::python;
use crate::store::Store;

type Half = <Float16Type as ArrowPrimitiveType>::Native;

/// The kind of error of numbers that a type does not hold.
const UNWRITABLE: &str = "unwritable-field";

/// Up to which a double holds all integers.
const MOST_EXACT: i128 = 1 << 53;

/// Why a value is not stored.
pub enum Misfit {
    /// The kind of error, the members that lead to what does not fit, and what is wrong with it.
    Told(&'static str, String, String),
    Raised(PyErr),
}

impl From<PyErr> for Misfit {
    fn from(error: PyErr) -> Self {
        Self::Raised(error)
    }
}

impl Misfit {
    /// What is said of the value itself.
    fn of(why: impl Into<String>) -> Self {
        Self::Told("usage", String::new(), why.into())
    }

    /// The same, of a member.
    fn within(self, member: &Bound<'_, PyString>, class: &Class) -> Self {
        match self {
            Self::Told(kind, path, why) => {
                let path = format!(
                    ", member {} of {}{path}",
                    shown(member),
                    class.python_name()
                );
                Self::Told(kind, path, why)
            }
            raised => raised,
        }
    }
}

/// As `repr` shows a value.
pub fn shown(value: &Bound<'_, PyAny>) -> String {
    match value.repr() {
        Ok(text) => text.to_string_lossy().into_owned(),
        Err(_) => format!("this {}", class_of(value)),
    }
}

fn class_of(value: &Bound<'_, PyAny>) -> String {
    let name = value.get_type().name();
    name.map_or_else(
        |_| "value".into(),
        |name| name.to_string_lossy().into_owned(),
    )
}

/// A value that is nothing of the kind.
fn none_of(value: &Bound<'_, PyAny>, part: &Part) -> Misfit {
    let name = part.python_name();
    let advice = match value.is_none() {
        true => format!("; what may be missing is {name} | None"),
        false => String::new(),
    };
    Misfit::of(format!("{} is no {name}{advice}", shown(value)))
}

/// Values that are written for a store.
pub struct Writer<'s> {
    pub store: &'s Store,
}

impl Writer<'_> {
    /// Appends a value.
    pub fn put(
        &self,
        part: &Part,
        value: &Bound<'_, PyAny>,
        out: &mut Vec<u8>,
    ) -> Result<(), Misfit> {
        match part {
            Part::Number(dtype) => put_number(*dtype, part, value, out),
            Part::Text => put_text(part, value, out),
            Part::List(items) => self.put_list(items, part, value, out),
            Part::Array(n, items) => self.put_array(*n, &items.part, part, value, out),
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

    fn put_list(
        &self,
        items: &Items,
        part: &Part,
        value: &Bound<'_, PyAny>,
        out: &mut Vec<u8>,
    ) -> Result<(), Misfit> {
        let start = out.len();
        out.extend_from_slice(&[0; 8]);
        let n = self.put_items(&items.part, part, value, out)?;
        if let Some(place) = out.get_mut(start..start + 8) {
            place.copy_from_slice(&(n as u64).to_le_bytes());
        }
        Ok(())
    }

    fn put_array(
        &self,
        size: usize,
        item: &Part,
        part: &Part,
        value: &Bound<'_, PyAny>,
        out: &mut Vec<u8>,
    ) -> Result<(), Misfit> {
        match self.put_items(item, part, value, out)? {
            n if n == size => Ok(()),
            n => Err(Misfit::of(format!(
                "it has {size} items, and was given {n}"
            ))),
        }
    }

    /// Appends the items of a value that is to be a list; gives how many they are.
    fn put_items(
        &self,
        item: &Part,
        part: &Part,
        value: &Bound<'_, PyAny>,
        out: &mut Vec<u8>,
    ) -> Result<usize, Misfit> {
        if let Ok(list) = value.cast::<PyList>() {
            return self.put_each(item, value, list.iter().map(Ok), out);
        }
        if let Ok(tuple) = value.cast::<PyTuple>() {
            return self.put_each(item, value, tuple.iter().map(Ok), out);
        }
        let is_bytes = is_bytes(value);
        if is_bytes && item.number() == Some(DType::UInt8) {
            let start = out.len();
            append_bytes(value, out)?;
            return Ok(out.len() - start);
        }
        if is_bytes || value.is_instance_of::<PyString>() || value.cast::<PyMapping>().is_ok() {
            return Err(none_of(value, part));
        }
        let py = value.py();
        if value.is_exact_instance(python::ndarray(py)?) {
            if let Some((n, bytes)) = array_bytes(item, value)? {
                out.extend_from_slice(bytes.as_bytes());
                return Ok(n);
            }
            // times and complex numbers are no numbers as such, though they become some
            let dtype = value.getattr(intern!(py, "dtype"))?;
            let kind: char = dtype.getattr(intern!(py, "kind"))?.extract()?;
            if !"biufOUS".contains(kind) {
                return Err(none_of(value, part));
            }
        }
        if value.hasattr(intern!(py, "tolist"))? {
            let list = value.call_method0(intern!(py, "tolist"))?;
            let list = list.cast::<PyList>().map_err(|_| none_of(value, part))?;
            return self.put_each(item, list, list.iter().map(Ok), out);
        }
        match value.try_iter() {
            Ok(items) => {
                let all = items.collect::<PyResult<Vec<_>>>()?;
                let list = PyList::new(py, all)?;
                self.put_each(item, &list, list.iter().map(Ok), out)
            }
            Err(_) => Err(none_of(value, part)),
        }
    }

    fn put_each<'py>(
        &self,
        item: &Part,
        list: &Bound<'py, PyAny>,
        values: impl Iterator<Item = PyResult<Bound<'py, PyAny>>>,
        out: &mut Vec<u8>,
    ) -> Result<usize, Misfit> {
        let mut n = 0;
        for value in values {
            let value = value?;
            n += 1;
            match self.put(item, &value, out) {
                Err(Misfit::Told(..)) if item.number() == Some(DType::Float32) => {
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
        value: &Bound<'_, PyAny>,
        out: &mut Vec<u8>,
    ) -> Result<(), Misfit> {
        let py = value.py();
        let from = Source::of(class, value)?.ok_or_else(|| {
            let path = format!(": it has the members {}", class.names(py));
            match none_of(value, part) {
                Misfit::Told(kind, _, why) => Misfit::Told(kind, path, why),
                raised => raised,
            }
        })?;
        let start = out.len();
        for (at, member) in class.members.iter().enumerate() {
            if class.fixed.is_some() {
                out.resize(start + member.place, 0);
            }
            let name = member.name.bind(py);
            let own = match &from {
                Source::Attributes => value.getattr(name).map_err(|error| {
                    if !error.is_instance_of::<PyAttributeError>(py) {
                        return Misfit::Raised(error);
                    }
                    let (name, class) = (shown(name), class_of(value));
                    Misfit::of(format!(
                        "member {name} of this {class} was never given a value"
                    ))
                })?,
                Source::Items(items) => items.get_item(name)?,
                Source::Places(places) => places.get_item(at)?,
            };
            let put = self.put(&member.part, &own, out);
            put.map_err(|misfit| misfit.within(name, class))?;
        }
        if let Some(fixed) = class.fixed {
            out.resize(start + fixed.size, 0);
        }
        Ok(())
    }

    /// Appends a reference.
    fn put_ptr(
        &self,
        part: &Part,
        value: &Bound<'_, PyAny>,
        out: &mut Vec<u8>,
    ) -> Result<(), Misfit> {
        let py = value.py();
        if !value.is_instance(python::ptr(py)?)? {
            return Err(none_of(value, part));
        }
        let into = value.getattr(intern!(py, "_store"))?;
        if !into.is_none() {
            let core = into.getattr(intern!(py, "_core"))?;
            let core = core.cast::<Store>().map_err(PyErr::from)?.get();
            if !self.store.is_one_with(core) {
                return Err(Misfit::of(format!(
                    "{} refers into {}, and cannot be stored in {}: what is stored does not name a store",
                    value.str()?.to_string_lossy(),
                    core.store.url(),
                    self.store.store.url(),
                )));
            }
        }
        let key = value.getattr(intern!(py, "_key"))?;
        let key = key.cast::<PyBytes>().map_err(PyErr::from)?.as_bytes();
        let (uuid, numbers) = key.split_at_checked(16).unwrap_or_default();
        out.extend_from_slice(uuid);
        for number in numbers.as_chunks::<8>().0 {
            out.extend_from_slice(&u64::from_be_bytes(*number).to_le_bytes());
        }
        let index: Option<u64> = value.getattr(intern!(py, "_index"))?.extract()?;
        out.extend_from_slice(&index.unwrap_or(u64::MAX).to_le_bytes());
        for name in [intern!(py, "_label"), intern!(py, "_type")] {
            put_text(&Part::Text, &value.getattr(name)?, out)?;
        }
        Ok(())
    }
}

/// From what the members of a class are taken.
enum Source<'v, 'py> {
    Attributes,
    Items(&'v Bound<'py, PyMapping>),
    Places(&'v Bound<'py, PyTuple>),
}

impl<'v, 'py> Source<'v, 'py> {
    /// Where a value has the members; none if it has others.
    fn of(class: &Class, value: &'v Bound<'py, PyAny>) -> PyResult<Option<Self>> {
        let py = value.py();
        let kind = value.get_type();
        if class.known.get(py).is_some_and(|known| known.is(&kind)) {
            return Ok(Some(Self::Attributes));
        }
        if let Some(names) = python::members(&kind)? {
            let own = class.members.iter().map(|member| member.name.bind(py));
            if names.len() != class.members.len() {
                return Ok(None);
            }
            for (name, member) in names.iter().zip(own) {
                if !name.as_any().eq(member)? {
                    return Ok(None);
                }
            }
            // the first one, which is nearly always the only one, is told at once
            let _ = class.known.set(py, kind.unbind());
            return Ok(Some(Self::Attributes));
        }
        if class.is_tuple
            && let Ok(places) = value.cast_exact::<PyTuple>()
        {
            let is_all = places.len() == class.members.len();
            return Ok(is_all.then_some(Self::Places(places)));
        }
        let Ok(items) = value.cast::<PyMapping>() else {
            return Ok(None);
        };
        let mut is_all = items.len()? == class.members.len();
        for member in &class.members {
            is_all = is_all && items.contains(member.name.bind(py))?;
        }
        Ok(is_all.then_some(Self::Items(items)))
    }
}

/// Whether a value is bytes.
pub fn is_bytes(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyBytes>()
        || value.is_instance_of::<PyByteArray>()
        || value.is_instance_of::<PyMemoryView>()
}

fn append_bytes(value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> PyResult<()> {
    if let Ok(bytes) = value.cast::<PyBytes>() {
        out.extend_from_slice(bytes.as_bytes());
        return Ok(());
    }
    let bytes = PyBytes::type_object(value.py()).call1((value,))?;
    out.extend_from_slice(bytes.cast::<PyBytes>()?.as_bytes());
    Ok(())
}

/// What numbers of NumPy are, and whether their bytes are in the other order.
pub fn number_of_numpy(value: &Bound<'_, PyAny>) -> PyResult<Option<(DType, bool)>> {
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

/// The bytes of an array of NumPy with such items, and how many these are; none if it has others.
fn array_bytes<'py>(
    item: &Part,
    array: &Bound<'py, PyAny>,
) -> PyResult<Option<(usize, Bound<'py, PyBytes>)>> {
    let py = array.py();
    let Some((number, is_swapped)) = number_of_numpy(array)? else {
        return Ok(None);
    };
    let shape: Vec<usize> = array.getattr(intern!(py, "shape"))?.extract()?;
    let Some((n, sizes)) = shape.split_first() else {
        return Ok(None);
    };
    let mut item = item;
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

pub fn put_text(part: &Part, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Result<(), Misfit> {
    let text = value.cast::<PyString>().map_err(|_| none_of(value, part))?;
    let text = text.to_str().map_err(|error| {
        let py = value.py();
        let reason = match error.is_instance_of::<PyUnicodeEncodeError>(py) {
            true => error
                .value(py)
                .getattr("reason")
                .map(|reason| reason.to_string()),
            false => return Misfit::Raised(error),
        };
        let reason = reason.unwrap_or_default();
        Misfit::of(format!(
            "{} is no text that UTF-8 has ({reason})",
            shown(value)
        ))
    })?;
    out.extend_from_slice(&(text.len() as u64).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

/// A number of Python or NumPy.
enum Number {
    Bool(bool),
    Int(i128),
    Float(f64),
}

impl Number {
    /// What a value is; none if it is no number, or one that nothing here holds.
    fn of(value: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        if let Ok(own) = value.cast::<PyBool>() {
            return Ok(Some(Self::Bool(own.is_true())));
        }
        if let Ok(own) = value.cast::<PyFloat>() {
            return Ok(Some(Self::Float(own.value())));
        }
        if value.is_instance_of::<PyInt>() {
            let of_64_bits = i128::from(i64::MIN)..=i128::from(u64::MAX);
            let integer = value.extract().ok().filter(|own| of_64_bits.contains(own));
            return Ok(integer.map(Self::Int));
        }
        let py = value.py();
        if value.is_instance(python::integer(py)?)? {
            return Ok(Some(Self::Int(value.extract()?)));
        }
        if value.is_instance(python::bool_(py)?)? {
            return Ok(Some(Self::Bool(value.is_truthy()?)));
        }
        let is_float = value.is_instance(python::floating(py)?)?
            && !value.is_instance(python::longdouble(py)?)?;
        Ok(match is_float {
            true => Some(Self::Float(value.extract()?)),
            false => None,
        })
    }
}

pub fn put_number(
    dtype: DType,
    part: &Part,
    value: &Bound<'_, PyAny>,
    out: &mut Vec<u8>,
) -> Result<(), Misfit> {
    if dtype == DType::Float64
        && let Ok(own) = value.cast::<PyFloat>()
    {
        out.extend_from_slice(&own.value().to_le_bytes());
        return Ok(());
    }
    if dtype == DType::Int64
        && value.is_exact_instance_of::<PyInt>()
        && let Ok(own) = value.extract::<i64>()
    {
        out.extend_from_slice(&own.to_le_bytes());
        return Ok(());
    }
    let number = Number::of(value)?.ok_or_else(|| match value.is_instance_of::<PyInt>() {
        true => out_of_range("usage", value, dtype),
        false => none_of(value, part),
    })?;
    append(dtype, &number, out).ok_or_else(|| match number {
        Number::Float(_) if !is_float(dtype) => {
            let (shown, name) = (shown(value), part.python_name());
            let why = format!(
                "{shown} is no {name}: a float is never converted to one, whatever its value is; convert it first, as with \
                 int()"
            );
            Misfit::Told(UNWRITABLE, String::new(), why)
        }
        _ => out_of_range(UNWRITABLE, value, dtype),
    })
}

fn out_of_range(kind: &'static str, value: &Bound<'_, PyAny>, dtype: DType) -> Misfit {
    let why = format!(
        "{} is no number that a {} holds",
        shown(value),
        dtype.name()
    );
    Misfit::Told(kind, String::new(), why)
}

fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::Float16 | DType::Float32 | DType::Float64)
}

/// Appends a number, if the type holds it.
fn append(dtype: DType, number: &Number, out: &mut Vec<u8>) -> Option<()> {
    let integer = match number {
        Number::Bool(own) => Some(i128::from(*own)),
        Number::Int(own) => Some(*own),
        Number::Float(_) => None,
    };
    macro_rules! integer {
        ($to:ty) => {{
            let own = <$to>::try_from(integer?).ok()?;
            out.extend_from_slice(&own.to_le_bytes());
        }};
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
        DType::Float64 => out.extend_from_slice(&float(number)?.to_le_bytes()),
        DType::Float32 => {
            let wide = float(number)?;
            let narrow = narrowed(wide);
            let is_same = f64::from(narrow) == wide;
            // who asks for single precision has doubles rounded, but not made infinite; integers stay what they are
            let is_fine =
                is_same || (integer.is_none() && (narrow.is_finite() || !wide.is_finite()));
            out.extend_from_slice(&is_fine.then_some(narrow)?.to_le_bytes());
        }
        DType::Float16 => {
            let wide = float(number)?;
            let narrow = Half::from_f64(wide);
            let is_fine = narrow.to_f64() == wide || wide.is_nan();
            out.extend_from_slice(&is_fine.then_some(narrow)?.to_le_bytes());
        }
    }
    Some(())
}

#[expect(clippy::cast_possible_truncation, reason = "single precision is meant")]
fn narrowed(wide: f64) -> f32 {
    wide as f32
}

/// A number as a double, if one holds it exactly.
fn float(number: &Number) -> Option<f64> {
    let integer = match number {
        Number::Float(own) => return Some(*own),
        Number::Bool(own) => i128::from(*own),
        Number::Int(own) => *own,
    };
    #[expect(clippy::cast_precision_loss, reason = "doubles hold it exactly")]
    let exact = (-MOST_EXACT..=MOST_EXACT)
        .contains(&integer)
        .then_some(integer as f64);
    exact
}

/// Appends an integer among floats to floats of single precision, which are all rounded.
fn put_rounded(
    part: &Part,
    list: &Bound<'_, PyAny>,
    value: &Bound<'_, PyAny>,
    out: &mut Vec<u8>,
) -> Result<(), Misfit> {
    let has_floats = || {
        let items = list.try_iter()?;
        items.fold(Ok(false), |found: PyResult<bool>, item| {
            Ok(found? || item?.is_instance_of::<PyFloat>())
        })
    };
    let exact = Number::of(value)?.as_ref().and_then(float);
    match exact.filter(|_| value.is_instance_of::<PyInt>()) {
        Some(wide) if has_floats()? => {
            out.extend_from_slice(&narrowed(wide).to_le_bytes());
            Ok(())
        }
        _ => put_number(DType::Float32, part, value, out),
    }
}

/// Whether a value is walked: what Python has itself, dataclasses, references, and numbers and arrays of them of NumPy.
pub fn is_walked(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = value.py();
    if value.is_exact_instance(python::ndarray(py)?) {
        let is_array = value.getattr(intern!(py, "ndim"))?.gt(0)?;
        return Ok(is_array && number_of_numpy(value)?.is_some());
    }
    Ok(value.is_none()
        || value.is_instance_of::<PyList>()
        || value.is_instance_of::<PyTuple>()
        || value.is_instance_of::<PyDict>()
        || value.is_instance_of::<PyString>()
        || value.is_instance_of::<PyInt>()
        || value.is_instance_of::<PyFloat>()
        || value.is_instance(python::generic(py)?)?
        || value.is_instance(python::ptr(py)?)?
        || python::members(&value.get_type())?.is_some())
}
