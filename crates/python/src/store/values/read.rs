//! From the bytes of a stored type to objects of Python, as a type of Python asks for them.
//!
//! How is worked out once for each pair of types, so that a type of Python that does not fit is an error whatever the values.

use arrow_array::types::{ArrowPrimitiveType, Float16Type};
use femtobarn::rows::{Cursor, Fixed};
use femtobarn::schema::DType;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple, PyType};

use super::part::{Class, Member, Part};
use super::python;
use super::write::shown as repr;

type Half = <Float16Type as ArrowPrimitiveType>::Native;

/// Why a value is not had.
pub enum Misfit {
    /// What was expected of the bytes, and what was found.
    Damaged(String, String),
    /// The stored type, or a value, is not what is asked for; why, if there is more to say.
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

/// How a part is read.
pub enum Read {
    Number(DType),
    /// A number as a float, which an integer must be exactly.
    Float(DType),
    /// A boolean as an integer.
    Integer,
    Text,
    Bytes,
    List {
        item: Box<Read>,
        least: usize,
        is_tuple: bool,
    },
    Array {
        item: Box<Read>,
        n: usize,
        is_tuple: bool,
    },
    Optional(Box<Read>),
    /// What may be missing by its type, and must not be; what it is.
    Present(Box<Read>, String),
    Members(Box<Members>),
    /// What the function of Python makes of it.
    Made(Box<Read>, Py<PyAny>),
    /// The same of the store and the value.
    OfStore(Box<Read>, Py<PyAny>),
    /// Alternatives; whether none may be there.
    Variant(Vec<Result<Read, String>>, bool),
}

/// How the members of a class are read.
pub struct Members {
    steps: Vec<Step>,
    fixed: Option<Fixed>,
    into: Into,
}

struct Step {
    name: Py<PyString>,
    place: usize,
    read: Read,
    /// Whether it is wanted.
    is_wanted: bool,
    /// Which member it is, and that it is nothing of the kind, for messages.
    told: (String, String),
}

/// What becomes of members.
enum Into {
    Dict,
    Tuple,
    /// What a class makes of them by their places.
    Places(Py<PyAny>),
    /// What a class makes of them by their names.
    Names(Py<PyAny>),
    /// What a function makes of a dict of them.
    Made(Py<PyAny>),
}

/// A type of Python, as `product_forms.outline` says what it is.
enum Form<'py> {
    Any,
    Nothing,
    Text,
    Bytes,
    Dict,
    /// Lists, of anything or of one type.
    List(Option<Bound<'py, PyAny>>, bool),
    Optional(Bound<'py, PyAny>),
    /// The type, and whether it is Python's own `int` or `float`.
    Number(DType, bool),
    Ptr,
    Class(Dataclass<'py>),
}

struct Dataclass<'py> {
    name: String,
    hints: Bound<'py, PyDict>,
    defaults: Bound<'py, PyAny>,
    make: Bound<'py, PyAny>,
    /// Whether it takes members by their names, as they are; and by their places.
    is_plain: bool,
    by_places: bool,
}

impl<'py> Form<'py> {
    fn of(form: &Bound<'py, PyAny>) -> PyResult<Self> {
        let outline = python::forms(form.py(), "outline")?.call1((form,))?;
        let outline = outline.cast::<PyTuple>()?;
        let kind: String = outline.get_item(0)?.extract()?;
        Ok(match kind.as_str() {
            "str" => Self::Text,
            "bytes" => Self::Bytes,
            "dict" => Self::Dict,
            "list" => {
                let item = outline.get_item(1)?;
                let item = (!item.is_none()).then_some(item);
                Self::List(item, outline.get_item(2)?.extract()?)
            }
            "optional" => Self::Optional(outline.get_item(1)?),
            "number" => {
                let name: String = outline.get_item(1)?.extract()?;
                let dtype = DType::ALL.into_iter().find(|dtype| dtype.name() == name);
                match dtype {
                    Some(dtype) => Self::Number(dtype, outline.get_item(2)?.extract()?),
                    None => Self::Nothing,
                }
            }
            "ptr" => Self::Ptr,
            "class" => {
                let [name, hints, defaults, make, is_plain, by_places] =
                    [1, 2, 3, 4, 5, 6].map(|at| outline.get_item(at));
                Self::Class(Dataclass {
                    name: name?.extract()?,
                    hints: hints?.cast_into()?,
                    defaults: defaults?,
                    make: make?,
                    is_plain: is_plain?.extract()?,
                    by_places: by_places?.extract()?,
                })
            }
            "nothing" => Self::Nothing,
            _ => Self::Any,
        })
    }
}

fn shown(form: &Bound<'_, PyAny>) -> PyResult<String> {
    python::forms(form.py(), "shown")?.call1((form,))?.extract()
}

fn not_made<T>(why: impl std::convert::Into<String>) -> Result<T, Misfit> {
    Err(Misfit::NotMade(why.into()))
}

impl Read {
    /// How a part is read as Python has it.
    pub fn plain(py: Python<'_>, part: &Part) -> Self {
        let below = |part: &Part| Box::new(Self::plain(py, part));
        match part {
            Part::Number(dtype) => Self::Number(*dtype),
            Part::Text => Self::Text,
            Part::List(items) => Self::List {
                item: below(&items.part),
                least: items.least,
                is_tuple: false,
            },
            Part::Array(n, items) => Self::Array {
                item: below(&items.part),
                n: *n,
                is_tuple: false,
            },
            Part::Optional(item) => Self::Optional(below(item)),
            Part::Variant(parts) => {
                let each = parts.iter().map(|part| Ok(Self::plain(py, part)));
                Self::Variant(each.collect(), true)
            }
            Part::Class(class) => {
                let into = match class.is_tuple {
                    true => Into::Tuple,
                    false => Into::Dict,
                };
                let step = |member: &Member| Step::new(py, member, Self::plain(py, &member.part));
                Self::Members(Box::new(Members {
                    steps: class.members.iter().map(step).collect(),
                    fixed: class.fixed,
                    into,
                }))
            }
        }
    }

    /// How a part is read of which nothing more is asked: numbers, texts and references; none if it is given as an array.
    pub fn natural(py: Python<'_>, part: &Part) -> Result<Option<Self>, Misfit> {
        match part {
            Part::Class(class) if class.is_ptr() => {
                Self::as_form(part, python::ptr(py)?.as_any()).map(Some)
            }
            part if is_scalar(part) => Ok(Some(Self::plain(py, part))),
            _ => Ok(None),
        }
    }

    /// How a whole value is read as a type of Python. Numbers of NumPy are such; in lists and members they are Python's.
    pub fn as_whole(part: &Part, form: &Bound<'_, PyAny>) -> Result<Self, Misfit> {
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

    /// How a part is read as a type of Python.
    fn as_form(part: &Part, form: &Bound<'_, PyAny>) -> Result<Self, Misfit> {
        let py = form.py();
        let plain = || Self::plain(py, part);
        let found = match Form::of(form)? {
            Form::Any => return Ok(plain()),
            Form::Nothing => return not_made(""),
            found => found,
        };
        if let Form::Optional(inner) = &found {
            return Ok(match part {
                Part::Optional(item) => Self::Optional(Box::new(Self::as_form(item, inner)?)),
                Part::Variant(parts) => Self::Variant(alternatives(parts, inner)?, true),
                part => Self::as_form(part, inner)?,
            });
        }
        if let Part::Variant(parts) = part {
            return Ok(Self::Variant(alternatives(parts, form)?, false));
        }
        if let Part::Optional(item) = part {
            let read = Self::as_form(item, form)?;
            return Ok(Self::Present(Box::new(read), shown(form)?));
        }
        match (found, part) {
            (Form::List(item, is_tuple), Part::List(items)) => Ok(Self::List {
                item: Box::new(of_items(&items.part, item.as_ref(), py)?),
                least: items.least,
                is_tuple,
            }),
            (Form::List(item, is_tuple), Part::Array(n, below)) => Ok(Self::Array {
                item: Box::new(of_items(&below.part, item.as_ref(), py)?),
                n: *n,
                is_tuple,
            }),
            (Form::Number(wanted, is_own), Part::Number(stored)) => {
                of_number(*stored, wanted, is_own)
            }
            (Form::Class(dataclass), Part::Class(class)) => of_class(py, class, &dataclass),
            (Form::Ptr, Part::Class(class)) if !class.is_tuple => {
                let make = python::ptr(py)?.getattr("from_record")?;
                Ok(Self::OfStore(Box::new(plain()), make.unbind()))
            }
            (Form::Bytes, Part::List(items)) if items.part.number() == Some(DType::UInt8) => {
                Ok(Self::Bytes)
            }
            (Form::Dict, Part::Class(class)) if !class.is_tuple => Ok(plain()),
            (Form::Text, Part::Text) => Ok(plain()),
            _ => not_made(""),
        }
    }

    /// A value that is all of these bytes. References refer into `store`.
    pub fn whole<'py>(
        &self,
        store: &Bound<'py, PyAny>,
        stored: &[u8],
    ) -> Result<Bound<'py, PyAny>, Misfit> {
        let mut from = Cursor::new(stored);
        let value = self.value(store, &mut from)?;
        from.finish()?;
        Ok(value)
    }

    /// The next value.
    pub fn value<'py>(
        &self,
        store: &Bound<'py, PyAny>,
        from: &mut Cursor<'_>,
    ) -> Result<Bound<'py, PyAny>, Misfit> {
        let py = store.py();
        match self {
            Self::Number(dtype) => number(py, *dtype, from),
            Self::Float(dtype) => float(py, *dtype, from),
            Self::Integer => {
                let is_true = from.take(1)?.iter().any(|byte| *byte != 0);
                Ok(PyInt::new(py, u8::from(is_true)).into_any())
            }
            Self::Text => {
                let at = from.at();
                let n = from.count(1)?;
                let text = std::str::from_utf8(from.take(n)?).map_err(|error| {
                    let found = format!("bytes that are none, {} bytes on", error.valid_up_to());
                    Misfit::Damaged(format!("a text in UTF-8 at byte {at}"), found)
                })?;
                Ok(PyString::new(py, text).into_any())
            }
            Self::Bytes => {
                let n = from.count(1)?;
                Ok(PyBytes::new(py, from.take(n)?).into_any())
            }
            Self::List {
                item,
                least,
                is_tuple,
            } => {
                let n = from.count(*least)?;
                item.many(store, from, n, *is_tuple)
            }
            Self::Array { item, n, is_tuple } => item.many(store, from, *n, *is_tuple),
            Self::Optional(item) => match from.tag(1, "0 or 1")? {
                0 => Ok(py.None().into_bound(py)),
                _ => item.value(store, from),
            },
            Self::Present(item, form) => match from.tag(1, "0 or 1")? {
                0 => not_made(format!("a value is missing; what may be is {form} | None")),
                _ => item.value(store, from),
            },
            Self::Members(members) => members.value(store, from),
            Self::Made(read, make) => Ok(make.bind(py).call1((read.value(store, from)?,))?),
            Self::OfStore(read, make) => {
                Ok(make.bind(py).call1((store, read.value(store, from)?))?)
            }
            Self::Variant(alternatives, may_be_none) => {
                let tag = from.tag(alternatives.len(), "the number of an alternative")?;
                match tag.checked_sub(1).map(|at| alternatives.get(at)) {
                    Some(Some(Ok(read))) => read.value(store, from),
                    Some(Some(Err(why))) => not_made(why.as_str()),
                    _ if *may_be_none => Ok(py.None().into_bound(py)),
                    _ => not_made(""),
                }
            }
        }
    }

    fn many<'py>(
        &self,
        store: &Bound<'py, PyAny>,
        from: &mut Cursor<'_>,
        n: usize,
        is_tuple: bool,
    ) -> Result<Bound<'py, PyAny>, Misfit> {
        let py = store.py();
        if let Self::Number(dtype) = self
            && !is_tuple
        {
            return numbers(py, *dtype, from, n);
        }
        // each has bytes, so that they end where these do; an array may say that it has more than there are
        let mut items = Vec::with_capacity(n.min(1 << 16));
        for _ in 0..n {
            items.push(self.value(store, from)?);
        }
        Ok(match is_tuple {
            true => PyTuple::new(py, items)?.into_any(),
            false => PyList::new(py, items)?.into_any(),
        })
    }
}

