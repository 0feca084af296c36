//! Counters: how many items the lists of each entry have.

use std::collections::BTreeMap;

use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::Part;

use super::job::{Job, Task, within};
use super::storage::{baskets_of, tree_of};
use crate::interp::counter_number;
use crate::model::BranchId;

/// The counts of a range of entries that covers whole baskets of those who need them.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// First entry of the range.
    pub start: u64,
    /// Number of items before each entry of the range, and in all, once they are summed up; counts before that.
    pub sums: Vec<u64>,
}

impl Counts {
    /// Items before an entry.
    pub fn before(&self, entry: u64) -> u64 {
        let at = usize::try_from(entry - self.start).unwrap_or(usize::MAX);
        self.sums.get(at).copied().unwrap_or(0)
    }

    /// The sums of a range of entries and at its end.
    pub fn of(&self, start: u64, stop: u64) -> &[u64] {
        let at = |entry: u64| usize::try_from(entry - self.start).unwrap_or(usize::MAX);
        self.sums
            .get(at(start)..at(stop).saturating_add(1))
            .unwrap_or_default()
    }

    /// Turns counts into sums.
    pub fn sum_up(&mut self) -> Option<()> {
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

/// Counters of all parts.
pub(crate) type Counters = BTreeMap<(usize, BranchId), Counts>;

/// Makes room for the counts of `range`, in addition to what is needed already.
pub(crate) fn need(
    counters: &mut Counters,
    part: usize,
    counter: BranchId,
    start: u64,
    stop: u64,
) -> Result<(), RNTupleError> {
    let known = counters.entry((part, counter)).or_insert_with(|| Counts {
        start,
        sums: Vec::new(),
    });
    // the length is made later: until then only the ends are kept
    let end = known.start.saturating_add(known.sums.len() as u64);
    let (start, end) = (start.min(known.start), stop.max(end));
    known.start = start;
    let n = usize::try_from(end - start).unwrap_or(usize::MAX);
    let more = n.saturating_sub(known.sums.len());
    let reserved = known.sums.try_reserve_exact(more.saturating_add(1));
    reserved.map_err(|error| RNTupleError::Memory {
        bytes: (n as u64).saturating_mul(8),
        reason: error.to_string(),
    })?;
    known.sums.resize(n, 0);
    Ok(())
}

/// Adds the jobs that read the counters.
pub(crate) fn jobs<'a>(
    parts: &'a [Part],
    counters: &'a mut Counters,
    jobs: &mut Vec<Job<'a>>,
) -> Result<(), RNTupleError> {
    for (&(part_id, counter), counts) in counters {
        let Some(part) = parts.get(part_id) else {
            continue;
        };
        let tree = tree_of(part)?;
        let branch = tree.model().branch(counter);
        let Some((branch, number)) =
            branch.and_then(|branch| Some((branch, counter_number(branch)?)))
        else {
            return Err(RNTupleError::internal("a counter that does not count"));
        };
        let (start, stop) = (counts.start, counts.start + counts.sums.len() as u64);
        let missing = |found: u64| {
            let what = format!("baskets of branch {:?}", branch.name);
            part.reader
                .inconsistent(&what, format!("entries {start}..{stop}"), found)
        };
        let mut rest = counts.sums.as_mut_slice();
        let mut next = start;
        for (at, basket) in baskets_of(branch, start, stop) {
            if basket.first_entry > next {
                return Err(missing(next));
            }
            let (low, high) = within(basket, next, stop);
            let taken = std::mem::take(&mut rest).split_at_mut_checked(high - low);
            let Some((out, left)) = taken else {
                return Err(missing(next));
            };
            let task = Task::Counts { number, out };
            jobs.push(Job::new((part_id, counter), (at, basket), next..stop, task));
            rest = left;
            next = basket.end();
        }
        if !rest.is_empty() {
            return Err(missing(next));
        }
    }
    Ok(())
}
