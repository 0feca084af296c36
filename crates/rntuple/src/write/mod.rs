//! Writing: record batches to pages, clusters and the metadata that describes them.
//!
//! Elements wait in their columns until they fill a page; pages are encoded and compressed at once, on all threads, and
//! wait until the cluster is large enough. A cluster is one record of the file, written at once.

mod column;
mod model;
mod take;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use femtobarn_codec::{Compressor, xxh3};
use femtobarn_rootfile::{ElementKind, FileWriter, StreamerElement, StreamerInfo};

use self::column::{ColumnBuffer, SealedPage, Sealer};
use self::model::Model;
use crate::RNTupleError;
use crate::spec::{
    Anchor, ClusterGroup, ClusterSummary, EnvelopeLink, Locator, LocatorKind, Page,
    SchemaDescription, WrittenCluster, WrittenColumn, write as spec,
};

/// The class of ntuples in files.
const CLASS: &str = "ROOT::RNTuple";
/// Rows are taken apart in slices of about this many bytes, so that what waits for pages stays small.
const SLICE: usize = 16 << 20;
/// Clusters of a page list.
const MOST_CLUSTERS: usize = 4096;

/// How an ntuple is written.
#[derive(Debug, Clone)]
pub struct WriteOptions {
    /// Algorithm times 100 plus level; 0 for none.
    pub compression: u32,
    /// Compressed bytes of a cluster.
    pub cluster_bytes: u64,
    /// Uncompressed bytes of a cluster, at most.
    pub cluster_bytes_uncompressed: u64,
    /// Encoded bytes of a page, at most.
    pub page_bytes: usize,
    /// Largest record of the file.
    pub max_key_size: u64,
    /// Pages with the same bytes are stored once in a cluster.
    pub same_page_merging: bool,
    /// Threads that encode and compress.
    pub threads: usize,
    /// The ntuple's description.
    pub description: String,
}

impl Default for WriteOptions {
    /// As ROOT 6.40 writes: zstd 5, clusters of 128 MiB, pages of 1 MiB.
    fn default() -> Self {
        Self {
            compression: 505,
            cluster_bytes: 128 << 20,
            cluster_bytes_uncompressed: 1280 << 20,
            page_bytes: 1 << 20,
            max_key_size: 1 << 30,
            same_page_merging: true,
            threads: 1,
            description: String::new(),
        }
    }
}

/// An ntuple that is being written into a file.
#[derive(Debug)]
pub struct NTupleWriter {
    name: String,
    directory: usize,
    options: WriteOptions,
    arrow: SchemaRef,
    model: Model,
    columns: Vec<ColumnBuffer>,
    /// Elements of each column in earlier clusters.
    first_elements: Vec<u64>,
    header: EnvelopeLink,
    header_checksum: u64,
    clusters: Vec<WrittenCluster>,
    groups: Vec<ClusterGroup>,
    n_entries: u64,
    /// First entry of the cluster that is being filled.
    first_entry: u64,
    /// Uncompressed bytes of that cluster.
    n_bytes: u64,
}

impl NTupleWriter {
    /// Begins an ntuple of record batches with this schema, in a directory of the file.
    ///
    /// # Errors
    /// If a type cannot be written, or writing the header fails.
    pub fn new(
        file: &mut FileWriter,
        directory: usize,
        name: &str,
        arrow: SchemaRef,
        options: WriteOptions,
    ) -> Result<Self, RNTupleError> {
        let model = Model::new(&arrow, !options.compression.is_multiple_of(100))?;
        let writer = concat!("femtobarn ", env!("CARGO_PKG_VERSION"));
        let (header, header_checksum) =
            spec::header(name, &options.description, writer, &model.schema);
        let header = append_envelope(file, &header, &options)?;
        let columns: Vec<ColumnBuffer> =
            model.schema.columns.iter().map(ColumnBuffer::new).collect();
        Ok(Self {
            name: name.to_owned(),
            directory,
            first_elements: vec![0; columns.len()],
            columns,
            model,
            arrow,
            header,
            header_checksum,
            clusters: Vec::new(),
            groups: Vec::new(),
            n_entries: 0,
            first_entry: 0,
            n_bytes: 0,
            options,
        })
    }