impl Step {
    fn new(py: Python<'_>, member: &Member, read: Read) -> Self {
        Self {
            name: member.name.clone_ref(py),
            place: member.place,
            read,
            is_wanted: true,
            told: Default::default(),
        }
    }

    /// What is wrong with a value, as one of this member.
    fn within(&self, misfit: Misfit) -> Misfit {
        let (member, is_none) = &self.told;
        match misfit {
            Misfit::NotMade(why) if !member.is_empty() => {
                Misfit::NotMade(of_member(member, is_none, &why))
            }
            other => other,
        }
    }
}

fn of_member(member: &str, is_none: &str, why: &str) -> String {
    match why.is_empty() {
        true => format!("{member}{is_none}"),
        false => format!("{member}: {why}"),
    }
}

impl Members {
    fn value<'py>(
        &self,
        store: &Bound<'py, PyAny>,
        from: &mut Cursor<'_>,
    ) -> Result<Bound<'py, PyAny>, Misfit> {
        let py = store.py();
        let start = from.at();
        let end = match self.fixed {
            Some(fixed) => {
                from.take(fixed.size)?;
                Some(from.at())
            }
            None => None,
        };
        let mut read = |step: &Step| {
            if self.fixed.is_some() {
                from.go_to(start + step.place);
            }
            step.read
                .value(store, from)
                .map_err(|misfit| step.within(misfit))
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
        if let Some(end) = end {
            from.go_to(end);
        }
        Ok(made)
    }
}

