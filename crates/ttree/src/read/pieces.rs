//! Branches whose baskets are decoded one by one, and then put together.

use std::collections::BTreeMap;

use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::schema::{DType, SlotParent};

use super::counts::Counters;
use super::engine::Read;
use super::job::{Job, Task};
use super::lengths::Lengths;
use super::op::Op;
use super::origin::{Origin, column_types};
use super::tree::Wanted;
use super::values::Sink;
use crate::interp::Content;
use crate::model::BranchId;

/// A branch whose baskets are put together.
#[derive(Debug)]
pub(super) struct Pieced {
    op: Op,
    fixed: Option<usize>,
    lengths: Lengths,
    /// The values of each column, for each basket.
    baskets: Vec<Vec<Sink>>,
}

/// By part and branch.
pub(super) type PiecedBranches = BTreeMap<(usize, BranchId), Pieced>;

impl Pieced {
    /// The values of a column from all baskets in their order.
    pub fn column(&self, local: usize) -> impl Iterator<Item = &[u8]> {
        let sinks = self
            .baskets
            .iter()
            .filter_map(move |sinks| sinks.get(local));
        sinks.map(|sink| sink.bytes.as_slice())
    }
}

impl<'a> Read<'a> {
    /// The branches that must be put together, with their wanted columns.
    pub fn plan_pieces(&self) -> Result<PiecedBranches, RNTupleError> {
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
        for (part, branch, _) in self.counted_lists() {
            if let Some(lengths) = (wanted.get_mut(&(part, branch))).and_then(|own| own.first_mut())
            {
                *lengths = true;
            }
        }
        let mut pieced = PiecedBranches::new();
        for ((part_id, branch_id), columns) in wanted {
            let part = self.part(part_id)?;
            let tree = self.trees.get(part_id);
            let Some(data) = tree.and_then(|tree| tree.data(branch_id)) else {
                return Err(RNTupleError::internal("a branch without data"));
            };
            let own = self.baskets(part_id, branch_id, part.start, part.stop)?;
            let n = own.count();
            let fixed = match data.content {
                Content::Fixed { size } => Some(size),
                _ => None,
            };
            let lengths = match data.content {
                Content::Lists { lengths } => self.lengths(part_id, lengths, branch_id)?,
                _ => Lengths::default(),
            };
            let own = Pieced {
                op: Op::new(&data.shape, &columns),
                fixed,
                lengths,
                baskets: vec![vec![Sink::default(); columns.len()]; n],
            };
            pieced.insert((part_id, branch_id), own);
        }
        Ok(pieced)
    }

    /// The branches that are put together, whose items belong to the objects of a split collection: part, branch, and
    /// branch with the number of objects.
    fn counted_lists(&self) -> impl Iterator<Item = (usize, BranchId, BranchId)> {
        let slots = self.schema.slots.as_slice().iter().zip(&self.origins);
        slots.flat_map(move |(slot, origins)| {
            let parents = match slot.parent {
                SlotParent::Index(parent) => self.origins.get(parent),
                _ => None,
            };
            let pairs = parents.into_iter().flatten().zip(origins).enumerate();
            pairs.filter_map(|(part, pair)| match pair {
                (Origin::Offsets(counter), Origin::Pieces { branch, .. }) => {
                    Some((part, *branch, *counter))
                }
                _ => None,
            })
        })
    }

    /// Checks that each member of the objects of a split collection has as many items as there are objects.
    pub fn check_lists(
        &self,
        counters: &Counters,
        pieced: &PiecedBranches,
    ) -> Result<(), RNTupleError> {
        for (part_id, branch_id, counter) in self.counted_lists() {
            let part = self.part(part_id)?;
            let found = pieced.get(&(part_id, branch_id)).into_iter();
            let found = found
                .flat_map(|pieced| pieced.column(0).flat_map(|bytes| bytes.as_chunks::<8>().0));
            let counts = counters.get(&(part_id, counter));
            let sums = counts.map_or(&[][..], |counts| counts.of(part.start, part.stop));
            let ends = sums.get(1..).unwrap_or_default();
            let counts = sums.iter().zip(ends).map(|(start, end)| end - start);
            let lengths = found.map(|length| u64::from_ne_bytes(*length));
            if !lengths.eq(counts) {
                let name = &self.branch(part_id, branch_id)?.name;
                let what = format!("numbers of items in branch {name:?}");
                let expected = format!("those of branch {:?}", self.branch(part_id, counter)?.name);
                return Err(part.reader.inconsistent(&what, expected, "others"));
            }
        }
        Ok(())
    }

    /// Adds the jobs that decode baskets in pieces.
    pub fn piece_jobs<'b>(
        &self,
        pieced: &'b mut PiecedBranches,
        jobs: &mut Vec<Job<'b>>,
    ) -> Result<(), RNTupleError>
    where
        'a: 'b,
    {
        for (&(part_id, branch_id), pieced) in pieced {
            let part = self.part(part_id)?;
            let Pieced {
                op,
                fixed,
                lengths,
                baskets,
            } = pieced;
            let own = self.baskets(part_id, branch_id, part.start, part.stop)?;
            for (wanted, sinks) in own.zip(baskets) {
                let task = Task::Pieces {
                    op,
                    fixed: *fixed,
                    lengths,
                    sinks,
                };
                jobs.push(Job::new((part_id, branch_id), wanted, task));
            }
        }
        Ok(())
    }

    /// A mismatch in a later basket does not count as damage if the first basket does not match
    /// either.
    pub fn explained(&self, error: RNTupleError, pieced: &PiecedBranches) -> RNTupleError {
        if !matches!(error, RNTupleError::Object { .. }) {
            return error;
        }
        for (&(part, id), pieced) in pieced {
            let tree = self.trees.get(part);
            let own = tree.map(|tree| tree.filling().contents(id).baskets);
            let first = own.and_then(|baskets| baskets.into_iter().next());
            let (Some(basket), Some(sinks)) = (first, pieced.baskets.first()) else {
                continue;
            };
            let mut sinks = vec![Sink::default(); sinks.len()];
            let task = Task::Pieces {
                op: &pieced.op,
                fixed: pieced.fixed,
                lengths: &pieced.lengths,
                sinks: &mut sinks,
            };
            let wanted = Wanted {
                number: 0,
                entries: basket.first_entry..basket.end(),
                basket,
            };
            let job = Job::new((part, id), wanted, task);
            if let Err(found @ RNTupleError::Unsupported { .. }) = self.run(vec![job]) {
                return found;
            }
        }
        error
    }

    /// Element type of a column that is put together; none for lengths.
    pub fn piece_type(&self, part: usize, branch: BranchId, local: usize) -> Option<DType> {
        let data = self.trees.get(part)?.data(branch)?;
        column_types(&data.shape).get(local).copied().flatten()
    }
}
