//! Histograms of the values of an expression.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_select::filter::filter_record_batch;
use femtobarn_histogram::{AxisParts, Bins, Histogram, Parts};
use femtobarn_rntuple::RNTupleError;

use super::usage;
use crate::expression::Expression;
use crate::inputs::numbered;
use crate::iterate::{Steps, StepsOptions};
use crate::ntuple::{NTuple, Selection};

/// Number of bins, if it is not given.
const BINS: usize = 60;
/// Maximum number of bins.
const MOST_BINS: usize = 1_000_000;
/// Whole numbers in a range up to this get a bin each.
const FEW: f64 = 120.0;
/// Entries that are read at once.
const STEP: u64 = 100_000;

/// What is filled into a histogram.
#[derive(Debug, Clone)]
pub struct Filling {
    /// The values, one or several for each entry.
    pub values: Expression,
    /// Which entries are taken; all by default.
    pub condition: Option<Expression>,
    /// Number of bins.
    pub bins: Option<usize>,
    /// Limits of the axis. By default those of the values, for which all are read once more.
    pub range: Option<(f64, f64)>,
    /// Number of threads.
    pub threads: usize,
}

/// A histogram of a column.
#[derive(Debug)]
pub struct Filled {
    /// The histogram, of the class TH1D.
    pub histogram: Histogram,
    /// Number of entries that were taken.
    pub n_entries: u64,
    /// Values that are not in the histogram, as they are NaN.
    pub n_nan: u64,
}

/// Fills a histogram.
///
/// # Errors
/// If a column does not exist, the values are not numbers, the range is invalid, or reading fails. `go_on` can stop it.
pub fn fill(
    ntuple: &Arc<NTuple>,
    filling: &Filling,
    go_on: &dyn Fn() -> bool,
) -> Result<Filled, RNTupleError> {
    let values = Values::new(ntuple, filling)?;
    let (axis, closed) = match (filling.range, filling.bins) {
        (Some((low, high)), bins) => (Axis::new(low, high, bins.unwrap_or(BINS))?, false),
        (None, bins) => {
            let mut limits = Limits::default();
            values.each(go_on, |_, values| limits.add(values))?;
            (limits.axis(bins)?, true)
        }
    };
    let mut counts = Counts::new(axis, closed);
    let mut n_entries = 0;
    values.each(go_on, |n, values| {
        n_entries += n;
        counts.add(values);
    })?;
    let n_nan = counts.n_nan;
    let histogram = Histogram::build(&counts.parts(filling.values.text()));
    Ok(Filled {
        histogram: histogram.map_err(|error| usage(error.to_string()))?,
        n_entries,
        n_nan,
    })
}

/// The values of an ntuple, step by step.
struct Values<'a> {
    ntuple: &'a Arc<NTuple>,
    selection: Selection,
    filling: &'a Filling,
}

impl<'a> Values<'a> {
    fn new(ntuple: &'a Arc<NTuple>, filling: &'a Filling) -> Result<Self, RNTupleError> {
        let mut columns: Vec<String> = Vec::new();
        let expressions = filling.condition.iter().chain([&filling.values]);
        for name in expressions.flat_map(Expression::columns) {
            let reader = ntuple.readers().first();
            let path = reader.map_or_else(|| name.clone(), |reader| numbered(name, reader));
            if !columns.contains(&path) {
                columns.push(path);
            }
        }
        let selection = ntuple.select(Some(&columns))?;
        let empty = RecordBatch::new_empty(Arc::new(selection.arrow_schema()));
        filling.values.numbers(&empty, 0)?;
        if let Some(condition) = &filling.condition {
            condition.evaluate(&empty, 0)?;
        }
        Ok(Self {
            ntuple,
            selection,
            filling,
        })
    }

    /// Calls `take` with the number of entries and the values of each step.
    fn each(
        &self,
        go_on: &dyn Fn() -> bool,
        mut take: impl FnMut(u64, &[f64]),
    ) -> Result<(), RNTupleError> {
        let options = StepsOptions {
            step: STEP,
            threads: self.filling.threads,
            ..StepsOptions::default()
        };
        let entries = 0..self.ntuple.n_entries();
        let steps = Steps::new(
            self.ntuple.clone(),
            self.selection.clone(),
            entries,
            options,
        );
        for step in steps {
            if !go_on() {
                return Err(RNTupleError::Interrupted);
            }
            let (range, arrays) = step?;
            let mut batch = self.ntuple.to_arrow(&arrays)?;
            if let Some(condition) = &self.filling.condition {
                let chosen = condition.evaluate(&batch, range.start)?;
                batch = filter_record_batch(&batch, &chosen).map_err(RNTupleError::internal)?;
            }
            let n = batch.num_rows() as u64;
            take(n, &self.filling.values.numbers(&batch, range.start)?);
        }
        Ok(())
    }
}

/// The limits of all finite values.
struct Limits {
    low: f64,
    high: f64,
    are_whole: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            low: f64::INFINITY,
            high: f64::NEG_INFINITY,
            are_whole: true,
        }
    }
}

impl Limits {
    fn add(&mut self, values: &[f64]) {
        for &value in values.iter().filter(|value| value.is_finite()) {
            self.low = self.low.min(value);
            self.high = self.high.max(value);
            self.are_whole &= value.fract() == 0.0;
        }
    }

    fn axis(self, bins: Option<usize>) -> Result<Axis, RNTupleError> {
        let span = self.high - self.low;
        if !span.is_finite() {
            return Axis::new(0.0, 1.0, bins.unwrap_or(1));
        }
        if bins.is_none() && self.are_whole && span < FEW {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "few"
            )]
            let n = span as usize + 1;
            return Axis::new(self.low - 0.5, self.high + 0.5, n);
        }
        let margin = if span > 0.0 {
            0.0
        } else {
            0.5_f64.max(self.low.abs() * 1e-3)
        };
        Axis::new(self.low - margin, self.high + margin, bins.unwrap_or(BINS))
    }
}

