//! From a tree's objects to the model.

use std::collections::HashMap;

use super::clusters::{Recorded, clusters};
use super::{Basket, Branch, BranchId, Contents, Filling, Leaf, Place, TreeModel};
use crate::TreeError;
use crate::error::unsupported;
use crate::object::{Infos, Object, ObjectId, ObjectReader, Places, Value};

/// Branches in branches: deeper than this is damage.
const DEEPEST: usize = 100;

/// Builds the model of the tree in `bytes`, an object of `class_name` behind a key of `key_len` bytes, and what is in its
/// branches.
pub(crate) fn build(
    infos: &Infos,
    class_name: &str,
    bytes: &[u8],
    key_len: u16,
) -> Result<(TreeModel, Filling), TreeError> {
    let mut reader = ObjectReader::new(infos, bytes, key_len);
    let top = reader.top(class_name)?;
    let Some(tree) = reader.objects.get(top) else {
        return unsupported("no tree");
    };
    let n_entries = tree.int("fEntries").and_then(|n| u64::try_from(n).ok());
    let n_entries = n_entries.unwrap_or(0);
    let mut model = TreeModel {
        name: tree.text("fName"),
        title: tree.text("fTitle"),
        class_name: class_name.to_owned(),
        ..TreeModel::default()
    };
    let mut builder = Builder {
        objects: &reader.objects,
        model: &mut model,
        n_entries,
        contents: Vec::new(),
        leaves: HashMap::new(),
        counts: Vec::new(),
        seen: HashMap::new(),
        places: Places::default(),
    };
    builder.branches(top, None, 0)?;
    builder.link_counts();
    let contents = builder.contents;
    let recorded = Recorded {
        range_ends: tree.ints("fClusterRangeEnd"),
        range_sizes: tree.ints("fClusterSize"),
        auto_flush: tree.int("fAutoFlush").unwrap_or(0),
    };
    let clusters = clusters(n_entries, &contents, &recorded);
    let Some(filling) = Filling::new(n_entries, clusters, &contents) else {
        return unsupported("its baskets are too many");
    };
    Ok((model, filling))
}

struct Builder<'b, 's> {
    objects: &'b [Object<'s>],
    model: &'b mut TreeModel,
    /// Of the tree.
    n_entries: u64,
    /// What is in each branch.
    contents: Vec<Contents>,
    /// Branch and position of each leaf.
    leaves: HashMap<ObjectId, (BranchId, usize)>,
    /// The object of the leaf that counts for a leaf.
    counts: Vec<(BranchId, usize, ObjectId)>,
    seen: HashMap<ObjectId, BranchId>,
    /// Where the members of branches are.
    places: Places<'s>,
}

