//! Ntuples: opening, metadata, Arrow streams of entries, and lookup of entries.

use std::sync::{Arc, OnceLock};

use super::error::{border_of, fb_error, free, handle};
use super::given::Given;
use super::input::{array, array_mut, fb_text, given, given_mut};
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use femtobarn::events::EventsError;
use femtobarn::read::{Reader, ReaderOptions};
use femtobarn::schema::{FieldId, is_anonymous};
use femtobarn::spec::Role;
use femtobarn::ttree::Tree;
use femtobarn::{
    BatchStream, EntryIndex, Error, NTuple, OpenOptions, Selection, StepsOptions, StreamTypes,
    Target,
};

/// The step of a stream that the caller limits by memory alone.
const STEP_BYTES: u64 = 64 << 20;

/// Stands for a missing entry.
pub const FB_NO_ENTRY: u64 = u64::MAX;

/// Stands for the parent of a top-level field.
pub const FB_NO_FIELD: u32 = u32::MAX;

/// A field with one value per entry or per item: a number, a string, an enum, or a fixed-size array if `array_size` is
/// not 0.
pub const FB_PLAIN: u32 = 0;
/// A field with a variable number of items.
pub const FB_COLLECTION: u32 = 1;
/// A field with members.
pub const FB_RECORD: u32 = 2;
/// A field with one of several types.
pub const FB_VARIANT: u32 = 3;
/// A field with serialized objects.
pub const FB_STREAMER: u32 = 4;

/// In a stream, booleans are bytes (Arrow's uint8), not bits.
pub const FB_BYTE_BOOLEANS: u32 = 1;
/// In a stream, strings are binary data, which need not be valid UTF-8.
pub const FB_RAW_STRINGS: u32 = 2;
/// The next step of a stream is read when it is requested, not in the background.
pub const FB_NO_PREFETCH: u32 = 4;

/// Runs a function that may wait for files; the extension of Python releases the GIL meanwhile.
pub type Around = fn(&mut (dyn FnMut() + Send));

/// One or more files as one ntuple. Several threads may use it at the same time.
pub struct fb_ntuple {
    ntuple: Arc<NTuple>,
    fields: OnceLock<(Vec<Listed>, usize)>,
    clusters: OnceLock<Vec<fb_range>>,
    urls: Vec<String>,
    around: Option<Around>,
}

/// The batches of a stream.
struct Batches {
    stream: BatchStream,
    around: Option<Around>,
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let Some(around) = self.around else {
            return self.stream.next();
        };
        let mut next = None;
        around(&mut || next = self.stream.next());
        next
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        self.stream.schema()
    }
}

/// Finds entries by the values of integer fields.
pub struct fb_index {
    index: EntryIndex,
}

/// A field in the list of fields.
struct Listed {
    id: FieldId,
    parent: u32,
    path: String,
    is_anonymous: bool,
    branch: String,
    is_tstring: bool,
}

/// Consecutive entries.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fb_range {
    /// The number of the first entry.
    pub first_entry: u64,
    /// The number of entries.
    pub num_entries: u64,
}

/// A field.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fb_field {
    /// The name in the file: `_0` for items of collections.
    pub name: fb_text,
    /// The path, as in Python: `Muon.pt`, without the names of items. Items have the path of their collection.
    pub path: fb_text,
    /// The C++ type; may be empty for records and collections without a class.
    pub type_name: fb_text,
    /// The description.
    pub description: fb_text,
    /// The number of the parent in the list of fields; FB_NO_FIELD for top-level fields.
    pub parent: u32,
    /// The structure: FB_PLAIN, …
    pub role: u32,
    /// The size of a fixed-size array, or 0.
    pub array_size: u64,
    /// Whether the field is not part of paths: an item of a collection or array, or a base class.
    pub is_anonymous: bool,
    /// The full name of the branch that a field of a TTree has, as TBranch::GetFullName: `p4.fCoordinates.fPt`; else empty.
    pub branch: fb_text,
    /// Whether the strings of a field of a TTree are objects of ROOT's class TString.
    pub is_tstring: bool,
}

