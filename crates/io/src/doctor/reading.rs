//! Measures an open file: latency of small reads, throughput of large ones, and the settings in effect.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::{Found, Opened, Readable, Way};
use crate::units::bytes;
use crate::url::is_object_set;
use crate::{ByteSource, IoError, Settings, SourceCost, on_threads, pieces};

/// Number of small reads; the median counts.
const SMALL_READS: u64 = 7;

/// Time limit of the measurement; a started read is finished.
const LONGEST: Duration = Duration::from_secs(10);

/// Largest size in bytes of the ranges for measuring the throughput.
pub const PIECE: u64 = 1 << 20;

/// The note if everything is in memory, so that nothing can be measured.
const HELD: &str = "not measured: opening has read the whole file";

/// Identity of a file. Objects have an address space, and no size.
pub fn identity(source: &dyn ByteSource) -> String {
    let meta = source.meta();
    let modified = meta.modified.map(httpdate::fmt_http_date);
    let parts = [
        (!is_object_set(source.url())).then(|| format!("{} bytes", meta.size)),
        modified.map(|date| format!("changed on {date}")),
        meta.etag.as_ref().map(|tag| format!("tag {tag}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Measures reads of a source, which has something in these ranges.
#[expect(clippy::cast_precision_loss, reason = "a rate of four digits")]
pub fn examine(way: &mut Way, opened: Option<Readable>, settings: &Settings, n_bytes: u64) {
    let (source, ranges) = opened.unzip();
    let ranges = ranges.unwrap_or_default();
    way.step("latency", || {
        let Some(source) = &source else {
            return Ok(Found::new((), ""));
        };
        let size = ranges
            .iter()
            .map(|range| range.end - range.start)
            .sum::<u64>();
        let before = source.traffic();
        let mut times = Vec::new();
        for i in 0..SMALL_READS.min(size) {
            // in the middle, where nothing was read ahead
            let Some(at) = place(&ranges, size / 3 + size / 3 / SMALL_READS * i) else {
                continue;
            };
            let start = Instant::now();
            source.read_ranges(&[at..at + 1])?;
            times.push(start.elapsed());
        }
        times.sort_unstable();
        let is_held = before.is_some() && before == source.traffic();
        let middle = times.get(times.len() / 2).copied().filter(|_| !is_held);
        let note = match middle {
            Some(_) => format!("for 1 byte: median of {}", times.len()),
            None => HELD.to_owned(),
        };
        Ok(Found::new((), note).taking(middle))
    });
    let cost = source.as_ref().map(|source| settings.cost(source.cost()));
    way.step("throughput", || {
        let (Some(source), Some(cost)) = (&source, cost) else {
            return Ok(Found::new((), ""));
        };
        let (start, before) = (Instant::now(), source.traffic());
        let (n_read, n_vectors) = read(source, &ranges, cost?, n_bytes)?;
        let time = start.elapsed();
        if before.is_some() && before == source.traffic() {
            return Ok(Found::new((), HELD).taking(None));
        }
        let rate = n_read as f64 / time.as_secs_f64().max(1e-9) / 1e6;
        let plural = if n_vectors == 1 { "" } else { "s" };
        let note = format!(
            "{rate:.1} MB/s: {} in {n_vectors} vector read{plural}",
            bytes(n_read)
        );
        Ok(Found::new((), note).taking(Some(time)))
    });
    way.step("settings", || {
        let Some(source) = &source else {
            return Ok(Found::new((), ""));
        };
        let cost = settings.cost(source.cost())?;
        Ok(Found::new((), described(&cost, settings)?).taking(None))
    });
}

/// The place of a byte of these ranges.
fn place(ranges: &[Range<u64>], mut number: u64) -> Option<u64> {
    for range in ranges {
        let size = range.end - range.start;
        if number < size {
            return Some(range.start + number);
        }
        number -= size;
    }
    None
}

/// Reads ranges, up to a number of bytes or a time limit; returns the numbers of bytes and of vector reads.
fn read(
    source: &Opened,
    ranges: &[Range<u64>],
    cost: SourceCost,
    n_bytes: u64,
) -> Result<(u64, u64), IoError> {
    let piece = PIECE.min(cost.largest_request);
    let (mut vectors, mut last, mut n_last) = (Vec::new(), Vec::new(), 0);
    let mut left = n_bytes;
    for range in ranges {
        let end = range.end.min(range.start.saturating_add(left));
        left -= end - range.start;
        for part in pieces(end - range.start, piece) {
            let part = range.start + part.start..range.start + part.end;
            let n = part.end - part.start;
            if last.len() == cost.most_ranges.max(1) || n_last + n > cost.largest_vector {
                vectors.push(std::mem::take(&mut last));
                n_last = 0;
            }
            last.push(part);
            n_last += n;
        }
    }
    vectors.push(last);
    vectors.retain(|vector| !vector.is_empty());
    let (n_read, begin) = (AtomicU64::new(0), Instant::now());
    let threads = cost.concurrency.clamp(1, 64);
    let done = on_threads(
        &mut vec![(); threads],
        vectors,
        |(), ranges: Vec<Range<u64>>| {
            if begin.elapsed() > LONGEST {
                return Ok(0);
            }
            source.read_ranges(&ranges)?;
            let n = ranges.iter().map(|range| range.end - range.start).sum();
            n_read.fetch_add(n, Relaxed);
            Ok::<u64, IoError>(1)
        },
    )?;
    Ok((n_read.into_inner(), done.into_iter().sum()))
}

/// The effective read settings, and where each was set.
fn described(cost: &SourceCost, settings: &Settings) -> Result<String, IoError> {
    let all = [
        ("concurrency", cost.concurrency.to_string()),
        ("in_flight", bytes(cost.in_flight)),
        ("largest_gap", bytes(cost.largest_gap)),
        ("largest_request", bytes(cost.largest_request)),
        ("largest_vector", bytes(cost.largest_vector)),
    ];
    let mut out = Vec::new();
    for (name, value) in all {
        let place = settings.place(name)?;
        out.push(match place {
            Some(place) => format!("{name} {value} ({place})"),
            None => format!("{name} {value}"),
        });
    }
    Ok(out.join(", "))
}
