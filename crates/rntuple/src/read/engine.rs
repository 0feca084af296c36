//! The read itself: rounds of resolving, allocating, fetching, decoding and finishing.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::cache::PageCache;
use super::decode::Job;
use super::fetch;
use super::finish::{self, Broken};
use super::memory::Slabs;
use super::plan::{self, Extent, Items, Part, Piece, Segment, SlotSource};
use super::selection::ReadSchema;
use crate::RNTupleError;
use crate::array::{Arrays, SlotData};
use crate::encoding::{Target, is_plain};
use crate::schema::{Slot, SlotId, SlotKind, SlotParent};

/// Called on the caller's thread with bytes fetched and bytes to fetch; `false` stops the read.
pub type Tick<'a> = &'a dyn Fn(u64, u64) -> bool;

/// How a read is done.
#[derive(Clone, Copy)]
pub struct ReadOptions<'a> {
    /// Threads that decode, the caller's included.
    pub threads: usize,
    /// Most fetched bytes that wait to be decoded.
    pub in_flight: u64,
    /// Decoded pages that steps of an iteration share.
    pub cache: Option<&'a PageCache>,
    /// Progress.
    pub tick: Option<Tick<'a>>,
}

impl Default for ReadOptions<'_> {
    fn default() -> Self {
        Self {
            threads: 1,
            in_flight: 64 << 20,
            cache: None,
            tick: None,
        }
    }
}

/// Bytes done and to be done, shared by threads.
#[derive(Debug)]
pub(super) struct Progress {
    done: AtomicU64,
    total: AtomicU64,
    last: Mutex<Instant>,
}

impl Progress {
    const INTERVAL: Duration = Duration::from_millis(50);

    fn new() -> Self {
        Self {
            done: AtomicU64::new(0),
            total: AtomicU64::new(0),
            last: Mutex::new(Instant::now()),
        }
    }

    pub fn advance(&self, n: u64) {
        self.done.fetch_add(n, Relaxed);
    }

    /// Calls back, not too often.
    pub fn tick(&self, tick: Option<Tick<'_>>) -> Result<(), RNTupleError> {
        let Some(tick) = tick else { return Ok(()) };
        if let Ok(mut last) = self.last.lock() {
            if last.elapsed() < Self::INTERVAL {
                return Ok(());
            }
            *last = Instant::now();
        }
        if tick(self.done.load(Relaxed), self.total.load(Relaxed)) {
            Ok(())
        } else {
            Err(RNTupleError::Interrupted)
        }
    }
}

/// Reads the entries of all parts, one after another, into arrays.
pub fn read(
    schema: &ReadSchema,
    parts: &[Part],
    options: &ReadOptions<'_>,
) -> Result<Arrays, RNTupleError> {
    let segments = plan::segments(parts)?;
    let n_slots = schema.slots.len();
    let mut rounds = Rounds {
        schema,
        parts,
        segments: &segments,
        options,
        progress: Progress::new(),
        items: vec![None; n_slots],
        extents: vec![None; n_slots],
        data: (0..n_slots).map(|_| None).collect(),
        most: HashMap::new(),
    };
    for (_, node) in &schema.columns {
        node.limits(&mut |slot, most| {
            let known = rounds.most.entry(slot).or_insert(most);
            *known = most.min(*known);
        });
    }
    while rounds.data.iter().any(Option::is_none) {
        rounds.next()?;
    }
    if let Some(cache) = options.cache {
        cache.next_generation();
    }
    let n_entries = segments.iter().map(Segment::n_entries).sum();
    Ok(Arrays::new(
        n_entries,
        schema.columns.clone(),
        rounds.data.into_iter().flatten().collect(),
    ))
}

/// Extent of a slot in each segment, with the number of elements in the cluster where it is known.
type Extents = Vec<(Extent, Option<u64>)>;

struct Rounds<'a> {
    schema: &'a ReadSchema,
    parts: &'a [Part],
    segments: &'a [Segment],
    options: &'a ReadOptions<'a>,
    progress: Progress,
    /// Items of finished index slots, one a segment, and of switches, one a segment and alternative.
    items: Vec<Option<Vec<Items>>>,
    extents: Vec<Option<Extents>>,
    data: Vec<Option<SlotData>>,
    /// The most items that a list of an index slot may have, where that is limited.
    most: HashMap<SlotId, i64>,
}

/// A slot of a round and what is planned for it.
struct Planned {
    id: SlotId,
    extents: Extents,
    /// Uncompressed elements given as they are in the file.
    mapped: Option<Bytes>,
    n_elements: usize,
}

impl Planned {
    fn plain_extents(&self) -> Vec<Extent> {
        self.extents.iter().map(|(extent, _)| *extent).collect()
    }
}

/// Offsets that are looked up beside the wanted ones: before the first, and at the cluster's end.
#[derive(Debug, Clone, Copy)]
struct Probes {
    before: Option<Piece>,
    after: Option<Piece>,
    wants_after: bool,
}

impl<'a> Rounds<'a> {
    /// Reads every slot whose elements are known by now.
    fn next(&mut self) -> Result<(), RNTupleError> {
        let planned = self.ready()?;
        if planned.is_empty() {
            let reader = self.parts.first().map(|part| &part.reader);
            return Err(reader.map_or(RNTupleError::Interrupted, |reader| {
                reader.inconsistent("schema", "columns that hang on known ones", "none")
            }));
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

    fn slot(&self, id: SlotId) -> Result<&'a Slot, RNTupleError> {
        self.schema.slots.get(id).ok_or(RNTupleError::Interrupted)
    }

    fn part(&self, segment: &Segment) -> Result<&'a Part, RNTupleError> {
        self.parts
            .get(segment.part)
            .ok_or(RNTupleError::Interrupted)
    }

