//! The read itself: rounds of resolving, allocating, fetching, decoding and finishing.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::cache::PageCache;
use super::plan::{self, Part, Segment};
use super::rounds::Rounds;
use super::selection::ReadSchema;
use crate::RNTupleError;
use crate::array::{Arrays, SlotData};

/// Called on the caller's thread with bytes fetched and bytes to fetch; `false` stops the read.
pub type Tick<'a> = &'a dyn Fn(u64, u64) -> bool;

/// How a read is done.
#[derive(Clone, Copy)]
pub struct ReadOptions<'a> {
    /// Threads that decode, the caller's included.
    pub threads: usize,
    /// Most fetched bytes that wait to be decoded; none for what the source says.
    pub in_flight: Option<u64>,
    /// Decoded pages that steps of an iteration share.
    pub cache: Option<&'a PageCache>,
    /// Progress.
    pub tick: Option<Tick<'a>>,
}

impl Default for ReadOptions<'_> {
    fn default() -> Self {
        Self {
            threads: 1,
            in_flight: None,
            cache: None,
            tick: None,
        }
    }
}

/// Bytes done and to be done, shared by threads.
#[derive(Debug)]
pub struct Progress {
    done: AtomicU64,
    pub(super) total: AtomicU64,
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

    /// Adds bytes to those to be done.
    pub fn expect(&self, n: u64) {
        self.total.fetch_add(n, Relaxed);
    }

    /// Adds bytes to those done.
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
    if let Some(first) = parts.first()
        && let Some(storage) = first.reader.storage()
    {
        let progress = Progress::new();
        let slots = storage.read(schema, parts, options, &progress)?;
        if let Some(cache) = options.cache {
            cache.next_generation();
        }
        let n_entries = parts.iter().map(|part| part.stop - part.start).sum();
        return Ok(Arrays::new(n_entries, schema.columns.clone(), slots));
    }
    let segments = plan::segments(parts)?;
    let slots = all_slots(schema, parts, &segments, options, false)?;
    if let Some(cache) = options.cache {
        cache.next_generation();
    }
    let n_entries = segments.iter().map(Segment::n_entries).sum();
    Ok(Arrays::new(n_entries, schema.columns.clone(), slots))
}

/// Insists that all columns of a segment have the elements that entries and offsets ask for. Only offsets and the tags of
/// variants are read.
pub(super) fn check_structure(
    schema: &ReadSchema,
    part: &Part,
    segment: &Segment,
) -> Result<(), RNTupleError> {
    let (parts, segments) = (std::slice::from_ref(part), std::slice::from_ref(segment));
    all_slots(schema, parts, segments, &ReadOptions::default(), true).map(drop)
}

fn all_slots(
    schema: &ReadSchema,
    parts: &[Part],
    segments: &[Segment],
    options: &ReadOptions<'_>,
    structure_only: bool,
) -> Result<Vec<SlotData>, RNTupleError> {
    let n_slots = schema.slots.len();
    let mut rounds = Rounds {
        schema,
        parts,
        segments,
        options,
        structure_only,
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
    Ok(rounds.data.into_iter().flatten().collect())
}
