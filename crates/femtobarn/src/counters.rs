//! The fields that say how many items collections have: they come along with these into each new file.

use std::collections::HashSet;

use femtobarn_rntuple::read::Reader;
use femtobarn_rntuple::schema::FieldId;
use femtobarn_ttree::Tree;

use crate::ntuple::NTuple;

/// The top-level fields that count the items of some top-level fields: cardinalities of ntuples, counters of trees.
pub(crate) fn counters(reader: &Reader, chosen: &[FieldId]) -> Vec<FieldId> {
    let descriptor = reader.descriptor();
    let Some(tree) = Tree::model(reader) else {
        return descriptor.counters(chosen);
    };
    let chosen: HashSet<FieldId> = chosen.iter().copied().collect();
    let mut counters: HashSet<FieldId> = HashSet::new();
    for (id, branch) in (0..).zip(&tree.branches) {
        let field = Tree::field(reader, id).map(|field| descriptor.top_of(field));
        if field.is_some_and(|field| chosen.contains(&field)) {
            let counted = branch.leaves.iter().filter_map(|leaf| leaf.count);
            counters.extend(counted.filter_map(|(id, _)| Tree::field(reader, id)));
        }
    }
    let top_level = descriptor.top_level.iter().copied();
    top_level
        .filter(|id| counters.contains(id) && !chosen.contains(id))
        .collect()
}

impl NTuple {
    /// The names of the top-level fields that count the items of some of them, and are not among these.
    pub fn counters(&self, names: &[String]) -> Vec<String> {
        let Some(reader) = self.readers().first() else {
            return Vec::new();
        };
        let found = names.iter().filter_map(|name| reader.find_field(name));
        let found: Vec<FieldId> = found.collect();
        let descriptor = reader.descriptor();
        let counters = counters(reader, &found).into_iter();
        counters
            .map(|id| descriptor.field_name(id).to_owned())
            .collect()
    }
}
