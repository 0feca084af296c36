//! Writing an ntuple into a new file: by one thread, or by several that stage clusters.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::{RecordBatch, StructArray};
use arrow_schema::Schema;
use femtobarn::Output;
use femtobarn::events::EventsError;
use femtobarn::write::{FieldModel, NTupleWriter, Staged, StagingFill, WriteOptions, all_or_none};
use femtobarn::{Error, codec};

use super::error::{border_of, fb_error, free, handle, taken};
use super::given::Given;
use super::input::{fb_text, given, given_mut};
use super::ntuple::{Failure, strings, usage};

/// An ntuple that is being written into a new file, which appears when it is finished. Several threads may use it at the
/// same time.
pub struct fb_writer {
    shared: Arc<Shared>,
}

/// Fills clusters of an ntuple on one thread.
pub struct fb_fill {
    shared: Arc<Shared>,
    fill: StagingFill,
    generation: u64,
}

/// Complete clusters that are not part of the ntuple yet.
pub struct fb_staged {
    staged: Staged,
}

struct Shared {
    writing: Mutex<Option<(NTupleWriter, Output)>>,
    /// Changes when fields are added.
    generation: AtomicU64,
    /// Number of entries that are not committed yet.
    uncommitted: AtomicU64,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Option<(NTupleWriter, Output)>> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(
        &self,
        work: impl FnOnce(&mut NTupleWriter, &mut Output) -> Result<T, Error>,
    ) -> Result<T, Failure> {
        let mut writing = self.lock();
        let (writer, file) = writing
            .as_mut()
            .ok_or_else(|| usage("the ntuple is finished".into()))?;
        Ok(work(writer, file)?)
    }

    fn all_committed(&self) -> Result<(), Failure> {
        match self.uncommitted.load(Ordering::Relaxed) {
            0 => Ok(()),
            n => Err(usage(format!(
                "{n} entries of fills were not committed: stage and commit all fills before"
            ))),
        }
    }

    fn add_fields(&self, fields: &[FieldModel]) -> Result<bool, Failure> {
        self.all_committed()?;
        self.with(|writer, file| {
            writer.add_fields(file, fields)?;
            self.generation.fetch_add(1, Ordering::Release);
            Ok(true)
        })
    }
}

impl Drop for fb_writer {
    /// Gives up the file, also if fills are still there.
    fn drop(&mut self) {
        drop(self.shared.lock().take());
    }
}

fn begin(url: &str, path: &str, fields: &[FieldModel], json: &str) -> Result<fb_writer, Failure> {
    const KNOWN: [&str; 10] = [
        "compression",
        "cluster_size",
        "cluster_size_uncompressed",
        "page_size",
        "memory_limit",
        "page_checksums",
        "threads",
        "description",
        "replace",
        "storage_options",
    ];
    let mut options = WriteOptions::default();
    let (mut limit, mut replaces) = (None, true);
    let mut settings = std::collections::BTreeMap::new();
    for (key, value) in Given::all(json, &KNOWN)? {
        match key.as_str() {
            "compression" => {
                let text = value.text()?;
                let parsed = codec::parse_settings(text);
                let message = || format!("invalid compression {text:?}; an example is \"zstd:5\"");
                options.compression = parsed.map_err(|_| usage(message()))?;
            }
            "cluster_size" => options.cluster_bytes = value.size()?,
            "cluster_size_uncompressed" => options.cluster_bytes_uncompressed = value.size()?,
            "page_size" => options.page_bytes = value.count()?,
            "memory_limit" => limit = Some(value.size()?),
            "page_checksums" => options.page_checksums = value.flag()?,
            "threads" => options.threads = value.count()?,
            "description" => options.description = value.text()?.to_owned(),
            "replace" => replaces = value.flag()?,
            _ => settings = value.settings()?,
        }
    }
    if let Some(limit) = limit {
        options.limit_memory(limit);
    }
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let mut file = femtobarn::create_output(url, options.compression, replaces, settings)?;
    let directory = file.directory(folder)?;
    let writer = NTupleWriter::new(&mut file, directory, name, fields, options)?;
    Ok(fb_writer {
        shared: Arc::new(Shared {
            writing: Mutex::new(Some((writer, file))),
            generation: AtomicU64::new(0),
            uncommitted: AtomicU64::new(0),
        }),
    })
}

