//! Files to be written.

use std::path::Path;
use std::sync::Arc;

use femtobarn_io::{Aside, ByteSink, LocalSink};
use femtobarn_rntuple::RNTupleError;
use femtobarn_rootfile::{FileWriter, RootFile, Uuid};

use crate::open::open_source;

/// A new ROOT file. It appears under its name, or replaces what is there, when it is finished.
///
/// `compression` (algorithm times 100 plus level) is what its header tells.
///
/// # Errors
/// If no file can be made there.
pub fn create_file(url: &str, compression: u32) -> Result<FileWriter, RNTupleError> {
    let sink = LocalSink::create(local(url))?;
    write_into(sink, compression)
}

/// A new ROOT file of a name that nothing has. Of several that are made at the same time, the first that is finished appears.
///
/// # Errors
/// If there is something of that name, or no file can be made there.
pub fn create_new_file(url: &str, compression: u32) -> Result<FileWriter, RNTupleError> {
    let sink = LocalSink::create_new(local(url))?;
    write_into(sink, compression)
}

/// A new ROOT file that gets its name from somebody else.
///
/// # Errors
/// If writing fails.
pub(crate) fn create_beside(aside: &Aside, compression: u32) -> Result<FileWriter, RNTupleError> {
    let sink = LocalSink::beside(aside)?;
    write_into(sink, compression)
}

/// The path behind a path or a `file:` URL.
pub(crate) fn local(url: &str) -> &Path {
    Path::new(url.strip_prefix("file://").unwrap_or(url))
}

fn write_into(sink: LocalSink, compression: u32) -> Result<FileWriter, RNTupleError> {
    let name = local(sink.url())
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let name = name.unwrap_or_default();
    let writer = FileWriter::create(Arc::new(sink), &name, compression, Uuid::random())?;
    Ok(writer)
}

/// More for a ROOT file that is there. Until it is finished, everybody sees what was there before.
///
/// # Errors
/// If there is no such file, or it is none of ROOT's, or may not be written to.
pub fn update_file(url: &str) -> Result<FileWriter, RNTupleError> {
    let source = open_source(url)?;
    let file = RootFile::open(source)?;
    let sink = Arc::new(LocalSink::update(local(url))?);
    Ok(FileWriter::update(sink, &file)?)
}
