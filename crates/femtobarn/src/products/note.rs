//! Descriptions of classes in a store.

use femtobarn_rntuple::write::FieldModel;
use serde_json::{Map, Value, json};

/// A class with its members, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassNote {
    /// Its name.
    pub name: String,
    /// Its members.
    pub members: Vec<Member>,
}

/// A member of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// The C++ name of its type.
    pub type_name: String,
}

/// Memory layout of the members of a class, as given by a C++ compiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InMemory {
    pub size: u64,
    pub places: Vec<u64>,
}

impl ClassNote {
    /// The key of a class description.
    pub fn key(name: &str) -> String {
        format!("type/{name}")
    }

    /// The stored description of a class.
    pub fn to_json(&self) -> Vec<u8> {
        let member = |member: &Member| json!({"name": member.name, "type": member.type_name});
        let members: Vec<_> = self.members.iter().map(member).collect();
        json!({"type": self.name, "members": members})
            .to_string()
            .into_bytes()
    }

    /// The content of a description, or why it is invalid.
    pub fn from_json(note: &[u8]) -> Result<Self, String> {
        let note: Value = serde_json::from_slice(note).map_err(|error| error.to_string())?;
        let text = |of: &Map<String, Value>, name: &str| {
            let text = of.get(name).and_then(Value::as_str);
            text.map(str::to_owned)
                .ok_or_else(|| format!("the string {name:?} is missing"))
        };
        let note = note.as_object().ok_or("it is not an object")?;
        let members = note.get("members").and_then(Value::as_array);
        let member = |member: &Value| {
            let member = member.as_object().ok_or("a member is not an object")?;
            Ok::<_, String>(Member {
                name: text(member, "name")?,
                type_name: text(member, "type")?,
            })
        };
        let members = members.ok_or("it has no members")?.iter().map(member);
        Ok(Self {
            name: text(note, "type")?,
            members: members.collect::<Result<_, _>>()?,
        })
    }

    /// How the members of two classes with the same name differ, in words.
    pub fn difference(&self, other: &Self) -> String {
        let mut said = Vec::new();
        for member in &self.members {
            let (name, there) = (&member.name, &member.type_name);
            if let Some(here) = other.member(name).filter(|here| *here != there) {
                said.push(format!("{name} is {there} there and {here} here"));
            }
        }
        for (one, two, place) in [(self, other, "there"), (other, self, "here")] {
            let members = one.members.iter();
            let only = members.filter(|member| two.member(&member.name).is_none());
            let names: Vec<_> = only.map(|member| member.name.as_str()).collect();
            if !names.is_empty() {
                said.push(format!("only {place}: {}", names.join(", ")));
            }
        }
        if said.is_empty() {
            said.push("their order differs".into());
        }
        said.join("; ")
    }

    fn member(&self, name: &str) -> Option<&String> {
        let mut members = self.members.iter();
        let found = members.find(|member| member.name == name);
        found.map(|member| &member.type_name)
    }

    /// The memory layout, if C++ has recorded it.
    pub(super) fn in_memory(note: &[u8]) -> Option<InMemory> {
        let note: Value = serde_json::from_slice(note).ok()?;
        let places = note.get("members")?.as_array()?.iter();
        Some(InMemory {
            size: note.get("size")?.as_u64()?,
            places: places
                .map(|member| member.get("offset")?.as_u64())
                .collect::<Option<_>>()?,
        })
    }

    /// The field of the class; the classes of its members must be known.
    pub(super) fn model(&self, classes: &[FieldModel]) -> Result<FieldModel, String> {
        let member = |member: &Member| {
            FieldModel::from_type_name_with(&member.name, &member.type_name, classes)
                .map_err(|error| error.to_string())
        };
        let members = self.members.iter().map(member).collect::<Result<_, _>>()?;
        Ok(FieldModel::record("", self.name.as_str(), members))
    }
}
