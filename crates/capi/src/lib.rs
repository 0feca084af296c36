//! The C ABI of ntuples and of the event store: `include/femtobarn.h`. The extension of Python has this module, too, so
//! that its process needs no second library; therefore paths begin with `super`.
//!
//! Handles are opaque, the last parameter returns the error, and a panic becomes an error at the border. This crate does
//! not know how products are serialized: here they are bytes.
//!
//! # Invariants
//!
//! - No panic and no exception crosses the border.
//! - The header is generated from this crate by cbindgen; the test `header` checks this.

#![expect(
    unsafe_code,
    reason = "a C ABI passes pointers, and the caller guarantees that they are valid"
)]
#![expect(non_camel_case_types, reason = "types have the same names as in C")]

mod batch;
mod container;
mod dataset;
mod descriptor;
pub(crate) mod error;
mod events;
mod given;
mod input;
mod loader;
pub(crate) mod ntuple;
mod product;
mod queue;
mod store;
#[cfg(test)]
mod tests;
mod writer;
