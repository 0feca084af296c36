//! The writer of one ntuple.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::Schema;

use super::catalog::Catalog;
use super::fill::Fill;
use super::filling::FilledCluster;
use super::model::{FieldModel, Layout, unwritable};
use super::options::WriteOptions;
use super::payload::append_cluster;
use super::sink::PageSink;
use crate::RNTupleError;
use crate::spec::{Anchor, ExtraTypeInfo, LinkedAttributeSet, SchemaDescription};

/// Writes an ntuple to a file.
///
/// It is part of the file once [`finish`](Self::finish) and the file's own `finish` were called.
#[derive(Debug)]
pub struct NTupleWriter {
    catalog: Catalog,
    options: WriteOptions,
    layout: Arc<Layout>,
    /// Number of fields, columns and alias columns in the header; later ones are in the footer.
    in_header: (usize, usize, usize),
    fill: Fill,
    /// Number of elements of each column in earlier clusters.
    first_elements: Vec<u64>,
    /// The end of the last range of each attribute set.
    attribute_ends: Vec<u64>,
    /// Whether entries were lost because a write failed.
    failed: bool,
}

impl NTupleWriter {
    /// Begins an ntuple with these fields, in a directory of the file.
    ///
    /// # Errors
    /// If a field cannot be written, or writing the header fails.
    pub fn new(
        sink: &mut dyn PageSink,
        directory: usize,
        name: &str,
        fields: &[FieldModel],
        options: WriteOptions,
    ) -> Result<Self, RNTupleError> {
        let mut layout = Layout::default();
        layout.extend(fields, 0, options.compression)?;
        let catalog = Catalog::new(sink, (directory, name), &layout.schema, &options)?;
        let layout = Arc::new(layout);
        Ok(Self {
            catalog,
            in_header: extent(&layout.schema),
            first_elements: vec![0; layout.schema.columns.len()],
            fill: Fill::new(layout.clone(), &options),
            layout,
            attribute_ends: Vec::new(),
            failed: false,
            options,
        })
    }

    /// Begins an ntuple for record batches with this schema.
    ///
    /// # Errors
    /// If a type cannot be written, or writing the header fails.
    pub fn from_arrow(
        sink: &mut dyn PageSink,
        directory: usize,
        name: &str,
        schema: &Schema,
        options: WriteOptions,
    ) -> Result<Self, RNTupleError> {
        let fields: Vec<FieldModel> = schema
            .fields()
            .iter()
            .map(|field| FieldModel::from_arrow(field))
            .collect::<Result<_, _>>()?;
        Self::new(sink, directory, name, &fields, options)
    }

    /// Number of entries so far.
    pub fn n_entries(&self) -> u64 {
        self.catalog.n_entries() + self.fill.n_entries()
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.catalog.name()
    }

    pub(super) fn options(&self) -> &WriteOptions {
        &self.options
    }

    pub(super) fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// Adds entries. A batch that does not match the fields is rejected completely.
    ///
    /// # Errors
    /// If the batch lacks a field, or has an unknown field, a wrong type, or a null that is not allowed. If writing
    /// fails; the ntuple cannot be finished then.
    pub fn extend(
        &mut self,
        sink: &mut dyn PageSink,
        batch: &RecordBatch,
    ) -> Result<(), RNTupleError> {
        let checked = self.fill.check(batch)?;
        let mut fill = std::mem::take(&mut self.fill);
        let result = fill.add(batch, checked, &mut |fill| match fill.take()? {
            Some(cluster) => self.write_cluster(sink, cluster),
            None => Ok(()),
        });
        self.fill = fill;
        self.failed |= result.is_err();
        result
    }

