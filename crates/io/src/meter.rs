//! Requests to a source, with times.

use std::collections::BTreeMap;
use std::ops::{AddAssign, Range};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant, SystemTime};

use femtobarn_fork::lock;

use crate::SourceCost;
use crate::url::server;
use crate::usage::note_rate;

/// Maximum number of ranges whose times are recorded; counters continue beyond that.
const MOST_REMEMBERED: usize = 200_000;

/// When this process first asked what time it is; times of reads are counted from here.
static BEGINNING: LazyLock<(Instant, SystemTime)> =
    LazyLock::new(|| (Instant::now(), SystemTime::now()));

/// What a read was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// What opening needs: both ends of the file, headers, footers.
    Open,
    /// Page lists, and other locations of pages.
    Lists,
    /// Pages, baskets, and objects.
    Data,
}

impl Stage {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Lists => "lists",
            Self::Data => "data",
        }
    }
}

impl Span {
    /// Number of bytes that were asked for.
    #[must_use]
    pub fn n_bytes(&self) -> u64 {
        n_bytes(&self.ranges)
    }
}

fn n_bytes(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|r| r.end.saturating_sub(r.start)).sum()
}

/// One vector read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Its purpose.
    pub stage: Stage,
    /// When it began, after [`beginning`].
    pub start: Duration,
    /// How long it took.
    pub duration: Duration,
    /// Requested ranges.
    pub ranges: Vec<Range<u64>>,
    /// Whether it was answered.
    pub is_answered: bool,
}

/// The vector read by which a source was opened that makes it by itself, before anybody can count it.
#[derive(Debug, Clone)]
pub struct Opening {
    /// When it began.
    pub start: Instant,
    /// How long it took, with the connection.
    pub duration: Duration,
    /// What came, also twice.
    pub ranges: Vec<Range<u64>>,
}

impl Opening {
    /// One that began then, and has just ended.
    pub(crate) fn since(start: Instant, ranges: Vec<Range<u64>>) -> Self {
        let duration = start.elapsed();
        Self {
            start,
            duration,
            ranges,
        }
    }
}

/// The time from which spans are counted.
#[must_use]
pub fn beginning() -> SystemTime {
    BEGINNING.1
}

/// What a server was really asked, retries included: what its own log would say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Requests for bytes.
    pub requests: u64,
    /// Requests that were made again after a failure.
    pub retries: u64,
}

/// What a cache was asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheUse {
    /// Ranges that were held completely.
    pub hits: u64,
    /// Bytes that came from the cache.
    pub hit_bytes: u64,
    /// Ranges of which something was missing.
    pub misses: u64,
    /// Hits that were reads of one range.
    pub single_hits: u64,
    /// Misses that were reads of one range.
    pub single_misses: u64,
    /// Bytes that were read from the server, to be kept.
    pub fetched_bytes: u64,
    /// Entries that were damaged, and replaced.
    pub bad: u64,
}

impl CacheUse {
    /// Whether there was a cache.
    #[must_use]
    pub fn is_used(&self) -> bool {
        self.hits + self.misses > 0
    }
}

impl Traffic {
    /// None.
    pub const NONE: Self = Self {
        requests: 0,
        retries: 0,
    };
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        self.requests += other.requests;
        self.retries += other.retries;
    }
}

impl CacheUse {
    /// No use.
    pub const NONE: Self = Self {
        hits: 0,
        hit_bytes: 0,
        misses: 0,
        single_hits: 0,
        single_misses: 0,
        fetched_bytes: 0,
        bad: 0,
    };
}

impl AddAssign for CacheUse {
    fn add_assign(&mut self, other: Self) {
        self.hits += other.hits;
        self.hit_bytes += other.hit_bytes;
        self.misses += other.misses;
        self.single_hits += other.single_hits;
        self.single_misses += other.single_misses;
        self.fetched_bytes += other.fetched_bytes;
        self.bad += other.bad;
    }
}

/// Number, sum and sum of squares of values.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spread {
    /// Number of values.
    pub n: u64,
    /// Their sum.
    pub sum: u64,
    /// The sum of their squares.
    squares: f64,
}

