//! Names of fields and ntuples, derived from names of branches, columns and trees. RNTuple allows fewer characters in
//! names, so several branches or trees may map to the same name; then a number is added.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::Hash;

/// The part of a tree that becomes a field, identified by its names in the tree.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Meant {
    /// A branch, by the name that reads it; the number distinguishes branches with the same name.
    Branch(String, usize),
    /// The arrays with a common counter, by the names of the counter's leaf and branch.
    Arrays(String, String),
}

/// Assigned names, each to one branch or tree.
#[derive(Debug, Clone)]
struct Given<K> {
    names: HashMap<K, String>,
    taken: HashSet<String>,
    /// Names that several branches or trees map to.
    shared: BTreeSet<String>,
    /// Names of branches or trees of the file itself, which no others get.
    own: HashSet<String>,
    /// Assigned names that differ from the names of their branches or trees.
    changed: BTreeSet<String>,
    /// Names of branches or trees that have them themselves.
    kept: HashSet<String>,
    /// Names of branches or trees that were already assigned to others, with other names, in earlier files.
    displaced: BTreeSet<String>,
}

impl<K> Default for Given<K> {
    fn default() -> Self {
        Self {
            names: HashMap::new(),
            taken: HashSet::new(),
            shared: BTreeSet::new(),
            own: HashSet::new(),
            changed: BTreeSet::new(),
            kept: HashSet::new(),
            displaced: BTreeSet::new(),
        }
    }
}

impl<K: Eq + Hash> Given<K> {
    /// The assigned name, which is assigned now if needed: the plain name, with a number if it is taken or is the own
    /// name of another (`is_own` tells whether it is the own name of this one).
    fn give(&mut self, meant: K, plain: &str, is_own: bool) -> String {
        if let Some(known) = self.names.get(&meant) {
            return known.clone();
        }
        let mut name = plain.to_owned();
        let mut number = 2;
        while (!is_own || name != plain) && self.own.contains(&name)
            || !self.taken.insert(name.clone())
        {
            name = format!("{plain}_{number}");
            number += 1;
        }
        if name != plain {
            self.shared.extend([plain.to_owned(), name.clone()]);
            // several branches of one tree may have the same name
            if is_own && !self.kept.contains(plain) {
                self.displaced.insert(plain.to_owned());
            }
        } else if is_own {
            self.kept.insert(name.clone());
        }
        if !is_own {
            self.changed.insert(name.clone());
        }
        self.names.insert(meant, name.clone());
        name
    }
}

/// The field names of a converted tree. Trees with the same path in several files share them: branches with the same
/// name get the same field name, other branches do not.
#[derive(Debug, Clone, Default)]
pub(crate) struct FieldNames {
    given: Given<Meant>,
    n_collections: usize,
}

impl FieldNames {
    /// Reserves the own names of branches. Names that are invalid for fields are never requested.
    pub(super) fn keep_own<'n>(&mut self, names: impl Iterator<Item = &'n str>) {
        self.given.own = names.map(str::to_owned).collect();
    }

    /// Assigns a valid field name to a branch.
    pub(super) fn give(&mut self, meant: Meant, branch: &str) -> String {
        let plain = plain_name(branch);
        self.given.give(meant, &plain, plain == branch)
    }

    /// Assigns a name to the collection of arrays with a common counter, numbered as by ROOT's importer.
    pub(super) fn give_collection(&mut self, meant: Meant) -> String {
        if let Some(known) = self.given.names.get(&meant) {
            return known.clone();
        }
        let plain = format!("_collection{}", self.n_collections);
        self.n_collections += 1;
        self.given.give(meant, &plain, true)
    }

    /// Reserves a name if it is free.
    pub(super) fn take(&mut self, name: &str) -> bool {
        self.given.taken.insert(name.to_owned())
    }
}

/// The names of separately converted trees, and of their fields.
#[derive(Debug, Clone, Default)]
pub(crate) struct TreeNames {
    given: Given<String>,
    /// Field names by the path of the tree.
    fields: HashMap<String, FieldNames>,
}

