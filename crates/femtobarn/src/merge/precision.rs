//! The fields for which a precision is requested.

use femtobarn_rntuple::read::Reader;
use femtobarn_rntuple::schema::{Descriptor, FieldId};
use femtobarn_rntuple::write::{StoredAs, StoredReals};

use crate::pattern::Patterns;

/// The fields that names stand for, as users know them or with all that is between (`jets.pt`, `jets._0.pt`). Names
/// that no field has are left out. A projected field stands for its source.
pub(super) fn resolve(asked: &[(String, StoredAs)], reader: &Reader) -> Vec<StoredReals> {
    if asked.is_empty() {
        return Vec::new();
    }
    let descriptor = reader.descriptor();
    let names = Patterns::new(asked.iter().map(|(name, _)| name.as_str()));
    let mut paths: Vec<Option<Vec<String>>> = vec![None; asked.len()];
    for id in 0..FieldId::try_from(descriptor.fields.len()).unwrap_or(FieldId::MAX) {
        let known = reader.paths().get(id as usize).and_then(Option::as_ref);
        let known = known.into_iter().flat_map(|path| names.fitting(path));
        let mut meant: Vec<usize> = known.collect();
        meant.extend(names.fitting(&descriptor.qualified_name(id)));
        meant.sort_unstable();
        meant.dedup();
        for at in meant {
            let shown = shown(descriptor, id).into_iter();
            let shown = shown.map(|id| descriptor.qualified_name(id));
            if let Some(paths) = paths.get_mut(at) {
                paths.get_or_insert_default().extend(shown);
            }
        }
    }
    let each = asked.iter().zip(paths).filter_map(|(asked, paths)| {
        let (name, stored) = asked.clone();
        Some(StoredReals {
            name,
            paths: paths?,
            stored,
        })
    });
    each.collect()
}

/// The fields that hold the values of a field: itself, or the sources of a projected field and its subfields.
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
