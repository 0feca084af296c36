//! Fetching: combines jobs into requests, fetches their bytes within a budget, and passes them to workers.
//!
//! A source whose reads block no longer than a copy (concurrency 1) is read by the decoding threads, each into its own
//! reusable memory; the source is told which ranges come next. For other sources, waiting threads keep several requests
//! in flight, as long as the bytes that wait to be decoded are within the budget.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use femtobarn_io::{SourceCost, Together};

use super::ahead::Ahead;
use super::held::Held;
use super::options::{Progress, ReadOptions};
use super::plan::Part;
use super::queue::{Next, Queue};
use super::reader::Reader;
use super::stats::{Stats, add, elapsed};
use super::store::{self, PageStore, part_of, soundly};
use crate::RNTupleError;
use crate::encoding::Scratch;
use crate::spec::StoredRange;

/// An item to fetch and decode.
pub trait Fetched: Send {
    /// Index of the part that it comes from.
    fn part(&self) -> usize;
    /// The stored bytes.
    fn stored(&self) -> StoredRange;

    /// Whether its bytes are needed, and not only likely to be.
    fn is_needed(&self) -> bool {
        true
    }
}

/// A decoder for one thread.
pub trait Decode<J> {
    /// Decodes the stored bytes of a job.
    fn decode(&mut self, job: &mut J, stored: &[u8]) -> Result<(), RNTupleError>;
    /// The counters of this thread.
    fn stats(&self) -> &Stats;
    /// The final counters of this thread.
    fn into_stats(self) -> Stats;
}

/// A request, and the jobs that need its bytes.
#[derive(Debug)]
pub struct Work<J> {
    pub(super) part: usize,
    pub(super) stored: StoredRange,
    jobs: Vec<J>,
    /// Its bytes, if they are in memory.
    pub(super) held: Option<Bytes>,
}

impl<J> Work<J> {
    pub(super) fn n_bytes(&self) -> u64 {
        self.stored.size
    }
}

/// Sorts jobs by file and address, and combines their pages as the store prefers. Those that are held are not requested.
/// Parts of one file are read together.
pub fn requests<J: Fetched>(parts: &[Part], jobs: Vec<J>, held: Option<&Held>) -> Vec<Work<J>> {
    let mut firsts: HashMap<*const Reader, usize> = HashMap::new();
    let first_of_file = parts.iter().enumerate();
    let first_of_file = first_of_file.map(|(at, part)| {
        let reader = Arc::as_ptr(&part.reader);
        *firsts.entry(reader).or_insert(at)
    });
    let first_of_file: Vec<usize> = first_of_file.collect();
    let mut by_file: Vec<Vec<J>> = parts.iter().map(|_| Vec::new()).collect();
    let mut out = Vec::new();
    for job in jobs {
        let (part, stored) = (job.part(), job.stored());
        let first = first_of_file.get(part).copied().unwrap_or(part);
        if let Some(bytes) = held.and_then(|held| held.get(part, &stored)) {
            out.push(Work {
                part,
                stored,
                jobs: vec![job],
                held: Some(bytes.clone()),
            });
        } else if let Some(own) = by_file.get_mut(first) {
            own.push(job);
        }
    }
    for (part, (jobs, own)) in by_file.into_iter().zip(parts).enumerate() {
        if jobs.is_empty() {
            continue;
        }
        let wanted: Vec<StoredRange> = jobs.iter().map(Fetched::stored).collect();
        let mut jobs: Vec<Option<J>> = jobs.into_iter().map(Some).collect();
        for request in store::requests(own.reader.store(), &wanted) {
            let members = request.members.iter();
            out.push(Work {
                part,
                stored: request.stored,
                jobs: members.filter_map(|&i| jobs.get_mut(i)?.take()).collect(),
                held: None,
            });
        }
    }
    out
}

/// Groups consecutive requests into vector reads: of one file, with as many bytes and ranges as its source accepts, and
/// no more bytes than `budget`. Requests of a source that is read one by one stay alone.
pub(super) fn batches<J>(parts: &[Part], work: Vec<Work<J>>, budget: u64) -> Vec<Vec<Work<J>>> {
    let mut out: Vec<Vec<Work<J>>> = Vec::new();
    let mut bytes = 0u64;
    for work in work {
        let cost = parts.get(work.part).map(|part| part.reader.cost());
        let n_bytes = work.n_bytes();
        let fits = |last: &Vec<Work<J>>| {
            let same = last.first().is_some_and(|first| first.part == work.part);
            let cut = cost.as_ref().map(Cut::of);
            same && cut.is_some_and(|cut| cut.takes(last.len(), bytes, n_bytes, budget))
        };
        match out.last_mut() {
            Some(last) if fits(last) => {
                bytes = bytes.saturating_add(n_bytes);
                last.push(work);
            }
            _ => {
                bytes = n_bytes;
                out.push(vec![work]);
            }
        }
    }
    out
}

