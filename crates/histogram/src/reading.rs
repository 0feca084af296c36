//! What a stored histogram contains.

use femtobarn_rootfile::{StreamerInfo, streamed_text};

use crate::error::unsupported;
use crate::numbers::Kind;
use crate::parts::{AxisParts, Moments};
use crate::shape::{BIN_ENTRIES, BIN_SUMW2, SUMW2};
use crate::splice::{Splice, put_string, splice};
use crate::stats::statistics;
use crate::walk::named_classes;
use crate::{Histogram, HistogramError};

// how a profile's errors are defined (`EErrorType`)
const SPREAD: i64 = 1;
const SPREAD_OR_ROUNDING: i64 = 2;
const GAUSSIAN: i64 = 3;

impl Histogram {
    /// Name of the class.
    #[must_use]
    pub fn class(&self) -> &str {
        &self.class
    }

    /// The name in the object; that of its key may differ.
    #[must_use]
    pub fn name(&self) -> String {
        self.text("", |names| &names.name)
    }

    /// The title.
    #[must_use]
    pub fn title(&self) -> String {
        self.text("", |names| &names.title)
    }

    fn text(&self, path: &str, choose: impl Fn(&crate::layout::Names) -> &Vec<u8>) -> String {
        let names = self.layout.names.get(path);
        names.map_or_else(String::new, |names| streamed_text(choose(names)))
    }

    /// Whether it is a profile.
    #[must_use]
    pub fn is_profile(&self) -> bool {
        self.shape.profile
    }

    /// Whether the squares of weights are stored.
    #[must_use]
    pub fn is_weighted(&self) -> bool {
        let name = if self.is_profile() { BIN_SUMW2 } else { SUMW2 };
        self.place(name).is_ok_and(|place| place.n > 0)
    }

    /// Fails if there are entries that belong to no bin yet: ROOT collects the first entries of axes without limits.
    fn check_filled(&self) -> Result<(), HistogramError> {
        match self.buffered()? {
            0 => Ok(()),
            n => unsupported(format!(
                "{n} entries of {:?} are in its buffer and in no bin yet: call BufferEmpty(1) in ROOT before writing it",
                self.name()
            )),
        }
    }

    /// The axes.
    ///
    /// # Errors
    /// If they are damaged.
    pub fn axis_parts(&self) -> Result<Vec<AxisParts>, HistogramError> {
        let parts = self.axes()?.into_iter().map(|axis| AxisParts {
            title: self.text(&format!("{}.", axis.member), |names| &names.title),
            edges: (0..=axis.n_bins).map(|at| axis.edge(at)).collect(),
            is_regular: axis.edges.is_empty(),
            labels: axis
                .labels
                .iter()
                .map(|(bin, label)| (*bin, streamed_text(label)))
                .collect(),
        });
        Ok(parts.collect())
    }

    /// The contents with under- and overflows, the bins of the first axis fastest: NumPy's name of their type, and
    /// big-endian bytes. Those of a profile are sums of values.
    ///
    /// # Errors
    /// If entries are not filled into bins yet.
    pub fn contents(&self) -> Result<(&'static str, &[u8]), HistogramError> {
        self.check_filled()?;
        let dtype = match self.contents.kind {
            Kind::I8 => "i1",
            Kind::I16 => "i2",
            Kind::I32 => "i4",
            Kind::I64 => "i8",
            Kind::F32 => "f4",
            Kind::F64 => "f8",
        };
        Ok((dtype, self.slice(self.contents)))
    }

    /// The contents of all bins; of a profile, the means.
    ///
    /// # Errors
    /// If it is damaged, or entries are not filled into bins yet.
    pub fn values(&self) -> Result<Vec<f64>, HistogramError> {
        Ok(match self.moments()? {
            Some(moments) => moments.means,
            None => self.all_contents().collect(),
        })
    }

