//! Keys of values, and object classes.

use std::fmt::{Display, Formatter};

use crate::ObjectId;

/// Where a value is: an object, and two numbers in it. Values of one dkey are on one server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueKey {
    /// The object.
    pub object: ObjectId,
    /// The distribution key.
    pub dkey: u64,
    /// The attribute key.
    pub akey: u64,
}

impl Display for ValueKey {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Self { object, dkey, akey } = self;
        write!(f, "akey {akey:#x}, dkey {dkey:#x} of object {object}")
    }
}

impl Display for ObjectId {
    /// As the tools of DAOS write it.
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.hi, self.lo)
    }
}

/// An object class as DAOS resolved it for a pool: it is part of the ID of each object. A class such as `SX` is resolved by
/// the number of targets, and may give other IDs once the pool was extended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ObjectClass {
    /// The upper 32 bits of IDs: the type of the object, its redundancy, its number of groups.
    bits: u32,
}

impl ObjectClass {
    /// The class of an object with this ID.
    pub fn of(object: ObjectId) -> Self {
        let bits = (object.hi >> 32) as u32;
        Self { bits }
    }

    /// The class of IDs with these upper 32 bits.
    pub fn from_bits(bits: u32) -> Self {
        Self { bits }
    }

    /// The upper 32 bits of IDs.
    pub fn bits(self) -> u32 {
        self.bits
    }

    /// The ID of an object.
    pub fn object(self, lo: u64, index: u32) -> ObjectId {
        let hi = u64::from(self.bits) << 32 | u64::from(index);
        ObjectId { lo, hi }
    }

    /// The number of the class that DAOS has names for: redundancy and number of groups.
    pub(crate) fn id(self) -> u32 {
        (self.bits >> 16 & 0xff) << 24 | self.bits & 0xffff
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_the_upper_half_of_the_upper_half_of_an_id() {
        // type 4, redundancy 1 (none), 8 groups: S8
        let object = ObjectId {
            lo: 7,
            hi: 0x0401_0008_87d4_b929,
        };
        let class = ObjectClass::of(object);
        assert_eq!((class.bits(), class.id()), (0x0401_0008, 0x0100_0008));
        assert_eq!(class.object(7, 0x87d4_b929), object);
        assert_eq!(ObjectClass::from_bits(class.bits()), class);
    }

    #[test]
    fn an_object_is_written_as_the_tools_of_daos_do() {
        let object = ObjectId { lo: 3, hi: 5 };
        let key = ValueKey {
            object,
            dkey: 16,
            akey: 17,
        };
        assert_eq!(key.to_string(), "akey 0x11, dkey 0x10 of object 5.3");
    }
}
