//! What files were asked for, as people want to know it: of one source, or of all that a process has opened.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::meter::{Meter, Metered, Span, Traffic};
use crate::units::{bytes, decimals};
use crate::{ByteSource, SourceInfo, SourceState, SourceStatus};

/// The reads of one source.
#[derive(Debug, Clone, PartialEq)]
pub struct Usage {
    /// Its URL, without secrets.
    pub url: String,
    /// Its size in bytes.
    pub size: u64,
    /// Counters of its reads.
    pub metered: Metered,
    /// What its server was asked; for sources without counters, each range is a request.
    pub traffic: Traffic,
    /// The reads, the first ones of very many.
    pub spans: Vec<Span>,
    /// The servers that it was read from, if there were several and it is closed.
    pub sources: Vec<SourceStatus>,
}

impl Usage {
    /// That of a source or a store, with the requests that its server got; none if its reads are not counted.
    pub fn of(info: SourceInfo<'_>, traffic: Option<Traffic>) -> Option<Self> {
        let (url, size) = (info.url.to_owned(), info.meta.size);
        Some(Self::new(url, size, info.meter?, traffic))
    }

    /// The file as its only source.
    #[must_use]
    pub fn as_source(&self) -> SourceStatus {
        SourceStatus {
            url: self.url.clone(),
            server: None,
            state: SourceState::Active,
            quality: None,
            rate: None,
            n_bytes: self.metered.bytes,
            n_requests: self.metered.vectors,
            errors: Vec::new(),
        }
    }

    fn new(url: String, size: u64, meter: &Meter, traffic: Option<Traffic>) -> Self {
        let metered = meter.now();
        Self {
            url,
            size,
            metered,
            traffic: traffic.unwrap_or(Traffic {
                requests: metered.ranges,
                retries: 0,
            }),
            spans: meter.spans(),
            sources: meter.sources(),
        }
    }
}

/// Notes that so many of the bytes that were read of a source were wanted, if its reads are counted.
pub fn note_used(source: &dyn ByteSource, bytes: u64) {
    if let Some(meter) = source.meter() {
        meter.note_used(bytes);
    }
}

/// A source that was opened: its URL, its size, its counters.
type Opened = (String, u64, Arc<Meter>);

static WATCHED: Mutex<Option<Vec<Opened>>> = Mutex::new(None);

/// From now on, reads of each opened source are recorded; see [`watched`].
pub fn watch_all() {
    let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    watched.get_or_insert_default();
}

/// The reads of all sources opened since [`watch_all`], in order.
#[must_use]
pub fn watched() -> Vec<Usage> {
    let watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    let all = watched.iter().flatten();
    all.map(|(url, size, meter)| Usage::new(url.clone(), *size, meter, meter.traffic()))
        .collect()
}

pub(crate) fn watch(url: &str, size: u64, meter: &Arc<Meter>) {
    let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(watched) = watched.as_mut() {
        watched.push((url.to_owned(), size, meter.clone()));
    }
}

/// Bars of a histogram in a line.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Limit of the ratio of read to used bytes for a meaningful percentage.
const MOST_MORE: u64 = 10;

/// Bins of the histogram over time.
const BINS: usize = 40;

/// A summary of reads in some lines, for people; `real` and `processor` are the times taken.
#[must_use]
pub fn summary(usages: &[Usage], real: Duration, processor: Duration) -> String {
    let sum = |of: fn(&Usage) -> u64| usages.iter().map(of).sum::<u64>();
    // one that was opened several times is one file
    let sizes: BTreeMap<&str, u64> = usages.iter().map(|u| (u.url.as_str(), u.size)).collect();
    let (size, read, used) = (
        sizes.values().sum(),
        sum(|u| u.metered.bytes),
        sum(|u| u.metered.used),
    );
    let waiting: Duration = usages.iter().map(|u| u.metered.waiting).sum();
    let files = match sizes.len() {
        1 => "1 file".to_owned(),
        n => format!("{n} files"),
    };
    let mut out = format!(
        "{files} of {}: {} read ({})",
        bytes(size),
        bytes(read),
        percent(read, size)
    );
    if used > 0 {
        let _ = write!(out, ", {} of it used", bytes(used));
        let more = read.saturating_sub(used);
        // if little but the ends of files was read, as at opening, a percentage is meaningless
        if more / MOST_MORE < used {
            let _ = write!(out, " ({} more read)", percent(more, used));
        }
    }
    let _ = write!(
        out,
        "\n{} in {} of {}; {} retried, {} failed",
        counted(sum(|u| u.traffic.requests), "request"),
        counted(sum(|u| u.metered.vectors), "vector read"),
        counted(sum(|u| u.metered.ranges), "range"),
        sum(|u| u.traffic.retries),
        sum(|u| u.metered.failed),
    );
    for source in usages.iter().flat_map(|usage| &usage.sources) {
        let _ = write!(out, "\n{source}");
    }
    let (real, processor) = (real.as_secs_f64(), processor.as_secs_f64());
    let _ = write!(
        out,
        "\n{} s wall time, {} s CPU time ({}), {} s waiting for data, summed over threads",
        three(real),
        three(processor),
        three(if real > 0.0 { processor / real } else { 0.0 }),
        three(waiting.as_secs_f64()),
    );
    let over_time = rates(usages, BINS);
    if let Some((width, rates)) = over_time {
        let most = rates.iter().copied().fold(0.0, f64::max);
        let line: String = rates.iter().filter_map(|rate| bar(*rate, most)).collect();
        let _ = write!(
            out,
            "\n{}/s at the peak, {}/s on average; over time, {} s per bar:\n{line}",
            rate_text(most),
            rate_text(rates.iter().sum::<f64>() / real_number(rates.len())),
            three(width),
        );
    }
    out
}

