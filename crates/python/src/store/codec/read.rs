//! Converts stored bytes to Python objects of the requested type.
//!
//! The conversion is determined once for each pair of types, so a Python type that does not match is an error for all
//! values.

use arrow_array::types::{ArrowPrimitiveType, Float16Type};
use femtobarn::rows::{Cursor, Fixed};
use femtobarn::schema::DType;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple, PyType};

use super::part::{Class, Items, Member, Part};
use super::write::shown;
use super::{Value, python};

type Half = <Float16Type as ArrowPrimitiveType>::Native;

/// The most items of size zero in a value.
const MOST_EMPTY: usize = 1 << 16;

/// Why a value cannot be converted.
pub enum Misfit {
    /// What was expected of the bytes, and what was found.
    Damaged(String, String),
    /// The stored type, or a value, does not match the requested type; with a reason, if there is more to say.
    NotMade(String),
    Raised(PyErr),
}

impl From<PyErr> for Misfit {
    fn from(error: PyErr) -> Self {
        Self::Raised(error)
    }
}

impl From<(String, String)> for Misfit {
    fn from((expected, found): (String, String)) -> Self {
        Self::Damaged(expected, found)
    }
}

/// How to read a part.
pub enum Read {
    Number(DType),
    /// An integer as a float, which must represent it exactly.
    Float(DType),
    Text,
    Bytes,
    List(Box<Many>),
    Optional(Box<Read>),
    /// An optional value that must be present; with its type.
    Present(Box<Read>, String),
    Members(Box<Members>),
    /// Passes the value to a Python class.
    Made(Box<Read>, Py<PyAny>),
    /// A reference: a Python function makes it of the store and the members.
    Ptr(Box<Read>, Py<PyAny>),
    /// Alternatives; whether there may be no value.
    Variant(Vec<Result<Read, String>>, bool),
}

/// How to read the items of a list or array.
pub struct Many {
    item: Read,
    /// The number of items, if it is fixed.
    n: Option<usize>,
    least: usize,
    is_tuple: bool,
}

/// How to read the members of a class.
pub struct Members {
    steps: Vec<Step>,
    fixed: Option<Fixed>,
    into: Into,
}

struct Step {
    name: Py<PyString>,
    place: usize,
    read: Read,
    is_wanted: bool,
    /// The member, and the message that its type does not match.
    told: Option<(String, String)>,
}

/// What is made of members.
enum Into {
    Dict,
    Tuple,
    /// A class that is called with positional arguments.
    Places(Py<PyAny>),
    /// A class that is called with keyword arguments.
    Names(Py<PyAny>),
    /// A function that is called with a dict.
    Made(Py<PyAny>),
}

fn not_made<T>(why: impl std::convert::Into<String>) -> Result<T, Misfit> {
    Err(Misfit::NotMade(why.into()))
}

impl Read {
    /// How to read a part as the corresponding Python type.
    fn plain(py: Python<'_>, part: &Part) -> Self {
        let many = |n: Option<usize>, items: &Items| {
            let (item, least) = (Self::plain(py, &items.part), items.least);
            Self::List(Box::new(Many {
                item,
                n,
                least,
                is_tuple: false,
            }))
        };
        match part {
            Part::Number(dtype) => Self::Number(*dtype),
            Part::Text => Self::Text,
            Part::List(items) => many(None, items),
            Part::Array(n, items) => many(Some(*n), items),
            Part::Optional(item) => Self::Optional(Box::new(Self::plain(py, item))),
            Part::Variant(parts) => {
                let each = parts.iter().map(|part| Ok(Self::plain(py, part)));
                Self::Variant(each.collect(), true)
            }
            Part::Class(class) => {
                let step = |member| Step::new(py, member, Self::plain(py, &member.part));
                let into = if class.is_tuple {
                    Into::Tuple
                } else {
                    Into::Dict
                };
                let steps = class.members.iter().map(step).collect();
                Self::Members(Box::new(Members {
                    steps,
                    fixed: class.fixed,
                    into,
                }))
            }
        }
    }

    /// How to read a part without a requested type: numbers, strings and references; none if it is returned as an array.
    pub fn natural(py: Python<'_>, part: &Part) -> Result<Option<Self>, Misfit> {
        fn is_scalar(part: &Part) -> bool {
            match part {
                Part::Number(_) | Part::Text => true,
                Part::Optional(item) => is_scalar(item),
                _ => false,
            }
        }
        match part {
            Part::Class(class) if class.is_ptr() => Self::as_form(part, python::ptr(py)?).map(Some),
            part => Ok(is_scalar(part).then(|| Self::plain(py, part))),
        }
    }

