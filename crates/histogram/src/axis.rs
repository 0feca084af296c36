//! Axes.

use crate::histogram::Histogram;
use crate::labels::bins_of;
use crate::{HistogramError, error::unsupported};

/// The bit of an axis with a selected range (`TAxis::SetRange`).
pub(crate) const AXIS_RANGE: i64 = 1 << 11;
/// The bit that the axis is extended if an entry is outside.
const CAN_EXTEND: i64 = 1 << 1;

/// An axis.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Axis {
    /// Name of the axis member.
    pub member: &'static str,
    pub n_bins: usize,
    pub low: f64,
    pub high: f64,
    /// Edges of the bins, if they are stored one by one.
    pub edges: Vec<f64>,
    /// The selected range, if it is not the whole axis.
    pub range: Option<(i64, i64)>,
    pub extends: bool,
    /// Labels of bins.
    pub labels: Vec<(u32, Vec<u8>)>,
}

impl Axis {
    /// An axis of a histogram.
    pub fn of(histogram: &Histogram, member: &'static str) -> Result<Self, HistogramError> {
        let name = |name: &str| format!("{member}.{name}");
        let place = histogram.place(&name("fNbins"))?;
        let n_bins = histogram.int(&name("fNbins"));
        let Ok(n_bins) = usize::try_from(n_bins) else {
            return Err(HistogramError::Corrupt {
                what: "fNbins",
                offset: place.at,
                expected: "a number of bins".to_owned(),
                found: n_bins.to_string(),
            });
        };
        let ranged = histogram.int(&name("fBits")) & AXIS_RANGE != 0;
        let range = (
            histogram.int(&name("fFirst")),
            histogram.int(&name("fLast")),
        );
        let labels = histogram.layout.labels.get(member);
        let edges = histogram.reals(&name("fXbins.fArray"))?;
        if !edges.is_empty() && edges.len() != n_bins.saturating_add(1) {
            return unsupported(format!(
                "{member} has {} edges for {n_bins} bins",
                edges.len()
            ));
        }
        Ok(Self {
            member,
            n_bins,
            low: histogram.number(&name("fXmin"))?,
            high: histogram.number(&name("fXmax"))?,
            edges,
            range: ranged.then_some(range),
            extends: histogram.int(&name("fBits2")) & CAN_EXTEND != 0,
            labels: labels.map(bins_of).unwrap_or_default(),
        })
    }

    /// The name in messages.
    pub fn name(&self) -> &'static str {
        match self.member {
            "fXaxis" => "x axis",
            "fYaxis" => "y axis",
            _ => "z axis",
        }
    }

    /// Whether its limits are known. Those of an automatic axis are determined by its first
    /// entries.
    pub fn has_limits(&self) -> bool {
        self.low < self.high
    }

    /// The lower edge of a bin. Without stored edges, it is interpolated between the limits.
    pub fn edge(&self, at: usize) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "bin numbers are far below 2^53")]
        let regular = || self.low + at as f64 * self.width();
        self.edges.get(at).copied().unwrap_or_else(regular)
    }

    /// The bin width, if all bins have the same.
    pub fn width(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "bin numbers are far below 2^53")]
        let n_bins = self.n_bins as f64;
        (self.high - self.low) / n_bins
    }

    /// The center of a bin.
    pub fn center(&self, bin: usize) -> f64 {
        let inside = (1..=self.n_bins).contains(&bin);
        match (self.edges.get(bin.wrapping_sub(1)), self.edges.get(bin)) {
            (Some(low), Some(high)) if inside => low + 0.5 * (high - low),
            #[expect(clippy::cast_precision_loss, reason = "bin numbers are far below 2^53")]
            _ => self.low + (bin as f64 - 0.5) * self.width(),
        }
    }

    /// The bins that statistics are computed from.
    pub fn looked_at(&self, with_overflow: bool) -> std::ops::RangeInclusive<usize> {
        let bin =
            |bin: i64, other| usize::try_from(bin).map_or(other, |bin| bin.min(self.n_bins + 1));
        match self.range {
            Some((first, last)) => bin(first, 0)..=bin(last, 0),
            None if with_overflow => 0..=self.n_bins + 1,
            None => 1..=self.n_bins,
        }
    }

    /// Whether the bins are those of another axis.
    pub fn same_bins(&self, other: &Self) -> bool {
        self.n_bins == other.n_bins
            && nearly(self.low, other.low, 1e-12)
            && nearly(self.high, other.high, 1e-12)
            && self.same_edges(other)
    }

    fn same_edges(&self, other: &Self) -> bool {
        let regular = self.edges.is_empty() && other.edges.is_empty();
        regular || (0..=self.n_bins).all(|at| nearly(self.edge(at), other.edge(at), 1e-10))
    }

    /// A description for messages.
    pub fn describe(&self) -> String {
        let limits = format!("{} bins from {} to {}", self.n_bins, self.low, self.high);
        match self.edges.is_empty() {
            true => limits,
            false => format!("{limits} with variable width"),
        }
    }
}

/// Whether numbers are equal up to rounding.
pub(crate) fn nearly(one: f64, two: f64, precision: f64) -> bool {
    #[expect(clippy::float_cmp, reason = "infinities are equal")]
    let equal = one == two;
    equal || (one - two).abs() <= 0.5 * precision * (one.abs() + two.abs())
}
