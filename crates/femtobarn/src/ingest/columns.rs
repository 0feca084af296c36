//! The fields of an ntuple with the products that they would be.

use std::collections::HashSet;

use serde_json::Value;

use super::open::place;
use crate::ntuple::NTuple;
use crate::products::{self, ClassNote, Form, Member};
use crate::transfer::{TransferError, noted, quoted};

/// A field that becomes a product.
#[derive(Debug, Clone)]
pub(super) struct Column {
    pub field: String,
    pub label: String,
    pub kind: Kind,
    /// Why it cannot become one.
    pub why: Option<String>,
    /// The number that it is, as recorded in an exported file.
    pub number: Option<String>,
}

/// The type of a column.
#[derive(Debug, Clone)]
pub(super) struct Kind {
    pub name: String,
    pub classes: Vec<ClassNote>,
    pub form: Form,
}

/// The fields that can be read, each with its product, whether it is chosen or not. In exported files, descriptions say
/// which products they are.
pub(super) fn columns(ntuple: &NTuple) -> Result<Vec<Column>, TransferError> {
    let Some(reader) = ntuple.readers().first() else {
        return Ok(Vec::new());
    };
    let (descriptor, left_out) = (reader.descriptor(), ntuple.left_out());
    let mut found = Vec::new();
    for &id in &descriptor.top_level {
        let name = descriptor.field_name(id);
        let Some(field) = descriptor.field(id) else {
            continue;
        };
        if descriptor.is_hidden_source(id) || left_out.reason(name).is_some() {
            continue;
        }
        let (kind, why) = match products::described(descriptor, id) {
            Ok(described) => ((described.type_name, described.classes), None),
            Err(why) => ((field.record.type_name.clone(), Vec::new()), Some(why)),
        };
        let description = &field.record.description;
        let mut column = Column {
            field: name.to_owned(),
            label: String::new(),
            kind: Kind {
                name: kind.0,
                classes: kind.1,
                form: Form::Value,
            },
            why,
            number: noted("number", description).and_then(|n| Some(n.as_str()?.to_owned())),
        };
        if let Some(product) = noted("product", description) {
            let (label, kind) = product_of(&product).ok_or_else(|| {
                let what = format!("the description of field {} is damaged", quoted(name));
                TransferError::new("format", format!("{}: {what}", place(ntuple)))
            })?;
            (column.label, column.kind, column.why) = (label, kind, None);
            found.push((column, true));
        } else {
            found.push((column, false));
        }
    }
    let names: Vec<&str> = found.iter().map(|(one, _)| one.field.as_str()).collect();
    let labels = labels(&names);
    let labelled = found.into_iter().zip(labels);
    Ok(labelled
        .map(|((mut column, is_noted), label)| {
            if !is_noted {
                column.label = label;
            }
            column
        })
        .collect())
}

/// Label and type of a product, from the description of its column.
fn product_of(noted: &Value) -> Option<(String, Kind)> {
    let text = |of: &Value, name: &str| Some(of.get(name)?.as_str()?.to_owned());
    let mut classes = Vec::new();
    let listed = noted.get("classes").and_then(Value::as_array);
    for class in listed.into_iter().flatten() {
        let mut members = Vec::new();
        for member in class.get(1)?.as_array()? {
            members.push(Member {
                name: member.get(0)?.as_str()?.to_owned(),
                type_name: member.get(1)?.as_str()?.to_owned(),
            });
        }
        classes.push(ClassNote {
            name: class.get(0)?.as_str()?.to_owned(),
            members,
        });
    }
    let kind = Kind {
        name: text(noted, "type")?,
        classes,
        form: text(noted, "form")?.parse().ok()?,
    };
    Some((text(noted, "label")?, kind))
}

/// The labels of fields: their names, with `_` for `#`, which ends a label. A second branch `Particle` of a tree is the
/// field `Particle#2`.
fn labels(names: &[&str]) -> Vec<String> {
    let plain = names.iter().filter(|name| !name.contains('#'));
    let mut used: HashSet<String> = plain.map(|name| (*name).to_owned()).collect();
    let label = |name: &&str| {
        let mut own = name.replace('#', "_");
        if name.contains('#') {
            while !used.insert(own.clone()) {
                own.push('_');
            }
        }
        own
    };
    names.iter().map(label).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_branches_get_labels_that_nothing_has() {
        assert_eq!(labels(&["x", "x#2", "x_2"]), ["x", "x_2_", "x_2"]);
    }
}
