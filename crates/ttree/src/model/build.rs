//! Builds the model of a tree from its objects.

use super::clusters::{Recorded, clusters};
use femtobarn_rootfile::streamed_text;

use super::{Basket, Branch, BranchId, Contents, Filling, Leaf, Place, Text, TreeModel};
use crate::TreeError;
use crate::error::unsupported;
use crate::object::{Infos, Ints, Object, ObjectId, ObjectReader, Places, Value};

/// Maximum nesting of branches; deeper nesting is treated as damage.
const DEEPEST: usize = 100;

/// Builds the model of the tree in `bytes`, an object of `class_name` with a key of `key_len` bytes, and the contents of
/// its branches. The model is none if it equals `like`. Otherwise parts that equal those of `like` share their strings.
pub(crate) fn build(
    infos: &Infos,
    class_name: &str,
    bytes: &[u8],
    key_len: u16,
    like: Option<&TreeModel>,
) -> Result<(Option<TreeModel>, Filling), TreeError> {
    let mut reader = ObjectReader::new(infos, bytes, key_len);
    let top = reader.top(class_name)?;
    let Some(tree) = reader.objects.get(top) else {
        return unsupported("the object is not a tree");
    };
    let n_entries = tree.int("fEntries").and_then(|n| u64::try_from(n).ok());
    let n_entries = n_entries.unwrap_or(0);
    let mut builder = Builder {
        objects: &reader.objects,
        branches: Vec::with_capacity(like.map_or(0, |like| like.branches.len())),
        like,
        n_entries,
        contents: Vec::new(),
        rows: Vec::new(),
        leaves: vec![None; reader.objects.len()],
        counts: Vec::new(),
        seen: vec![false; reader.objects.len()],
        places: Places::default(),
    };
    builder.branches(top, None, 0)?;
    builder.link_counts();
    let recorded = Recorded {
        range_ends: tree.ints("fClusterRangeEnd"),
        range_sizes: tree.ints("fClusterSize"),
        auto_flush: tree.int("fAutoFlush").unwrap_or(0),
    };
    let clusters = clusters(n_entries, &builder.contents, &recorded);
    let Some(filling) = Filling::new(n_entries, clusters, &builder.contents) else {
        return unsupported("it has too many baskets");
    };
    let (name, title) = (tree.text("fName"), tree.text("fTitle"));
    let is_like = like.is_some_and(|like| {
        let own = (name.as_str(), title.as_str(), class_name);
        own == (&like.name, &like.title, &like.class_name)
            && like.branches.len() == builder.branches.len()
            && builder.branches.iter().all(Option::is_none)
    });
    let model = (!is_like).then(|| builder.model(name, title, class_name.to_owned()));
    Ok((model, filling))
}

fn same(text: &[u8], known: Option<&Text>) -> Text {
    match known {
        Some(known) if known.is(text) => known.clone(),
        _ => streamed_text(text).into(),
    }
}

/// The record of a branch, without its baskets, leaves and position in the tree.
struct Row<'s> {
    /// Name, title, class of the object, class of the member, class of the items, file; then class of the branch.
    texts: [&'s [u8]; 7],
    class_version: i64,
    checksum: u32,
    element: i64,
    kind: i64,
    streamer_type: i64,
    compression: i64,
}

impl Row<'_> {
    fn texts_of(branch: &Branch) -> [&Text; 7] {
        [
            &branch.name,
            &branch.title,
            &branch.object_class,
            &branch.parent_class,
            &branch.item_class,
            &branch.file_name,
            &branch.class_name,
        ]
    }

    fn is(&self, known: &Branch) -> bool {
        let texts = self.texts.iter().zip(Self::texts_of(known));
        self.class_version == known.class_version
            && self.checksum == known.checksum
            && self.element == known.element
            && self.kind == known.kind
            && self.streamer_type == known.streamer_type
            && self.compression == known.compression
            && texts.into_iter().all(|(own, known)| known.is(own))
    }

    fn branch(&self, known: Option<&Branch>) -> Branch {
        let known = known.map(Self::texts_of);
        let text = |at: usize| {
            let own = self.texts.get(at).copied().unwrap_or_default();
            same(own, known.and_then(|known| known.get(at).copied()))
        };
        let [
            name,
            title,
            object_class,
            parent_class,
            item_class,
            file_name,
            class_name,
        ] = std::array::from_fn(text);
        Branch {
            name,
            title,
            class_name,
            object_class,
            parent_class,
            item_class,
            file_name,
            class_version: self.class_version,
            checksum: self.checksum,
            element: self.element,
            kind: self.kind,
            streamer_type: self.streamer_type,
            compression: self.compression,
            ..Branch::default()
        }
    }
}

