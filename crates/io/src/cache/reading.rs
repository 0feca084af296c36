//! Reading through the cache of a file: ranges that are held, ranges that others fetch, and the rest from the source.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::file::FileCache;
use super::index::Piece;
use super::unwritten::Writing;
use super::writer::Kept;
use crate::coalesce::{Request, coalesce, part_of};
use crate::runtime::{PULSE, Repeating, goes_on, repeating};
use crate::source::check_answers;
use crate::together::is_stopped;
use crate::{CacheUse, IoError, SourceCost};

/// Between two looks at what another process has done, at most.
const LONGEST_PAUSE: Duration = Duration::from_millis(16);

/// A contested claim is looked at so often, at this interval, until the other process must have seen it.
const LOOKS: u32 = 5;
const REACTION: Duration = Duration::from_millis(4);

/// Claims of fetches that take longer are renewed at this interval.
const RENEWAL: Duration = Duration::from_millis(1500);

/// What a source has got from the cache, and what not.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    hits: AtomicU64,
    hit_bytes: AtomicU64,
    misses: AtomicU64,
    single_hits: AtomicU64,
    single_misses: AtomicU64,
    fetched_bytes: AtomicU64,
    bad: AtomicU64,
}

impl Counts {
    pub fn now(&self) -> CacheUse {
        CacheUse {
            hits: self.hits.load(Relaxed),
            hit_bytes: self.hit_bytes.load(Relaxed),
            misses: self.misses.load(Relaxed),
            single_hits: self.single_hits.load(Relaxed),
            single_misses: self.single_misses.load(Relaxed),
            fetched_bytes: self.fetched_bytes.load(Relaxed),
            bad: self.bad.load(Relaxed),
        }
    }

    pub fn note_bad(&self, entries: u64) {
        self.bad.fetch_add(entries, Relaxed);
    }
}

/// Reads ranges from the source.
pub(super) type Fetch<'a> = &'a dyn Fn(&[Range<u64>]) -> Result<Vec<Bytes>, IoError>;

/// One vector read.
pub(super) struct Reading<'a> {
    pub file: &'a Arc<FileCache>,
    pub url: &'a str,
    pub cost: &'a SourceCost,
    pub counts: &'a Counts,
    pub fetch: Fetch<'a>,
}

/// A part of a range that is held or missing as a whole.
struct Part {
    /// The number of the range.
    of: usize,
    range: Range<u64>,
    held: Option<Kept>,
    bytes: Option<Bytes>,
    /// Whether this thread has fetched it.
    is_fetched: bool,
}

/// What this thread fetches, and whether it has to wait for others.
struct Plan {
    mine: Vec<Request>,
    waits: bool,
}

/// Ranges that are being fetched; others are told when that has ended.
pub(super) struct Flight {
    file: Arc<FileCache>,
    ranges: Vec<Range<u64>>,
    /// When they were claimed, if they are.
    claimed: Option<u64>,
}

impl Flight {
    /// Renews the claims until the result is dropped: others wait as long as this process works.
    fn renewing(&self) -> Option<Repeating> {
        // the thread that repeats may end later than the last reader
        let file = Arc::downgrade(&self.file);
        let (ranges, time) = (self.ranges.clone(), self.claimed?);
        repeating(RENEWAL, move || {
            if let Some(file) = file.upgrade() {
                file.renew(&ranges, time);
            }
        })
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if self.claimed.is_some() {
            self.file.done(&self.ranges);
        }
        let mut state = self.file.lock();
        for range in &self.ranges {
            if let Some(at) = state.flying.iter().position(|flying| flying == range) {
                state.flying.swap_remove(at);
            }
        }
        drop(state);
        self.file.changed.notify_all();
    }
}

