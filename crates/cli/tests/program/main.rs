//! The program as users run it: on the files of `testdata`, and on damaged copies.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test fails by a panic"
)]

mod cache;
mod convert;
mod copy;
mod errors;
mod explain;
mod head;
mod info;
mod join;
mod ls;
mod merge;
mod reshape;
mod several;
mod store;
mod support;
mod transfer;
mod usage;
mod verify;
