//! Reads counters.

use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::encoding::LARGEST_RATIO;

use super::counts::{Counters, Counts};
use super::engine::Read;
use super::job::{Job, Task};
use super::origin::Origin;
use crate::interp::{Content, counter_number};
use crate::model::{BranchId, Place};

impl<'a> Read<'a> {
    /// Plans the counters of all slots.
    pub fn plan_counters(&self) -> Result<Counters, RNTupleError> {
        let mut counters = Counters::new();
        for origins in &self.origins {
            for (part_id, (origin, part)) in origins.iter().zip(self.parts).enumerate() {
                let (counter, start, stop) = match *origin {
                    Origin::Offsets(counter) => (counter, part.start, part.stop),
                    Origin::Counted {
                        branch, counter, ..
                    } => {
                        // all entries of each basket, so that its size can be checked
                        let own = self.baskets(part_id, branch, part.start, part.stop)?;
                        let mut own = own.map(|wanted| wanted.basket);
                        let first = own.next().map(|basket| (basket.first_entry, basket.end()));
                        let (start, end) = first.unwrap_or((part.start, part.stop));
                        let stop = own.last().map_or(end, |basket| basket.end());
                        (counter, start.min(part.start), stop.max(part.stop))
                    }
                    _ => continue,
                };
                self.check_counter((part_id, counter), start, stop)?;
                let new = || Counts {
                    start,
                    sums: Vec::new(),
                };
                let counts = counters.entry((part_id, counter)).or_insert_with(new);
                counts.need(start, stop)?;
            }
        }
        Ok(counters)
    }

    /// Checks that the baskets of a counter can hold so many entries, before memory is allocated.
    fn check_counter(
        &self,
        (part_id, counter): (usize, BranchId),
        start: u64,
        stop: u64,
    ) -> Result<(), RNTupleError> {
        let reader = &self.part(part_id)?.reader;
        let branch = self.branch(part_id, counter)?;
        let what = format!("entries of branch {:?}", branch.name);
        let mut end = 0;
        let sizes = self.baskets(part_id, counter, start, stop)?.map(|wanted| {
            end = wanted.basket.end();
            match &wanted.basket.place {
                Place::File { n_bytes, .. } => *n_bytes,
                Place::Tree { data, .. } => data.len() as u64,
            }
        });
        let most = sizes
            .fold(0, u64::saturating_add)
            .saturating_mul(LARGEST_RATIO);
        if stop.saturating_sub(start) > most {
            let most = format!("at most {most}");
            return Err(reader.inconsistent(&what, most, stop - start));
        }
        if stop > end {
            return Err(reader.inconsistent(&what, stop, end));
        }
        Ok(())
    }

    /// Adds the jobs that read counters.
    pub fn counter_jobs<'b>(
        &self,
        counters: &'b mut Counters,
        jobs: &mut Vec<Job<'b>>,
    ) -> Result<(), RNTupleError>
    where
        'a: 'b,
    {
        for (&(part_id, counter), counts) in counters {
            let part = self.part(part_id)?;
            let branch = self.branch(part_id, counter)?;
            let Some(number) = counter_number(branch) else {
                return Err(RNTupleError::internal("a counter that does not count"));
            };
            let (start, stop) = (counts.start, counts.stop());
            let own = self.baskets(part_id, counter, start, stop)?;
            let (baskets, found) = counts.by_basket(own);
            if found < stop {
                let what = format!("baskets of branch {:?}", branch.name);
                let expected = format!("entries {start}..{stop}");
                return Err(part.reader.inconsistent(&what, expected, found));
            }
            for (wanted, out) in baskets {
                let task = Task::Counts { number, out };
                jobs.push(Job::new((part_id, counter), wanted, task));
            }
        }
        Ok(())
    }

    /// If a counter exceeds the maximum of its leaf, takes the lengths of arrays from the entry offsets: ROOT writes no
    /// more items than the maximum, for example with `UChar_t` counters above 127.
    pub fn correct(&self, counters: &mut Counters) -> Result<(), RNTupleError> {
        let mut jobs = Vec::new();
        for (&(part_id, counter), counts) in counters {
            let tree = self.trees.get(part_id);
            let maximum = tree.and_then(|tree| tree.filling().contents(counter).maximum);
            let Some(maximum) = maximum.and_then(|maximum| u64::try_from(maximum).ok()) else {
                continue;
            };
            if counts.sums.iter().all(|&count| count <= maximum) {
                continue;
            }
            let Some((branch_id, size)) = self.counted_by(part_id, counter) else {
                continue;
            };
            let own = self.baskets(part_id, branch_id, counts.start, counts.stop())?;
            for (wanted, counts) in counts.by_basket(own).0 {
                let task = Task::Lengths { size, counts };
                jobs.push(Job::new((part_id, branch_id), wanted, task));
            }
        }
        match jobs.is_empty() {
            true => Ok(()),
            false => self.run(jobs),
        }
    }

    /// A branch with this counter (one that is read, if possible), and the size of its items.
    fn counted_by(&self, part: usize, counter: BranchId) -> Option<(BranchId, usize)> {
        let tree = self.trees.get(part)?;
        let size = |branch: BranchId| match tree.data(branch)?.content {
            Content::Counted { counter: own, size } if own == counter => Some((branch, size)),
            _ => None,
        };
        let origins = self.origins.iter();
        let mut read = origins.filter_map(|origins| match *origins.get(part)? {
            Origin::Counted { branch, .. } => size(branch),
            _ => None,
        });
        read.next()
            .or_else(|| (0..tree.model().branches.len()).find_map(size))
    }

    /// Converts counts to the cumulative numbers of items.
    pub fn sum_up(&self, counters: &mut Counters) -> Result<(), RNTupleError> {
        for (&(part_id, counter), counts) in counters {
            if counts.sum_up().is_none() {
                let what = format!("sum of branch {:?}", self.branch(part_id, counter)?.name);
                let reader = &self.part(part_id)?.reader;
                return Err(reader.inconsistent(&what, "at most 2^63 items", "more"));
            }
        }
        Ok(())
    }
}