/// Options of a stream. Zero stands for the default.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct fb_stream_options {
    /// The first entry.
    pub entry_start: u64,
    /// The end of the entries, exclusive; 0 for all entries.
    pub entry_stop: u64,
    /// Number of entries per batch; by default as many as take `step_bytes`.
    pub step: u64,
    /// Memory of a batch in bytes; by default 64 MiB.
    pub step_bytes: u64,
    /// Number of decoding threads; by default 1.
    pub threads: usize,
    /// The sum of FB_BYTE_BOOLEANS, FB_RAW_STRINGS and FB_NO_PREFETCH.
    pub flags: u32,
}

/// An error from files or from arguments.
pub enum Failure {
    /// From files.
    File(Error),
    /// From arguments.
    Argument(EventsError),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::File(error)
    }
}

impl From<EventsError> for Failure {
    fn from(error: EventsError) -> Self {
        Self::Argument(error)
    }
}

impl From<Failure> for fb_error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::File(error) => error.into(),
            Failure::Argument(error) => error.into(),
        }
    }
}

/// A wrong argument.
pub fn usage(what: String) -> Failure {
    Failure::File(Error::Usage { what })
}

/// The options of `fb_ntuple_open`.
fn open_options(json: &str) -> Result<OpenOptions, Failure> {
    const KNOWN: [&str; 4] = [
        "verify_checksums",
        "memory_map",
        "allow_missing",
        "storage_options",
    ];
    let mut reader = ReaderOptions::default();
    let mut options = OpenOptions::default();
    for (key, value) in Given::all(json, &KNOWN)? {
        match key.as_str() {
            "verify_checksums" => reader.verify_checksums = value.flag()?,
            "memory_map" => reader.memory_map = value.flag()?,
            "allow_missing" => options.allow_missing = value.flag()?,
            _ => options.settings = value.settings()?,
        }
    }
    options.reader = reader;
    Ok(options)
}

fn open(files: &[&str], name: Option<&str>, json: &str) -> Result<NTuple, Failure> {
    let options = open_options(json)?;
    let mut found = Vec::with_capacity(files.len());
    for text in files {
        let target = Target::parse(text)?;
        let settings = Some(&options.settings).filter(|settings| !settings.is_empty());
        let settings =
            settings.map(|given| femtobarn::io::Settings::new(&target.file, given.clone()));
        let settings = settings.transpose().map_err(Error::from)?;
        let targets = target.expand(settings.as_ref())?.into_iter();
        let named = |target: Target| (target.file, target.name.or_else(|| name.map(str::to_owned)));
        found.extend(targets.map(named));
    }
    Ok(NTuple::open(&found, options)?)
}

impl fb_ntuple {
    /// Wraps an open ntuple.
    pub fn new(ntuple: Arc<NTuple>, around: Option<Around>) -> Self {
        let readers = ntuple.readers().iter();
        let urls = readers.map(|reader| reader.url().to_owned()).collect();
        Self {
            ntuple,
            fields: OnceLock::new(),
            clusters: OnceLock::new(),
            urls,
            around,
        }
    }

    fn first(&self) -> Option<&Arc<Reader>> {
        self.ntuple.readers().first()
    }

    /// Whether all files have a field.
    fn is_in_all(&self, path: &str) -> bool {
        let mut readers = self.ntuple.readers().iter();
        readers.all(|reader| reader.find_field(path).is_some())
    }

    /// The readable fields, each after its parent.
    fn fields(&self) -> &[Listed] {
        let (listed, n_fields) = self.listed();
        listed.get(..*n_fields).unwrap_or_default()
    }

