//! The read itself: first counters and what must be put together, then everything that has its place.

use std::collections::BTreeMap;

use bytes::Bytes;
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::array::SlotData;
use femtobarn_rntuple::read::storage::{Progress, Slabs, requests, run, total_bytes};
use femtobarn_rntuple::read::{Part, ReadOptions, ReadSchema};
use femtobarn_rntuple::schema::{DType, SlotKind};

use super::copy::{Copier, Copy};
use super::counts::{self, Counters, Counts};
use super::job::{Job, Task, within};
use super::op::Op;
use super::origin::{Origin, Pieced, PiecedBranches, column_types, origin};
use super::storage::{TreeStorage, baskets_of, tree_of};
use super::values::Sink;
use super::worker::Worker;
use crate::interp::{Content, Number};
use crate::model::{Branch, BranchId, Place};

/// No codec makes more of a byte.
const LARGEST_RATIO: u64 = 1 << 15;

/// Reads the entries of all parts into slots.
pub(crate) fn read(
    schema: &ReadSchema,
    parts: &[Part],
    options: &ReadOptions<'_>,
    progress: &Progress,
) -> Result<Vec<SlotData>, RNTupleError> {
    let trees: Vec<&TreeStorage> = parts.iter().map(tree_of).collect::<Result<_, _>>()?;
    let mut origins: Vec<Vec<Origin>> = Vec::with_capacity(schema.slots.len());
    for slot in 0..schema.slots.len() {
        let own = parts.iter().zip(&trees);
        origins.push(
            own.map(|(part, tree)| origin(part, tree, slot))
                .collect::<Result<_, _>>()?,
        );
    }
    let mut read = Read {
        schema,
        parts,
        trees,
        origins,
        options,
        progress,
        counters: Counters::new(),
        pieced: PiecedBranches::new(),
    };
    read.first_round()?;
    read.second_round()
}

struct Read<'a> {
    schema: &'a ReadSchema,
    parts: &'a [Part],
    trees: Vec<&'a TreeStorage>,
    /// For each slot, in each part.
    origins: Vec<Vec<Origin>>,
    options: &'a ReadOptions<'a>,
    progress: &'a Progress,
    counters: Counters,
    pieced: PiecedBranches,
}

