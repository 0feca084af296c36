//! Payloads in the file: pages and metadata, in one record or in several.

use std::collections::HashMap;

use femtobarn_codec::Compressor;
use femtobarn_rootfile::FileWriter;

use super::column::SealedPage;
use super::filling::{FilledCluster, FilledColumn};
use super::model::unwritable;
use super::options::WriteOptions;
use crate::RNTupleError;
use crate::spec::{EnvelopeLink, Locator, LocatorKind, WrittenColumn};

/// Writes envelopes, with memory that is used again for the next one.
#[derive(Debug, Default)]
pub(super) struct Envelopes {
    compressor: Compressor,
    compressed: Vec<u8>,
}

impl Envelopes {
    /// Appends an envelope, compressed if it becomes smaller.
    pub fn append(
        &mut self,
        file: &mut FileWriter,
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
        let offset = append_payload(file, stored, options.max_key_size)?;
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
}

/// Appends a payload. One larger than `most` is cut: the first record ends with the offsets of the others.
pub(super) fn append_payload(
    file: &mut FileWriter,
    payload: &[u8],
    most: u64,
) -> Result<u64, RNTupleError> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    if payload.len() <= most {
        return Ok(file.append_blob(&[payload])?);
    }
    let least = payload.len().div_ceil(most);
    // the offsets may need one more
    let room = least.saturating_mul(most).saturating_sub(8 * (least - 1));
    let n_keys = least + usize::from(room < payload.len());
    let parts = most
        .checked_sub(8 * (n_keys - 1))
        .and_then(|first| payload.split_at_checked(first));
    let (head, rest) = parts.ok_or_else(|| {
        let n = payload.len();
        let reason =
            format!("{n} bytes do not fit into records of {most}: max_key_size is too small");
        unwritable("payload", reason)
    })?;
    let mut offsets = Vec::with_capacity(8 * (n_keys - 1));
    for part in rest.chunks(most) {
        offsets.extend(file.append_blob(&[part])?.to_le_bytes());
    }
    Ok(file.append_blob(&[head, &offsets])?)
}

/// Appends pages, as many to a record as it may hold; gives their offsets.
pub(super) fn append_pages(
    file: &mut FileWriter,
    pages: &[&SealedPage],
    options: &WriteOptions,
) -> Result<Vec<u64>, RNTupleError> {
    let most = options.max_key_size;
    let mut offsets = Vec::with_capacity(pages.len());
    let mut rest = pages;
    while let Some(first) = rest.first() {
        if first.bytes.len() as u64 > most {
            offsets.push(append_payload(file, &first.bytes, most)?);
            rest = rest.get(1..).unwrap_or_default();
            continue;
        }
        let mut n_bytes = 0u64;
        let fits = |page: &&&SealedPage| {
            n_bytes += page.bytes.len() as u64;
            n_bytes <= most
        };
        let (these, others) = rest.split_at(rest.iter().take_while(fits).count());
        let parts: Vec<&[u8]> = these.iter().map(|page| page.bytes.as_slice()).collect();
        let mut offset = file.append_parts(&parts, options.threads)?;
        for part in parts {
            offsets.push(offset);
            offset += part.len() as u64;
        }
        rest = others;
    }
    Ok(offsets)
}

/// Appends the pages of a cluster; gives what its page list says of them. `first_elements` of all columns are counted on.
pub(super) fn append_cluster(
    file: &mut FileWriter,
    cluster: &FilledCluster,
    options: &WriteOptions,
    first_elements: &mut [u64],
) -> Result<Vec<WrittenColumn>, RNTupleError> {
    let mut stored = Distinct::new(options.same_page_merging);
    let mut columns = Vec::with_capacity(cluster.columns.len());
    for (column, first) in cluster.columns.iter().zip(first_elements) {
        let places: Vec<usize> = column.pages.iter().map(|page| stored.place(page)).collect();
        columns.push((places, *first));
        *first += column.n_elements;
    }
    let offsets = append_pages(file, &stored.pages, options)?;
    let written = |(column, (places, first)): (&FilledColumn, (Vec<usize>, u64))| {
        let pages = column.pages.iter().zip(places).map(|(page, at)| {
            let offset = offsets.get(at).copied().unwrap_or(0);
            page.stored_at(offset, options.page_checksums)
        });
        WrittenColumn {
            pages: pages.collect(),
            element_offset: Some(first),
            compression: column.settings,
        }
    };
    Ok(cluster.columns.iter().zip(columns).map(written).collect())
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
