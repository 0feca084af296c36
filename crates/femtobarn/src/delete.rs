//! Deletes ntuples in objects and in DAOS, and what killed writers have left there.

use std::collections::BTreeMap;
use std::time::Duration;

use femtobarn_io::{Settings, is_daos, is_object_set, public};
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::write::{self, ObjectsLeft, delete_objects};

use crate::daos::{self, with_name};
use crate::destination::Destination;
use crate::open::{OpenOptions, open_reader};
use crate::target::Target;

/// Deletes an ntuple in objects or in DAOS, with its attribute sets; returns how many objects, or values of DAOS, were deleted.
/// Objects of other ntuples that it refers to stay. The ntuple is gone before its objects are: a sweep finds those that are
/// left after an error.
///
/// # Errors
/// If the ntuple is in a file, does not exist or has another name, or if something cannot be deleted.
pub fn delete_ntuple(
    target: &Target,
    settings: &BTreeMap<String, String>,
) -> Result<u64, RNTupleError> {
    let (url, name) = (target.file.as_str(), target.name.as_deref());
    let own = Settings::new(url, settings.clone())?;
    if is_daos(url) {
        let deleted = daos::delete_ntuple(&with_name(url, name), &own)?;
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
        let options = OpenOptions {
            settings: settings.clone(),
            ..OpenOptions::default()
        };
        // one of another name is an error
        open_reader(url, name, &options)?;
    }
    delete_objects(url, &own)
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
