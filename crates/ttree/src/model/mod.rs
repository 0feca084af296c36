//! The tree: branches, their leaves, and where their baskets are.

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

/// A tree, but for what is in its branches: that of files that were written alike is the same.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TreeModel {
    /// Name.
    pub name: String,
    /// Title.
    pub title: String,
    /// Class: TTree, TNtuple, TNtupleD.
    pub class_name: String,
    /// All branches, each in front of those below it.
    pub branches: Vec<Branch>,
    /// The branches directly in the tree.
    pub top_level: Vec<BranchId>,
}

/// A branch. Trees of files that were written alike share its texts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Branch {
    /// Name.
    pub name: Text,
    /// Title.
    pub title: Text,
    /// Class of the branch itself: TBranch, TBranchElement, TBranchObject.
    pub class_name: Text,
    /// Class of the object that it holds, if it is of a class.
    pub object_class: Text,
    /// Class that the member belongs to.
    pub parent_class: Text,
    /// Class of the items of a TClonesArray or a collection.
    pub item_class: Text,
    /// Version of the class.
    pub class_version: i64,
    /// Checksum of the class.
    pub checksum: u32,
    /// Position among the elements of the class's streamer info; −1 for a whole class.
    pub element: i64,
    /// ROOT's kind of a TBranchElement: 3 and 4 are collections, 31 and 41 members of their items.
    pub kind: i64,
    /// ROOT's number of the type of a member.
    pub streamer_type: i64,
    /// The branch above.
    pub parent: Option<BranchId>,
    /// The branches below.
    pub children: Vec<BranchId>,
    /// Leaves.
    pub leaves: Vec<Leaf>,
    /// Compression settings: algorithm × 100 + level.
    pub compression: i64,
    /// Name of the file that has the baskets; empty: the tree's file.
    pub file_name: Text,
    /// Why the record of its baskets makes no sense, if it does not.
    pub problem: Option<String>,
    /// Which entries it lacks, if it has not all of the tree's.
    pub lacks: Option<String>,
    /// Whether it lacks entries that it counts itself. Branches that were filled less often do not.
    pub lacks_own: bool,
}

/// A leaf.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Leaf {
    /// Class, which says the type.
    pub class_name: Text,
    /// Name.
    pub name: Text,
    /// Title: name, and dimensions in brackets.
    pub title: Text,
    /// Number of values; of an array of variable length, of each item.
    pub length: i64,
    /// Bytes of a value.
    pub size: i64,
    /// Whether the numbers have no sign.
    pub is_unsigned: bool,
    /// ROOT's number of the type, of a TLeafElement.
    pub type_code: i64,
    /// The leaf that says how many values there are: its branch, and its position there.
    pub count: Option<(BranchId, usize)>,
}

/// A basket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Basket {
    /// Its first entry.
    pub first_entry: u64,
    /// Number of entries.
    pub n_entries: u64,
    /// Where it is.
    pub place: Place,
}

impl Basket {
    /// One past the last entry.
    pub fn end(&self) -> u64 {
        self.first_entry.saturating_add(self.n_entries)
    }
}

/// Where a basket is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A record of the file.
    File {
        /// Where it begins.
        offset: u64,
        /// Size of the record: key and data.
        n_bytes: u64,
    },
    /// In the tree's own object.
    Tree {
        /// Where the values are in the object, decompressed.
        data: Range<usize>,
        /// Where the entries begin in the values, if that was written.
        offsets: Option<Vec<u32>>,
    },
}

impl Place {
    /// The bytes of the file in which it is, if it is a record of its own.
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

    /// Names from the topmost branch down to this one, with slashes between.
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

    /// The topmost branch above one.
    pub fn top_of(&self, mut id: BranchId) -> BranchId {
        while let Some(parent) = self.branch(id).and_then(|branch| branch.parent) {
            id = parent;
        }
        id
    }
}
