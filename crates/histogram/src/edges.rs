//! Combines axes by the edges of their bins.

use crate::HistogramError;
use crate::axis::{Axis, nearly};
use crate::error::differ;
use crate::plan::{Joined, MOST_CELLS};

impl Joined {
    /// The axis that covers both with the wider of their bins, if each bin falls completely into one of its bins.
    ///
    /// This is the case if axes were extended automatically: ROOT doubles their bin width, and keeps one of their
    /// limits. As in `TH1::RecomputeAxisLimits`, the limits of the narrower bins need not be edges of the wider ones:
    /// the axis is then extended to the next such edge.
    pub fn edges(one: &Axis, two: &Axis) -> Result<Self, HistogramError> {
        if let Some(why) = obstacle(one, two) {
            return different(one, two, &why);
        }
        let (fine, coarse) = by_width(one, two);
        let width = coarse.width();
        let low = match (coarse.low - fine.low) / width {
            steps if steps <= 0.0 => coarse.low,
            steps => fine.low - missing(steps) * width,
        };
        let high = match (fine.high - coarse.high) / width {
            steps if steps <= 0.0 => coarse.high,
            steps => fine.high + missing(steps) * width,
        };
        let n_bins = ((high - low) / width).round();
        #[expect(clippy::cast_precision_loss, reason = "exact")]
        let fits = n_bins < MOST_CELLS as f64;
        if !fits {
            let why = format!("together they would have {n_bins} bins, from {low} to {high}");
            return different(one, two, &why);
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked"
        )]
        let n_bins = n_bins as usize;
        let to = |axis: &Axis, bin: usize| match bin {
            0 => 0,
            bin if bin > axis.n_bins => n_bins + 1,
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "saturates"
            )]
            bin => (((axis.center(bin) - low) / width).floor().max(0.0) as usize + 1).min(n_bins),
        };
        let same = nearly(low, one.low, 1e-12) && nearly(high, one.high, 1e-12);
        Ok(Self {
            member: one.member,
            n_bins,
            low,
            high,
            labels: Vec::new(),
            changed: n_bins != one.n_bins || !same,
            first: (0..one.n_bins + 2).map(|bin| to(one, bin)).collect(),
            other: (0..two.n_bins + 2).map(|bin| Some(to(two, bin))).collect(),
        })
    }
}

/// The error that two axes cannot be combined.
pub(crate) fn different<T>(one: &Axis, two: &Axis, why: &str) -> Result<T, HistogramError> {
    differ(format!(
        "the {} has {} in the first and {} in this one: {why}",
        one.name(),
        one.describe(),
        two.describe()
    ))
}

/// Why bins do not fall completely into others, and what to do.
fn obstacle(one: &Axis, two: &Axis) -> Option<String> {
    if !one.edges.is_empty() || !two.edges.is_empty() {
        let why = "bins of variable width must have the same edges in both";
        return Some(why.to_owned());
    }
    let widths = format!("{} and {} wide", short(one.width()), short(two.width()));
    let (fine, coarse) = by_width(one, two);
    if !whole(coarse.width() / fine.width()) {
        return Some(format!(
            "the bins are {widths}, and neither is a multiple of the other: rebin them first (TH1::Rebin), or create both with the same bins"
        ));
    }
    let apart = fine.low - coarse.low;
    if !whole(apart / fine.width()) {
        return Some(format!(
            "the bins are {widths} and their edges are {} apart, so bins would have to be split, for example because one axis was extended to the left and the other to the right: create both with limits that contain all entries",
            short(apart.rem_euclid(fine.width()))
        ));
    }
    None
}

/// A number for messages, without rounding errors.
fn short(number: f64) -> f64 {
    format!("{number:.5e}").parse().unwrap_or(number)
}

/// The axis with the narrower bins, then the other one.
fn by_width<'a>(one: &'a Axis, two: &'a Axis) -> (&'a Axis, &'a Axis) {
    match one.width() <= two.width() {
        true => (one, two),
        false => (two, one),
    }
}

