//! The read itself: first counters and what must be put together, then everything that has its place.

use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::array::SlotData;
use femtobarn_rntuple::read::storage::{Fetched, Progress, requests, run, total_bytes};
use femtobarn_rntuple::read::{Part, ReadOptions, ReadSchema};

use super::counts::Counters;
use super::job::Job;
use super::origin::{Origin, origin};
use super::pieces::PiecedBranches;
use super::storage::{TreeStorage, tree_of};
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
    let found = read.first_round()?;
    read.second_round(&found)
}

/// A read, and where each slot's elements come from.
pub(super) struct Read<'a> {
    pub schema: &'a ReadSchema,
    pub parts: &'a [Part],
    pub trees: Vec<&'a TreeStorage>,
    /// For each slot, in each part.
    pub origins: Vec<Vec<Origin>>,
    pub options: &'a ReadOptions<'a>,
    progress: &'a Progress,
}

/// What the first round finds.
pub(super) struct Found {
    pub counters: Counters,
    pub pieced: PiecedBranches,
}

impl<'a> Read<'a> {
    /// Counters, and branches whose baskets must be put together.
    fn first_round(&self) -> Result<Found, RNTupleError> {
        let mut counters = self.plan_counters()?;
        let mut pieced = self.plan_pieces()?;
        let mut jobs = Vec::new();
        self.counter_jobs(&mut counters, &mut jobs)?;
        self.piece_jobs(&mut pieced, &mut jobs)?;
        self.run(jobs)
            .map_err(|error| self.explained(error, &pieced))?;
        self.correct(&mut counters)?;
        self.sum_up(&mut counters)?;
        Ok(Found { counters, pieced })
    }

    /// Does what is to be done with baskets, on all threads.
    pub fn run(&self, jobs: Vec<Job<'_>>) -> Result<(), RNTupleError> {
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
        let part = self.part(job.part)?;
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

    pub fn part(&self, id: usize) -> Result<&'a Part, RNTupleError> {
        let part = self.parts.get(id);
        part.ok_or_else(|| RNTupleError::internal("a part that is not there"))
    }

    pub fn branch(&self, part: usize, branch: BranchId) -> Result<&'a Branch, RNTupleError> {
        let tree = self.trees.get(part);
        let found = tree.and_then(|tree| tree.model().branch(branch));
        found.ok_or_else(|| RNTupleError::internal("a branch that is not there"))
    }
}
