//! The numbers of items per entry, from a counter.

use std::collections::BTreeMap;

use femtobarn_rntuple::RNTupleError;

use super::tree::Wanted;
use crate::model::BranchId;

/// The counts of a range of entries that covers whole baskets of the branches that use them.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// First entry of the range.
    pub start: u64,
    /// Counts; once they are summed up, the number of items before each entry of the range, and the total.
    pub sums: Vec<u64>,
}

/// The counters of all parts.
pub(crate) type Counters = BTreeMap<(usize, BranchId), Counts>;

impl Counts {
    /// Number of items before an entry.
    pub fn before(&self, entry: u64) -> u64 {
        let at = usize::try_from(entry - self.start).unwrap_or(usize::MAX);
        self.sums.get(at).copied().unwrap_or(0)
    }

    /// The sums of a range of entries, including its end.
    pub fn of(&self, start: u64, stop: u64) -> &[u64] {
        let at = |entry: u64| usize::try_from(entry - self.start).unwrap_or(usize::MAX);
        self.sums
            .get(at(start)..at(stop).saturating_add(1))
            .unwrap_or_default()
    }

    /// Extends the range.
    pub fn need(&mut self, start: u64, stop: u64) -> Result<(), RNTupleError> {
        let (start, stop) = (start.min(self.start), stop.max(self.stop()));
        self.start = start;
        let n = usize::try_from(stop - start).unwrap_or(usize::MAX);
        // one more for the total
        let more = n.saturating_sub(self.sums.len()).saturating_add(1);
        let reserved = self.sums.try_reserve_exact(more);
        reserved.map_err(|error| RNTupleError::Memory {
            bytes: (n as u64).saturating_mul(8),
            reason: error.to_string(),
        })?;
        self.sums.resize(n, 0);
        Ok(())
    }

    /// One past the last entry, before counts are summed up.
    pub fn stop(&self) -> u64 {
        self.start.saturating_add(self.sums.len() as u64)
    }

    /// The counts in each of the baskets that overlap the range, and the first entry after the baskets.
    pub fn by_basket(
        &mut self,
        baskets: impl Iterator<Item = Wanted>,
    ) -> (Vec<(Wanted, &mut [u64])>, u64) {
        let mut next = self.start;
        let mut rest = self.sums.as_mut_slice();
        let mut out = Vec::new();
        for wanted in baskets {
            let entries = wanted.entries.clone();
            let n = usize::try_from(entries.end - entries.start).unwrap_or(usize::MAX);
            let own = std::mem::take(&mut rest).split_at_mut_checked(n);
            let Some((own, left)) = own.filter(|_| entries.start == next) else {
                break;
            };
            out.push((wanted, own));
            (rest, next) = (left, entries.end);
        }
        (out, next)
    }

    /// Converts counts to sums; none if they exceed the limit of offsets.
    pub fn sum_up(&mut self) -> Option<()> {
        self.sums.push(0);
        let mut sum = 0u64;
        for place in &mut self.sums {
            let count = std::mem::replace(place, sum);
            sum = sum
                .checked_add(count)
                .filter(|&sum| i64::try_from(sum).is_ok())?;
        }
        Some(())
    }
}
