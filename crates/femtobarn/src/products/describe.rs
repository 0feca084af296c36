//! Describes fields, with or without names, as C++ types and classes.

use femtobarn_rntuple::rows::RowType;
use femtobarn_rntuple::schema::{Descriptor, FieldId};
use femtobarn_rntuple::write::{FieldKind, FieldModel};

use super::form::unclear;
use super::{ClassNote, Member};

/// The type of values: its name, and its classes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// The C++ name of the type.
    pub type_name: String,
    /// The classes, sorted so that members precede the classes that use them.
    pub classes: Vec<ClassNote>,
}

/// Describes the values of a field. Records without a name get the name `class`, and records within them
/// `class::member`; characters that are invalid in C++ become `_`.
pub fn describe(model: &FieldModel, class: &str) -> Described {
    let mut classes = Vec::new();
    let parts: Vec<_> = class.split("::").map(identifier).collect();
    let type_name = name_of(model, &parts.join("::"), &mut classes);
    Described { type_name, classes }
}

/// A valid C++ identifier; invalid characters become `_`.
///
/// ```
/// use femtobarn::products::identifier;
/// assert_eq!((identifier("2 hits"), identifier("٣hit")), ("_2_hits".into(), "_٣hit".into()));
/// ```
pub fn identifier(name: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() { c } else { '_' };
    let is_number = name.starts_with(char::is_numeric);
    let first = is_number.then_some('_');
    first.into_iter().chain(name.chars().map(plain)).collect()
}

/// Describes the values of an ntuple's field, as read. Records without a name get the name of the field.
///
/// # Errors
///
/// The reason why event stores do not support the type.
pub fn described(descriptor: &Descriptor, field: FieldId) -> Result<Described, String> {
    let name = descriptor.field_name(field);
    let type_name = descriptor.field(field).map(|field| &field.record.type_name);
    let type_name = type_name.map_or("", String::as_str);
    // a projected field without a C++ class, whose values are numbers
    if let Some(number) = type_name
        .strip_prefix("ROOT::RNTupleCardinality<")
        .and_then(|rest| rest.strip_suffix('>'))
    {
        return Ok(Described {
            type_name: number.into(),
            classes: Vec::new(),
        });
    }
    let model = FieldModel::with_data(descriptor, field).map_err(|error| error.to_string())?;
    if let Some(streamed) = streamed(&model) {
        return Err(format!(
            "{streamed} is an object in the format of ROOT's streamers, which products cannot be"
        ));
    }
    if let Some(why) = unclear(&model) {
        return Err(why.into());
    }
    RowType::new(model.clone()).map_err(|error| error.to_string())?;
    Ok(describe(&model, &identifier(name)))
}

/// The name of a type within the field that only streamers can read.
fn streamed(model: &FieldModel) -> Option<&str> {
    match model.kind {
        FieldKind::Streamed => Some(&model.type_name),
        _ => model.subfields().iter().find_map(streamed),
    }
}

fn name_of(model: &FieldModel, class: &str, classes: &mut Vec<ClassNote>) -> String {
    match &model.kind {
        FieldKind::Record(members) => record(model, members, class, classes),
        // fields of trees are read as lists
        FieldKind::Collection(_) if model.type_name.starts_with("std::bitset<") => {
            model.type_name.clone()
        }
        FieldKind::Collection(item) => {
            let item = name_of(item, class, classes);
            match model.type_name.split_once('<') {
                // The items of a map are pairs; its name has both types.
                Some((template, _)) if template.ends_with("map") => {
                    let types = item.strip_prefix("std::pair<").unwrap_or(&item);
                    format!("{template}<{types}")
                }
                Some((template, _)) => format!("{template}<{item}>"),
                None => format!("std::vector<{item}>"),
            }
        }
        FieldKind::Optional(item) => {
            let item = name_of(item, class, classes);
            match model.type_name.starts_with("std::unique_ptr<") {
                true => format!("std::unique_ptr<{item}>"),
                false => format!("std::optional<{item}>"),
            }
        }
        FieldKind::Array(size, item) => {
            format!("std::array<{},{size}>", name_of(item, class, classes))
        }
        FieldKind::Variant(alternatives) => {
            let each = alternatives
                .iter()
                .map(|item| name_of(item, class, classes));
            format!("std::variant<{}>", each.collect::<Vec<_>>().join(","))
        }
        // enums are stored as integers
        FieldKind::Wrapper(item) => {
            let item = name_of(item, class, classes);
            match model.type_name.starts_with("std::atomic<") {
                true => format!("std::atomic<{item}>"),
                false => item,
            }
        }
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
        let within = format!("{name}::{}", identifier(&member.name));
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