impl<'b> Builder<'b, '_> {
    fn items(&self, owner: ObjectId, name: &str) -> &'b [Option<ObjectId>] {
        let array = self
            .objects
            .get(owner)
            .and_then(|object| object.object(name));
        let array = array.and_then(|id| self.objects.get(id));
        array.map_or(&[], |array| array.items.as_slice())
    }

    /// Adds the branches of a tree or a branch.
    fn branches(
        &mut self,
        owner: ObjectId,
        parent: Option<BranchId>,
        depth: usize,
    ) -> Result<(), TreeError> {
        if depth > DEEPEST {
            return unsupported("branches are nested too deeply");
        }
        for &item in self.items(owner, "fBranches").iter().flatten() {
            if self.seen.contains_key(&item) {
                continue;
            }
            let id = self.model.branches.len();
            self.seen.insert(item, id);
            let (branch, contents) = self.branch(item, id, parent);
            self.model.branches.push(branch);
            self.contents.push(contents);
            match parent.and_then(|parent| self.model.branches.get_mut(parent)) {
                Some(parent) => parent.children.push(id),
                None => self.model.top_level.push(id),
            }
            self.branches(item, Some(id), depth + 1)?;
        }
        Ok(())
    }

    fn branch(
        &mut self,
        object: ObjectId,
        id: BranchId,
        parent: Option<BranchId>,
    ) -> (Branch, Contents) {
        let Some(own) = self.objects.get(object) else {
            return Default::default();
        };
        let mut places = std::mem::take(&mut self.places);
        places.begin(own);
        let mut member = |name: &str| places.get(own, name);
        let mut text = |name: &str| member(name).map_or_else(String::new, Value::text);
        let mut branch = Branch {
            name: text("fName"),
            title: text("fTitle"),
            class_name: own.class.to_owned(),
            object_class: text("fClassName"),
            parent_class: text("fParentName"),
            item_class: text("fClonesName"),
            file_name: text("fFileName"),
            ..Branch::default()
        };
        let mut int =
            |name: &str, missing: i64| member(name).and_then(Value::int).unwrap_or(missing);
        branch.class_version = int("fClassVersion", 0);
        branch.checksum = u32::try_from(int("fCheckSum", 0) & 0xFFFF_FFFF).unwrap_or(0);
        branch.element = int("fID", -1);
        branch.kind = int("fType", 0);
        branch.streamer_type = int("fStreamerType", -1);
        branch.parent = parent;
        branch.compression = int("fCompress", 0);
        let mut contents = Contents {
            n_entries: u64::try_from(int("fEntries", 0)).unwrap_or(0),
            total_bytes: u64::try_from(int("fTotBytes", 0)).unwrap_or(0),
            ..Contents::default()
        };
        self.places = places;
        match self.baskets(object, own) {
            Ok(baskets) => contents.baskets = baskets,
            Err(problem) => branch.problem = Some(problem),
        }
        branch.lacks = contents.lacks(self.n_entries);
        for &item in self.items(object, "fLeaves").iter().flatten() {
            let Some(leaf) = self.objects.get(item) else {
                continue;
            };
            let at = branch.leaves.len();
            self.leaves.insert(item, (id, at));
            if let Some(count) = leaf.object("fLeafCount") {
                self.counts.push((id, at, count));
            }
            if at == 0 {
                contents.maximum = leaf.int("fMaximum");
            }
            branch.leaves.push(Leaf {
                class_name: leaf.class.to_owned(),
                name: leaf.text("fName"),
                title: leaf.text("fTitle"),
                length: leaf.int("fLen").unwrap_or(1),
                size: leaf.int("fLenType").unwrap_or(0),
                is_unsigned: leaf.int("fIsUnsigned").unwrap_or(0) != 0,
                type_code: leaf.int("fType").unwrap_or(-1),
                count: None,
            });
        }
        (branch, contents)
    }

    fn link_counts(&mut self) {
        for (branch, at, count) in std::mem::take(&mut self.counts) {
            let count = self.leaves.get(&count).copied();
            let leaf = self.model.branches.get_mut(branch);
            if let Some(leaf) = leaf.and_then(|branch| branch.leaves.get_mut(at)) {
                // a leaf that cannot be found counts nothing: who needs it finds none of its branch
                leaf.count = Some(count.unwrap_or((usize::MAX, 0)));
            }
        }
    }

    /// The baskets, whose entries must follow each other.
    fn baskets(&self, object: ObjectId, own: &Object<'_>) -> Result<Vec<Basket>, String> {
        let (seeks, sizes) = (own.ints("fBasketSeek"), own.ints("fBasketBytes"));
        let entries = own.ints("fBasketEntry");
        let n_entries = own.int("fEntries").unwrap_or(0);
        let write = own.int("fWriteBasket").unwrap_or(0);
        let write = usize::try_from(write).unwrap_or(0);
        let mut out = Vec::new();
        let mut next = 0u64;
        let n_written = seeks
            .iter()
            .take(write)
            .take_while(|&&seek| seek != 0)
            .count();
        for (at, (&seek, &size)) in seeks.iter().zip(sizes).take(n_written).enumerate() {
            let first = entries.get(at).copied().unwrap_or(0);
            let end = entries.get(at + 1).copied().unwrap_or(n_entries);
            let bad = |what: &str, found: i64| format!("basket {at} has {what} {found}");
            let positive =
                |value: i64, what: &str| u64::try_from(value).map_err(|_| bad(what, value));
            let (first, end) = (
                positive(first, "the first entry")?,
                positive(end, "the end")?,
            );
            if at == 0 {
                next = first;
            }
            if first != next || end < first {
                return Err(format!(
                    "basket {at} has entries {first}..{end} where those from {next} on should be"
                ));
            }
            next = end;
            out.push(Basket {
                first_entry: first,
                n_entries: end - first,
                place: Place::File {
                    offset: positive(seek, "the position")?,
                    n_bytes: positive(size, "the size")?,
                },
            });
        }
        let n_entries = u64::try_from(n_entries).unwrap_or(0);
        if out.is_empty() {
            next = entries
                .first()
                .and_then(|&first| u64::try_from(first).ok())
                .unwrap_or(0);
        }
        if next < n_entries {
            self.embedded(object, n_written, next, &mut out);
        }
        Ok(out)
    }

    /// Adds the baskets that are stored in the branch itself.
    fn embedded(&self, object: ObjectId, from: usize, mut next: u64, out: &mut Vec<Basket>) {
        let items = self.items(object, "fBaskets");
        for item in items.iter().skip(from).flatten() {
            let Some(basket) = self.objects.get(*item).and_then(|item| item.basket.clone()) else {
                continue;
            };
            out.push(Basket {
                first_entry: next,
                n_entries: u64::from(basket.n_entries),
                place: Place::Tree {
                    data: basket.data,
                    offsets: basket.offsets,
                },
            });
            next = next.saturating_add(u64::from(basket.n_entries));
        }
    }
}
