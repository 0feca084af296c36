//! The minimum rate at which the bytes of an answer must arrive.

use std::time::{Duration, Instant};

/// The settings `least_rate` and `request_timeout`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Bytes per second.
    pub least: u64,
    /// The time over which the rate is measured.
    pub window: Duration,
}

impl Rate {
    /// Whether so many bytes in this time are below the minimum rate.
    #[must_use]
    pub fn is_missed(self, bytes: u64, time: Duration) -> bool {
        time.as_nanos().saturating_mul(u128::from(self.least))
            > u128::from(bytes).saturating_mul(1_000_000_000)
    }
}

/// Measures the rate of an answer.
#[derive(Debug, Clone)]
pub struct Pace {
    rate: Rate,
    since: Instant,
    bytes: u64,
}

impl Pace {
    /// Starts measuring.
    #[must_use]
    pub fn begin(rate: Rate) -> Self {
        Self {
            rate,
            since: Instant::now(),
            bytes: 0,
        }
    }

    /// Counts bytes that arrived.
    ///
    /// # Errors
    /// If the rate of a finished window was below `least_rate`.
    pub fn came(&mut self, bytes: usize) -> Result<(), TooSlow> {
        self.bytes = self.bytes.saturating_add(bytes as u64);
        let time = self.since.elapsed();
        if time < self.rate.window {
            return Ok(());
        }
        if self.rate.is_missed(self.bytes, time) {
            return Err(TooSlow {
                bytes: self.bytes,
                time,
                least: self.rate.least,
            });
        }
        *self = Self::begin(self.rate);
        Ok(())
    }
}

/// An answer arrives too slowly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("received only {bytes} bytes in {:.1} s, less than least_rate={least} bytes per second", .time.as_secs_f64())]
pub struct TooSlow {
    bytes: u64,
    time: Duration,
    least: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_missed_by_fewer_bytes_only() {
        let rate = Rate {
            least: 100,
            window: Duration::from_secs(4),
        };
        assert!(rate.is_missed(399, rate.window) && !rate.is_missed(400, rate.window));
        let none = Rate { least: 0, ..rate };
        assert!(!none.is_missed(0, Duration::MAX));
    }

    #[test]
    fn slow_answers_are_told_by_the_limit_that_they_miss() {
        let rate = |least| Rate {
            least,
            window: Duration::ZERO,
        };
        assert_eq!(Pace::begin(rate(0)).came(1), Ok(()));
        let mut pace = Pace::begin(rate(u64::MAX));
        std::thread::sleep(Duration::from_millis(1));
        let slow = pace.came(1).unwrap_err().to_string();
        assert!(
            slow.contains("only 1 bytes") && slow.contains("least_rate="),
            "{slow}"
        );
    }
}
