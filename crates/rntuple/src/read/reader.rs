//! One RNTuple in one source: its descriptor, and page lists read when needed.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use femtobarn_codec::Decompressor;
use femtobarn_io::{ByteSource, IoError, SourceCost, SourceMeta};

use super::stats::{Stats, add, elapsed};
use crate::RNTupleError;
use crate::schema::{Descriptor, FieldId, FieldNames, field_paths, nearest};
use crate::spec::{
    Anchor, EnvelopeLink, Footer, Header, LinkedAttributeSet, Locator, LocatorKind, PageList,
};

/// Most bytes that an envelope may have uncompressed; guards against hostile lengths.
const LARGEST_ENVELOPE: u64 = 1 << 32;

/// Least MaxKeySize with which a split payload makes sense.
const SMALLEST_KEY: u64 = 64;

/// How an ntuple is read.
#[derive(Debug, Clone, Copy)]
pub struct ReaderOptions {
    /// Verify the checksum of every page that is read.
    pub verify_checksums: bool,
    /// Give uncompressed pages out of a memory map where they can be used as they are.
    pub memory_map: bool,
}

impl Default for ReaderOptions {
    fn default() -> Self {
        Self {
            verify_checksums: true,
            memory_map: true,
        }
    }
}

/// The page list of a cluster group.
#[derive(Debug)]
struct Group {
    /// Its bytes as stored, if they came with the opening.
    stored: Option<Bytes>,
    list: OnceLock<Arc<PageList>>,
}

impl Group {
    fn new(metadata: &dyn ByteSource, link: &EnvelopeLink, max_key_size: u64) -> Self {
        let whole = max_key_size == 0 || link.locator.size <= max_key_size;
        // copied, so that what was fetched around it can go
        let stored = metadata.peek(&link_range(link)).filter(|_| whole);
        Self {
            stored: stored.map(|bytes| Bytes::copy_from_slice(&bytes)),
            list: OnceLock::new(),
        }
    }
}

fn link_range(link: &EnvelopeLink) -> Range<u64> {
    link.locator.offset..link.locator.offset.saturating_add(link.locator.size)
}

/// An open RNTuple.
#[derive(Debug)]
pub struct Reader {
    source: Arc<dyn ByteSource>,
    path: String,
    options: ReaderOptions,
    descriptor: Descriptor,
    names: FieldNames,
    paths: Vec<Option<String>>,
    by_path: OnceLock<HashMap<String, FieldId>>,
    groups: Vec<Group>,
    stats: Arc<Stats>,
}

impl Reader {
    /// Reads header and footer in one vector read. `metadata` may be a layer over `source` that holds parts of it
    /// in memory (page lists among them are kept);
    /// `path` is the object's path in its file, for messages.
    pub fn open(
        source: Arc<dyn ByteSource>,
        metadata: &dyn ByteSource,
        path: &str,
        anchor: Anchor,
        options: ReaderOptions,
    ) -> Result<Self, RNTupleError> {
        let stats = Arc::new(Stats::default());
        let context = Context {
            url: source.url(),
            path,
            source: metadata,
            max_key_size: anchor.max_key_size,
            stats: &stats,
        };
        let links = [
            file_link(anchor.seek_header, anchor.n_bytes_header, anchor.len_header),
            file_link(anchor.seek_footer, anchor.n_bytes_footer, anchor.len_footer),
        ];
        let envelopes = context.envelopes(&links, "header or footer")?;
        let [header, footer] = envelopes.as_slice() else {
            return Err(context.inconsistent("envelopes", "2", envelopes.len()));
        };
        let spec = |structure, offset| {
            move |source| RNTupleError::Spec {
                url: context.url.into(),
                ntuple: path.into(),
                structure,
                offset,
                source,
            }
        };
        let header = Header::parse(header).map_err(spec("header", anchor.seek_header))?;
        let footer = Footer::parse(footer).map_err(spec("footer", anchor.seek_footer))?;
        let descriptor =
            Descriptor::new(anchor, header, footer).map_err(spec("schema", anchor.seek_header))?;
        let names = FieldNames::new(&descriptor);
        let descriptor = descriptor.without_unreadable(&names);
        Ok(Self {
            names,
            paths: field_paths(&descriptor),
            by_path: OnceLock::new(),
            groups: descriptor
                .cluster_groups
                .iter()
                .map(|group| Group::new(metadata, &group.page_list, anchor.max_key_size))
                .collect(),
            path: path.to_owned(),
            source,
            options,
            descriptor,
            stats,
        })
    }

