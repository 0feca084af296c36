//! The writer of one ntuple.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use femtobarn_rootfile::{ElementKind, FileWriter, StreamerElement, StreamerInfo};

use super::column::SealedPage;
use super::fill::{Fill, FilledCluster};
use super::model::{FieldModel, Layout, check_name, unwritable};
use super::options::{PAGE_LIST, WriteOptions};
use super::payload::{append_envelope, append_pages};
use crate::RNTupleError;
use crate::spec::{
    Anchor, ClusterGroup, ClusterSummary, EnvelopeLink, ExtraTypeInfo, LinkedAttributeSet, Locator,
    LocatorKind, Page, SchemaDescription, WrittenCluster, WrittenColumn, write as spec,
};

/// The class of ntuples in files.
const CLASS: &str = "ROOT::RNTuple";

/// Least MaxKeySize that readers take, and the largest that records can have.
const SMALLEST_KEY: u64 = 64;
const LARGEST_KEY: u64 = 2_000_000_000;

/// An ntuple that is being written into a file.
///
/// It is part of the file once [`finish`](Self::finish) was called, and the file's own `finish`.
#[derive(Debug)]
pub struct NTupleWriter {
    name: String,
    directory: usize,
    options: WriteOptions,
    layout: Arc<Layout>,
    /// Fields, columns and aliases that the header has; what was added later goes to the footer.
    in_header: (usize, usize, usize),
    fill: Fill,
    /// Elements of each column in earlier clusters.
    first_elements: Vec<u64>,
    header: EnvelopeLink,
    header_checksum: u64,
    clusters: Vec<WrittenCluster>,
    groups: Vec<ClusterGroup>,
    attribute_sets: Vec<LinkedAttributeSet>,
    /// For each, the entry behind the last that it says something of.
    attribute_ends: Vec<u64>,
    extra_type_infos: Vec<ExtraTypeInfo>,
    /// Entries of the clusters that were written.
    n_entries: u64,
    /// Entries were lost, because writing them failed.
    failed: bool,
}

impl NTupleWriter {
    /// Begins an ntuple with these fields, in a directory of the file.
    ///
    /// # Errors
    /// If a field cannot be written, or writing the header fails.
    pub fn new(
        file: &mut FileWriter,
        directory: usize,
        name: &str,
        fields: &[FieldModel],
        options: WriteOptions,
    ) -> Result<Self, RNTupleError> {
        check_name(name)?;
        if name.contains(';') {
            let reason =
                "';' stands before the number of a cycle, which every ntuple gets by itself";
            return Err(unwritable(name, reason));
        }
        if !(SMALLEST_KEY..=LARGEST_KEY).contains(&options.max_key_size) {
            let what = format!(
                "max_key_size is {}, not {SMALLEST_KEY} to {LARGEST_KEY}",
                options.max_key_size
            );
            return Err(unwritable(name, what));
        }
        file.check_name(directory, CLASS, name)?;
        let mut layout = Layout::default();
        layout.extend(fields, 0, options.compression)?;
        let writer = concat!("femtobarn ", env!("CARGO_PKG_VERSION"));
        let (header, header_checksum) =
            spec::header(name, &options.description, writer, &layout.schema);
        let header = append_envelope(file, &header, &options)?;
        let layout = Arc::new(layout);
        Ok(Self {
            name: name.to_owned(),
            directory,
            in_header: extent(&layout.schema),
            first_elements: vec![0; layout.schema.columns.len()],
            fill: Fill::new(layout.clone(), &options),
            layout,
            header,
            header_checksum,
            clusters: Vec::new(),
            groups: Vec::new(),
            attribute_sets: Vec::new(),
            attribute_ends: Vec::new(),
            extra_type_infos: Vec::new(),
            n_entries: 0,
            failed: false,
            options,
        })
    }

    /// Begins an ntuple of record batches with this schema.
    ///
    /// # Errors
    /// If a type cannot be written, or writing the header fails.
    pub fn from_arrow(
        file: &mut FileWriter,
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
        Self::new(file, directory, name, &fields, options)
    }