    /// Adds entries.
    ///
    /// # Errors
    /// If the batch has another schema or a missing value where there should be none, or writing fails.
    pub fn extend(
        &mut self,
        file: &mut FileWriter,
        batch: &RecordBatch,
    ) -> Result<(), RNTupleError> {
        self.check_schema(batch)?;
        let n_rows = batch.num_rows();
        let per_row = batch.get_array_memory_size() / n_rows.max(1);
        let rows = (SLICE / per_row.max(1)).max(1);
        let mut at = 0;
        while at < n_rows {
            let n = rows.min(n_rows - at);
            self.extend_slice(&batch.slice(at, n))?;
            at += n;
            if self.is_full() {
                self.commit_cluster(file)?;
            }
        }
        Ok(())
    }

    fn check_schema(&self, batch: &RecordBatch) -> Result<(), RNTupleError> {
        let schema = batch.schema();
        for (wanted, found) in self.arrow.fields().iter().zip(schema.fields()) {
            if wanted.name() != found.name() || wanted.data_type() != found.data_type() {
                return Err(RNTupleError::Unwritable {
                    name: wanted.name().clone(),
                    reason: format!(
                        "was {} in the first batch; now {:?} is {}",
                        wanted.data_type(),
                        found.name(),
                        found.data_type()
                    ),
                });
            }
        }
        if self.arrow.fields().len() != schema.fields().len() {
            return Err(RNTupleError::Unwritable {
                name: self.name.clone(),
                reason: format!(
                    "{} columns, {} in the first batch",
                    schema.fields().len(),
                    self.arrow.fields().len()
                ),
            });
        }
        Ok(())
    }

    fn extend_slice(&mut self, batch: &RecordBatch) -> Result<(), RNTupleError> {
        let before: usize = self.columns.iter().map(ColumnBuffer::n_waiting).sum();
        for ((name, shape), array) in self.model.tops.iter().zip(batch.columns()) {
            take::take(shape, array, &mut self.columns, name)?;
        }
        let after: usize = self.columns.iter().map(ColumnBuffer::n_waiting).sum();
        self.n_bytes += after.saturating_sub(before) as u64;
        self.n_entries += batch.num_rows() as u64;
        self.seal(false)
    }

