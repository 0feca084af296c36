//! Files to be written.

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

/// A new ROOT file. It gets its name, or replaces an existing file, when it is finished.
///
/// `compression` (algorithm times 100 plus level) is recorded in its header.
///
/// # Errors
/// If no file can be made there.
pub fn create_file(url: &str, compression: u32) -> Result<FileWriter, RNTupleError> {
    write_into(create_sink(url, true, &Settings::of(url))?, compression)
}

/// A new ROOT file of a name that nothing has. Of several that are made at the same time, the first that is finished appears.
///
/// # Errors
/// If there is something of that name, or no file can be made there.
pub fn create_new_file(url: &str, compression: u32) -> Result<FileWriter, RNTupleError> {
    write_into(create_sink(url, false, &Settings::of(url))?, compression)
}

/// A new ROOT file, which `replaces` an existing file or not, on a server with these settings.
///
/// # Errors
/// If a setting is none, there is something of that name which is not to be replaced, or no file can be made there.
pub fn create_file_with(
    url: &str,
    compression: u32,
    replaces: bool,
    settings: BTreeMap<String, String>,
) -> Result<FileWriter, RNTupleError> {
    let settings = Settings::new(url, settings)?;
    write_into(create_sink(url, replaces, &settings)?, compression)
}

/// A new file of this machine or of a server.
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

/// A new ROOT file that gets its name from the caller.
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

/// The path of a path or a `file:` URL.
pub(crate) fn local(url: &str) -> Cow<'_, Path> {
    match local_path(url) {
        Cow::Borrowed(path) => Cow::Borrowed(Path::new(path)),
        Cow::Owned(path) => Cow::Owned(path.into()),
    }
}

/// The identity of a file; none if it does not exist.
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

/// Adds to an existing ROOT file. Until it is finished, readers see the old contents.
///
/// # Errors
/// If it does not exist, is not a ROOT file, or may not be written to.
pub fn update_file(url: &str) -> Result<FileWriter, RNTupleError> {
    if is_remote(url) {
        return Err(not_added_to(url));
    }
    let (sink, source) = lock(url)?;
    let file = RootFile::open(source)?;
    Ok(FileWriter::update(sink, &file)?)
}

/// The error of adding to a file of a server.
pub(crate) fn not_added_to(url: &str) -> RNTupleError {
    let why = "cannot add to files on servers: write a new file";
    let url = public(url);
    IoError::NotWritten { url, why }.into()
}

/// Whether there is something of the name of an output.
///
/// # Errors
/// If its server does not say.
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

/// An existing file, locked for other writers, for writing and reading.
///
/// # Errors
/// If it does not exist, may not be written to, or another writer adds to it.
pub(crate) fn lock(url: &str) -> Result<(Arc<LocalSink>, Arc<dyn ByteSource>), RNTupleError> {
    // insists that it is a file
    open_source(url)?;
    let sink = Arc::new(LocalSink::update(&local(url))?);
    // its contents are read under the lock: before, another writer may have added to it
    Ok((sink, open_source(url)?))
}
