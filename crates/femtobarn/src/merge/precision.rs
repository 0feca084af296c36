//! Which fields a precision is asked for.

use femtobarn_rntuple::read::Reader;
use femtobarn_rntuple::schema::{Descriptor, FieldId};
use femtobarn_rntuple::write::{StoredAs, StoredReals};

use crate::pattern::matches;

/// The fields that names stand for, as users know them or with all that is between (`jets.pt`, `jets._0.pt`). Names that no
/// field has are left out. A view is what it shows.
pub(super) fn resolve(asked: &[(String, StoredAs)], reader: &Reader) -> Vec<StoredReals> {
    let descriptor = reader.descriptor();
    let ids = 0..FieldId::try_from(descriptor.fields.len()).unwrap_or(FieldId::MAX);
    let each = asked.iter().filter_map(|(name, stored)| {
        let is_meant = |id: &FieldId| {
            let known = reader.paths().get(*id as usize).and_then(Option::as_ref);
            known.is_some_and(|path| matches(name, path))
                || matches(name, &descriptor.qualified_name(*id))
        };
        let fields: Vec<FieldId> = ids.clone().filter(is_meant).collect();
        let shown = fields.iter().flat_map(|&id| shown(descriptor, id));
        let paths = shown.map(|id| descriptor.qualified_name(id)).collect();
        (!fields.is_empty()).then(|| StoredReals {
            name: name.clone(),
            paths,
            stored: *stored,
        })
    });
    each.collect()
}

/// The fields whose values a field has: itself, or what a view and those below it show.
fn shown(descriptor: &Descriptor, id: FieldId) -> Vec<FieldId> {
    let children = |id| {
        descriptor
            .field(id)
            .map_or(&[][..], |field| field.children.as_slice())
    };
    let physical = descriptor.physical(id);
    if physical == id {
        return vec![id];
    }
    match children(id) {
        // the number of items shows a collection, and nothing of its items
        [] if children(physical).is_empty() => vec![physical],
        below => below
            .iter()
            .flat_map(|&child| shown(descriptor, child))
            .collect(),
    }
}
