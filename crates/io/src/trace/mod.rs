//! Traces: each operation on a file as one row, in the format of XRootD's `XrdClRecorder`.
//!
//! `row` is the format, without I/O; `writer` writes rows; the layer [`OriginSource`](crate::OriginSource) makes them.

mod row;
mod writer;

pub use row::{Access, Action, Operation};
pub(crate) use writer::{Recorded, Started, trace_of};
pub use writer::{end_record, record};
