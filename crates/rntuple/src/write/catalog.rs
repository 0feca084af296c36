//! The metadata of an ntuple being written: clusters, cluster groups, footer and anchor.

use femtobarn_rootfile::without_cycle;

use super::model::{check_name, unwritable};
use super::options::{PAGE_LIST, WriteOptions};
use super::payload::Envelopes;
use super::sink::{Existing, PageSink, SinkPlace};
use crate::RNTupleError;
use crate::read::Reader;
use crate::spec::{
    Anchor, ClusterGroup, ClusterSummary, EnvelopeLink, ExtraTypeInfo, LinkedAttributeSet,
    NESTED_DEFERRED_COLUMNS, Page, SchemaDescription, WrittenCluster, WrittenColumn, write as spec,
};

/// The smallest MaxKeySize that readers accept, and the largest possible size of a record.
const SMALLEST_KEY: u64 = 64;
pub(super) const LARGEST_KEY: u64 = 2_000_000_000;

/// The metadata of an ntuple whose pages are being written. Its header is written before them.
#[derive(Debug)]
pub(super) struct Catalog {
    name: String,
    directory: usize,
    options: WriteOptions,
    header: EnvelopeLink,
    header_checksum: u64,
    has_header: bool,
    envelopes: Envelopes,
    /// Clusters of the current cluster group.
    clusters: Vec<WrittenCluster>,
    /// Number of their pages and page lists.
    n_listed: usize,
    groups: Vec<ClusterGroup>,
    pub attribute_sets: Vec<LinkedAttributeSet>,
    pub extra_type_infos: Vec<ExtraTypeInfo>,
    /// Feature flags of the footer.
    pub feature_flags: u64,
    n_entries: u64,
    /// Whether a field is a struct of arrays.
    has_soa: bool,
    /// Number of type infos in the header.
    in_header: usize,
    /// The anchor of the ntuple that is continued.
    old: Option<Anchor>,
}

impl Catalog {
    /// Writes the header of an ntuple with this schema, in a directory of the file.
    ///
    /// # Errors
    /// If the name or the options are invalid, or writing fails.
    pub fn new(
        sink: &mut dyn PageSink,
        (directory, name): (usize, &str),
        schema: &SchemaDescription,
        options: &WriteOptions,
    ) -> Result<Self, RNTupleError> {
        let mut catalog = Self::unwritten(sink, (directory, name), options)?;
        catalog.write_header(sink, schema)?;
        Ok(catalog)
    }

    /// An ntuple whose header is still to be written, before anything is added.
    ///
    /// # Errors
    /// If the name or the options are invalid.
    pub fn unwritten(
        sink: &mut dyn PageSink,
        (directory, name): (usize, &str),
        options: &WriteOptions,
    ) -> Result<Self, RNTupleError> {
        check_name(name)?;
        if without_cycle(name) != name {
            let reason = "';' precedes the cycle number, which is assigned automatically";
            return Err(unwritable(name, reason));
        }
        if !(SMALLEST_KEY..=LARGEST_KEY).contains(&options.max_key_size) {
            let what = format!(
                "max_key_size is {}, not {SMALLEST_KEY} to {LARGEST_KEY}",
                options.max_key_size
            );
            return Err(unwritable(name, what));
        }
        let place = place(directory, name, options, false);
        sink.check_place(&place)?;
        sink.begin(&place)?;
        Ok(Self {
            name: name.to_owned(),
            directory,
            header: EnvelopeLink::default(),
            header_checksum: 0,
            has_header: false,
            envelopes: Envelopes::default(),
            options: options.clone(),
            clusters: Vec::new(),
            n_listed: 0,
            groups: Vec::new(),
            attribute_sets: Vec::new(),
            extra_type_infos: Vec::new(),
            feature_flags: 0,
            n_entries: 0,
            has_soa: false,
            in_header: 0,
            old: None,
        })
    }

    /// Writes the header with this schema.
    ///
    /// # Errors
    /// If writing fails.
    pub fn write_header(
        &mut self,
        sink: &mut dyn PageSink,
        schema: &SchemaDescription,
    ) -> Result<(), RNTupleError> {
        let writer = concat!("femtobarn ", env!("CARGO_PKG_VERSION"));
        let (header, checksum) =
            spec::header(&self.name, &self.options.description, writer, schema);
        self.header = self.envelopes.append(sink, &header, &self.options)?;
        self.header_checksum = checksum;
        self.has_soa = has_soa(schema);
        self.has_header = true;
        Ok(())
    }

    pub fn has_header(&self) -> bool {
        self.has_header
    }

