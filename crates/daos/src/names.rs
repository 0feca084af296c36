//! The names of a container's ntuples. DAOS cannot list the objects of a container, and their IDs have only hashes of names;
//! so femtobarn writes the names of its ntuples beside them.

use bytes::Bytes;

use crate::mapping::{DKEY, name_of, ntuple_index};
use crate::{Container, DaosError, Existing, Fetch, ObjectClass, Update};

/// Expected length of a name.
const ROOM: u64 = 128;

/// The names of ntuples and of attribute sets, each with the class of its values, sorted. Of some there may be nothing else:
/// their writers have not completed them. Those of ROOT are not among them.
///
/// # Errors
/// If they cannot be read.
pub fn names_and_classes(container: &Container) -> Result<Vec<(String, ObjectClass)>, DaosError> {
    let chosen = container.class("")?;
    let object = name_of(chosen, chosen, 0).object;
    let akeys = container.akeys(object, DKEY)?;
    let split = |akey: u64| {
        let index = (akey & 0xffff_ffff) as u32;
        match (akey >> 32) as u32 {
            0 => (chosen, index),
            bits => (ObjectClass::from_bits(bits), index),
        }
    };
    let places: Vec<(ObjectClass, u32)> = akeys.into_iter().map(split).collect();
    let fetch = |&(class, index): &(ObjectClass, u32)| Fetch {
        key: name_of(chosen, class, index),
        room: ROOM,
    };
    let fetches: Vec<Fetch> = places.iter().map(fetch).collect();
    let found = container.fetch(&fetches)?.into_iter().zip(places);
    let mut names: Vec<(String, ObjectClass)> = found
        .filter_map(|(name, (class, index))| {
            let name = String::from_utf8(name?.into()).ok()?;
            (ntuple_index(&name) == index).then_some((name, class))
        })
        .collect();
    names.sort_unstable_by_key(|(name, class)| (name.clone(), class.bits()));
    Ok(names)
}

/// The names of ntuples, as [`names_and_classes`]. Attribute sets, which have slashes in their names, are not among them.
///
/// # Errors
/// If they cannot be read.
pub fn names(container: &Container) -> Result<Vec<String>, DaosError> {
    let all = names_and_classes(container)?.into_iter();
    let mut names: Vec<String> = all.map(|(name, _)| name).collect();
    names.retain(|name| !name.contains('/'));
    names.dedup();
    Ok(names)
}

/// Adds the name of an ntuple or of an attribute set whose values have this class.
///
/// # Errors
/// If it cannot be written.
pub fn add_name(container: &Container, name: &str, class: ObjectClass) -> Result<(), DaosError> {
    let update = Update {
        key: name_of(container.class("")?, class, ntuple_index(name)),
        parts: vec![Bytes::copy_from_slice(name.as_bytes())],
    };
    match name.is_empty() {
        true => Ok(()),
        false => container.update(vec![update], Existing::Replaced),
    }
}

/// Removes such a name.
///
/// # Errors
/// If it cannot be removed.
pub fn remove_name(container: &Container, name: &str, class: ObjectClass) -> Result<(), DaosError> {
    let chosen = container.class("")?;
    container.punch_values(&[name_of(chosen, class, ntuple_index(name))])
}