    /// How to read a whole value as a Python type. Numbers are NumPy's if requested; those in lists and members are
    /// Python's.
    pub fn as_whole(part: &Part, form: &Value<'_>) -> Result<Self, Misfit> {
        let read = Self::as_form(part, form)?;
        let is_numpy = match form.cast::<PyType>() {
            Ok(class) => class.is_subclass(python::generic(form.py())?)?,
            Err(_) => false,
        };
        Ok(match is_numpy {
            true => Self::Made(Box::new(read), form.clone().unbind()),
            false => read,
        })
    }

    /// How to read a part as a Python type, which `product_forms.outline` describes.
    fn as_form(part: &Part, form: &Value<'_>) -> Result<Self, Misfit> {
        let py = form.py();
        let outline = python::forms(py, "outline")?.call1((form,))?;
        let outline = outline.cast::<PyTuple>().map_err(PyErr::from)?;
        let kind: String = outline.get_item(0)?.extract()?;
        match (kind.as_str(), part) {
            ("any", _) => return Ok(Self::plain(py, part)),
            ("nothing", _) => return not_made(""),
            ("optional", part) => {
                let inner = outline.get_item(1)?;
                return Ok(match part {
                    Part::Optional(item) => Self::Optional(Box::new(Self::as_form(item, &inner)?)),
                    Part::Variant(parts) => Self::Variant(alternatives(parts, &inner)?, true),
                    part => Self::as_form(part, &inner)?,
                });
            }
            _ => {}
        }
        let many = |n: Option<usize>, items: &Items| {
            let form = outline.get_item(1)?;
            let item = match form.is_none() {
                true => Self::plain(py, &items.part),
                false => Self::as_form(&items.part, &form)?,
            };
            let (least, is_tuple) = (items.least, outline.get_item(2)?.extract()?);
            Ok(Self::List(Box::new(Many {
                item,
                n,
                least,
                is_tuple,
            })))
        };
        match (part, kind.as_str()) {
            (Part::Variant(parts), _) => Ok(Self::Variant(alternatives(parts, form)?, false)),
            (Part::Optional(item), _) => {
                let read = Box::new(Self::as_form(item, form)?);
                Ok(Self::Present(read, python::shown(form)?))
            }
            (Part::List(items), "list") => many(None, items),
            (Part::Array(n, items), "list") => many(Some(*n), items),
            (Part::Number(stored), "number") => {
                let name: String = outline.get_item(1)?.extract()?;
                of_number(py, *stored, &name, outline.get_item(2)?.extract()?)
            }
            (Part::Class(class), "class") => of_class(class, outline),
            (Part::Class(class), "ptr") if !class.is_tuple => {
                let make = python::ptr(py)?.getattr("from_record")?;
                Ok(Self::Ptr(Box::new(Self::plain(py, part)), make.unbind()))
            }
            (Part::List(items), "bytes") if items.part.number() == Some(DType::UInt8) => {
                Ok(Self::Bytes)
            }
            (Part::Class(class), "dict") if !class.is_tuple => Ok(Self::plain(py, part)),
            (Part::Text, "str") => Ok(Self::Text),
            _ => not_made(""),
        }
    }

    /// Reads a value that consists of all of these bytes. References refer to `store`.
    pub fn whole<'py>(&self, store: &Value<'py>, stored: &[u8]) -> Result<Value<'py>, Misfit> {
        let mut from = Cursor::new(stored);
        let value = self.value(store, &mut from)?;
        from.finish()?;
        Ok(value)
    }

    /// Reads the next value.
    fn value<'py>(&self, store: &Value<'py>, from: &mut Cursor<'_>) -> Result<Value<'py>, Misfit> {
        let py = store.py();
        match self {
            Self::Number(dtype) => number(py, *dtype, from),
            Self::Float(dtype) => {
                let integer = number(py, *dtype, from)?;
                let real = PyFloat::new(py, integer.extract()?).into_any();
                match real.eq(&integer)? {
                    true => Ok(real),
                    false => not_made(format!(
                        "{integer} cannot be represented exactly as a float"
                    )),
                }
            }
            Self::Text => {
                let at = from.at();
                let n = from.count(1)?;
                let text = std::str::from_utf8(from.take(n)?).map_err(|error| {
                    let found = format!("invalid bytes after {} bytes", error.valid_up_to());
                    Misfit::Damaged(format!("a UTF-8 string at byte {at}"), found)
                })?;
                Ok(PyString::new(py, text).into_any())
            }
            Self::Bytes => {
                let n = from.count(1)?;
                Ok(PyBytes::new(py, from.take(n)?).into_any())
            }
            Self::List(many) => many.value(store, from),
            Self::Optional(item) => match from.tag(1, "0 or 1")? {
                0 => Ok(py.None().into_bound(py)),
                _ => item.value(store, from),
            },
            Self::Present(item, form) => match from.tag(1, "0 or 1")? {
                0 => not_made(format!("a value is missing; annotate it as {form} | None")),
                _ => item.value(store, from),
            },
            Self::Members(members) => members.value(store, from),
            Self::Made(read, make) => Ok(make.bind(py).call1((read.value(store, from)?,))?),
            Self::Ptr(read, make) => Ok(make.bind(py).call1((store, read.value(store, from)?))?),
            Self::Variant(alternatives, may_be_none) => {
                let tag = from.tag(alternatives.len(), "the number of an alternative")?;
                match tag.checked_sub(1).and_then(|at| alternatives.get(at)) {
                    Some(Ok(read)) => read.value(store, from),
                    Some(Err(why)) => not_made(why.as_str()),
                    None if *may_be_none => Ok(py.None().into_bound(py)),
                    None => not_made(""),
                }
            }
        }
    }
}

