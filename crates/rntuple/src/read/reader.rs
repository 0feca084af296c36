//! One RNTuple in one source: its descriptor, and page lists read when needed.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use femtobarn_io::{ByteSource, Stage};

use super::envelopes::Context;
use super::groups::Group;
use super::invariants::Contradiction;
use super::known::{KnownHeader, describe};
use super::stats::{Stats, add};
use super::storage::Storage;
use crate::RNTupleError;
use crate::encoding::PageError;
use crate::schema::{Descriptor, FieldId, FieldNames};
use crate::spec::{Anchor, ColumnRecord, EnvelopeLink, LinkedAttributeSet};
use femtobarn_io::did_you_mean;

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

/// An open RNTuple.
#[derive(Debug)]
pub struct Reader {
    source: Arc<dyn ByteSource>,
    path: String,
    options: ReaderOptions,
    descriptor: Descriptor,
    header: KnownHeader,
    pub(super) groups: Vec<Group>,
    stats: Arc<Stats>,
    storage: Option<Arc<dyn Storage>>,
    /// Other names of fields.
    aliases: Arc<HashMap<String, FieldId>>,
}

impl Reader {
    /// Reads header and footer in one vector read. `metadata` may be a layer over `source` that holds parts of it
    /// in memory (page lists among them are kept);
    /// `path` is the object's path in its file, for messages. The header of a file that is open is not parsed again: its schema
    /// is shared.
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
        let (descriptor, header) = describe(&context, anchor)?;
        Ok(Self {
            header,
            groups: descriptor
                .cluster_groups
                .iter()
                .map(|group| Group::new(metadata, &group.page_list, anchor.max_key_size))
                .collect(),
            path: path.to_owned(),
            source: source.at_stage(Stage::Data).unwrap_or(source),
            options,
            descriptor,
            stats,
            storage: None,
            aliases: Arc::default(),
        })
    }

    /// A reader of columns that are stored in another way; readers of the same fields share the `header` that was made of one
    /// of them ([`KnownHeader::none`]). `aliases` are other names of fields.
    pub fn of_storage(
        source: Arc<dyn ByteSource>,
        path: &str,
        descriptor: Descriptor,
        header: KnownHeader,
        storage: Arc<dyn Storage>,
        aliases: Arc<HashMap<String, FieldId>>,
        options: ReaderOptions,
    ) -> Self {
        let groups = descriptor.cluster_groups.iter();
        let groups = groups.map(|_| Group::default());
        Self {
            header,
            groups: groups.collect(),
            path: path.to_owned(),
            source: source.at_stage(Stage::Data).unwrap_or(source),
            options,
            descriptor,
            stats: Arc::new(Stats::default()),
            storage: Some(storage),
            aliases,
        }
    }

    /// Where the columns come from, if not from an RNTuple's pages.
    pub fn storage(&self) -> Option<&Arc<dyn Storage>> {
        self.storage.as_ref()
    }

    /// Other names of fields.
    pub fn aliases(&self) -> &HashMap<String, FieldId> {
        &self.aliases
    }

    /// The format's version.
    pub fn version(&self) -> String {
        match &self.storage {
            Some(storage) => storage.version(),
            None => self.descriptor.anchor.version(),
        }
    }

    /// The descriptor.
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// The header, with which others are opened that may have the same.
    pub fn header(&self) -> &KnownHeader {
        &self.header
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

    /// Counts bytes that were wanted and read when the ntuple was opened, as those of envelopes are.
    pub fn note_metadata(&self, n_bytes: u64) {
        self.note_needed(&self.stats, n_bytes);
    }

    /// Counts bytes that were wanted.
    pub(super) fn note_needed(&self, stats: &Stats, n_bytes: u64) {
        add(&stats.bytes_needed, n_bytes);
        if let Some(meter) = self.source.meter() {
            meter.note_used(n_bytes);
        }
    }

    /// Names of the fields as members.
    pub fn names(&self) -> &FieldNames {
        &self.header.named().names
    }

    /// Dotted path of every field; none for anonymous ones.
    pub fn paths(&self) -> &[Option<String>] {
        &self.header.named().paths
    }

    /// The path of a field; of an anonymous one, the names of all fields above it and its own.
    pub fn label(&self, id: FieldId) -> String {
        let path = self
            .header
            .named()
            .paths
            .get(id as usize)
            .cloned()
            .flatten();
        path.unwrap_or_else(|| self.descriptor.qualified_name(id))
    }

    /// Number of entries.
    pub fn n_entries(&self) -> u64 {
        self.descriptor.n_entries()
    }

    /// The field with this path; a miss lists the nearest names, which takes long where there are thousands: see
    /// [`find_field`](Self::find_field).
    pub fn field_by_path(&self, path: &str) -> Result<FieldId, RNTupleError> {
        match self.by_path(path) {
            Some(id) => match self.skip_reason(id) {
                None => Ok(id),
                Some(reason) => Err(self.unsupported(path, reason)),
            },
            None => Err(RNTupleError::NoSuchField {
                url: self.url().into(),
                ntuple: self.path.clone(),
                name: path.into(),
                hint: did_you_mean(path, self.known_paths().keys().map(String::as_str)),
            }),
        }
    }

    /// The field with this path, if there is one that can be read.
    pub fn find_field(&self, path: &str) -> Option<FieldId> {
        self.by_path(path)
            .filter(|&id| self.skip_reason(id).is_none())
    }

    fn by_path(&self, path: &str) -> Option<FieldId> {
        let found = self.known_paths().get(path);
        found.or_else(|| self.aliases.get(path)).copied()
    }

    fn known_paths(&self) -> &HashMap<String, FieldId> {
        self.header.named().by_path(&self.descriptor)
    }

    fn skip_reason(&self, id: FieldId) -> Option<&str> {
        let top = self.descriptor.top_of(id);
        self.descriptor
            .skipped
            .iter()
            .find(|skipped| skipped.id == top)
            .map(|skipped| skipped.reason.as_str())
    }

    /// The error of a field that cannot be read.
    pub fn unsupported(&self, name: &str, reason: &str) -> RNTupleError {
        RNTupleError::Unsupported {
            url: self.url().into(),
            ntuple: self.path.clone(),
            name: name.into(),
            reason: reason.into(),
            hint: String::new(),
        }
    }

    /// The error of metadata and data that contradict each other.
    pub fn inconsistent(
        &self,
        what: &str,
        expected: impl ToString,
        found: impl ToString,
    ) -> RNTupleError {
        self.context(&*self.source)
            .inconsistent(what, expected, found)
    }

    /// The error of what metadata contradict each other in.
    pub(crate) fn contradicted(&self, contradiction: Contradiction) -> RNTupleError {
        let Contradiction {
            what,
            expected,
            found,
        } = contradiction;
        self.inconsistent(what, expected, found)
    }

    pub(super) fn context<'a>(&'a self, source: &'a dyn ByteSource) -> Context<'a> {
        Context {
            url: self.url(),
            path: &self.path,
            source,
            max_key_size: self.descriptor.anchor.max_key_size,
            stats: &self.stats,
        }
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
        let context = Context {
            path: &link.name,
            ..context
        };
        let anchor = Anchor::parse(&bytes)
            .map_err(|error| context.malformed("anchor", link.anchor.offset, error))?;
        Reader::open(
            self.source.clone(),
            &*self.source,
            &link.name,
            anchor,
            self.options,
        )
    }

    /// Reads a payload that may be split over several keys.
    pub(crate) fn read_blob(&self, offset: u64, size: u64) -> Result<Bytes, RNTupleError> {
        let context = self.context(&*self.source);
        context
            .blobs(&[(offset, size)])
            .map(|mut blobs| blobs.pop().unwrap_or_default())
    }

    /// Whether a payload of this size is split over several keys.
    pub(crate) fn is_split(&self, size: u64) -> bool {
        size > self.largest_key()
    }

    /// The largest payload of a key.
    pub(crate) fn largest_key(&self) -> u64 {
        match self.descriptor.anchor.max_key_size {
            0 => u64::MAX,
            size => size,
        }
    }
}

/// An error of a page, with its place.
pub(crate) fn page_error(
    reader: &Reader,
    record: &ColumnRecord,
    cluster: u64,
    offset: u64,
    source: PageError,
) -> RNTupleError {
    let field = reader.label(record.field_id);
    let structure = format!("page of field {field:?} in cluster {cluster}");
    match source {
        PageError::Codec(source) => RNTupleError::Codec {
            url: reader.url().into(),
            ntuple: reader.path().into(),
            structure,
            offset,
            source,
        },
        PageError::Memory { bytes } => RNTupleError::Memory {
            bytes,
            reason: format!("{structure} of {}", reader.url()),
        },
        PageError::Size {
            what,
            expected,
            found,
        } => reader.inconsistent(
            &format!("{structure} at offset {offset}: {what}"),
            format!("{expected} bytes"),
            found,
        ),
    }
}
