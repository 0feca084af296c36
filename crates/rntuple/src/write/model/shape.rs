//! Shapes: how fields are filled, and their columns.

use std::collections::HashMap;

use crate::schema::DType;

/// How a field is filled, and its columns.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shape {
    /// One column of numbers.
    Leaf {
        column: usize,
        dtype: DType,
        limits: Limits,
    },
    /// Lists; strings are lists of bytes.
    List {
        index: usize,
        item: Box<Shape>,
        text: bool,
        order: Order,
    },
    /// Zero or one item.
    Optional {
        index: usize,
        item: Box<Shape>,
        /// Whether lists of zero or one item are accepted as well, as that is how it is read.
        as_lists: bool,
    },
    /// Lists of a fixed size.
    Array { size: usize, item: Box<Shape> },
    /// Members by name.
    Record {
        class: String,
        members: Vec<(String, Shape)>,
    },
    /// Alternatives.
    Variant {
        switch: usize,
        alternatives: Vec<Shape>,
    },
}

/// Which numbers a column can represent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Limits {
    /// All numbers of its type.
    None,
    /// Numbers in a range.
    Range(f64, f64),
    /// Numbers that are finite in single precision, infinities and NaN.
    Single,
    /// Numbers that are finite in half precision, infinities and NaN.
    Half,
}

/// The required order of a list's items.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Order {
    /// Whether they are sorted.
    pub is_sorted: bool,
    /// Whether they are unique.
    pub is_unique: bool,
    /// Whether this applies to their first members.
    pub by_key: bool,
}

impl Order {
    /// The order for a collection type.
    pub(super) fn of(type_name: &str) -> Self {
        let template = type_name.split('<').next().unwrap_or_default();
        let Some(name) = template.strip_prefix("std::") else {
            return Self::default();
        };
        let (is_sorted, name) = match name.strip_prefix("unordered_") {
            Some(name) => (false, name),
            None => (true, name),
        };
        let (is_unique, name) = match name.strip_prefix("multi") {
            Some(name) => (false, name),
            None => (true, name),
        };
        match name {
            "set" | "map" => Self {
                is_sorted,
                is_unique,
                by_key: name == "map",
            },
            _ => Self::default(),
        }
    }
}

impl Shape {
    /// Whether its values are never given as lists.
    pub(super) fn is_no_list(&self) -> bool {
        match self {
            Self::Leaf { .. } | Self::Record { .. } => true,
            Self::List { text, .. } => *text,
            Self::Optional { .. } | Self::Array { .. } | Self::Variant { .. } => false,
        }
    }

    /// Whether any sequence of numbers is a valid value.
    pub fn takes_all(&self) -> bool {
        match self {
            Self::Leaf { limits, .. } => *limits == Limits::None,
            Self::List { item, order, .. } => *order == Order::default() && item.takes_all(),
            Self::Optional { item, .. } | Self::Array { item, .. } => item.takes_all(),
            Self::Record { members, .. } => members.iter().all(|(_, shape)| shape.takes_all()),
            Self::Variant { .. } => false,
        }
    }

    /// Adds the element types of the columns.
    pub fn element_types(&self, types: &mut HashMap<usize, DType>) {
        match self {
            Self::Leaf { column, dtype, .. } => {
                types.insert(*column, *dtype);
            }
            Self::List { item, .. } | Self::Optional { item, .. } | Self::Array { item, .. } => {
                item.element_types(types);
            }
            Self::Record { members, .. } => {
                members
                    .iter()
                    .for_each(|(_, shape)| shape.element_types(types));
            }
            Self::Variant { alternatives, .. } => {
                alternatives
                    .iter()
                    .for_each(|shape| shape.element_types(types));
            }
        }
    }
}
