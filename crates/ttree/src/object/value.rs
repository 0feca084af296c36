//! Values of members.

use femtobarn_rootfile::{StreamerInfo, streamed_text};

use super::codes::*;

/// Index of an object in the list of all objects.
pub(crate) type ObjectId = usize;

/// Value of a member.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value<'s> {
    Int(i64),
    Real(f64),
    /// The stored bytes of a string.
    Text(&'s [u8]),
    Ints(Ints<'s>),
    Object(Option<ObjectId>),
}

/// Consecutive numbers in stored form.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Ints<'s> {
    bytes: &'s [u8],
    /// Their type code.
    code: i32,
}

impl<'s> Ints<'s> {
    pub fn new(bytes: &'s [u8], code: i32) -> Self {
        Self { bytes, code }
    }

    /// Size of a number in bytes.
    pub fn size_of(code: i32) -> usize {
        match code {
            CHAR | LEGACY_CHAR | UCHAR | BOOL => 1,
            SHORT | USHORT => 2,
            FLOAT16 => 3,
            INT | COUNTER | UINT | FLOAT | BITS | DOUBLE32 => 4,
            _ => 8,
        }
    }

    pub fn get(&self, at: usize) -> Option<i64> {
        let size = Self::size_of(self.code);
        let bytes = self.bytes.get(at * size..)?.get(..size)?;
        let unsigned = bytes
            .iter()
            .fold(0u64, |all, &byte| all << 8 | u64::from(byte));
        let unused = 64 - 8 * size;
        #[expect(clippy::cast_possible_truncation, reason = "saturates")]
        Some(match self.code {
            UCHAR | BOOL | USHORT | UINT | BITS => unsigned.cast_signed(),
            FLOAT | DOUBLE32 => f32::from_bits(unsigned as u32) as i64,
            FLOAT16 => 0,
            DOUBLE => f64::from_bits(unsigned) as i64,
            _ => (unsigned << unused).cast_signed() >> unused,
        })
    }

    pub fn iter(self) -> impl Iterator<Item = i64> + 's {
        (0..).map_while(move |at| self.get(at))
    }
}

impl<'s> Value<'s> {
    pub fn ints(&self) -> Ints<'s> {
        match self {
            Self::Ints(values) => *values,
            _ => Ints::default(),
        }
    }

    pub fn object(&self) -> Option<ObjectId> {
        match self {
            Self::Object(id) => *id,
            _ => None,
        }
    }

    pub fn int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            // numbers of entries were once stored as doubles
            #[expect(clippy::cast_possible_truncation, reason = "saturates")]
            Self::Real(value) => Some(*value as i64),
            _ => None,
        }
    }

    /// The stored bytes of a string; empty for other values.
    pub fn bytes(&self) -> &'s [u8] {
        match self {
            Self::Text(text) => text,
            _ => &[],
        }
    }

    pub fn text(&self) -> String {
        streamed_text(self.bytes())
    }
}

/// A basket that is stored within its branch.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EmbeddedBasket {
    pub n_entries: u32,
    /// Offsets of the entries in `data`, if they were written.
    pub offsets: Option<Vec<u32>>,
    /// Range of the data in the tree's object.
    pub data: std::ops::Range<usize>,
}

/// An object.
#[derive(Debug, Clone, Default)]
pub(crate) struct Object<'s> {
    pub class: &'s str,
    /// The description of its class, if there is one.
    pub info: Option<&'s StreamerInfo>,
    /// Members, those of base classes first.
    pub members: Vec<(&'s str, Value<'s>)>,
    /// Items, if it is a TObjArray or a list.
    pub items: Vec<Option<ObjectId>>,
    /// The basket, if it is one.
    pub basket: Option<Box<EmbeddedBasket>>,
}

/// The positions of members, for a caller that asks many objects for the same members in the same order: objects of the
/// same class have them at the same positions.
#[derive(Debug, Default)]
pub(crate) struct Places<'s> {
    kinds: Vec<Kind<'s>>,
    /// The kind of the current object, and the index of its next member.
    kind: usize,
    next: usize,
}

#[derive(Debug)]
struct Kind<'s> {
    info: Option<&'s StreamerInfo>,
    n_members: usize,
    /// Position and name of each member asked for.
    found: Vec<Option<(usize, &'s str)>>,
}

impl<'s> Places<'s> {
    /// Older kinds are dropped.
    const MOST: usize = 16;

    /// Starts with another object.
    pub fn begin(&mut self, object: &Object<'s>) {
        let (info, n_members) = (object.info, object.members.len());
        let address = |info: Option<&StreamerInfo>| info.map(std::ptr::from_ref);
        let is_it =
            |kind: &Kind<'_>| address(kind.info) == address(info) && kind.n_members == n_members;
        self.next = 0;
        self.kind = match self.kinds.iter().position(is_it) {
            Some(known) => known,
            None => {
                if self.kinds.len() == Self::MOST {
                    self.kinds.clear();
                }
                self.kinds.push(Kind {
                    info,
                    n_members,
                    found: Vec::new(),
                });
                self.kinds.len() - 1
            }
        };
    }

    /// Returns the next member.
    pub fn get<'o>(&mut self, object: &'o Object<'s>, name: &str) -> Option<&'o Value<'s>> {
        let found = &mut self.kinds.get_mut(self.kind)?.found;
        let at = self.next;
        self.next += 1;
        let place = match found.get(at) {
            Some(&known) => known,
            None => {
                let place = object.place(name);
                let place = place.and_then(|at| Some((at, object.members.get(at)?.0)));
                found.push(place);
                place
            }
        };
        let (place, known) = place?;
        match object.members.get(place) {
            Some((name, value)) if std::ptr::eq(*name, known) => Some(value),
            // base classes may have other versions
            _ => object.get(name),
        }
    }

    pub fn int(&mut self, object: &Object<'s>, name: &str) -> Option<i64> {
        self.get(object, name)?.int()
    }

    pub fn ints(&mut self, object: &Object<'s>, name: &str) -> Ints<'s> {
        self.get(object, name).map(Value::ints).unwrap_or_default()
    }

    pub fn object(&mut self, object: &Object<'s>, name: &str) -> Option<ObjectId> {
        self.get(object, name)?.object()
    }
}

impl<'s> Object<'s> {
    fn place(&self, name: &str) -> Option<usize> {
        // if names are equal, the member of the derived class is used
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

    pub fn ints(&self, name: &str) -> Ints<'s> {
        self.get(name).map(Value::ints).unwrap_or_default()
    }

    pub fn object(&self, name: &str) -> Option<ObjectId> {
        self.get(name)?.object()
    }
}
