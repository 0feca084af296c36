//! The fields of an ntuple with their sizes.

use std::collections::BTreeMap;
use std::ops::{Add, AddAssign};

use femtobarn::read::Reader;
use femtobarn::schema::{Descriptor, is_anonymous};
use femtobarn::spec::ColumnRecord;
use femtobarn::{ColumnSizes, Error, codec};

use crate::open::Opened;

/// Bytes as stored, and uncompressed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bytes {
    pub on_disk: u64,
    pub uncompressed: u64,
}

impl Add for Bytes {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            on_disk: self.on_disk.saturating_add(other.on_disk),
            uncompressed: self.uncompressed.saturating_add(other.uncompressed),
        }
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl From<&ColumnSizes> for Bytes {
    fn from(sizes: &ColumnSizes) -> Self {
        Self {
            on_disk: sizes.bytes_on_disk,
            uncompressed: sizes.bytes_uncompressed,
        }
    }
}

/// Header, footer and page lists.
pub fn metadata(descriptor: &Descriptor) -> Bytes {
    let anchor = &descriptor.anchor;
    let ends = Bytes {
        on_disk: anchor
            .header
            .stored
            .size
            .saturating_add(anchor.footer.stored.size),
        uncompressed: anchor.header.length.saturating_add(anchor.footer.length),
    };
    let lists = descriptor.cluster_groups.iter().map(|group| Bytes {
        on_disk: group.page_list.stored.size,
        uncompressed: group.page_list.length,
    });
    lists.fold(ends, Bytes::add)
}

/// Total size of an ntuple, without its attribute sets.
pub fn total(opened: &Opened) -> Result<Bytes, Error> {
    let columns = opened.ntuple.column_sizes()?;
    let pages = columns.values().map(Bytes::from);
    Ok(pages.fold(metadata(opened.reader.descriptor()), Bytes::add))
}

/// Sizes of all fields and columns.
pub struct Sizes {
    pub columns: BTreeMap<u32, ColumnSizes>,
    /// By field: its columns and all fields below it.
    fields: Vec<Bytes>,
    /// By field: its compression settings and those of all fields below it.
    compressions: Vec<Vec<u32>>,
    /// By field: whether its size is known. A tree stores the members of an object together.
    is_known: Vec<bool>,
}

impl Sizes {
    pub fn new(opened: &Opened) -> Result<Self, Error> {
        let descriptor = opened.reader.descriptor();
        let columns = opened.ntuple.column_sizes()?;
        let mut fields = vec![Bytes::default(); descriptor.fields.len()];
        let mut compressions: Vec<Vec<u32>> = vec![Vec::new(); descriptor.fields.len()];
        for (&id, sizes) in &columns {
            // from the field that holds the column upwards: projected fields have no size
            let mut field = descriptor.column(id).map(|column| column.field_id);
            while let Some(id) = field {
                if let Some(bytes) = fields.get_mut(id as usize) {
                    *bytes += sizes.into();
                }
                if let Some(known) = compressions.get_mut(id as usize) {
                    let new = sizes.compressions.iter().filter(|c| !known.contains(c));
                    let new: Vec<u32> = new.copied().collect();
                    known.extend(new);
                }
                field = descriptor.field(id).and_then(|field| field.parent);
            }
        }
        Ok(Self {
            columns,
            fields,
            compressions,
            is_known: known(&opened.reader),
        })
    }

    /// Size of a field; none if unknown.
    pub fn field(&self, id: u32) -> Option<Bytes> {
        let is_known = self.is_known.get(id as usize).copied();
        let bytes = self.fields.get(id as usize).copied();
        bytes.filter(|_| is_known.unwrap_or(true))
    }

    pub fn compressions(&self, id: u32) -> Vec<String> {
        let settings = self.compressions.get(id as usize);
        settings.map_or(Vec::new(), |settings| names(settings))
    }

    /// All pages.
    pub fn pages(&self) -> Bytes {
        let columns = self.columns.values().map(Bytes::from);
        columns.fold(Bytes::default(), Bytes::add)
    }

    /// All compression settings.
    pub fn all_compressions(&self) -> Vec<String> {
        let mut settings: Vec<u32> = Vec::new();
        for sizes in self.columns.values() {
            let new = sizes.compressions.iter().filter(|c| !settings.contains(c));
            let new: Vec<u32> = new.copied().collect();
            settings.extend(new);
        }
        names(&settings)
    }
}

