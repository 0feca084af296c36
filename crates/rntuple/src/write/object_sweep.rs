//! Which objects of a base belong to its ntuple, and deleting others.

use std::collections::BTreeSet;
use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use femtobarn_io::{FoundObject, IoError, LARGEST_ANCHOR, ObjectSet, Settings};

use super::object_sink::{BLOCK, BLOCKS, OTHERS};
use crate::RNTupleError;
use crate::spec::{Anchor, EnvelopeLink, ObjectAnchor, PageAddress};

/// Where lists do not have the objects of a base: how many are asked for at the same time, and how many blocks in a row
/// do not exist after the last one.
const PROBES: usize = 64;
const MOST_FREE: u64 = 16;

/// How many objects are read at the same time, before they are deleted.
const AT_ONCE: usize = 1 << 10;

/// What the names of attribute sets' objects begin with, and those of anchors that are read before they are written.
pub(super) const CLONES: &str = "_clone/";
pub(super) const PREVIEWS: &str = "_preview/";

/// Whether an object of a base belongs to the ntuple of an anchor: by its number, or to one of its attribute sets. None if
/// it has none of the names of objects.
fn belongs(name: &str, anchor: &ObjectAnchor) -> Option<bool> {
    if let Ok(id) = name.parse::<u64>() {
        return Some(blocks(anchor).any(|block| block.contains(&id)));
    }
    if name.starts_with(PREVIEWS) {
        return Some(false);
    }
    let below = name.strip_prefix(CLONES)?;
    let base = anchor.attribute_base("").unwrap_or_default();
    let own = name.strip_prefix(base.as_str());
    // below the usual base, those of other writers begin with the number of a block
    let is_of_other = || {
        let first = below.split('/').next().unwrap_or_default();
        is_block(first) && !anchor.sets.iter().any(|set| set == first)
    };
    Some(own.is_some() && (base != CLONES || !is_of_other()))
}

/// Whether part of a name is the number of a block, except the first one.
fn is_block(part: &str) -> bool {
    let number = part.parse::<u64>();
    number.is_ok_and(|number| number > 0 && number.is_multiple_of(BLOCK))
}

/// The numbers of an ntuple's own objects, by block: in the order of writing, so that the header is the first.
fn blocks(anchor: &ObjectAnchor) -> impl Iterator<Item = RangeInclusive<u64>> {
    let ends = [anchor.anchor.header, anchor.anchor.footer].map(number);
    let blocks = match anchor.blocks.as_slice() {
        [] => vec![ends],
        blocks => blocks.to_vec(),
    };
    let own = |[first, last]: [u64; 2]| first..=last.min(OTHERS);
    blocks.into_iter().map(own)
}

/// The number of the object with an envelope.
pub(super) fn number(link: EnvelopeLink) -> u64 {
    link.stored.address.object().unwrap_or_default()
}

/// Deletes the objects of an ntuple that does not exist any more, by their numbers: not all stores list them. A list has the
/// attribute sets that other programs wrote. What belongs to an ntuple that has replaced it stays. Returns how many were
/// deleted.
pub(super) fn delete_old(
    set: &ObjectSet,
    old: &ObjectAnchor,
    new: Option<&ObjectAnchor>,
    settings: &Settings,
) -> Result<u64, IoError> {
    let mut n = 0;
    let others = match new {
        Some(new) if old.clone_template == new.clone_template => &[][..],
        _ => &old.sets,
    };
    for base in others.iter().filter_map(|name| old.attribute_base(name)) {
        let below = set.below(&base, settings)?;
        let Some((_, anchor)) = below.anchor()? else {
            continue;
        };
        below.delete_anchor()?;
        if let Ok(anchor) = ObjectAnchor::parse(&anchor) {
            n += 1 + delete_old(&below, &anchor, None, settings)?;
        }
    }
    let listed = set.list()?.into_iter().map(|object| object.name);
    let listed = listed.filter(|name| belongs(name, old) == Some(true));
    let is_new = |name: &str| new.and_then(|new| belongs(name, new)) == Some(true);
    let names: BTreeSet<String> = blocks(old)
        .flatten()
        .map(|id| id.to_string())
        .chain(listed)
        .filter(|name| !is_new(name))
        .collect();
    // a block is free for other writers when its first object is deleted
    let (first, others) = first_and_others(&names);
    for names in [others, first].iter().filter(|names| !names.is_empty()) {
        set.delete(names)?;
    }
    Ok(n + names.len() as u64)
}