    /// Adds fields (late model extension). In existing entries they are zero, empty or missing.
    ///
    /// # Errors
    /// If a name is taken or a field cannot be written (no field is added then), or if the current cluster cannot be
    /// written.
    pub fn add_fields(
        &mut self,
        sink: &mut dyn PageSink,
        fields: &[FieldModel],
    ) -> Result<(), RNTupleError> {
        // new columns begin with a cluster, as all readers support that
        self.commit_cluster(sink)?;
        let mut layout = (*self.layout).clone();
        layout.extend(fields, self.catalog.n_entries(), self.options.compression)?;
        let new = layout.schema.columns.iter().skip(self.first_elements.len());
        let first: Vec<u64> = new
            .map(|column| column.first_element.unsigned_abs())
            .collect();
        self.first_elements.extend(first);
        self.layout = Arc::new(layout);
        self.fill.grow(self.layout.clone());
        Ok(())
    }

    /// Writes the current cluster, if it has entries.
    ///
    /// # Errors
    /// If writing fails.
    pub fn commit_cluster(&mut self, sink: &mut dyn PageSink) -> Result<(), RNTupleError> {
        let taken = self.fill.take();
        self.failed |= taken.is_err();
        match taken? {
            Some(cluster) => self.write_cluster(sink, cluster),
            None => Ok(()),
        }
    }

    /// Appends a cluster.
    pub(super) fn write_cluster(
        &mut self,
        sink: &mut dyn PageSink,
        cluster: FilledCluster,
    ) -> Result<(), RNTupleError> {
        let columns = append_cluster(sink, &cluster, &self.options, &mut self.first_elements);
        self.failed |= columns.is_err();
        self.catalog.add_cluster(sink, cluster.n_entries, columns?)
    }

    /// Writes the page list of the clusters so far: later clusters belong to another cluster group.
    ///
    /// # Errors
    /// If writing fails.
    pub fn commit_cluster_group(&mut self, sink: &mut dyn PageSink) -> Result<(), RNTupleError> {
        self.catalog.commit_cluster_group(sink)
    }

    /// Adds type information, such as the streamer infos of classes that are stored as serialized objects.
    pub fn add_type_info(&mut self, info: ExtraTypeInfo) {
        self.catalog.extra_type_infos.push(info);
    }

    /// Links an attribute set that was written, whose ranges end at `end`.
    pub(super) fn link_attribute_set(&mut self, set: LinkedAttributeSet, end: u64) {
        self.catalog.attribute_sets.push(set);
        self.attribute_ends.push(end);
    }

    /// Whether there is an attribute set of this name.
    pub(super) fn has_attribute_set(&self, name: &str) -> bool {
        let mut sets = self.catalog.attribute_sets.iter();
        sets.any(|set| set.name == name)
    }

    /// Writes the remaining data, but not the anchor.
    pub(super) fn close(&mut self, sink: &mut dyn PageSink) -> Result<Anchor, RNTupleError> {
        if self.failed {
            let reason = "some entries could not be written, so it cannot be finished";
            return Err(unwritable(self.name(), reason));
        }
        self.commit_cluster(sink)?;
        self.check_attributes()?;
        let (_, extension) = self.layout.schema.split_at(self.in_header);
        self.catalog.close(sink, extension)
    }

    /// Checks that the ranges of attribute sets are within the entries.
    fn check_attributes(&self) -> Result<(), RNTupleError> {
        let n_entries = self.catalog.n_entries();
        let mut sets = self.catalog.attribute_sets.iter().zip(&self.attribute_ends);
        match sets.find(|(_, end)| **end > n_entries) {
            Some((set, end)) => {
                let reason = format!(
                    "it has ranges up to entry {end}, but {:?} has only {n_entries} entries",
                    self.name()
                );
                Err(unwritable(&set.name, reason))
            }
            None => Ok(()),
        }
    }

    /// Writes the remaining data, and the anchor, which adds the ntuple to the file. Returns the number of entries.
    ///
    /// # Errors
    /// If writing fails.
    pub fn finish(mut self, sink: &mut dyn PageSink) -> Result<u64, RNTupleError> {
        let anchor = self.close(sink)?;
        self.catalog.finish(sink, &anchor)
    }
}

fn extent(schema: &SchemaDescription) -> (usize, usize, usize) {
    (
        schema.fields.len(),
        schema.columns.len(),
        schema.alias_columns.len(),
    )
}