    /// The squared errors of all bins, as ROOT's `GetBinError` defines them.
    ///
    /// # Errors
    /// If it is damaged, or entries are not filled into bins yet.
    pub fn variances(&self) -> Result<Vec<f64>, HistogramError> {
        self.check_filled()?;
        let squares = self.reals(SUMW2)?;
        if self.is_profile() {
            return self.errors_of_means(&squares);
        }
        Ok(match squares.is_empty() {
            false => squares,
            true => self.all_contents().map(f64::abs).collect(),
        })
    }

    /// The squared errors of the bins of a profile, with the roundings of ROOT.
    fn errors_of_means(&self, squares: &[f64]) -> Result<Vec<f64>, HistogramError> {
        let mode = self.int("fErrorMode");
        let (weights, weight_squares) = (self.reals(BIN_ENTRIES)?, self.reals(BIN_SUMW2)?);
        let of_bin = |(bin, sum): (usize, f64)| {
            let at = |numbers: &[f64]| numbers.get(bin).copied().unwrap_or(0.0);
            let weight = at(&weights);
            let effective = match weight_squares.get(bin) {
                None => weight,
                Some(&squares) if squares > 0.0 => weight * weight / squares,
                Some(_) => 0.0,
            };
            let mean = sum / weight;
            let spread = (at(squares) / weight - mean * mean).abs();
            match mode {
                _ if weight == 0.0 => 0.0,
                GAUSSIAN => 1.0 / weight,
                SPREAD => spread,
                SPREAD_OR_ROUNDING if spread == 0.0 => 1.0 / (12.0 * effective),
                _ if effective > 0.0 => spread / effective,
                _ => 0.0,
            }
        };
        Ok(self.all_contents().enumerate().map(of_bin).collect())
    }

    /// The bins of a profile; none for a histogram.
    ///
    /// # Errors
    /// If it is damaged, or entries are not filled into bins yet.
    pub fn moments(&self) -> Result<Option<Moments>, HistogramError> {
        self.check_filled()?;
        if !self.is_profile() {
            return Ok(None);
        }
        let (squares, weights) = (self.reals(SUMW2)?, self.reals(BIN_ENTRIES)?);
        let mut weight_squares = self.reals(BIN_SUMW2)?;
        if weight_squares.is_empty() {
            weight_squares.clone_from(&weights);
        }
        let mut means = Vec::with_capacity(weights.len());
        let mut deltas = Vec::with_capacity(weights.len());
        for ((sum, square), weight) in self.all_contents().zip(squares).zip(&weights) {
            let mean = if *weight == 0.0 { 0.0 } else { sum / weight };
            means.push(mean);
            deltas.push(square - sum * mean);
        }
        Ok(Some(Moments {
            weights,
            weight_squares,
            means,
            deltas,
        }))
    }

    fn all_contents(&self) -> impl Iterator<Item = f64> {
        (0..self.contents.n).map(|bin| self.content(bin))
    }

    /// Number of entries.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn entries(&self) -> Result<f64, HistogramError> {
        self.number("fEntries")
    }

    /// Names and values of the statistics, as ROOT's `GetStats` returns them.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn statistics(&self) -> Result<Vec<(&'static str, f64)>, HistogramError> {
        let names = self.shape.statistics().into_iter();
        Ok(names.zip(statistics(self)?).collect())
    }

    /// The descriptions of its classes.
    #[must_use]
    pub fn streamer_infos(&self) -> Vec<&StreamerInfo> {
        let mut classes = vec![self.class.as_str()];
        classes.extend(named_classes(&self.bytes));
        self.infos.describing(&classes)
    }

    /// The histogram with another name.
    ///
    /// # Errors
    /// If it contains parts that are not supported.
    pub fn renamed(&self, name: &str) -> Result<Self, HistogramError> {
        let names = self.layout.names.get("");
        let Some(names) = names.filter(|names| names.name != name.as_bytes()) else {
            return Ok(self.clone());
        };
        let mut bytes = Vec::new();
        let _too_long = put_string(&mut bytes, name.as_bytes());
        let range = names.name_at.clone();
        self.with(&splice(self, vec![Splice { range, bytes }])?)
    }
}
