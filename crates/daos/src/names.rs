//! The names of a container's ntuples. DAOS cannot list the objects of a container, and their IDs have only hashes of names;
//! so femtobarn writes the names of its ntuples beside them.

use bytes::Bytes;

use crate::mapping::{DKEY, name_of, ntuple_index};
use crate::{Container, DaosError, Existing, Fetch, Update};

/// Expected length of a name.
const ROOM: u64 = 128;

/// The names of ntuples, sorted. Of some there may be nothing else: their writers have not completed them. Ntuples of ROOT are
/// not among them.
///
/// # Errors
/// If they cannot be read.
pub fn names(container: &Container) -> Result<Vec<String>, DaosError> {
    let class = container.class("")?;
    let object = name_of(class, 0).object;
    let akeys = container.akeys(object, DKEY)?;
    let fetch = |akey| Fetch {
        key: name_of(class, akey),
        room: ROOM,
    };
    let indices = akeys
        .into_iter()
        .filter_map(|akey| u32::try_from(akey).ok());
    let (indices, fetches): (Vec<u32>, Vec<Fetch>) =
        indices.map(|index| (index, fetch(index))).unzip();
    let found = container.fetch(&fetches)?.into_iter().zip(indices);
    let mut names: Vec<String> = found
        .filter_map(|(name, index)| {
            let name = String::from_utf8(name?.into()).ok()?;
            (ntuple_index(&name) == index).then_some(name)
        })
        .collect();
    names.sort_unstable();
    Ok(names)
}

/// Adds the name of an ntuple.
///
/// # Errors
/// If it cannot be written.
pub fn add_name(container: &Container, name: &str) -> Result<(), DaosError> {
    let update = Update {
        key: name_of(container.class("")?, ntuple_index(name)),
        parts: vec![Bytes::copy_from_slice(name.as_bytes())],
    };
    match name.is_empty() {
        true => Ok(()),
        false => container.update(&[update], Existing::Replaced),
    }
}

/// Removes the name of an ntuple.
///
/// # Errors
/// If it cannot be removed.
pub fn remove_name(container: &Container, name: &str) -> Result<(), DaosError> {
    container.punch_values(&[name_of(container.class("")?, ntuple_index(name))])
}
