//! Digests of columns, which show that two ntuples have equal data, independent of pages, clusters and batches.

use std::sync::Arc;

use arrow_array::RecordBatch;
use xxhash_rust::xxh3::Xxh3;

use super::fill::values_of;
use super::model::{FieldModel, Layout, Shape};
use super::options::WriteOptions;
use super::values::{Ends, Values};
use crate::RNTupleError;
use crate::spec::{ColumnRecord, ColumnType};

/// The digest of one column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnDigest {
    /// The field of the column: names from the top-level field down, separated by dots.
    pub field: String,
    /// `values`, `lengths` of lists and strings, or `alternatives` of variants.
    pub what: &'static str,
    /// Number of elements.
    pub n_elements: u64,
    /// XXH3-128 of all elements: little-endian values, one byte per boolean, 8 per length, one per alternative (counted
    /// from 1, 0 for none).
    pub xxh3_128: u128,
}

/// Computes the digests of all columns from batches of entries.
#[derive(Debug)]
pub struct Digest {
    layout: Arc<Layout>,
    columns: Vec<Column>,
}

struct Column {
    hasher: Box<Xxh3>,
    n_elements: u64,
    what: &'static str,
}

impl std::fmt::Debug for Column {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Column")
            .field("n_elements", &self.n_elements)
            .finish_non_exhaustive()
    }
}

impl Digest {
    /// A digest of no entries. Projected fields have no columns.
    ///
    /// # Errors
    /// If a field cannot be written.
    pub fn new(fields: &[FieldModel]) -> Result<Self, RNTupleError> {
        let mut layout = Layout::default();
        layout.any_name = true;
        layout.extend(fields, 0, WriteOptions::default().compression)?;
        let column = |record: &ColumnRecord| Column {
            hasher: Box::new(Xxh3::new()),
            n_elements: 0,
            what: match record.column_type {
                ColumnType::Index64 | ColumnType::SplitIndex64 => "lengths",
                ColumnType::Switch => "alternatives",
                _ => "values",
            },
        };
        Ok(Self {
            columns: layout.schema.columns.iter().map(column).collect(),
            layout: Arc::new(layout),
        })
    }

    /// Adds entries.
    ///
    /// # Errors
    /// If the batch does not match the fields.
    pub fn add(&mut self, batch: &RecordBatch) -> Result<(), RNTupleError> {
        let values = values_of(&self.layout, batch, 0, 1)?;
        for ((_, shape), values) in self.layout.tops.iter().zip(&values) {
            add(&mut self.columns, values, shape, 0, batch.num_rows());
        }
        Ok(())
    }

    /// The digests, in the order of the columns.
    pub fn finish(self) -> Vec<ColumnDigest> {
        let schema = &self.layout.schema;
        let records = schema.columns.iter().zip(self.columns);
        let name = |mut id: u32| {
            let mut names = Vec::new();
            while let Some(field) = schema.fields.get(id as usize) {
                names.push(field.name.as_str());
                if field.parent_id == id {
                    break;
                }
                id = field.parent_id;
            }
            names.reverse();
            names.join(".")
        };
        records
            .map(|(record, column)| ColumnDigest {
                field: name(record.field_id),
                what: column.what,
                n_elements: column.n_elements,
                xxh3_128: column.hasher.digest128(),
            })
            .collect()
    }
}

impl Column {
    fn add(&mut self, n: usize, bytes: &[u8]) {
        self.n_elements += n as u64;
        self.hasher.update(bytes);
    }
}

/// Adds the values `from..to`.
fn add(columns: &mut [Column], values: &Values, shape: &Shape, from: usize, to: usize) {
    let n = to - from;
    match (values, shape) {
        (Values::Leaf { bytes, size }, Shape::Leaf { column, .. }) => {
            if let Some(column) = columns.get_mut(*column) {
                column.add(n, bytes.get(from * size..to * size).unwrap_or_default());
            }
        }
        (Values::Bools(bools), Shape::Leaf { column, .. }) => {
            let bytes: Vec<u8> = (from..to).map(|i| u8::from(bools.value(i))).collect();
            if let Some(column) = columns.get_mut(*column) {
                column.add(n, &bytes);
            }
        }
        (
            Values::List { ends, item },
            Shape::List {
                index, item: below, ..
            }
            | Shape::Optional {
                index, item: below, ..
            },
        ) => {
            let (lengths, first, last) = lengths(ends, from, to);
            if let Some(column) = columns.get_mut(*index) {
                column.add(n, bytemuck::cast_slice(&lengths));
            }
            add(columns, item, below, first, last);
        }
        (Values::Array { size, item }, Shape::Array { item: below, .. }) => {
            add(columns, item, below, from * size, to * size);
        }
        (
            Values::Record(members),
            Shape::Record {
                members: shapes, ..
            },
        ) => {
            for (member, (_, shape)) in members.iter().zip(shapes) {
                add(columns, member, shape, from, to);
            }
        }
        (
            Values::Variant { tags, alternatives },
            Shape::Variant {
                switch,
                alternatives: shapes,
            },
        ) => {
            // batches are added completely, so all values of the alternatives belong to them
            if let Some(column) = columns.get_mut(*switch) {
                column.add(n, tags.get(from..to).unwrap_or_default());
            }
            for ((tag, values), shape) in (1u8..).zip(alternatives).zip(shapes) {
                let count = |tags: &[u8]| tags.iter().filter(|&&t| t == tag).count();
                let first = count(tags.get(..from).unwrap_or_default());
                let last = first + count(tags.get(from..to).unwrap_or_default());
                add(columns, values, shape, first, last);
            }
        }
        _ => {}
    }
}

/// Lengths of lists, with the start of the first and the end of the last.
fn lengths(ends: &Ends, from: usize, to: usize) -> (Vec<u64>, usize, usize) {
    let mut lengths = Vec::with_capacity(to - from);
    let mut previous = ends.at(from);
    let first = previous;
    for i in from + 1..=to {
        let end = ends.at(i);
        lengths.push((end - previous) as u64);
        previous = end;
    }
    (lengths, first, previous)
}
