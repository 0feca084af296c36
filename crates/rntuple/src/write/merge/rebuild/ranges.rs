//! Ranges of elements, in the order in which they are taken.

use std::ops::Range;

/// Consecutive ranges; adjacent ones are joined.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::write::merge) struct Ranges(Vec<Range<u64>>);

impl Ranges {
    /// Appends a range.
    pub fn push(&mut self, range: Range<u64>) {
        match self.0.last_mut() {
            _ if range.is_empty() => {}
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.0.push(range),
        }
    }

    /// The ranges of items, with `n` items per element.
    pub fn times(&self, n: u64) -> Self {
        let scaled =
            |range: &Range<u64>| range.start.saturating_mul(n)..range.end.saturating_mul(n);
        self.0.iter().map(scaled).collect()
    }

    /// Number of elements.
    pub fn n_elements(&self) -> u64 {
        self.0.iter().map(|range| range.end - range.start).sum()
    }

    /// The largest end of all ranges.
    pub fn end(&self) -> u64 {
        self.0.iter().map(|range| range.end).max().unwrap_or(0)
    }

    /// Whether each range begins after the preceding one.
    pub fn are_sorted(&self) -> bool {
        self.0.is_sorted_by_key(|range| range.start)
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Range<u64>> {
        self.0.iter()
    }
}

impl FromIterator<Range<u64>> for Ranges {
    fn from_iter<I: IntoIterator<Item = Range<u64>>>(ranges: I) -> Self {
        let mut out = Self::default();
        ranges.into_iter().for_each(|range| out.push(range));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_joins_is_one_range_and_what_is_empty_none() {
        let ranges: Ranges = [2..4, 4..4, 4..7, 9..10, 3..5].into_iter().collect();
        assert_eq!(ranges.0, [2..7, 9..10, 3..5]);
        assert_eq!((ranges.n_elements(), ranges.end()), (8, 10));
        assert!(!ranges.are_sorted());
        assert_eq!(ranges.times(3).0, [6..21, 27..30, 9..15]);
    }
}