impl Many {
    fn value<'py>(&self, store: &Value<'py>, from: &mut Cursor<'_>) -> Result<Value<'py>, Misfit> {
        let (py, at) = (store.py(), from.at());
        let n = match self.n {
            Some(n) => n,
            None => from.count(self.least)?,
        };
        let most = from.left().max(MOST_EMPTY);
        if n > most {
            let expected = format!("at most {most} items at byte {at}");
            return Err(Misfit::Damaged(expected, format!("{n} items")));
        }
        let mut failed = None;
        let items = (0..n).map(|_| {
            let value = match failed {
                None => self.item.value(store, from),
                Some(_) => Ok(py.None().into_bound(py)),
            };
            value.unwrap_or_else(|misfit| {
                failed = Some(misfit);
                py.None().into_bound(py)
            })
        });
        let made = match self.is_tuple {
            true => PyTuple::new(py, items)?.into_any(),
            false => PyList::new(py, items)?.into_any(),
        };
        failed.map_or(Ok(made), Err)
    }
}

impl Step {
    fn new(py: Python<'_>, member: &Member, read: Read) -> Self {
        Self {
            name: member.name.clone_ref(py),
            place: member.place,
            read,
            is_wanted: true,
            told: None,
        }
    }
}

impl Members {
    fn value<'py>(&self, store: &Value<'py>, from: &mut Cursor<'_>) -> Result<Value<'py>, Misfit> {
        let (py, start) = (store.py(), from.at());
        if let Some(fixed) = self.fixed {
            from.take(fixed.size)?;
        }
        let end = from.at();
        let mut read = |step: &Step| {
            if self.fixed.is_some() {
                from.go_to(start + step.place);
            }
            let value = step.read.value(store, from);
            value.map_err(|misfit| of_member(step.told.as_ref(), misfit))
        };
        let made = match &self.into {
            Into::Tuple | Into::Places(_) => {
                let mut values = Vec::with_capacity(self.steps.len());
                for step in &self.steps {
                    values.push(read(step)?);
                }
                let values = PyTuple::new(py, values)?;
                match &self.into {
                    Into::Places(class) => class.bind(py).call1(values)?,
                    _ => values.into_any(),
                }
            }
            Into::Dict | Into::Names(_) | Into::Made(_) => {
                let values = PyDict::new(py);
                for step in &self.steps {
                    let value = read(step)?;
                    if step.is_wanted {
                        values.set_item(step.name.bind(py), value)?;
                    }
                }
                match &self.into {
                    Into::Names(class) => class.bind(py).call((), Some(&values))?,
                    Into::Made(make) => make.bind(py).call1((values,))?,
                    _ => values.into_any(),
                }
            }
        };
        if self.fixed.is_some() {
            from.go_to(end);
        }
        Ok(made)
    }
}

/// Adds the member to an error.
fn of_member(told: Option<&(String, String)>, misfit: Misfit) -> Misfit {
    match (told, misfit) {
        (Some((member, is_none)), Misfit::NotMade(why)) => Misfit::NotMade(match why.is_empty() {
            true => format!("{member} {is_none}"),
            false => format!("{member}: {why}"),
        }),
        (_, other) => other,
    }
}

/// Each alternative as a Python type, or the reason why it does not match.
fn alternatives(parts: &[Part], form: &Value<'_>) -> Result<Vec<Result<Read, String>>, Misfit> {
    let each = parts.iter().map(|part| match Read::as_form(part, form) {
        Ok(read) => Ok(Ok(read)),
        Err(Misfit::NotMade(why)) => Ok(Err(why)),
        Err(other) => Err(other),
    });
    each.collect()
}

