//! Builds the tree of a read, and its slots, from fields.

use super::descriptor::{Descriptor, FieldId};
use super::dtype::DType;
use super::members::flattened;
use super::node::{ListSort, Node, NodeKind};
use super::paths::{FieldNames, is_tuple};
use super::slots::{Slot, SlotId, SlotKind, SlotParent, Slots};
use crate::spec::{ColumnType, Role};

/// Builds the tree of top-level `field`, adding its slots.
///
/// `rank` determines which fields take part (with their ancestors and descendants), and the order of members in a record.
/// Without `share`, every node gets its own slots. The error describes the part of the schema that cannot be read.
pub fn build(
    descriptor: &Descriptor,
    names: &FieldNames,
    rank: &dyn Fn(FieldId) -> Option<usize>,
    share: bool,
    slots: &mut Slots,
    field: FieldId,
) -> Result<Node, String> {
    Builder {
        descriptor,
        names,
        rank,
        share,
        slots,
    }
    .field(field, Place::once(SlotParent::Entries))
}

/// The position of a field: the slot that determines its number of values, and the number of values per item.
#[derive(Clone, Copy)]
struct Place {
    parent: SlotParent,
    multiplicity: u64,
}

impl Place {
    fn once(parent: SlotParent) -> Self {
        Self {
            parent,
            multiplicity: 1,
        }
    }
}

struct Builder<'a> {
    descriptor: &'a Descriptor,
    names: &'a FieldNames,
    rank: &'a dyn Fn(FieldId) -> Option<usize>,
    share: bool,
    slots: &'a mut Slots,
}