/// The limits of a vector read.
#[derive(Clone, Copy)]
struct Cut {
    most_ranges: usize,
    most_bytes: u64,
}

impl Cut {
    fn of(cost: &SourceCost) -> Self {
        // threads that read themselves read one range at a time
        // threads that read themselves read one range at a time
        Self {
            most_ranges: if cost.is_far() { cost.most_ranges } else { 1 },
            most_bytes: cost.largest_vector,
        }
    }

    /// Whether a range of `more` bytes can be added to `n` ranges of `bytes` bytes.
    fn takes(self, n: usize, bytes: u64, more: u64, budget: u64) -> bool {
        let most = self.most_bytes.min(budget);
        n < self.most_ranges && bytes.saturating_add(more) <= most
    }
}

/// The most bytes that may wait to be decoded.
pub(super) fn budget_of(parts: &[Part], options: &ReadOptions<'_>) -> u64 {
    let costs = parts.iter().map(|part| part.reader.cost());
    let most_ahead = costs.map(|cost| cost.in_flight).max().unwrap_or(0);
    options.in_flight.unwrap_or(most_ahead).max(1)
}

/// Fetches and decodes everything with the caller's thread and `threads - 1` others, each with its own decoder. Bytes
/// that were read ahead are taken from there; further reading ahead starts as soon as all of this is requested.
pub fn run<J: Fetched, D: Decode<J>>(
    parts: &[Part],
    work: Vec<Work<J>>,
    ahead: Option<&Ahead>,
    options: &ReadOptions<'_>,
    progress: &Progress,
    decoder: impl Fn() -> D + Sync,
) -> Result<(), RNTupleError> {
    let n_waiting = fetchers(parts, &work);
    let threads = options.threads.clamp(1, work.len().max(1));
    let budget = budget_of(parts, options);
    let (held, work): (Vec<_>, Vec<_>) = work.into_iter().partition(|work| work.held.is_some());
    let queue = Queue::new(held, batches(parts, work, budget), n_waiting > 0, budget);
    let failure: Mutex<Option<RNTupleError>> = Mutex::new(None);
    let together = Together::of_this_thread();
    let fail = |error: RNTupleError| {
        failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert(error);
        queue.stop();
        together.stop();
        if let Some(ahead) = ahead {
            ahead.stop();
        }
    };
    let decode = |tick: &dyn Fn() -> Result<(), RNTupleError>| {
        let mut worker = decoder();
        if let Err(error) = drain(parts, &queue, &mut worker, progress, tick) {
            fail(error);
        }
        let stats = worker.into_stats();
        if let Some(part) = parts.first() {
            part.reader.stats().merge(&stats);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..n_waiting {
            scope.spawn(|| {
                if let Err(error) = together.work(|| fetch(parts, ahead, &queue)) {
                    fail(error);
                }
            });
        }
        for _ in 1..threads {
            scope.spawn(|| together.work(|| decode(&|| Ok(()))));
        }
        together.work(|| decode(&|| progress.tick(options.tick)));
    });
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Number of threads that wait for reads.
fn fetchers<J>(parts: &[Part], work: &[Work<J>]) -> usize {
    let wanted = work
        .iter()
        .filter(|work| work.held.is_none())
        .filter_map(|w| parts.get(w.part))
        .map(|part| part.reader.cost());
    let far = wanted.filter(SourceCost::is_far);
    let most = far.map(|cost| cost.concurrency).max();
    most.map_or(0, |concurrency| concurrency.min(work.len()))
}

fn drain<J: Fetched>(
    parts: &[Part],
    queue: &Queue<J>,
    worker: &mut impl Decode<J>,
    progress: &Progress,
    tick: &dyn Fn() -> Result<(), RNTupleError>,
) -> Result<(), RNTupleError> {
    let mut buffer = Scratch::default();
    while let Some(next) = queue.next() {
        let Next::Work(mut work, bytes) = next else {
            tick()?;
            continue;
        };
        let Some(part) = parts.get(work.part) else {
            return Err(RNTupleError::internal("the plan names what is not there"));
        };
        let n_bytes = work.n_bytes();
        let found;
        let stored: &[u8] = match work.held.clone().or(bytes) {
            Some(bytes) => {
                found = bytes;
                &found
            }
            None => {
                if let Some((ahead, stored)) = queue.ahead(part.reader.cost().largest_request)
                    && let Some(part) = parts.get(ahead)
                {
                    part.reader.store().will_need(&stored);
                }
                let buffer = buffer.bytes(usize::try_from(n_bytes).unwrap_or(usize::MAX));
                let buffer = buffer.map_err(|error| RNTupleError::Memory {
                    bytes: n_bytes,
                    reason: error.to_string(),
                })?;
                let start = Instant::now();
                part.reader.store().read_into(&work.stored, buffer)?;
                add(&worker.stats().io_ns, elapsed(start));
                buffer
            }
        };
        let mut last = None;
        // all bytes, if some were damaged
        let mut again: Option<Bytes> = None;
        for job in &mut work.jobs {
            let wanted = job.stored();
            let stored = again.as_deref().unwrap_or(stored);
            let Some(page) = part_of(&work.stored, stored, &wanted) else {
                let what = format!("bytes read for the page at {}", wanted.address);
                return Err(part.reader.inconsistent(&what, wanted.size, stored.len()));
            };
            if last != Some(wanted) && job.is_needed() {
                part.reader.note_needed(worker.stats(), wanted.size);
            }
            let (store, places) = (part.reader.store(), (&wanted, &work.stored));
            let (decoded, other) = soundly(store, places, page, |page| worker.decode(job, page))?;
            decoded?;
            again = other.or(again);
            last = Some(wanted);
        }
        if work.held.is_none() {
            queue.done(n_bytes);
        }
        progress.advance(n_bytes);
        tick()?;
    }
    Ok(())
}

/// A thread that waits for reads.
fn fetch<J>(parts: &[Part], ahead: Option<&Ahead>, queue: &Queue<J>) -> Result<(), RNTupleError> {
    while let Some(batch) = queue.take_batch(parts) {
        let part_id = batch.first().map_or(usize::MAX, |work| work.part);
        let Some(part) = parts.get(part_id) else {
            return Err(RNTupleError::internal("the plan names what is not there"));
        };
        let wanted: Vec<StoredRange> = batch.iter().map(|work| work.stored).collect();
        let start = Instant::now();
        let answers = match ahead.and_then(|ahead| ahead.take(part_id, &wanted)) {
            Some(answers) => answers?,
            None => {
                let answers = part.reader.store().read(&wanted)?;
                add(&part.reader.stats().io_ns, elapsed(start));
                answers
            }
        };
        let rate = queue.put_all(batch.into_iter().zip(answers));
        if let (Some(rate), Some(meter)) = (rate, part.reader.store().info().meter) {
            meter.note_rate(rate);
        }
    }
    if let Some(ahead) = ahead {
        ahead.begin();
    }
    Ok(())
}

/// Number of bytes to decode.
pub fn total_bytes<J>(work: &[Work<J>]) -> u64 {
    work.iter().map(Work::n_bytes).sum()
}

/// The cost of fetching.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FetchCost {
    /// Vector reads.
    pub vectors: u64,
    /// Number of requests that the server receives.
    pub requests: u64,
    /// Number of bytes.
    pub bytes: u64,
}

/// For a plan: the cost of fetching these ranges, cut as [`run`] does.
pub fn cost_of(store: &dyn PageStore, wanted: &[StoredRange]) -> FetchCost {
    let cost = store.info().cost;
    let cut = Cut::of(&cost);
    let mut out = FetchCost::default();
    let mut vector: Vec<StoredRange> = Vec::new();
    let mut bytes = 0;
    let mut end = |vector: &mut Vec<StoredRange>| {
        let is_read = |stored: &StoredRange| store.peek(stored).is_none();
        out.vectors += u64::from(vector.iter().any(is_read));
        out.requests += store.n_requests(vector);
        vector.clear();
    };
    let mut total = 0;
    for request in store::requests(store, wanted) {
        let n_bytes = request.stored.size;
        // bytes that came with the opening are in memory
        total += if store.peek(&request.stored).is_some() {
            0
        } else {
            n_bytes
        };
        if !cut.takes(vector.len(), bytes, n_bytes, cost.in_flight) {
            end(&mut vector);
            bytes = 0;
        }
        bytes = bytes.saturating_add(n_bytes);
        vector.push(request.stored);
    }
    end(&mut vector);
    out.bytes = total;
    out
}
