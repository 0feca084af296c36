//! Which ranges of a file are held, and where. Pure.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Bytes of a file in a segment `S`.
#[derive(Debug)]
pub(super) struct Held<S> {
    pub range: Range<u64>,
    pub segment: Arc<S>,
    pub position: u64,
    pub hash: u64,
    /// Whether this process has compared the bytes with the hash.
    is_proven: AtomicBool,
    /// Whether this process has used or written them.
    is_used: AtomicBool,
}

impl<S> Held<S> {
    pub fn new(range: Range<u64>, segment: Arc<S>, position: u64, hash: u64) -> Arc<Self> {
        Arc::new(Self {
            range,
            segment,
            position,
            hash,
            is_proven: AtomicBool::new(false),
            is_used: AtomicBool::new(false),
        })
    }

    pub fn is_proven(&self) -> bool {
        self.is_proven.load(Relaxed)
    }

    pub fn prove(&self) {
        self.is_proven.store(true, Relaxed);
    }

    pub fn is_used(&self) -> bool {
        self.is_used.load(Relaxed)
    }

    pub fn note_used(&self) {
        if !self.is_used() {
            self.is_used.store(true, Relaxed);
        }
    }
}

/// A part of a wanted range.
#[derive(Debug)]
pub(super) enum Piece<S> {
    Held(Arc<Held<S>>, Range<u64>),
    Missing(Range<u64>),
}

/// The held ranges. None is inside of another one, so that of two the one that begins later ends later.
#[derive(Debug)]
pub(super) struct Index<S>(BTreeMap<u64, Arc<Held<S>>>);

impl<S> Default for Index<S> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<S> Index<S> {
    /// The held bytes that a range is inside of.
    pub fn around(&self, range: &Range<u64>) -> Option<&Arc<Held<S>>> {
        let (_, last) = self.0.range(..=range.start).next_back()?;
        (range.end <= last.range.end).then_some(last)
    }

    /// Adds bytes, unless they are held already; they replace those inside of their range.
    pub fn insert(&mut self, held: Arc<Held<S>>) {
        let range = held.range.clone();
        if self.around(&range).is_some() {
            return;
        }
        let inside =
            |(at, found): (&u64, &Arc<Held<S>>)| (found.range.end <= range.end).then_some(*at);
        while let Some(at) = self.0.range(range.start..range.end).next().and_then(inside) {
            self.0.remove(&at);
        }
        self.0.insert(range.start, held);
    }

    /// Removes exactly these bytes.
    pub fn remove(&mut self, held: &Arc<Held<S>>) {
        let start = held.range.start;
        if self.0.get(&start).is_some_and(|at| Arc::ptr_eq(at, held)) {
            self.0.remove(&start);
        }
    }

    /// Keeps those that a function says.
    pub fn retain(&mut self, keeps: impl Fn(&Held<S>) -> bool) {
        self.0.retain(|_, held| keeps(held));
    }

    /// Those that have a byte of a range.
    pub fn overlapping(&self, range: &Range<u64>) -> Vec<Arc<Held<S>>> {
        let before = self.0.range(..range.start).next_back();
        let before = before.filter(|(_, held)| held.range.end > range.start);
        let first = before.map_or(range.start, |(at, _)| *at);
        if first >= range.end {
            return Vec::new();
        }
        let found = self.0.range(first..range.end);
        found.map(|(_, held)| held.clone()).collect()
    }

    /// A range in its parts, in their order.
    pub fn pieces(&self, range: &Range<u64>) -> Vec<Piece<S>> {
        if let Some(held) = self.around(range) {
            return vec![Piece::Held(held.clone(), range.clone())];
        }
        let (mut out, mut at) = (Vec::new(), range.start);
        for held in self.overlapping(range) {
            if at < held.range.start {
                out.push(Piece::Missing(at..held.range.start));
                at = held.range.start;
            }
            let end = held.range.end.min(range.end);
            if at < end {
                out.push(Piece::Held(held, at..end));
                at = end;
            }
        }
        if at < range.end {
            out.push(Piece::Missing(at..range.end));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn index(ranges: &[Range<u64>]) -> Index<()> {
        let mut index = Index::default();
        for range in ranges {
            index.insert(Held::new(range.clone(), Arc::new(()), range.start, 0));
        }
        index
    }

    fn shown(index: &Index<()>, range: Range<u64>) -> Vec<(bool, Range<u64>)> {
        let one = |piece| match piece {
            Piece::Held(held, part) => {
                assert!(held.range.start <= part.start && part.end <= held.range.end);
                (true, part)
            }
            Piece::Missing(part) => (false, part),
        };
        index.pieces(&range).into_iter().map(one).collect()
    }

    #[test]
    fn only_what_is_missing_is_named() {
        let index = index(&[10..20, 15..30, 40..50]);
        assert_eq!(shown(&index, 12..18), [(true, 12..18)]);
        assert_eq!(
            shown(&index, 0..60),
            [
                (false, 0..10),
                (true, 10..20),
                (true, 20..30),
                (false, 30..40),
                (true, 40..50),
                (false, 50..60)
            ]
        );
        assert_eq!(shown(&index, 32..35), [(false, 32..35)]);
        assert_eq!(shown(&index, 45..55), [(true, 45..50), (false, 50..55)]);
    }

    #[test]
    fn larger_ranges_replace_those_inside() {
        let index = index(&[10..20, 20..30, 12..14, 10..30, 5..6]);
        assert_eq!(index.0.keys().collect::<Vec<_>>(), [&5, &10]);
        assert_eq!(index.around(&(11..29)).unwrap().range, 10..30);
        assert!(index.around(&(9..12)).is_none());
    }

    proptest! {
        #[test]
        fn every_byte_is_in_one_piece_and_held_if_it_was_added(
            added in proptest::collection::vec((0_u64..100, 1_u64..20).prop_map(|(at, n)| at..at + n), 0..20),
            wanted in (0_u64..100, 1_u64..50).prop_map(|(at, n)| at..at + n),
        ) {
            let mut at = wanted.start;
            for (is_held, part) in shown(&index(&added), wanted.clone()) {
                prop_assert_eq!(part.start, at);
                at = part.end;
                for byte in part {
                    prop_assert_eq!(is_held, added.iter().any(|range| range.contains(&byte)));
                }
            }
            prop_assert_eq!(at, wanted.end);
        }
    }
}
