//! The read in two rounds: first counters and branches that are read in pieces, then everything else.

use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::array::SlotData;
use femtobarn_rntuple::read::storage::{
    Ahead, Fetched, Needed, Progress, requests, run, total_bytes,
};
use femtobarn_rntuple::read::{Part, ReadOptions, ReadSchema};
use femtobarn_rntuple::spec::StoredRange;

use super::counts::Counters;
use super::job::Job;
use super::origin::{Origin, origin};
use super::pieces::PiecedBranches;
use super::tree::{TreeStorage, Wanted, tree_of};
use super::worker::Worker;
use crate::model::{Branch, BranchId};

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
    let read = Read {
        schema,
        parts,
        trees,
        origins,
        options,
        progress,
    };
    let ahead = Ahead::new(parts, read.needed_later()?, options);
    ahead.meanwhile(parts, || {
        let found = read.first_round(&ahead)?;
        read.second_round(&found, &ahead)
    })
}

/// A read, with the origin of each slot's elements.
pub(super) struct Read<'a> {
    pub schema: &'a ReadSchema,
    pub parts: &'a [Part],
    pub trees: Vec<&'a TreeStorage>,
    /// For each slot, the origin in each part.
    pub origins: Vec<Vec<Origin>>,
    pub options: &'a ReadOptions<'a>,
    pub progress: &'a Progress,
}

/// Results of the first round.
pub(super) struct Found {
    pub counters: Counters,
    pub pieced: PiecedBranches,
}

impl<'a> Read<'a> {
    /// Reads counters, and branches whose baskets are put together.
    fn first_round(&self, ahead: &Ahead) -> Result<Found, RNTupleError> {
        let mut counters = self.plan_counters()?;
        let mut pieced = self.plan_pieces()?;
        let mut jobs = Vec::new();
        self.counter_jobs(&mut counters, &mut jobs)?;
        self.piece_jobs(&mut pieced, &mut jobs)?;
        self.run_after(jobs, Some(ahead))
            .map_err(|error| self.explained(error, &pieced))?;
        self.correct(&mut counters)?;
        self.sum_up(&mut counters)?;
        self.check_lists(&counters, &pieced)?;
        Ok(Found { counters, pieced })
    }

    /// The baskets of the second round, if only counters precede it. An iteration has some of them in memory, and reads
    /// its next step while the last one is used.
    fn needed_later(&self) -> Result<Vec<Needed>, RNTupleError> {
        let origins = || self.origins.iter().flatten();
        let waits = origins().any(|origin| matches!(origin, Origin::Counted { .. }));
        let has_more = origins().any(|origin| matches!(origin, Origin::Pieces { .. }));
        if self.options.cache.is_some() || !waits || has_more {
            return Ok(Vec::new());
        }
        let mut needed = Vec::new();
        for origins in &self.origins {
            for (id, (origin, part)) in origins.iter().zip(self.parts).enumerate() {
                let (Origin::Fixed { branch, .. } | Origin::Counted { branch, .. }) = *origin
                else {
                    continue;
                };
                let own = self.baskets(id, branch, part.start, part.stop)?;
                needed.extend(own.filter_map(|wanted| {
                    let range = wanted.basket.place.range()?;
                    let stored = StoredRange::of_file(range);
                    Some(Needed { part: id, stored })
                }));
            }
        }
        Ok(needed)
    }

    /// Runs jobs on all threads.
    pub fn run(&self, jobs: Vec<Job<'_>>) -> Result<(), RNTupleError> {
        self.run_after(jobs, None)
    }

    /// The same, with data that are read ahead for this round and the next.
    pub fn run_after(&self, jobs: Vec<Job<'_>>, ahead: Option<&Ahead>) -> Result<(), RNTupleError> {
        let (parts, cache) = (self.parts, self.options.cache);
        let mut left = Vec::with_capacity(jobs.len());
        let mut worker = Worker::new(parts, cache);
        for mut job in jobs {
            if !worker.decode_held(&mut job)? {
                self.check_place(&job)?;
                left.push(job);
            }
        }
        let work = requests(parts, left, self.options.held);
        self.progress.expect(total_bytes(&work));
        run(parts, work, ahead, self.options, self.progress, || {
            Worker::new(parts, cache)
        })
    }

    /// Checks that a basket is within its file.
    fn check_place(&self, job: &Job<'_>) -> Result<(), RNTupleError> {
        let part = self.part(job.part)?;
        let size = part.reader.store().info().meta.size;
        let range = job.stored().range();
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

    pub fn part(&self, id: usize) -> Result<&'a Part, RNTupleError> {
        let part = self.parts.get(id);
        part.ok_or_else(|| RNTupleError::internal("a part that is not there"))
    }

    pub fn branch(&self, part: usize, branch: BranchId) -> Result<&'a Branch, RNTupleError> {
        let tree = self.trees.get(part);
        let found = tree.and_then(|tree| tree.model().branch(branch));
        found.ok_or_else(|| RNTupleError::internal("a branch that is not there"))
    }

    /// The baskets of a branch that overlap a range of entries.
    pub fn baskets(
        &self,
        part: usize,
        branch: BranchId,
        start: u64,
        stop: u64,
    ) -> Result<impl Iterator<Item = Wanted> + use<>, RNTupleError> {
        let tree = self.trees.get(part);
        let tree = tree.ok_or_else(|| RNTupleError::internal("a part that is not there"))?;
        Ok(tree.baskets(branch, start, stop))
    }
}
