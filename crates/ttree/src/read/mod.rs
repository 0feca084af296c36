//! Decodes baskets into columns.

mod basket;
mod copy;
mod counters;
mod counts;
mod engine;
mod entries;
mod job;
mod lengths;
mod members;
mod numbers;
mod op;
mod origin;
mod pages;
mod pieces;
mod place;
mod storage;
mod tree;
mod values;
mod verify;
mod versions;
mod worker;

pub(crate) use basket::parse_embedded;
pub(crate) use entries::decode_entries;
pub(crate) use op::Op;
pub(crate) use tree::TreeStorage;
pub(crate) use values::Sink;
