//! Fills the buffers of a round: makes jobs of pieces of pages, and offsets and positions of their results.

use std::sync::atomic::Ordering::Relaxed;

use super::decode::{Job, Worker};
use super::fetch;
use super::finish::{self, Broken};
use super::plan::{self, Items, Piece, Segment};
use super::rounds::{Planned, Rounds};
use super::stats::add;
use crate::RNTupleError;
use crate::encoding::Target;
use crate::schema::{Slot, SlotId, SlotKind, SlotParent};

/// Offsets read in addition to the wanted ones: the one before the first, and the one at the end of the cluster.
#[derive(Debug, Clone, Copy)]
pub(super) struct Probes {
    before: Option<Piece>,
    after: Option<Piece>,
    wants_after: bool,
}

impl<'a> Rounds<'a> {
    /// Plans the pieces of all pages, and decodes them into the buffers.
    pub fn fill(
        &self,
        planned: &[Planned],
        buffers: Vec<&mut [u8]>,
        scratch: Vec<&mut [u8]>,
    ) -> Result<Vec<Vec<Probes>>, RNTupleError> {
        let mut buffers = buffers.into_iter();
        let mut scratch = scratch.into_iter();
        let mut jobs = Vec::new();
        let mut probes = Vec::new();
        for own in planned {
            let slot = self.slot(own.id)?;
            let mut found = Vec::new();
            let (target, out) = match slot.kind {
                SlotKind::Leaf(dtype) => (Target::Leaf(dtype), buffers.next().unwrap_or_default()),
                SlotKind::Index => {
                    let offsets = buffers.next().unwrap_or_default();
                    let places = scratch.next().unwrap_or_default();
                    found = self.probe(own, slot, places, &mut jobs)?;
                    (Target::Index, offsets.get_mut(8..).unwrap_or_default())
                }
                SlotKind::Switch(_) => {
                    let _ = (buffers.next(), buffers.next());
                    (Target::Switch, scratch.next().unwrap_or_default())
                }
            };
            probes.push(found);
            if own.mapped.is_none() {
                self.add_jobs(own, slot, target, out, &mut jobs)?;
            }
        }
        let jobs = self.take_cached(jobs)?;
        let work = fetch::requests(self.parts, jobs, self.options.held);
        self.progress
            .total
            .fetch_add(fetch::total_bytes(&work), Relaxed);
        let (parts, cache) = (self.parts, self.options.cache);
        fetch::run(parts, work, None, self.options, &self.progress, || {
            Worker::new(parts, cache)
        })?;
        Ok(probes)
    }

