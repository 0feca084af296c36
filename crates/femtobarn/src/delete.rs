//! Deleting ntuples that are no files.

use femtobarn_io::{Settings, is_daos, is_object_set, public};
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::write::delete_objects;

use crate::daos;

/// Deletes an ntuple as objects, or in DAOS, with its attribute sets; returns how many objects, or values of DAOS, were deleted.
/// Others that it refers to stay. From its beginning, the ntuple does not exist; what is left after an error is found by a sweep.
///
/// # Errors
/// If the URL is that of a file, there is no ntuple, or something cannot be deleted.
pub fn delete_ntuple(url: &str, settings: &Settings) -> Result<u64, RNTupleError> {
    match url {
        _ if is_daos(url) => Ok(daos::delete_ntuple(url, settings)?.names.len() as u64),
        _ if is_object_set(url) => delete_objects(url, settings),
        _ => Err(RNTupleError::Usage {
            what: format!(
                "{}: only ntuples as objects (ntpl+…) and in DAOS are deleted; delete a file with the tools of its storage",
                public(url)
            ),
        }),
    }
}