impl Spread {
    /// Adds a value.
    #[expect(clippy::cast_precision_loss, reason = "a statistic")]
    pub fn add(&mut self, value: u64) {
        self.n += 1;
        self.sum += value;
        self.squares += (value as f64).powi(2);
    }

    /// The mean; none without values.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a statistic")]
    pub fn mean(&self) -> Option<f64> {
        (self.n > 0).then(|| self.sum as f64 / self.n as f64)
    }

    /// The standard deviation; none without values.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a statistic")]
    pub fn sigma(&self) -> Option<f64> {
        let mean = self.mean()?;
        let variance = self.squares / self.n as f64 - mean * mean;
        Some(variance.max(0.0).sqrt())
    }
}

impl AddAssign for Spread {
    fn add_assign(&mut self, other: Self) {
        self.n += other.n;
        self.sum += other.sum;
        self.squares += other.squares;
    }
}

/// The reads of one server.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Reads {
    /// Bytes of reads of one range.
    pub single: Spread,
    /// Bytes of reads of several ranges.
    pub vector: Spread,
    /// Number of ranges of each of these.
    pub ranges: Spread,
    /// Reads that failed.
    pub failed: u64,
    /// Time in reads, summed over threads.
    pub waiting: Duration,
}

impl Reads {
    /// Counts a read.
    pub(crate) fn note(&mut self, ranges: &[Range<u64>], duration: Duration, is_answered: bool) {
        self.waiting += duration;
        match (is_answered, ranges) {
            (false, _) => self.failed += 1,
            (true, [one]) => self.single.add(one.end.saturating_sub(one.start)),
            (true, ranges) => {
                self.vector.add(n_bytes(ranges));
                self.ranges.add(ranges.len() as u64);
            }
        }
    }

    /// Bytes that were read.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.single.sum + self.vector.sum
    }
}

impl AddAssign for Reads {
    fn add_assign(&mut self, other: Self) {
        self.single += other.single;
        self.vector += other.vector;
        self.ranges += other.ranges;
        self.failed += other.failed;
        self.waiting += other.waiting;
    }
}

/// The counters of [`Traffic`], for sources.
#[derive(Debug, Default)]
pub(crate) struct TrafficCounters {
    requests: AtomicU64,
    retries: AtomicU64,
    /// Bytes of answers that arrived.
    received: Arc<AtomicU64>,
}

impl TrafficCounters {
    /// Notes a request.
    pub fn ask(&self) {
        self.requests.fetch_add(1, Relaxed);
    }

    /// Notes that one is made again.
    pub fn retry(&self) {
        self.retries.fetch_add(1, Relaxed);
    }

    /// Counts bytes of answers as they arrive.
    pub fn received(&self) -> Arc<AtomicU64> {
        self.received.clone()
    }

    /// How many bytes of answers have arrived.
    pub fn n_received(&self) -> u64 {
        self.received.load(Relaxed)
    }

    /// Their current values.
    pub fn now(&self) -> Traffic {
        Traffic {
            requests: self.requests.load(Relaxed),
            retries: self.retries.load(Relaxed),
        }
    }
}

/// How quick the way to a server is, as measured by all files that are read from it.
#[derive(Debug, Default)]
pub(crate) struct Way {
    /// Nanoseconds of the quickest read; none yet is 0.
    quickest: AtomicU64,
    /// Bytes a second while data were read, or 0.
    rate: AtomicU64,
}

impl Way {
    /// That to the server of a URL.
    pub fn to(url: &str) -> Arc<Self> {
        static WAYS: Mutex<BTreeMap<String, Arc<Way>>> = Mutex::new(BTreeMap::new());
        let mut ways = lock(&WAYS);
        ways.entry(server(url)).or_default().clone()
    }
}

/// Counters of a source's reads, and the reads themselves as long as they are not too many.
#[derive(Debug, Default)]
pub struct Meter {
    vectors: AtomicU64,
    ranges: AtomicU64,
    bytes: AtomicU64,
    used: AtomicU64,
    failed: AtomicU64,
    waiting: AtomicU64,
    way: Arc<Way>,
    remembered: AtomicUsize,
    spans: Mutex<Vec<Span>>,
}

