//! From a tree's objects to the model.

use super::clusters::{Recorded, clusters};
use super::{Basket, Branch, BranchId, Contents, Filling, Leaf, Place, Text, TreeModel};
use crate::TreeError;
use crate::error::unsupported;
use crate::object::{Infos, Ints, Object, ObjectId, ObjectReader, Places, Value};

/// Branches in branches: deeper than this is damage.
const DEEPEST: usize = 100;

/// Builds the model of the tree in `bytes`, an object of `class_name` behind a key of `key_len` bytes, and what is in its
/// branches. What is as in `like`, a tree that may be much the same, shares its texts.
pub(crate) fn build(
    infos: &Infos,
    class_name: &str,
    bytes: &[u8],
    key_len: u16,
    like: Option<&TreeModel>,
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
        like,
        n_entries,
        contents: Vec::new(),
        leaves: vec![None; reader.objects.len()],
        counts: Vec::new(),
        seen: vec![false; reader.objects.len()],
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

/// The text of a member: that which is known, if it is the same.
fn shared(value: Option<&Value<'_>>, known: Option<&Text>) -> Text {
    match (value, known) {
        (Some(Value::Text(bytes)), Some(known)) if known.as_bytes() == *bytes => known.clone(),
        (Some(value @ Value::Text(_)), _) => value.text().into(),
        _ => Text::default(),
    }
}

fn same(class: &str, known: Option<&Text>) -> Text {
    match known {
        Some(known) if *known == class => known.clone(),
        _ => class.into(),
    }
}

/// What a branch says of its baskets.
struct Baskets<'s> {
    n_entries: i64,
    n_written: usize,
    total_bytes: u64,
    seeks: Ints<'s>,
    sizes: Ints<'s>,
    entries: Ints<'s>,
}

struct Builder<'b, 's> {
    objects: &'b [Object<'s>],
    model: &'b mut TreeModel,
    like: Option<&'b TreeModel>,
    /// Of the tree.
    n_entries: u64,
    /// What is in each branch.
    contents: Vec<Contents>,
    /// Branch and position of each object that is a leaf.
    leaves: Vec<Option<(BranchId, usize)>>,
    /// The object of the leaf that counts for a leaf.
    counts: Vec<(BranchId, usize, ObjectId)>,
    /// Whether an object is a branch that was added.
    seen: Vec<bool>,
    /// Where the members of branches and leaves are.
    places: Places<'s>,
}