    /// Continues an ntuple in the file. Its header and page lists stay where they are.
    pub fn resume(
        (directory, name): (usize, &str),
        ntuple: &Reader,
        options: &WriteOptions,
    ) -> Self {
        let descriptor = ntuple.descriptor();
        Self {
            name: name.to_owned(),
            directory,
            options: WriteOptions {
                max_key_size: ntuple.store().largest_piece(),
                ..options.clone()
            },
            header: descriptor.anchor.header,
            envelopes: Envelopes::default(),
            header_checksum: descriptor.header_checksum,
            has_header: true,
            clusters: Vec::new(),
            n_listed: 0,
            groups: descriptor.cluster_groups.clone(),
            attribute_sets: descriptor.attribute_sets.clone(),
            extra_type_infos: descriptor.extra_type_infos.clone(),
            feature_flags: descriptor.feature_flags,
            n_entries: descriptor.n_entries(),
            has_soa: false,
            in_header: descriptor.type_infos_in_header,
            old: Some(descriptor.anchor),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of entries in the clusters so far.
    pub fn n_entries(&self) -> u64 {
        self.n_entries
    }

    /// Adds a cluster whose pages have been written, and writes the page list if it becomes large.
    pub fn add_cluster(
        &mut self,
        sink: &mut dyn PageSink,
        n_entries: u64,
        columns: Vec<WrittenColumn>,
    ) -> Result<(), RNTupleError> {
        let summary = ClusterSummary {
            first_entry: self.n_entries,
            n_entries,
        };
        let n_listed = columns.iter().map(|column| column.pages.len() + 1);
        self.n_listed += n_listed.sum::<usize>();
        self.clusters.push(WrittenCluster { summary, columns });
        self.n_entries += n_entries;
        let is_large = self.n_listed * size_of::<Page>() > PAGE_LIST;
        if is_large || self.clusters.len() >= self.options.clusters_per_group.max(1) {
            self.commit_cluster_group(sink)?;
        }
        Ok(())
    }

    /// Writes the page list of the clusters so far.
    pub fn commit_cluster_group(&mut self, sink: &mut dyn PageSink) -> Result<(), RNTupleError> {
        let (Some(first), Some(last)) = (self.clusters.first(), self.clusters.last()) else {
            return Ok(());
        };
        let min_entry = first.summary.first_entry;
        let entry_span = last.summary.end() - min_entry;
        let page_list = spec::page_list(self.header_checksum, &self.clusters);
        let n_clusters = u32::try_from(self.clusters.len()).unwrap_or(u32::MAX);
        let page_list = self.envelopes.append(sink, &page_list, &self.options)?;
        self.groups.push(ClusterGroup {
            min_entry,
            entry_span,
            n_clusters,
            page_list,
        });
        self.clusters.clear();
        self.n_listed = 0;
        Ok(())
    }

    /// Writes the remaining metadata, including the schema extension, but not the anchor.
    pub fn close(
        &mut self,
        sink: &mut dyn PageSink,
        extension: SchemaDescription,
    ) -> Result<Anchor, RNTupleError> {
        self.commit_cluster_group(sink)?;
        let extension = SchemaDescription {
            extra_type_infos: self
                .extra_type_infos
                .iter()
                .skip(self.in_header)
                .cloned()
                .collect(),
            ..extension
        };
        self.has_soa |= has_soa(&extension);
        let version = self.version();
        // attribute set lists exist since version 1.0.1
        let has_sets = version >= [1, 0, 1, 0];
        let attribute_sets = has_sets.then_some(self.attribute_sets.as_slice());
        let footer = spec::footer(
            self.feature_flags,
            self.header_checksum,
            &extension,
            &self.groups,
            attribute_sets,
        );
        let footer = self.envelopes.append(sink, &footer, &self.options)?;
        Ok(Anchor {
            version,
            header: self.header,
            footer,
            max_key_size: self.options.max_key_size,
        })
    }

    /// The lowest format version that has all written features, or the version of the continued ntuple.
    fn version(&self) -> [u16; 4] {
        let own = if self.feature_flags & NESTED_DEFERRED_COLUMNS != 0 {
            [1, 1, 0, 0]
        } else {
            let patch = match (self.has_soa, self.attribute_sets.is_empty()) {
                (true, _) => 2,
                (false, false) => 1,
                (false, true) => 0,
            };
            [1, 0, patch, 0]
        };
        let old = self.old.map(|old| old.version);
        old.map_or(own, |old| old.max(own))
    }

    /// Writes the anchor, which makes the ntuple visible. Returns the number of entries.
    pub fn finish(self, sink: &mut dyn PageSink, anchor: &Anchor) -> Result<u64, RNTupleError> {
        let is_old = self.old.is_some();
        let place = place(self.directory, &self.name, &self.options, is_old);
        sink.publish(&place, anchor)?;
        Ok(self.n_entries)
    }
}

fn has_soa(schema: &SchemaDescription) -> bool {
    schema.fields.iter().any(|field| field.flags.soa())
}

fn place<'a>(
    directory: usize,
    name: &'a str,
    options: &WriteOptions,
    is_old: bool,
) -> SinkPlace<'a> {
    let existing = match (is_old, options.new_cycle) {
        (true, _) => Existing::Continued,
        (false, true) => Existing::Hidden,
        (false, false) => Existing::Refused,
    };
    SinkPlace {
        directory,
        name,
        existing,
    }
}