    /// Number of entries so far.
    pub fn n_entries(&self) -> u64 {
        self.n_entries + self.fill.n_entries()
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn options(&self) -> &WriteOptions {
        &self.options
    }

    pub(super) fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// Adds entries. A batch that does not fit the fields is refused as a whole.
    ///
    /// # Errors
    /// If the batch lacks a field, has another one or another type, or a missing value where there should be none; or
    /// writing fails, after which the ntuple cannot be finished.
    pub fn extend(
        &mut self,
        file: &mut FileWriter,
        batch: &RecordBatch,
    ) -> Result<(), RNTupleError> {
        let checked = self.fill.check(batch)?;
        let mut fill = std::mem::take(&mut self.fill);
        let result = fill.add(batch, checked, &mut |fill| match fill.take()? {
            Some(cluster) => self.write_cluster(file, cluster),
            None => Ok(()),
        });
        self.fill = fill;
        self.failed |= result.is_err();
        result
    }

    /// Adds fields (late model extension). In the entries so far they are zero, empty or missing.
    ///
    /// # Errors
    /// If a name is taken or a field cannot be written: nothing is added then. If the cluster so far cannot be written.
    pub fn add_fields(
        &mut self,
        file: &mut FileWriter,
        fields: &[FieldModel],
    ) -> Result<(), RNTupleError> {
        // the new columns begin with a cluster, which is what all readers understand
        self.commit_cluster(file)?;
        let mut layout = (*self.layout).clone();
        layout.extend(fields, self.n_entries, self.options.compression)?;
        let new = layout.schema.columns.iter().skip(self.first_elements.len());
        let first: Vec<u64> = new
            .map(|column| column.first_element.unsigned_abs())
            .collect();
        self.first_elements.extend(first);
        self.layout = Arc::new(layout);
        self.fill.grow(self.layout.clone());
        Ok(())
    }

    /// Writes the cluster that is being filled, if it has any entries.
    ///
    /// # Errors
    /// If writing fails.
    pub fn commit_cluster(&mut self, file: &mut FileWriter) -> Result<(), RNTupleError> {
        let taken = self.fill.take();
        self.failed |= taken.is_err();
        match taken? {
            Some(cluster) => self.write_cluster(file, cluster),
            None => Ok(()),
        }
    }

    /// Writes a cluster behind the others.
    pub(super) fn write_cluster(
        &mut self,
        file: &mut FileWriter,
        cluster: FilledCluster,
    ) -> Result<(), RNTupleError> {
        let mut stored = Distinct::new(self.options.same_page_merging);
        let mut columns = Vec::with_capacity(cluster.columns.len());
        for (column, first) in cluster.columns.iter().zip(&mut self.first_elements) {
            let places: Vec<usize> = column.pages.iter().map(|page| stored.place(page)).collect();
            columns.push((places, *first));
            *first += column.n_elements;
        }
        let offsets = append_pages(file, &stored.pages, &self.options);
        self.failed |= offsets.is_err();
        let offsets = offsets?;
        let has_checksum = self.options.page_checksums;
        let written =
            |(column, (places, first)): (&super::fill::FilledColumn, (Vec<usize>, u64))| {
                let pages = column.pages.iter().zip(places).map(|(page, at)| {
                    let checksum = if has_checksum { 8 } else { 0 };
                    let locator = Locator {
                        kind: LocatorKind::File,
                        size: (page.bytes.len() as u64).saturating_sub(checksum),
                        offset: offsets.get(at).copied().unwrap_or(0),
                    };
                    Page {
                        n_elements: page.n_elements,
                        has_checksum,
                        locator,
                    }
                });
                WrittenColumn {
                    pages: pages.collect(),
                    element_offset: Some(first),
                    compression: column.settings,
                }
            };
        let summary = ClusterSummary {
            first_entry: self.n_entries,
            n_entries: cluster.n_entries,
        };
        let columns = cluster.columns.iter().zip(columns).map(written).collect();
        self.clusters.push(WrittenCluster { summary, columns });
        self.n_entries += cluster.n_entries;
        let n_pages: usize = columns_of(&self.clusters)
            .map(|column| column.pages.len() + 1)
            .sum();
        let is_large = n_pages * size_of::<Page>() > PAGE_LIST;
        if is_large || self.clusters.len() >= self.options.clusters_per_group.max(1) {
            self.commit_cluster_group(file)?;
        }
        Ok(())
    }

    /// Writes the page list of the clusters so far: what comes later belongs to another cluster group.
    ///
    /// # Errors
    /// If writing fails.
    pub fn commit_cluster_group(&mut self, file: &mut FileWriter) -> Result<(), RNTupleError> {
        let (Some(first), Some(last)) = (self.clusters.first(), self.clusters.last()) else {
            return Ok(());
        };
        let min_entry = first.summary.first_entry;
        let entry_span = last.summary.end() - min_entry;
        let page_list = spec::page_list(self.header_checksum, &self.clusters);
        let n_clusters = u32::try_from(self.clusters.len()).unwrap_or(u32::MAX);
        let page_list = append_envelope(file, &page_list, &self.options)?;
        self.groups.push(ClusterGroup {
            min_entry,
            entry_span,
            n_clusters,
            page_list,
        });
        self.clusters.clear();
        Ok(())
    }

    /// Adds what is known of types, as the streamer infos of classes whose objects are written as bytes.
    pub fn add_type_info(&mut self, info: ExtraTypeInfo) {
        self.extra_type_infos.push(info);
    }

    /// Links an attribute set that was written, which speaks of entries up to `end`.
    pub(super) fn link_attribute_set(&mut self, set: LinkedAttributeSet, end: u64) {
        self.attribute_sets.push(set);
        self.attribute_ends.push(end);
    }

    /// Names of the attribute sets so far.
    pub(super) fn has_attribute_set(&self, name: &str) -> bool {
        self.attribute_sets.iter().any(|set| set.name == name)
    }

    /// Writes what is left, but for the anchor.
    pub(super) fn close(&mut self, file: &mut FileWriter) -> Result<Anchor, RNTupleError> {
        if self.failed {
            let reason = "entries of it could not be written, so it cannot be finished";
            return Err(unwritable(&self.name, reason));
        }
        self.commit_cluster(file)?;
        self.check_attributes()?;
        self.commit_cluster_group(file)?;
        let footer = spec::footer(
            self.header_checksum,
            &self.extension(),
            &self.groups,
            &self.attribute_sets,
        );
        let footer = append_envelope(file, &footer, &self.options)?;
        Ok(Anchor {
            version_epoch: 1,
            version_major: 0,
            // attribute sets are of 1.0.1
            version_minor: u16::from(!self.attribute_sets.is_empty()),
            version_patch: 0,
            seek_header: self.header.locator.offset,
            n_bytes_header: self.header.locator.size,
            len_header: self.header.length,
            seek_footer: footer.locator.offset,
            n_bytes_footer: footer.locator.size,
            len_footer: footer.length,
            max_key_size: self.options.max_key_size,
        })
    }

    /// Insists that attribute sets speak of entries that there are.
    fn check_attributes(&self) -> Result<(), RNTupleError> {
        let n_entries = self.n_entries;
        let mut sets = self.attribute_sets.iter().zip(&self.attribute_ends);
        match sets.find(|(_, end)| **end > n_entries) {
            Some((set, end)) => {
                let reason = format!(
                    "it says something of entries up to {end}, and {:?} has {n_entries}",
                    self.name
                );
                Err(unwritable(&set.name, reason))
            }
            None => Ok(()),
        }
    }

    /// What the schema has beyond the header.
    fn extension(&self) -> SchemaDescription {
        let schema = &self.layout.schema;
        let (fields, columns, aliases) = self.in_header;
        SchemaDescription {
            fields: schema.fields.iter().skip(fields).cloned().collect(),
            columns: schema.columns.iter().skip(columns).cloned().collect(),
            alias_columns: schema.alias_columns.iter().skip(aliases).cloned().collect(),
            extra_type_infos: self.extra_type_infos.clone(),
        }
    }

    /// Writes what is left, and the anchor, which makes it an object of the file. Gives the number of entries.
    ///
    /// # Errors
    /// If writing fails.
    pub fn finish(mut self, file: &mut FileWriter) -> Result<u64, RNTupleError> {
        let anchor = self.close(file)?;
        file.add_streamer_info(streamer_info());
        let names = (CLASS, self.name.as_str(), "");
        file.write_object(self.directory, names, &spec::anchor(&anchor), 0)?;
        Ok(self.n_entries)
    }
}

fn extent(schema: &SchemaDescription) -> (usize, usize, usize) {
    (
        schema.fields.len(),
        schema.columns.len(),
        schema.alias_columns.len(),
    )
}

fn columns_of(clusters: &[WrittenCluster]) -> impl Iterator<Item = &WrittenColumn> {
    clusters.iter().flat_map(|cluster| &cluster.columns)
}

/// Pages to be stored; those of equal bytes only once.
struct Distinct<'a> {
    merging: bool,
    pages: Vec<&'a SealedPage>,
    known: HashMap<(u64, usize), usize>,
}

