//! How sources share the bytes to read, so that all end at the same time. Pure.

/// What one source has to do already.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Lane {
    /// Bytes a second.
    pub rate: f64,
    /// Seconds that its quickest answer takes.
    pub delay: f64,
    /// Bytes that it was asked for and that have not come.
    pub outstanding: f64,
}

impl Lane {
    /// When an answer to a further request can come, in seconds from now.
    fn soonest(&self) -> f64 {
        self.delay.max(self.outstanding / self.rate)
    }
}

/// The bytes of `n_bytes` that each source should read so that all end together. A source that would end later than the
/// others without it gets nothing.
pub(super) fn shares(lanes: &[Lane], n_bytes: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..lanes.len()).collect();
    let soonest = |index: &usize| lanes.get(*index).map_or(f64::INFINITY, Lane::soonest);
    order.sort_by(|a, b| soonest(a).total_cmp(&soonest(b)));
    // those that take part, and when they end
    let (mut rate, mut outstanding, mut end, mut n) = (0.0, 0.0, f64::INFINITY, 0);
    for lane in order.iter().filter_map(|index| lanes.get(*index)) {
        let with = (n_bytes + outstanding + lane.outstanding) / (rate + lane.rate);
        if lane.soonest() >= end || (n > 0 && with < lane.soonest()) {
            break;
        }
        rate += lane.rate;
        outstanding += lane.outstanding;
        end = with;
        n += 1;
    }
    let mut out = vec![0.0; lanes.len()];
    for index in order.into_iter().take(n) {
        if let (Some(share), Some(lane)) = (out.get_mut(index), lanes.get(index)) {
            *share = (lane.rate * end - lane.outstanding).max(0.0);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lane(rate: f64, delay: f64, outstanding: f64) -> Lane {
        Lane {
            rate,
            delay,
            outstanding,
        }
    }

    #[test]
    fn sources_end_together() {
        let lanes = [lane(100.0, 0.0, 0.0), lane(10.0, 0.0, 0.0)];
        assert_eq!(shares(&lanes, 1100.0), [1000.0, 100.0]);
        let lanes = [lane(100.0, 0.0, 500.0), lane(100.0, 0.0, 0.0)];
        assert_eq!(shares(&lanes, 700.0), [100.0, 600.0]);
    }

    #[test]
    fn a_source_that_would_end_last_gets_nothing() {
        // what is near has read everything before what is far answers
        let lanes = [lane(100.0, 0.01, 0.0), lane(100.0, 1.0, 0.0)];
        assert_eq!(shares(&lanes, 50.0), [50.0, 0.0]);
        assert_eq!(shares(&lanes, 1000.0), [500.0, 500.0]);
        let lanes = [lane(100.0, 0.0, 0.0), lane(1.0, 0.0, 100.0)];
        assert_eq!(shares(&lanes, 50.0), [50.0, 0.0]);
    }

    proptest! {
        #[test]
        fn everything_is_shared_out_and_nobody_ends_late(
            lanes in prop::collection::vec((1.0..1e9f64, 0.0..2.0f64, 0.0..1e8f64), 1..5),
            n_bytes in 1.0..1e9f64,
        ) {
            let lanes: Vec<Lane> = lanes.into_iter().map(|(r, d, o)| lane(r, d, o)).collect();
            let found = shares(&lanes, n_bytes);
            let sum: f64 = found.iter().sum();
            prop_assert!((sum / n_bytes - 1.0).abs() < 1e-6, "{sum} of {n_bytes}");
            let end = |(lane, share): (&Lane, &f64)| (lane.outstanding + share) / lane.rate;
            let ends: Vec<f64> = lanes.iter().zip(&found).filter(|(_, share)| **share > 0.0).map(end).collect();
            let most = ends.iter().copied().fold(0.0, f64::max);
            prop_assert!(ends.iter().all(|end| (end / most - 1.0).abs() < 1e-6), "{ends:?}");
        }
    }
}