fn fields_of_types(names: &[&str], types: &[&str]) -> Result<Vec<FieldModel>, Failure> {
    let fields = names.iter().zip(types);
    let fields = fields.map(|(name, type_name)| FieldModel::from_type_name(name, type_name));
    Ok(all_or_none(fields)?)
}

fn fields_of_schema(schema: &FFI_ArrowSchema) -> Result<Vec<FieldModel>, Failure> {
    let schema = Schema::try_from(schema)
        .map_err(|error| usage(format!("the Arrow schema is invalid: {error}")))?;
    let fields = schema.fields().iter();
    Ok(all_or_none(
        fields.map(|field| FieldModel::from_arrow(field)),
    )?)
}

/// A record batch from C.
///
/// # Safety
///
/// Both are valid; `array` is released here.
unsafe fn batch_of(
    schema: *const FFI_ArrowSchema,
    array: *mut FFI_ArrowArray,
) -> Result<RecordBatch, Failure> {
    // SAFETY: the caller passes an array; what is left behind is marked as released.
    let (schema, array) = unsafe {
        given_mut(array)?;
        (given(schema)?, FFI_ArrowArray::from_raw(array))
    };
    // SAFETY: the caller says that the array has this schema.
    let data = unsafe { from_ffi(array, schema) };
    let mut data = data.map_err(|error| usage(format!("the Arrow array is invalid: {error}")))?;
    data.align_buffers();
    data.validate_full()
        .map_err(|error| usage(format!("the Arrow array is invalid: {error}")))?;
    Ok(RecordBatch::from(StructArray::from(data)))
}

/// Begins an ntuple in a new file, with fields of C++ types: "std::vector<float>" and other names that ROOT's RNTuple
/// supports. `name` may have directories: "folder/Events".
///
/// `options` is empty or a JSON object with any of {"compression": "zstd:5", "cluster_size": "128 MiB",
/// "cluster_size_uncompressed": …, "page_size": …, "memory_limit": …, "page_checksums": true, "threads": 1,
/// "description": "", "replace": true, "storage_options": {}}.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_writer_new(
    url: fb_text,
    name: fb_text,
    fields: *const fb_text,
    types: *const fb_text,
    n_fields: usize,
    options: fb_text,
    error: *mut *mut fb_error,
) -> *mut fb_writer {
    let make = || -> Result<_, Failure> {
        // SAFETY: the caller passes strings.
        let (url, name, options) = unsafe { (url.read()?, name.read()?, options.read()?) };
        // SAFETY: the caller passes strings.
        let (names, types) = unsafe { (strings(fields, n_fields)?, strings(types, n_fields)?) };
        let fields = fields_of_types(&names, &types)?;
        Ok(handle(begin(url, name, &fields, options)?))
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border_of(error, std::ptr::null_mut(), make) }
}

/// Begins an ntuple in a new file, with the fields of an Arrow schema; otherwise as fb_writer_new.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_writer_of_schema(
    url: fb_text,
    name: fb_text,
    schema: *const FFI_ArrowSchema,
    options: fb_text,
    error: *mut *mut fb_error,
) -> *mut fb_writer {
    let make = || -> Result<_, Failure> {
        // SAFETY: the caller passes strings and a schema.
        let (url, name, options, schema) =
            unsafe { (url.read()?, name.read()?, options.read()?, given(schema)?) };
        Ok(handle(begin(
            url,
            name,
            &fields_of_schema(schema)?,
            options,
        )?))
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border_of(error, std::ptr::null_mut(), make) }
}

