//! Names of fields and ntuples, derived from names of branches, columns and trees. RNTuple allows fewer characters in names:
//! several branches, or several trees, may get the same name, which then gets numbers.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::Hash;

/// The part of a tree that becomes a field, by its names in the tree.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Meant {
    /// A branch, by the name that reads it; a number tells branches of the same name apart.
    Branch(String, usize),
    /// The arrays with one counter, by the names of the counter's leaf and branch.
    Arrays(String, String),
    /// A counter, by the names of its leaf and branch.
    Counter(String, String),
}

/// Names that were given to branches or trees, each to one.
#[derive(Debug, Clone)]
struct Given<K> {
    names: HashMap<K, String>,
    taken: HashSet<String>,
    /// Names that several branches or trees would have.
    shared: BTreeSet<String>,
    /// Names that branches or trees of the file have themselves: no others get them.
    own: HashSet<String>,
    /// Names that differ from those of the branches or trees.
    changed: BTreeSet<String>,
    /// Names of branches or trees that others had been given before, in other files.
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
            displaced: BTreeSet::new(),
        }
    }
}

impl<K: Eq + Hash> Given<K> {
    /// The name that was given, or is given now: the plain name, with a number if it is taken, or if others have it
    /// themselves (`is_own` says that this one has it).
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
            if is_own {
                self.displaced.insert(plain.to_owned());
            }
        }
        if !is_own {
            self.changed.insert(name.clone());
        }
        self.names.insert(meant, name.clone());
        name
    }
}

/// The names of the fields that a tree becomes. Trees of the same path in several files share these names: branches with the
/// same name in two files get the same field name, and other branches do not.
#[derive(Debug, Clone, Default)]
pub(crate) struct FieldNames {
    given: Given<Meant>,
    n_collections: usize,
}

impl FieldNames {
    /// Names that branches of a tree have themselves. Those that a field cannot have are never asked for.
    pub(super) fn keep_own<'n>(&mut self, names: impl Iterator<Item = &'n str>) {
        self.given.own = names.map(str::to_owned).collect();
    }

    /// The name of a field of a branch, as a field can have it.
    pub(super) fn give(&mut self, meant: Meant, branch: &str) -> String {
        let plain = plain_name(branch);
        self.given.give(meant, &plain, plain == branch)
    }

    /// The name of the collection of arrays with one counter, numbered as ROOT's importer does.
    pub(super) fn give_collection(&mut self, meant: Meant) -> String {
        if let Some(known) = self.given.names.get(&meant) {
            return known.clone();
        }
        let plain = format!("_collection{}", self.n_collections);
        self.n_collections += 1;
        self.given.give(meant, &plain, true)
    }

    /// Takes a name, if it is free.
    pub(super) fn take(&mut self, name: &str) -> bool {
        self.given.taken.insert(name.to_owned())
    }
}

/// The names of trees that are converted one by one, and of their fields.
#[derive(Debug, Clone, Default)]
pub(crate) struct TreeNames {
    given: Given<String>,
    /// By the path of the tree.
    fields: HashMap<String, FieldNames>,
}

impl TreeNames {
    /// Paths that trees of a file have themselves.
    pub(super) fn keep_own<'n>(&mut self, paths: impl Iterator<Item = &'n str>) {
        self.given.own = paths.map(str::to_owned).collect();
    }

    /// The path of the ntuple that the tree of a path becomes.
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

    /// Whether several trees could get this path as ntuples.
    pub(crate) fn is_shared(&self, ntuple: &str) -> bool {
        self.given.shared.contains(ntuple)
    }

    /// The fields of the trees that become an ntuple.
    fn fields_of(&self, ntuple: &str) -> impl Iterator<Item = &FieldNames> {
        let trees = self.given.names.iter();
        let trees = trees.filter(move |(_, name)| *name == ntuple);
        trees.filter_map(|(tree, _)| self.fields.get(tree))
    }

    /// Field names of an ntuple that several branches could get.
    pub(crate) fn shared_fields(&self, ntuple: &str) -> impl Iterator<Item = &str> {
        let fields = self.fields_of(ntuple);
        fields.flat_map(|fields| fields.given.shared.iter().map(String::as_str))
    }

    /// Field names of an ntuple that are not those of the branches.
    pub(crate) fn changed_fields(&self, ntuple: &str) -> impl Iterator<Item = &str> {
        let fields = self.fields_of(ntuple);
        fields.flat_map(|fields| fields.given.changed.iter().map(String::as_str))
    }

    /// The first branch whose field has another name, because a branch of an earlier file has been given its name.
    pub(crate) fn displaced_field(&self) -> Option<&str> {
        let mut fields = self.fields.values();
        fields.find_map(|fields| fields.given.displaced.first().map(String::as_str))
    }
}

/// The name of a branch or a column without dimensions, and without what ROOT does not take in names of fields.
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

/// The name of a tree without characters that ntuple names cannot have; a slash separates directories.
pub(super) fn plain_ntuple_name(tree: &str) -> String {
    let is_bad = |c: char| matches!(c, '.' | '\\' | ' ') || c.is_ascii_control();
    let plain = tree.chars().map(|c| if is_bad(c) { '_' } else { c });
    plain.collect()
}

/// What names have in common, up to an underscore.
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
    // something must be left of each name
    if names.iter().any(|name| name.len() == prefix.len()) {
        ""
    } else {
        prefix
    }
}
