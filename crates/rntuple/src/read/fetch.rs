//! Fetching: jobs to requests, requests to bytes under a budget, bytes to workers.
//!
//! A source whose reads block no longer than a copy (concurrency 1) is read by the decoding threads themselves, each
//! into memory of its own that it uses again; the source is told what comes next. For others, threads that only wait
//! keep several requests in flight, as long as the bytes that wait to be decoded stay within the budget.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use femtobarn_io::{ByteSource, coalesce};

use super::engine::{Progress, ReadOptions};
use super::plan::Part;
use super::queue::{Next, Queue};
use super::stats::{Stats, add, elapsed};
use crate::RNTupleError;
use crate::encoding::Scratch;

/// Something to be fetched and decoded.
pub trait Fetched: Send {
    /// Index of the part that it comes from.
    fn part(&self) -> usize;
    /// Its bytes in the file.
    fn range(&self) -> Range<u64>;
}

/// What decodes on one thread.
pub trait Decode<J> {
    /// Decodes the stored bytes of a job.
    fn decode(&mut self, job: &mut J, stored: &[u8]) -> Result<(), RNTupleError>;
    /// Counters of this thread, to be added to.
    fn stats(&self) -> &Stats;
    /// Counters of this thread at its end.
    fn into_stats(self) -> Stats;
}

/// A request and the jobs that it serves.
#[derive(Debug)]
pub struct Work<J> {
    pub(super) part: usize,
    pub(super) range: Range<u64>,
    /// The payload is split over several keys.
    pub(super) split: bool,
    jobs: Vec<J>,
}

impl<J> Work<J> {
    pub(super) fn n_bytes(&self) -> u64 {
        self.range.end - self.range.start
    }
}

/// Sorts jobs by file and offset and coalesces their pages as the source prefers.
pub fn requests<J: Fetched>(parts: &[Part], jobs: Vec<J>) -> Vec<Work<J>> {
    let mut by_part: Vec<Vec<J>> = parts.iter().map(|_| Vec::new()).collect();
    for job in jobs {
        if let Some(own) = by_part.get_mut(job.part()) {
            own.push(job);
        }
    }
    let mut out = Vec::new();
    for (part, (jobs, own)) in by_part.into_iter().zip(parts).enumerate() {
        let (split, jobs): (Vec<_>, Vec<_>) = jobs
            .into_iter()
            .partition(|job| own.reader.is_split(length(&job.range())));
        let ranges: Vec<Range<u64>> = jobs.iter().map(Fetched::range).collect();
        let mut jobs: Vec<Option<J>> = jobs.into_iter().map(Some).collect();
        for request in coalesce(&ranges, &own.reader.source().cost()) {
            let members = request
                .members
                .iter()
                .filter_map(|&i| jobs.get_mut(i)?.take())
                .collect();
            out.push(Work {
                part,
                range: request.range,
                split: false,
                jobs: members,
            });
        }
        out.extend(split.into_iter().map(|job| Work {
            part,
            range: job.range(),
            split: true,
            jobs: vec![job],
        }));
    }
    out
}

fn length(range: &Range<u64>) -> u64 {
    range.end.saturating_sub(range.start)
}