/// Adds entries: an Arrow array of structs, one member for each field. The array is released, also on failure. Stores the
/// number of its first entry, which is final, in `first_entry` unless it is NULL. A batch is taken as a whole or not at all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_writer_extend(
    writer: *const fb_writer,
    schema: *const FFI_ArrowSchema,
    array: *mut FFI_ArrowArray,
    first_entry: *mut u64,
    error: *mut *mut fb_error,
) -> bool {
    let make = || -> Result<_, Failure> {
        // SAFETY: the caller passes a schema and an array.
        let batch = unsafe { batch_of(schema, array) }?;
        // SAFETY: the caller passes a writer, and a pointer to a number or NULL.
        let (writer, first) = unsafe { (given(writer)?, first_entry.as_mut()) };
        let entry = writer.shared.with(|writer, file| {
            let entry = writer.n_entries();
            writer.extend(file, &batch).map(|()| entry)
        })?;
        if let Some(first) = first {
            *first = entry;
        }
        Ok(true)
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border_of(error, false, make) }
}

/// Adds fields of C++ types. In existing entries they are zero, empty or missing. Entries in fills must have been
/// committed; a fill has the new fields from its next entry on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_writer_add_fields(
    writer: *const fb_writer,
    fields: *const fb_text,
    types: *const fb_text,
    n_fields: usize,
    error: *mut *mut fb_error,
) -> bool {
    let make = || -> Result<_, Failure> {
        // SAFETY: the caller passes a writer and strings.
        let (writer, names, types) = unsafe {
            let names = strings(fields, n_fields)?;
            (given(writer)?, names, strings(types, n_fields)?)
        };
        writer.shared.add_fields(&fields_of_types(&names, &types)?)
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border_of(error, false, make) }
}

/// Adds the fields of an Arrow schema; otherwise as fb_writer_add_fields.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_writer_add_fields_of_schema(
    writer: *const fb_writer,
    schema: *const FFI_ArrowSchema,
    error: *mut *mut fb_error,
) -> bool {
    let make = || -> Result<_, Failure> {
        // SAFETY: the caller passes a writer and a schema.
        let (writer, schema) = unsafe { (given(writer)?, given(schema)?) };
        writer.shared.add_fields(&fields_of_schema(schema)?)
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border_of(error, false, make) }
}

/// Returns the number of entries that were added or committed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_writer_num_entries(writer: *const fb_writer) -> u64 {
    // SAFETY: the caller passes a writer, or NULL.
    let writer = unsafe { writer.as_ref() };
    writer.map_or(0, |writer| {
        let writing = writer.shared.lock();
        writing.as_ref().map_or(0, |(writer, _)| writer.n_entries())
    })
}

/// Writes the current cluster, if it has entries that were added by fb_writer_extend.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_writer_commit_cluster(
    writer: *const fb_writer,
    error: *mut *mut fb_error,
) -> bool {
    let make = || -> Result<_, Failure> {
        // SAFETY: the caller passes a writer.
        let writer = unsafe { given(writer) }?;
        let commit = |writer: &mut NTupleWriter, file: &mut Output| writer.commit_cluster(file);
        writer.shared.with(commit).map(|()| true)
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border_of(error, false, make) }
}

/// Begins to fill clusters on another thread. Its entries become part of the ntuple by fb_fill_stage and
/// fb_writer_commit. One thread at a time may use a fill.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_fill_new(
    writer: *const fb_writer,
    error: *mut *mut fb_error,
) -> *mut fb_fill {
    let make = || -> Result<_, Failure> {
        // SAFETY: the caller passes a writer.
        let shared = unsafe { given(writer) }?.shared.clone();
        let (fill, generation) = shared.with(|writer, _| {
            let generation = shared.generation.load(Ordering::Acquire);
            Ok((writer.staging_fill(), generation))
        })?;
        Ok(handle(fb_fill {
            shared,
            fill,
            generation,
        }))
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border_of(error, std::ptr::null_mut(), make) }
}

