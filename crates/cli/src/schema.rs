//! The fields of an ntuple as lines.

use femtobarn::read::Reader;
use femtobarn::schema::{Descriptor, is_anonymous};
use femtobarn::spec::ColumnRecord;

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