    /// These, followed by the fields with the objects of split classes; and the number of the former.
    fn listed(&self) -> &(Vec<Listed>, usize) {
        self.fields.get_or_init(|| {
            let Some(reader) = self.first() else {
                return Default::default();
            };
            let descriptor = reader.descriptor();
            let left_out = self.ntuple.left_out();
            let mut branches = Tree::branch_names(reader);
            let objects = Tree::objects(reader).iter().map(|&(_, id)| id);
            let objects = objects.filter(|&id| self.is_in_all(descriptor.field_name(id)));
            let top: Vec<FieldId> = descriptor
                .top_level
                .iter()
                .copied()
                .chain(objects)
                .collect();
            let first_object = top.get(descriptor.top_level.len()).copied();
            let mut n_fields = None;
            let top = top.into_iter().rev();
            let mut pending: Vec<(FieldId, u32)> = top.map(|id| (id, FB_NO_FIELD)).collect();
            let mut listed: Vec<Listed> = Vec::with_capacity(descriptor.fields.len());
            while let Some((id, parent)) = pending.pop() {
                if Some(id) == first_object {
                    n_fields = Some(listed.len());
                }
                let own = reader.paths().get(id as usize).and_then(Option::as_deref);
                if own.is_some_and(|path| left_out.reason(path).is_some()) {
                    continue;
                }
                let above = listed.get(parent as usize).map(|field| field.path.as_str());
                let path = own.or(above).unwrap_or_default().to_owned();
                let at = u32::try_from(listed.len()).unwrap_or(FB_NO_FIELD);
                let is_anonymous = is_anonymous(descriptor, id);
                listed.push(Listed {
                    id,
                    parent,
                    path,
                    is_anonymous,
                    branch: branches.remove(&id).unwrap_or_default(),
                    is_tstring: Tree::is_tstring(reader, id),
                });
                let children = descriptor
                    .field(id)
                    .map_or(&[][..], |field| &field.children);
                pending.extend(children.iter().rev().map(|&child| (child, at)));
            }
            let n_fields = n_fields.unwrap_or(listed.len());
            (listed, n_fields)
        })
    }

    fn clusters(&self) -> Result<&[fb_range], Error> {
        if let Some(clusters) = self.clusters.get() {
            return Ok(clusters);
        }
        let mut clusters = Vec::new();
        let files = self.ntuple.readers().iter().zip(self.ntuple.file_starts());
        for (reader, first) in files {
            for group in 0..reader.descriptor().cluster_groups.len() {
                let Some(pages) = reader.page_list(group)? else {
                    continue;
                };
                clusters.extend(pages.clusters().iter().map(|cluster| fb_range {
                    first_entry: first.saturating_add(cluster.first_entry),
                    num_entries: cluster.n_entries,
                }));
            }
        }
        Ok(self.clusters.get_or_init(|| clusters))
    }

    fn stream(
        &self,
        fields: Option<&[String]>,
        options: fb_stream_options,
    ) -> Result<BatchStream, Failure> {
        let selection = self.ntuple.select(fields)?;
        let n_entries = self.ntuple.n_entries();
        let stop = match options.entry_stop {
            0 => n_entries,
            stop => stop,
        };
        if options.entry_start > stop || stop > n_entries {
            let start = options.entry_start;
            return Err(usage(format!(
                "invalid entries {start} to {stop}: the ntuple has {n_entries} entries"
            )));
        }
        let entries = options.entry_start..stop;
        let step = match (options.step, options.step_bytes) {
            (0, bytes) => {
                let bytes = if bytes == 0 { STEP_BYTES } else { bytes };
                self.ntuple.step_of_bytes(&selection, &entries, bytes)?
            }
            (step, _) => step,
        };
        let steps = StepsOptions {
            step,
            threads: options.threads.max(1),
            prefetch: options.flags & FB_NO_PREFETCH == 0,
            ..StepsOptions::default()
        };
        let types = stream_types(options.flags);
        let ntuple = self.ntuple.clone();
        Ok(BatchStream::new(ntuple, &selection, entries, steps, types)?)
    }
}

fn stream_types(flags: u32) -> StreamTypes {
    StreamTypes {
        byte_booleans: flags & FB_BYTE_BOOLEANS != 0,
        raw_strings: flags & FB_RAW_STRINGS != 0,
    }
}

