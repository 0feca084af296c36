//! The tree of a read: the arrays of the result, and the slots that fill them.

use super::descriptor::FieldId;
use super::slots::SlotId;
use crate::write::is_same_type;

/// One array of the result.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The field of the array.
    pub field: FieldId,
    /// Its structure.
    pub kind: NodeKind,
}

/// Kinds of lists with additional properties.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListSort {
    /// Plain lists.
    List,
    /// Lists of a `std::set`.
    Set,
    /// Lists of a `std::bitset` without a fixed array size, as in trees.
    Bitset,
}

/// Structure of an array.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "members are explained at their variant")]
pub enum NodeKind {
    /// Numbers or booleans.
    Leaf { slot: SlotId },
    /// Lengths of a collection, with 8 bytes if `wide`, else 4.
    Cardinality { index: SlotId, wide: bool },
    /// UTF-8 strings.
    String { index: SlotId, chars: SlotId },
    /// Serialized objects, with the name of their class.
    Bytes {
        index: SlotId,
        bytes: SlotId,
        class_name: String,
    },
    /// Lists of variable length.
    List {
        index: SlotId,
        item: Box<Node>,
        /// The kind of lists.
        sort: ListSort,
    },
    /// Optional values: lists of zero or one item.
    Optional { index: SlotId, item: Box<Node> },
    /// Lists of a fixed size.
    Regular { size: u64, item: Box<Node> },
    /// Members by name; a tuple if `names` is none.
    Record {
        names: Option<Vec<String>>,
        members: Vec<Node>,
        type_name: String,
    },
    /// Values of one of several alternatives.
    Variant {
        switch: SlotId,
        alternatives: Vec<Node>,
    },
}

impl Node {
    /// Calls `limit` with the most items per list of an index slot, if this node limits it: an optional value has at most
    /// one, and a length of four bytes cannot count further.
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

    /// Calls `tell` with the slots of this node and its descendants.
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

    /// Gives the slots of this node and its descendants other IDs.
    pub fn renumber(&mut self, new_id: &dyn Fn(SlotId) -> SlotId) {
        use NodeKind as K;
        match &mut self.kind {
            K::Leaf { slot } => *slot = new_id(*slot),
            K::Cardinality { index, .. } => *index = new_id(*index),
            K::String {
                index,
                chars: below,
            }
            | K::Bytes {
                index,
                bytes: below,
                ..
            } => {
                (*index, *below) = (new_id(*index), new_id(*below));
            }
            K::List { index, item, .. } | K::Optional { index, item } => {
                *index = new_id(*index);
                item.renumber(new_id);
            }
            K::Regular { item, .. } => item.renumber(new_id),
            K::Record { members, .. } => members.iter_mut().for_each(|it| it.renumber(new_id)),
            K::Variant {
                switch,
                alternatives,
            } => {
                *switch = new_id(*switch);
                alternatives.iter_mut().for_each(|it| it.renumber(new_id));
            }
        }
    }

    /// Makes lists plain if those of another tree of the same structure have a different kind: a set cannot have all
    /// values of a vector.
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

    /// Whether two trees give arrays of the same structure, ignoring field IDs.
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
