//! Deleting ntuples that are no files.

use femtobarn_io::{Settings, is_daos, is_object_set, public};
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::write::delete_objects;

use crate::daos::{self, with_name};
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