/// What a [`Meter`] has counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Metered {
    /// Vector reads.
    pub vectors: u64,
    /// Ranges in them.
    pub ranges: u64,
    /// Bytes that were asked for.
    pub bytes: u64,
    /// Those that were requested: the others were between, or came with the ends of the file.
    pub used: u64,
    /// Vector reads that failed.
    pub failed: u64,
    /// Time in them, summed over threads.
    pub waiting: Duration,
}

impl Metered {
    /// None.
    pub const NONE: Self = Self {
        vectors: 0,
        ranges: 0,
        bytes: 0,
        used: 0,
        failed: 0,
        waiting: Duration::ZERO,
    };

    /// What a server without counters was asked: each range is a request.
    #[must_use]
    pub fn as_traffic(&self) -> Traffic {
        Traffic {
            requests: self.ranges,
            retries: 0,
        }
    }
}

impl AddAssign for Metered {
    fn add_assign(&mut self, other: Self) {
        self.vectors += other.vectors;
        self.ranges += other.ranges;
        self.bytes += other.bytes;
        self.used += other.used;
        self.failed += other.failed;
        self.waiting += other.waiting;
    }
}

impl Meter {
    /// That of a new source.
    pub(crate) fn of(url: &str) -> Self {
        Self {
            way: Way::to(url),
            ..Self::default()
        }
    }

    /// Notes a vector read that began at `start` and has just ended.
    pub fn note(&self, stage: Stage, start: Instant, ranges: &[Range<u64>], is_answered: bool) {
        self.noted(stage, start, start.elapsed(), ranges, is_answered);
    }

    /// Notes the vector read by which a source was opened.
    pub(crate) fn note_opening(&self, opening: &Opening) {
        self.noted(
            Stage::Open,
            opening.start,
            opening.duration,
            &opening.ranges,
            true,
        );
    }

