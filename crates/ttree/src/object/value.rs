//! Values of members.

use femtobarn_rootfile::{StreamerInfo, streamed_text};

/// Index of an object in the list of all that were read.
pub(crate) type ObjectId = usize;

/// Value of a member.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value<'s> {
    Int(i64),
    Real(f64),
    /// As it is stored.
    Text(&'s [u8]),
    Ints(Vec<i64>),
    Object(Option<ObjectId>),
}

impl Value<'_> {
    pub fn int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            // counts of entries were doubles once
            #[expect(clippy::cast_possible_truncation, reason = "saturates")]
            Self::Real(value) => Some(*value as i64),
            _ => None,
        }
    }

    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => streamed_text(text),
            _ => String::new(),
        }
    }
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
#[derive(Debug, Clone, Default)]
pub(crate) struct Object<'s> {
    pub class: &'s str,
    /// How its class is described, if it is.
    pub info: Option<&'s StreamerInfo>,
    /// Members, those of base classes in front.
    pub members: Vec<(&'s str, Value<'s>)>,
    /// Items, if it is a TObjArray or a list.
    pub items: Vec<Option<ObjectId>>,
    /// The basket, if it is one.
    pub basket: Option<EmbeddedBasket>,
}

/// The positions of members, for a caller that asks many objects for the same members in the same order. Most objects have
/// the same members.
#[derive(Debug, Default)]
pub(crate) struct Places<'s> {
    info: Option<&'s StreamerInfo>,
    n_members: usize,
    found: Vec<Option<usize>>,
    next: usize,
}

impl<'s> Places<'s> {
    /// Begins with another object.
    pub fn begin(&mut self, object: &Object<'s>) {
        let is_same = match (self.info, object.info) {
            (Some(known), Some(info)) => std::ptr::eq(known, info),
            _ => false,
        };
        if !is_same || self.n_members != object.members.len() {
            self.found.clear();
        }
        (self.info, self.n_members) = (object.info, object.members.len());
        self.next = 0;
    }

    /// The next member.
    pub fn get<'o>(&mut self, object: &'o Object<'s>, name: &str) -> Option<&'o Value<'s>> {
        let at = self.next;
        self.next += 1;
        let place = match self.found.get(at) {
            Some(&known) => known,
            None => {
                let place = object.place(name);
                self.found.push(place);
                place
            }
        };
        let (known, value) = object.members.get(place?)?;
        // bases may be of other versions
        match *known == name {
            true => Some(value),
            false => object.get(name),
        }
    }
}

impl<'s> Object<'s> {
    fn place(&self, name: &str) -> Option<usize> {
        // of equal names, a derived class's member counts
        let mut members = self.members.iter();
        members.rposition(|(known, _)| *known == name)
    }

    pub fn get(&self, name: &str) -> Option<&Value<'s>> {
        let (_, value) = self.members.get(self.place(name)?)?;
        Some(value)
    }

    pub fn int(&self, name: &str) -> Option<i64> {
        self.get(name)?.int()
    }

    pub fn text(&self, name: &str) -> String {
        self.get(name).map_or_else(String::new, Value::text)
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