impl Builder<'_> {
    fn field(&mut self, id: FieldId, place: Place) -> Result<Node, String> {
        let field = self.descriptor.field(id).ok_or("a field is missing")?;
        if !self.descriptor.has_even_representations(id) {
            return Err(self.bad(
                id,
                "representations that are not numbered from 0, or have different numbers of columns",
            ));
        }
        let has_values = matches!(field.record.role, Role::Plain | Role::Streamer)
            && self.descriptor.n_columns(id) > 0;
        if has_values && !field.children.is_empty() {
            return Err(self.bad(id, "both columns and subfields"));
        }
        let kind = match field.record.role {
            Role::Plain => return self.plain(id, place),
            Role::Collection => self.collection(id, place)?,
            Role::Record => self.record(id, place)?,
            Role::Variant => self.variant(id, place)?,
            Role::Streamer => self.two_columns(id, place)?,
            Role::Unknown(role) => {
                return Err(self.bad(id, &format!("unknown structural role {role}")));
            }
        };
        Ok(Node { field: id, kind })
    }

    fn plain(&mut self, id: FieldId, place: Place) -> Result<Node, String> {
        let field = self.descriptor.field(id).ok_or("a field is missing")?;
        let n_columns = self.descriptor.n_columns(id);
        let repetitions = field
            .record
            .flags
            .repetitive()
            .then_some(field.record.array_size.unwrap_or(0));
        let inner = place.multiplicity.checked_mul(repetitions.unwrap_or(1));
        let inner = Place {
            multiplicity: inner.ok_or_else(|| self.bad(id, "an array size beyond 2^64"))?,
            ..place
        };
        let kind = match (n_columns, repetitions) {
            (0, _) => {
                let &[child] = field.children.as_slice() else {
                    return Err(self.bad(
                        id,
                        &format!("no columns and {} subfields", field.children.len()),
                    ));
                };
                let item = self.field(child, inner)?;
                match repetitions {
                    Some(size) => NodeKind::Regular {
                        size,
                        item: Box::new(item),
                    },
                    None => return Ok(item),
                }
            }
            // an array of any other type has its items in a subfield
            (1, Some(size)) if field.record.type_name.starts_with("std::bitset<") => {
                let item = Node {
                    field: id,
                    kind: NodeKind::Leaf {
                        slot: self.leaf(id, 0, inner)?,
                    },
                };
                NodeKind::Regular {
                    size,
                    item: Box::new(item),
                }
            }
            (1, None)
                if field
                    .record
                    .type_name
                    .starts_with("ROOT::RNTupleCardinality") =>
            {
                let index = self.index(id, place)?;
                let wide = self
                    .column_types(id, 0)
                    .iter()
                    .any(|c| matches!(c, ColumnType::Index64 | ColumnType::SplitIndex64));
                NodeKind::Cardinality { index, wide }
            }
            (1, None) => NodeKind::Leaf {
                slot: self.leaf(id, 0, place)?,
            },
            (2, None) => self.two_columns(id, place)?,
            (n, _) => return Err(self.bad(id, &format!("{n} columns"))),
        };
        Ok(Node { field: id, kind })
    }

    fn collection(&mut self, id: FieldId, place: Place) -> Result<NodeKind, String> {
        let field = self.descriptor.field(id).ok_or("a field is missing")?;
        let index = self.index(id, place)?;
        let below = Place::once(SlotParent::Index(index));
        let item = match field.children.as_slice() {
            &[child] => self.field(child, below)?,
            children => {
                let members = self.members(children, below)?;
                Node {
                    field: id,
                    kind: self.record_kind(children, members, String::new()),
                }
            }
        };
        let item = Box::new(item);
        if field.record.is_optional() {
            return Ok(NodeKind::Optional { index, item });
        }
        let template = field.record.type_name.split('<').next();
        let template = template.map(|name| name.strip_prefix("std::").unwrap_or(name));
        let sort = match template {
            Some("set") => ListSort::Set,
            Some("bitset") => ListSort::Bitset,
            _ => ListSort::List,
        };
        Ok(NodeKind::List { index, item, sort })
    }

    /// Members of a record; those of base classes follow its own members, as in uproot.
    fn record(&mut self, id: FieldId, place: Place) -> Result<NodeKind, String> {
        let field = self.descriptor.field(id).ok_or("a field is missing")?;
        let flat = flattened(self.descriptor, id);
        let members = self.members(&flat, place)?;
        // a record that only groups fields is not an object of its class
        let type_name = match is_group(self.descriptor, id) {
            true => String::new(),
            false => field.record.type_name.clone(),
        };
        Ok(self.record_kind(&flat, members, type_name))
    }

    /// The kind of a record, of whose fields the members are read. Those of a tuple have no names, unless some are left out:
    /// then a name is all that says which one a member is.
    fn record_kind(
        &self,
        fields: &[FieldId],
        members: Vec<(String, Node)>,
        type_name: String,
    ) -> NodeKind {
        let is_tuple = members.len() == fields.len() && is_tuple(self.descriptor, fields);
        let (names, members): (Vec<_>, Vec<_>) = members.into_iter().unzip();
        NodeKind::Record {
            names: (!is_tuple).then_some(names),
            members,
            type_name,
        }
    }

    fn members(
        &mut self,
        children: &[FieldId],
        place: Place,
    ) -> Result<Vec<(String, Node)>, String> {
        let ranked = children
            .iter()
            .filter_map(|&child| Some(((self.rank)(child)?, child)));
        let mut ranked: Vec<(usize, FieldId)> = ranked.collect();
        ranked.sort_by_key(|&(rank, _)| rank);
        ranked
            .into_iter()
            .map(|(_, child)| {
                Ok((
                    self.names.get(self.descriptor, child).to_owned(),
                    self.field(child, place)?,
                ))
            })
            .collect()
    }

    fn variant(&mut self, id: FieldId, place: Place) -> Result<NodeKind, String> {
        let field = self.descriptor.field(id).ok_or("a field is missing")?;
        let types = self.column_types(id, 0);
        if self.descriptor.n_columns(id) != 1 || types.iter().any(|&c| c != ColumnType::Switch) {
            return Err(self.bad(id, "a variant without one Switch column"));
        }
        if field.children.len() > 125 {
            return Err(self.bad(
                id,
                &format!("{} alternatives, more than 125", field.children.len()),
            ));
        }
        let switch = self.slot(id, 0, SlotKind::Switch(field.children.len()), place);
        let children = field.children.iter().enumerate();
        let alternatives: Result<_, _> = children
            .map(|(k, &child)| self.field(child, Place::once(SlotParent::Switch(switch, k))))
            .collect();
        Ok(NodeKind::Variant {
            switch,
            alternatives: alternatives?,
        })
    }

    /// A string or a streamed object: offsets and bytes.
    fn two_columns(&mut self, id: FieldId, place: Place) -> Result<NodeKind, String> {
        if self.descriptor.n_columns(id) != 2 {
            return Err(self.bad(
                id,
                &format!(
                    "{} columns where 2 are needed",
                    self.descriptor.n_columns(id)
                ),
            ));
        }
        let index = self.index(id, place)?;
        let content = self.leaf(id, 1, Place::once(SlotParent::Index(index)))?;
        if self.slots.get(content).map(|s| s.kind) != Some(SlotKind::Leaf(DType::UInt8)) {
            return Err(self.bad(id, "a second column that does not contain bytes"));
        }
        let is_text = self
            .column_types(id, 1)
            .iter()
            .all(|&c| c == ColumnType::Char);
        let record = self.descriptor.field(id).map(|field| &field.record);
        match record {
            Some(record) if record.role == Role::Streamer || !is_text => Ok(NodeKind::Bytes {
                index,
                bytes: content,
                class_name: record.type_name.clone(),
            }),
            _ => Ok(NodeKind::String {
                index,
                chars: content,
            }),
        }
    }

    fn index(&mut self, id: FieldId, place: Place) -> Result<SlotId, String> {
        let types = self.column_types(id, 0);
        if types.is_empty() || types.iter().any(|c| !c.is_index()) {
            return Err(self.bad(id, "no Index column"));
        }
        Ok(self.slot(id, 0, SlotKind::Index, place))
    }

    fn leaf(&mut self, id: FieldId, position: usize, place: Place) -> Result<SlotId, String> {
        let type_name = self
            .descriptor
            .field(id)
            .map(|field| &field.record.type_name);
        let dtype_of = |column_type| match position {
            0 => DType::of_leaf(column_type, type_name.map_or("", String::as_str)),
            // the characters of a string
            _ => DType::of_column(column_type),
        };
        let types: Option<Vec<DType>> = self
            .column_types(id, position)
            .into_iter()
            .map(dtype_of)
            .collect();
        let dtype = types.and_then(|types| types.into_iter().reduce(DType::promote));
        let dtype = dtype.ok_or_else(|| self.bad(id, "a column that contains no values"))?;
        Ok(self.slot(id, position, SlotKind::Leaf(dtype), place))
    }

    fn slot(&mut self, id: FieldId, position: usize, kind: SlotKind, place: Place) -> SlotId {
        let field = self.descriptor.physical(id);
        let columns = self.descriptor.representations(id, position);
        let slot = Slot {
            field,
            position,
            columns,
            kind,
            parent: place.parent,
            multiplicity: place.multiplicity,
        };
        if self.share {
            self.slots.intern(slot)
        } else {
            self.slots.push(slot)
        }
    }

    fn column_types(&self, id: FieldId, position: usize) -> Vec<ColumnType> {
        let columns = self.descriptor.representations(id, position);
        columns
            .iter()
            .filter_map(|&c| self.descriptor.column(c))
            .map(|c| c.column_type)
            .collect()
    }

    fn bad(&self, id: FieldId, found: &str) -> String {
        let type_name = self
            .descriptor
            .field(id)
            .map_or("", |f| f.record.type_name.as_str());
        format!(
            "field {:?} of type {type_name:?} has {found}",
            self.descriptor.field_name(id)
        )
    }
}

/// Whether a record only groups fields: it is below another field, and does not project one.
fn is_group(descriptor: &Descriptor, id: FieldId) -> bool {
    let mut root = id;
    while let Some(parent) = descriptor.field(root).and_then(|field| field.parent) {
        root = parent;
    }
    let is_copy = descriptor
        .field(id)
        .is_some_and(|field| field.record.source_id.is_some());
    !is_copy && !descriptor.top_level.contains(&root)
}