impl<'b> Builder<'b, '_> {
    /// What is in an array of objects.
    fn items(&self, array: Option<ObjectId>) -> &'b [Option<ObjectId>] {
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
        let own = self.objects.get(owner);
        let below = own.and_then(|own| own.object("fBranches"));
        for &item in self.items(below).iter().flatten() {
            match self.seen.get_mut(item) {
                Some(seen) if !*seen => *seen = true,
                _ => continue,
            }
            let id = self.model.branches.len();
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
        let places = &mut self.places;
        places.begin(own);
        let known = self.like.and_then(|like| like.branch(id));
        let mut text =
            |name: &str, like: fn(&Branch) -> &Text| shared(places.get(own, name), known.map(like));
        let mut branch = Branch {
            name: text("fName", |like| &like.name),
            title: text("fTitle", |like| &like.title),
            class_name: same(own.class, known.map(|like| &like.class_name)),
            object_class: text("fClassName", |like| &like.object_class),
            parent_class: text("fParentName", |like| &like.parent_class),
            item_class: text("fClonesName", |like| &like.item_class),
            file_name: text("fFileName", |like| &like.file_name),
            parent,
            ..Branch::default()
        };
        let mut int = |name: &str, missing: i64| places.int(own, name).unwrap_or(missing);
        branch.class_version = int("fClassVersion", 0);
        branch.checksum = u32::try_from(int("fCheckSum", 0) & 0xFFFF_FFFF).unwrap_or(0);
        branch.element = int("fID", -1);
        branch.kind = int("fType", 0);
        branch.streamer_type = int("fStreamerType", -1);
        branch.compression = int("fCompress", 0);
        let recorded = Baskets {
            n_entries: int("fEntries", 0),
            n_written: usize::try_from(int("fWriteBasket", 0)).unwrap_or(0),
            total_bytes: u64::try_from(int("fTotBytes", 0)).unwrap_or(0),
            seeks: places.ints(own, "fBasketSeek"),
            sizes: places.ints(own, "fBasketBytes"),
            entries: places.ints(own, "fBasketEntry"),
        };
        let leaves = places.object(own, "fLeaves");
        let mut contents = Contents {
            n_entries: u64::try_from(recorded.n_entries).unwrap_or(0),
            total_bytes: recorded.total_bytes,
            ..Contents::default()
        };
        match self.baskets(own, &recorded) {
            Ok(baskets) => contents.baskets = baskets,
            Err(problem) => branch.problem = Some(problem),
        }
        branch.lacks = contents.lacks(self.n_entries);
        for &item in self.items(leaves).iter().flatten() {
            let Some(leaf) = self.objects.get(item) else {
                continue;
            };
            let at = branch.leaves.len();
            if let Some(place) = self.leaves.get_mut(item) {
                *place = Some((id, at));
            }
            let places = &mut self.places;
            places.begin(leaf);
            if let Some(count) = places.object(leaf, "fLeafCount") {
                self.counts.push((id, at, count));
            }
            let maximum = places.int(leaf, "fMaximum");
            if at == 0 {
                contents.maximum = maximum;
            }
            let known = known.and_then(|like| like.leaves.get(at));
            branch.leaves.push(Leaf {
                class_name: same(leaf.class, known.map(|like| &like.class_name)),
                name: shared(places.get(leaf, "fName"), known.map(|like| &like.name)),
                title: shared(places.get(leaf, "fTitle"), known.map(|like| &like.title)),
                length: places.int(leaf, "fLen").unwrap_or(1),
                size: places.int(leaf, "fLenType").unwrap_or(0),
                is_unsigned: places.int(leaf, "fIsUnsigned").unwrap_or(0) != 0,
                type_code: places.int(leaf, "fType").unwrap_or(-1),
                count: None,
            });
        }
        (branch, contents)
    }

    fn link_counts(&mut self) {
        for (branch, at, count) in std::mem::take(&mut self.counts) {
            let count = self.leaves.get(count).copied().flatten();
            let leaf = self.model.branches.get_mut(branch);
            if let Some(leaf) = leaf.and_then(|branch| branch.leaves.get_mut(at)) {
                // a leaf that cannot be found counts nothing: who needs it finds none of its branch
                leaf.count = Some(count.unwrap_or((usize::MAX, 0)));
            }
        }
    }

    /// The baskets, whose entries must follow each other.
    fn baskets(&self, own: &Object<'_>, recorded: &Baskets<'_>) -> Result<Vec<Basket>, String> {
        let Baskets {
            n_entries,
            seeks,
            sizes,
            entries,
            ..
        } = *recorded;
        let mut out = Vec::new();
        let mut next = 0u64;
        let n_written = seeks
            .iter()
            .take(recorded.n_written)
            .take_while(|&seek| seek != 0);
        let n_written = n_written.count();
        out.reserve_exact(n_written);
        let places = seeks.iter().zip(sizes.iter()).take(n_written);
        for (at, (seek, size)) in places.enumerate() {
            let first = entries.get(at).unwrap_or(0);
            let end = entries.get(at + 1).unwrap_or(n_entries);
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
            let first = entries.get(0).and_then(|first| u64::try_from(first).ok());
            next = first.unwrap_or(0);
        }
        if next < n_entries {
            self.embedded(own, n_written, next, &mut out);
        }
        Ok(out)
    }

    /// Adds the baskets that are stored in the branch itself.
    fn embedded(&self, own: &Object<'_>, from: usize, mut next: u64, out: &mut Vec<Basket>) {
        let items = self.items(own.object("fBaskets"));
        for item in items.iter().skip(from).flatten() {
            let Some(basket) = self.objects.get(*item).and_then(|item| item.basket.clone()) else {
                continue;
            };
            let basket = *basket;
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
