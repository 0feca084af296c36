//! What this process knows of one cached file: which bytes are held, who is fetching others, and its own segment.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use femtobarn_fork::lock;

use super::about::About;
use super::format::{FIRST_RECORD, Record};
use super::index::{Held, Index, Piece};
use super::room::{Room, entries};
use super::segment::{Segment, number_of_index};
use super::unwritten::Unwritten;
use super::writer::{Kept, Own, Writer};
use super::writer_id::now;

/// Claims that are older than this are of no process that still works, whatever its machine's clock says.
const CLAIM_LASTS: u64 = 600_000_000_000;

/// For so long at least, another process is waited for.
const LEAST_PATIENCE: Duration = Duration::from_secs(4);

/// Rejected bytes that are remembered.
const MOST_REJECTED: usize = 4096;

/// A range that another process has said it would fetch.
#[derive(Debug)]
struct Claim {
    range: Range<u64>,
    time: u64,
    /// When this process saw it last.
    seen: Instant,
}

/// A segment that is being read.
#[derive(Debug)]
struct Known {
    segment: Arc<Segment>,
    /// The records up to here are known.
    at: u64,
    claims: Vec<Claim>,
    /// Whether its writer has not kept a claim for longer than one waits.
    is_stalled: bool,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub index: Index<Segment>,
    segments: BTreeMap<u64, Known>,
    own: Own,
    /// Segments whose data are missing.
    lost: HashSet<u64>,
    /// Entries that are bad, by their segments and their positions there.
    voided: HashSet<(u64, u64)>,
    /// Ranges that threads of this process are fetching.
    pub flying: Vec<Range<u64>>,
    /// Bytes that readers have rejected, by their hashes: not kept again.
    rejected: HashSet<(u64, u64)>,
    refreshed: Option<Instant>,
}

/// The cache of one file in one state, for all threads of this process.
#[derive(Debug)]
pub(super) struct FileCache {
    folder: PathBuf,
    largest: u64,
    state: Mutex<State>,
    pub changed: Condvar,
    writer: Mutex<Writer>,
    pub unwritten: Arc<Unwritten>,
    /// Nanoseconds that a fetch takes.
    usual: AtomicU64,
}

