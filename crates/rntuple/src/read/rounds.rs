//! The rounds of a read: which slots can be read, where their elements are, and what follows from them.

use std::collections::HashMap;

use bytes::Bytes;

use super::decode::{Job, check_page};
use super::finish::Broken;
use super::invariants::MOST_ZEROS;
use super::memory::Slabs;
use super::options::{Progress, ReadOptions};
use super::plan::{self, Extent, Items, Part, Segment, SlotSource};
use super::selection::ReadSchema;
use super::stats::add;
use crate::RNTupleError;
use crate::array::SlotData;
use crate::encoding::{Target, is_plain};
use crate::schema::{Slot, SlotId, SlotKind, SlotParent};

/// The extent of a slot in each segment, with the number of elements in the cluster if known.
pub(super) type Extents = Vec<(Extent, Option<u64>)>;

/// A read in progress.
pub(super) struct Rounds<'a> {
    pub schema: &'a ReadSchema,
    pub parts: &'a [Part],
    pub segments: &'a [Segment],
    pub options: &'a ReadOptions<'a>,
    /// Whether values are not wanted, only a check that they exist.
    pub structure_only: bool,
    /// The slots to read; none for all.
    pub wanted: Option<&'a [bool]>,
    pub progress: Progress,
    /// Items of finished index slots (per segment) and switch slots (per segment and alternative).
    pub items: Vec<Option<Vec<Items>>>,
    pub extents: Vec<Option<Extents>>,
    pub data: Vec<Option<SlotData>>,
    /// The most items per list of an index slot, if that is limited.
    pub most: HashMap<SlotId, i64>,
}

/// A slot of a round, and its plan.
pub(super) struct Planned {
    pub id: SlotId,
    pub extents: Extents,
    /// Uncompressed elements from a memory map.
    pub mapped: Option<Bytes>,
    pub n_elements: usize,
}

impl Planned {
    pub fn plain_extents(&self) -> Vec<Extent> {
        self.extents.iter().map(|(extent, _)| *extent).collect()
    }
}

impl<'a> Rounds<'a> {
    /// Whether a slot is wanted and not read yet.
    pub fn is_missing(&self, id: SlotId) -> bool {
        let is_wanted = |wanted: &[bool]| wanted.get(id).copied().unwrap_or(false);
        self.data.get(id).is_some_and(Option::is_none) && self.wanted.is_none_or(is_wanted)
    }

    /// Reads every slot whose elements are known.
    pub fn next(&mut self) -> Result<(), RNTupleError> {
        let planned = self.ready()?;
        if planned.is_empty() {
            let reader = self.parts.first().map(|part| &part.reader);
            return Err(
                reader.map_or(RNTupleError::internal("a read without files"), |reader| {
                    reader.inconsistent("schema", "columns that depend on known ones", "none")
                }),
            );
        }
        let mut sizes = Vec::new();
        let mut temporary = Vec::new();
        for slot in &planned {
            let (kept, dropped) = self.buffer_sizes(slot);
            sizes.extend(kept);
            temporary.extend(dropped);
        }
        let mut slabs = Slabs::allocate(&sizes)?;
        let mut scratch = Slabs::allocate(&temporary)?;
        let probes = self.fill(&planned, slabs.buffers(), scratch.buffers())?;
        let items = self.finish(&planned, &probes, slabs.buffers(), scratch.buffers())?;
        self.keep(planned, items, slabs.freeze())
    }

