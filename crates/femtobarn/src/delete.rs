//! Deleting ntuples that are no files, and what killed writers have left of them.

use std::time::Duration;

use femtobarn_io::{Settings, is_daos, is_object_set, public};
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::write::{self, ObjectsLeft, delete_objects};

use crate::daos::{self, with_name};
use crate::destination::Destination;
use crate::open::{OpenOptions, open_reader};
use crate::target::Target;

/// Deletes an ntuple as objects, or in DAOS, with its attribute sets; returns how many objects, or values of DAOS, were deleted.
/// Others that it refers to stay. From its beginning, the ntuple does not exist; what is left after an error is found by a sweep.
///
/// # Errors
/// If it is in a file, there is no ntuple, it has another name, or something cannot be deleted.
pub fn delete_ntuple(target: &Target, settings: &Settings) -> Result<u64, RNTupleError> {
    let (url, name) = (target.file.as_str(), target.name.as_deref());
    if is_daos(url) {
        let deleted = daos::delete_ntuple(&with_name(url, name), settings)?;
        return Ok(deleted.names.len() as u64);
    }
    if !is_object_set(url) {
        return Err(RNTupleError::Usage {
            what: format!(
                "{}: only ntuples as objects (ntpl+…) and in DAOS are deleted; delete a file with the tools of its storage",
                public(url)
            ),
        });
    }
    if name.is_some() {
        // one of another name is an error
        open_reader(url, name, &OpenOptions::default())?;
    }
    delete_objects(url, settings)
}

/// Finds the objects that killed writers have left: at the base of a set, or in a container of DAOS, of the ntuples that it
/// lists, or of one name. Those whose writer has written nothing for this time are deleted.
///
/// # Errors
/// If they cannot be found or deleted, or an ntuple is damaged.
pub fn sweep_objects(
    url: &str,
    settings: &Settings,
    age: Duration,
    deletes: bool,
) -> Result<ObjectsLeft, RNTupleError> {
    if is_daos(url) {
        return daos::sweep(url, settings, age, deletes);
    }
    let (url, _) = Destination::split(url)?;
    write::sweep_objects(&url, settings, age, deletes)
}
