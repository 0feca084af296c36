//! Fields with the numbers of items of collections: new files get them together with the collections.

use std::collections::HashSet;

use femtobarn_rntuple::read::Reader;
use femtobarn_rntuple::schema::FieldId;
use femtobarn_ttree::Tree;
use femtobarn_ttree::model::{BranchId, TreeModel};

use crate::ntuple::NTuple;

/// The top-level fields that count the items of some top-level fields: cardinalities of ntuples, counters of trees.
pub(crate) fn counters(reader: &Reader, chosen: &[FieldId]) -> Vec<FieldId> {
    let descriptor = reader.descriptor();
    let Some(tree) = Tree::model(reader) else {
        return descriptor.counters(chosen);
    };
    let chosen: HashSet<FieldId> = chosen.iter().copied().collect();
    let counters = counting_branches(tree, |id| {
        let field = Tree::field(reader, id).map(|field| descriptor.top_of(field));
        field.is_some_and(|field| chosen.contains(&field))
    });
    let counters = counters
        .into_iter()
        .filter_map(|id| Tree::field(reader, id));
    let counters: HashSet<FieldId> = counters.collect();
    let top_level = descriptor.top_level.iter().copied();
    top_level
        .filter(|id| counters.contains(id) && !chosen.contains(id))
        .collect()
}

/// The branches of a tree that count the items of arrays in chosen branches.
pub(crate) fn counting_branches(
    tree: &TreeModel,
    mut is_chosen: impl FnMut(BranchId) -> bool,
) -> HashSet<BranchId> {
    let mut out = HashSet::new();
    for (id, branch) in (0..).zip(&tree.branches) {
        let counters = branch.leaves.iter().filter_map(|leaf| leaf.count);
        let mut counters = counters.map(|(counter, _)| counter).peekable();
        if counters.peek().is_some() && is_chosen(id) {
            out.extend(counters);
        }
    }
    out
}

impl NTuple {
    /// The names of the fields that count the items of these fields, except fields that are among them.
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
