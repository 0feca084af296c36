//! The RNTuple format: reading and writing.
//!
//! Implements the RNTuple binary format up to version 1.0.2.1 (ROOT, `tree/ntuple/doc/BinaryFormatSpecification.md`):
//!
//! - [`spec`]: parses anchor, envelopes, frames, locators, header, footer and page lists (pure);
//! - [`schema`]: the [`Descriptor`](schema::Descriptor) of an ntuple, field names, and the schema of a read;
//! - [`read`]: [`Reader`](read::Reader), planning, fetching, and decoding into final buffers;
//! - [`mod@write`]: models, pages, clusters, merging;
//! - [`mod@array`]: the result of a read, and its export to Arrow;
//! - [`rows`]: single values of a field as bytes, and back to arrays.
//!
//! This crate does not know where bytes come from (`femtobarn-io`), or what else is in a ROOT file
//! (`femtobarn-rootfile`).

pub mod array;
pub mod encoding;
mod error;
pub mod read;
pub mod rows;
pub mod schema;
pub mod spec;
pub mod write;

pub use error::RNTupleError;
