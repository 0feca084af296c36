//! The second round: everything to its final position.

use bytes::Bytes;
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::array::SlotData;
use femtobarn_rntuple::read::storage::{Ahead, Slabs};
use femtobarn_rntuple::schema::{DType, SlotKind};

use super::copy::{Copier, Copy};
use super::counts::Counts;
use super::engine::{Found, Read};
use super::job::{Job, Task};
use super::origin::Origin;
use crate::interp::Number;
use crate::model::BranchId;

impl Read<'_> {
    /// Decodes values directly to their final position if possible, and copies the rest.
    pub fn second_round(
        &self,
        found: &Found,
        ahead: &Ahead,
    ) -> Result<Vec<SlotData>, RNTupleError> {
        let slots = || self.schema.slots.as_slice().iter();
        let mut sizes = Vec::with_capacity(self.origins.len());
        for (slot, origins) in slots().zip(&self.origins) {
            let mut n = 0usize;
            for (part, origin) in origins.iter().enumerate() {
                n = n.saturating_add(self.n_elements(found, part, origin)?);
            }
            sizes.push(match slot.kind {
                SlotKind::Leaf(dtype) => n.saturating_mul(dtype.size()),
                _ => n.saturating_add(1).saturating_mul(8),
            });
        }
        let mut slabs = Slabs::allocate(&sizes)?;
        let mut jobs = Vec::new();
        let mut copies = Vec::new();
        for ((slot, origins), buffer) in slots().zip(&self.origins).zip(slabs.buffers()) {
            match slot.kind {
                SlotKind::Leaf(dtype) => {
                    self.leaf(found, dtype, origins, buffer, &mut jobs, &mut copies)?
                }
                _ => copies.push(Copy::Offsets { origins, buffer }),
            }
        }
        self.run_after(jobs, Some(ahead))?;
        let copier = Copier {
            parts: self.parts,
            found,
        };
        copier.all(copies, self.options.threads)?;
        let buffers = slabs.freeze();
        let data = slots()
            .zip(buffers)
            .map(|(slot, bytes): (_, Bytes)| match slot.kind {
                SlotKind::Leaf(dtype) => SlotData::Leaf {
                    dtype,
                    values: bytes,
                },
                _ => SlotData::Index { offsets: bytes },
            });
        Ok(data.collect())
    }

    /// Number of elements of a slot in one part.
    fn n_elements(
        &self,
        found: &Found,
        part_id: usize,
        origin: &Origin,
    ) -> Result<usize, RNTupleError> {
        let part = self.part(part_id)?;
        let n = part.stop - part.start;
        let n = match *origin {
            Origin::Fixed { each, .. } => n.saturating_mul(each as u64),
            Origin::Offsets(_) => n,
            Origin::Counted { counter, each, .. } => {
                let counts = found.counters.get(&(part_id, counter));
                let items =
                    counts.map(|counts| counts.before(part.stop) - counts.before(part.start));
                items.unwrap_or(0).saturating_mul(each as u64)
            }
            Origin::Pieces { branch, local } => {
                let dtype = self.piece_type(part_id, branch, local);
                let pieced = found.pieced.get(&(part_id, branch));
                let pieces = pieced.into_iter().flat_map(|pieced| pieced.column(local));
                return Ok(pieces.map(<[u8]>::len).sum::<usize>() / dtype.map_or(8, DType::size));
            }
        };
        Ok(usize::try_from(n).unwrap_or(usize::MAX))
    }

    /// Adds the jobs and copies that fill the buffer of values.
    fn leaf<'b>(
        &'b self,
        found: &'b Found,
        dtype: DType,
        origins: &[Origin],
        buffer: &'b mut [u8],
        jobs: &mut Vec<Job<'b>>,
        copies: &mut Vec<Copy<'b>>,
    ) -> Result<(), RNTupleError> {
        let mut rest = buffer;
        for (part_id, origin) in origins.iter().enumerate() {
            let n = self
                .n_elements(found, part_id, origin)?
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
                    copies.push(Copy::Values {
                        pieced: found.pieced.get(&(part_id, branch)),
                        local,
                        from: self.piece_type(part_id, branch, local).unwrap_or(dtype),
                        to: dtype,
                        buffer: own,
                    });
                    continue;
                }
                Origin::Offsets(_) => {
                    return Err(RNTupleError::internal("offsets where values should be"));
                }
            };
            let counts = counter.and_then(|counter| found.counters.get(&(part_id, counter)));
            self.straight((part_id, branch), values, counts, dtype, own, jobs)?;
        }
        Ok(())
    }

    /// Adds the jobs that decode the baskets of a branch in one part directly to their final
    /// position.
    fn straight<'b>(
        &'b self,
        (part_id, branch_id): (usize, BranchId),
        (number, each): (Number, usize),
        counts: Option<&'b Counts>,
        dtype: DType,
        mut own: &'b mut [u8],
        jobs: &mut Vec<Job<'b>>,
    ) -> Result<(), RNTupleError> {
        let part = self.part(part_id)?;
        for wanted in self.baskets(part_id, branch_id, part.start, part.stop)? {
            let (start, stop) = (wanted.entries.start, wanted.entries.end);
            let items = match counts {
                None => stop - start,
                Some(counts) => counts.before(stop) - counts.before(start),
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
                    sums: counts.of(wanted.basket.first_entry, wanted.basket.end()),
                    out,
                },
            };
            jobs.push(Job::new((part_id, branch_id), wanted, task));
        }
        if !own.is_empty() {
            let name = &self.branch(part_id, branch_id)?.name;
            let what = format!("baskets of branch {name:?}");
            let expected = format!("entries up to {}", part.stop);
            return Err(part.reader.inconsistent(&what, expected, "fewer"));
        }
        Ok(())
    }
}