impl<'a> Distinct<'a> {
    fn new(merging: bool) -> Self {
        Self {
            merging,
            pages: Vec::new(),
            known: HashMap::new(),
        }
    }

    /// Where among the stored pages this one is.
    fn place(&mut self, page: &'a SealedPage) -> usize {
        let next = self.pages.len();
        if self.merging {
            let key = (page.hash, page.bytes.len());
            match self.known.get(&key) {
                Some(&at)
                    if self
                        .pages
                        .get(at)
                        .is_some_and(|known| known.bytes == page.bytes) =>
                {
                    return at;
                }
                _ => {
                    self.known.insert(key, next);
                }
            }
        }
        self.pages.push(page);
        next
    }
}

/// How ROOT describes the anchor.
fn streamer_info() -> StreamerInfo {
    let element = |name: &str, wide: bool| StreamerElement {
        kind: ElementKind::BasicType,
        name: name.to_owned(),
        title: String::new(),
        type_code: if wide { 14 } else { 12 },
        size: if wide { 8 } else { 2 },
        array_length: 0,
        array_dim: 0,
        max_index: [0; 5],
        type_name: if wide {
            "unsigned long"
        } else {
            "unsigned short"
        }
        .to_owned(),
    };
    let narrow = [
        "fVersionEpoch",
        "fVersionMajor",
        "fVersionMinor",
        "fVersionPatch",
    ];
    let wide = [
        "fSeekHeader",
        "fNBytesHeader",
        "fLenHeader",
        "fSeekFooter",
        "fNBytesFooter",
        "fLenFooter",
        "fMaxKeySize",
    ];
    let narrow = narrow.iter().map(|name| element(name, false));
    StreamerInfo {
        name: CLASS.to_owned(),
        version: 2,
        checksum: 0x28e6_32ec,
        title: String::new(),
        elements: narrow
            .chain(wide.iter().map(|name| element(name, true)))
            .collect(),
    }
}
