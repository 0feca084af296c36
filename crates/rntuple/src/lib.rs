//! The RNTuple format and its reading engine.
//!
//! Implements reading of the RNTuple binary format up to version 1.0.2.1
//! (ROOT, `tree/ntuple/doc/BinaryFormatSpecification.md`):
//!
//! - [`spec`]: bytes to values: anchor, envelopes, frames, locators, header, footer, page lists (pure);
//! - [`schema`]: the [`Descriptor`](schema::Descriptor) of one ntuple, names of its fields, and what a read needs of it;
//! - [`read`]: [`Reader`](read::Reader), planning, fetching and decoding into final buffers;
//! - [`mod@array`]: the result, and its export to Arrow;
//! - [`rows`]: single values of a field as bytes, and back to arrays.
//!
//! It does not know where bytes come from (`femtobarn-io`) or what else is in a ROOT file (`femtobarn-rootfile`).

pub mod array;
pub mod encoding;
mod error;
pub mod fuzz;
pub mod read;
pub mod rows;
pub mod schema;
pub mod spec;
pub mod write;

pub use error::RNTupleError;