impl<'a> Read<'a> {
    fn branch(&self, part: usize, branch: BranchId) -> Result<&'a Branch, RNTupleError> {
        let found = self
            .trees
            .get(part)
            .and_then(|tree| tree.model().branch(branch));
        found.ok_or_else(|| RNTupleError::internal("a branch that is not there"))
    }

    /// Counters, and branches whose baskets must be put together.
    fn first_round(&mut self) -> Result<(), RNTupleError> {
        self.plan_counters()?;
        self.plan_pieces()?;
        let parts = self.parts;
        let mut counters = std::mem::take(&mut self.counters);
        let mut pieced = std::mem::take(&mut self.pieced);
        let mut jobs = Vec::new();
        counts::jobs(parts, &mut counters, &mut jobs)?;
        self.piece_jobs(&mut pieced, &mut jobs)?;
        self.run(jobs)
            .map_err(|error| self.explained(error, &pieced))?;
        self.correct(&mut counters)?;
        for (&(part, counter), counts) in &mut counters {
            counts.sums.push(0);
            if counts.sum_up().is_none() {
                let branch = self.branch(part, counter)?;
                let reader = parts.get(part).map(|part| &part.reader);
                let what = format!("sum of branch {:?}", branch.name);
                return Err(reader.map_or(RNTupleError::internal(&what), |reader| {
                    reader.inconsistent(&what, "at most 2^63 items", "more")
                }));
            }
        }
        self.counters = counters;
        self.pieced = pieced;
        Ok(())
    }

    /// Adds the jobs that decode baskets in pieces.
    fn piece_jobs<'b>(
        &self,
        pieced: &'b mut PiecedBranches,
        jobs: &mut Vec<Job<'b>>,
    ) -> Result<(), RNTupleError>
    where
        'a: 'b,
    {
        for (&(part_id, branch_id), pieced) in pieced {
            let Some(part) = self.parts.get(part_id) else {
                continue;
            };
            let branch = self.branch(part_id, branch_id)?;
            let Pieced { op, fixed, baskets } = pieced;
            let own = baskets_of(branch, part.start, part.stop);
            for ((at, basket), sinks) in own.zip(baskets) {
                let task = Task::Pieces {
                    op,
                    fixed: *fixed,
                    sinks,
                };
                let entries = part.start..part.stop;
                jobs.push(Job::new((part_id, branch_id), (at, basket), entries, task));
            }
        }
        Ok(())
    }

    /// What does not fit in a later basket is no damage if nothing fitted in the first, either.
    fn explained(&self, error: RNTupleError, pieced: &PiecedBranches) -> RNTupleError {
        if !matches!(error, RNTupleError::Object { .. }) {
            return error;
        }
        for (&(part, id), pieced) in pieced {
            let first = self.trees.get(part).and_then(|tree| {
                let branch = tree.model().branch(id)?;
                branch.baskets.first()
            });
            let (Some(basket), Some(sinks)) = (first, pieced.baskets.first()) else {
                continue;
            };
            let mut sinks = vec![Sink::default(); sinks.len()];
            let task = Task::Pieces {
                op: &pieced.op,
                fixed: pieced.fixed,
                sinks: &mut sinks,
            };
            let entries = basket.first_entry..basket.end();
            let job = Job::new((part, id), (0, basket), entries, task);
            if let Err(found @ RNTupleError::Unsupported { .. }) = self.run(vec![job]) {
                return found;
            }
        }
        error
    }

    /// Takes the lengths of arrays from where their entries begin, where a counter is above the maximum of its leaf: ROOT
    /// writes no more items than that, as of `UChar_t` counters above 127.
    fn correct(&self, counters: &mut Counters) -> Result<(), RNTupleError> {
        let mut jobs = Vec::new();
        for (&(part_id, counter), counts) in counters {
            let maximum = self.branch(part_id, counter)?.leaves.first();
            let Some(maximum) = maximum.and_then(|leaf| u64::try_from(leaf.maximum?).ok()) else {
                continue;
            };
            if counts.sums.iter().all(|&count| count <= maximum) {
                continue;
            }
            let Some((branch_id, size)) = self.counted_by(part_id, counter) else {
                continue;
            };
            let branch = self.branch(part_id, branch_id)?;
            let (start, stop) = (counts.start, counts.start + counts.sums.len() as u64);
            let mut rest = counts.sums.as_mut_slice();
            let mut next = start;
            for (at, basket) in baskets_of(branch, start, stop) {
                let (low, high) = within(basket, next, stop);
                let taken =
                    std::mem::take(&mut rest).split_at_mut_checked(high.saturating_sub(low));
                let Some((counts, left)) = taken.filter(|_| basket.first_entry <= next) else {
                    break;
                };
                let task = Task::Lengths { size, counts };
                let entries = next..stop;
                jobs.push(Job::new((part_id, branch_id), (at, basket), entries, task));
                (rest, next) = (left, basket.end());
            }
        }
        match jobs.is_empty() {
            true => Ok(()),
            false => self.run(jobs),
        }
    }

    /// A branch with a counter, one that is read if there is one, and the bytes of its items.
    fn counted_by(&self, part: usize, counter: BranchId) -> Option<(BranchId, usize)> {
        let tree = self.trees.get(part)?;
        let size = |branch: BranchId| match tree.data(branch)?.content {
            Content::Counted { counter: own, size } if own == counter => Some((branch, size)),
            _ => None,
        };
        let mut read = self
            .origins
            .iter()
            .filter_map(|origins| match *origins.get(part)? {
                Origin::Counted { branch, .. } => size(branch),
                _ => None,
            });
        read.next()
            .or_else(|| (0..tree.model().branches.len()).find_map(size))
    }

    fn plan_counters(&mut self) -> Result<(), RNTupleError> {
        let mut wanted: Vec<(usize, BranchId, u64, u64)> = Vec::new();
        for origins in &self.origins {
            for (part_id, (origin, part)) in origins.iter().zip(self.parts).enumerate() {
                match *origin {
                    Origin::Offsets(counter) => {
                        wanted.push((part_id, counter, part.start, part.stop));
                    }
                    Origin::Counted {
                        branch, counter, ..
                    } => {
                        let branch = self.branch(part_id, branch)?;
                        // all entries of each basket, so that its size can be compared
                        let mut own = baskets_of(branch, part.start, part.stop).map(|(_, b)| b);
                        let first = own.next();
                        let last = own.last().or(first);
                        let start = first.map_or(part.start, |basket| basket.first_entry);
                        let stop = last.map_or(part.stop, |basket| basket.end());
                        wanted.push((part_id, counter, start.min(part.start), stop.max(part.stop)));
                    }
                    _ => {}
                }
            }
        }
        for (part, counter, start, stop) in wanted {
            self.check_counter(part, counter, start, stop)?;
            let end = self
                .branch(part, counter)?
                .baskets
                .last()
                .map_or(0, |basket| basket.end());
            if stop > end {
                let branch = self.branch(part, counter)?;
                let reader = self.parts.get(part).map(|part| &part.reader);
                let what = format!("entries of branch {:?}", branch.name);
                return Err(reader.map_or(RNTupleError::internal(&what), |reader| {
                    reader.inconsistent(&what, stop, end)
                }));
            }
            counts::need(&mut self.counters, part, counter, start, stop)?;
        }
        Ok(())
    }

    /// Whether the baskets of a counter can hold so many entries, before memory is taken for them.
    fn check_counter(
        &self,
        part: usize,
        counter: BranchId,
        start: u64,
        stop: u64,
    ) -> Result<(), RNTupleError> {
        let branch = self.branch(part, counter)?;
        let sizes = baskets_of(branch, start, stop).map(|(_, basket)| match &basket.place {
            Place::File { n_bytes, .. } => *n_bytes,
            Place::Tree { data, .. } => data.len() as u64,
        });
        let most = sizes
            .fold(0, u64::saturating_add)
            .saturating_mul(LARGEST_RATIO);
        if stop.saturating_sub(start) <= most {
            return Ok(());
        }
        let what = format!("entries of branch {:?}", branch.name);
        let reader = self.parts.get(part).map(|part| &part.reader);
        Err(reader.map_or(RNTupleError::internal(&what), |reader| {
            reader.inconsistent(&what, format!("at most {most}"), stop - start)
        }))
    }

    fn plan_pieces(&mut self) -> Result<(), RNTupleError> {
        let mut wanted: BTreeMap<(usize, BranchId), Vec<bool>> = BTreeMap::new();
        for origins in &self.origins {
            for ((part, origin), tree) in origins.iter().enumerate().zip(&self.trees) {
                if let Origin::Pieces { branch, local } = *origin {
                    let n = tree.data(branch).map_or(0, |data| data.shape.n_columns());
                    let columns = wanted
                        .entry((part, branch))
                        .or_insert_with(|| vec![false; n]);
                    if let Some(column) = columns.get_mut(local) {
                        *column = true;
                    }
                }
            }
        }
        for ((part_id, branch_id), columns) in wanted {
            let (Some(part), Some(data)) = (
                self.parts.get(part_id),
                self.trees
                    .get(part_id)
                    .and_then(|tree| tree.data(branch_id)),
            ) else {
                continue;
            };
            let branch = self.branch(part_id, branch_id)?;
            let n = baskets_of(branch, part.start, part.stop).count();
            let fixed = match data.content {
                Content::Fixed { size } => Some(size),
                _ => None,
            };
            let pieced = Pieced {
                op: Op::new(&data.shape, &columns),
                fixed,
                baskets: vec![vec![Sink::default(); columns.len()]; n],
            };
            self.pieced.insert((part_id, branch_id), pieced);
        }
        Ok(())
    }

    fn run(&self, jobs: Vec<Job<'_>>) -> Result<(), RNTupleError> {
        let (parts, cache) = (self.parts, self.options.cache);
        let mut left = Vec::with_capacity(jobs.len());
        let mut worker = Worker::new(parts, cache);
        for mut job in jobs {
            if !worker.decode_held(&mut job)? {
                self.check_place(&job)?;
                left.push(job);
            }
        }
        let work = requests(parts, left);
        self.progress.expect(total_bytes(&work));
        run(parts, work, self.options, self.progress, || {
            Worker::new(parts, cache)
        })
    }

    /// Whether a basket is within its file.
    fn check_place(&self, job: &Job<'_>) -> Result<(), RNTupleError> {
        use femtobarn_rntuple::read::storage::Fetched;
        let Some(part) = self.parts.get(job.part) else {
            return Ok(());
        };
        let (range, size) = (job.range(), part.reader.source().meta().size);
        if range.end <= size && range.start < range.end {
            return Ok(());
        }
        let branch = self.branch(job.part, job.branch)?;
        Err(part.reader.inconsistent(
            &format!("place of basket {} of branch {:?}", job.number, branch.name),
            format!("a range within the file's {size} bytes"),
            format!("{}..{}", range.start, range.end),
        ))
    }

    /// Everything into its place.
    fn second_round(&self) -> Result<Vec<SlotData>, RNTupleError> {
        let mut sizes = Vec::with_capacity(self.origins.len());
        for (slot, origins) in self.schema.slots.as_slice().iter().zip(&self.origins) {
            let mut n = 0usize;
            for (part, origin) in origins.iter().enumerate() {
                n = n.saturating_add(self.n_elements(part, origin)?);
            }
            sizes.push(match slot.kind {
                SlotKind::Leaf(dtype) => n.saturating_mul(dtype.size()),
                _ => n.saturating_add(1).saturating_mul(8),
            });
        }
        let mut slabs = Slabs::allocate(&sizes)?;
        let mut jobs = Vec::new();
        let mut copies = Vec::new();
        for ((slot, origins), buffer) in self
            .schema
            .slots
            .as_slice()
            .iter()
            .zip(&self.origins)
            .zip(slabs.buffers())
        {
            match slot.kind {
                SlotKind::Leaf(dtype) => {
                    self.leaf(dtype, origins, buffer, &mut jobs, &mut copies)?
                }
                _ => copies.push(Copy::Offsets { origins, buffer }),
            }
        }
        self.run(jobs)?;
        let copier = Copier {
            parts: self.parts,
            counters: &self.counters,
            pieced: &self.pieced,
        };
        copier.all(copies, self.options.threads)?;
        let buffers = slabs.freeze();
        let slots = self.schema.slots.as_slice().iter().zip(buffers);
        let data = slots.map(|(slot, bytes): (_, Bytes)| match slot.kind {
            SlotKind::Leaf(dtype) => SlotData::Leaf {
                dtype,
                values: bytes,
            },
            _ => SlotData::Index { offsets: bytes },
        });
        Ok(data.collect())
    }

    /// Elements of a slot in one part.
    fn n_elements(&self, part_id: usize, origin: &Origin) -> Result<usize, RNTupleError> {
        let Some(part) = self.parts.get(part_id) else {
            return Ok(0);
        };
        let n = part.stop - part.start;
        let n = match *origin {
            Origin::Fixed { each, .. } => n.saturating_mul(each as u64),
            Origin::Offsets(_) => n,
            Origin::Counted { counter, each, .. } => {
                let counts = self.counters.get(&(part_id, counter));
                let items =
                    counts.map(|counts| counts.before(part.stop) - counts.before(part.start));
                items.unwrap_or(0).saturating_mul(each as u64)
            }
            Origin::Pieces { branch, local } => {
                let pieced = self.pieced.get(&(part_id, branch));
                let size = self.piece_size(part_id, branch, local).max(1);
                let baskets = pieced.map_or(&[][..], |pieced| pieced.baskets.as_slice());
                let sinks = baskets.iter().filter_map(|sinks| sinks.get(local));
                return Ok(sinks.map(|sink| sink.bytes.len()).sum::<usize>() / size);
            }
        };
        Ok(usize::try_from(n).unwrap_or(usize::MAX))
    }

    /// Bytes of an element of a column that is put together.
    fn piece_size(&self, part: usize, branch: BranchId, local: usize) -> usize {
        self.piece_type(part, branch, local).map_or(8, DType::size)
    }

    /// Type of the elements of such a column; none if they are lengths.
    fn piece_type(&self, part: usize, branch: BranchId, local: usize) -> Option<DType> {
        let data = self.trees.get(part)?.data(branch)?;
        column_types(&data.shape).get(local).copied().flatten()
    }

    fn leaf<'b>(
        &'b self,
        dtype: DType,
        origins: &[Origin],
        buffer: &'b mut [u8],
        jobs: &mut Vec<Job<'b>>,
        copies: &mut Vec<Copy<'b>>,
    ) -> Result<(), RNTupleError> {
        let mut rest = buffer;
        for (part_id, origin) in origins.iter().enumerate() {
            let n = self
                .n_elements(part_id, origin)?
                .saturating_mul(dtype.size());
            let Some((own, left)) = std::mem::take(&mut rest).split_at_mut_checked(n) else {
                return Err(RNTupleError::internal("the plan counted fewer elements"));
            };
            rest = left;
            let (branch, values, counter) = match *origin {
                Origin::Fixed {
                    branch,
                    number,
                    each,
                } => (branch, (number, each), None),
                Origin::Counted {
                    branch,
                    counter,
                    number,
                    each,
                } => (branch, (number, each), Some(counter)),
                Origin::Pieces { branch, local } => {
                    let from = self.piece_type(part_id, branch, local).unwrap_or(dtype);
                    let pieced = self.pieced.get(&(part_id, branch));
                    let baskets = pieced.map_or(&[][..], |pieced| pieced.baskets.as_slice());
                    copies.push(Copy::Values {
                        baskets,
                        local,
                        from,
                        to: dtype,
                        buffer: own,
                    });
                    continue;
                }
                Origin::Offsets(_) => {
                    return Err(RNTupleError::internal("offsets where values should be"));
                }
            };
            let counts = counter.and_then(|counter| self.counters.get(&(part_id, counter)));
            self.straight((part_id, branch), values, counts, dtype, own, jobs)?;
        }
        Ok(())
    }

    /// Adds the jobs that decode the baskets of a branch in one part straight into their place.
    fn straight<'b>(
        &'b self,
        (part_id, branch_id): (usize, BranchId),
        (number, each): (Number, usize),
        counts: Option<&'b Counts>,
        dtype: DType,
        mut own: &'b mut [u8],
        jobs: &mut Vec<Job<'b>>,
    ) -> Result<(), RNTupleError> {
        let Some(part) = self.parts.get(part_id) else {
            return Ok(());
        };
        let branch = self.branch(part_id, branch_id)?;
        for (at, basket) in baskets_of(branch, part.start, part.stop) {
            let (low, high) = within(basket, part.start, part.stop);
            let items = match counts {
                None => (high - low) as u64,
                Some(counts) => {
                    let at = |entry: usize| counts.before(basket.first_entry + entry as u64);
                    at(high) - at(low)
                }
            };
            let n = usize::try_from(items).unwrap_or(usize::MAX);
            let n = n.saturating_mul(each).saturating_mul(dtype.size());
            let Some((out, left)) = std::mem::take(&mut own).split_at_mut_checked(n) else {
                return Err(RNTupleError::internal("the plan counted fewer elements"));
            };
            own = left;
            let task = match counts {
                None => Task::Fixed {
                    number,
                    each,
                    dtype,
                    out,
                },
                Some(counts) => Task::Counted {
                    number,
                    each,
                    dtype,
                    sums: counts.of(basket.first_entry, basket.end()),
                    out,
                },
            };
            let entries = part.start..part.stop;
            jobs.push(Job::new((part_id, branch_id), (at, basket), entries, task));
        }
        if !own.is_empty() {
            let what = format!("baskets of branch {:?}", branch.name);
            let expected = format!("entries up to {}", part.stop);
            return Err(part.reader.inconsistent(&what, expected, "fewer"));
        }
        Ok(())
    }
}
