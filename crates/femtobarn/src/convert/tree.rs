//! Converts trees to the layout of ROOT's RNTupleImporter.
//!
//! Branches are read one by one. Arrays with one counter become an untyped collection of records (`_collection0` and so
//! on, in the order of the counters' names). The branches are projected from it, and the counter is its cardinality.
//! Lists of leaves become records. Split objects become records with the members that were split, and split
//! collections, which the importer does not support, become collections of such records.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::Reader;
use femtobarn_rntuple::schema::{Descriptor, FieldId};
use femtobarn_rntuple::write::{FieldKind, FieldModel};
use femtobarn_ttree::Tree;
use femtobarn_ttree::model::{Branch, BranchId, Leaf, TreeModel};

use super::counters::{Counted, CountedArray, why_apart};
use super::fit::Fit;
use super::levels::Levels;
use super::members::Members;
use super::names::{FieldNames, Meant, common_beginning, plain_name};
use super::natural::{flattened, map, natural, projected};
use super::options::ConvertOptions;
use super::reshape::Piece;
use super::source::{elsewhere, lacking, top_branches};
use super::wanted::{Names, Unmatched, Wanted};
use crate::common::SkippedFields;
use crate::counters::counting_branches;
use crate::ntuple::NTuple;

/// The fields of the output, and how they are made from columns.
#[derive(Debug, Default)]
pub(super) struct Shaped {
    pub fields: Vec<FieldModel>,
    pub pieces: Vec<(String, Piece)>,
    /// The columns to read, and their branches.
    pub read: Vec<(String, BranchId)>,
    /// Branches that cannot be converted, with the reasons.
    pub skipped: Vec<(String, String)>,
    /// Branches with changed names.
    pub notes: Vec<(String, String)>,
    /// Names and patterns that match no branch.
    pub unmatched: Unmatched,
    /// The names of the fields, including those from other files.
    pub names: FieldNames,
}

impl Shaped {
    /// For each field or array of a collection, the top-level branch that it is read from.
    pub fn origins(&self, tree: &TreeModel) -> Vec<(String, String)> {
        let read = self.read.iter();
        let read: HashMap<&str, BranchId> = read.map(|(name, id)| (name.as_str(), *id)).collect();
        let mut out = Vec::new();
        for (field, piece) in &self.pieces {
            let mut columns = Vec::new();
            piece.columns(field, &mut columns);
            for (path, column) in columns {
                let top = read.get(column).map(|&id| tree.top_of(id));
                let Some(branch) = top.and_then(|id| tree.branch(id)) else {
                    continue;
                };
                let is_counted = branch.leaves.iter().any(|leaf| leaf.count.is_some());
                let own = match is_counted {
                    true => path.rsplit('.').next().unwrap_or(&path),
                    false => field,
                };
                let name = branch.name.split('[').next().unwrap_or_default();
                let pair = (own.to_owned(), name.trim_end_matches('.').to_owned());
                if out.last() != Some(&pair) {
                    out.push(pair);
                }
            }
        }
        out
    }

    /// The columns to read.
    pub fn columns(&self) -> Vec<String> {
        self.read.iter().map(|(column, _)| column.clone()).collect()
    }
}

struct Shaper<'a> {
    tree: &'a TreeModel,
    left_out: Arc<SkippedFields>,
    fit: &'a Fit,
    reader: &'a Reader,
    wanted: Wanted<'a>,
    group: bool,
    out: Shaped,
    /// Number of branches with each name so far.
    n_named: HashMap<String, usize>,
    /// The arrays of each counter, by the counter's leaf name and branch.
    counted: BTreeMap<(String, BranchId), Counted>,
    /// Counters of selected arrays.
    counters: HashSet<BranchId>,
    /// For each counter, the reason why its arrays become separate vectors, if they do.
    apart: BTreeMap<BranchId, Option<String>>,
    projected: Vec<FieldModel>,
}