/// Strings from C.
///
/// # Safety
///
/// `texts` has `n` strings; it may be null if `n` is 0.
pub unsafe fn strings<'a>(texts: *const fb_text, n: usize) -> Result<Vec<&'a str>, EventsError> {
    // SAFETY: as the caller promises.
    let texts = unsafe { array(texts, n) }.iter();
    // SAFETY: as the caller promises.
    texts.map(|text| unsafe { text.read() }).collect()
}

/// Fields from C; none for all fields if the pointer is null.
///
/// # Safety
///
/// `fields` has `n` strings, or is null.
unsafe fn chosen(fields: *const fb_text, n: usize) -> Result<Option<Vec<String>>, EventsError> {
    if fields.is_null() {
        return Ok(None);
    }
    // SAFETY: as the caller promises.
    let fields = unsafe { strings(fields, n) }?;
    Ok(Some(fields.into_iter().map(str::to_owned).collect()))
}

/// Opens files as one ntuple. Each string is a path, a URL or a pattern, with or without `:NAME` at its end; `name` is the
/// name in files without one, and may be empty if a file has only one ntuple.
///
/// `options` is empty or a JSON object with any of the options of femtobarn.open in Python:
/// {"verify_checksums": true, "memory_map": true, "allow_missing": false, "storage_options": {"request_timeout": 20}}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_ntuple_open(
    files: *const fb_text,
    n_files: usize,
    name: fb_text,
    options: fb_text,
    error: *mut *mut fb_error,
) -> *mut fb_ntuple {
    let make = || -> Result<_, Failure> {
        // SAFETY: the caller passes strings.
        let (files, name, options) =
            unsafe { (strings(files, n_files)?, name.read()?, options.read()?) };
        let name = Some(name).filter(|name| !name.is_empty());
        let ntuple = open(&files, name, options)?;
        Ok(handle(fb_ntuple::new(Arc::new(ntuple), None)))
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border_of(error, std::ptr::null_mut(), make) }
}

/// Frees an ntuple. Streams and indexes that were made from it may live longer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_ntuple_free(ntuple: *mut fb_ntuple) {
    // SAFETY: the caller passes an ntuple that is not freed, or NULL.
    unsafe { free(ntuple) };
}

/// Returns the name of the ntuple in its first file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_ntuple_name(ntuple: *const fb_ntuple) -> fb_text {
    // SAFETY: the caller passes an ntuple, or NULL.
    let first = unsafe { ntuple.as_ref() }.and_then(fb_ntuple::first);
    fb_text::of(first.map_or("", |reader| &reader.descriptor().name))
}

/// Returns whether it is a TTree.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_ntuple_is_tree(ntuple: *const fb_ntuple) -> bool {
    // SAFETY: the caller passes an ntuple, or NULL.
    let first = unsafe { ntuple.as_ref() }.and_then(fb_ntuple::first);
    first.is_some_and(|reader| reader.storage().is_some())
}

/// Returns the number of entries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_ntuple_num_entries(ntuple: *const fb_ntuple) -> u64 {
    // SAFETY: the caller passes an ntuple, or NULL.
    unsafe { ntuple.as_ref() }.map_or(0, |ntuple| ntuple.ntuple.n_entries())
}

/// Returns the number of files.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_ntuple_num_files(ntuple: *const fb_ntuple) -> usize {
    // SAFETY: the caller passes an ntuple, or NULL.
    unsafe { ntuple.as_ref() }.map_or(0, |ntuple| ntuple.urls.len())
}