fn is_in(inner: &Range<u64>, outer: &Range<u64>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

impl State {
    /// Reads what others have written since the last time.
    pub fn refresh(&mut self, folder: &Path) {
        for (name, _) in entries(folder) {
            let Some(number) = number_of_index(&name) else {
                continue;
            };
            let is_known = lock(&self.own).contains(&number) || self.segments.contains_key(&number);
            if is_known || self.lost.contains(&number) {
                continue;
            }
            if let Some(segment) = Segment::open(folder, number) {
                let known = Known {
                    segment: Arc::new(segment),
                    at: FIRST_RECORD,
                    claims: Vec::new(),
                    is_stalled: false,
                };
                self.segments.insert(number, known);
            }
        }
        let mut numbers: Vec<u64> = self.segments.keys().copied().collect();
        numbers.retain(|number| !self.read(*number));
        for gone in numbers {
            self.segments.remove(&gone);
            self.index.retain(|held| held.segment.number != gone);
        }
        self.refreshed = Some(Instant::now());
    }

    /// The same, unless it has just been done.
    pub fn refresh_soon(&mut self, folder: &Path) {
        const AT_ONCE: Duration = Duration::from_micros(500);
        if self.refreshed.is_none_or(|last| last.elapsed() > AT_ONCE) {
            self.refresh(folder);
        }
    }

    /// Reads the new records of a segment; returns false if it was removed.
    fn read(&mut self, number: u64) -> bool {
        let Some(known) = self.segments.get_mut(&number) else {
            return false;
        };
        let (records, end) = known.segment.records_from(known.at);
        known.at = end;
        known.is_stalled &= records.is_empty();
        for record in records {
            match record {
                Record::Entry {
                    range,
                    position,
                    hash,
                    ..
                } => {
                    if !self.voided.contains(&(number, position)) {
                        let segment = known.segment.clone();
                        self.index.insert(Held::new(range, segment, position, hash));
                    }
                }
                Record::Claim { range, time } => {
                    // it may be renewed
                    known.claims.retain(|claim| claim.range != range);
                    known.claims.push(Claim {
                        range,
                        time,
                        seen: Instant::now(),
                    });
                }
                Record::Done { range, .. } => known.claims.retain(|claim| claim.range != range),
                Record::Void {
                    segment, position, ..
                } => {
                    self.voided.insert((segment, position));
                    self.index
                        .retain(|held| (held.segment.number, held.position) != (segment, position));
                }
            }
        }
        !known.segment.is_gone()
    }

    /// Whether another process is fetching a range, and is to be waited for. If this one wants to fetch it too, only
    /// if the other one was first.
    pub fn is_claimed(
        &mut self,
        range: &Range<u64>,
        own: Option<(u64, u64)>,
        patience: Duration,
    ) -> bool {
        let (mut is_claimed, now) = (false, now());
        for (number, known) in &mut self.segments {
            let is_ours = |claim: &&Claim| {
                let is_first = own.is_none_or(|own| (claim.time, *number) < own);
                let is_old = now.saturating_sub(claim.time) > CLAIM_LASTS;
                is_in(range, &claim.range) && is_first && !is_old
            };
            let Some(claim) = known.claims.iter().find(is_ours) else {
                continue;
            };
            known.is_stalled |= claim.seen.elapsed() > patience;
            if known.is_stalled {
                continue;
            }
            if known.segment.writer.is_gone() {
                known.claims.clear();
                continue;
            }
            is_claimed = true;
        }
        is_claimed
    }

    /// Whether a thread of this process is fetching a range.
    pub fn is_flying(&self, range: &Range<u64>) -> bool {
        self.flying.iter().any(|flying| is_in(range, flying))
    }

    fn void(&mut self, held: &Kept) -> Record {
        let (segment, position) = (held.segment.number, held.position);
        self.index.remove(held);
        self.voided.insert((segment, position));
        Record::Void {
            segment,
            position,
            time: now(),
        }
    }
}

impl FileCache {
    pub fn new(room: Arc<Room>, cache: &Path, folder: &Path, about: About) -> Self {
        let mut state = State::default();
        state.refresh(folder);
        let own = state.own.clone();
        Self {
            folder: folder.to_owned(),
            largest: room.largest(),
            state: Mutex::new(state),
            changed: Condvar::new(),
            writer: Mutex::new(Writer::new(room, cache, folder, about, own)),
            unwritten: Arc::default(),
            usual: AtomicU64::new(0),
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The parts of a range that are not held.
    pub fn missing(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        if range.is_empty() || self.unwritten.has(range) {
            return Vec::new();
        }
        let pieces = self.lock().index.pieces(range).into_iter();
        let missing = pieces.filter_map(|piece| match piece {
            Piece::Missing(part) => Some(part),
            Piece::Held(..) => None,
        });
        missing.collect()
    }

    /// For so long one waits for another process's fetch.
    pub fn patience(&self) -> Duration {
        let usual = Duration::from_nanos(self.usual.load(Relaxed));
        LEAST_PATIENCE.max(usual.saturating_mul(2))
    }

    pub fn note_time(&self, time: Duration) {
        let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let before = self.usual.load(Relaxed);
        let mixed = (before / 4).saturating_mul(3).saturating_add(time / 4);
        self.usual
            .store(if before == 0 { time } else { mixed }, Relaxed);
    }

    /// Tells others that this process will fetch these ranges; returns the time and the segment by which they know.
    pub fn claim(&self, ranges: &[Range<u64>]) -> Option<(u64, u64)> {
        self.writer().prepare();
        self.renew(ranges, now())
    }

    /// Tells others that this process fetches these ranges since this time.
    pub fn renew(&self, ranges: &[Range<u64>], time: u64) -> Option<(u64, u64)> {
        let claim = |range: &Range<u64>| Record::Claim {
            range: range.clone(),
            time,
        };
        let records: Vec<Record> = ranges.iter().map(claim).collect();
        Some((time, self.writer().tell(&records)?.number))
    }

    /// Takes claims back, or says that they were kept.
    pub fn done(&self, ranges: &[Range<u64>]) {
        let time = now();
        let done = |range: &Range<u64>| Record::Done {
            range: range.clone(),
            time,
        };
        let records: Vec<Record> = ranges.iter().map(done).collect();
        self.tell(&records);
    }

    fn tell(&self, records: &[Record]) {
        self.writer().tell(records);
    }

    /// Waits until everything that was fetched is written.
    pub fn settle(&self) {
        self.unwritten.wait(&[0..u64::MAX]);
    }

    /// Keeps bytes with their hashes.
    pub fn keep(&self, mut bytes: Vec<(Range<u64>, Bytes, u64)>) {
        {
            let state = self.lock();
            bytes.retain(|(range, bytes, hash)| {
                let is_small = bytes.len() as u64 <= self.largest;
                is_small && !state.rejected.contains(&(range.start, *hash))
            });
        }
        let kept = self.writer().keep(&bytes);
        let mut state = self.lock();
        for held in kept {
            held.note_used();
            state.index.insert(held);
        }
    }

    /// Writes what is held in some segments into a new one, and removes them; returns whether it did.
    pub fn move_from(&self, numbers: &HashSet<u64>) -> bool {
        let all = self.lock().index.overlapping(&(0..u64::MAX));
        let own = all
            .iter()
            .filter(|held| numbers.contains(&held.segment.number));
        let mut moved: Vec<(Range<u64>, Bytes, u64)> = Vec::new();
        for held in own {
            // bad ones are left out
            if let Some(bytes) = held.segment.bytes(held) {
                moved.push((held.range.clone(), bytes, held.hash));
            }
        }
        if self.writer().keep(&moved).len() != moved.len() {
            return false;
        }
        let state = self.lock();
        let segments = state.segments.iter();
        for (_, known) in segments.filter(|(number, _)| numbers.contains(number)) {
            known.segment.remove();
        }
        true
    }

    /// Forgets bytes that are not there any more, or not those that were written; returns whether they are bad.
    pub fn discard(&self, held: &Kept) -> bool {
        let mut state = self.lock();
        if held.segment.is_gone() {
            let number = held.segment.number;
            // of this machine, so that it cannot be a file that is only shown later
            if held.segment.writer.is_of_this_machine() {
                held.segment.remove();
            }
            state.index.retain(|other| other.segment.number != number);
            state.segments.remove(&number);
            state.lost.insert(number);
            return false;
        }
        let record = state.void(held);
        drop(state);
        self.tell(&[record]);
        true
    }

    /// Forgets what this process has used of a range, as it contradicts a checksum or its format; returns how many
    /// entries that were.
    pub fn reject(&self, range: &Range<u64>) -> u64 {
        self.unwritten.wait(std::slice::from_ref(range));
        let mut state = self.lock();
        let mut found = state.index.overlapping(range);
        found.retain(|held| held.is_used());
        let mut records = Vec::with_capacity(found.len());
        for held in &found {
            if state.rejected.len() < MOST_REJECTED {
                state.rejected.insert((held.range.start, held.hash));
            }
            records.push(state.void(held));
        }
        drop(state);
        self.tell(&records);
        found.len() as u64
    }
}
