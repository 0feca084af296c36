//! Filling a cluster: entries to pages, on all threads.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use femtobarn_io::on_threads;

use super::column::{ColumnBuffer, SealedPage, Sealer};
use super::conform::conform;
use super::model::{Layout, Shape, unwritable};
use super::options::{PART, SLICE, WriteOptions};
use super::order::ordered;
use super::values::{Columns, Values};
use super::waiting::Blocks;
use crate::RNTupleError;

/// How well data is expected to compress before any has been.
const EXPECTED_RATIO: f64 = 0.5;

/// The share of its size with which a cluster is full.
const NEARLY: f64 = 0.98;

/// Bytes of elements that are taken at once at least, but for single entries.
const LEAST_SLICE: usize = 4096;

/// Bytes of elements that are worth another thread: taking them apart takes longer than starting it.
const WORTH_THREAD: usize = 1 << 20;

/// A batch that fits the fields.
#[derive(Debug)]
pub(super) enum Checked {
    /// Its values.
    Whole(Vec<Values>),
    /// It is large: values are made of so many entries at a time.
    Parts(usize),
}

/// How many of `most` threads `n_bytes` are worth.
fn worth(n_bytes: usize, most: usize) -> usize {
    (1 + n_bytes / WORTH_THREAD).min(most.max(1))
}

/// How many of `n` entries of `n_bytes` bytes have `wanted` bytes.
fn rows_of(wanted: usize, n_bytes: usize, n: usize) -> usize {
    (wanted / (n_bytes / n.max(1)).max(1)).max(1)
}

fn parts(batch: &RecordBatch, rows: usize) -> impl Iterator<Item = RecordBatch> {
    let n = batch.num_rows();
    let part = move |at: usize| batch.slice(at, rows.min(n - at));
    (0..n).step_by(rows.max(1)).map(part)
}

/// A cluster that is being filled. Several may be filled at the same time, for one ntuple.
#[derive(Debug, Default)]
pub(super) struct Fill {
    layout: Arc<Layout>,
    options: WriteOptions,
    columns: Vec<ColumnBuffer>,
    blocks: Blocks,
    sealers: Vec<Sealer>,
    n_entries: u64,
    /// Bytes of all elements of this cluster.
    n_bytes: u64,
    /// Bytes of elements that became pages, and of these pages, of all clusters so far.
    sealed: (u64, u64),
    /// Bytes of the pages of this cluster.
    n_sealed: u64,
}

/// A cluster that is ready to be written.
#[derive(Debug)]
pub(super) struct FilledCluster {
    pub n_entries: u64,
    pub columns: Vec<FilledColumn>,
}

/// A column of such a cluster.
#[derive(Debug)]
pub(super) struct FilledColumn {
    pub n_elements: u64,
    pub settings: u32,
    pub pages: Vec<SealedPage>,
}

impl Fill {
    /// An empty cluster.
    pub fn new(layout: Arc<Layout>, options: &WriteOptions) -> Self {
        let mut fill = Self {
            layout: Arc::default(),
            options: options.clone(),
            columns: Vec::new(),
            blocks: Blocks::default(),
            sealers: (0..options.threads.max(1))
                .map(|_| Sealer::default())
                .collect(),
            n_entries: 0,
            n_bytes: 0,
            sealed: (0, 0),
            n_sealed: 0,
        };
        fill.grow(layout);
        fill
    }

