//! What is known of an ntuple while it is written, and becomes its metadata: clusters, their groups, footer and anchor.

use femtobarn_rootfile::{ElementKind, FileWriter, StreamerElement, StreamerInfo, without_cycle};

use super::model::{check_name, unwritable};
use super::options::{PAGE_LIST, WriteOptions};
use super::payload::Envelopes;
use crate::RNTupleError;
use crate::read::Reader;
use crate::spec::{
    Anchor, ClusterGroup, ClusterSummary, EnvelopeLink, ExtraTypeInfo, LinkedAttributeSet,
    NESTED_DEFERRED_COLUMNS, Page, SchemaDescription, WrittenCluster, WrittenColumn, write as spec,
};

/// The class of ntuples in files.
const CLASS: &str = "ROOT::RNTuple";

/// Least MaxKeySize that readers take, and the largest that records can have.
const SMALLEST_KEY: u64 = 64;
pub(super) const LARGEST_KEY: u64 = 2_000_000_000;

/// The metadata of an ntuple whose pages are being written. Its header is in the file.
#[derive(Debug)]
pub(super) struct Catalog {
    name: String,
    directory: usize,
    options: WriteOptions,
    header: EnvelopeLink,
    header_checksum: u64,
    envelopes: Envelopes,
    /// Those of the cluster group that is not yet written.
    clusters: Vec<WrittenCluster>,
    /// Pages of these clusters, and lists of pages.
    n_listed: usize,
    groups: Vec<ClusterGroup>,
    pub attribute_sets: Vec<LinkedAttributeSet>,
    pub extra_type_infos: Vec<ExtraTypeInfo>,
    /// Those of the footer.
    pub feature_flags: u64,
    n_entries: u64,
    /// Information on types that the header has.
    in_header: usize,
    /// The anchor of the ntuple that is continued.
    old: Option<Anchor>,
}

impl Catalog {
    /// Writes the header of an ntuple with this schema, in a directory of the file.
    ///
    /// # Errors
    /// If it cannot have this name or these options, or writing fails.
    pub fn new(
        file: &mut FileWriter,
        (directory, name): (usize, &str),
        schema: &SchemaDescription,
        options: &WriteOptions,
    ) -> Result<Self, RNTupleError> {
        check_name(name)?;
        if without_cycle(name) != name {
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
        file.check_name(directory, CLASS, name, options.new_cycle)?;
        let writer = concat!("femtobarn ", env!("CARGO_PKG_VERSION"));
        let (header, header_checksum) = spec::header(name, &options.description, writer, schema);
        let mut envelopes = Envelopes::default();
        Ok(Self {
            name: name.to_owned(),
            directory,
            header: envelopes.append(file, &header, options)?,
            envelopes,
            options: options.clone(),
            header_checksum,
            clusters: Vec::new(),
            n_listed: 0,
            groups: Vec::new(),
            attribute_sets: Vec::new(),
            extra_type_infos: Vec::new(),
            feature_flags: 0,
            n_entries: 0,
            in_header: 0,
            old: None,
        })
    }

    /// Goes on with an ntuple that is in the file: its header and its page lists stay where they are.
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
                max_key_size: ntuple.largest_key(),
                ..options.clone()
            },
            header: descriptor.anchor.header(),
            envelopes: Envelopes::default(),
            header_checksum: descriptor.header_checksum,
            clusters: Vec::new(),
            n_listed: 0,
            groups: descriptor.cluster_groups.clone(),
            attribute_sets: descriptor.attribute_sets.clone(),
            extra_type_infos: descriptor.extra_type_infos.clone(),
            feature_flags: descriptor.feature_flags,
            n_entries: descriptor.n_entries(),
            in_header: descriptor.type_infos_in_header,
            old: Some(descriptor.anchor),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of entries of the clusters so far.
    pub fn n_entries(&self) -> u64 {
        self.n_entries
    }

    /// Adds a cluster whose pages are in the file; writes the page list of those so far where it is large.
    pub fn add_cluster(
        &mut self,
        file: &mut FileWriter,
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
            self.commit_cluster_group(file)?;
        }
        Ok(())
    }

    /// Writes the page list of the clusters so far.
    pub fn commit_cluster_group(&mut self, file: &mut FileWriter) -> Result<(), RNTupleError> {
        let (Some(first), Some(last)) = (self.clusters.first(), self.clusters.last()) else {
            return Ok(());
        };
        let min_entry = first.summary.first_entry;
        let entry_span = last.summary.end() - min_entry;
        let page_list = spec::page_list(self.header_checksum, &self.clusters);
        let n_clusters = u32::try_from(self.clusters.len()).unwrap_or(u32::MAX);
        let page_list = self.envelopes.append(file, &page_list, &self.options)?;
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

    /// Writes what is left, with what the schema has beyond the header; but for the anchor.
    pub fn close(
        &mut self,
        file: &mut FileWriter,
        extension: SchemaDescription,
    ) -> Result<Anchor, RNTupleError> {
        self.commit_cluster_group(file)?;
        let extension = SchemaDescription {
            extra_type_infos: self
                .extra_type_infos
                .iter()
                .skip(self.in_header)
                .cloned()
                .collect(),
            ..extension
        };
        let version = self.version();
        let [version_epoch, version_major, version_minor, version_patch] = version;
        // lists of attribute sets are of 1.0.1
        let has_sets = version >= [1, 0, 1, 0];
        let attribute_sets = has_sets.then_some(self.attribute_sets.as_slice());
        let footer = spec::footer(
            self.feature_flags,
            self.header_checksum,
            &extension,
            &self.groups,
            attribute_sets,
        );
        let footer = self.envelopes.append(file, &footer, &self.options)?;
        Ok(Anchor {
            version_epoch,
            version_major,
            version_minor,
            version_patch,
            seek_header: self.header.locator.offset,
            n_bytes_header: self.header.locator.size,
            len_header: self.header.length,
            seek_footer: footer.locator.offset,
            n_bytes_footer: footer.locator.size,
            len_footer: footer.length,
            max_key_size: self.options.max_key_size,
        })
    }

    /// The least version of the format that has all that is written, or that of what is continued.
    fn version(&self) -> [u16; 4] {
        let own = if self.feature_flags & NESTED_DEFERRED_COLUMNS != 0 {
            [1, 1, 0, 0]
        } else {
            [1, 0, u16::from(!self.attribute_sets.is_empty()), 0]
        };
        let old = self.old.map(|old| {
            [
                old.version_epoch,
                old.version_major,
                old.version_minor,
                old.version_patch,
            ]
        });
        old.map_or(own, |old| old.max(own))
    }

    /// Writes the anchor, which makes the ntuple an object of the file. Gives the number of entries.
    pub fn finish(self, file: &mut FileWriter, anchor: &Anchor) -> Result<u64, RNTupleError> {
        if self.old.is_none() {
            // another of its name may have been completed meanwhile
            file.check_name(self.directory, CLASS, &self.name, self.options.new_cycle)?;
        }
        file.add_streamer_info(streamer_info());
        let names = (CLASS, self.name.as_str(), "");
        let anchor = spec::anchor(anchor);
        if self.old.is_some() {
            file.replace_object(self.directory, names, &anchor, 0)?;
        } else {
            file.write_object(self.directory, names, &anchor, 0)?;
        }
        Ok(self.n_entries)
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