/// The layout of a tree, without branches known as unreadable. `fit` has the differences between files, `names` the
/// names assigned for earlier files.
///
/// # Errors
/// If a selected branch cannot be read.
pub(super) fn shape(
    tree: &TreeModel,
    ntuple: &NTuple,
    reader: &Reader,
    fit: &Fit,
    (options, given): (&ConvertOptions, &FieldNames),
) -> Result<Shaped, RNTupleError> {
    let names = tree.top_level.iter().filter_map(|&id| tree.branch(id));
    let names = names.map(|branch| branch.name.as_str());
    let mut shaper = Shaper {
        tree,
        left_out: ntuple.left_out(),
        fit,
        reader,
        wanted: Wanted::new(options, names).with_below(top_branches(tree, reader)),
        group: options.group,
        out: Shaped {
            names: given.clone(),
            ..Shaped::default()
        },
        n_named: HashMap::new(),
        counted: BTreeMap::new(),
        counters: HashSet::new(),
        apart: BTreeMap::new(),
        projected: Vec::new(),
    };
    let names = tree.top_level.iter().filter_map(|&id| tree.branch(id));
    let names = names.map(|branch| branch.name.as_str());
    shaper.out.names.keep_own(names);
    shaper.find_counters();
    for branch in &tree.branches {
        for (counter, _) in branch.leaves.iter().filter_map(|leaf| leaf.count) {
            // the counter of a split collection is the collection itself, and one of several leaves is not a branch
            let Some(found) = tree.branch(counter) else {
                continue;
            };
            let ([leaf], []) = (found.leaves.as_slice(), found.children.as_slice()) else {
                continue;
            };
            if shaper.apart.contains_key(&counter) {
                continue;
            }
            let is_wanted = tree.top_level.contains(&counter)
                && shaper.is_wanted(counter, &Names::new(&found.name));
            let reason = why_apart(ntuple, leaf, is_wanted)?;
            if reason.is_none() {
                shaper.counter(counter);
            }
            shaper.apart.insert(counter, reason);
        }
    }
    for &id in &tree.top_level {
        shaper.top_level(id)?;
    }
    let (left_out, read) = (shaper.left_out.clone(), shaper.out.columns());
    let others = elsewhere(&left_out, reader, &mut shaper.wanted, &read)?;
    shaper.out.skipped.extend(others);
    shaper.out.unmatched = shaper.wanted.unmatched(reader.url(), reader.path());
    shaper.collections();
    let Shaper {
        mut out, projected, ..
    } = shaper;
    out.fields.extend(projected);
    Ok(out)
}

