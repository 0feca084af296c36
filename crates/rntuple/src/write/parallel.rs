//! Several threads that fill one ntuple: with clusters in the order of their completion, or in the order in which the
//! caller adds them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;

use super::fill::Fill;
use super::filling::FilledCluster;
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

/// Fills clusters of an ntuple on one thread, apart from its writer, which adds them when and in the order that its caller
/// decides, like ROOT's staged clusters.
#[derive(Debug)]
pub struct StagingFill {
    fill: Fill,
    full: Vec<FilledCluster>,
}

/// Clusters that were filled, encoded and compressed, and are not part of the ntuple yet.
#[derive(Debug, Default)]
pub struct Staged {
    clusters: Vec<FilledCluster>,
}

impl Staged {
    /// Number of entries.
    pub fn n_entries(&self) -> u64 {
        let clusters = self.clusters.iter();
        clusters.map(|cluster| cluster.n_entries).sum()
    }
}

impl StagingFill {
    /// Adds entries, and compresses them on this thread.
    ///
    /// # Errors
    /// As [`NTupleWriter::extend`].
    pub fn extend(&mut self, batch: &RecordBatch) -> Result<(), RNTupleError> {
        let checked = self.fill.check(batch)?;
        let full = &mut self.full;
        self.fill.add(batch, checked, &mut |fill| {
            full.extend(fill.take()?);
            Ok(())
        })
    }

    /// Number of entries since the last [`stage`](Self::stage).
    pub fn n_entries(&self) -> u64 {
        let full = self.full.iter();
        full.map(|cluster| cluster.n_entries).sum::<u64>() + self.fill.n_entries()
    }

    /// Takes all entries, as complete clusters.
    ///
    /// # Errors
    /// If they cannot be compressed.
    pub fn stage(&mut self) -> Result<Staged, RNTupleError> {
        self.full.extend(self.fill.take()?);
        Ok(Staged {
            clusters: std::mem::take(&mut self.full),
        })
    }
}

impl NTupleWriter {
    /// Begins to fill clusters on another thread. A `StagingFill` has the fields that the writer has now.
    pub fn staging_fill(&self) -> StagingFill {
        let options = WriteOptions {
            threads: 1,
            ..self.options().clone()
        };
        StagingFill {
            fill: Fill::new(Arc::clone(self.layout()), &options),
            full: Vec::new(),
        }
    }

    /// Adds clusters after all entries so far; returns the number of their first entry.
    ///
    /// # Errors
    /// If fields were added since they were filled, or writing fails.
    pub fn add_staged(
        &mut self,
        sink: &mut dyn PageSink,
        staged: Staged,
    ) -> Result<u64, RNTupleError> {
        let n_columns = self.layout().schema.columns.len();
        let is_other = |cluster: &FilledCluster| cluster.columns.len() != n_columns;
        if staged.clusters.iter().any(is_other) {
            let reason = "fields were added after these clusters were begun: add the clusters before the fields";
            return Err(unwritable(self.name(), reason));
        }
        self.commit_cluster(sink)?;
        let first = self.n_entries();
        for cluster in staged.clusters {
            self.write_cluster(sink, cluster)?;
        }
        Ok(first)
    }
}