    /// The descriptor.
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// Where the bytes come from.
    pub fn source(&self) -> &Arc<dyn ByteSource> {
        &self.source
    }

    /// URL of the source.
    pub fn url(&self) -> &str {
        self.source.url()
    }

    /// Path of the object in its file.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The options it was opened with.
    pub fn options(&self) -> ReaderOptions {
        self.options
    }

    /// Counters of all reads.
    pub fn stats(&self) -> &Arc<Stats> {
        &self.stats
    }

    /// Names of the fields as members.
    pub fn names(&self) -> &FieldNames {
        &self.names
    }

    /// Dotted path of every field; none for anonymous ones.
    pub fn paths(&self) -> &[Option<String>] {
        &self.paths
    }

    /// The path of a field; of an anonymous one, the names of all fields above it and its own.
    pub fn label(&self, id: FieldId) -> String {
        let path = self.paths.get(id as usize).cloned().flatten();
        path.unwrap_or_else(|| self.descriptor.qualified_name(id))
    }

    /// Number of entries.
    pub fn n_entries(&self) -> u64 {
        self.descriptor.n_entries()
    }

    /// The field with this path; a miss lists the nearest names.
    pub fn field_by_path(&self, path: &str) -> Result<FieldId, RNTupleError> {
        let map = self.by_path.get_or_init(|| {
            let named = (0u32..)
                .zip(&self.paths)
                .filter_map(|(id, path)| Some((path.clone()?, id)));
            // the first of equal paths wins
            named.fold(HashMap::new(), |mut map, (path, id)| {
                map.entry(path).or_insert(id);
                map
            })
        });
        let error = |hint| RNTupleError::NoSuchField {
            url: self.url().into(),
            ntuple: self.path.clone(),
            name: path.into(),
            hint,
        };
        match map.get(path) {
            Some(&id) => match self.skip_reason(id) {
                None => Ok(id),
                Some(reason) => Err(self.unsupported(path, reason)),
            },
            None => {
                let near = nearest(path, map.keys().map(String::as_str));
                let hint = if near.is_empty() {
                    String::new()
                } else {
                    format!("; did you mean {}?", near.join(", "))
                };
                Err(error(hint))
            }
        }
    }

    fn skip_reason(&self, id: FieldId) -> Option<&str> {
        let top = self.descriptor.top_of(id);
        self.descriptor
            .skipped
            .iter()
            .find(|skipped| skipped.id == top)
            .map(|skipped| skipped.reason.as_str())
    }

    pub(super) fn unsupported(&self, name: &str, reason: &str) -> RNTupleError {
        RNTupleError::Unsupported {
            url: self.url().into(),
            ntuple: self.path.clone(),
            name: name.into(),
            reason: reason.into(),
        }
    }

    pub(super) fn inconsistent(
        &self,
        what: &str,
        expected: impl ToString,
        found: impl ToString,
    ) -> RNTupleError {
        self.context(&*self.source)
            .inconsistent(what, expected, found)
    }

    fn context<'a>(&'a self, source: &'a dyn ByteSource) -> Context<'a> {
        Context {
            url: self.url(),
            path: &self.path,
            source,
            max_key_size: self.descriptor.anchor.max_key_size,
            stats: &self.stats,
        }
    }

