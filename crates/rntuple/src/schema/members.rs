//! Which fields take part in a read, and the order of members.

use super::descriptor::{Descriptor, FieldId};
use super::paths::is_anonymous;
use crate::spec::Role;

/// The fields that take part in a read of `selected`: these, their ancestors and descendants.
pub(crate) fn wanted_fields(descriptor: &Descriptor, selected: &[FieldId]) -> Vec<bool> {
    let mut wanted = vec![false; descriptor.fields.len()];
    for &id in selected {
        mark(&mut wanted, id);
    }
    // parents precede their children
    for (id, field) in (0u32..).zip(&descriptor.fields) {
        let parent = field.parent.and_then(|parent| wanted.get(parent as usize));
        if parent == Some(&true) {
            mark(&mut wanted, id);
        }
    }
    for &id in selected {
        let mut current = descriptor.field(id).and_then(|field| field.parent);
        while let Some(parent) = current {
            mark(&mut wanted, parent);
            current = descriptor.field(parent).and_then(|field| field.parent);
        }
    }
    wanted
}

/// The members of a record; those of base classes follow its own.
pub(super) fn flattened(descriptor: &Descriptor, id: FieldId) -> Vec<FieldId> {
    let mut flat = Vec::new();
    let mut pending = vec![id];
    while let Some(current) = pending.pop() {
        let field = descriptor.field(current);
        for &child in field.map_or(&[][..], |field| field.children.as_slice()) {
            if is_anonymous(descriptor, child) {
                pending.push(child);
            } else {
                flat.push(child);
            }
        }
    }
    flat
}

fn mark(wanted: &mut [bool], id: FieldId) {
    if let Some(place) = wanted.get_mut(id as usize) {
        *place = true;
    }
}

/// For every field, its position among the members of the same array.
pub(crate) fn member_ranks(descriptor: &Descriptor) -> Vec<usize> {
    let mut ranks = vec![0; descriptor.fields.len()];
    for (id, field) in (0u32..).zip(&descriptor.fields) {
        let is_base = field.record.role == Role::Record && is_anonymous(descriptor, id);
        let is_item = field.parent.and_then(|parent| descriptor.field(parent));
        let is_item = is_item.is_some_and(|parent| parent.record.role != Role::Record);
        let members = match field.record.role {
            Role::Record if !is_base || is_item => flattened(descriptor, id),
            Role::Record => continue,
            _ => field.children.clone(),
        };
        for (rank, member) in members.into_iter().enumerate() {
            if let Some(place) = ranks.get_mut(member as usize) {
                *place = rank;
            }
        }
    }
    ranks
}
