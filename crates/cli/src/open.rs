//! Opening the ntuple of a target.

use std::sync::Arc;

use femtobarn::io::public;
use femtobarn::read::Reader;
use femtobarn::{Error, NTuple, OpenOptions};

use crate::failure::{Failure, code};
use crate::options::usage;
use crate::table::printable;
use femtobarn::Target;

/// An ntuple of one file.
pub struct Opened {
    pub ntuple: Arc<NTuple>,
    pub reader: Arc<Reader>,
}

/// Opens an ntuple by the path of its file and its own; the latter may be empty if the file has only one ntuple.
pub fn open(file: &str, name: Option<&str>) -> Result<Opened, Error> {
    open_with(file, name, OpenOptions::default())
}

/// The same with options.
pub fn open_with(file: &str, name: Option<&str>, options: OpenOptions) -> Result<Opened, Error> {
    let files = [(file.to_owned(), name.map(str::to_owned))];
    let ntuple = NTuple::open(&files, options)?;
    match ntuple.readers().first().cloned() {
        Some(reader) => Ok(Opened {
            ntuple: Arc::new(ntuple),
            reader,
        }),
        // cannot happen: a missing ntuple is an error unless that was requested
        None => Err(Error::Interrupted),
    }
}

/// The file of an argument, which may also be a pattern or a Metalink file.
pub fn one_file(text: &str) -> Result<Target, Failure> {
    let mut found = Target::find(text, None)?;
    match (found.len(), found.pop()) {
        (1, Some(target)) => Ok(target),
        (n, _) => Err(usage(&format!(
            "{} names {n} files; name one of them",
            printable(&public(text))
        ))),
    }
}

/// Does `work` with an ntuple; errors get a next step.
pub fn with_ntuple(
    target: &Target,
    work: impl FnOnce(&Opened) -> Result<i32, Failure>,
) -> Result<i32, Failure> {
    let opened = open(&target.file, target.name.as_deref()).map_err(Failure::from);
    let result = opened.and_then(|opened| work(&opened));
    result.map_err(|failure| failure.advise(target))
}

/// The error for a part that the library should have returned.
pub fn missing(what: &str) -> Failure {
    let message = format!("internal error: {what} is missing in the result; please report this");
    Failure::new(code::CORRUPT, "inconsistent", message)
}
