//! How quick a source is: what its last answers took. Pure; times are counted from any beginning.

use std::collections::VecDeque;
use std::time::Duration;

use crate::units::real;

/// The answers of so long are one interval.
const INTERVAL: Duration = Duration::from_secs(2);

/// So many intervals with answers are remembered.
const INTERVALS: usize = 5;

/// The size of a request whose time is the quality of a source.
const REQUEST: f64 = 256.0 * 1024.0;

/// Of an answer up to this size, most of the time is delay.
const SMALL: u64 = 512 << 10;

/// The quality of a source about which nothing is known, in seconds: 10 ms, and 256 KiB at 1 MB/s.
const UNKNOWN: f64 = 0.26;

/// The rate of a source is known after so many bytes, or so many seconds of reading.
const KNOWN: (f64, f64) = ((1 << 20) as f64, 0.5);

/// Answers of one interval.
#[derive(Debug, Clone, Copy)]
struct Interval {
    start: Duration,
    n_bytes: f64,
    /// Seconds in which an answer was awaited.
    busy: f64,
}

/// Measures one source.
#[derive(Debug, Clone, Default)]
pub(super) struct Quality {
    intervals: VecDeque<Interval>,
    /// Seconds that the quickest answer to a small request took.
    quickest: Option<f64>,
    /// Until when the time of waiting is counted; none if no answer is awaited.
    counted: Option<Duration>,
}

impl Quality {
    /// An answer is awaited from now on.
    pub fn begins(&mut self, now: Duration) {
        self.counted.get_or_insert(now);
    }

    /// An answer of `n_bytes` came; `awaits` tells whether others are awaited.
    pub fn came(&mut self, now: Duration, n_bytes: u64, awaits: bool) {
        self.add(now, real(n_bytes), awaits);
    }

    /// An answer of `n_bytes` took so long, with no other before it.
    pub fn took(&mut self, n_bytes: u64, took: Duration) {
        if n_bytes <= SMALL {
            let took = took.as_secs_f64();
            self.quickest = Some(self.quickest.map_or(took, |known| known.min(took)));
        }
    }

    /// An answer that was awaited will not come: the time counts, as nothing came in it.
    pub fn stopped(&mut self, now: Duration, awaits: bool) {
        self.add(now, 0.0, awaits);
    }

    fn add(&mut self, now: Duration, n_bytes: f64, awaits: bool) {
        let since = self.counted.unwrap_or(now);
        let busy = now.saturating_sub(since).as_secs_f64();
        self.counted = awaits.then_some(now);
        let is_current = |last: &&mut Interval| now.saturating_sub(last.start) < INTERVAL;
        match self.intervals.back_mut().filter(is_current) {
            Some(last) => {
                last.n_bytes += n_bytes;
                last.busy += busy;
            }
            None => {
                if self.intervals.len() == INTERVALS {
                    self.intervals.pop_front();
                }
                self.intervals.push_back(Interval {
                    start: now,
                    n_bytes,
                    busy,
                });
            }
        }
    }

    /// Bytes a second while answers were awaited; none before enough came.
    pub fn rate(&self) -> Option<f64> {
        let n_bytes: f64 = self.intervals.iter().map(|i| i.n_bytes).sum();
        let busy: f64 = self.intervals.iter().map(|i| i.busy).sum();
        let is_known = n_bytes >= KNOWN.0 || busy >= KNOWN.1 && n_bytes > 0.0;
        is_known.then(|| n_bytes / busy.max(1e-6))
    }

    /// Seconds that the quickest answer took.
    pub fn delay(&self) -> Option<f64> {
        self.quickest
    }

    /// Whether anything is known.
    pub fn is_measured(&self) -> bool {
        self.rate().is_some() || self.delay().is_some()
    }

    /// Seconds that a request of 256 KiB takes.
    pub fn time(&self) -> f64 {
        match (self.rate(), self.delay()) {
            (Some(rate), delay) => delay.unwrap_or_default().max(REQUEST / rate),
            (None, Some(delay)) => delay,
            (None, None) => UNKNOWN,
        }
    }
}

/// A number of bytes; 0 for values that are not one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers of bytes in memory"
)]
pub(super) fn whole(n: f64) -> u64 {
    n as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn a_new_source_is_slow_until_it_was_measured() {
        let mut quality = Quality::default();
        assert_eq!((quality.time(), quality.rate()), (UNKNOWN, None));
        quality.begins(ms(0));
        quality.came(ms(50), 64 << 10, false);
        quality.took(64 << 10, ms(50));
        // how much comes in a second is not known yet, but how soon it comes
        assert_eq!((quality.time(), quality.rate()), (0.05, None));
    }

    #[test]
    fn the_rate_is_that_of_the_time_in_which_answers_were_awaited() {
        let mut quality = Quality::default();
        // two answers at once of 2 MB in 100 ms, then a pause, then again
        for start in [0, 5_000] {
            quality.begins(ms(start));
            quality.begins(ms(start + 10));
            quality.came(ms(start + 60), 400_000, true);
            quality.came(ms(start + 100), 1_600_000, false);
        }
        assert!((quality.rate().unwrap() - 2e7).abs() < 1.0);
        // where nothing comes, time passes as well
        quality.begins(ms(9_000));
        quality.stopped(ms(9_200), false);
        assert!((quality.rate().unwrap() - 1e7).abs() < 1.0);
    }

    #[test]
    fn what_was_long_ago_is_forgotten() {
        let mut quality = Quality::default();
        let mut answer = |at: u64, took: u64| {
            quality.begins(ms(at));
            quality.came(ms(at + took), 1 << 20, false);
            quality.rate().unwrap()
        };
        let first = answer(0, 1000);
        let mut last = 0.0;
        for i in 1..=5 {
            last = answer(i * 3000, 10);
        }
        assert!((last / first - 100.0).abs() < 1.0, "{first} {last}");
    }
}