/// By field, whether its bytes can be separated from others: false only for members of objects in trees, as several
/// share baskets.
fn known(reader: &Reader) -> Vec<bool> {
    let descriptor = reader.descriptor();
    let ids = 0..u32::try_from(descriptor.fields.len()).unwrap_or(u32::MAX);
    if reader.storage().is_none() {
        return ids.map(|_| true).collect();
    }
    // offsets are computed from the baskets of the values
    let has_values = |id: u32| {
        let columns = descriptor.field(id).map_or(&[][..], |field| &field.columns);
        let mut columns = columns.iter().filter_map(|&id| descriptor.column(id));
        columns.any(|column| !column.column_type.is_index())
    };
    let mut n_values = vec![0; descriptor.fields.len()];
    for id in ids.clone().filter(|&id| has_values(id)) {
        if let Some(n) = n_values.get_mut(descriptor.top_of(id) as usize) {
            *n += 1;
        }
    }
    let is_alone = |id: u32| {
        let top = descriptor.top_of(id);
        top == id || n_values.get(top as usize).is_some_and(|&n: &i32| n < 2)
    };
    ids.map(is_alone).collect()
}

/// Names of compression settings.
pub fn names(settings: &[u32]) -> Vec<String> {
    settings.iter().map(|&s| codec::settings_name(s)).collect()
}

/// The source that a projected field shows: its own, or that of the items below it, which is closer to the values.
pub fn projection(descriptor: &Descriptor, id: u32) -> Option<u32> {
    let field = descriptor.field(id)?;
    let source = field.record.source_id?;
    let below = match field.children.as_slice() {
        &[child] if is_anonymous(descriptor, child) => projection(descriptor, child),
        _ => None,
    };
    Some(below.unwrap_or(source))
}

/// The name of a field among its siblings; the class stands before names of base classes if names would be ambiguous.
fn member_name(reader: &Reader, id: u32) -> String {
    let path = |id: u32| reader.paths().get(id as usize).and_then(Option::as_deref);
    let descriptor = reader.descriptor();
    let mut above = descriptor.field(id).and_then(|field| field.parent);
    while let Some(parent) = above.filter(|&parent| path(parent).is_none()) {
        above = descriptor.field(parent).and_then(|field| field.parent);
    }
    let own = match (path(id), above.and_then(path)) {
        (Some(own), Some(above)) => own
            .strip_prefix(above)
            .and_then(|own| own.strip_prefix('.')),
        (own, _) => own,
    };
    own.unwrap_or(descriptor.field_name(id)).to_owned()
}

/// The C++ type as shown, with the alias that the writer used.
pub fn type_text(name: &str, alias: &str) -> String {
    match (name, alias) {
        ("", _) => "(untyped)".to_owned(),
        (name, "") => name.to_owned(),
        (name, alias) => format!("{alias} = {name}"),
    }
}

/// A line of the schema tree.
pub struct Row {
    pub id: u32,
    pub depth: usize,
    pub name: String,
    /// Types of the columns; includes those of anonymous fields directly below, where these have no rows.
    pub columns: String,
}

/// The readable fields, depth first. Without `all`, anonymous ones (items of collections, base classes) have no row,
/// and their subfields move up.
pub fn rows(reader: &Reader, all: bool) -> Vec<Row> {
    let descriptor = reader.descriptor();
    let mut rows = Vec::new();
    let mut pending: Vec<(u32, usize)> = Vec::new();
    pending.extend(descriptor.top_level.iter().rev().map(|&id| (id, 0)));
    while let Some((id, depth)) = pending.pop() {
        let Some(field) = descriptor.field(id) else {
            continue;
        };
        let shown = all || !is_anonymous(descriptor, id);
        if shown {
            rows.push(Row {
                id,
                depth,
                name: member_name(reader, id),
                columns: column_types(descriptor, id, all),
            });
        }
        let below = depth + usize::from(shown);
        pending.extend(field.children.iter().rev().map(|&child| (child, below)));
    }
    rows
}

fn column_types(descriptor: &Descriptor, id: u32, all: bool) -> String {
    let mut types: Vec<String> = Vec::new();
    let mut pending = vec![id];
    while let Some(id) = pending.pop() {
        let Some(field) = descriptor.field(id) else {
            continue;
        };
        for column in field.columns.iter().filter_map(|&c| descriptor.column(c)) {
            let name = column_type(column);
            if !types.contains(&name) {
                types.push(name);
            }
        }
        let children = field.children.iter().rev().copied();
        pending.extend(children.filter(|&child| !all && is_anonymous(descriptor, child)));
    }
    types.join(", ")
}

/// The type of a column, with its width if the type has no fixed one.
fn column_type(column: &ColumnRecord) -> String {
    let name = column.column_type.name();
    let deferred = if column.flags.deferred() {
        " deferred"
    } else {
        ""
    };
    match name {
        "Real32Trunc" | "Real32Quant" => format!("{name}({}){deferred}", column.bits),
        _ => format!("{name}{deferred}"),
    }
}

#[cfg(test)]
mod tests {
    use super::type_text;

    #[test]
    fn aliases_stand_before_their_type() {
        assert_eq!(type_text("float", "Float16_t"), "Float16_t = float");
        assert_eq!(type_text("", ""), "(untyped)");
    }
}
