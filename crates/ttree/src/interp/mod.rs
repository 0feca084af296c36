//! Interprets branches: what their bytes mean.

mod branch;
mod class;
mod cpp;
mod known;
mod leaf;
mod range;
mod shape;

pub(crate) use branch::{Content, Meaning, counter_number, element, meaning, rest};
pub(crate) use class::{Shapes, collection_type};
pub(crate) use cpp::Cpp;
pub(crate) use shape::{
    Hidden, ListWire, Member, Number, NumberWire, Record, RecordWire, Shape, TextWire,
};
