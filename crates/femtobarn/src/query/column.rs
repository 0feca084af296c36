//! Computed columns.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::array::Arrays;
use femtobarn_rntuple::read::Reader;
use femtobarn_rntuple::schema::{FieldId, Node, NodeKind};

use super::{Computed, QueryReader};
use crate::inputs::paths_of;

impl QueryReader {
    /// Adds the computed columns to those that were read. `operands` are the columns of their expressions.
    pub(super) fn compute(
        &self,
        arrays: &mut Arrays,
        operands: &Arrays,
        chosen: &[Range<u64>],
    ) -> Result<(), RNTupleError> {
        let mut batch = None;
        let mut names: Vec<&str> = Vec::new();
        for computed in &self.query.computed {
            let name = computed.name.as_str();
            if names.contains(&name) {
                continue;
            }
            let at = self.n_fields(computed.behind) + names.len();
            names.push(name);
            if computed.expression.column().is_some() {
                self.rename(arrays, operands, (at, computed))?;
                continue;
            }
            let batch = match &batch {
                Some(batch) => batch,
                None => batch.insert(self.ntuple.to_arrow(operands)?),
            };
            let entry = |row: usize| entry_in(chosen, row as u64);
            let (place, of) = ((at, name), (batch, &entry as &dyn Fn(usize) -> u64));
            computed.expression.insert_into(arrays, place, of)?;
        }
        Ok(())
    }

    /// Number of columns from the first paths of fields.
    fn n_fields(&self, n_paths: usize) -> usize {
        let columns = &self.fields.schema.columns;
        let (Some(paths), Some(reader)) = (&self.query.fields, self.ntuple.readers().first())
        else {
            return columns.len();
        };
        let descriptor = reader.descriptor();
        let tops = paths.iter().take(n_paths).filter_map(|path| {
            let top = descriptor.top_of(reader.find_field(path)?);
            Some(descriptor.field_name(top))
        });
        let tops: Vec<&str> = tops.collect();
        let is_before = |(name, _): &&(String, Node)| tops.contains(&name.as_str());
        columns.iter().filter(is_before).count()
    }

    /// Adds a column, or a member of one, under another name.
    fn rename(
        &self,
        arrays: &mut Arrays,
        operands: &Arrays,
        (at, computed): (usize, &Computed),
    ) -> Result<(), RNTupleError> {
        let path = paths_of(&computed.expression, &self.ntuple).pop();
        let first = self.ntuple.readers().first();
        let (Some(path), Some(reader)) = (path, first) else {
            return Err(RNTupleError::internal("a column without a file"));
        };
        let mut node =
            node_of(operands, reader, reader.field_by_path(&path)?).ok_or_else(|| {
                reader.unsupported(&path, "it has no values of its own; name its members")
            })?;
        let mut slots = Vec::new();
        node.slots(&mut |slot| slots.push(slot));
        let mut moved = HashMap::new();
        for slot in slots {
            if let Entry::Vacant(place) = moved.entry(slot) {
                let data = operands.slot(slot).cloned();
                let data = data.ok_or_else(|| RNTupleError::internal("a column without data"))?;
                place.insert(arrays.add_slot(data));
            }
        }
        node.renumber(&|slot| moved.get(&slot).copied().unwrap_or(slot));
        arrays.insert_column(at, &computed.name, node);
        Ok(())
    }
}

/// The array of a field.
fn node_of(arrays: &Arrays, reader: &Reader, mut field: FieldId) -> Option<Node> {
    loop {
        let mut columns = arrays.columns().iter();
        if let Some(node) = columns.find_map(|(_, node)| member(node, field)) {
            return Some(node);
        }
        // fields such as enums have the array of their only subfield
        match reader.descriptor().field(field)?.children.as_slice() {
            [child] => field = *child,
            _ => return None,
        }
    }
}

/// The array of a field, within the lists around it.
fn member(node: &Node, field: FieldId) -> Option<Node> {
    if node.field == field {
        return Some(node.clone());
    }
    let inside = |item: &Node| member(item, field).map(Box::new);
    let kind = match &node.kind {
        NodeKind::Record { members, .. } => {
            return members.iter().find_map(|node| member(node, field));
        }
        NodeKind::List { index, item, sort } => NodeKind::List {
            index: *index,
            item: inside(item)?,
            sort: *sort,
        },
        NodeKind::Optional { index, item } => NodeKind::Optional {
            index: *index,
            item: inside(item)?,
        },
        NodeKind::Regular { size, item } => NodeKind::Regular {
            size: *size,
            item: inside(item)?,
        },
        _ => return None,
    };
    Some(Node {
        field: node.field,
        kind,
    })
}

/// The number of the entry in a row of the chosen entries.
fn entry_in(chosen: &[Range<u64>], row: u64) -> u64 {
    let mut left = row;
    for range in chosen {
        let n = range.end - range.start;
        if left < n {
            return range.start + left;
        }
        left -= n;
    }
    row
}
