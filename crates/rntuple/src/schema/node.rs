//! The tree of a read: what arrays come out, and which slots fill them.

use super::descriptor::FieldId;
use super::slots::SlotId;
use crate::write::is_same_type;

/// One array of the result.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The field that it shows.
    pub field: FieldId,
    /// Its structure.
    pub kind: NodeKind,
}

/// Lists that are more than lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListSort {
    /// Just lists.
    List,
    /// Those of a `std::set`.
    Set,
    /// Those of a `std::bitset` of which the size is not that of an array: in trees.
    Bitset,
}

/// Structure of an array.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "members are explained at their variant")]
pub enum NodeKind {
    /// Numbers or booleans.
    Leaf { slot: SlotId },
    /// Lengths of a collection, of 8 bytes if `wide`, else of 4.
    Cardinality { index: SlotId, wide: bool },
    /// UTF-8 strings.
    String { index: SlotId, chars: SlotId },
    /// Objects as their serialized bytes, with the name of their class.
    Bytes {
        index: SlotId,
        bytes: SlotId,
        class_name: String,
    },
    /// Lists of any length.
    List {
        index: SlotId,
        item: Box<Node>,
        /// What they are, beyond being lists.
        sort: ListSort,
    },
    /// Values that may be missing: lists of none or one.
    Optional { index: SlotId, item: Box<Node> },
    /// Lists of a fixed size.
    Regular { size: u64, item: Box<Node> },
    /// Members by name; a tuple if `names` is none.
    Record {
        names: Option<Vec<String>>,
        members: Vec<Node>,
        type_name: String,
    },
    /// One of several alternatives.
    Variant {
        switch: SlotId,
        alternatives: Vec<Node>,
    },
}

impl Node {
    /// Tells `limit` the most items that a list of an index slot may have, where this node sets a limit: an optional
    /// value holds one at most, and a length of four bytes counts no further.
    pub fn limits(&self, limit: &mut dyn FnMut(SlotId, i64)) {
        match &self.kind {
            NodeKind::Cardinality { index, wide: false } => limit(*index, i64::from(i32::MAX)),
            NodeKind::Optional { index, item } => {
                limit(*index, 1);
                item.limits(limit);
            }
            NodeKind::List { item, .. } | NodeKind::Regular { item, .. } => item.limits(limit),
            NodeKind::Record { members: nodes, .. }
            | NodeKind::Variant {
                alternatives: nodes,
                ..
            } => {
                nodes.iter().for_each(|node| node.limits(limit));
            }
            _ => {}
        }
    }

    /// Makes strings bytes, which need not be UTF-8.
    pub fn texts_as_bytes(&mut self) {
        match &mut self.kind {
            NodeKind::String { index, chars } => {
                self.kind = NodeKind::Bytes {
                    index: *index,
                    bytes: *chars,
                    class_name: String::new(),
                };
            }
            NodeKind::List { item, .. }
            | NodeKind::Optional { item, .. }
            | NodeKind::Regular { item, .. } => item.texts_as_bytes(),
            NodeKind::Record { members: nodes, .. }
            | NodeKind::Variant {
                alternatives: nodes,
                ..
            } => nodes.iter_mut().for_each(Self::texts_as_bytes),
            NodeKind::Leaf { .. } | NodeKind::Cardinality { .. } | NodeKind::Bytes { .. } => {}
        }
    }

    /// Tells the slots that this node and those below it are filled from.
    pub fn slots(&self, tell: &mut dyn FnMut(SlotId)) {
        match &self.kind {
            NodeKind::Leaf { slot } => tell(*slot),
            NodeKind::Cardinality { index, .. } => tell(*index),
            NodeKind::String { index, chars } => [*index, *chars].into_iter().for_each(tell),
            NodeKind::Bytes { index, bytes, .. } => [*index, *bytes].into_iter().for_each(tell),
            NodeKind::List { index, item, .. } | NodeKind::Optional { index, item } => {
                tell(*index);
                item.slots(tell);
            }
            NodeKind::Regular { item, .. } => item.slots(tell),
            NodeKind::Record { members, .. } => {
                members.iter().for_each(|member| member.slots(tell));
            }
            NodeKind::Variant {
                switch,
                alternatives,
            } => {
                tell(*switch);
                alternatives.iter().for_each(|node| node.slots(tell));
            }
        }
    }

    /// Makes lists plain where those of another tree of the same structure are of another sort: a set may not hold what a
    /// vector does.
    pub fn loosen(&mut self, other: &Node) {
        use NodeKind as K;
        match (&mut self.kind, &other.kind) {
            (
                K::List { item, sort, .. },
                K::List {
                    item: there,
                    sort: other,
                    ..
                },
            ) => {
                if sort != other {
                    *sort = ListSort::List;
                }
                item.loosen(there);
            }
            (K::Optional { item, .. }, K::Optional { item: there, .. })
            | (K::Regular { item, .. }, K::Regular { item: there, .. }) => item.loosen(there),
            (K::Record { members, .. }, K::Record { members: there, .. })
            | (
                K::Variant {
                    alternatives: members,
                    ..
                },
                K::Variant {
                    alternatives: there,
                    ..
                },
            ) => {
                for (member, there) in members.iter_mut().zip(there) {
                    member.loosen(there);
                }
            }
            _ => {}
        }
    }

    /// Whether two trees give arrays of the same structure, whatever their field ids.
    pub fn same_structure(&self, other: &Node) -> bool {
        use NodeKind as K;
        match (&self.kind, &other.kind) {
            (K::Leaf { slot: a }, K::Leaf { slot: b }) => a == b,
            (K::Cardinality { index: a, .. }, K::Cardinality { index: b, .. }) => a == b,
            (K::String { index: a, chars: c }, K::String { index: b, chars: d }) => {
                (a, c) == (b, d)
            }
            (
                K::Bytes {
                    index: a,
                    bytes: c,
                    class_name: e,
                },
                K::Bytes {
                    index: b,
                    bytes: d,
                    class_name: f,
                },
            ) => (a, c) == (b, d) && is_same_type(e, f),
            (
                K::List {
                    index: a, item: x, ..
                },
                K::List {
                    index: b, item: y, ..
                },
            )
            | (K::Optional { index: a, item: x }, K::Optional { index: b, item: y }) => {
                a == b && x.same_structure(y)
            }
            (K::Regular { size: a, item: x }, K::Regular { size: b, item: y }) => {
                a == b && x.same_structure(y)
            }
            (
                K::Record {
                    names: a,
                    members: x,
                    ..
                },
                K::Record {
                    names: b,
                    members: y,
                    ..
                },
            ) => a == b && x.len() == y.len() && x.iter().zip(y).all(|(x, y)| x.same_structure(y)),
            (
                K::Variant {
                    switch: a,
                    alternatives: x,
                },
                K::Variant {
                    switch: b,
                    alternatives: y,
                },
            ) => a == b && x.len() == y.len() && x.iter().zip(y).all(|(x, y)| x.same_structure(y)),
            _ => false,
        }
    }
}
