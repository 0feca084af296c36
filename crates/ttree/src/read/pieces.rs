//! Branches whose baskets are decoded one by one, and then put together.

use std::collections::BTreeMap;

use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::schema::DType;

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