    fn add_jobs<'b>(
        &self,
        planned: &Planned,
        slot: &Slot,
        target: Target,
        out: &'b mut [u8],
        jobs: &mut Vec<Job<'b>>,
    ) -> Result<(), RNTupleError> {
        let mut rest = out;
        for ((extent, total), segment) in planned.extents.iter().zip(self.segments) {
            let part = self.part(segment)?;
            let source = self.source(planned.id, slot, segment)?;
            if source.deferred && total.is_none() && !source.pages.is_empty() && extent.length > 0 {
                let name = part.reader.label(slot.field);
                return Err(part.reader.unsupported(
                    &name,
                    "part of a cluster in which the field was added below a variant",
                ));
            }
            let (zeros, pieces) = plan::pieces(part, &source, slot, *extent, *total)?;
            let missing;
            (missing, rest) = take(&mut rest, zeros, target)?;
            missing.fill(0);
            for piece in pieces {
                let taken;
                (taken, rest) = take(&mut rest, u64::from(piece.high - piece.low), target)?;
                jobs.push(Job {
                    part: segment.part,
                    column: source.column,
                    cluster: segment.cluster,
                    piece,
                    target,
                    out: taken,
                });
            }
        }
        if rest.is_empty() {
            return Ok(());
        }
        Err(RNTupleError::internal("the plan counted more elements"))
    }

    /// Adds the jobs for offsets before and after the wanted ones.
    fn probe<'b>(
        &self,
        planned: &Planned,
        slot: &Slot,
        places: &'b mut [u8],
        jobs: &mut Vec<Job<'b>>,
    ) -> Result<Vec<Probes>, RNTupleError> {
        let mut out = Vec::with_capacity(planned.extents.len());
        let mut places = places.chunks_exact_mut(8);
        for ((extent, total), segment) in planned.extents.iter().zip(self.segments) {
            let source = self.source(planned.id, slot, segment)?;
            let wants_after = !segment.is_whole() && self.has_late_child(planned.id, segment)?;
            let before = extent.first.checked_sub(1).filter(|_| extent.length > 0);
            let before = before.and_then(|element| plan::element(&source, *total, element));
            let last = total
                .or(Some(source.n_elements()))
                .and_then(|n| n.checked_sub(1));
            let after = last
                .filter(|_| wants_after)
                .and_then(|element| plan::element(&source, *total, element));
            for piece in [before, after] {
                let Some(place) = places.next() else { continue };
                if let Some(piece) = piece {
                    let (part, column, cluster) = (segment.part, source.column, segment.cluster);
                    jobs.push(Job {
                        part,
                        column,
                        cluster,
                        piece,
                        target: Target::Index,
                        out: place,
                    });
                }
            }
            out.push(Probes {
                before,
                after,
                wants_after,
            });
        }
        Ok(out)
    }

    /// Whether a slot below this one begins in the middle of the cluster, so that the number of items must be
    /// known.
    fn has_late_child(&self, id: SlotId, segment: &'a Segment) -> Result<bool, RNTupleError> {
        for (child, slot) in self.schema.slots.as_slice().iter().enumerate() {
            if slot.parent == SlotParent::Index(id) {
                let source = self.source(child, slot, segment)?;
                if source.deferred && !source.pages.is_empty() {
                    return Ok(true);
                }
                if slot.kind == SlotKind::Index && self.has_late_child(child, segment)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Completes jobs from the cache; returns the others.
    fn take_cached<'b>(&self, jobs: Vec<Job<'b>>) -> Result<Vec<Job<'b>>, RNTupleError> {
        let Some(cache) = self.options.cache else {
            return Ok(jobs);
        };
        let mut left = Vec::with_capacity(jobs.len());
        for mut job in jobs {
            let Some(part) = self.parts.get(job.part) else {
                continue;
            };
            match cache.get(&job.key(part)) {
                Some(page) => {
                    add(&part.reader.stats().cached_pages, 1);
                    let copied = job.copy_from(&page);
                    copied.map_err(RNTupleError::internal)?;
                }
                None => left.push(job),
            }
        }
        Ok(left)
    }

    /// Finishes index and switch slots.
    pub fn finish(
        &self,
        planned: &[Planned],
        probes: &[Vec<Probes>],
        buffers: Vec<&mut [u8]>,
        scratch: Vec<&mut [u8]>,
    ) -> Result<Vec<Option<Vec<Items>>>, RNTupleError> {
        let whole: Vec<bool> = self.segments.iter().map(Segment::is_whole).collect();
        let mut buffers = buffers.into_iter();
        let mut scratch = scratch.into_iter();
        let mut out = Vec::with_capacity(planned.len());
        for (own, probes) in planned.iter().zip(probes) {
            let slot = self.slot(own.id)?;
            let extents = own.plain_extents();
            let result = match slot.kind {
                SlotKind::Leaf(_) => {
                    let _ = buffers.next();
                    out.push(None);
                    continue;
                }
                SlotKind::Index => {
                    let offsets = typed(buffers.next().unwrap_or_default());
                    let (before, after) = looked_up(probes, scratch.next().unwrap_or_default());
                    let most = self.most.get(&own.id).copied();
                    finish::offsets(offsets, &extents, &before, &after, &whole, most)
                }
                SlotKind::Switch(n) => {
                    let tags = buffers.next().unwrap_or_default();
                    let positions = typed(buffers.next().unwrap_or_default());
                    let raw = scratch.next().unwrap_or_default();
                    finish::switch(raw, &extents, &whole, n, tags, positions)
                }
            };
            out.push(Some(result.map_err(|broken| self.broken(slot, broken))?));
        }
        Ok(out)
    }

    pub fn broken(&self, slot: &Slot, broken: Broken) -> RNTupleError {
        let Some(segment) = self.segments.get(broken.segment) else {
            return RNTupleError::internal("the plan names what is not there");
        };
        let Some(part) = self.parts.get(segment.part) else {
            return RNTupleError::internal("the plan names what is not there");
        };
        let name = part.reader.label(slot.field);
        part.reader.inconsistent(
            &format!("data of field {name:?} in cluster {}", segment.cluster),
            broken.expected,
            broken.found,
        )
    }
}

/// Splits the part for `n` elements from a buffer.
fn take<'b>(
    rest: &mut &'b mut [u8],
    n: u64,
    target: Target,
) -> Result<(&'b mut [u8], &'b mut [u8]), RNTupleError> {
    let n_bytes = n.saturating_mul(target.size() as u64);
    let size = usize::try_from(n_bytes).unwrap_or(usize::MAX);
    std::mem::take(rest)
        .split_at_mut_checked(size)
        .ok_or_else(|| RNTupleError::internal("the plan counted fewer elements"))
}

fn typed(bytes: &mut [u8]) -> &mut [i64] {
    // buffers of slabs are aligned
    bytemuck::try_cast_slice_mut(bytes).unwrap_or_default()
}

/// The values of the probes: before each segment's first element, and at the end of each cluster.
fn looked_up(probes: &[Probes], places: &[u8]) -> (Vec<u64>, Vec<Option<u64>>) {
    let mut values = places
        .as_chunks::<8>()
        .0
        .iter()
        .map(|bytes| u64::from_le_bytes(*bytes));
    let mut before = Vec::with_capacity(probes.len());
    let mut after = Vec::with_capacity(probes.len());
    for probe in probes {
        let (first, last) = (values.next().unwrap_or(0), values.next().unwrap_or(0));
        before.push(if probe.before.is_some() { first } else { 0 });
        after.push(
            probe
                .wants_after
                .then_some(if probe.after.is_some() { last } else { 0 }),
        );
    }
    (before, after)
}