/// Returns the URL of a file without secrets, and its entries; false if the ntuple has fewer files.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_ntuple_file(
    ntuple: *const fb_ntuple,
    file: usize,
    url: *mut fb_text,
    entries: *mut fb_range,
) -> bool {
    // SAFETY: the caller passes an ntuple, or NULL.
    let Some(ntuple) = (unsafe { ntuple.as_ref() }) else {
        return false;
    };
    let starts = ntuple.ntuple.file_starts().get(file..);
    let (Some(own), Some([first, end, ..])) = (ntuple.urls.get(file), starts) else {
        return false;
    };
    // SAFETY: the caller passes pointers to results, or NULL.
    let (url, entries) = unsafe { (url.as_mut(), entries.as_mut()) };
    if let Some(url) = url {
        *url = fb_text::of(own);
    }
    if let Some(entries) = entries {
        *entries = fb_range {
            first_entry: *first,
            num_entries: end - first,
        };
    }
    true
}

/// Returns the number of fields, with all subfields. Fields that are not in all files are left out.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_ntuple_num_fields(ntuple: *const fb_ntuple) -> usize {
    // SAFETY: the caller passes an ntuple, or NULL.
    unsafe { ntuple.as_ref() }.map_or(0, |ntuple| ntuple.fields().len())
}

/// Returns the number of fields that follow them: whole objects of classes that are split into branches of a TTree, with
/// all subfields. `Jets/` has the objects of the branch `Jets`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_ntuple_num_object_fields(ntuple: *const fb_ntuple) -> usize {
    // SAFETY: the caller passes an ntuple, or NULL.
    let listed = unsafe { ntuple.as_ref() }.map(fb_ntuple::listed);
    listed.map_or(0, |(listed, n_fields)| listed.len() - n_fields)
}

/// Returns a field; false if there are fewer fields. Each field has a higher number than its parent.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_ntuple_field(
    ntuple: *const fb_ntuple,
    number: usize,
    field: *mut fb_field,
) -> bool {
    // SAFETY: the caller passes an ntuple and a pointer to the result, or NULL.
    let (ntuple, out) = unsafe { (ntuple.as_ref(), field.as_mut()) };
    let listed = ntuple.and_then(|ntuple| Some((ntuple.first()?, ntuple.listed().0.get(number)?)));
    let found = listed.and_then(|(reader, listed)| {
        let field = reader.descriptor().field(listed.id)?;
        Some((listed, &field.record))
    });
    let (Some((listed, record)), Some(out)) = (found, out) else {
        return false;
    };
    *out = fb_field {
        name: fb_text::of(&record.name),
        path: fb_text::of(&listed.path),
        type_name: fb_text::of(&record.type_name),
        description: fb_text::of(&record.description),
        parent: listed.parent,
        role: match record.role {
            Role::Collection => FB_COLLECTION,
            Role::Record => FB_RECORD,
            Role::Variant => FB_VARIANT,
            Role::Streamer => FB_STREAMER,
            Role::Plain | Role::Unknown(_) => FB_PLAIN,
        },
        array_size: record.array_size.unwrap_or(0),
        is_anonymous: listed.is_anonymous,
        branch: fb_text::of(&listed.branch),
        is_tstring: listed.is_tstring,
    };
    true
}

/// Returns the clusters of all files; their number is stored in `n`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_ntuple_clusters(
    ntuple: *const fb_ntuple,
    n: *mut usize,
    error: *mut *mut fb_error,
) -> *const fb_range {
    let make = || -> Result<_, Failure> {
        // SAFETY: the caller passes an ntuple and a pointer to a number.
        let (ntuple, n) = unsafe { (given(ntuple)?, given_mut(n)?) };
        let clusters = ntuple.clusters()?;
        *n = clusters.len();
        Ok(clusters.as_ptr())
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border_of(error, std::ptr::null(), make) }
}

