//! The C ABI of the event store: `include/femtobarn.h`.
//!
//! Handles are opaque, an error comes out of the last parameter, and a panic becomes an error at the border. It knows
//! nothing of how products are serialized: they are bytes here.
//!
//! # Invariants
//!
//! - No panic and no exception crosses the border.
//! - The header is what cbindgen makes of this crate, which the test `header` sees to.

#![expect(
    unsafe_code,
    reason = "what comes over a C ABI are pointers, and their callers promise what they point to"
)]
#![expect(
    non_camel_case_types,
    reason = "types have the names that they have in C"
)]

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