    /// The page lists of the cluster groups that hold entries of the range, each with the id of its first cluster;
    /// those not yet known are fetched in one vector read.
    pub fn page_lists(
        &self,
        entries: Range<u64>,
    ) -> Result<Vec<(u64, Arc<PageList>)>, RNTupleError> {
        let mut first_cluster = 0u64;
        let mut wanted = Vec::new();
        for (index, group) in self.descriptor.cluster_groups.iter().enumerate() {
            let end = group.min_entry.saturating_add(group.entry_span);
            if group.min_entry < entries.end && end > entries.start {
                wanted.push((index, first_cluster));
            }
            first_cluster = first_cluster.saturating_add(u64::from(group.n_clusters));
        }
        self.load_groups(wanted.iter().map(|&(index, _)| index))?;
        let loaded = wanted.into_iter().filter_map(|(index, first)| {
            Some((first, self.groups.get(index)?.list.get()?.clone()))
        });
        Ok(loaded.collect())
    }

    /// The page list of one cluster group.
    pub fn page_list(&self, group: usize) -> Result<Option<Arc<PageList>>, RNTupleError> {
        self.load_groups(std::iter::once(group))?;
        Ok(self
            .groups
            .get(group)
            .and_then(|group| group.list.get().cloned()))
    }

    fn load_groups(&self, groups: impl Iterator<Item = usize>) -> Result<(), RNTupleError> {
        let missing: Vec<usize> = groups
            .filter(|&i| self.groups.get(i).is_some_and(|g| g.list.get().is_none()))
            .collect();
        let links: Vec<EnvelopeLink> = missing
            .iter()
            .filter_map(|&i| self.descriptor.cluster_groups.get(i))
            .map(|g| g.page_list)
            .collect();
        if links.is_empty() {
            return Ok(());
        }
        let stored = missing
            .iter()
            .map(|&i| self.groups.get(i).and_then(|group| group.stored.clone()));
        let known = Known {
            source: &*self.source,
            ranges: links.iter().map(link_range).zip(stored).collect(),
        };
        let envelopes = self.context(&known).envelopes(&links, "page list")?;
        for ((index, bytes), link) in missing.into_iter().zip(envelopes).zip(&links) {
            let list =
                PageList::parse(&bytes, self.descriptor.header_checksum).map_err(|source| {
                    RNTupleError::Spec {
                        url: self.url().into(),
                        ntuple: self.path.clone(),
                        structure: "page list",
                        offset: link.locator.offset,
                        source,
                    }
                })?;
            let expected = self
                .descriptor
                .cluster_groups
                .get(index)
                .map_or(0, |g| g.n_clusters);
            if list.clusters().len() != expected as usize {
                return Err(self.inconsistent(
                    "number of clusters in a page list",
                    expected,
                    list.clusters().len(),
                ));
            }
            if let Some(Group { list: slot, .. }) = self.groups.get(index) {
                // another thread may have been first, with the same list
                let _ = slot.set(Arc::new(list));
            }
        }
        Ok(())
    }

    /// Opens an attribute set.
    pub fn attribute_set(&self, link: &LinkedAttributeSet) -> Result<Reader, RNTupleError> {
        let context = self.context(&*self.source);
        let locator = EnvelopeLink {
            length: u64::from(link.anchor_length),
            locator: link.anchor,
        };
        let bytes = context
            .envelopes(&[locator], "attribute set's anchor")?
            .pop()
            .unwrap_or_default();
        let anchor = Anchor::parse(&bytes).map_err(|source| RNTupleError::Spec {
            url: self.url().into(),
            ntuple: link.name.clone(),
            structure: "anchor",
            offset: link.anchor.offset,
            source,
        })?;
        Reader::open(
            self.source.clone(),
            &*self.source,
            &link.name,
            anchor,
            self.options,
        )
    }

