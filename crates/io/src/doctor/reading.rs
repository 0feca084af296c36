//! Measures an open file: latency of small reads, throughput of large ones, and the settings in effect.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::{Found, Opened, Way};
use crate::units::bytes;
use crate::{IoError, Settings, SourceCost, SourceMeta, on_threads};

/// Number of small reads; the median counts.
const SMALL_READS: u64 = 7;

/// Time limit of the measurement; a started read is finished.
const LONGEST: Duration = Duration::from_secs(10);

/// Size in bytes of the ranges for measuring the throughput.
const PIECE: u64 = 1 << 20;

/// The note if everything is in memory, so that nothing can be measured.
const HELD: &str = "not measured: opening has read the whole file";

/// Identity of a file.
pub fn identity(meta: &SourceMeta) -> String {
    let modified = meta.modified.map(httpdate::fmt_http_date);
    let parts = [
        Some(format!("{} bytes", meta.size)),
        modified.map(|date| format!("changed on {date}")),
        meta.etag.as_ref().map(|tag| format!("tag {tag}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

#[expect(clippy::cast_precision_loss, reason = "a rate of four digits")]
pub fn examine(way: &mut Way, source: Option<Opened>, settings: &Settings, n_bytes: u64) {
    way.step("latency", || {
        let Some(source) = &source else {
            return Ok(Found::new((), ""));
        };
        let size = source.meta().size;
        let before = source.traffic();
        let mut times = Vec::new();
        for i in 0..SMALL_READS.min(size) {
            // in the middle, where nothing was read ahead
            let at = size / 3 + size / 3 / SMALL_READS * i;
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
        let (n_read, n_vectors) = read(source, cost?, n_bytes)?;
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

/// Reads from the beginning, up to a number of bytes or a time limit; returns the numbers of bytes and of vector
/// reads.
fn read(source: &Opened, cost: SourceCost, n_bytes: u64) -> Result<(u64, u64), IoError> {
    let end = source.meta().size.min(n_bytes);
    let piece = PIECE.min(cost.largest_request);
    let n_ranges = (cost.largest_vector / piece).clamp(1, cost.most_ranges as u64);
    let vector = piece.saturating_mul(n_ranges);
    let starts = (0..end.div_ceil(vector)).map(|i| i * vector).collect();
    let (n_read, begin) = (AtomicU64::new(0), Instant::now());
    let threads = cost.concurrency.clamp(1, 64);
    let done = on_threads(&mut vec![(); threads], starts, |(), start: u64| {
        if begin.elapsed() > LONGEST {
            return Ok(0);
        }
        let stop = end.min(start + vector);
        let ranges: Vec<_> = (0..n_ranges)
            .map(|i| start + i * piece..stop.min(start + (i + 1) * piece))
            .filter(|range| range.start < range.end)
            .collect();
        source.read_ranges(&ranges)?;
        n_read.fetch_add(stop - start, Relaxed);
        Ok::<u64, IoError>(1)
    })?;
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