    fn noted(
        &self,
        stage: Stage,
        start: Instant,
        duration: Duration,
        ranges: &[Range<u64>],
        is_answered: bool,
    ) {
        let nanoseconds = nanoseconds(duration);
        // nothing has come of a read that failed
        let bytes = if is_answered { n_bytes(ranges) } else { 0 };
        let start = start.saturating_duration_since(BEGINNING.0);
        note_rate(start, duration, bytes);
        self.vectors.fetch_add(1, Relaxed);
        self.ranges.fetch_add(ranges.len() as u64, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
        self.waiting.fetch_add(nanoseconds, Relaxed);
        if is_answered && bytes > 0 {
            let quicker = |known| (known == 0 || nanoseconds < known).then_some(nanoseconds.max(1));
            let _ = self.way.quickest.fetch_update(Relaxed, Relaxed, quicker);
        }
        if !is_answered {
            self.failed.fetch_add(1, Relaxed);
        }
        if self.remembered.fetch_add(ranges.len(), Relaxed) < MOST_REMEMBERED {
            let mut spans = lock(&self.spans);
            spans.push(Span {
                stage,
                start,
                duration,
                ranges: ranges.to_vec(),
                is_answered,
            });
        }
    }

    /// Notes that so many of the bytes that were read were wanted.
    pub fn note_used(&self, bytes: u64) {
        self.used.fetch_add(bytes, Relaxed);
    }

    /// Notes at which rate data came lately, in bytes a second.
    pub fn note_rate(&self, rate: u64) {
        self.way.rate.store(rate, Relaxed);
    }

    /// How many vector reads are worth having in flight: what the way to the source holds, which is its bandwidth times
    /// its delay, both as measured, in vector reads, and two more. Before anything is known, what the source can.
    #[must_use]
    pub fn depth(&self, cost: &SourceCost) -> usize {
        let (rate, delay) = (self.way.rate.load(Relaxed), self.way.quickest.load(Relaxed));
        let most = cost.concurrency.max(1);
        if rate == 0 || delay == 0 {
            return most;
        }
        let held = u128::from(rate) * u128::from(delay) / 1_000_000_000;
        let vectors = held / u128::from(cost.largest_vector.max(1));
        usize::try_from(vectors).map_or(most, |n| n.saturating_add(2).min(most))
    }

    /// How many bytes arrive in the time of so many round trips, as far as reads have shown.
    #[must_use]
    pub fn arrives_within(&self, round_trips: u64) -> Option<u64> {
        let delay = self.way.quickest.load(Relaxed);
        let spans = lock(&self.spans);
        let answered = spans.iter().filter(|span| span.is_answered);
        let largest = answered.max_by_key(|span| span.n_bytes())?;
        let time = nanoseconds(largest.duration);
        // nothing took less time than the quickest read; that one was a round trip, or more
        let time = match time.saturating_sub(delay) {
            0 => time,
            transfer => transfer,
        };
        let bytes = u128::from(largest.n_bytes()) * u128::from(delay.saturating_mul(round_trips));
        drop(spans);
        u64::try_from(bytes / u128::from(time.max(1))).ok()
    }

    /// Its counters.
    #[must_use]
    pub fn now(&self) -> Metered {
        Metered {
            vectors: self.vectors.load(Relaxed),
            ranges: self.ranges.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            used: self.used.load(Relaxed),
            failed: self.failed.load(Relaxed),
            waiting: Duration::from_nanos(self.waiting.load(Relaxed)),
        }
    }

    /// The vector reads that are remembered, in the order of their ends: all, if they are as many as are counted.
    #[must_use]
    pub fn spans(&self) -> Vec<Span> {
        lock(&self.spans).clone()
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use femtobarn_testkit::in_a_fork;

    use super::*;

    #[test]
    fn a_forked_process_counts_while_threads_of_its_parent_do() {
        let meter = Meter::default();
        let goes_on = AtomicBool::new(true);
        let note = || meter.note(Stage::Data, Instant::now(), &[0..1], true);
        (0..10_000).for_each(|_| note());
        thread::scope(|scope| {
            scope.spawn(|| {
                while goes_on.load(Relaxed) {
                    drop(meter.spans());
                }
            });
            let is_counted = (0..20).all(|_| {
                in_a_fork(|| {
                    note();
                    meter.spans().len() == 10_001
                })
            });
            goes_on.store(false, Relaxed);
            assert!(is_counted);
        });
    }

    #[test]
    fn the_depth_is_what_the_way_to_the_source_holds() {
        let meter = Meter::default();
        let cost = SourceCost {
            concurrency: 8,
            largest_vector: 1_000_000,
            ..SourceCost::default()
        };
        assert_eq!(meter.depth(&cost), 8);
        meter.way.quickest.store(50_000_000, Relaxed);
        for (rate, depth) in [(1_000_000, 2), (100_000_000, 7), (10_000_000_000, 8)] {
            meter.note_rate(rate);
            assert_eq!(meter.depth(&cost), depth, "{rate}");
        }
    }

    #[test]
    fn what_arrives_follows_from_the_largest_read_and_the_quickest() {
        let meter = Meter::default();
        assert_eq!(meter.arrives_within(8), None);
        let read = |n_bytes: u64, milliseconds: u64| {
            let (start, duration) = (Instant::now(), Duration::from_millis(milliseconds));
            meter.noted(Stage::Data, start, duration, &[0..n_bytes], true);
        };
        // alone, it may have been all delay
        read(300_000, 100);
        assert_eq!(meter.arrives_within(8), Some(2_400_000));
        read(100, 50);
        assert_eq!(meter.arrives_within(8), Some(2_400_000));
        read(10_000_000, 150);
        assert_eq!(meter.arrives_within(8), Some(40_000_000));
    }

    #[test]
    fn what_is_read_is_counted_and_failures_are_told_apart() {
        let meter = Meter::default();
        meter.note(Stage::Open, Instant::now(), &[0..10, 20..25], true);
        meter.note(Stage::Data, Instant::now(), &[0..1], false);
        let now = meter.now();
        assert_eq!(
            (now.vectors, now.ranges, now.bytes, now.failed),
            (2, 3, 15, 1)
        );
        let spans = meter.spans();
        assert_eq!(
            (spans.len(), spans[0].stage, spans[1].is_answered),
            (2, Stage::Open, false)
        );
        assert!(meter.way.quickest.load(Relaxed) > 0);
    }
}