/// Adds entries to a fill, and compresses complete clusters on this thread. The array is released, also on failure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_fill_extend(
    fill: *mut fb_fill,
    schema: *const FFI_ArrowSchema,
    array: *mut FFI_ArrowArray,
    error: *mut *mut fb_error,
) -> bool {
    let make = || -> Result<_, Failure> {
        // SAFETY: the caller passes a schema and an array.
        let batch = unsafe { batch_of(schema, array) }?;
        // SAFETY: the caller passes a fill.
        let fill = unsafe { given_mut(fill) }?;
        let is_old = fill.generation != fill.shared.generation.load(Ordering::Acquire);
        if is_old && fill.fill.n_entries() == 0 {
            (fill.fill, fill.generation) = fill.shared.with(|writer, _| {
                let generation = fill.shared.generation.load(Ordering::Acquire);
                Ok((writer.staging_fill(), generation))
            })?;
        }
        fill.fill.extend(&batch)?;
        let uncommitted = &fill.shared.uncommitted;
        uncommitted.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
        Ok(true)
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border_of(error, false, make) }
}

/// Takes all entries of a fill as complete clusters, compressed on this thread. Stores their number in `n_entries` unless
/// it is NULL. The result is committed, or freed with its entries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_fill_stage(
    fill: *mut fb_fill,
    n_entries: *mut u64,
    error: *mut *mut fb_error,
) -> *mut fb_staged {
    let make = || -> Result<_, Failure> {
        // SAFETY: the caller passes a fill, and a pointer to a number or NULL.
        let (fill, n) = unsafe { (given_mut(fill)?, n_entries.as_mut()) };
        let staged = fill.fill.stage()?;
        if let Some(n) = n {
            *n = staged.n_entries();
        }
        Ok(handle(fb_staged { staged }))
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border_of(error, std::ptr::null_mut(), make) }
}

/// Frees a fill. Entries that were not staged are lost: the ntuple cannot be finished then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_fill_free(fill: *mut fb_fill) {
    // SAFETY: the caller passes a fill that is not freed, or NULL.
    unsafe { free(fill) };
}

/// Adds staged clusters after all entries so far, and frees them. Stores the number of their first entry, which is final,
/// in `first_entry` unless it is NULL. The order of calls is the order of the clusters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_writer_commit(
    writer: *const fb_writer,
    staged: *mut fb_staged,
    first_entry: *mut u64,
    error: *mut *mut fb_error,
) -> bool {
    let make = || -> Result<_, Failure> {
        // SAFETY: the caller passes staged clusters that are not freed, a writer, and a pointer to a number or NULL.
        let (staged, writer, first) =
            unsafe { (taken(staged), given(writer)?, first_entry.as_mut()) };
        let Some(fb_staged { staged }) = staged else {
            return Err(usage("the staged clusters must not be NULL".into()));
        };
        let n = staged.n_entries();
        let shared = &writer.shared;
        let entry = shared.with(|writer, file| writer.add_staged(file, staged))?;
        shared.uncommitted.fetch_sub(n, Ordering::Relaxed);
        if let Some(first) = first {
            *first = entry;
        }
        Ok(true)
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border_of(error, false, make) }
}

/// Frees staged clusters, whose entries are lost: the ntuple cannot be finished then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_staged_free(staged: *mut fb_staged) {
    // SAFETY: the caller passes staged clusters that are not freed, or NULL.
    unsafe { free(staged) };
}

/// Completes the ntuple and its file, which appears now. Stores the number of entries in `n_entries` unless it is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_writer_finish(
    writer: *const fb_writer,
    n_entries: *mut u64,
    error: *mut *mut fb_error,
) -> bool {
    let make = || -> Result<_, Failure> {
        // SAFETY: the caller passes a writer, and a pointer to a number or NULL.
        let (writer, n) = unsafe { (given(writer)?, n_entries.as_mut()) };
        writer.shared.all_committed()?;
        let writing = writer.shared.lock().take();
        let (writer, mut file) = writing.ok_or_else(|| EventsError::Usage {
            what: "the ntuple is finished".into(),
        })?;
        let written = writer.finish(&mut file)?;
        file.finish()?;
        if let Some(n) = n {
            *n = written;
        }
        Ok(true)
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border_of(error, false, make) }
}

/// Frees a writer. A file that is not finished does not appear.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_writer_free(writer: *mut fb_writer) {
    // SAFETY: the caller passes a writer that is not freed, or NULL.
    unsafe { free(writer) };
}
