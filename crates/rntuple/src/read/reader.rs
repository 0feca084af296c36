//! An RNTuple in a page store: its descriptor, and page lists that are read when needed.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use femtobarn_io::{ByteSource, SourceCost, Stage};

use super::envelopes::Context;
use super::groups::Group;
use super::invariants::Contradiction;
use super::known::{KnownHeader, describe};
use super::stats::{Stats, add};
use super::storage::Storage;
use super::store::PageStore;
use crate::RNTupleError;
use crate::encoding::PageError;
use crate::schema::{Descriptor, FieldId, FieldNames};
use crate::spec::{
    Anchor, ColumnRecord, EnvelopeLink, Header, LinkedAttributeSet, PageAddress, StoredRange,
};
use femtobarn_io::did_you_mean;

/// Options of a reader.
#[derive(Debug, Clone, Copy)]
pub struct ReaderOptions {
    /// Whether to verify the checksum of every page that is read.
    pub verify_checksums: bool,
    /// Whether to return uncompressed pages from a memory map if possible.
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
    store: Arc<dyn PageStore>,
    path: String,
    options: ReaderOptions,
    descriptor: Descriptor,
    header: KnownHeader,
    pub(super) groups: Vec<Group>,
    stats: Arc<Stats>,
    storage: Option<Arc<dyn Storage>>,
    /// Alternative names of fields.
    aliases: Arc<HashMap<String, FieldId>>,
    /// UUID of the file; zeros if it has none.
    file_uuid: [u8; 16],
}

impl Reader {
    /// Reads header and footer in one vector read. `metadata` may be a store that has parts of `store` in memory; page
    /// lists among them are kept. `path` is the ntuple's path in its file, for messages. The header of an open file is
    /// not parsed again: files with the same header share its schema.
    ///
    /// # Errors
    /// If the metadata cannot be read, or are inconsistent.
    pub fn open(
        store: Arc<dyn PageStore>,
        metadata: &dyn PageStore,
        path: &str,
        anchor: Anchor,
        options: ReaderOptions,
    ) -> Result<Self, RNTupleError> {
        let stats = Arc::new(Stats::default());
        let context = Context {
            path,
            store: metadata,
            stats: &stats,
        };
        let (descriptor, header) = describe(&context, anchor)?;
        Ok(Self {
            header,
            groups: descriptor
                .cluster_groups
                .iter()
                .map(|group| Group::new(metadata, &group.page_list))
                .collect(),
            path: path.to_owned(),
            store: store.at_stage(Stage::Data).unwrap_or(store),
            options,
            descriptor,
            stats,
            storage: None,
            aliases: Arc::default(),
            file_uuid: [0; 16],
        })
    }

    /// The name of an ntuple, for which only the beginning of its header is parsed.
    ///
    /// # Errors
    /// If the header cannot be read, or is damaged.
    pub fn name_in(
        store: &dyn PageStore,
        path: &str,
        anchor: &Anchor,
    ) -> Result<String, RNTupleError> {
        let context = Context {
            path,
            store,
            stats: &Stats::default(),
        };
        let at = anchor.header.stored.address;
        // it is counted when the ntuple is opened
        let mut stored = store.read(&[anchor.header.stored])?;
        let stored = stored.pop().unwrap_or_default();
        let header = context.decompress(stored, &anchor.header, "header")?;
        Header::parse_name(&header).map_err(|error| context.malformed("header", at, error))
    }

