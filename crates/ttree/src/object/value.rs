//! Values of members.

/// Index of an object in the list of all that were read.
pub(crate) type ObjectId = usize;

/// Value of a member.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Int(i64),
    Real(f64),
    Text(String),
    Ints(Vec<i64>),
    Object(Option<ObjectId>),
}

/// A basket that is stored in its branch.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EmbeddedBasket {
    pub n_entries: u32,
    /// Where the entries begin in `data`, if they were written.
    pub offsets: Option<Vec<u32>>,
    /// Where the data are in the tree's object.
    pub data: std::ops::Range<usize>,
}

/// An object.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Object<'s> {
    pub class: String,
    /// Members, those of base classes in front.
    pub members: Vec<(&'s str, Value)>,
    /// Items, if it is a TObjArray or a list.
    pub items: Vec<Option<ObjectId>>,
    /// The basket, if it is one.
    pub basket: Option<EmbeddedBasket>,
}

impl Object<'_> {
    pub fn get(&self, name: &str) -> Option<&Value> {
        // of equal names, a derived class's member counts
        let found = self.members.iter().rev().find(|(known, _)| *known == name);
        found.map(|(_, value)| value)
    }

    pub fn int(&self, name: &str) -> Option<i64> {
        match self.get(name)? {
            Value::Int(value) => Some(*value),
            // counts of entries were doubles once
            #[expect(clippy::cast_possible_truncation, reason = "saturates")]
            Value::Real(value) => Some(*value as i64),
            _ => None,
        }
    }

    pub fn text(&self, name: &str) -> &str {
        match self.get(name) {
            Some(Value::Text(text)) => text,
            _ => "",
        }
    }

    pub fn ints(&self, name: &str) -> &[i64] {
        match self.get(name) {
            Some(Value::Ints(values)) => values,
            _ => &[],
        }
    }

    pub fn object(&self, name: &str) -> Option<ObjectId> {
        match self.get(name)? {
            Value::Object(id) => *id,
            _ => None,
        }
    }
}
