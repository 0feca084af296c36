//! Field names as users write them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::descriptor::{Descriptor, FieldId};
use crate::spec::Role;

/// Whether a field is anonymous for users: the item of a collection, array, variant or wrapper, or a base class
/// (`:_0`) of a record.
pub fn is_anonymous(descriptor: &Descriptor, id: FieldId) -> bool {
    let Some(field) = descriptor.field(id) else {
        return false;
    };
    let Some(parent) = field.parent.and_then(|p| descriptor.field(p)) else {
        return false;
    };
    match parent.record.role {
        Role::Collection | Role::Variant => true,
        Role::Plain | Role::Streamer => {
            parent.record.flags.repetitive() || field.record.name == "_0"
        }
        Role::Record => is_base_class(&field.record.name),
        Role::Unknown(_) => false,
    }
}

fn is_base_class(name: &str) -> bool {
    name.strip_prefix(":_").is_some_and(is_number)
}

fn is_number(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit())
}

/// Whether members are those of a pair or tuple: exactly `_0`, `_1` and so on in this order, as ROOT names them. A
/// record with only a `_1`, or with `_1` before `_0`, is a record with these member names.
pub(crate) fn is_tuple(descriptor: &Descriptor, members: &[FieldId]) -> bool {
    members.iter().enumerate().all(|(at, &member)| {
        let name = descriptor.field_name(member);
        name.strip_prefix('_').unwrap_or(name) == at.to_string()
    })
}

/// The dotted path of every field, without anonymous fields; none for anonymous fields.
pub fn field_paths(descriptor: &Descriptor, names: &FieldNames) -> Vec<Option<String>> {
    let mut paths: Vec<Option<String>> = Vec::with_capacity(descriptor.fields.len());
    // for each field, the nearest ancestor (or itself) with a path
    let mut visible: Vec<Option<FieldId>> = Vec::with_capacity(descriptor.fields.len());
    for (id, field) in (0u32..).zip(&descriptor.fields) {
        let above = field.parent.and_then(|p| visible.get(p as usize).copied());
        let above = above.flatten();
        if is_anonymous(descriptor, id) {
            paths.push(None);
            visible.push(above);
            continue;
        }
        let name = names.get(descriptor, id);
        let prefix = above.and_then(|above| paths.get(above as usize)?.as_deref());
        let path = match prefix {
            Some(prefix) => [prefix, name].join("."),
            None => name.to_owned(),
        };
        paths.push(Some(path));
        visible.push(Some(id));
    }
    paths
}

/// Names of fields as members of records.
///
/// If flattened base classes have members of equal names, their class is prepended (`Base::member`). Members of pairs
/// and tuples, stored as `_0` and `_1`, are numbers.
#[derive(Debug)]
pub struct FieldNames {
    /// Names that differ from the stored ones.
    qualified: HashMap<FieldId, String>,
}

impl FieldNames {
    /// Determines the names of a descriptor's fields.
    pub fn new(descriptor: &Descriptor) -> Self {
        let mut first: HashMap<(Option<FieldId>, &str), FieldId> = HashMap::new();
        let mut equal: HashMap<(Option<FieldId>, &str), Vec<FieldId>> = HashMap::new();
        for (id, field) in (0u32..).zip(&descriptor.fields) {
            if field.parent.is_none() || is_anonymous(descriptor, id) {
                continue;
            }
            let key = (owner(descriptor, id), field.record.name.as_str());
            match first.entry(key) {
                Entry::Vacant(entry) => {
                    entry.insert(id);
                }
                Entry::Occupied(entry) => {
                    equal
                        .entry(key)
                        .or_insert_with(|| vec![*entry.get()])
                        .push(id);
                }
            }
        }
        let mut qualified = HashMap::new();
        for ((owner, name), members) in equal {
            let names = qualify(descriptor, owner, name, &members);
            qualified.extend(members.into_iter().zip(names));
        }
        Self { qualified }
    }

    /// The name of a field, distinct from equal names in base classes.
    pub fn get<'a>(&'a self, descriptor: &'a Descriptor, id: FieldId) -> &'a str {
        if let Some(name) = self.qualified.get(&id) {
            return name;
        }
        let name = descriptor.field_name(id);
        let slot = name.strip_prefix('_').filter(|digits| is_number(digits));
        let in_tuple = || {
            let parent = descriptor.field(id).and_then(|field| field.parent);
            let parent = parent.and_then(|parent| descriptor.field(parent));
            parent.is_some_and(|parent| {
                parent.record.role == Role::Record && is_tuple(descriptor, &parent.children)
            })
        };
        slot.filter(|_| in_tuple()).unwrap_or(name)
    }
}

/// The record into which a member is flattened: its first ancestor that is not a base class.
fn owner(descriptor: &Descriptor, id: FieldId) -> Option<FieldId> {
    let mut current = descriptor.field(id)?.parent?;
    while is_anonymous(descriptor, current) && is_base_class(descriptor.field_name(current)) {
        current = descriptor.field(current)?.parent?;
    }
    Some(current)
}

/// Prepends class names to `name`, as many as needed to distinguish `members`.
fn qualify(
    descriptor: &Descriptor,
    owner: Option<FieldId>,
    name: &str,
    members: &[FieldId],
) -> Vec<String> {
    let stacks: Vec<Vec<&str>> = members
        .iter()
        .map(|&id| classes(descriptor, owner, id))
        .collect();
    let mut counts = vec![0usize; members.len()];
    let deepest = stacks.iter().map(Vec::len).max().unwrap_or(0);
    for _ in 0..=deepest {
        let names: Vec<String> = stacks
            .iter()
            .zip(&counts)
            .map(|(stack, &n)| {
                stack
                    .iter()
                    .rev()
                    .take(n)
                    .copied()
                    .chain([name])
                    .collect::<Vec<_>>()
                    .join("::")
            })
            .collect();
        let repeated: Vec<bool> = names
            .iter()
            .map(|n| names.iter().filter(|m| *m == n).count() > 1)
            .collect();
        if !repeated.contains(&true) {
            return names;
        }
        for (count, again) in counts.iter_mut().zip(repeated) {
            *count += usize::from(again);
        }
    }
    (0..members.len()).map(|i| format!("{name}#{i}")).collect()
}

/// Class names from the member's own class up to, but not including, the owner.
fn classes(descriptor: &Descriptor, owner: Option<FieldId>, id: FieldId) -> Vec<&str> {
    let mut out = Vec::new();
    let mut current = descriptor.field(id).and_then(|f| f.parent);
    while let Some(parent) = current.filter(|_| current != owner) {
        let Some(field) = descriptor.field(parent) else {
            break;
        };
        out.push(field.record.type_name.as_str());
        current = field.parent;
    }
    out
}
