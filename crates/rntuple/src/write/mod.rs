//! Writing: converts record batches to pages, clusters, and the metadata that describe them.
//!
//! A model describes the fields. Each batch is checked completely; then its values wait in columns until they fill a
//! page. Pages are encoded and compressed with all threads, and wait until the cluster has its size. A cluster is one
//! record of the file.
//!
//! Writes version 1.0.0.0 of the RNTuple binary format (ROOT, `tree/ntuple/doc/BinaryFormatSpecification.md`), and
//! 1.0.1.0 if attribute sets require it.

mod anchor_envelopes;
mod attributes;
mod catalog;
mod choose;
mod column;
mod conform;
mod digest;
mod file_sink;
mod fill;
mod filling;
mod members;
mod merge;
mod model;
mod ntuple;
mod numbers;
mod object_sink;
mod object_sketch;
mod object_sweep;
mod options;
mod order;
mod page_trial;
mod parallel;
mod payload;
mod sink;
#[cfg(test)]
mod tests;
mod values;
mod waiting;

pub use attributes::AttributeSetWriter;
pub(crate) use conform::conform;
pub use digest::{ColumnDigest, Digest};
pub use merge::{
    Choose, Encodings, JoinedNTuple, Levels, MergeOptions, Merged, MergedSchema, Mode,
    NTupleMerger, Rebuild, StoredReals, hull, join_columns, steps,
};
pub use model::{
    FieldKind, FieldModel, LeafModel, Nulls, SYNONYMS, StoredAs, all_or_none, arrow_type_name,
    is_same_type, normal_type_name,
};
pub(crate) use model::{Layout, Shape, unwritable};
pub use ntuple::NTupleWriter;
pub use object_sink::{ObjectSink, ObjectsWritten, Preview};
pub use object_sketch::ObjectSketch;
pub use object_sweep::{ObjectsLeft, delete_objects, sweep_objects};
pub use options::{ObjectSize, WriteOptions};
pub(crate) use order::ordered;
pub use page_trial::PageTrial;
pub use parallel::{FillContext, ParallelWriter, Staged, StagingFill};
pub use sink::{Existing, PageSink, Renumbered, SinkPlace};
pub(crate) use values::Values;