fn of_items(part: &Part, form: Option<&Bound<'_, PyAny>>, py: Python<'_>) -> Result<Read, Misfit> {
    match form {
        Some(form) => Read::as_form(part, form),
        None => Ok(Read::plain(py, part)),
    }
}

/// Each alternative as a type of Python; why not, of those that are none.
fn alternatives(
    parts: &[Part],
    form: &Bound<'_, PyAny>,
) -> Result<Vec<Result<Read, String>>, Misfit> {
    let each = parts.iter().map(|part| match Read::as_form(part, form) {
        Ok(read) => Ok(Ok(read)),
        Err(Misfit::NotMade(why)) => Ok(Err(why)),
        Err(other) => Err(other),
    });
    each.collect()
}

/// A number as one of another type: any number that Python's own holds is one.
fn of_number(stored: DType, wanted: DType, is_own: bool) -> Result<Read, Misfit> {
    let is_float = |dtype| matches!(dtype, DType::Float16 | DType::Float32 | DType::Float64);
    let fits = match is_own {
        true => is_float(wanted) || !is_float(stored),
        false => stored.promote(wanted) == wanted,
    };
    match (stored, wanted) {
        _ if !fits => not_made(""),
        _ if is_float(stored) => Ok(Read::Number(stored)),
        (_, wanted) if is_float(wanted) => Ok(Read::Float(stored)),
        (DType::Bool, wanted) if wanted != DType::Bool => Ok(Read::Integer),
        _ => Ok(Read::Number(stored)),
    }
}

