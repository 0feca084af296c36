//! From fields, which may be without names, to the names of types and their classes.

use femtobarn_rntuple::write::{FieldKind, FieldModel};

use super::{ClassNote, Member};

/// The type of values: its name, and the classes in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// The name, in C++.
    pub type_name: String,
    /// The classes, those of members before those that have them.
    pub classes: Vec<ClassNote>,
}

/// Describes the values of a field. Records that have no name get `class`, those within them `class::member`.
pub fn describe(model: &FieldModel, class: &str) -> Described {
    let mut classes = Vec::new();
    let type_name = name_of(model, class, &mut classes);
    Described { type_name, classes }
}

fn name_of(model: &FieldModel, class: &str, classes: &mut Vec<ClassNote>) -> String {
    match &model.kind {
        FieldKind::Record(members) => record(model, members, class, classes),
        FieldKind::Collection(item) => {
            let item = name_of(item, class, classes);
            match model.type_name.split_once('<') {
                // A map's items are pairs, and its name has the two types.
                Some((template, _)) if template.ends_with("map") => {
                    let types = item.strip_prefix("std::pair<").unwrap_or(&item);
                    format!("{template}<{types}")
                }
                Some((template, _)) => format!("{template}<{item}>"),
                None => format!("std::vector<{item}>"),
            }
        }
        FieldKind::Optional(item) => format!("std::optional<{}>", name_of(item, class, classes)),
        FieldKind::Array(size, item) => {
            format!("std::array<{},{size}>", name_of(item, class, classes))
        }
        FieldKind::Variant(alternatives) => {
            let each = alternatives
                .iter()
                .map(|item| name_of(item, class, classes));
            format!("std::variant<{}>", each.collect::<Vec<_>>().join(","))
        }
        FieldKind::Wrapper(item) => name_of(item, class, classes),
        FieldKind::String => "std::string".into(),
        FieldKind::Leaf(_)
        | FieldKind::Bitset(_)
        | FieldKind::Streamed
        | FieldKind::Projected { .. } => model.type_name.clone(),
    }
}

fn record(
    model: &FieldModel,
    members: &[FieldModel],
    class: &str,
    classes: &mut Vec<ClassNote>,
) -> String {
    let is_tuple = |template: &str| model.type_name.starts_with(template);
    if let Some(template) = ["std::pair<", "std::tuple<"]
        .into_iter()
        .find(|t| is_tuple(t))
    {
        let each = members.iter().map(|item| name_of(item, class, classes));
        return format!("{template}{}>", each.collect::<Vec<_>>().join(","));
    }
    let name = match model.type_name.as_str() {
        "" => class,
        name => name,
    };
    let member = |member: &FieldModel| {
        let within = format!("{name}::{}", member.name);
        Member {
            name: member.name.clone(),
            type_name: name_of(member, &within, classes),
        }
    };
    let members = members.iter().map(member).collect();
    let note = ClassNote {
        name: name.into(),
        members,
    };
    if !classes.contains(&note) {
        classes.push(note);
    }
    name.into()
}