impl Shaper<'_> {
    /// Finds the top-level counters of selected arrays. They are selected, too, unless they are dropped.
    fn find_counters(&mut self) {
        let names = |branch: &Branch| Names::new(&branch.name);
        let (tree, wanted) = (self.tree, &mut self.wanted);
        let mut counters = counting_branches(tree, |id| {
            let top = tree.branch(tree.top_of(id));
            top.is_some_and(|top| wanted.takes(&names(top)))
        });
        counters.retain(|&id| {
            tree.branch(id).is_some_and(|it| {
                it.leaves.len() == 1 && it.children.is_empty() && !wanted.drops(&names(it))
            })
        });
        self.counters = counters;
    }

    fn is_wanted(&mut self, id: BranchId, names: &Names) -> bool {
        self.wanted.takes(names) || self.counters.contains(&id)
    }

    fn counter(&mut self, id: BranchId) {
        let Some(leaf) = self
            .tree
            .branch(id)
            .and_then(|branch| branch.leaves.first())
        else {
            return;
        };
        let counted = self.counted.entry((leaf.name.to_string(), id));
        counted.or_default().branch = id;
    }

    fn top_level(&mut self, id: BranchId) -> Result<(), RNTupleError> {
        let Some(branch) = self.tree.branch(id) else {
            return Ok(());
        };
        let names = Names::new(&branch.name);
        if !self.is_wanted(id, &names) {
            return Ok(());
        }
        if self.counted.values().any(|counted| counted.branch == id) {
            return self.counter_alone(id, &names);
        }
        let counter = branch.leaves.first().and_then(|leaf| leaf.count);
        if let Some(Some(reason)) = counter.and_then(|(counter, _)| self.apart.get(&counter)) {
            let note = format!("is a separate vector: {reason}");
            self.out.notes.push((branch.name.to_string(), note));
        }
        let counter = counter.and_then(|(counter, _)| {
            let leaf = self.tree.branch(counter)?.leaves.first()?;
            let key = (leaf.name.to_string(), counter);
            self.counted.contains_key(&key).then_some(key)
        });
        match (counter, self.column(id)) {
            (Some(counter), Some((column, model)))
                if branch.children.is_empty() && self.left_out.reason(&column).is_none() =>
            {
                let name = self.branch_name(id, None);
                if let Some(counted) = self.counted.get_mut(&counter) {
                    counted.members.push(CountedArray {
                        branch: id,
                        column,
                        name,
                        model,
                    });
                }
            }
            _ => {
                let n_notes = self.out.notes.len();
                let name = self.branch_name(id, None);
                if let Some((model, piece)) = self.any(id, &name) {
                    self.out.fields.push(model.named(name.as_str()));
                    self.out.pieces.push((name, piece));
                } else {
                    self.out.notes.truncate(n_notes);
                    let reason = self.out.skipped.last().map_or("", |(_, why)| why.as_str());
                    self.wanted.refuse_if_named(&names, self.reader, reason)?;
                }
            }
        }
        Ok(())
    }

    /// Converts a counter as a selected field, without its arrays.
    fn counter_alone(&mut self, id: BranchId, names: &Names) -> Result<(), RNTupleError> {
        let reason = match self.column(id) {
            Some((_, model)) => self.obstacle(id, &model),
            None => Some(self.why_not_there(id)),
        };
        if let Some(reason) = reason {
            self.wanted.refuse_if_named(names, self.reader, &reason)?;
            self.out.skipped.push((self.tree.path(id), reason));
            return Ok(());
        }
        let mut counters = self.counted.values_mut();
        if let Some(counted) = counters.find(|counted| counted.branch == id) {
            counted.is_wanted = true;
        }
        Ok(())
    }

    /// The column for reading a branch, and its model.
    fn column(&self, id: BranchId) -> Option<(String, FieldModel)> {
        let field = Tree::field(self.reader, id)?;
        let descriptor: &Descriptor = self.reader.descriptor();
        if !descriptor.top_level.contains(&field) {
            return None;
        }
        let model = FieldModel::with_data(descriptor, field).ok()?;
        let model = self.fit.field(descriptor, field, model);
        let mut model = natural(&self.levels(field).model(model));
        let branch = self.tree.branch(id)?;
        let is_char = |leaf: &Leaf| leaf.class_name == "TLeafB" && !leaf.is_unsigned;
        // the importer uses ROOT's type names, such as Char_t
        if branch.leaves.iter().all(is_char) || is_of_char(&branch.object_class) {
            model.make_chars();
        } else if let FieldKind::Record(members) = &mut model.kind {
            let leaves = members.iter_mut().zip(&branch.leaves);
            for (member, _) in leaves.filter(|(_, leaf)| is_char(leaf)) {
                member.make_chars();
            }
        }
        Some((descriptor.field_name(field).to_owned(), model))
    }

    /// The bases of a branch's classes that become records.
    fn levels(&self, field: FieldId) -> Levels {
        Levels::new(self.reader, self.fit, field)
    }

    /// Converts a branch with its sub-branches.
    fn any(&mut self, id: BranchId, name: &str) -> Option<(FieldModel, Piece)> {
        let branch = self.tree.branch(id)?;
        let field = Tree::field(self.reader, id);
        if let (Some(field), Some((column, model))) = (field, self.column(id)) {
            // the sizes of split collections are known from their members
            if branch.children.is_empty() || !branch.is_collection() {
                if let Some(reason) = self.obstacle(id, &model) {
                    self.out.skipped.push((self.tree.path(id), reason));
                    return None;
                }
                self.out.read.push((column.clone(), id));
                // the importer supports only one dimension
                return Some(match (self.levels(field), flattened(&model)) {
                    (Levels::Same, Some(flat)) if branch.class_name == "TBranch" => {
                        (flat, Piece::Flat(column))
                    }
                    (Levels::Same, _) => (model, Piece::Column(column)),
                    (levels, _) => (model, Piece::Levels(column, levels)),
                });
            }
        }
        if branch.children.is_empty() {
            let reason = self.why_not_there(id);
            self.out.skipped.push((self.tree.path(id), reason));
            return None;
        }
        let n_skipped = self.out.skipped.len();
        let mut members = Members::default();
        for &child in &branch.children {
            let own = self.tree.name_below(child).to_owned();
            if let Some((model, piece)) = self.any(child, &own) {
                let parts = own.split('.').filter(|part| !part.is_empty());
                let mut path: Vec<String> = parts.map(plain_name).collect();
                if path.is_empty() {
                    path.push(plain_name(&own));
                }
                members.insert(&path, model, piece);
            }
        }
        if members.is_empty() {
            let mut below = self.out.skipped.drain(n_skipped..);
            let (first, why) = below.next()?;
            drop(below);
            let reason = format!("no field can be read: {first:?}: {why}");
            self.out.skipped.push((self.tree.path(id), reason));
            return None;
        }
        if branch.is_collection() {
            let (models, pieces) = members.items();
            if let Some(map) = map(branch, &pieces) {
                let numbered = pieces.into_iter().zip(["_0", "_1"]);
                let pieces = numbered.map(|((_, piece), name)| (name.to_owned(), piece));
                return Some((map.named(name), Piece::Zip(pieces.collect())));
            }
            let item = FieldModel::record("_0", "", models);
            return Some((FieldModel::vector(name, item), Piece::Zip(pieces)));
        }
        let (models, pieces) = members.finish();
        Some((FieldModel::record(name, "", models), Piece::Record(pieces)))
    }

    /// The reason why a branch has no column.
    fn why_not_there(&self, id: BranchId) -> String {
        let skipped = &self.reader.descriptor().skipped;
        let name = self.tree.branch(id).map_or("", |branch| &branch.name);
        let path = self.tree.path(id);
        let found = skipped.iter().find(|skipped| skipped.name == path);
        let found = found.or_else(|| skipped.iter().find(|skipped| skipped.name == name));
        found
            .map_or("it cannot be read", |found| &found.reason)
            .to_owned()
    }

    /// The reason why a branch cannot be converted, if so: its type is not supported, or its objects differ from their
    /// description in the file.
    fn obstacle(&self, id: BranchId, model: &FieldModel) -> Option<String> {
        let field = Tree::field(self.reader, id);
        if let Some(reason) = field.and_then(|field| lacking(&self.left_out, self.reader, field)) {
            return Some(reason);
        }
        let name = self.tree.branch(id).map_or("", |branch| &branch.name);
        let checked = model.clone().named(plain_name(name)).check();
        checked.err().map(|error| error.to_string())
    }

    /// The field name of a branch, derived from its own name or, of a counter, from that of its leaf. Branches of several
    /// files are the same if they are read by the same name, whether or not they count arrays.
    fn branch_name(&mut self, id: BranchId, leaf: Option<&str>) -> String {
        let descriptor = self.reader.descriptor();
        let field = Tree::field(self.reader, id);
        let field = field.filter(|field| descriptor.top_level.contains(field));
        let branch = self.tree.branch(id).map_or("", |branch| &branch.name);
        let own = field.map_or(branch.trim_end_matches('.'), |id| descriptor.field_name(id));
        let number = self.n_named.entry(own.to_owned()).or_default();
        *number += 1;
        let meant = Meant::Branch(own.to_owned(), *number);
        self.free_name(meant, leaf.unwrap_or(branch))
    }

    /// A unique valid field name.
    fn free_name(&mut self, meant: Meant, branch: &str) -> String {
        let name = self.out.names.give(meant, branch);
        if name != branch {
            self.out
                .notes
                .push((branch.to_owned(), format!("renamed to {name:?}")));
        }
        name
    }

    /// Converts arrays with counters to collections, and projects fields from them.
    fn collections(&mut self) {
        let mut counted = std::mem::take(&mut self.counted);
        for (_, alone) in counted.extract_if(.., |_, counted| counted.is_alone()) {
            for array in alone.members {
                self.out.read.push((array.column.clone(), array.branch));
                self.out.fields.push(array.model.named(array.name.as_str()));
                let piece = Piece::Column(array.column);
                self.out.pieces.push((array.name, piece));
            }
        }
        for ((counter, _), counted) in counted {
            let branch = self.tree.branch(counted.branch);
            let branch = branch.map_or(String::new(), |branch| branch.name.to_string());
            let (name, cut) = self.collection_name((&counter, &branch), &counted);
            let Counted {
                branch,
                is_wanted,
                members,
            } = counted;
            let mut models = Vec::new();
            let mut pieces = Vec::new();
            let is_grouped = cut.is_some();
            for array in members {
                let full = array.name;
                let own = full.get(cut.unwrap_or(0)..).unwrap_or(&full).to_owned();
                let item = array.model.subfields().first().cloned();
                let item = item.unwrap_or(array.model).named(own.as_str());
                if !is_grouped {
                    self.projected.push(projected(&full, &name, &item));
                }
                models.push(item);
                self.out.read.push((array.column.clone(), array.branch));
                pieces.push((own, Piece::Column(array.column)));
            }
            let piece = match (pieces.is_empty(), self.column(branch)) {
                (true, Some((column, _))) => {
                    self.out.read.push((column.clone(), branch));
                    Piece::Count(column)
                }
                _ => Piece::Zip(pieces),
            };
            let item = FieldModel::record("_0", "", models);
            self.out
                .fields
                .push(FieldModel::vector(name.as_str(), item));
            self.out.pieces.push((name.clone(), piece));
            if is_wanted {
                let counter = self.branch_name(branch, Some(&counter));
                self.projected
                    .push(FieldModel::cardinality(counter, name, false));
            }
        }
    }

    /// The importer's name for a collection, or the common prefix of its arrays; then also the length of the prefix.
    fn collection_name(
        &mut self,
        (counter, branch): (&str, &str),
        counted: &Counted,
    ) -> (String, Option<usize>) {
        let meant = Meant::Arrays(counter.to_owned(), branch.to_owned());
        let imported = self.out.names.give_collection(meant);
        if !self.group {
            return (imported, None);
        }
        let names: Vec<&str> = counted
            .members
            .iter()
            .map(|array| array.name.as_str())
            .collect();
        let common = common_beginning(&names);
        let own = match (common.trim_end_matches('_'), counter.strip_prefix('n')) {
            ("", Some(own)) if !own.is_empty() => own,
            ("", _) => counter,
            (common, _) => common,
        };
        if own.is_empty() || own == counter || !self.out.names.take(own) {
            return (imported, None);
        }
        (own.to_owned(), Some(common.len()))
    }
}

/// Whether a class is a container of `char`, not of `signed char`.
fn is_of_char(class: &str) -> bool {
    let arguments = class.split(['<', '>', ',']);
    arguments.map(str::trim).any(|argument| argument == "char")
}
