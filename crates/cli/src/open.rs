//! Opening the ntuple of a target.

use std::sync::Arc;

use femtobarn::read::Reader;
use femtobarn::{Error, NTuple, OpenOptions};

use crate::failure::{Failure, code};
use femtobarn::Target;

/// An ntuple of one file.
pub struct Opened {
    pub ntuple: Arc<NTuple>,
    pub reader: Arc<Reader>,
}

/// Opens an ntuple by the path of its file and its own; that may be left out where there is only one.
pub fn open(file: &str, name: Option<&str>) -> Result<Opened, Error> {
    let files = [(file.to_owned(), name.map(str::to_owned))];
    let ntuple = NTuple::open(&files, OpenOptions::default())?;
    match ntuple.readers().first().cloned() {
        Some(reader) => Ok(Opened {
            ntuple: Arc::new(ntuple),
            reader,
        }),
        // cannot be: a missing ntuple is an error unless that was asked for
        None => Err(Error::Interrupted),
    }
}

/// Does `work` with an ntuple; errors say what to do next.
pub fn with_ntuple(
    target: &Target,
    work: impl FnOnce(&Opened) -> Result<i32, Failure>,
) -> Result<i32, Failure> {
    let opened = open(&target.file, target.name.as_deref()).map_err(Failure::from);
    let result = opened.and_then(|opened| work(&opened));
    result.map_err(|failure| failure.advise(target))
}

/// The failure of a part that the library promised and did not give.
pub fn missing(what: &str) -> Failure {
    let message = format!("{what} is missing in what was read; please report this");
    Failure::new(code::CORRUPT, "inconsistent", message)
}
