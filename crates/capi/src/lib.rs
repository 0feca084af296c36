//! The C ABI of the event store: `include/femtobarn.h`.
//!
//! Handles are opaque, the last parameter returns the error, and a panic becomes an error at the border. This crate
//does ! not know how products are serialized: here they are bytes.
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
mod error;
mod events;
mod input;
mod loader;
mod product;
mod queue;
mod store;
#[cfg(test)]
mod tests;