/// Whether a number is an integer up to rounding.
fn whole(number: f64) -> bool {
    (number - number.round()).abs() < 1e-8
}

/// The distance to the next integer.
fn missing(number: f64) -> f64 {
    match whole(number) {
        true => 0.0,
        false => number.ceil() - number,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(n_bins: usize, low: f64, high: f64) -> Axis {
        Axis {
            member: "fXaxis",
            n_bins,
            low,
            high,
            edges: Vec::new(),
            range: None,
            extends: true,
            labels: Vec::new(),
        }
    }

    /// Limits that differ by doublings were refused if the narrower ones were not edges of the wider bins.
    #[test]
    fn bins_of_axes_that_grew_fall_whole_into_wider_ones() {
        for (one, two, joined) in [
            ((10, 0.0, 4.0), (10, 0.0, 16.0), (10, 0.0, 16.0)),
            ((10, 0.0, 1.0), (10, -3.0, 1.0), (10, -3.0, 1.0)),
            ((10, 0.0, 1.0), (10, -3.0, 5.0), (10, -3.0, 5.0)),
            ((10, 0.0, 2.0), (10, -1.0, 1.0), (15, -1.0, 2.0)),
            ((5, 0.0, 1.0), (5, 0.0, 4.0), (5, 0.0, 4.0)),
            // limits that are not edges of the wider bins
            ((50, 0.0, 20.0), (10, 0.0, 16.0), (13, 0.0, 20.8)),
            ((20, -3.0, 1.0), (10, 0.0, 4.0), (18, -3.2, 4.0)),
            (
                (1, 0.0, 1.0),
                (1, 0.0, 2f64.powi(60)),
                (1, 0.0, 2f64.powi(60)),
            ),
        ] {
            let of = |(n, low, high): (usize, f64, f64)| axis(n, low, high);
            for (one, two) in [(of(one), of(two)), (of(two), of(one))] {
                let found = Joined::edges(&one, &two).unwrap();
                let limits = [found.low - joined.1, found.high - joined.2];
                assert_eq!(found.n_bins, joined.0, "{one:?} {two:?}");
                assert!(limits.iter().all(|d| d.abs() < 1e-12), "{found:?}");
                let sum = axis(found.n_bins, found.low, found.high);
                assert_eq!(found.changed, !sum.same_bins(&one));
                let other = found.other.iter().flatten().copied().collect();
                for (axis, bins) in [(&one, found.first), (&two, other)] {
                    for (bin, at) in bins.into_iter().enumerate().skip(1).take(axis.n_bins) {
                        let rounding = 1e-9 * sum.width();
                        assert!(sum.edge(at - 1) <= axis.edge(bin - 1) + rounding);
                        assert!(sum.edge(at) >= axis.edge(bin) - rounding);
                    }
                }
            }
        }
    }

    #[test]
    fn bins_that_would_be_torn_apart_are_refused() {
        for (one, two, expected) in [
            ((10, 0.0, 4.0), (10, -3.0, 1.0), "edges are 0.2 apart"),
            ((10, 0.0, 16.0), (10, -3.0, 5.0), "edges are 0.2 apart"),
            ((10, 0.0, 1.0), (15, 0.0, 1.0), "0.1 and 0.0666667 wide"),
            ((5, 0.0, 1.0), (5, 0.0, f64::NAN), "neither is a multiple"),
            ((0, 0.0, 1.0), (5, 0.0, 1.0), "neither is a multiple"),
            (
                (1 << 25, 0.0, 1.0),
                (1 << 25, 7.0, 8.0),
                "they would have 268435456 bins",
            ),
        ] {
            let of = |(n, low, high): (usize, f64, f64)| axis(n, low, high);
            for (one, two) in [(of(one), of(two)), (of(two), of(one))] {
                let error = Joined::edges(&one, &two).unwrap_err().to_string();
                let in_order = expected.contains("and 0.0") && one.n_bins == 15;
                assert!(in_order || error.contains(expected), "{error}");
            }
        }
    }
}