/// A number of things.
fn counted(n: u64, what: &str) -> String {
    match n {
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    }
}

/// Bytes a second in equal parts of the time from the first read to the last, and the width of one part in seconds. The
/// bytes of a read are spread over its time.
#[must_use]
pub fn rates(usages: &[Usage], bins: usize) -> Option<(f64, Vec<f64>)> {
    let spans = || usages.iter().flat_map(|usage| &usage.spans);
    let start = spans().map(|span| span.start).min()?.as_secs_f64();
    let end = |span: &Span| (span.start + span.duration).as_secs_f64();
    let last = spans().map(end).fold(start, f64::max);
    let width = (last - start) / real_number(bins);
    if width <= 0.0 {
        return None;
    }
    let mut rates = vec![0.0; bins];
    for span in spans() {
        let (from, to) = (span.start.as_secs_f64() - start, end(span) - start);
        let n_bytes: u64 = span
            .ranges
            .iter()
            .map(|r| r.end.saturating_sub(r.start))
            .sum();
        let rate =
            real_number(usize::try_from(n_bytes).unwrap_or(usize::MAX)) / (to - from).max(1e-9);
        for (at, bin) in rates.iter_mut().enumerate() {
            let (low, high) = (real_number(at) * width, real_number(at + 1) * width);
            let common = (to.min(high) - from.max(low)).max(0.0);
            *bin += rate * common / width;
        }
    }
    Some((width, rates))
}

#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
fn real_number(n: usize) -> f64 {
    n as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between 0 and the number of bars"
)]
fn bar(rate: f64, most: f64) -> Option<char> {
    let at = if most > 0.0 {
        rate / most * real_number(BARS.len() - 1)
    } else {
        0.0
    };
    BARS.get(at.round() as usize).copied()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "no rate is near that of 64 bits"
)]
fn rate_text(rate: f64) -> String {
    bytes(rate.round() as u64)
}

fn three(value: f64) -> String {
    format!("{value:.*}", decimals(value))
}

#[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
fn percent(part: u64, whole: u64) -> String {
    match whole {
        0 => "0 %".to_owned(),
        whole => format!("{:.1} %", part as f64 / whole as f64 * 100.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stage;

    fn usage() -> Usage {
        let span = |start, ranges: Vec<std::ops::Range<u64>>| Span {
            stage: Stage::Data,
            start: Duration::from_secs(start),
            duration: Duration::from_secs(1),
            ranges,
            is_answered: true,
        };
        Usage {
            url: "root://h//f".to_owned(),
            size: 10_000,
            metered: Metered {
                vectors: 2,
                ranges: 3,
                bytes: 4000,
                used: 3900,
                waiting: Duration::from_secs(2),
                ..Metered::default()
            },
            traffic: Traffic {
                requests: 2,
                retries: 1,
            },
            spans: vec![
                span(5, vec![0..1000]),
                span(7, vec![2000..3000, 4000..6000]),
            ],
            sources: Vec::new(),
        }
    }

    #[test]
    fn bytes_are_spread_over_the_time_of_their_read() {
        let (width, found) = rates(&[usage()], 6).unwrap();
        assert!((width - 0.5).abs() < 1e-9);
        let rounded: Vec<f64> = found.iter().map(|rate| rate.round()).collect();
        assert_eq!(rounded, [1000.0, 1000.0, 0.0, 0.0, 3000.0, 3000.0]);
        assert_eq!(rates(&[], 6), None);
    }

    #[test]
    fn a_summary_says_what_was_read_and_how() {
        let text = summary(
            &[usage()],
            Duration::from_secs(3),
            Duration::from_millis(600),
        );
        for part in [
            "1 file of 10.0 kB: 4.00 kB read (40.0 %), 3.90 kB of it used (2.6 % more read)",
            "2 requests in 2 vector reads of 3 ranges; 1 retried, 0 failed",
            "3.00 s wall time, 0.60 s CPU time (0.20), 2.00 s waiting for data",
            "3.00 kB/s at the peak, 1.33 kB/s on average",
        ] {
            assert!(text.contains(part), "{text}");
        }
        let mut opened = usage();
        opened.metered.used = 10;
        opened.metered.vectors = 1;
        let text = summary(&[opened], Duration::ZERO, Duration::ZERO);
        assert!(
            text.contains("10 B of it used\n2 requests in 1 vector read of 3 ranges"),
            "{text}"
        );
        assert_eq!(text.lines().last().unwrap().chars().count(), BINS);
        assert!(summary(&[], Duration::ZERO, Duration::ZERO).starts_with("0 files of 0 B"));
    }
}
