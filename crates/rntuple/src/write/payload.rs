//! Payloads: passes pages and metadata to a sink.

use std::collections::HashMap;

use bytes::Bytes;
use femtobarn_codec::Compressor;

use super::column::SealedPage;
use super::filling::{FilledCluster, FilledColumn};
use super::options::WriteOptions;
use super::sink::PageSink;
use crate::RNTupleError;
use crate::spec::{EnvelopeLink, PageAddress, StoredRange, WrittenColumn};

/// Writes envelopes with reusable memory.
#[derive(Debug, Default)]
pub(super) struct Envelopes {
    compressor: Compressor,
    compressed: Vec<u8>,
}

impl Envelopes {
    /// Appends an envelope, compressed if that makes it smaller.
    pub fn append(
        &mut self,
        sink: &mut dyn PageSink,
        envelope: &[u8],
        options: &WriteOptions,
    ) -> Result<EnvelopeLink, RNTupleError> {
        let Self {
            compressor,
            compressed,
        } = self;
        compressed.clear();
        let shrunk = compressor.compress(options.compression, envelope, compressed);
        let stored = if shrunk.map_err(RNTupleError::internal)? {
            compressed.as_slice()
        } else {
            envelope
        };
        let stored = StoredRange {
            address: sink.append_payload(stored, options)?,
            size: stored.len() as u64,
        };
        Ok(EnvelopeLink {
            length: envelope.len() as u64,
            stored,
        })
    }
}

/// Writes pages, of which those of a column are beside each other; `columns` has the column of each. Returns their
/// addresses.
pub(super) fn append_pages(
    sink: &mut dyn PageSink,
    pages: &[&SealedPage],
    columns: &[usize],
    options: &WriteOptions,
) -> Result<Vec<PageAddress>, RNTupleError> {
    let bytes: Vec<Bytes> = pages.iter().map(|page| page.bytes.clone()).collect();
    append_bytes(sink, &bytes, columns, options)
}

/// Writes stored pages with the column of each; returns their addresses.
pub(super) fn append_bytes(
    sink: &mut dyn PageSink,
    pages: &[Bytes],
    columns: &[usize],
    options: &WriteOptions,
) -> Result<Vec<PageAddress>, RNTupleError> {
    let mut addresses = Vec::with_capacity(pages.len());
    if sink.joins_pages() {
        let mut rest = pages;
        for column in columns.chunk_by(|one, next| one == next) {
            let (these, others) = rest.split_at(column.len().min(rest.len()));
            addresses.append(&mut sink.append_pages(these, options)?);
            rest = others;
        }
    } else {
        addresses = sink.append_pages(pages, options)?;
    }
    if addresses.len() == pages.len() {
        Ok(addresses)
    } else {
        Err(RNTupleError::internal(
            "a sink gave another number of addresses",
        ))
    }
}

/// Appends the pages of a cluster; returns their records in the page list. `first_elements` of all columns are advanced.
pub(super) fn append_cluster(
    sink: &mut dyn PageSink,
    cluster: &FilledCluster,
    options: &WriteOptions,
    first_elements: &mut [u64],
) -> Result<Vec<WrittenColumn>, RNTupleError> {
    let mut stored = Distinct::new(options.same_page_merging);
    let mut columns = Vec::with_capacity(cluster.columns.len());
    let mut owners = Vec::new();
    for (at, (column, first)) in cluster.columns.iter().zip(first_elements).enumerate() {
        let places: Vec<usize> = column.pages.iter().map(|page| stored.place(page)).collect();
        owners.resize(stored.pages.len(), at);
        columns.push((places, *first));
        *first += column.n_elements;
    }
    let addresses = append_pages(sink, &stored.pages, &owners, options)?;
    sink.end_cluster()?;
    let written = |(column, (places, first)): (&FilledColumn, (Vec<usize>, u64))| {
        let pages = column.pages.iter().zip(places).map(|(page, at)| {
            let address = addresses.get(at).copied().unwrap_or_default();
            page.stored_at(address, options.page_checksums)
        });
        WrittenColumn {
            pages: pages.collect(),
            element_offset: Some(first),
            compression: column.settings,
        }
    };
    Ok(cluster.columns.iter().zip(columns).map(written).collect())
}

/// Pages to write; pages with equal bytes are written only once.
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

    /// The index of this page among the written ones.
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
