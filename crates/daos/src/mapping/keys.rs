//! Keys of an ntuple's values.

use crate::{ObjectClass, ObjectId, ValueKey};

/// The dkey of everything but pages of clusters.
pub(crate) const DKEY: u64 = 0x5a3c_69f0_cafe_4a11;
const AKEY_PAGE: u64 = 0x4243_544b_5344_4229;
const AKEY_ANCHOR: u64 = 0x4243_544b_5344_422a;
const AKEY_HEADER: u64 = 0x4243_544b_5344_422b;
const AKEY_FOOTER: u64 = 0x4243_544b_5344_422c;

/// Objects with anchor, header and footer, and with page lists.
const METADATA: u64 = u64::MAX;
const PAGE_LISTS: u64 = u64::MAX - 1;

/// All values of an ntuple but the anchor have a number of 32 bits, as the objects of an object store have. Below this one
/// are those of pages; from it on are those of page lists.
pub const LISTS: u64 = 1 << 31;
/// The number of the header.
pub const HEADER: u64 = FOOTER - 1;
/// The number of the footer.
pub const FOOTER: u64 = u32::MAX as u64 - 2;

/// How pages are mapped to keys. The anchor does not say it: see `docs/specs/ntuple-daos.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Each number of a page, or of pages that are spliced, is an object. ROOT writes it since July 2026, and so does
    /// this crate.
    ObjectPerPage,
    /// Each cluster is an object, each column a dkey of it, and each page, or cage with several pages, an akey. ROOT wrote it
    /// from 2022 to June 2026.
    ObjectPerCluster,
}

/// The keys of an ntuple. ROOT gives anchor and the rest their classes at different times differently, so there are two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places {
    /// The index of the ntuple, see [`ntuple_index`](super::ntuple_index).
    pub index: u32,
    /// The index of the objects with pages and page lists: the same, unless they belong to another ntuple.
    pub values: u32,
    /// The class of the anchor's object.
    pub anchor: ObjectClass,
    /// The class of the objects with header, footer and page lists.
    pub metadata: ObjectClass,
    /// The class of objects with pages.
    pub pages: ObjectClass,
    /// The akey of the page list with the number [`LISTS`], which ROOT gives to the first one: 0. Femtobarn's page lists have
    /// akeys from `LISTS` on, so that numbers in locators are unique.
    pub first_list: u64,
}

impl Places {
    /// The anchor.
    pub fn anchor(&self) -> ValueKey {
        self.envelope(self.anchor, AKEY_ANCHOR)
    }

    /// The header.
    pub fn header(&self) -> ValueKey {
        self.envelope(self.metadata, AKEY_HEADER)
    }

    /// The footer.
    pub fn footer(&self) -> ValueKey {
        self.envelope(self.metadata, AKEY_FOOTER)
    }

    /// The value with a number: pages, a page list, the header or the footer. None if the number is too large.
    pub fn numbered(&self, number: u64) -> Option<ValueKey> {
        match number {
            ..LISTS => Some(ValueKey {
                object: self.pages.object(number, self.values),
                dkey: DKEY,
                akey: AKEY_PAGE,
            }),
            LISTS..HEADER => Some(ValueKey {
                object: self.lists(),
                dkey: DKEY,
                akey: number - LISTS + self.first_list,
            }),
            HEADER => Some(self.header()),
            FOOTER => Some(self.footer()),
            _ => None,
        }
    }

    /// A page or cage of the earlier layout.
    pub fn page_of_cluster(&self, cluster: u64, column: u64, number: u64) -> ValueKey {
        ValueKey {
            object: self.pages.object(cluster, self.values),
            dkey: column,
            akey: number,
        }
    }

    /// The object with page lists.
    pub fn lists(&self) -> ObjectId {
        self.metadata.object(PAGE_LISTS, self.values)
    }

    fn envelope(&self, class: ObjectClass, akey: u64) -> ValueKey {
        ValueKey {
            object: class.object(METADATA, self.index),
            dkey: DKEY,
            akey,
        }
    }
}

/// The name of an ntuple, among those of its container: the value of an object with an index that no ntuple has. Its akey has
/// the class of the ntuple's values, or 0 if DAOS chose it, and the index.
pub(crate) fn name_of(chosen: ObjectClass, class: ObjectClass, index: u32) -> ValueKey {
    let bits = if class == chosen { 0 } else { class.bits() };
    ValueKey {
        object: chosen.object(METADATA, 0),
        dkey: DKEY,
        akey: u64::from(bits) << 32 | u64::from(index),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::ntuple_index;

    fn places() -> Places {
        Places {
            index: ntuple_index("Events"),
            values: ntuple_index("Events"),
            anchor: ObjectClass::from_bits(0x0401_0001),
            metadata: ObjectClass::from_bits(0x0401_0008),
            pages: ObjectClass::from_bits(0x0408_0002),
            first_list: 0,
        }
    }

    fn numbers(key: ValueKey) -> [u64; 4] {
        [key.object.hi, key.object.lo, key.dkey, key.akey]
    }

    #[test]
    fn keys_are_those_of_root() {
        let (places, dkey) = (places(), 0x5a3c_69f0_cafe_4a11);
        let (anchor, rest, pages) = (
            0x0401_0001_87d4_b929,
            0x0401_0008_87d4_b929,
            0x0408_0002_87d4_b929,
        );
        for (key, expected) in [
            (
                places.anchor(),
                [anchor, u64::MAX, dkey, 0x4243_544b_5344_422a],
            ),
            (
                places.header(),
                [rest, u64::MAX, dkey, 0x4243_544b_5344_422b],
            ),
            (
                places.footer(),
                [rest, u64::MAX, dkey, 0x4243_544b_5344_422c],
            ),
            (places.page_of_cluster(5, 9, 77), [pages, 5, 9, 77]),
        ] {
            assert_eq!(numbers(key), expected);
        }
    }

    #[test]
    fn every_value_but_the_anchor_has_a_number() {
        let (root, dkey) = (places(), 0x5a3c_69f0_cafe_4a11);
        let ours = Places {
            first_list: LISTS,
            ..root
        };
        let (rest, pages) = (0x0401_0008_87d4_b929, 0x0408_0002_87d4_b929);
        let page = |lo| [pages, lo, dkey, 0x4243_544b_5344_4229];
        let list = |akey| [rest, u64::MAX - 1, dkey, akey];
        for places in [root, ours] {
            let of = |number| numbers(places.numbered(number).unwrap());
            assert_eq!([0, 77, 0x7fff_ffff].map(of), [0, 77, 0x7fff_ffff].map(page));
            assert_eq!(of(0xffff_fffc), numbers(places.header()));
            assert_eq!(of(0xffff_fffd), numbers(places.footer()));
            let others = [0xffff_fffe, 0xffff_ffff, 1 << 32, u64::MAX];
            assert_eq!(others.map(|number| places.numbered(number)), [None; 4]);
        }
        let lists = [0x8000_0000, 0x8000_0003];
        assert_eq!(
            lists.map(|number| numbers(root.numbered(number).unwrap())),
            [0, 3].map(list)
        );
        assert_eq!(
            lists.map(|number| numbers(ours.numbered(number).unwrap())),
            lists.map(list)
        );
    }
}