fn of_class(py: Python<'_>, class: &Class, form: &Dataclass<'_>) -> Result<Read, Misfit> {
    let (mut there, mut absent) = (Vec::new(), Vec::new());
    for name in form.hints.keys() {
        let name = name.cast_into::<PyString>().map_err(PyErr::from)?;
        let place = class
            .members
            .iter()
            .position(|member| member.name.bind(py).as_any().eq(&name).unwrap_or(false));
        match place {
            Some(place) => there.push(place),
            None => absent.push(name),
        }
    }
    let mut missing = Vec::new();
    for name in &absent {
        if there.is_empty() || !form.defaults.contains(name)? {
            missing.push(name.to_string_lossy().into_owned());
        }
    }
    if let Some(first) = missing.first() {
        let own = format!("{first} in {}", form.name);
        let advice = match there.is_empty() {
            true => String::new(),
            false => format!("; a default of {own} would stand for what is not there"),
        };
        return not_made(format!("it has no {}{advice}", missing.join(", ")));
    }
    let step = |member: &Member| {
        let name = member.name.bind(py);
        let Some(hint) = form.hints.get_item(name)? else {
            let mut step = Step::new(py, member, Read::plain(py, &member.part));
            step.is_wanted = false;
            return Ok(step);
        };
        let which = format!("member {} of {}", repr(name), form.name);
        let is_none = format!(
            " is stored as {}, which is no {}",
            member.part.type_name(),
            shown(&hint)?
        );
        match Read::as_form(&member.part, &hint) {
            Ok(read) => {
                let mut step = Step::new(py, member, read);
                step.told = (which, is_none);
                Ok(step)
            }
            Err(Misfit::NotMade(why)) => not_made(of_member(&which, &is_none, &why)),
            Err(other) => Err(other),
        }
    };
    let steps = class
        .members
        .iter()
        .map(step)
        .collect::<Result<Vec<_>, Misfit>>()?;
    let is_whole = absent.is_empty() && there.iter().copied().eq(0..class.members.len());
    let make = form.make.clone().unbind();
    let into = match (form.is_plain, form.by_places && is_whole) {
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

/// The next bytes, of which there are so many.
fn chunk<const N: usize>(from: &mut Cursor<'_>) -> Result<[u8; N], Misfit> {
    let bytes = from.take(N)?;
    Ok(bytes.first_chunk().copied().unwrap_or([0; N]))
}

fn number<'py>(
    py: Python<'py>,
    dtype: DType,
    from: &mut Cursor<'_>,
) -> Result<Bound<'py, PyAny>, Misfit> {
    macro_rules! integer {
        ($number:ty) => {
            PyInt::new(py, <$number>::from_le_bytes(chunk(from)?)).into_any()
        };
    }
    Ok(match dtype {
        DType::Bool => {
            let [byte] = chunk(from)?;
            PyBool::new(py, byte != 0).to_owned().into_any()
        }
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

/// The next integer or boolean as a float, which it must be exactly.
fn float<'py>(
    py: Python<'py>,
    dtype: DType,
    from: &mut Cursor<'_>,
) -> Result<Bound<'py, PyAny>, Misfit> {
    let plain = number(py, dtype, from)?;
    let real: f64 = plain.extract()?;
    let real = PyFloat::new(py, real);
    match real.as_any().eq(&plain)? {
        true => Ok(real.into_any()),
        false => not_made(format!("no float is {plain}")),
    }
}

/// The next numbers as a list.
fn numbers<'py>(
    py: Python<'py>,
    dtype: DType,
    from: &mut Cursor<'_>,
    n: usize,
) -> Result<Bound<'py, PyAny>, Misfit> {
    let bytes = from.take(dtype.size().saturating_mul(n))?;
    macro_rules! list {
        ($number:ty) => {{
            let (chunks, _) = bytes.as_chunks();
            PyList::new(
                py,
                chunks.iter().map(|chunk| <$number>::from_le_bytes(*chunk)),
            )?
        }};
    }
    let list = match dtype {
        DType::Bool => PyList::new(py, bytes.iter().map(|byte| *byte != 0))?,
        DType::Int8 => list!(i8),
        DType::UInt8 => list!(u8),
        DType::Int16 => list!(i16),
        DType::UInt16 => list!(u16),
        DType::Int32 => list!(i32),
        DType::UInt32 => list!(u32),
        DType::Int64 => list!(i64),
        DType::UInt64 => list!(u64),
        DType::Float16 => {
            let (chunks, _) = bytes.as_chunks();
            PyList::new(
                py,
                chunks
                    .iter()
                    .map(|chunk| Half::from_le_bytes(*chunk).to_f64()),
            )?
        }
        DType::Float32 => list!(f32),
        DType::Float64 => list!(f64),
    };
    Ok(list.into_any())
}

fn is_scalar(part: &Part) -> bool {
    match part {
        Part::Number(_) | Part::Text => true,
        Part::Optional(item) => is_scalar(item),
        _ => false,
    }
}
