//! Bytes over time, in bounded memory.

use std::time::Duration;

/// Width of the first bins.
const FINEST: f64 = 1e-6;

/// Maximum number of bins; with more, neighbours are joined.
const MOST: usize = 8192;

/// Bytes in bins of equal width, which grows with the time.
#[derive(Debug, Clone, PartialEq)]
pub struct Rates {
    /// No read begins earlier.
    origin: Duration,
    /// First start and last end, from the origin.
    extent: Option<(f64, f64)>,
    width: f64,
    bins: Vec<f64>,
}

impl Rates {
    /// Of reads that begin at `origin` or later.
    #[must_use]
    pub const fn since(origin: Duration) -> Self {
        Self {
            origin,
            extent: None,
            width: FINEST,
            bins: Vec::new(),
        }
    }

    /// Spreads the bytes of a read over its time.
    pub fn add(&mut self, start: Duration, duration: Duration, n_bytes: u64) {
        let from = start.saturating_sub(self.origin).as_secs_f64();
        let to = from + duration.as_secs_f64().max(1e-9);
        let (first, last) = self.extent.unwrap_or((from, to));
        self.extent = Some((first.min(from), last.max(to)));
        while to >= self.width * real(MOST) {
            self.bins = self.bins.chunks(2).map(|pair| pair.iter().sum()).collect();
            self.width *= 2.0;
        }
        let end = whole(to / self.width) + 1;
        if self.bins.len() < end {
            self.bins.resize(end, 0.0);
        }
        let rate = crate::units::real(n_bytes) / (to - from);
        let begin = whole(from / self.width);
        for (at, bin) in self.bins.iter_mut().enumerate().take(end).skip(begin) {
            *bin += rate * common((from, to), at, self.width);
        }
    }

    /// Bytes a second in `n` equal parts of the time from the first read to the last, and the width of one part in
    /// seconds.
    #[must_use]
    pub fn over(&self, n: usize) -> Option<(f64, Vec<f64>)> {
        let (first, last) = self.extent?;
        let width = (last - first) / real(n);
        let mut rates = vec![0.0; n];
        for (at, n_bytes) in self.bins.iter().enumerate().filter(|(_, bin)| **bin > 0.0) {
            // nothing was read before the first start and after the last end
            let from = (real(at) * self.width).max(first);
            let to = (real(at + 1) * self.width).min(last).max(from + 1e-12);
            let (from, to) = (from - first, to - first);
            let rate = n_bytes / (to - from);
            let end = (whole(to / width) + 1).min(n);
            let begin = whole(from / width).min(n - 1);
            for (part, out) in rates.iter_mut().enumerate().take(end).skip(begin) {
                *out += rate * common((from, to), part, width) / width;
            }
        }
        Some((width, rates))
    }
}

/// The length of time that a span has in common with a bin.
fn common((from, to): (f64, f64), bin: usize, width: f64) -> f64 {
    let (low, high) = (real(bin) * width, real(bin + 1) * width);
    (to.min(high) - from.max(low)).max(0.0)
}

#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub(super) fn real(n: usize) -> f64 {
    n as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a number of bins; casts saturate"
)]
fn whole(value: f64) -> usize {
    value as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(reads: &[(f64, f64, u64)]) -> Rates {
        let first = reads.iter().map(|(start, ..)| *start).fold(1e9, f64::min);
        let mut rates = Rates::since(Duration::from_secs_f64(first));
        for (start, duration, n) in reads {
            let [start, duration] = [start, duration].map(|s| Duration::from_secs_f64(*s));
            rates.add(start, duration, *n);
        }
        rates
    }

    #[test]
    fn bytes_are_spread_over_the_time_of_their_read() {
        let rates = added(&[(5.0, 1.0, 1000), (7.0, 1.0, 3000)]);
        let (width, found) = rates.over(6).unwrap();
        assert!((width - 0.5).abs() < 1e-9);
        for (rate, expected) in found.iter().zip([1000.0, 1000.0, 0.0, 0.0, 3000.0, 3000.0]) {
            // an inner bin may lie across the border of two of these
            assert!((rate - expected).abs() < 3.0, "{found:?}");
        }
        assert_eq!(Rates::since(Duration::ZERO).over(6), None);
    }

    #[test]
    fn memory_is_bounded_and_no_byte_is_lost() {
        for reads in [
            &[(0.0, 1e-6, 7)][..],
            &[(1000.0, 1e-6, 7), (1000.0, 1e-5, 90), (999.5, 0.2, 1)],
            &[(0.0, 0.01, 10), (1e6, 10.0, 1 << 40), (3.0, 4e6, 1 << 30)],
            &[(5.0, 0.5, 10), (1.0, 0.5, 20)],
        ] {
            let rates = added(reads);
            assert!(rates.bins.len() <= MOST);
            let (width, found) = rates.over(40).unwrap();
            let total = crate::units::real(reads.iter().map(|(_, _, n)| n).sum());
            let sum = found.iter().sum::<f64>() * width;
            assert!((sum - total).abs() <= total * 1e-3, "{sum} {total}");
        }
    }
}