/// A number in its short form: `5`, `1e308`.
fn shown(number: f64) -> String {
    let text = format!("{number:?}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

#[derive(Debug, Clone, Copy)]
struct Axis {
    low: f64,
    high: f64,
    n_bins: usize,
}

impl Axis {
    fn new(low: f64, high: f64, n_bins: usize) -> Result<Self, RNTupleError> {
        if !(1..=MOST_BINS).contains(&n_bins) {
            return Err(usage(format!(
                "invalid number of bins {n_bins}: it must be from 1 to {MOST_BINS}"
            )));
        }
        if !(low < high && low.is_finite() && high.is_finite() && (high - low).is_finite()) {
            return Err(usage(format!(
                "invalid range {}:{}: the first number must be less than the second, and both and their difference \
                 must be finite",
                shown(low),
                shown(high)
            )));
        }
        Ok(Self { low, high, n_bins })
    }

    fn edges(self) -> Vec<f64> {
        let n = real(self.n_bins as u64);
        let inner =
            (0..self.n_bins as u64).map(|at| self.low + (self.high - self.low) * real(at) / n);
        inner.chain([self.high]).collect()
    }
}

/// The bins with under- and overflow, and sums over the values inside.
struct Counts {
    axis: Axis,
    /// Whether the upper limit belongs to the last bin.
    closed: bool,
    bins: Vec<u64>,
    sums: [f64; 2],
    n_nan: u64,
}

impl Counts {
    fn new(axis: Axis, closed: bool) -> Self {
        Self {
            axis,
            closed,
            bins: vec![0; axis.n_bins + 2],
            sums: [0.0; 2],
            n_nan: 0,
        }
    }

    fn add(&mut self, values: &[f64]) {
        let Axis { low, high, n_bins } = self.axis;
        let scale = real(n_bins as u64) / (high - low);
        for &value in values {
            let is_last = self.closed && value == high;
            let bin = match value {
                _ if value.is_nan() => {
                    self.n_nan += 1;
                    continue;
                }
                _ if value < low => 0,
                _ if value >= high && !is_last => n_bins + 1,
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "within"
                )]
                _ => ((value - low) * scale) as usize + 1,
            };
            let is_inside = (low..=high).contains(&value) && (value < high || is_last);
            let bin = if is_inside { bin.min(n_bins) } else { bin };
            if let Some(count) = self.bins.get_mut(bin) {
                *count += 1;
            }
            if is_inside {
                self.sums[0] += value;
                self.sums[1] += value * value;
            }
        }
    }

    fn parts(self, text: &str) -> Parts {
        let inside = self.bins.iter().skip(1).take(self.axis.n_bins).sum::<u64>();
        let [sum, squares] = self.sums;
        let contents = self.bins.iter().flat_map(|&n| real(n).to_be_bytes());
        Parts {
            name: "values".to_owned(),
            title: String::new(),
            axes: vec![AxisParts::new(
                text.to_owned(),
                self.axis.edges(),
                Vec::new(),
            )],
            bins: Bins::Counts {
                dtype: "f8".to_owned(),
                contents: contents.collect(),
                squares: None,
            },
            sums: Some(vec![real(inside), real(inside), sum, squares]),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "rounded")]
fn real(n: u64) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(
        range: Option<(f64, f64)>,
        bins: Option<usize>,
        values: &[f64],
    ) -> (Vec<f64>, Vec<u64>) {
        let axis = match range {
            Some((low, high)) => Axis::new(low, high, bins.unwrap()).unwrap(),
            None => {
                let mut limits = Limits::default();
                limits.add(values);
                limits.axis(bins).unwrap()
            }
        };
        let mut counts = Counts::new(axis, range.is_none());
        counts.add(values);
        (axis.edges(), counts.bins)
    }

    #[test]
    fn values_outside_are_counted_before_and_behind() {
        let values = [-1.0, 0.0, 0.5, 1.0, 1.9, 2.0, f64::INFINITY, f64::NAN];
        let (edges, bins) = counts(Some((0.0, 2.0)), Some(2), &values);
        assert_eq!((edges, bins), (vec![0.0, 1.0, 2.0], vec![1, 2, 2, 2]));
    }

    #[test]
    fn without_a_range_no_finite_value_is_outside() {
        let (edges, bins) = counts(None, Some(2), &[1.0, 2.5, 4.0, f64::NEG_INFINITY]);
        assert_eq!((edges, bins), (vec![1.0, 2.5, 4.0], vec![1, 1, 2, 0]));
        let (edges, bins) = counts(None, None, &[3.0, 5.0, 5.0]);
        assert_eq!(
            (edges, bins),
            (vec![2.5, 3.5, 4.5, 5.5], vec![0, 1, 0, 2, 0])
        );
        let (edges, bins) = counts(None, Some(1), &[7.25]);
        assert_eq!((edges, bins), (vec![6.75, 7.75], vec![0, 1, 0]));
        assert_eq!(counts(None, None, &[]).1, [0, 0, 0]);
    }

    #[test]
    fn invalid_axes_are_refused() {
        for (low, high, n) in [
            (1.0, 1.0, 1),
            (2.0, 1.0, 1),
            (0.0, f64::INFINITY, 1),
            (0.0, 1.0, 0),
        ] {
            assert!(Axis::new(low, high, n).is_err(), "{low} {high} {n}");
        }
    }
}
