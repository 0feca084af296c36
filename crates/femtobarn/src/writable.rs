//! Files to be written.

use std::path::Path;
use std::sync::Arc;

use femtobarn_io::LocalSink;
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
    let path = Path::new(url.strip_prefix("file://").unwrap_or(url));
    let sink = Arc::new(LocalSink::create(path)?);
    let name = path.file_name().map(|name| name.to_string_lossy());
    Ok(FileWriter::create(
        sink,
        &name.unwrap_or_default(),
        compression,
        Uuid::random(),
    )?)
}

/// More for a ROOT file that is there. Until it is finished, everybody sees what was there before.
///
/// # Errors
/// If there is no such file, or it is none of ROOT's, or may not be written to.
pub fn update_file(url: &str) -> Result<FileWriter, RNTupleError> {
    let source = open_source(url)?;
    let file = RootFile::open(source)?;
    let path = Path::new(url.strip_prefix("file://").unwrap_or(url));
    let sink = Arc::new(LocalSink::update(path)?);
    Ok(FileWriter::update(sink, &file)?)
}