    /// Reads a payload that may be split over several keys.
    pub(super) fn read_blob(&self, offset: u64, size: u64) -> Result<Bytes, RNTupleError> {
        let context = self.context(&*self.source);
        context
            .blobs(&[(offset, size)])
            .map(|mut blobs| blobs.pop().unwrap_or_default())
    }

    /// Whether a payload of this size is split over several keys.
    pub(super) fn is_split(&self, size: u64) -> bool {
        size > self.largest_key()
    }

    /// The largest payload of a key.
    pub(super) fn largest_key(&self) -> u64 {
        match self.descriptor.anchor.max_key_size {
            0 => u64::MAX,
            size => size,
        }
    }
}

fn file_link(offset: u64, size: u64, length: u64) -> EnvelopeLink {
    EnvelopeLink {
        length,
        locator: Locator {
            kind: LocatorKind::File,
            size,
            offset,
        },
    }
}

/// A source of which some ranges are in memory.
#[derive(Debug)]
struct Known<'a> {
    source: &'a dyn ByteSource,
    ranges: Vec<(Range<u64>, Option<Bytes>)>,
}

impl ByteSource for Known<'_> {
    fn url(&self) -> &str {
        self.source.url()
    }

    fn meta(&self) -> &SourceMeta {
        self.source.meta()
    }

    fn cost(&self) -> SourceCost {
        self.source.cost()
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, IoError> {
        let known = |range: &Range<u64>| {
            self.ranges
                .iter()
                .find(|(r, _)| r == range)
                .and_then(|(_, b)| b.clone())
        };
        let known: Vec<Option<Bytes>> = ranges.iter().map(known).collect();
        let missing = ranges
            .iter()
            .zip(&known)
            .filter(|(_, known)| known.is_none());
        let missing: Vec<Range<u64>> = missing.map(|(range, _)| range.clone()).collect();
        let read = if missing.is_empty() {
            Vec::new()
        } else {
            self.source.read_ranges(&missing)?
        };
        let mut read = read.into_iter();
        Ok(known
            .into_iter()
            .filter_map(|known| known.or_else(|| read.next()))
            .collect())
    }
}

/// What is needed to read metadata.
#[derive(Clone, Copy)]
struct Context<'a> {
    url: &'a str,
    path: &'a str,
    source: &'a dyn ByteSource,
    max_key_size: u64,
    stats: &'a Stats,
}

