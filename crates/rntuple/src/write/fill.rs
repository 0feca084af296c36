//! Fills a cluster: converts entries to pages, with all threads.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use femtobarn_io::on_threads;

use super::column::ColumnBuffer;
use super::conform::conform;
use super::filling::{FilledCluster, Filling};
use super::model::{Layout, Shape, unwritable};
use super::options::{PART, WriteOptions};
use super::order::ordered;
use super::values::{Columns, Values};
use crate::RNTupleError;

/// Number of bytes per additional thread: fewer are converted in less time than a thread takes to start.
const WORTH_THREAD: usize = 1 << 20;

/// A batch that matches the fields.
#[derive(Debug)]
pub(super) enum Checked {
    /// Its values.
    Whole(Vec<Values>),
    /// The batch is large, so values are converted for this number of entries at a time.
    Parts(usize),
}

/// How many of `most` threads `n_bytes` are worth.
fn worth(n_bytes: usize, most: usize) -> usize {
    (1 + n_bytes / WORTH_THREAD).min(most.max(1))
}

/// How many of `n` entries with `n_bytes` bytes have `wanted` bytes.
fn rows_of(wanted: usize, n_bytes: usize, n: usize) -> usize {
    (wanted / (n_bytes / n.max(1)).max(1)).max(1)
}

fn parts(batch: &RecordBatch, rows: usize) -> impl Iterator<Item = RecordBatch> {
    let n = batch.num_rows();
    let part = move |at: usize| batch.slice(at, rows.min(n - at));
    (0..n).step_by(rows.max(1)).map(part)
}

/// A cluster being filled. An ntuple may have several at the same time.
#[derive(Debug, Default)]
pub(super) struct Fill {
    layout: Arc<Layout>,
    filling: Filling,
}

impl Fill {
    /// An empty cluster.
    pub fn new(layout: Arc<Layout>, options: &WriteOptions) -> Self {
        let mut fill = Self {
            layout: Arc::default(),
            filling: Filling::new(options),
        };
        fill.grow(layout);
        fill
    }

    /// Adopts a layout with more fields; the cluster must be empty.
    pub fn grow(&mut self, layout: Arc<Layout>) {
        let mut types = HashMap::new();
        layout
            .tops
            .iter()
            .for_each(|(_, shape)| shape.element_types(&mut types));
        let new = layout
            .schema
            .columns
            .iter()
            .zip(&layout.settings)
            .enumerate();
        for (column, (record, settings)) in new.skip(self.filling.columns.len()) {
            let dtype = types.get(&column).copied();
            self.filling
                .columns
                .push(ColumnBuffer::new(record, dtype, *settings));
        }
        self.layout = layout;
    }

    /// Number of entries in the cluster.
    pub fn n_entries(&self) -> u64 {
        self.filling.n_entries
    }

    /// Checks a batch. Converted values are kept, unless they are large.
    pub fn check(&self, batch: &RecordBatch) -> Result<Checked, RNTupleError> {
        let rows = rows_of(PART, batch.get_array_memory_size(), batch.num_rows());
        if rows >= batch.num_rows() {
            return Ok(Checked::Whole(self.values(batch, 0)?));
        }
        (0..)
            .step_by(rows)
            .zip(parts(batch, rows))
            .try_for_each(|(first, part)| self.values(&part, first).map(drop))?;
        Ok(Checked::Parts(rows))
    }

    fn values(&self, batch: &RecordBatch, first: usize) -> Result<Vec<Values>, RNTupleError> {
        values_of(&self.layout, batch, first, self.filling.options.threads)
    }

    /// Adds a checked batch. Calls `full` to take the cluster when it has its size.
    pub fn add(
        &mut self,
        batch: &RecordBatch,
        checked: Checked,
        full: &mut dyn FnMut(&mut Self) -> Result<(), RNTupleError>,
    ) -> Result<(), RNTupleError> {
        match checked {
            Checked::Whole(values) => self.add_values(&values, batch.num_rows(), full),
            Checked::Parts(rows) => parts(batch, rows).try_for_each(|part| {
                let values = self.values(&part, 0)?;
                self.add_values(&values, part.num_rows(), full)
            }),
        }
    }