/// The record of a leaf.
struct LeafRow<'s> {
    /// Name, title, class.
    texts: [&'s [u8]; 3],
    length: i64,
    size: i64,
    is_unsigned: bool,
    type_code: i64,
    is_counted: bool,
}

impl LeafRow<'_> {
    fn is(&self, known: &Leaf) -> bool {
        let texts = [&known.name, &known.title, &known.class_name];
        let mut texts = self.texts.iter().zip(texts);
        self.length == known.length
            && self.size == known.size
            && self.is_unsigned == known.is_unsigned
            && self.type_code == known.type_code
            && self.is_counted == known.count.is_some()
            && texts.all(|(own, known)| known.is(own))
    }

    fn leaf(&self, known: Option<&Leaf>) -> Leaf {
        let [name, title, class_name] = self.texts;
        Leaf {
            class_name: same(class_name, known.map(|like| &like.class_name)),
            name: same(name, known.map(|like| &like.name)),
            title: same(title, known.map(|like| &like.title)),
            length: self.length,
            size: self.size,
            is_unsigned: self.is_unsigned,
            type_code: self.type_code,
            count: None,
        }
    }
}

/// A branch's record of its baskets.
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
    /// Branches that differ from the one at the same position of `like`.
    branches: Vec<Option<Branch>>,
    like: Option<&'b TreeModel>,
    /// Number of entries of the tree.
    n_entries: u64,
    /// The contents of each branch.
    contents: Vec<Contents>,
    /// The leaves of the current branch.
    rows: Vec<LeafRow<'b>>,
    /// Branch and position of each leaf object.
    leaves: Vec<Option<(BranchId, usize)>>,
    /// The counter object of a leaf.
    counts: Vec<(BranchId, usize, ObjectId)>,
    /// Whether an object is a branch that was added.
    seen: Vec<bool>,
    /// Positions of members of branches and leaves.
    places: Places<'s>,
}

