//! Several threads that fill one ntuple.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;

use super::fill::Fill;
use super::model::{FieldModel, unwritable};
use super::ntuple::NTupleWriter;
use super::options::WriteOptions;
use super::sink::PageSink;
use crate::RNTupleError;

/// Writes an ntuple that several threads fill, each with its own clusters ([`FillContext`]), like ROOT's
/// `RNTupleParallelWriter`.
///
/// Clusters are written in the order of their completion: within a context the order of entries is kept, between
/// contexts it is undefined.
#[derive(Debug)]
pub struct ParallelWriter<'f> {
    shared: Mutex<(NTupleWriter, &'f mut dyn PageSink)>,
    /// Number of entries in contexts that were not flushed.
    unwritten: AtomicU64,
}

/// The part of the writer for one thread.
#[derive(Debug)]
pub struct FillContext<'w, 'f> {
    writer: &'w ParallelWriter<'f>,
    fill: Fill,
}

impl<'f> ParallelWriter<'f> {
    /// Begins an ntuple with these fields. A context uses one thread, whatever the options say.
    ///
    /// # Errors
    /// As [`NTupleWriter::new`].
    pub fn new(
        sink: &'f mut dyn PageSink,
        directory: usize,
        name: &str,
        fields: &[FieldModel],
        options: WriteOptions,
    ) -> Result<Self, RNTupleError> {
        let options = WriteOptions {
            threads: 1,
            ..options
        };
        let writer = NTupleWriter::new(sink, directory, name, fields, options)?;
        Ok(Self {
            shared: Mutex::new((writer, sink)),
            unwritten: AtomicU64::new(0),
        })
    }

    /// Creates a context for one thread.
    pub fn context(&self) -> FillContext<'_, 'f> {
        let shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let fill = Fill::new(Arc::clone(shared.0.layout()), shared.0.options());
        FillContext { writer: self, fill }
    }

    /// Writes the remaining data and the anchor. Returns the number of entries.
    ///
    /// # Errors
    /// If a context was dropped with entries that were not flushed, or writing fails.
    pub fn finish(self) -> Result<u64, RNTupleError> {
        let (writer, sink) = self
            .shared
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        match self.unwritten.into_inner() {
            0 => writer.finish(sink),
            n => Err(unwritable(
                writer.name(),
                format!("{n} entries are in fill contexts that were never flushed"),
            )),
        }
    }
}

impl FillContext<'_, '_> {
    /// Adds entries, and compresses them on this thread.
    ///
    /// # Errors
    /// As [`NTupleWriter::extend`].
    pub fn extend(&mut self, batch: &RecordBatch) -> Result<(), RNTupleError> {
        let checked = self.fill.check(batch)?;
        let writer = self.writer;
        writer
            .unwritten
            .fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
        self.fill
            .add(batch, checked, &mut |fill| writer.commit(fill))
    }

    /// Writes the current cluster of this context, if it has entries. Must be called at the end.
    ///
    /// # Errors
    /// If writing fails.
    pub fn flush(&mut self) -> Result<(), RNTupleError> {
        self.writer.commit(&mut self.fill)
    }
}

impl ParallelWriter<'_> {
    fn commit(&self, fill: &mut Fill) -> Result<(), RNTupleError> {
        // expensive work is done before the lock is taken
        let Some(cluster) = fill.take()? else {
            return Ok(());
        };
        let n_entries = cluster.n_entries;
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let (writer, sink) = &mut *shared;
        writer.write_cluster(&mut **sink, cluster)?;
        self.unwritten.fetch_sub(n_entries, Ordering::Relaxed);
        Ok(())
    }
}
