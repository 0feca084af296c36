//! The parts of a stored type, by which Python values are walked.

use femtobarn::rows::{Fixed, Plan};
use femtobarn::schema::DType;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyType};

/// The class of references.
pub const PTR: &str = femtobarn::products::REFERENCE;

/// A part of a type.
pub enum Part {
    Number(DType),
    Text,
    List(Box<Items>),
    Optional(Box<Part>),
    Array(usize, Box<Items>),
    Class(Box<Class>),
    Variant(Vec<Part>),
}

/// The items of a list or array.
pub struct Items {
    pub part: Part,
    /// The smallest size of an item in bytes.
    pub least: usize,
    /// The size of an item, if it is constant.
    pub size: Option<usize>,
}

/// A class, pair or tuple.
pub struct Class {
    pub name: String,
    pub members: Vec<Member>,
    /// Whether it is a tuple, whose members have no names.
    pub is_tuple: bool,
    pub fixed: Option<Fixed>,
    /// A dataclass that was found to have these members.
    pub known: PyOnceLock<Py<PyType>>,
}

/// A member of a class.
pub struct Member {
    pub name: Py<PyString>,
    /// Its offset, if the class has a fixed size.
    pub place: usize,
    pub part: Part,
}

impl Part {
    /// The parts of a type.
    pub fn new(py: Python<'_>, plan: &Plan) -> Self {
        let items = |item: &Plan| {
            Box::new(Items {
                part: Self::new(py, item),
                least: item.least(),
                size: item.fixed().map(|fixed| fixed.size),
            })
        };
        match plan {
            Plan::Leaf(dtype) => Self::Number(*dtype),
            Plan::Text => Self::Text,
            Plan::List(item) => Self::List(items(item)),
            Plan::Optional(item) => Self::Optional(Box::new(Self::new(py, item))),
            Plan::Array(n, item) => Self::Array(*n, items(item)),
            Plan::Variant(plans) => {
                Self::Variant(plans.iter().map(|plan| Self::new(py, plan)).collect())
            }
            Plan::Record(record) => {
                let name = |at: usize| match &record.names {
                    Some(names) => names.get(at).cloned().unwrap_or_default(),
                    None => format!("_{at}"),
                };
                let place = |at: usize| {
                    let (_, places) = record.fixed.as_ref()?;
                    places.get(at).copied()
                };
                let member = |(at, plan): (usize, &Plan)| Member {
                    name: PyString::intern(py, &name(at)).unbind(),
                    place: place(at).unwrap_or_default(),
                    part: Self::new(py, plan),
                };
                Self::Class(Box::new(Class {
                    name: record.class.clone(),
                    members: record.members.iter().enumerate().map(member).collect(),
                    is_tuple: record.names.is_none(),
                    fixed: record.fixed.as_ref().map(|(fixed, _)| *fixed),
                    known: PyOnceLock::new(),
                }))
            }
        }
    }

    /// The type of a NumPy number.
    pub fn number(&self) -> Option<DType> {
        match self {
            Self::Number(dtype) => Some(*dtype),
            _ => None,
        }
    }

    /// The Python name of the type, for messages.
    pub fn python_name(&self) -> String {
        match self {
            Self::Number(DType::Bool) => "bool".into(),
            Self::Number(DType::Int64) => "int".into(),
            Self::Number(DType::Float64) => "float".into(),
            Self::Number(dtype) => dtype.name().into(),
            Self::Text => "str".into(),
            Self::List(items) if items.part.number() == Some(DType::UInt8) => "bytes".into(),
            Self::List(items) => format!("list[{}]", items.part.python_name()),
            Self::Array(n, items) => format!("list[{}] of {n}", items.part.python_name()),
            Self::Optional(item) => format!("{} | None", item.python_name()),
            Self::Class(class) => class.python_name().into(),
            Self::Variant(_) => "alternative".into(),
        }
    }

    /// The C++ type name.
    pub fn type_name(&self) -> String {
        match self {
            Self::Number(dtype) => dtype.type_name().into(),
            Self::Text => "std::string".into(),
            Self::List(items) => format!("std::vector<{}>", items.part.type_name()),
            Self::Array(n, items) => format!("std::array<{},{n}>", items.part.type_name()),
            Self::Optional(item) => format!("std::optional<{}>", item.type_name()),
            Self::Class(class) => class.name.clone(),
            Self::Variant(parts) => {
                let names: Vec<_> = parts.iter().map(Self::type_name).collect();
                format!("std::variant<{}>", names.join(","))
            }
        }
    }
}

impl Class {
    /// Whether values are references.
    pub fn is_ptr(&self) -> bool {
        self.name == PTR
    }

    /// The Python class name.
    pub fn python_name(&self) -> &str {
        match self.is_ptr() {
            true => "Ptr",
            false => &self.name,
        }
    }

    /// The names of the members, for messages.
    pub fn names(&self, py: Python<'_>) -> String {
        let names = self
            .members
            .iter()
            .map(|member| member.name.to_string_lossy(py));
        names.collect::<Vec<_>>().join(", ")
    }
}