    fn source(
        &self,
        id: SlotId,
        slot: &Slot,
        segment: &'a Segment,
    ) -> Result<SlotSource<'a>, RNTupleError> {
        plan::slot_source(self.part(segment)?, segment, id, slot)
    }

    /// The slots that can be read now.
    fn ready(&self) -> Result<Vec<Planned>, RNTupleError> {
        let mut out = Vec::new();
        for (id, slot) in self.schema.slots.as_slice().iter().enumerate() {
            if self.data.get(id).is_some_and(Option::is_none)
                && let Some(extents) = self.resolve(id, slot)?
            {
                let total = extents
                    .iter()
                    .try_fold(0u64, |sum, (extent, _)| sum.checked_add(extent.length));
                let n_elements = total
                    .and_then(|n| usize::try_from(n).ok())
                    .unwrap_or(usize::MAX);
                let mapped = self.mapped(id, slot, &extents)?;
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

    /// The slot's elements in each segment, if they are known: from its parent, or from metadata alone.
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

    fn parent_items(&self, slot: &Slot, index: usize, segment: &Segment) -> Option<Items> {
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
            return RNTupleError::Interrupted;
        };
        let name = part.reader.label(slot.field);
        part.reader.inconsistent(
            &format!("number of elements of field {name:?}"),
            "below 2^64",
            "more",
        )
    }

    /// A slot that is one uncompressed, aligned piece of a file that can be mapped needs no copy.
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
            && record.packed_bytes(u64::from(page.n_elements)) == Some(page.locator.size);
        let aligned = page.locator.offset % dtype.size() as u64 == 0;
        if !part.reader.options().memory_map
            || !is_raw
            || !aligned
            || part.reader.is_split(page.stored_size())
        {
            return Ok(None);
        }
        let Some(map) = part.reader.source().map() else {
            return Ok(None);
        };
        let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
        let start = at(page.locator.offset);
        let end = at(page.locator.offset.saturating_add(page.stored_size()));
        let Some(stored) = map.get(start..end) else {
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
        super::decode::check_page(part, record, &job, stored)?;
        let (low, high) = (
            piece.low as usize * dtype.size(),
            piece.high as usize * dtype.size(),
        );
        super::stats::add(&part.reader.stats().bytes_needed, (high - low) as u64);
        super::stats::add(&part.reader.stats().bytes_decoded, (high - low) as u64);
        super::stats::add(&part.reader.stats().pages, 1);
        Ok(Some(map.slice(start + low..start + high)))
    }

    /// Sizes of the buffers that are kept, and of those that only the round needs.
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

    /// Plans the pieces of all pages and decodes them into the buffers.
    fn fill(
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
        let work = fetch::requests(self.parts, jobs);
        self.progress
            .total
            .fetch_add(fetch::total_bytes(&work), Relaxed);
        fetch::run(self.parts, work, self.options, &self.progress)?;
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
        Err(RNTupleError::Memory {
            bytes: rest.len() as u64,
            reason: "the plan counted more elements".into(),
        })
    }

    /// Adds the jobs that look up offsets before and behind the wanted ones.
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

    /// Whether a slot below this one starts in the middle of the cluster: then the number of items must be known.
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

    /// Serves what the cache holds; gives the other jobs.
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
                    super::stats::add(&part.reader.stats().cached_pages, 1);
                    job.copy_from(&page).map_err(|source| {
                        // only a page that was decoded is in the cache
                        RNTupleError::Memory {
                            bytes: page.len() as u64,
                            reason: source.to_string(),
                        }
                    })?;
                }
                None => left.push(job),
            }
        }
        Ok(left)
    }

    /// The finishing pass of index and switch slots.
    fn finish(
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

    fn broken(&self, slot: &Slot, broken: Broken) -> RNTupleError {
        let Some(segment) = self.segments.get(broken.segment) else {
            return RNTupleError::Interrupted;
        };
        let Some(part) = self.parts.get(segment.part) else {
            return RNTupleError::Interrupted;
        };
        let name = part.reader.label(slot.field);
        part.reader.inconsistent(
            &format!("data of field {name:?} in cluster {}", segment.cluster),
            broken.expected,
            broken.found,
        )
    }

    /// Files the results of a round, and checks that metadata and offsets agree.
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
                            "{:?} elements, as the offsets say",
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

/// Splits the room for `n` elements off a buffer.
fn take<'b>(
    rest: &mut &'b mut [u8],
    n: u64,
    target: Target,
) -> Result<(&'b mut [u8], &'b mut [u8]), RNTupleError> {
    let n_bytes = n.saturating_mul(target.size() as u64);
    let size = usize::try_from(n_bytes).unwrap_or(usize::MAX);
    std::mem::take(rest)
        .split_at_mut_checked(size)
        .ok_or_else(|| RNTupleError::Memory {
            bytes: n_bytes,
            reason: "the plan counted fewer elements".into(),
        })
}

fn typed(bytes: &mut [u8]) -> &mut [i64] {
    // the buffers of slabs are aligned
    bytemuck::try_cast_slice_mut(bytes).unwrap_or_default()
}

/// Values of the probes: before each segment's first element, and at each cluster's end.
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