    /// Takes a layout with more fields; the cluster must be empty.
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
        for (column, (record, settings)) in new.skip(self.columns.len()) {
            let dtype = types.get(&column).copied();
            self.columns
                .push(ColumnBuffer::new(record, dtype, *settings));
        }
        self.layout = layout;
    }

    /// Number of entries in the cluster.
    pub fn n_entries(&self) -> u64 {
        self.n_entries
    }

    /// Checks a batch. What is converted for it is kept, unless it is a lot.
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
        values_of(&self.layout, batch, first, self.options.threads)
    }

    /// Adds a checked batch; calls `full` when the cluster has its size, to take it away.
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
            let most = self.room();
            let mut end = n.min(at + rows_of(most, n_bytes(at, n), n - at));
            // entries may be of very different sizes
            while end > at + 1 && n_bytes(at, end) > 2 * most {
                end = at + (end - at) / 2;
            }
            self.add_slice(values, at..end)?;
            at = end;
            if self.is_full() {
                full(self)?;
            }
        }
        Ok(())
    }

    fn add_slice(&mut self, values: &[Values], rows: Range<usize>) -> Result<(), RNTupleError> {
        let wrong = || RNTupleError::internal("columns of other fields");
        let before = self.n_waiting();
        let mut rest = self.columns.as_mut_slice();
        let mut first = 0;
        let mut tasks = Vec::with_capacity(values.len());
        let layout = &self.layout;
        for (((_, shape), &end), values) in layout.tops.iter().zip(&layout.column_ends).zip(values)
        {
            let (own, others) = rest.split_at_mut_checked(end - first).ok_or_else(wrong)?;
            let columns = Columns {
                first,
                columns: own,
                blocks: &self.blocks,
            };
            tasks.push((shape, values, columns));
            (rest, first) = (others, end);
        }
        let n_bytes = tasks
            .iter()
            .map(|(_, values, _)| values.n_bytes(rows.start, rows.end))
            .sum();
        let mut workers = vec![(); worth(n_bytes, self.options.threads)];
        on_threads(&mut workers, tasks, |(), (shape, values, mut columns)| {
            values.append(shape, rows.start, rows.end, &mut columns)
        })?;
        self.n_bytes += self.n_waiting() - before;
        self.n_entries += rows.len() as u64;
        self.seal(&|_| false)?;
        self.make_room()
    }

    fn n_waiting(&self) -> u64 {
        self.columns
            .iter()
            .map(|column| column.n_waiting() as u64)
            .sum()
    }

    /// Where too much memory waits, the columns with the most of it get pages that are not full.
    fn make_room(&mut self) -> Result<(), RNTupleError> {
        let mut sizes: Vec<usize> = self.columns.iter().map(ColumnBuffer::n_held).collect();
        let mut held: u64 = sizes.iter().map(|&size| size as u64).sum();
        if held <= self.options.page_buffer {
            return Ok(());
        }
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        let mut least = usize::MAX;
        for size in sizes {
            if held <= self.options.page_buffer / 2 {
                break;
            }
            held -= size as u64;
            least = size.max(1);
        }
        self.seal(&|column| column.n_held() >= least)
    }

    /// Encodes and compresses what is ready, and all of the columns that `all` names, on all threads.
    fn seal(&mut self, all: &dyn Fn(&ColumnBuffer) -> bool) -> Result<(), RNTupleError> {
        let page_bytes = self.options.page_bytes;
        let pages = |(at, column): (usize, &ColumnBuffer)| {
            let pages = column.pages(page_bytes, all(column));
            pages.map(move |page| (at, page)).collect::<Vec<_>>()
        };
        let mut tasks: Vec<(usize, Range<usize>)> =
            self.columns.iter().enumerate().flat_map(pages).collect();
        if tasks.is_empty() {
            return Ok(());
        }
        // the largest first, so that all threads end at about the same time
        tasks.sort_by_key(|(_, page)| std::cmp::Reverse(page.len()));
        let sealed = self.seal_pages(&tasks)?;
        let mut by_column: HashMap<usize, Vec<(usize, SealedPage)>> = HashMap::new();
        for ((at, page), sealed) in tasks.into_iter().zip(sealed) {
            by_column.entry(at).or_default().push((page.start, sealed));
        }
        for (at, mut pages) in by_column {
            let Some(column) = self.columns.get_mut(at) else {
                continue;
            };
            pages.sort_by_key(|(start, _)| *start);
            let before = column.n_waiting();
            let n_elements = pages.iter().map(|(_, page)| page.n_elements as usize).sum();
            column.drop_first(&self.blocks, n_elements);
            let n_bytes: usize = pages.iter().map(|(_, page)| page.bytes.len()).sum();
            self.n_sealed += n_bytes as u64;
            self.sealed.0 += (before - column.n_waiting()) as u64;
            self.sealed.1 += n_bytes as u64;
            column
                .sealed
                .extend(pages.into_iter().map(|(_, page)| page));
        }
        Ok(())
    }

    /// Seals pages, on as many threads as there are sealers; they come in the order of the tasks.
    fn seal_pages(
        &mut self,
        tasks: &[(usize, Range<usize>)],
    ) -> Result<Vec<SealedPage>, RNTupleError> {
        let (columns, checksums) = (&self.columns, self.options.page_checksums);
        let seal = |sealer: &mut Sealer, (column, page): &(usize, Range<usize>)| {
            let column = columns.get(*column);
            let column = column.ok_or_else(|| RNTupleError::internal("no such column"))?;
            sealer.seal(column, page, checksums)
        };
        on_threads(&mut self.sealers, tasks.iter().collect(), seal)
    }

    /// Whether the cluster has about its size.
    fn is_full(&self) -> bool {
        let left = self
            .options
            .cluster_bytes_uncompressed
            .saturating_sub(self.n_bytes);
        self.left().min(left) == 0
    }

    /// Bytes of elements to take at once: no more than the cluster is short of, but some.
    fn room(&self) -> usize {
        let left = self
            .options
            .cluster_bytes_uncompressed
            .saturating_sub(self.n_bytes);
        usize::try_from(self.left().min(left)).map_or(SLICE, |room| room.clamp(LEAST_SLICE, SLICE))
    }

    /// Bytes of elements that the cluster is short of, by how well the others were compressed.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate"
    )]
    fn left(&self) -> u64 {
        let ratio = match self.sealed {
            (0, _) => EXPECTED_RATIO,
            (before, after) => after as f64 / before as f64,
        };
        let expected = self.n_sealed as f64 + ratio * self.n_waiting() as f64;
        let wanted = self.options.cluster_bytes as f64;
        // what is nearly there is not worth another slice
        if expected > NEARLY * wanted {
            return 0;
        }
        ((wanted - expected) / ratio.max(0.001)) as u64
    }

    /// Takes what is there as a cluster; none if there are no entries.
    pub fn take(&mut self) -> Result<Option<FilledCluster>, RNTupleError> {
        if self.n_entries == 0 {
            return Ok(None);
        }
        self.seal(&|_| true)?;
        let columns = self.columns.iter_mut().map(|column| {
            let settings = column.settings;
            let (n_elements, pages) = column.finish();
            FilledColumn {
                n_elements,
                settings,
                pages,
            }
        });
        let columns = columns.collect();
        let n_entries = std::mem::take(&mut self.n_entries);
        (self.n_bytes, self.n_sealed) = (0, 0);
        Ok(Some(FilledCluster { n_entries, columns }))
    }
}

/// The values of all fields from the columns of a batch, or of its part that begins at `first`; made on so many threads.
pub(super) fn values_of(
    layout: &Layout,
    batch: &RecordBatch,
    first: usize,
    threads: usize,
) -> Result<Vec<Values>, RNTupleError> {
    let schema = batch.schema();
    let names = schema.fields().iter().map(|field| field.name().as_str());
    // of two columns of a name it is the first one
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
            "the batch has it, and it is a view, which shows what another field is given: leave it out"
        } else {
            "the batch has it, and the ntuple has not: add the field first, or leave it out"
        };
        return Err(unwritable(name, reason));
    }
    Ok(out)
}