    pub fn slot(&self, id: SlotId) -> Result<&'a Slot, RNTupleError> {
        self.schema
            .slots
            .get(id)
            .ok_or_else(|| RNTupleError::internal("the plan names what is not there"))
    }

    pub fn part(&self, segment: &Segment) -> Result<&'a Part, RNTupleError> {
        self.parts
            .get(segment.part)
            .ok_or_else(|| RNTupleError::internal("the plan names what is not there"))
    }

    pub fn source(
        &self,
        id: SlotId,
        slot: &Slot,
        segment: &'a Segment,
    ) -> Result<SlotSource<'a>, RNTupleError> {
        plan::slot_source(self.part(segment)?, segment, id, slot)
    }

    /// The slots that can be read.
    fn ready(&self) -> Result<Vec<Planned>, RNTupleError> {
        let mut out = Vec::new();
        for (id, slot) in self.schema.slots.as_slice().iter().enumerate() {
            if self.is_missing(id)
                && let Some(extents) = self.resolve(id, slot)?
            {
                let total = extents
                    .iter()
                    .try_fold(0u64, |sum, (extent, _)| sum.checked_add(extent.length));
                let n_elements = total
                    .and_then(|n| usize::try_from(n).ok())
                    .unwrap_or(usize::MAX);
                // check before memory is allocated for zeros
                if self.structure_only || total.is_none_or(|n| n > MOST_ZEROS) {
                    self.check_elements(id, slot, &extents)?;
                }
                let mapped = if self.structure_only && matches!(slot.kind, SlotKind::Leaf(_)) {
                    Some(Bytes::new())
                } else {
                    self.mapped(id, slot, &extents)?
                };
                out.push(Planned {
                    id,
                    extents,
                    mapped,
                    n_elements,
                });
            }
        }
        Ok(out)
    }

    /// The slot's elements in each segment, if they are known from its parent or from metadata.
    fn resolve(&self, id: SlotId, slot: &Slot) -> Result<Option<Extents>, RNTupleError> {
        let mut out = Vec::with_capacity(self.segments.len());
        for (index, segment) in self.segments.iter().enumerate() {
            let extent = match self.parent_items(slot, index, segment) {
                Some(items) => items
                    .scale(slot.multiplicity)
                    .ok_or_else(|| self.too_many(slot, segment))?,
                None => {
                    let source = self.source(id, slot, segment)?;
                    if !plan::is_immediate(segment, slot, &source) {
                        return Ok(None);
                    }
                    let length = source.n_elements();
                    (Extent { first: 0, length }, Some(length))
                }
            };
            out.push(extent);
        }
        Ok(Some(out))
    }

    pub fn parent_items(&self, slot: &Slot, index: usize, segment: &Segment) -> Option<Items> {
        match slot.parent {
            SlotParent::Entries => Some(plan::entries(segment)),
            SlotParent::Index(parent) => self.items.get(parent)?.as_ref()?.get(index).copied(),
            SlotParent::Switch(parent, alternative) => {
                let SlotKind::Switch(n) = self.schema.slots.get(parent)?.kind else {
                    return None;
                };
                self.items
                    .get(parent)?
                    .as_ref()?
                    .get(index * n + alternative)
                    .copied()
            }
        }
    }

    fn too_many(&self, slot: &Slot, segment: &Segment) -> RNTupleError {
        let Some(part) = self.parts.get(segment.part) else {
            return RNTupleError::internal("the plan names what is not there");
        };
        let name = part.reader.label(slot.field);
        part.reader.inconsistent(
            &format!("number of elements of field {name:?}"),
            "below 2^64",
            "more",
        )
    }

    /// Checks that the pages of a slot have the elements of its extents.
    fn check_elements(
        &self,
        id: SlotId,
        slot: &Slot,
        extents: &Extents,
    ) -> Result<(), RNTupleError> {
        for ((extent, total), segment) in extents.iter().zip(self.segments) {
            let source = self.source(id, slot, segment)?;
            plan::pieces(self.part(segment)?, &source, slot, *extent, *total)?;
        }
        Ok(())
    }

    /// A slot that is one uncompressed, aligned piece of a mapped file is not copied.
    fn mapped(
        &self,
        id: SlotId,
        slot: &Slot,
        extents: &Extents,
    ) -> Result<Option<Bytes>, RNTupleError> {
        let SlotKind::Leaf(dtype) = slot.kind else {
            return Ok(None);
        };
        let mut filled = extents
            .iter()
            .zip(self.segments)
            .filter(|((extent, _), _)| extent.length > 0);
        let (Some(((extent, total), segment)), None) = (filled.next(), filled.next()) else {
            return Ok(None);
        };
        let part = self.part(segment)?;
        let source = self.source(id, slot, segment)?;
        let (0, pieces) = plan::pieces(part, &source, slot, *extent, *total)? else {
            return Ok(None);
        };
        let (&[piece], Some(record)) = (
            pieces.as_slice(),
            part.reader.descriptor().column(source.column),
        ) else {
            return Ok(None);
        };
        let page = piece.page;
        let is_raw = is_plain(record.column_type, Target::Leaf(dtype))
            && record.packed_bytes(u64::from(page.n_elements)) == Some(page.body.size);
        if !part.reader.options().memory_map || !is_raw {
            return Ok(None);
        }
        let map = part.reader.store().map(&page.stored());
        let is_aligned = |stored: &Bytes| stored.as_ptr().addr().is_multiple_of(dtype.size());
        let Some(stored) = map.filter(is_aligned) else {
            return Ok(None);
        };
        let job = Job {
            part: segment.part,
            column: source.column,
            cluster: segment.cluster,
            piece,
            target: Target::Leaf(dtype),
            out: &mut [],
        };
        let place = (job.column, job.cluster);
        check_page(&part.reader, record, place, &job.piece.page, &stored)?;
        let (low, high) = (
            piece.low as usize * dtype.size(),
            piece.high as usize * dtype.size(),
        );
        add(&part.reader.stats().bytes_needed, (high - low) as u64);
        add(&part.reader.stats().bytes_decoded, (high - low) as u64);
        add(&part.reader.stats().pages, 1);
        Ok(Some(stored.slice(low..high)))
    }

    /// Sizes of the buffers of the result, and of those that only the round needs.
    fn buffer_sizes(&self, planned: &Planned) -> (Vec<usize>, Vec<usize>) {
        let n = planned.n_elements;
        match self.schema.slots.get(planned.id).map(|slot| slot.kind) {
            Some(SlotKind::Leaf(_)) if planned.mapped.is_some() => (vec![0], vec![]),
            Some(SlotKind::Leaf(dtype)) => (vec![n.saturating_mul(dtype.size())], vec![]),
            Some(SlotKind::Index) => (
                vec![n.saturating_add(1).saturating_mul(8)],
                vec![16 * planned.extents.len()],
            ),
            Some(SlotKind::Switch(_)) => (vec![n, n.saturating_mul(8)], vec![n.saturating_mul(12)]),
            None => (vec![], vec![]),
        }
    }

    /// Stores the results of a round, and checks that metadata and offsets agree.
    fn keep(
        &mut self,
        planned: Vec<Planned>,
        items: Vec<Option<Vec<Items>>>,
        buffers: Vec<Bytes>,
    ) -> Result<(), RNTupleError> {
        let mut buffers = buffers.into_iter();
        for (own, items) in planned.into_iter().zip(items) {
            let first = buffers.next().unwrap_or_default();
            let data = match self.slot(own.id)?.kind {
                SlotKind::Leaf(dtype) => SlotData::Leaf {
                    dtype,
                    values: own.mapped.unwrap_or(first),
                },
                SlotKind::Index => SlotData::Index { offsets: first },
                SlotKind::Switch(n) => {
                    let mut lengths = vec![0u64; n];
                    for alternatives in items.iter().flat_map(|items| items.chunks(n.max(1))) {
                        lengths
                            .iter_mut()
                            .zip(alternatives)
                            .for_each(|(sum, items)| *sum = sum.saturating_add(items.length));
                    }
                    SlotData::Switch {
                        tags: first,
                        positions: buffers.next().unwrap_or_default(),
                        lengths,
                    }
                }
            };
            set(&mut self.data, own.id, data);
            set(&mut self.extents, own.id, own.extents);
            if let Some(items) = items {
                set(&mut self.items, own.id, items);
            }
        }
        self.check_agreement()
    }

    fn check_agreement(&self) -> Result<(), RNTupleError> {
        for (slot, extents) in self.schema.slots.as_slice().iter().zip(&self.extents) {
            let Some(extents) = extents else { continue };
            for ((index, segment), (extent, _)) in self.segments.iter().enumerate().zip(extents) {
                let Some(items) = self.parent_items(slot, index, segment) else {
                    continue;
                };
                let expected = items.scale(slot.multiplicity).map(|(extent, _)| extent);
                let same = expected.is_some_and(|e| {
                    e.length == extent.length && (e.length == 0 || e.first == extent.first)
                });
                if !same {
                    let broken = Broken {
                        segment: index,
                        expected: format!(
                            "{:?} elements according to the offsets",
                            expected.map(|e| e.length)
                        ),
                        found: format!("{} in its pages", extent.length),
                    };
                    return Err(self.broken(slot, broken));
                }
            }
        }
        Ok(())
    }
}

fn set<T>(list: &mut [Option<T>], at: usize, value: T) {
    if let Some(place) = list.get_mut(at) {
        *place = Some(value);
    }
}
