//! Opens files for writing.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use femtobarn_io::{
    ByteSink, ByteSource, IoError, LocalSink, Settings, TempSibling, create_remote, is_remote,
    local_path, open_remote, public,
};
use femtobarn_rntuple::RNTupleError;
use femtobarn_rootfile::{FileWriter, RootFile, Uuid};

use crate::open::open_source;

/// Creates a ROOT file. It gets its name, or replaces an existing file, when it is finished.
///
/// `compression` (algorithm times 100 plus level) is recorded in its header.
///
/// # Errors
/// If the file cannot be created.
pub fn create_file(url: &str, compression: u32) -> Result<FileWriter, RNTupleError> {
    write_into(create_sink(url, true, &Settings::of(url))?, compression)
}

/// Creates a ROOT file with a free name. If several are created at the same time, the first finished one gets the name.
///
/// # Errors
/// If the file exists, or cannot be created.
pub fn create_new_file(url: &str, compression: u32) -> Result<FileWriter, RNTupleError> {
    write_into(create_sink(url, false, &Settings::of(url))?, compression)
}

/// Creates a ROOT file with settings for its server; `replaces` tells whether it may replace an existing file.
///
/// # Errors
/// If a setting is invalid, the file exists, or it cannot be created.
pub fn create_file_with(
    url: &str,
    compression: u32,
    replaces: bool,
    settings: BTreeMap<String, String>,
) -> Result<FileWriter, RNTupleError> {
    let settings = Settings::new(url, settings)?;
    write_into(create_sink(url, replaces, &settings)?, compression)
}

/// Creates a local or remote file.
pub(crate) fn create_sink(
    url: &str,
    replaces: bool,
    settings: &Settings,
) -> Result<Arc<dyn ByteSink>, IoError> {
    if is_remote(url) {
        return create_remote(url, replaces, settings);
    }
    Ok(Arc::new(match replaces {
        true => LocalSink::create(&local(url))?,
        false => LocalSink::create_new(&local(url))?,
    }))
}

/// Creates a ROOT file that gets its final name from the caller.
///
/// # Errors
/// If writing fails.
pub(crate) fn create_beside(
    sibling: &TempSibling,
    compression: u32,
) -> Result<FileWriter, RNTupleError> {
    let sink = LocalSink::beside(sibling)?;
    write_into(Arc::new(sink), compression)
}

/// The local path of a path or `file:` URL.
pub(crate) fn local(url: &str) -> Cow<'_, Path> {
    match local_path(url) {
        Cow::Borrowed(path) => Cow::Borrowed(Path::new(path)),
        Cow::Owned(path) => Cow::Owned(path.into()),
    }
}

/// The identity of a file; `None` if it does not exist.
pub(crate) fn file_id(path: &Path) -> Option<(u64, u64)> {
    let found = std::fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

fn write_into(sink: Arc<dyn ByteSink>, compression: u32) -> Result<FileWriter, RNTupleError> {
    let name = local(sink.url())
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let name = name.unwrap_or_default();
    let writer = FileWriter::create(sink, &name, compression, Uuid::random())?;
    Ok(writer)
}

/// Opens an existing ROOT file for adding to it. Until it is finished, readers see the old contents.
///
/// # Errors
/// If it does not exist, is not a ROOT file, or is not writable.
pub fn update_file(url: &str) -> Result<FileWriter, RNTupleError> {
    if is_remote(url) {
        return Err(not_added_to(url));
    }
    let (sink, source) = lock(url)?;
    let file = RootFile::open(source)?;
    Ok(FileWriter::update(sink, &file)?)
}

/// The error for adding to a remote file.
pub(crate) fn not_added_to(url: &str) -> RNTupleError {
    let why = "cannot add to files on servers: write a new file";
    let url = public(url);
    IoError::NotWritten { url, why }.into()
}

/// Whether the name of an output exists.
///
/// # Errors
/// If its server does not answer this.
pub(crate) fn is_there(output: &str, settings: &Settings) -> Result<bool, RNTupleError> {
    if !is_remote(output) {
        return Ok(Path::new(output).exists());
    }
    match open_remote(output, settings) {
        Ok(_) | Err(IoError::NotAFile { .. }) => Ok(true),
        Err(IoError::NotFound { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Opens an existing file for writing and reading, and locks it for other writers.
///
/// # Errors
/// If it does not exist, is not writable, or another writer adds to it.
pub(crate) fn lock(url: &str) -> Result<(Arc<LocalSink>, Arc<dyn ByteSource>), RNTupleError> {
    // fails if it is not a file
    open_source(url)?;
    let sink = Arc::new(LocalSink::update(&local(url))?);
    // read after locking: another writer may have added to it before
    Ok((sink, open_source(url)?))
}