/// Deletes an ntuple; returns the number of its objects, with its anchor and with attribute sets. Objects of others that it refers
/// to stay. What is left after an error is found by a sweep.
///
/// # Errors
/// If there is none, its anchor is damaged, or an object cannot be deleted.
pub fn delete_objects(url: &str, settings: &Settings) -> Result<u64, RNTupleError> {
    let set = ObjectSet::open(url, settings)?;
    let Some(anchor) = anchor_of(&set)? else {
        return Err(set.missing(settings).into());
    };
    set.delete_anchor()?;
    Ok(1 + delete_old(&set, &anchor, None, settings)?)
}

/// Objects that are the first ones of blocks, or have no numbers; and all others.
fn first_and_others<'n>(
    names: impl IntoIterator<Item = &'n String>,
) -> (Vec<&'n String>, Vec<&'n String>) {
    let is_first = |name: &&String| numbered(name).is_none_or(|(_, number)| number % BLOCK == 0);
    names.into_iter().partition(is_first)
}

/// All objects below a base. Some stores, as MinIO, do not list keys that begin with the key of another object, which is an
/// anchor here: these objects are found by their numbers.
fn all_objects(set: &ObjectSet, settings: &Settings) -> Result<Vec<FoundObject>, RNTupleError> {
    let mut found = set.list()?;
    if let Some(anchor) = anchor_of(set)? {
        let header = number(anchor.anchor.header).to_string();
        let names: BTreeSet<String> = found.iter().map(|object| object.name.clone()).collect();
        if !names.contains(&header) {
            let mut more = probed(set)?;
            for base in [CLONES, PREVIEWS] {
                let listed = set.below(base, settings)?.list()?;
                more.extend(listed.into_iter().map(|object| below(base, object)));
            }
            found.extend(more.into_iter().filter(|it| !names.contains(&it.name)));
        }
    }
    let names: BTreeSet<String> = found.iter().map(|object| object.name.clone()).collect();
    for name in names.iter().filter(|name| is_set(name)) {
        let base = format!("{name}/");
        let next = names.range(base.clone()..).next();
        if !next.is_some_and(|next| next.starts_with(&base)) {
            let objects = probed(&set.below(&base, settings)?)?.into_iter();
            found.extend(objects.map(|object| below(&base, object)));
        }
    }
    Ok(found)
}

/// An object of a base within another one.
fn below(base: &str, object: FoundObject) -> FoundObject {
    FoundObject {
        name: format!("{base}{}", object.name),
        ..object
    }
}

/// Whether a name is that of the anchor of an attribute set.
fn is_set(name: &str) -> bool {
    let Some(below) = name.strip_prefix(CLONES) else {
        return false;
    };
    match below.split('/').collect::<Vec<_>>().as_slice() {
        [_] => true,
        [block, _] if is_block(block) => true,
        [.., last] => last.parse::<u64>().is_err(),
        [] => false,
    }
}

/// The objects of all blocks, found without a list.
fn probed(set: &ObjectSet) -> Result<Vec<FoundObject>, IoError> {
    let mut found = Vec::new();
    let mut free = 0;
    for block in (0..BLOCKS).map(|at| at * BLOCK) {
        let first = set.find(block..block + 1)?;
        free = if first.is_empty() { free + 1 } else { 0 };
        if free == MOST_FREE {
            break;
        }
        if first.is_empty() {
            continue;
        }
        found.extend(first);
        found.extend(found_from(set, block + 1..block + BLOCK)?);
    }
    Ok(found)
}

/// The objects from the first of some numbers on, found without a list, up to a gap.
pub(super) fn found_from(
    set: &ObjectSet,
    numbers: Range<u64>,
) -> Result<Vec<FoundObject>, IoError> {
    let mut found = Vec::new();
    for start in numbers.clone().step_by(PROBES) {
        let more = set.find(start..numbers.end.min(start + PROBES as u64))?;
        if more.is_empty() {
            break;
        }
        found.extend(more);
    }
    Ok(found)
}

/// The anchor of a base, if there is one.
fn anchor_of(set: &ObjectSet) -> Result<Option<ObjectAnchor>, RNTupleError> {
    let Some((_, bytes)) = set.anchor()? else {
        return Ok(None);
    };
    let parsed = ObjectAnchor::parse(&bytes).map_err(|error| RNTupleError::Spec {
        url: set.url().to_owned(),
        ntuple: String::new(),
        structure: "anchor",
        at: PageAddress::File(0),
        source: error,
    });
    parsed.map(Some)
}