    /// Encodes and compresses what is ready, on all threads.
    fn seal(&mut self, all: bool) -> Result<(), RNTupleError> {
        let WriteOptions {
            page_bytes,
            compression,
            threads,
            ..
        } = self.options;
        let queue = std::sync::Mutex::new(self.columns.iter_mut());
        let failure = std::sync::Mutex::new(None);
        let work = || {
            let mut sealer = Sealer::default();
            loop {
                let next = queue
                    .lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner)
                    .next();
                let Some(column) = next else { break };
                if let Err(error) = column.seal(page_bytes, all, compression, &mut sealer) {
                    failure
                        .lock()
                        .unwrap_or_else(std::sync::PoisonError::into_inner)
                        .get_or_insert(error);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads.max(1) {
                scope.spawn(work);
            }
            work();
        });
        match failure
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
        {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Whether the cluster has reached its size; what waits counts by how well the rest was compressed.
    fn is_full(&self) -> bool {
        let sealed: usize = self
            .columns
            .iter()
            .flat_map(|column| &column.sealed)
            .map(|page| page.bytes.len())
            .sum();
        let waiting: u64 = self
            .columns
            .iter()
            .map(|column| column.n_waiting() as u64)
            .sum();
        let done = self.n_bytes.saturating_sub(waiting).max(1);
        let expected = sealed as u64
            + u64::try_from(u128::from(waiting) * sealed as u128 / u128::from(done)).unwrap_or(0);
        expected >= self.options.cluster_bytes
            || self.n_bytes >= self.options.cluster_bytes_uncompressed
    }

    /// Writes the cluster that is being filled, if it has any entries.
    ///
    /// # Errors
    /// If writing fails.
    pub fn commit_cluster(&mut self, file: &mut FileWriter) -> Result<(), RNTupleError> {
        if self.n_entries == self.first_entry {
            return Ok(());
        }
        self.seal(true)?;
        let mut columns = Vec::with_capacity(self.columns.len());
        let mut stored: Vec<Vec<u8>> = Vec::new();
        let mut known: HashMap<(u64, usize), usize> = HashMap::new();
        let mut places: Vec<Vec<(u32, usize)>> = Vec::new();
        for (column, first) in self.columns.iter_mut().zip(&mut self.first_elements) {
            columns.push(WrittenColumn {
                pages: Vec::new(),
                element_offset: Some(*first),
                compression: self.options.compression,
            });
            *first += column.n_elements;
            let mut own = Vec::new();
            for SealedPage { n_elements, bytes } in column.finish() {
                let key = (xxh3(&bytes), bytes.len());
                let same = known
                    .get(&key)
                    .copied()
                    .filter(|&at| stored.get(at) == Some(&bytes));
                let at = same
                    .filter(|_| self.options.same_page_merging)
                    .unwrap_or_else(|| {
                        known.insert(key, stored.len());
                        stored.push(bytes);
                        stored.len() - 1
                    });
                own.push((n_elements, at));
            }
            places.push(own);
        }
        let offsets = append_pages(file, &stored, self.options.max_key_size)?;
        for (column, own) in columns.iter_mut().zip(places) {
            for (n_elements, at) in own {
                let size = stored.get(at).map_or(0, Vec::len) as u64;
                let offset = offsets.get(at).copied().unwrap_or(0);
                let locator = Locator {
                    kind: LocatorKind::File,
                    size: size.saturating_sub(8),
                    offset,
                };
                column.pages.push(Page {
                    n_elements,
                    has_checksum: true,
                    locator,
                });
            }
        }
        let n_entries = self.n_entries - self.first_entry;
        let summary = ClusterSummary {
            first_entry: self.first_entry,
            n_entries,
        };
        self.clusters.push(WrittenCluster { summary, columns });
        (self.first_entry, self.n_bytes) = (self.n_entries, 0);
        if self.clusters.len() >= MOST_CLUSTERS {
            self.commit_group(file)?;
        }
        Ok(())
    }

    /// Writes the page list of the clusters so far.
    fn commit_group(&mut self, file: &mut FileWriter) -> Result<(), RNTupleError> {
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

    /// Writes what is left, and the anchor, which makes it an object of the file. Gives the number of entries.
    ///
    /// # Errors
    /// If writing fails.
    pub fn finish(mut self, file: &mut FileWriter) -> Result<u64, RNTupleError> {
        self.commit_cluster(file)?;
        self.commit_group(file)?;
        let footer = spec::footer(
            self.header_checksum,
            &SchemaDescription::default(),
            &self.groups,
            &[],
        );
        let footer = append_envelope(file, &footer, &self.options)?;
        let anchor = Anchor {
            version_epoch: 1,
            version_major: 0,
            version_minor: 0,
            version_patch: 0,
            seek_header: self.header.locator.offset,
            n_bytes_header: self.header.locator.size,
            len_header: self.header.length,
            seek_footer: footer.locator.offset,
            n_bytes_footer: footer.locator.size,
            len_footer: footer.length,
            max_key_size: self.options.max_key_size,
        };
        file.add_streamer_info(streamer_info());
        file.write_object(
            self.directory,
            (CLASS, &self.name, ""),
            &spec::anchor(&anchor),
            0,
        )?;
        Ok(self.n_entries)
    }
}

/// Appends an envelope as a record.
fn append_envelope(
    file: &mut FileWriter,
    envelope: &[u8],
    options: &WriteOptions,
) -> Result<EnvelopeLink, RNTupleError> {
    let mut compressed = Vec::new();
    let shrunk = Compressor::new().compress(options.compression, envelope, &mut compressed);
    let stored = if shrunk.map_err(RNTupleError::internal)? {
        compressed.as_slice()
    } else {
        envelope
    };
    if stored.len() as u64 > options.max_key_size {
        return Err(RNTupleError::internal("metadata larger than a record"));
    }
    let offset = file.append_blob(&[stored])?;
    let locator = Locator {
        kind: LocatorKind::File,
        size: stored.len() as u64,
        offset,
    };
    Ok(EnvelopeLink {
        length: envelope.len() as u64,
        locator,
    })
}

/// Appends pages, as many to a record as it may hold; gives their offsets.
fn append_pages(
    file: &mut FileWriter,
    pages: &[Vec<u8>],
    most: u64,
) -> Result<Vec<u64>, RNTupleError> {
    let mut offsets = Vec::with_capacity(pages.len());
    let mut rest = pages;
    while !rest.is_empty() {
        let mut n_bytes = 0u64;
        let fits = |page: &&Vec<u8>| {
            n_bytes += page.len() as u64;
            n_bytes <= most
        };
        let n = rest.iter().take_while(fits).count().max(1);
        let (these, others) = rest.split_at(n);
        let parts: Vec<&[u8]> = these.iter().map(Vec::as_slice).collect();
        let mut offset = file.append_blob(&parts)?;
        for part in parts {
            offsets.push(offset);
            offset += part.len() as u64;
        }
        rest = others;
    }
    Ok(offsets)
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