impl<'b> Builder<'b, '_> {
    /// The items of an array of objects.
    fn items(&self, array: Option<ObjectId>) -> &'b [Option<ObjectId>] {
        let array = array.and_then(|id| self.objects.get(id));
        array.map_or(&[], |array| array.items.as_slice())
    }

    /// Adds the branches of a tree or of a branch.
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
            let id = self.branches.len();
            self.branch(item, id, parent);
            self.branches(item, Some(id), depth + 1)?;
        }
        Ok(())
    }

    /// Adds a branch.
    fn branch(&mut self, object: ObjectId, id: BranchId, parent: Option<BranchId>) {
        let Some(own) = self.objects.get(object) else {
            self.branches.push(Some(Branch::default()));
            self.contents.push(Contents::default());
            return;
        };
        let places = &mut self.places;
        places.begin(own);
        let mut text = |name: &str| places.get(own, name).map_or(&[][..], Value::bytes);
        let texts = [
            text("fName"),
            text("fTitle"),
            text("fClassName"),
            text("fParentName"),
            text("fClonesName"),
            text("fFileName"),
            own.class.as_bytes(),
        ];
        let mut int = |name: &str, missing: i64| places.int(own, name).unwrap_or(missing);
        let row = Row {
            texts,
            class_version: int("fClassVersion", 0),
            checksum: u32::try_from(int("fCheckSum", 0) & 0xFFFF_FFFF).unwrap_or(0),
            element: int("fID", -1),
            kind: int("fType", 0),
            streamer_type: int("fStreamerType", -1),
            compression: int("fCompress", 0),
        };
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
        let problem = match self.baskets(own, &recorded) {
            Ok(baskets) => {
                contents.baskets = baskets;
                None
            }
            Err(problem) => Some(problem),
        };
        let lacks = contents.lacks(self.n_entries);
        let lacks_own = contents.lacks_own(self.n_entries);
        self.leaves(id, leaves, &mut contents);
        self.contents.push(contents);
        let known = self.like.and_then(|like| like.branch(id));
        let is_known = known.is_some_and(|known| {
            let leaves = self.rows.iter().zip(&known.leaves);
            (parent, &problem, &lacks) == (known.parent, &known.problem, &known.lacks)
                && lacks_own == known.lacks_own
                && self.rows.len() == known.leaves.len()
                && row.is(known)
                && leaves.into_iter().all(|(own, known)| own.is(known))
        });
        let branch = (!is_known).then(|| {
            let leaves = self.rows.iter().enumerate();
            let known_leaf = |at: usize| known.and_then(|known| known.leaves.get(at));
            Branch {
                parent,
                problem,
                lacks,
                lacks_own,
                leaves: leaves.map(|(at, row)| row.leaf(known_leaf(at))).collect(),
                ..row.branch(known)
            }
        });
        self.branches.push(branch);
    }

    /// Reads the leaves of a branch.
    fn leaves(&mut self, id: BranchId, leaves: Option<ObjectId>, contents: &mut Contents) {
        self.rows.clear();
        for &item in self.items(leaves).iter().flatten() {
            let Some(leaf) = self.objects.get(item) else {
                continue;
            };
            let at = self.rows.len();
            if let Some(place) = self.leaves.get_mut(item) {
                *place = Some((id, at));
            }
            let places = &mut self.places;
            places.begin(leaf);
            let count = places.object(leaf, "fLeafCount");
            if let Some(count) = count {
                self.counts.push((id, at, count));
            }
            let maximum = places.int(leaf, "fMaximum");
            if at == 0 {
                contents.maximum = maximum;
            }
            let mut text = |name: &str| places.get(leaf, name).map_or(&[][..], Value::bytes);
            let texts = [text("fName"), text("fTitle"), leaf.class.as_bytes()];
            self.rows.push(LeafRow {
                texts,
                length: places.int(leaf, "fLen").unwrap_or(1),
                size: places.int(leaf, "fLenType").unwrap_or(0),
                is_unsigned: places.int(leaf, "fIsUnsigned").unwrap_or(0) != 0,
                type_code: places.int(leaf, "fType").unwrap_or(-1),
                is_counted: count.is_some(),
            });
        }
    }

    /// The branch at a position of `like`.
    fn known(&self, id: BranchId) -> Branch {
        let known = self.like.and_then(|like| like.branch(id));
        known.cloned().unwrap_or_default()
    }

    fn link_counts(&mut self) {
        for (id, at, count) in std::mem::take(&mut self.counts) {
            let count = self.leaves.get(count).copied().flatten();
            // a leaf that does not exist counts nothing: it is not found when it is needed
            let count = Some(count.unwrap_or((usize::MAX, 0)));
            let known = self.like.and_then(|like| like.branch(id)?.leaves.get(at));
            let is_known = known.is_some_and(|known| known.count == count);
            let mut was = None;
            if !is_known && self.branches.get(id).is_some_and(Option::is_none) {
                was = Some(self.known(id));
            }
            let Some(branch) = self.branches.get_mut(id) else {
                continue;
            };
            if was.is_some() {
                *branch = was;
            }
            let leaf = branch.as_mut().and_then(|branch| branch.leaves.get_mut(at));
            if let Some(leaf) = leaf {
                leaf.count = count;
            }
        }
    }

    /// Builds the model: all branches, each with its children.
    fn model(mut self, name: String, title: String, class_name: String) -> TreeModel {
        let built = std::mem::take(&mut self.branches).into_iter().enumerate();
        let built = built.map(|(id, branch)| branch.unwrap_or_else(|| self.known(id)));
        let mut branches: Vec<Branch> = built.collect();
        let mut top_level = Vec::new();
        for branch in &mut branches {
            branch.children.clear();
        }
        for id in 0..branches.len() {
            let parent = branches.get(id).and_then(|branch| branch.parent);
            match parent.and_then(|parent| branches.get_mut(parent)) {
                Some(parent) => parent.children.push(id),
                None => top_level.push(id),
            }
        }
        TreeModel {
            name,
            title,
            class_name,
            branches,
            top_level,
        }
    }

    /// The baskets, whose entries must be contiguous.
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
                    "basket {at} has entries {first}..{end}, but the next ones are those from {next} on"
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

    /// Adds baskets that are stored within the branch.
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