/// Of objects with numbers, those that are the anchors of other ntuples, which have numbers as names.
pub(super) fn other_ntuples(
    set: &ObjectSet,
    settings: &Settings,
    objects: &[FoundObject],
) -> Result<BTreeSet<String>, RNTupleError> {
    let is_small = |object: &&FoundObject| (1..=LARGEST_ANCHOR).contains(&object.size);
    let names = objects.iter().filter(is_small).map(|object| &*object.name);
    let names: Vec<&str> = names.filter(|name| name.parse::<u64>().is_ok()).collect();
    let mut others = BTreeSet::new();
    for names in names.chunks(AT_ONCE) {
        // a page can begin with the same byte
        for name in set.beginning_with(b'{', names)? {
            let anchor = set.below(name, settings)?.anchor()?;
            let key = b"\"anchorVersion\"";
            if anchor.is_some_and(|(_, bytes)| bytes.windows(key.len()).any(|part| part == key)) {
                others.insert(name.to_owned());
            }
        }
    }
    Ok(others)
}

/// The base and the number of an object that has one.
fn numbered(name: &str) -> Option<(&str, u64)> {
    let (base, number) = name.rsplit_once('/').unwrap_or(("", name));
    Some((base, number.parse().ok()?))
}

/// Its base and its block.
fn block_of(name: &str) -> Option<(String, u64)> {
    numbered(name).map(|(base, number)| (base.to_owned(), number / BLOCK))
}

/// The objects that killed writers have left at a base.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObjectsLeft {
    /// Names of old ones, which a sweep deletes.
    pub names: Vec<String>,
    /// Their size in bytes.
    pub bytes: u64,
    /// Number of others: their writer may still be writing.
    pub young: u64,
    /// Number of objects of the ntuple.
    pub used: u64,
}

/// Finds the objects at a base that its anchor does not name, and deletes those of at least this age.
///
/// # Errors
/// If they cannot be listed or deleted, or the anchor is damaged: its objects may be read by other versions.
pub fn sweep_objects(
    url: &str,
    settings: &Settings,
    age: Duration,
    deletes: bool,
) -> Result<ObjectsLeft, RNTupleError> {
    let set = ObjectSet::open(url, settings)?;
    // found before: what is written meanwhile is not deleted
    let listed = all_objects(&set, settings)?;
    let anchor = anchor_of(&set)?;
    let nothing = ObjectAnchor::new(Anchor::default());
    let (mut found, mut left) = (ObjectsLeft::default(), Vec::new());
    let is_old = |object: &FoundObject| object.modified.elapsed().is_ok_and(|since| since >= age);
    // an ntuple that is written in steps may take longer
    let is_writing = |object: &FoundObject| object.name.starts_with(PREVIEWS) && !is_old(object);
    let is_written = listed.iter().any(is_writing);
    // a writer may write for longer: all objects of a block are as young as the youngest
    let young = listed.iter().filter(|object| !is_old(object));
    let young: BTreeSet<(String, u64)> =
        young.filter_map(|object| block_of(&object.name)).collect();
    let is_left = |object: &FoundObject| {
        let block = block_of(&object.name);
        is_old(object) && !block.is_some_and(|block| young.contains(&block))
    };
    for object in listed {
        let is_used = match &anchor {
            Some(anchor) => belongs(&object.name, anchor),
            None => belongs(&object.name, &nothing).map(|_| false),
        };
        match is_used {
            // of an ntuple at a base below this one
            None => {}
            Some(true) => found.used += 1,
            Some(false) if is_left(&object) && !is_written => {
                left.push(object);
            }
            Some(false) => found.young += 1,
        }
    }
    let others = other_ntuples(&set, settings, &left)?;
    left.retain(|object| !others.contains(&object.name));
    found.bytes = left.iter().map(|object| object.size).sum();
    found.names = left.into_iter().map(|object| object.name).collect();
    found.names.sort_by_key(|name| (name.len(), name.clone()));
    if deletes {
        // the first object of a block goes first: without it, a writer that was taken for dead publishes nothing
        let (first, others) = first_and_others(&found.names);
        for names in [first, others].iter().filter(|names| !names.is_empty()) {
            set.delete(names)?;
        }
        set.remove_partial()?;
    }
    Ok(found)
}