impl Context<'_> {
    fn inconsistent(
        &self,
        what: &str,
        expected: impl ToString,
        found: impl ToString,
    ) -> RNTupleError {
        RNTupleError::Inconsistent {
            url: self.url.into(),
            ntuple: self.path.into(),
            what: what.into(),
            expected: expected.to_string(),
            found: found.to_string(),
        }
    }

    /// Reads and decompresses envelopes.
    fn envelopes(
        &self,
        links: &[EnvelopeLink],
        structure: &'static str,
    ) -> Result<Vec<Bytes>, RNTupleError> {
        for link in links {
            if let LocatorKind::Other(kind) = link.locator.kind {
                return Err(self.inconsistent(
                    &format!("locator of the {structure}"),
                    "an offset in the file",
                    format!("locator type {kind:#x}"),
                ));
            }
            if link.length > LARGEST_ENVELOPE || link.locator.size > link.length {
                let found = format!("{} stored as {}", link.length, link.locator.size);
                return Err(self.inconsistent(
                    &format!("size of the {structure}"),
                    "stored size ≤ length ≤ 4 GiB",
                    found,
                ));
            }
        }
        let places: Vec<(u64, u64)> = links
            .iter()
            .map(|link| (link.locator.offset, link.locator.size))
            .collect();
        let blobs = self.blobs(&places)?;
        blobs
            .into_iter()
            .zip(links)
            .map(|(stored, link)| self.decompress(stored, link, structure))
            .collect()
    }

    fn decompress(
        &self,
        stored: Bytes,
        link: &EnvelopeLink,
        structure: &str,
    ) -> Result<Bytes, RNTupleError> {
        if link.locator.size == link.length {
            return Ok(stored);
        }
        let length = usize::try_from(link.length).unwrap_or(usize::MAX);
        let mut bytes = vec![0; length];
        let result = Decompressor::new().decompress(&stored, &mut bytes);
        result.map_err(|source| RNTupleError::Codec {
            url: self.url.into(),
            ntuple: self.path.into(),
            structure: structure.into(),
            offset: link.locator.offset,
            source,
        })?;
        Ok(bytes.into())
    }

    /// Reads payloads (offset, size) in one vector read, or two where some are split over several keys.
    fn blobs(&self, places: &[(u64, u64)]) -> Result<Vec<Bytes>, RNTupleError> {
        let first = |&(offset, size): &(u64, u64)| {
            let stored = if self.max_key_size > 0 {
                size.min(self.max_key_size)
            } else {
                size
            };
            self.range(offset, stored)
        };
        let ranges: Vec<Range<u64>> = places.iter().map(first).collect::<Result<_, _>>()?;
        let mut blobs = self.read(&ranges)?;
        for (blob, &(_, size)) in blobs.iter_mut().zip(places) {
            if self.max_key_size > 0 && size > self.max_key_size {
                *blob = self.join(blob, size)?;
            }
        }
        Ok(blobs)
    }

    /// Joins a payload whose first key ends with the offsets of the other keys.
    fn join(&self, first: &Bytes, size: u64) -> Result<Bytes, RNTupleError> {
        let largest = self.max_key_size;
        if largest < SMALLEST_KEY || size > self.source.meta().size {
            let found = format!("{size} bytes in keys of {largest}");
            return Err(self.inconsistent(
                "payload over MaxKeySize",
                "keys of 64 bytes or more, within the file",
                found,
            ));
        }
        let mut n_keys = size.div_ceil(largest);
        while n_keys
            .saturating_mul(largest)
            .saturating_sub(8 * (n_keys - 1))
            < size
        {
            n_keys += 1;
        }
        let pointers = usize::try_from(8 * (n_keys - 1)).unwrap_or(usize::MAX);
        let Some((data, offsets)) = first
            .len()
            .checked_sub(pointers)
            .and_then(|at| first.split_at_checked(at))
        else {
            return Err(self.inconsistent(
                "payload over MaxKeySize",
                format!("{pointers} bytes of offsets"),
                first.len(),
            ));
        };
        let mut left = size - data.len() as u64;
        let mut ranges = Vec::new();
        for pointer in offsets.as_chunks::<8>().0 {
            let part = left.min(largest);
            ranges.push(self.range(u64::from_le_bytes(*pointer), part)?);
            left -= part;
        }
        let parts = self.read(&ranges)?;
        Ok(std::iter::once(data)
            .chain(parts.iter().map(|part| &part[..]))
            .collect::<Vec<_>>()
            .concat()
            .into())
    }

    fn range(&self, offset: u64, size: u64) -> Result<Range<u64>, RNTupleError> {
        let end = offset
            .checked_add(size)
            .filter(|&end| end <= self.source.meta().size);
        end.map(|end| offset..end).ok_or_else(|| {
            let found = format!("{size} bytes at offset {offset}");
            self.inconsistent(
                "position of a payload",
                format!("a range in {} bytes", self.source.meta().size),
                found,
            )
        })
    }

    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, RNTupleError> {
        let start = std::time::Instant::now();
        let bytes = self.source.read_ranges(ranges)?;
        let total: u64 = ranges.iter().map(|r| r.end - r.start).sum();
        add(&self.stats.requests, 1);
        add(&self.stats.ranges, ranges.len() as u64);
        add(&self.stats.bytes_read, total);
        add(&self.stats.bytes_needed, total);
        add(&self.stats.io_ns, elapsed(start));
        Ok(bytes)
    }
}
