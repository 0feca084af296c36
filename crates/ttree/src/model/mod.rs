//! The model of a tree: branches, leaves, and positions of baskets.

mod build;
mod clusters;
mod filling;
mod text;

use std::ops::Range;

pub(crate) use build::build;
pub use filling::{Contents, Filling};
pub use text::Text;

/// Index of a branch in [`TreeModel::branches`].
pub type BranchId = usize;

/// A tree without the contents of its branches. It is the same for files with the same branches.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TreeModel {
    /// Name.
    pub name: String,
    /// Title.
    pub title: String,
    /// Class: TTree, TNtuple, TNtupleD.
    pub class_name: String,
    /// All branches, each before its children.
    pub branches: Vec<Branch>,
    /// The top-level branches.
    pub top_level: Vec<BranchId>,
}

/// A branch. Trees with the same branches share its strings.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Branch {
    /// Name.
    pub name: Text,
    /// Title.
    pub title: Text,
    /// Class of the branch itself: TBranch, TBranchElement, TBranchObject.
    pub class_name: Text,
    /// Class of the object in the branch, if there is one.
    pub object_class: Text,
    /// Class that the member belongs to.
    pub parent_class: Text,
    /// Class of the items of a TClonesArray or a collection.
    pub item_class: Text,
    /// Version of the class.
    pub class_version: i64,
    /// Checksum of the class.
    pub checksum: u32,
    /// Index of the member in the class's streamer info; −1 for a complete object.
    pub element: i64,
    /// ROOT's kind of a TBranchElement: 3 and 4 are collections, 31 and 41 members of their items.
    pub kind: i64,
    /// The type code of the member.
    pub streamer_type: i64,
    /// The parent branch.
    pub parent: Option<BranchId>,
    /// The child branches.
    pub children: Vec<BranchId>,
    /// Leaves.
    pub leaves: Vec<Leaf>,
    /// Compression settings: algorithm × 100 + level.
    pub compression: i64,
    /// Name of the file with the baskets; empty if that is the tree's file.
    pub file_name: Text,
    /// Why the record of its baskets is invalid, if it is.
    pub problem: Option<String>,
    /// Which of the tree's entries it lacks, if any.
    pub lacks: Option<String>,
    /// Whether it lacks entries that it counts itself. Branches that were filled less often do not.
    pub lacks_own: bool,
}

impl Branch {
    /// Whether it is a collection or TClonesArray whose items are split into the branches below.
    pub fn is_collection(&self) -> bool {
        matches!(self.kind, 3 | 4)
    }
}

/// A leaf.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Leaf {
    /// Class, which determines the type.
    pub class_name: Text,
    /// Name.
    pub name: Text,
    /// Title: name, and dimensions in brackets.
    pub title: Text,
    /// Number of values; for arrays of variable length, number of values per item.
    pub length: i64,
    /// Size of a value in bytes.
    pub size: i64,
    /// Whether the numbers are unsigned.
    pub is_unsigned: bool,
    /// The type code, for a TLeafElement.
    pub type_code: i64,
    /// The counter leaf: its branch, and its index there.
    pub count: Option<(BranchId, usize)>,
}

/// A basket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Basket {
    /// The first entry.
    pub first_entry: u64,
    /// Number of entries.
    pub n_entries: u64,
    /// The position.
    pub place: Place,
}

impl Basket {
    /// One past the last entry.
    pub fn end(&self) -> u64 {
        self.first_entry.saturating_add(self.n_entries)
    }
}

/// The position of a basket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A record of the file.
    File {
        /// Offset of the record.
        offset: u64,
        /// Size of the record: key and data.
        n_bytes: u64,
    },
    /// Within the tree's own object.
    Tree {
        /// Range of the values in the decompressed object.
        data: Range<usize>,
        /// Offsets of the entries in the values, if they were written.
        offsets: Option<Vec<u32>>,
    },
}

impl Place {
    /// The range in the file, if the basket is a separate record.
    pub fn range(&self) -> Option<Range<u64>> {
        match *self {
            Self::File { offset, n_bytes } => Some(offset..offset.saturating_add(n_bytes)),
            Self::Tree { .. } => None,
        }
    }
}

impl TreeModel {
    /// A branch.
    pub fn branch(&self, id: BranchId) -> Option<&Branch> {
        self.branches.get(id)
    }

    /// The path from the top-level branch to this one, with slashes.
    pub fn path(&self, id: BranchId) -> String {
        let mut names = Vec::new();
        let mut current = Some(id);
        while let Some(branch) = current.and_then(|id| self.branch(id)) {
            names.push(branch.name.as_str());
            current = branch.parent;
        }
        names.reverse();
        names.join("/")
    }

    /// The name with which ROOT finds a branch in the whole tree, `TBranch::GetFullName`: with that of the top-level
    /// branch, unless it begins with it anyway.
    pub fn full_name(&self, id: BranchId) -> String {
        let name = self.branch(id).map_or("", |branch| branch.name.as_str());
        match self.branch(self.top_of(id)) {
            Some(top) if top.name != name && !top.is_collection() && !top.name.ends_with('.') => {
                format!("{}.{name}", top.name.as_str())
            }
            _ => name.to_owned(),
        }
    }

    /// The name of a branch without dimensions and without the name of the nearest containing object that has a name.
    /// Below a base of a base, branches have only the name of the outer one.
    pub fn name_below(&self, id: BranchId) -> &str {
        let name = self.branch(id).map_or("", |branch| branch.name.as_str());
        let name = name.split('[').next().unwrap_or(name);
        let name = name.trim_end_matches('.');
        let parent = |id: &BranchId| self.branch(*id)?.parent;
        let mut above = std::iter::successors(parent(&id), parent);
        let below = above.find_map(|id| {
            let above = self.branch(id)?.name.trim_end_matches('.');
            name.strip_prefix(above)?.strip_prefix('.')
        });
        below.unwrap_or(name)
    }

    /// The top-level ancestor of a branch.
    pub fn top_of(&self, mut id: BranchId) -> BranchId {
        while let Some(parent) = self.branch(id).and_then(|branch| branch.parent) {
            id = parent;
        }
        id
    }
}