    /// Creates a reader of columns in another format. Readers of the same fields share a `header` that was made for one
    /// of them ([`KnownHeader::none`]). `aliases` are alternative names of fields.
    pub fn of_storage(
        store: Arc<dyn PageStore>,
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
            store: store.at_stage(Stage::Data).unwrap_or(store),
            options,
            descriptor,
            stats: Arc::new(Stats::default()),
            storage: Some(storage),
            aliases,
            file_uuid: [0; 16],
        }
    }

    /// The same in a file with a UUID.
    pub fn in_file(mut self, uuid: [u8; 16]) -> Self {
        self.file_uuid = uuid;
        self
    }

    /// The UUID of the file; zeros if it has none, or the store is not a file.
    pub fn file_uuid(&self) -> [u8; 16] {
        self.file_uuid
    }

    /// The storage of the columns, if it is not an RNTuple.
    pub fn storage(&self) -> Option<&Arc<dyn Storage>> {
        self.storage.as_ref()
    }

    /// Alternative names of fields.
    pub fn aliases(&self) -> &HashMap<String, FieldId> {
        &self.aliases
    }

    /// The format version.
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

    /// The header, to open further files that may have the same.
    pub fn header(&self) -> &KnownHeader {
        &self.header
    }

    /// The store of pages and envelopes.
    pub fn store(&self) -> &dyn PageStore {
        &*self.store
    }

    /// The file with the pages; none if they are not in one file.
    pub fn file(&self) -> Option<&Arc<dyn ByteSource>> {
        self.store.file()
    }

    /// How requests should be cut.
    pub fn cost(&self) -> SourceCost {
        self.store.info().cost
    }

    /// URL of the store.
    pub fn url(&self) -> &str {
        self.store.info().url
    }

    /// Path of the ntuple in its file.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The options.
    pub fn options(&self) -> ReaderOptions {
        self.options
    }

    /// Counters of all reads.
    pub fn stats(&self) -> &Arc<Stats> {
        &self.stats
    }

    /// Counts bytes that were needed and read at opening, as for envelopes.
    pub fn note_metadata(&self, n_bytes: u64) {
        self.note_needed(&self.stats, n_bytes);
    }

    /// Counts bytes that were needed.
    pub(super) fn note_needed(&self, stats: &Stats, n_bytes: u64) {
        add(&stats.bytes_needed, n_bytes);
        self.note_used(n_bytes);
    }

    /// Reports used bytes to the counters of the source.
    pub fn note_used(&self, n_bytes: u64) {
        if let Some(meter) = self.store.info().meter {
            meter.note_used(n_bytes);
        }
    }

    /// Names of the fields as members.
    pub fn names(&self) -> &FieldNames {
        &self.header.named().names
    }

    /// Dotted path of every field; none for anonymous fields.
    pub fn paths(&self) -> &[Option<String>] {
        &self.header.named().paths
    }

    /// The path of a field. For an anonymous field, the names of its ancestors and its own.
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

    /// Finds a field by path. An error lists the nearest names, which takes long if there are thousands of fields; see
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

    /// Finds a readable field by path.
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

    /// The error that a field cannot be read.
    pub fn unsupported(&self, name: &str, reason: &str) -> RNTupleError {
        RNTupleError::Unsupported {
            url: self.url().into(),
            ntuple: self.path.clone(),
            name: name.into(),
            reason: reason.into(),
            hint: String::new(),
        }
    }

    /// The error that metadata and data contradict each other.
    pub fn inconsistent(
        &self,
        what: &str,
        expected: impl ToString,
        found: impl ToString,
    ) -> RNTupleError {
        self.context(self.store())
            .inconsistent(what, expected, found)
    }

    /// The error that metadata contradict each other.
    pub(crate) fn contradicted(&self, contradiction: Contradiction) -> RNTupleError {
        let Contradiction {
            what,
            expected,
            found,
        } = contradiction;
        self.inconsistent(what, expected, found)
    }

    pub(super) fn context<'a>(&'a self, store: &'a dyn PageStore) -> Context<'a> {
        Context {
            path: &self.path,
            store,
            stats: &self.stats,
        }
    }

    /// Opens an attribute set.
    pub fn attribute_set(&self, link: &LinkedAttributeSet) -> Result<Reader, RNTupleError> {
        if let Some((store, anchor)) = self.store.attribute_set(&link.name)? {
            return Self::open(store.clone(), &*store, &link.name, anchor, self.options);
        }
        let context = self.context(self.store());
        let anchor = EnvelopeLink {
            length: u64::from(link.anchor_length),
            stored: link.anchor,
        };
        let bytes = context
            .envelopes(&[anchor], "attribute set's anchor")?
            .pop()
            .unwrap_or_default();
        let context = Context {
            path: &link.name,
            ..context
        };
        let anchor = Anchor::parse(&bytes)
            .map_err(|error| context.malformed("anchor", link.anchor.address, error))?;
        Reader::open(
            self.store.clone(),
            self.store(),
            &link.name,
            anchor,
            self.options,
        )
    }

    /// Reads a payload, which may consist of several pieces.
    pub(crate) fn read_stored(&self, stored: &StoredRange) -> Result<Bytes, RNTupleError> {
        let read = self
            .context(self.store())
            .read(std::slice::from_ref(stored));
        read.map(|mut found| found.pop().unwrap_or_default())
    }
}

/// The error of a page, with its position.
pub(crate) fn page_error(
    reader: &Reader,
    record: &ColumnRecord,
    cluster: u64,
    at: PageAddress,
    source: PageError,
) -> RNTupleError {
    let field = reader.label(record.field_id);
    let structure = format!("page of field {field:?} in cluster {cluster}");
    match source {
        PageError::Codec(source) => RNTupleError::Codec {
            url: reader.url().into(),
            ntuple: reader.path().into(),
            structure,
            at,
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
            &format!("{structure} at {at}: {what}"),
            format!("{expected} bytes"),
            found,
        ),
    }
}
