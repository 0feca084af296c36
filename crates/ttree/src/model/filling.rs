//! The contents of the branches of a file, packed: they are in memory for all of thousands of files.

use super::{Basket, BranchId, Place};

/// The contents of a branch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    /// Number of entries.
    pub n_entries: u64,
    /// Uncompressed size of its baskets, as counted by the writer.
    pub total_bytes: u64,
    /// The largest value of its first leaf, if it is a counter: no more items per array are written.
    pub maximum: Option<i64>,
    /// Baskets in the order of entries; baskets within the tree's own object are last.
    pub baskets: Vec<Basket>,
}

impl Contents {
    /// Which of a tree's entries the branch lacks, if any.
    pub(super) fn lacks(&self, n_entries: u64) -> Option<String> {
        let first = self.baskets.first().map_or(0, |basket| basket.first_entry);
        let end = self.baskets.last().map_or(0, Basket::end);
        (n_entries > 0 && (first > 0 || end < n_entries)).then(|| {
            let n_own = end.saturating_sub(first);
            format!("it has {n_own} of the tree's {n_entries} entries")
        })
    }

    /// Whether its baskets take less space than their contents.
    pub(crate) fn is_compressed(&self) -> bool {
        let stored = self.baskets.iter().map(|basket| match basket.place {
            Place::File { n_bytes, .. } => n_bytes,
            Place::Tree { .. } => 0,
        });
        let stored = stored.fold(0u64, u64::saturating_add);
        0 < stored && stored < self.total_bytes
    }

    /// Whether there are fewer entries than the branch counts, among those of the tree.
    pub(super) fn lacks_own(&self, n_entries: u64) -> bool {
        let end = self.baskets.last().map_or(0, Basket::end);
        end < self.n_entries.min(n_entries)
    }
}

/// The contents of the branches of a tree.
#[derive(Debug, Clone, Default)]
pub struct Filling {
    /// Number of entries.
    pub n_entries: u64,
    /// First entry of each cluster, and the number of entries after the last.
    pub clusters: Vec<u64>,
    /// Start of each branch in `packed`.
    starts: Box<[u32]>,
    packed: Box<[u8]>,
    /// Whether there are baskets within the tree's own object.
    pub(crate) is_embedded: bool,
}

impl Filling {
    /// Packs the contents of the branches; none if that takes more than 4 GiB.
    pub(super) fn new(n_entries: u64, clusters: Vec<u64>, branches: &[Contents]) -> Option<Self> {
        let mut packer = Packer(Vec::with_capacity(16 * branches.len()));
        let mut starts = Vec::with_capacity(branches.len());
        for branch in branches {
            starts.push(u32::try_from(packer.0.len()).ok()?);
            packer.branch(branch);
        }
        let mut baskets = branches.iter().flat_map(|branch| &branch.baskets);
        Some(Self {
            n_entries,
            clusters,
            starts: starts.into(),
            packed: packer.0.into(),
            is_embedded: baskets.any(|basket| basket.place.range().is_none()),
        })
    }

    /// The largest number of entries that a branch counts; none for a tree without branches.
    pub(crate) fn most_of_a_branch(&self) -> Option<u64> {
        let branches = 0..self.starts.len();
        branches.map(|branch| self.n_entries_of(branch)).max()
    }

    /// The number of entries that a branch counts.
    fn n_entries_of(&self, branch: BranchId) -> u64 {
        let start = self.starts.get(branch).map(|&start| start as usize);
        let packed = start.and_then(|start| self.packed.get(start..));
        // a packer writes this number first
        packed.map_or(0, |packed| Unpacker(packed).number())
    }

    /// The contents of a branch; empty if the branch does not exist.
    pub fn contents(&self, branch: BranchId) -> Contents {
        let start = self.starts.get(branch).map(|&start| start as usize);
        let packed = start.and_then(|start| self.packed.get(start..));
        packed.map_or_else(Contents::default, |packed| Unpacker(packed).branch())
    }
}

/// Writes numbers with seven bits per byte, lowest first.
struct Packer(Vec<u8>);

impl Packer {
    fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(low(value) | 0x80);
            value >>= 7;
        }
        self.0.push(low(value));
    }

    fn signed(&mut self, value: i64) {
        self.number(((value << 1) ^ (value >> 63)).cast_unsigned());
    }

    fn branch(&mut self, branch: &Contents) {
        self.number(branch.n_entries);
        self.number(branch.total_bytes);
        self.number(u64::from(branch.maximum.is_some()));
        self.signed(branch.maximum.unwrap_or(0));
        self.number(
            branch
                .baskets
                .first()
                .map_or(0, |basket| basket.first_entry),
        );
        self.number(branch.baskets.len() as u64);
        let mut end = 0u64;
        for basket in &branch.baskets {
            self.number(basket.n_entries);
            match &basket.place {
                Place::File { offset, n_bytes } => {
                    self.number(0);
                    // most baskets of a branch are close to each other
                    self.signed(offset.wrapping_sub(end).cast_signed());
                    self.number(*n_bytes);
                    end = offset.wrapping_add(*n_bytes);
                }
                Place::Tree { data, offsets } => {
                    self.number(1 + u64::from(offsets.is_some()));
                    self.number(data.start as u64);
                    self.number(data.len() as u64);
                    if let Some(offsets) = offsets {
                        self.number(offsets.len() as u64);
                        offsets.iter().for_each(|&at| self.number(at.into()));
                    }
                }
            }
        }
    }
}