/// Fetches and decodes everything on the caller's thread and `threads - 1` others, each with a decoder of its own.
pub fn run<J: Fetched, D: Decode<J>>(
    parts: &[Part],
    work: Vec<Work<J>>,
    options: &ReadOptions<'_>,
    progress: &Progress,
    decoder: impl Fn() -> D + Sync,
) -> Result<(), RNTupleError> {
    let n_waiting = fetchers(parts, &work);
    let threads = options.threads.clamp(1, work.len().max(1));
    let queue = Queue::new(work, n_waiting > 0, options.in_flight);
    let failure: Mutex<Option<RNTupleError>> = Mutex::new(None);
    let fail = |error: RNTupleError| {
        failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert(error);
        queue.stop();
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
                if let Err(error) = fetch(parts, &queue) {
                    fail(error);
                }
            });
        }
        for _ in 1..threads {
            scope.spawn(|| decode(&|| Ok(())));
        }
        decode(&|| progress.tick(options.tick));
    });
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// How many threads should wait for reads.
fn fetchers<J>(parts: &[Part], work: &[Work<J>]) -> usize {
    let wanted = work
        .iter()
        .filter_map(|w| parts.get(w.part))
        .map(|part| part.reader.source().cost().concurrency);
    match wanted.max() {
        Some(concurrency) if concurrency > 1 => concurrency.min(work.len()),
        _ => 0,
    }
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
        let held;
        let stored: &[u8] = match bytes {
            Some(bytes) => {
                held = bytes;
                &held
            }
            None if work.split => {
                held = read_blob(part, &work, worker.stats())?;
                &held
            }
            None => {
                if let Some((ahead, ranges)) =
                    queue.ahead(part.reader.source().cost().largest_request)
                    && let Some(part) = parts.get(ahead)
                {
                    part.reader.source().will_need(&ranges);
                }
                let buffer = buffer.bytes(usize::try_from(n_bytes).unwrap_or(usize::MAX));
                let buffer = buffer.map_err(|error| RNTupleError::Memory {
                    bytes: n_bytes,
                    reason: error.to_string(),
                })?;
                let start = Instant::now();
                part.reader.source().read_into(work.range.start, buffer)?;
                count(worker.stats(), 1, 1, n_bytes, start);
                buffer
            }
        };
        let mut last = None;
        for job in &mut work.jobs {
            let range = job.range();
            let at = |offset: u64| usize::try_from(offset - work.range.start).unwrap_or(usize::MAX);
            let Some(page) = stored.get(at(range.start)..at(range.end)) else {
                let what = format!("bytes read for the page at offset {}", range.start);
                return Err(part
                    .reader
                    .inconsistent(&what, range.end - range.start, stored.len()));
            };
            if last.as_ref() != Some(&range) {
                add(&worker.stats().bytes_needed, range.end - range.start);
            }
            worker.decode(job, page)?;
            last = Some(range);
        }
        queue.done(n_bytes);
        progress.advance(n_bytes);
        tick()?;
    }
    Ok(())
}

fn read_blob<J>(part: &Part, work: &Work<J>, stats: &Stats) -> Result<Bytes, RNTupleError> {
    let start = Instant::now();
    let bytes = part.reader.read_blob(work.range.start, work.n_bytes())?;
    add(&stats.io_ns, elapsed(start));
    Ok(bytes)
}

fn count(stats: &Stats, requests: u64, ranges: u64, n_bytes: u64, start: Instant) {
    add(&stats.requests, requests);
    add(&stats.ranges, ranges);
    add(&stats.bytes_read, n_bytes);
    add(&stats.io_ns, elapsed(start));
}

/// One thread that waits for reads.
fn fetch<J>(parts: &[Part], queue: &Queue<J>) -> Result<(), RNTupleError> {
    while let Some(batch) = queue.take_batch(parts) {
        let Some(part) = batch.first().and_then(|work| parts.get(work.part)) else {
            return Err(RNTupleError::internal("the plan names what is not there"));
        };
        if batch.iter().any(|work| work.split) {
            for work in batch {
                let bytes = read_blob(part, &work, part.reader.stats())?;
                queue.put(work, bytes);
            }
            continue;
        }
        let ranges: Vec<Range<u64>> = batch.iter().map(|work| work.range.clone()).collect();
        let start = Instant::now();
        let answers = part.reader.source().read_ranges(&ranges)?;
        let n_bytes = batch.iter().map(Work::n_bytes).sum();
        count(part.reader.stats(), 1, ranges.len() as u64, n_bytes, start);
        for (work, bytes) in batch.into_iter().zip(answers) {
            queue.put(work, bytes);
        }
    }
    Ok(())
}

/// Bytes that a list of works will fetch.
pub fn total_bytes<J>(work: &[Work<J>]) -> u64 {
    work.iter().map(Work::n_bytes).sum()
}

/// For a plan's summary: number of requests, and bytes they fetch.
pub fn cost_of(source: &dyn ByteSource, ranges: &[Range<u64>]) -> (u64, u64) {
    let requests = coalesce(ranges, &source.cost());
    (
        requests.len() as u64,
        requests.iter().map(|r| r.range.end - r.range.start).sum(),
    )
}
