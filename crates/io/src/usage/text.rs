//! Reads in some lines for people.

use std::fmt::Write;
use std::time::Duration;

use super::rates::real;
use super::{Totals, Usage};
use crate::units::{bytes, decimals, plural};

/// Bars of a plot in a line.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Limit of the ratio of read to used bytes for a meaningful percentage.
const MOST_MORE: u64 = 10;

/// Bins of a plot over time.
pub(crate) const BINS: usize = 40;

/// A summary of reads in some lines, for people; `real` and `processor` are the times taken.
#[must_use]
pub fn summary(usages: &[Usage], real: Duration, processor: Duration) -> String {
    Totals::of(usages).summary(real, processor)
}

impl Totals {
    /// A summary in some lines, for people; `real` and `processor` are the times taken.
    #[must_use]
    pub fn summary(&self, real: Duration, processor: Duration) -> String {
        let mut out = self.counts(real, processor);
        if let Some(over_time) = self.rates.over(BINS) {
            let _ = write!(out, "\n{}", rate_lines(&over_time, 1));
        }
        out
    }

    /// A summary without the plot over time.
    pub(crate) fn counts(&self, real: Duration, processor: Duration) -> String {
        let (size, read, used) = (self.size, self.metered.bytes, self.metered.used);
        let cached = self.cached;
        let files = plural(self.files, "file");
        let mut out = format!(
            "{files} of {}: {} read ({})",
            bytes(size),
            bytes(read),
            percent(read, size)
        );
        if cached.is_used() {
            let _ = write!(
                out,
                ", {} from the cache ({} of {})",
                bytes(cached.hit_bytes),
                cached.hits,
                plural(cached.hits + cached.misses, "range"),
            );
            if cached.bad > 0 {
                let _ = write!(out, " (damaged entries: {})", cached.bad);
            }
        }
        if used > 0 {
            let _ = write!(out, ", {} of it used", bytes(used));
            let more = (read + cached.hit_bytes).saturating_sub(used);
            // if little but the ends of files was read, as at opening, a percentage is meaningless
            if more / MOST_MORE < used {
                let _ = write!(out, " ({} more read)", percent(more, used));
            }
        }
        let _ = write!(
            out,
            "\n{} in {} of {}; {} retried, {} failed",
            plural(self.traffic.requests, "request"),
            plural(self.metered.vectors, "vector read"),
            plural(self.metered.ranges, "range"),
            self.traffic.retries,
            self.metered.failed,
        );
        let (real, processor) = (real.as_secs_f64(), processor.as_secs_f64());
        let _ = write!(
            out,
            "\n{} s wall time, {} s CPU time ({}), {} s waiting for data, summed over threads",
            three(real),
            three(processor),
            three(if real > 0.0 { processor / real } else { 0.0 }),
            three(self.metered.waiting.as_secs_f64()),
        );
        out
    }
}

/// Peak, mean and a plot of so many rows, from the width of bins in seconds and the rate in each.
pub(crate) fn rate_lines((width, rates): &(f64, Vec<f64>), rows: usize) -> String {
    format!(
        "{}/s at the peak, {}/s on average; over time, {} s per bar:\n{}",
        rate_text(peak(rates)),
        rate_text(mean(rates)),
        three(*width),
        plot(rates, rows)
    )
}

pub(crate) fn peak(rates: &[f64]) -> f64 {
    rates.iter().copied().fold(0.0, f64::max)
}

pub(crate) fn mean(rates: &[f64]) -> f64 {
    rates.iter().sum::<f64>() / real(rates.len().max(1))
}

/// A plot of values from 0 to the largest one, as lines of text.
#[must_use]
pub fn plot(values: &[f64], rows: usize) -> String {
    let most = peak(values);
    let levels = real(BARS.len() * rows) - 1.0;
    let level = |value: f64| match most > 0.0 {
        true => (value / most * levels).round(),
        false => 0.0,
    };
    let row = |row: usize| -> String {
        let below = real(row * BARS.len());
        let bar = |value: &f64| bar(level(*value) - below);
        values.iter().map(bar).collect()
    };
    (0..rows).rev().map(row).collect::<Vec<_>>().join("\n")
}

/// The bar of a level in a row, which is full above its highest and empty below its lowest.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between 0 and the number of bars"
)]
fn bar(level: f64) -> char {
    match level {
        level if level < 0.0 => ' ',
        level => BARS.get(level as usize).copied().unwrap_or('█'),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "no rate is near that of 64 bits"
)]
pub(crate) fn rate_text(rate: f64) -> String {
    bytes(rate.round() as u64)
}

/// A number with three digits.
pub(crate) fn three(value: f64) -> String {
    format!("{value:.*}", decimals(value))
}

#[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
pub(crate) fn percent(part: u64, whole: u64) -> String {
    match whole {
        0 => "0 %".to_owned(),
        whole => format!("{:.1} %", part as f64 / whole as f64 * 100.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::{CacheUse, Metered, Traffic};
    use crate::{Span, Stage};

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
            cached: CacheUse::default(),
            spans: vec![
                span(5, vec![0..1000]),
                span(7, vec![2000..3000, 4000..6000]),
            ],
        }
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

    #[test]
    fn plots_reach_from_nothing_to_the_largest_value() {
        assert_eq!(plot(&[0.0, 3.5, 7.0], 1), "▁▅█");
        assert_eq!(plot(&[0.0, 15.0, 7.0, 8.0], 2), " █ ▁\n▁███");
        assert_eq!(plot(&[0.0, 0.0], 1), "▁▁");
    }
}