impl Reading<'_> {
    /// Reads ranges, and adds what this thread has fetched of them to `read`.
    pub fn read(
        &self,
        ranges: &[Range<u64>],
        read: &mut Vec<Range<u64>>,
    ) -> Result<Vec<Bytes>, IoError> {
        let mut parts = self.parts(ranges);
        self.load(&mut parts);
        let mut pause = Pause::default();
        while parts.iter().any(|part| part.bytes.is_none()) {
            let (plan, flight) = self.plan(&parts);
            if let Some(flight) = flight.filter(|_| !plan.mine.is_empty()) {
                let renewing = flight.renewing();
                let fetched = self.fetch(&plan, &mut parts)?;
                drop(renewing);
                read.extend(fetched.iter().map(|(range, _)| range.clone()));
                Writing::begin(self.file, fetched, flight);
            } else if plan.waits {
                self.wait(&mut pause)?;
            }
            self.look_again(&mut parts);
            self.load(&mut parts);
        }
        self.count(ranges.len(), &parts);
        Ok(assembled(ranges.len(), parts))
    }

    fn parts(&self, ranges: &[Range<u64>]) -> Vec<Part> {
        self.file.unwritten.wait(ranges);
        let state = self.file.lock();
        let mut parts = Vec::with_capacity(ranges.len());
        for (of, range) in ranges
            .iter()
            .enumerate()
            .filter(|(_, range)| !range.is_empty())
        {
            parts.extend(state.index.pieces(range).into_iter().map(|piece| {
                let (held, range) = match piece {
                    Piece::Held(held, part) => (Some(held), part),
                    Piece::Missing(part) => (None, part),
                };
                Part {
                    of,
                    range,
                    held,
                    bytes: None,
                    is_fetched: false,
                }
            }));
        }
        parts
    }

    /// Takes the bytes that are held. Those that are bad are missing then.
    fn load(&self, parts: &mut [Part]) {
        // many parts may be of one large entry
        let mut last: Option<(Kept, Bytes)> = None;
        for part in parts {
            let Some(held) = part.held.take() else {
                continue;
            };
            let known = last.take().filter(|(known, _)| Arc::ptr_eq(known, &held));
            last = known.or_else(|| Some((held.clone(), held.segment.bytes(&held)?)));
            let whole = last.as_ref().map(|(_, whole)| whole);
            part.bytes = whole.and_then(|whole| part_of(&held.range, whole, &part.range));
            match &part.bytes {
                Some(bytes) => {
                    let n = bytes.len() as u64;
                    held.note_used();
                    held.segment.note_hits(n);
                    self.counts.hit_bytes.fetch_add(n, Relaxed);
                }
                None => self.counts.note_bad(u64::from(self.file.discard(&held))),
            }
        }
    }

    fn count(&self, n: usize, parts: &[Part]) {
        let mut missing: Vec<usize> = parts
            .iter()
            .filter(|part| part.is_fetched)
            .map(|part| part.of)
            .collect();
        missing.dedup();
        let (misses, hits) = (missing.len() as u64, (n - missing.len()) as u64);
        self.counts.misses.fetch_add(misses, Relaxed);
        self.counts.hits.fetch_add(hits, Relaxed);
        if n == 1 {
            self.counts.single_misses.fetch_add(misses, Relaxed);
            self.counts.single_hits.fetch_add(hits, Relaxed);
        }
    }

    fn look_again(&self, parts: &mut [Part]) {
        let state = self.file.lock();
        for part in parts.iter_mut().filter(|part| part.bytes.is_none()) {
            part.held = state.index.around(&part.range).cloned();
        }
    }

    /// Decides which thread or process fetches missing ranges, and claims those of this thread.
    fn plan(&self, parts: &[Part]) -> (Plan, Option<Flight>) {
        let missing: Vec<(usize, &Range<u64>)> = parts
            .iter()
            .enumerate()
            .filter(|(_, part)| part.bytes.is_none())
            .map(|(number, part)| (number, &part.range))
            .collect();
        let (mut plan, patience) = (self.shares(&missing), self.file.patience());
        if plan.mine.is_empty() {
            return (plan, None);
        }
        let mut flight = Flight {
            file: self.file.clone(),
            ranges: plan
                .mine
                .iter()
                .map(|request| request.range.clone())
                .collect(),
            claimed: None,
        };
        let Some(own) = self.file.claim(&flight.ranges) else {
            return (plan, Some(flight));
        };
        flight.claimed = Some(own.0);
        let others = self.yield_to_others(&mut plan, parts, own, patience);
        if !others.is_empty() {
            flight.ranges.retain(|range| !others.contains(range));
            drop(Flight {
                file: self.file.clone(),
                ranges: others,
                claimed: flight.claimed,
            });
        }
        (plan, Some(flight))
    }

    /// Leaves out of a plan what others have claimed, too, and fetch; returns these ranges.
    ///
    /// Whoever claimed first fetches, and the other one withdraws its claim as soon as it sees both. If the other one does
    /// not, it may have looked before this claim was written, and fetches already: then this one withdraws.
    fn yield_to_others(
        &self,
        plan: &mut Plan,
        parts: &[Part],
        own: (u64, u64),
        patience: Duration,
    ) -> Vec<Range<u64>> {
        let mut others = Vec::new();
        for look in 1..=LOOKS {
            let mut state = self.file.lock();
            state.refresh(self.file.folder());
            let mut is_contested = false;
            plan.mine.retain(|request| {
                let members = request.members.iter();
                let mut wanted = members.filter_map(|number| Some(&parts.get(*number)?.range));
                let is_held = wanted.all(|range| state.index.around(range).is_some());
                let is_first = is_held || state.is_claimed(&request.range, Some(own), patience);
                let is_both = !is_first && state.is_claimed(&request.range, None, patience);
                is_contested |= is_both;
                let is_others = is_first || (is_both && look == LOOKS);
                plan.waits |= is_others && !is_held;
                if is_others {
                    others.push(request.range.clone());
                }
                !is_others
            });
            drop(state);
            if !is_contested {
                break;
            }
            std::thread::sleep(REACTION);
        }
        others
    }

    /// The requests for what nobody fetches yet. From now on, threads of this process wait for them.
    fn shares(&self, missing: &[(usize, &Range<u64>)]) -> Plan {
        let patience = self.file.patience();
        let mut state = self.file.lock();
        state.refresh_soon(self.file.folder());
        let (mut numbers, mut wanted, mut waits) = (Vec::new(), Vec::new(), false);
        for (number, range) in missing {
            if state.index.around(range).is_some() {
                continue;
            }
            if state.is_flying(range) || state.is_claimed(range, None, patience) {
                waits = true;
            } else {
                numbers.push(*number);
                wanted.push((*range).clone());
            }
        }
        let mut mine = coalesce(&wanted, self.cost);
        for request in &mut mine {
            let own = request.members.iter();
            request.members = own.filter_map(|at| numbers.get(*at).copied()).collect();
            state.flying.push(request.range.clone());
        }
        Plan { mine, waits }
    }

    /// Fetches the requests of this thread; returns the bytes to be kept.
    fn fetch(&self, plan: &Plan, parts: &mut [Part]) -> Result<Vec<(Range<u64>, Bytes)>, IoError> {
        let ranges: Vec<Range<u64>> = plan.mine.iter().map(|one| one.range.clone()).collect();
        let start = Instant::now();
        let answers = (self.fetch)(&ranges)?;
        self.file.note_time(start.elapsed());
        check_answers(self.url, &ranges, &answers)?;
        let n_bytes = answers.iter().map(|answer| answer.len() as u64).sum();
        self.counts.fetched_bytes.fetch_add(n_bytes, Relaxed);
        let mut fetched = Vec::new();
        for (request, answer) in plan.mine.iter().zip(&answers) {
            let mut end = 0;
            for number in &request.members {
                let Some(part) = parts.get_mut(*number) else {
                    continue;
                };
                let bytes = request.slice(answer, &part.range);
                let bytes = bytes.ok_or_else(|| IoError::ShortRead {
                    url: self.url.to_owned(),
                    offset: request.range.start,
                    expected: request.range.end - request.range.start,
                    found: answer.len() as u64,
                })?;
                // those inside of one before are held with it
                if part.range.end > end {
                    end = part.range.end;
                    fetched.push((part.range.clone(), bytes.clone()));
                }
                (part.bytes, part.is_fetched) = (Some(bytes), true);
            }
        }
        Ok(fetched)
    }

    /// Waits until another thread has fetched something, or it is time to look what other processes have done.
    fn wait(&self, pause: &mut Pause) -> Result<(), IoError> {
        let state = self.file.lock();
        let waited = self.file.changed.wait_timeout(state, pause.next);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        pause.next = (pause.next * 2).min(LONGEST_PAUSE);
        if pause.asked.elapsed() < PULSE {
            return Ok(());
        }
        pause.asked = Instant::now();
        if is_stopped() || !goes_on() {
            let url = self.url.to_owned();
            return Err(IoError::Interrupted { url });
        }
        Ok(())
    }
}

/// How long one waits, and when it was last asked whether to go on.
struct Pause {
    next: Duration,
    asked: Instant,
}

impl Default for Pause {
    fn default() -> Self {
        Self {
            next: Duration::from_millis(1),
            asked: Instant::now(),
        }
    }
}

/// The bytes of each range from its parts.
fn assembled(n: usize, parts: Vec<Part>) -> Vec<Bytes> {
    let mut out: Vec<Vec<Bytes>> = vec![Vec::new(); n];
    for part in parts {
        if let (Some(own), Some(bytes)) = (out.get_mut(part.of), part.bytes) {
            own.push(bytes);
        }
    }
    let joined = |mut own: Vec<Bytes>| match own.len() {
        0 => Bytes::new(),
        1 => own.pop().unwrap_or_default(),
        _ => own.concat().into(),
    };
    out.into_iter().map(joined).collect()
}
