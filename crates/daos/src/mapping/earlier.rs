//! Pages of the earlier layout, whose keys need more than a number.

use std::collections::HashMap;

use super::keys::Places;
use super::splice::Piece;
use crate::ValueKey;

/// The page of a locator, and where it is in the ntuple.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EarlierPage {
    /// The number of the cluster.
    pub cluster: u64,
    /// The number of the physical column.
    pub column: u64,
    /// The number of the page, or of its cage.
    pub number: u64,
    /// The offset in the cage.
    pub offset: u32,
    /// The size, with the checksum.
    pub size: u64,
}

/// Numbers for the pages and cages of the earlier layout, so that they are read as those of the other one. They are given
/// when page lists are read.
#[derive(Debug, Clone, Default)]
pub struct EarlierPages {
    /// Cluster, column and akey of each value, and its size as far as its pages are known.
    values: Vec<([u64; 3], u64)>,
    numbers: HashMap<[u64; 3], usize>,
}

impl EarlierPages {
    /// The value with a page, and where it is in the value.
    pub fn add(&mut self, page: &EarlierPage) -> Piece {
        let (key, offset) = ([page.cluster, page.column, page.number], page.offset);
        let value = *self.numbers.entry(key).or_insert(self.values.len());
        let end = u64::from(offset).saturating_add(page.size);
        match self.values.get_mut(value) {
            Some((_, size)) => *size = end.max(*size),
            None => self.values.push((key, end)),
        }
        Piece { value, offset }
    }

    /// The key of a value, and its size.
    pub fn value(&self, places: &Places, number: usize) -> Option<(ValueKey, u64)> {
        let &([cluster, column, akey], size) = self.values.get(number)?;
        Some((places.page_of_cluster(cluster, column, akey), size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ObjectClass;

    fn page(column: u64, number: u64, offset: u32, size: u64) -> EarlierPage {
        EarlierPage {
            cluster: 7,
            column,
            number,
            offset,
            size,
        }
    }

    #[test]
    fn pages_of_a_cage_are_in_one_value_and_others_have_their_own() {
        let mut pages = EarlierPages::default();
        let class = ObjectClass::from_bits(0x0401_0001);
        let places = Places {
            index: 5,
            values: 5,
            anchor: class,
            metadata: class,
            pages: class,
            first_list: 0,
        };
        let found = [
            page(1, 9, 0, 100),
            page(1, 9, 100, 50),
            page(1, 10, 0, 30),
            page(2, 9, 0, 30),
            page(3, 0x1_0000_000b, 0, 8),
            page(1, 9, 150, 1),
        ]
        .map(|page| pages.add(&page))
        .map(|piece| (piece.value, piece.offset));
        assert_eq!(found, [(0, 0), (0, 100), (1, 0), (2, 0), (3, 0), (0, 150)]);
        let values = (0..5).map(|number| {
            let (key, size) = pages.value(&places, number)?;
            Some([key.object.hi, key.object.lo, key.dkey, key.akey, size])
        });
        let hi = 0x0401_0001_0000_0005;
        let expected = [
            Some([hi, 7, 1, 9, 151]),
            Some([hi, 7, 1, 10, 30]),
            Some([hi, 7, 2, 9, 30]),
            Some([hi, 7, 3, 0x1_0000_000b, 8]),
            None,
        ];
        assert!(values.eq(expected));
    }
}