/// Stores the Arrow schema of fields, given by their paths, in `schema`. NULL stands for all fields. `flags` are those of
/// fb_stream_options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_ntuple_schema(
    ntuple: *const fb_ntuple,
    fields: *const fb_text,
    n_fields: usize,
    flags: u32,
    schema: *mut FFI_ArrowSchema,
    error: *mut *mut fb_error,
) -> bool {
    let make = || -> Result<_, Failure> {
        // SAFETY: the caller passes an ntuple, and strings or NULL.
        let (ntuple, fields) = unsafe { (given(ntuple)?, chosen(fields, n_fields)?) };
        let selection: Selection = ntuple.ntuple.select(fields.as_deref())?;
        let entries = 0..ntuple.ntuple.n_entries();
        let selection = ntuple.ntuple.without_unreadable(&selection, &entries)?;
        let exported = selection.arrow_schema_of(stream_types(flags));
        let exported = FFI_ArrowSchema::try_from(&exported)
            .map_err(|error| usage(format!("Arrow has no such schema: {error}")))?;
        // SAFETY: the caller passes a pointer to a schema without content.
        unsafe { schema.write(exported) };
        Ok(true)
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border_of(error, false, make) }
}

/// Stores an Arrow stream of fields, given by their paths, in `stream`. NULL stands for all fields, or for the default
/// options. Errors of reading are those of the stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_ntuple_stream(
    ntuple: *const fb_ntuple,
    fields: *const fb_text,
    n_fields: usize,
    options: *const fb_stream_options,
    stream: *mut FFI_ArrowArrayStream,
    error: *mut *mut fb_error,
) -> bool {
    let make = || -> Result<_, Failure> {
        // SAFETY: the caller passes an ntuple, strings or NULL, and options or NULL.
        let (ntuple, fields, options) =
            unsafe { (given(ntuple)?, chosen(fields, n_fields)?, options.as_ref()) };
        let batches = Batches {
            stream: ntuple.stream(fields.as_deref(), options.copied().unwrap_or_default())?,
            around: ntuple.around,
        };
        // SAFETY: the caller passes a pointer to a stream without content.
        unsafe { stream.write(FFI_ArrowArrayStream::new(Box::new(batches))) };
        Ok(true)
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border_of(error, false, make) }
}

/// Reads integer fields of all entries, such as run, luminosityBlock and event, to find entries by their values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_ntuple_index(
    ntuple: *const fb_ntuple,
    fields: *const fb_text,
    n_fields: usize,
    threads: usize,
    error: *mut *mut fb_error,
) -> *mut fb_index {
    let make = || -> Result<_, Failure> {
        // SAFETY: the caller passes an ntuple and strings.
        let (ntuple, fields) = unsafe { (given(ntuple)?, strings(fields, n_fields)?) };
        if fields.is_empty() {
            return Err(usage("an index needs at least one field".into()));
        }
        let fields: Vec<String> = fields.into_iter().map(str::to_owned).collect();
        let index = EntryIndex::new(&ntuple.ntuple, &fields, threads.max(1))?;
        Ok(handle(fb_index { index }))
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border_of(error, std::ptr::null_mut(), make) }
}

/// Finds `n` entries. `values` has the values of all fields of the index for the first entry, then those for the second
/// one, and so on; unsigned integers of 64 bits are cast. Stores the first entry with these values, or FB_NO_ENTRY, in
/// `entries`. Several threads may use an index at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_index_find(
    index: *const fb_index,
    values: *const i64,
    n: usize,
    entries: *mut u64,
    error: *mut *mut fb_error,
) -> bool {
    let make = || -> Result<_, Failure> {
        // SAFETY: the caller passes an index.
        let index = &unsafe { given(index) }?.index;
        let width = index.n_fields();
        // SAFETY: the caller passes `n` values for each field, and room for `n` numbers.
        let (values, entries) = unsafe {
            let values = array(values, n.saturating_mul(width));
            let is_missing = n > 0 && (values.is_empty() || entries.is_null());
            if is_missing {
                return Err(usage("values and entries must not be NULL".into()));
            }
            (values, array_mut(entries, n))
        };
        for (entry, key) in entries.iter_mut().zip(values.chunks(width)) {
            *entry = index.find(key).unwrap_or(FB_NO_ENTRY);
        }
        Ok(true)
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border_of(error, false, make) }
}

/// Frees an index.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_index_free(index: *mut fb_index) {
    // SAFETY: the caller passes an index that is not freed, or NULL.
    unsafe { free(index) };
}
