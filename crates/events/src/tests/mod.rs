//! Tests that several modules share.

pub(crate) mod conformance;