impl TreeNames {
    /// Reserves the own paths of trees in a file.
    pub(super) fn keep_own<'n>(&mut self, paths: impl Iterator<Item = &'n str>) {
        self.given.own = paths.map(str::to_owned).collect();
    }

    /// The path of the ntuple for a tree.
    pub(super) fn give(&mut self, path: &str) -> String {
        let plain = plain_ntuple_name(path);
        self.given.give(path.to_owned(), &plain, plain == path)
    }

    /// The names of the fields of a tree.
    pub(super) fn of(&self, path: &str) -> FieldNames {
        self.fields.get(path).cloned().unwrap_or_default()
    }

    pub(super) fn keep(&mut self, path: &str, names: FieldNames) {
        self.fields.insert(path.to_owned(), names);
    }

    /// Whether several trees map to this ntuple path.
    pub(crate) fn is_shared(&self, ntuple: &str) -> bool {
        self.given.shared.contains(ntuple)
    }

    /// The field names of all trees that become an ntuple.
    fn fields_of(&self, ntuple: &str) -> impl Iterator<Item = &FieldNames> {
        let trees = self.given.names.iter();
        let trees = trees.filter(move |(_, name)| *name == ntuple);
        trees.filter_map(|(tree, _)| self.fields.get(tree))
    }

    /// Field names of an ntuple to which several branches map.
    pub(crate) fn shared_fields(&self, ntuple: &str) -> impl Iterator<Item = &str> {
        let fields = self.fields_of(ntuple);
        fields.flat_map(|fields| fields.given.shared.iter().map(String::as_str))
    }

    /// Field names of an ntuple that differ from the branch names.
    pub(crate) fn changed_fields(&self, ntuple: &str) -> impl Iterator<Item = &str> {
        let fields = self.fields_of(ntuple);
        fields.flat_map(|fields| fields.given.changed.iter().map(String::as_str))
    }

    /// The first branch whose own name was already assigned to a branch of an earlier file.
    pub(crate) fn displaced_field(&self) -> Option<&str> {
        let mut fields = self.fields.values();
        fields.find_map(|fields| fields.given.displaced.first().map(String::as_str))
    }
}

/// The name of a branch or column without dimensions and without characters that are invalid in field names.
pub(super) fn plain_name(branch: &str) -> String {
    let name = branch.trim_end_matches('.').split('[').next();
    let is_bad =
        |c: char| matches!(c, '.' | '/' | '\\' | '"') || c.is_control() || c.is_whitespace();
    let plain: String = name
        .unwrap_or(branch)
        .chars()
        .map(|c| if is_bad(c) { '_' } else { c })
        .collect();
    if plain.is_empty() {
        "_".to_owned()
    } else {
        plain
    }
}

/// The name of a tree without characters that are invalid in ntuple names; slashes separate directories.
pub(super) fn plain_ntuple_name(tree: &str) -> String {
    let is_bad = |c: char| matches!(c, '.' | '\\' | ' ') || c.is_ascii_control();
    let plain = tree.chars().map(|c| if is_bad(c) { '_' } else { c });
    plain.collect()
}

/// The common prefix of names, up to an underscore.
pub(super) fn common_beginning<'n>(names: &[&'n str]) -> &'n str {
    let Some((first, rest)) = names.split_first() else {
        return "";
    };
    let mut cut = first.len();
    for name in rest {
        let same = first
            .bytes()
            .zip(name.bytes())
            .take_while(|(a, b)| a == b)
            .count();
        cut = cut.min(same);
    }
    let common = first.get(..cut).unwrap_or_default();
    let end = common.rfind('_').map_or(0, |at| at + 1);
    let prefix = first.get(..end).unwrap_or_default();
    // a rest must remain of each name
    if names.iter().any(|name| name.len() == prefix.len()) {
        ""
    } else {
        prefix
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_is_displaced_only_by_one_of_another_name() {
        let branch = |name: &str, number| Meant::Branch(name.to_owned(), number);
        let mut names = FieldNames::default();
        names.keep_own(["Particle", "Particle", "a.b"].into_iter());
        assert_eq!(names.give(branch("Particle", 1), "Particle"), "Particle");
        assert_eq!(names.give(branch("Particle", 2), "Particle"), "Particle_2");
        assert_eq!(names.give(branch("a.b", 1), "a.b"), "a_b");
        let mut trees = TreeNames::default();
        trees.keep("Events", names.clone());
        assert_eq!(trees.displaced_field(), None);
        // in the next file a branch has the name that was given to another
        names.keep_own(["Particle", "a_b"].into_iter());
        assert_eq!(names.give(branch("Particle", 1), "Particle"), "Particle");
        assert_eq!(names.give(branch("a_b", 1), "a_b"), "a_b_2");
        trees.keep("Events", names);
        assert_eq!(trees.displaced_field(), Some("a_b"));
    }
}
