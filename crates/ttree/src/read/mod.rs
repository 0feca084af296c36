//! Baskets to columns.

mod basket;
mod counts;
mod engine;
mod numbers;
mod op;
mod pages;
mod storage;
mod values;
mod verify;
mod worker;

pub(crate) use basket::parse_embedded;
pub(crate) use op::Op;
pub(crate) use storage::TreeStorage;
pub(crate) use values::Sink;
pub(crate) use worker::decode_entries;