/// A number as another number type: Python's own types accept any number that they can represent.
fn of_number(py: Python<'_>, stored: DType, wanted: &str, is_own: bool) -> Result<Read, Misfit> {
    let is_float = |dtype| matches!(dtype, DType::Float16 | DType::Float32 | DType::Float64);
    let Some(wanted) = DType::ALL.into_iter().find(|dtype| dtype.name() == wanted) else {
        return not_made("");
    };
    let fits = match is_own {
        true => is_float(wanted) || !is_float(stored),
        false => stored.promote(wanted) == wanted,
    };
    let read = Read::Number(stored);
    match (stored, wanted) {
        _ if !fits => not_made(""),
        _ if is_float(wanted) && !is_float(stored) => Ok(Read::Float(stored)),
        (DType::Bool, wanted) if wanted != DType::Bool && !is_float(wanted) => Ok(Read::Made(
            Box::new(read),
            py.get_type::<PyInt>().into_any().unbind(),
        )),
        _ => Ok(read),
    }
}

/// A class as a dataclass, given by its name, the types of its members, the members with defaults, the constructor, and
/// whether that accepts members unchanged by name and by position.
fn of_class(class: &Class, dataclass: &Bound<'_, PyTuple>) -> Result<Read, Misfit> {
    type Outline<'py> = (
        String,
        String,
        Bound<'py, PyDict>,
        Value<'py>,
        Value<'py>,
        bool,
        bool,
    );
    let py = dataclass.py();
    let (_, own, hints, defaults, make, is_plain, by_places): Outline<'_> = dataclass.extract()?;
    let (mut there, mut absent) = (Vec::new(), Vec::new());
    for name in hints.keys() {
        let is_it = |member: &Member| name.eq(member.name.bind(py)).unwrap_or(false);
        match class.members.iter().position(is_it) {
            Some(place) => there.push(place),
            None => absent.push(name),
        }
    }
    let is_whole = absent.is_empty() && there.iter().copied().eq(0..class.members.len());
    let mut missing = Vec::new();
    for name in absent {
        if there.is_empty() || !defaults.contains(&name)? {
            missing.push(name.to_string());
        }
    }
    if let Some(first) = missing.first() {
        let advice = match there.is_empty() {
            true => String::new(),
            false => {
                format!("; to load it anyway, give {first} in {own} a default")
            }
        };
        return not_made(format!("it has no {}{advice}", missing.join(", ")));
    }
    let step = |member: &Member| {
        let name = member.name.bind(py);
        let Some(hint) = hints.get_item(name)? else {
            let step = Step::new(py, member, Read::plain(py, &member.part));
            return Ok(Step {
                is_wanted: false,
                ..step
            });
        };
        let (stored, wanted) = (member.part.type_name(), python::shown(&hint)?);
        let is_none = format!("is stored as {stored} and cannot be loaded as {wanted}");
        let told = Some((format!("member {} of {own}", shown(name)), is_none));
        match Read::as_form(&member.part, &hint) {
            Ok(read) => Ok(Step {
                told,
                ..Step::new(py, member, read)
            }),
            Err(misfit) => Err(of_member(told.as_ref(), misfit)),
        }
    };
    let steps = class
        .members
        .iter()
        .map(step)
        .collect::<Result<Vec<_>, Misfit>>()?;
    let make = make.unbind();
    let into = match (is_plain, by_places && is_whole) {
        (true, true) => Into::Places(make),
        (true, false) => Into::Names(make),
        (false, _) => Into::Made(make),
    };
    Ok(Read::Members(Box::new(Members {
        steps,
        fixed: class.fixed,
        into,
    })))
}

/// Reads the next number.
fn number<'py>(py: Python<'py>, dtype: DType, from: &mut Cursor<'_>) -> Result<Value<'py>, Misfit> {
    fn chunk<const N: usize>(from: &mut Cursor<'_>) -> Result<[u8; N], Misfit> {
        Ok(from.take(N)?.first_chunk().copied().unwrap_or([0; N]))
    }
    macro_rules! integer {
        ($number:ty) => {
            PyInt::new(py, <$number>::from_le_bytes(chunk(from)?)).into_any()
        };
    }
    Ok(match dtype {
        DType::Bool => PyBool::new(py, chunk(from)? != [0]).to_owned().into_any(),
        DType::Int8 => integer!(i8),
        DType::UInt8 => integer!(u8),
        DType::Int16 => integer!(i16),
        DType::UInt16 => integer!(u16),
        DType::Int32 => integer!(i32),
        DType::UInt32 => integer!(u32),
        DType::Int64 => integer!(i64),
        DType::UInt64 => integer!(u64),
        DType::Float16 => PyFloat::new(py, Half::from_le_bytes(chunk(from)?).to_f64()).into_any(),
        DType::Float32 => PyFloat::new(py, f32::from_le_bytes(chunk(from)?).into()).into_any(),
        DType::Float64 => PyFloat::new(py, f64::from_le_bytes(chunk(from)?)).into_any(),
    })
}