fn low(value: u64) -> u8 {
    (value & 0x7F) as u8
}

/// Reads what a `Packer` has written.
struct Unpacker<'a>(&'a [u8]);

impl Unpacker<'_> {
    fn number(&mut self) -> u64 {
        let (mut value, mut shift) = (0u64, 0u32);
        while let Some((&byte, rest)) = self.0.split_first() {
            self.0 = rest;
            value |= u64::from(byte & 0x7F).wrapping_shl(shift);
            shift += 7;
            if byte < 0x80 {
                break;
            }
        }
        value
    }

    fn signed(&mut self) -> i64 {
        let value = self.number();
        (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
    }

    fn size(&mut self) -> usize {
        usize::try_from(self.number()).unwrap_or(usize::MAX)
    }

    fn branch(mut self) -> Contents {
        let (n_entries, total_bytes) = (self.number(), self.number());
        let (has_maximum, maximum) = (self.number() == 1, self.signed());
        let (mut first_entry, n_baskets) = (self.number(), self.size());
        let mut baskets = Vec::with_capacity(n_baskets);
        let mut end = 0u64;
        for _ in 0..n_baskets {
            let n_entries = self.number();
            let place = match self.number() {
                0 => {
                    let offset = end.wrapping_add(self.signed().cast_unsigned());
                    let n_bytes = self.number();
                    end = offset.wrapping_add(n_bytes);
                    Place::File { offset, n_bytes }
                }
                kind => {
                    let (start, length) = (self.size(), self.size());
                    let offsets = (kind == 2).then(|| {
                        let n = self.size();
                        let offsets = (0..n).map(|_| u32::try_from(self.number()));
                        offsets.map(|at| at.unwrap_or(u32::MAX)).collect()
                    });
                    Place::Tree {
                        data: start..start.saturating_add(length),
                        offsets,
                    }
                }
            };
            baskets.push(Basket {
                first_entry,
                n_entries,
                place,
            });
            first_entry = first_entry.saturating_add(n_entries);
        }
        Contents {
            n_entries,
            total_bytes,
            maximum: has_maximum.then_some(maximum),
            baskets,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(first_entry: u64, n_entries: u64, offset: u64, n_bytes: u64) -> Basket {
        Basket {
            first_entry,
            n_entries,
            place: Place::File { offset, n_bytes },
        }
    }

    fn embedded(first_entry: u64, n_entries: u64, offsets: Option<Vec<u32>>) -> Basket {
        let data = 1000..1234;
        Basket {
            first_entry,
            n_entries,
            place: Place::Tree { data, offsets },
        }
    }

    #[test]
    fn what_is_packed_comes_back() {
        let large = u64::MAX - 300;
        let branches = [
            Contents::default(),
            Contents {
                n_entries: 60,
                total_bytes: large,
                maximum: Some(-1),
                baskets: vec![
                    file(0, 20, 1 << 40, 127),
                    file(20, 0, 100, 128),
                    file(20, 40, large, 1 << 20),
                ],
            },
            Contents {
                n_entries: 3,
                maximum: Some(i64::MIN),
                baskets: vec![
                    file(7, 1, 228, 1),
                    embedded(8, 1, None),
                    embedded(9, 1, Some(vec![0, 200, u32::MAX])),
                ],
                ..Contents::default()
            },
        ];
        let filling = Filling::new(60, vec![0, 60], &branches).unwrap();
        let found: Vec<Contents> = (0..3).map(|branch| filling.contents(branch)).collect();
        assert_eq!(found, branches);
        assert!(filling.is_embedded);
        assert_eq!(filling.contents(3), Contents::default());
    }

    #[test]
    fn baskets_that_are_smaller_than_their_contents_are_compressed() {
        let of = |total_bytes, baskets| Contents {
            total_bytes,
            baskets,
            ..Contents::default()
        };
        let two = vec![file(0, 20, 100, 60), file(20, 20, 160, 50)];
        assert!(of(889, two.clone()).is_compressed());
        assert!(!of(110, two).is_compressed());
        // what is within the tree's own object has no size of its own
        assert!(!of(889, vec![embedded(0, 1, None)]).is_compressed());
    }

    #[test]
    fn a_basket_takes_a_few_bytes() {
        let of = |branch: u64| Contents {
            n_entries: 100_000,
            total_bytes: 400_000,
            baskets: (0..10)
                .map(|n| file(n * 10_000, 10_000, (n * 1500 + branch) * 20_000, 20_000))
                .collect(),
            ..Contents::default()
        };
        let branches: Vec<Contents> = (0..1500).map(of).collect();
        let filling = Filling::new(100_000, Vec::new(), &branches).unwrap();
        assert!(
            filling.packed.len() < 15_000 * 12,
            "{}",
            filling.packed.len()
        );
        assert!(!filling.is_embedded);
    }
}
