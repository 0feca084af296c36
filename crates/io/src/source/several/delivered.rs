//! Which source gave which bytes. Pure.

use std::collections::VecDeque;
use std::ops::Range;

use super::member::SourceId;

/// Answers that are remembered: their bytes are decoded soon.
const MOST: usize = 4096;
/// The first answers, which have the metadata, are remembered for good.
const FIRST: usize = 16;

/// The last answers, and the first.
#[derive(Debug, Default)]
pub(super) struct Delivered {
    first: Vec<(SourceId, Vec<Range<u64>>)>,
    last: VecDeque<(SourceId, Vec<Range<u64>>)>,
}

impl Delivered {
    /// Notes an answer.
    pub fn add(&mut self, source: SourceId, ranges: Vec<Range<u64>>) {
        if self.first.len() < FIRST {
            self.first.push((source, ranges));
            return;
        }
        if self.last.len() == MOST {
            self.last.pop_front();
        }
        self.last.push_back((source, ranges));
    }

    /// The sources that gave bytes of this range, the last first, and whether they gave all of it.
    pub fn by(&self, range: &Range<u64>) -> impl Iterator<Item = (SourceId, bool)> {
        let is_in = |own: &Range<u64>| own.start < range.end && range.start < own.end;
        let is_around = |own: &Range<u64>| own.start <= range.start && range.end <= own.end;
        let all = self.first.iter().chain(&self.last).rev();
        all.filter(move |(_, ranges)| ranges.iter().any(is_in))
            .map(move |(source, ranges)| (*source, ranges.iter().any(is_around)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_that_gave_bytes_of_a_range_is_known() {
        let mut delivered = Delivered::default();
        delivered.add(0, vec![0..10, 90..100]);
        for i in 0..5000 {
            delivered.add(1, vec![1000 + i..1001 + i]);
        }
        delivered.add(2, vec![5..20]);
        let by = |range: Range<u64>| delivered.by(&range).next();
        assert_eq!(
            (by(8..12), by(95..96), by(20..90)),
            (Some((2, true)), Some((0, true)), None)
        );
        assert_eq!(by(5999..6000), Some((1, true)));
        assert_eq!(by(1100..1101), None);
        // the end of this range is in no answer of the same source
        assert_eq!(by(15..25), Some((2, false)));
        let all: Vec<_> = delivered.by(&(5..8)).collect();
        assert_eq!(all, [(2, true), (0, true)]);
    }
}
