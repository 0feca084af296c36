//! Statistics sums as in ROOT's `GetStats`.

use crate::HistogramError;
use crate::axis::Axis;
use crate::histogram::Histogram;
use crate::shape::{BIN_ENTRIES, BIN_SUMW2, SUMW2};

/// `TH1::EStatOverflows`: overflow bins count as well.
const CONSIDER: i64 = 1;

/// The sums in the order of the shape's statistics. They are the stored ones, or computed from the bins if only a range
/// of an axis is selected, or if there are contents without sums.
pub(crate) fn statistics(histogram: &Histogram) -> Result<Vec<f64>, HistogramError> {
    let axes = histogram.axes()?;
    let unknown = histogram.number("fTsumw")? == 0.0 && histogram.number("fEntries")? > 0.0;
    if unknown || axes.iter().any(|axis| axis.range.is_some()) {
        return of_bins(histogram, &axes);
    }
    let names = histogram.shape.statistics().into_iter();
    names.map(|name| histogram.number(name)).collect()
}

fn of_bins(histogram: &Histogram, axes: &[Axis]) -> Result<Vec<f64>, HistogramError> {
    let overflows = histogram.int("fStatOverflows") == CONSIDER;
    let mut sums = vec![0.0; histogram.shape.statistics().len()];
    let range = |axis: usize| {
        let axis = axes.get(axis);
        axis.map_or(0..=0, |axis| axis.looked_at(overflows))
    };
    let sizes: Vec<usize> = axes.iter().map(|axis| axis.n_bins + 2).collect();
    let size = |axis: usize| sizes.get(axis).copied().unwrap_or(1);
    let weights = Weights::of(histogram)?;
    for z in range(2) {
        for y in range(1) {
            for x in range(0) {
                let bin = x + size(0) * (y + size(1) * z);
                let centers = [center(axes, 0, x), center(axes, 1, y), center(axes, 2, z)];
                weights.add(&mut sums, bin, centers);
            }
        }
    }
    Ok(sums)
}

/// The center of a bin; zero if it has no meaning, as on axes that are extended with their labels.
fn center(axes: &[Axis], at: usize, bin: usize) -> f64 {
    let axis = axes.get(at);
    let axis = axis.filter(|axis| axis.labels.is_empty() || !axis.extends);
    axis.map_or(0.0, |axis| axis.center(bin))
}

/// The contribution of a bin to the sums.
struct Weights<'h> {
    histogram: &'h Histogram,
    squares: Vec<f64>,
    entries: Vec<f64>,
    entry_squares: Vec<f64>,
}

impl<'h> Weights<'h> {
    fn of(histogram: &'h Histogram) -> Result<Self, HistogramError> {
        let of_profile = |name| match histogram.shape.profile {
            true => histogram.reals(name),
            false => Ok(Vec::new()),
        };
        Ok(Self {
            histogram,
            squares: histogram.reals(SUMW2)?,
            entries: of_profile(BIN_ENTRIES)?,
            entry_squares: of_profile(BIN_SUMW2)?,
        })
    }

    fn add(&self, sums: &mut [f64], bin: usize, [x, y, z]: [f64; 3]) {
        let content = self.histogram.content(bin);
        let square = self.squares.get(bin).copied();
        let (w, w2) = match self.histogram.shape.profile {
            false => (content, square.unwrap_or(content.abs())),
            true => {
                let entries = self.entries.get(bin).copied().unwrap_or(0.0);
                (
                    entries,
                    self.entry_squares.get(bin).copied().unwrap_or(entries),
                )
            }
        };
        let all = [
            w,
            w2,
            w * x,
            w * x * x,
            w * y,
            w * y * y,
            w * x * y,
            w * z,
            w * z * z,
            w * x * z,
            w * y * z,
        ];
        let profiled = 2 * usize::from(self.histogram.shape.profile);
        let n = sums.len().saturating_sub(profiled);
        let (plain, of_values) = sums.split_at_mut(n);
        for (sum, more) in plain.iter_mut().zip(all) {
            *sum += more;
        }
        for (sum, more) in of_values.iter_mut().zip([content, square.unwrap_or(0.0)]) {
            *sum += more;
        }
    }
}