    fn add_values(
        &mut self,
        values: &[Values],
        n: usize,
        full: &mut dyn FnMut(&mut Self) -> Result<(), RNTupleError>,
    ) -> Result<(), RNTupleError> {
        let n_bytes = |from, to| -> usize { values.iter().map(|v| v.n_bytes(from, to)).sum() };
        let mut at = 0;
        while at < n {
            let most = self.filling.room();
            let mut end = n.min(at + rows_of(most, n_bytes(at, n), n - at));
            // entries may have very different sizes
            while end > at + 1 && n_bytes(at, end) > 2 * most {
                end = at + (end - at) / 2;
            }
            self.add_slice(values, at..end)?;
            at = end;
            if self.filling.is_full() {
                full(self)?;
            }
        }
        Ok(())
    }

    fn add_slice(&mut self, values: &[Values], rows: Range<usize>) -> Result<(), RNTupleError> {
        let wrong = || RNTupleError::internal("columns of other fields");
        let before = self.filling.n_waiting();
        let mut rest = self.filling.columns.as_mut_slice();
        let mut first = 0;
        let mut tasks = Vec::with_capacity(values.len());
        let layout = &self.layout;
        for (((_, shape), &end), values) in layout.tops.iter().zip(&layout.column_ends).zip(values)
        {
            let (own, others) = rest.split_at_mut_checked(end - first).ok_or_else(wrong)?;
            let columns = Columns {
                first,
                columns: own,
                blocks: &self.filling.blocks,
            };
            tasks.push((shape, values, columns));
            (rest, first) = (others, end);
        }
        let n_bytes = tasks
            .iter()
            .map(|(_, values, _)| values.n_bytes(rows.start, rows.end))
            .sum();
        let mut workers = vec![(); worth(n_bytes, self.filling.options.threads)];
        on_threads(&mut workers, tasks, |(), (shape, values, mut columns)| {
            values.append(shape, rows.start, rows.end, &mut columns)
        })?;
        self.filling.added(rows.len() as u64, before)
    }

    /// Takes the cluster; none if it has no entries.
    pub fn take(&mut self) -> Result<Option<FilledCluster>, RNTupleError> {
        self.filling.take()
    }
}

/// Converts the columns of a batch, or of a part that begins at `first`, to values of all fields, with so many threads.
pub(super) fn values_of(
    layout: &Layout,
    batch: &RecordBatch,
    first: usize,
    threads: usize,
) -> Result<Vec<Values>, RNTupleError> {
    let schema = batch.schema();
    let names = schema.fields().iter().map(|field| field.name().as_str());
    // if two columns have the same name, the first is used
    let given: HashMap<&str, &ArrayRef> = names.clone().zip(batch.columns()).rev().collect();
    let values = |(name, shape): &(String, Shape)| {
        let column = given.get(name.as_str()).ok_or_else(|| {
            let names: Vec<&str> = names.clone().take(20).collect();
            unwritable(
                name,
                format!("the batch has no such column; it has {}", names.join(", ")),
            )
        })?;
        let values = conform(shape, column, name)?;
        ordered(values, shape, name, &|entry| first + entry)
    };
    let mut workers = vec![(); worth(batch.get_array_memory_size(), threads)];
    let tasks = layout.tops.iter().collect();
    let out = on_threads(&mut workers, tasks, |(), top| values(top))?;
    if schema.fields().len() > out.len() {
        let known = |name: &str| layout.tops.iter().any(|(top, _)| top == name);
        let name = names.clone().find(|name| !known(name)).unwrap_or("");
        let reason = if layout.names.contains(name) {
            "it is a projected field, and gets its values from another field: leave it out of the batch"
        } else {
            "the batch has this column, but the ntuple has no such field: add the field first, or leave out the column"
        };
        return Err(unwritable(name, reason));
    }
    Ok(out)
}
