//! What fields are filled from, and to which columns.

use std::collections::HashMap;

use crate::schema::DType;

/// What a field is filled from and to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shape {
    /// One column of numbers.
    Leaf {
        column: usize,
        dtype: DType,
        /// What values may be, if not everything.
        range: Option<(f64, f64)>,
    },
    /// Lists; texts are lists of bytes.
    List {
        index: usize,
        item: Box<Shape>,
        text: bool,
        order: Order,
    },
    /// An item or none.
    Optional { index: usize, item: Box<Shape> },
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

/// What the items of a list obey.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Order {
    /// They are sorted.
    pub is_sorted: bool,
    /// No two are equal.
    pub is_unique: bool,
    /// It is their first members that are meant.
    pub by_key: bool,
}

impl Order {
    /// Of a collection's type.
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
    /// Adds the types of the elements that are given for each column below.
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
