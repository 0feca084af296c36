//! Splits an upload into parts, and collects incomplete parts. Pure.

use std::ops::Range;

/// Maximum number of parts in a store.
const MOST_PARTS: u64 = 10_000;

/// Maximum size of an object in a store.
const LARGEST: u64 = 5 << 40;

/// Number of parts with the same size.
const STEP: u64 = 1000;

/// Growth of parts: in step k, they have k (k + 1) times this size more. So 10,000 parts of at least 5 MiB hold 5 TiB.
const GROWTH: u64 = 16 << 20;

/// The positions of an object's parts. The first thousand have the requested size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    first: u64,
}

impl Layout {
    pub fn new(first: u64) -> Self {
        Self { first }
    }

    /// The byte range of a part.
    pub fn range(&self, index: u64) -> Range<u64> {
        let (step, rest) = (index / STEP, index % STEP);
        let length = self.first + GROWTH * step * (step + 1);
        // the sum of j (j + 1), for j from 0 to step − 1
        let grown = step.saturating_sub(1) * step * (step + 1) / 3;
        let start = STEP * (step * self.first + GROWTH * grown) + rest * length;
        start..start + length
    }

    /// The part with the byte at `offset`; `None` if objects cannot be that large.
    pub fn index(&self, offset: u64) -> Option<u64> {
        if offset >= LARGEST {
            return None;
        }
        let steps = (0..=MOST_PARTS / STEP).rev();
        let start = |step: u64| self.range(step * STEP);
        let step = steps
            .into_iter()
            .find(|step| start(*step).start <= offset)?;
        let first = start(step);
        let index = step * STEP + (offset - first.start) / (first.end - first.start);
        (index < MOST_PARTS).then_some(index)
    }
}

/// A part that may still be incomplete.
#[derive(Debug)]
pub(super) struct Part {
    bytes: Vec<u8>,
    /// Written ranges, sorted and disjoint.
    written: Vec<Range<usize>>,
}

impl Part {
    /// A part without written bytes; gaps are zero.
    pub fn new(length: usize) -> Self {
        Self {
            bytes: vec![0; length],
            written: Vec::new(),
        }
    }

    /// Writes bytes if they are inside the part.
    pub fn write(&mut self, at: usize, bytes: &[u8]) -> bool {
        let end = at.saturating_add(bytes.len());
        let Some(place) = self.bytes.get_mut(at..end) else {
            return false;
        };
        place.copy_from_slice(bytes);
        let mut own = at..end;
        self.written.retain(|other| {
            let touches = other.start <= own.end && own.start <= other.end;
            if touches {
                own = own.start.min(other.start)..own.end.max(other.end);
            }
            !touches
        });
        let place = self
            .written
            .partition_point(|other| other.start < own.start);
        self.written.insert(place, own);
        true
    }

    /// Whether all bytes were written.
    pub fn is_complete(&self) -> bool {
        matches!(self.written.as_slice(), [all] if *all == (0..self.bytes.len()))
    }

    /// The bytes of the part up to a length.
    pub fn into_bytes(mut self, length: usize) -> Vec<u8> {
        self.bytes.truncate(length);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ten_thousand_parts_of_any_size_are_the_largest_object() {
        for first in [5 << 20, 16 << 20, 1 << 30] {
            let layout = Layout::new(first);
            assert!(layout.range(MOST_PARTS - 1).end >= LARGEST);
            assert!(layout.index(LARGEST - 1).is_some() && layout.index(LARGEST).is_none());
            let last = layout.range(MOST_PARTS - 1);
            assert!(
                last.end - last.start < 5 << 30,
                "the largest part that stores take"
            );
        }
        assert_eq!(Layout::new(16 << 20).range(999).end, 16_000 << 20);
    }

    proptest! {
        #[test]
        fn parts_follow_one_another(first in (5_u64 << 20)..(1 << 30), index in 0..MOST_PARTS) {
            let layout = Layout::new(first);
            let range = layout.range(index);
            prop_assert_eq!(layout.range(index + 1).start, range.end);
            if range.end <= LARGEST {
                prop_assert_eq!(layout.index(range.start), Some(index));
                prop_assert_eq!(layout.index(range.end - 1), Some(index));
            }
        }

        #[test]
        fn a_part_is_complete_when_all_was_written(pieces in prop::collection::vec((0_usize..20, 0_usize..8), 0..30)) {
            let mut part = Part::new(20);
            let mut expected = [0_u8; 20];
            let mut written = [false; 20];
            for (number, (at, length)) in (1_u8..).zip(pieces) {
                let is_inside = at + length <= 20;
                prop_assert_eq!(part.write(at, &vec![number; length]), is_inside);
                if is_inside {
                    expected[at..at + length].fill(number);
                    written[at..at + length].fill(true);
                }
            }
            prop_assert_eq!(part.is_complete(), written == [true; 20]);
            prop_assert_eq!(part.into_bytes(15), &expected[..15]);
        }
    }
}
