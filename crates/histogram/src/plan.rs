//! Combines the bins of two histograms with different axes.

use crate::HistogramError;
use crate::axis::{Axis, nearly};
use crate::edges::different;
use crate::error::differ;
use crate::histogram::Histogram;
use crate::labels::shown;

/// The most bins of an axis, and of all axes together.
pub(crate) const MOST_CELLS: usize = 1 << 26;

/// The joined axes of two histograms.
#[derive(Debug)]
pub(crate) struct Plan {
    pub axes: Vec<Joined>,
}

/// A joined axis.
#[derive(Debug)]
pub(crate) struct Joined {
    pub member: &'static str,
    pub n_bins: usize,
    pub low: f64,
    pub high: f64,
    /// Labels that the first histogram does not have.
    pub labels: Vec<(u32, Vec<u8>)>,
    /// Whether it differs from the axis of the first histogram.
    pub changed: bool,
    /// The new number of each bin of the first histogram; and of each bin of the other one, if it
    /// has content.
    pub first: Vec<usize>,
    pub other: Vec<Option<usize>>,
}

/// How the bins of two axes correspond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Match {
    /// By bin number.
    Numbers,
    /// By label.
    Labels,
    /// By edges.
    Edges,
}

/// How the axes of two histograms are joined; none if their bins are the same.
pub(crate) fn plan(one: &Histogram, two: &Histogram) -> Result<Option<Plan>, HistogramError> {
    let (axes, others) = (one.axes()?, two.axes()?);
    let labelled = |axes: &[Axis]| axes.iter().any(|axis| !axis.labels.is_empty());
    let same = axes
        .iter()
        .zip(&others)
        .all(|(one, two)| one.same_bins(two));
    if labelled(&axes) && !same && two.is_empty()? {
        return Ok(Some(Plan::nothing(&axes, &others)));
    }
    let mut matches = Vec::new();
    for (one, two) in axes.iter().zip(&others) {
        matches.push(matching(one, two)?);
    }
    if matches.iter().all(|how| *how == Match::Numbers) {
        return Ok(None);
    }
    let mut joined = Vec::new();
    for ((one, two), how) in axes.iter().zip(&others).zip(&matches) {
        joined.push(match how {
            Match::Numbers | Match::Labels => Joined::numbers(one, two),
            Match::Edges => Joined::edges(one, two)?,
        });
    }
    let mut plan = Plan { axes: joined };
    plan.find_labels(&axes, (two, &others), &matches)?;
    plan.check_size(one)?;
    for (histogram, of) in [(one, &axes), (two, &others)] {
        plan.check_overflow(histogram, of, &matches)?;
    }
    Ok(Some(plan))
}

fn matching(one: &Axis, two: &Axis) -> Result<Match, HistogramError> {
    let by_labels = one.extends && two.extends && !one.labels.is_empty() && !two.labels.is_empty();
    let same = one.same_bins(two);
    if by_labels {
        let known = two.labels.iter().all(|label| one.labels.contains(label));
        return Ok(match same && known {
            true => Match::Numbers,
            false => Match::Labels,
        });
    }
    for (bin, text) in &one.labels {
        let mut others = two.labels.iter();
        if let Some((_, other)) = others.find(|(at, other)| at == bin && other != text) {
            return differ(format!(
                "bin {bin} of the {} is {} in the first and {} in this one: they are added by label only if both axes can be extended (TAxis::SetCanExtend)",
                one.name(),
                shown(text),
                shown(other)
            ));
        }
    }
    match same {
        true => Ok(Match::Numbers),
        false if one.labels.is_empty() && two.labels.is_empty() => Ok(Match::Edges),
        false => different(
            one,
            two,
            "axes with labels must have the same bins, or both must have labels and be extendable (TAxis::SetCanExtend)",
        ),
    }
}

impl Joined {
    /// The axis of the first histogram, if the bins are the same.
    fn numbers(one: &Axis, two: &Axis) -> Self {
        Self {
            member: one.member,
            n_bins: one.n_bins,
            low: one.low,
            high: one.high,
            labels: Vec::new(),
            changed: false,
            first: (0..one.n_bins + 2).collect(),
            other: (0..two.n_bins + 2).map(Some).collect(),
        }
    }

    /// The bin of a label, which is added if it does not exist.
    fn bin_of(&mut self, one: &Axis, text: &[u8]) -> usize {
        let mut known = one.labels.iter().chain(&self.labels);
        if let Some((bin, _)) = known.find(|(_, known)| known == text) {
            return *bin as usize;
        }
        let bin = one.labels.len() + self.labels.len() + 1;
        self.labels
            .push((u32::try_from(bin).unwrap_or(0), text.to_vec()));
        while bin > self.n_bins {
            // as ROOT does
            self.high = self.low + 2.0 * (self.high - self.low);
            self.n_bins = (2 * self.n_bins).max(1);
        }
        self.changed = true;
        bin
    }
}

impl Plan {
    /// A plan that adds nothing.
    fn nothing(axes: &[Axis], others: &[Axis]) -> Self {
        let pairs = axes.iter().zip(others);
        let axes = pairs.map(|(one, two)| Joined {
            other: vec![None; two.n_bins + 2],
            ..Joined::numbers(one, two)
        });
        Self {
            axes: axes.collect(),
        }
    }

    /// Finds the bins of labels, in the order in which ROOT does.
    fn find_labels(
        &mut self,
        axes: &[Axis],
        (two, others): (&Histogram, &[Axis]),
        matches: &[Match],
    ) -> Result<(), HistogramError> {
        let labelled: Vec<bool> = matches.iter().map(|how| *how == Match::Labels).collect();
        if !labelled.contains(&true) {
            return Ok(());
        }
        for (joined, _) in self
            .axes
            .iter_mut()
            .zip(&labelled)
            .filter(|(_, labelled)| **labelled)
        {
            joined.other.fill(None);
        }
        for cell in (0..two.contents.n).filter(|&cell| two.occupied(cell)) {
            let mut rest = cell;
            let all = self.axes.iter_mut().zip(axes).zip(others).zip(&labelled);
            for (((joined, one), two), labelled) in all {
                let bin = rest % (two.n_bins + 2);
                rest /= two.n_bins + 2;
                let inside = (1..=two.n_bins).contains(&bin);
                if !labelled || !inside {
                    continue;
                }
                let Some((_, text)) = two.labels.iter().find(|(at, _)| *at as usize == bin) else {
                    return differ(format!(
                        "bin {bin} of the {} has content but no label in this one, and bins are added by label",
                        two.name()
                    ));
                };
                let found = joined.bin_of(one, text);
                if let Some(place) = joined.other.get_mut(bin) {
                    *place = Some(found);
                }
            }
        }
        self.place_overflows(axes, &labelled)
    }

    /// The overflow of an extended axis stays its overflow.
    fn place_overflows(&mut self, axes: &[Axis], labelled: &[bool]) -> Result<(), HistogramError> {
        let labelled = labelled.iter().copied();
        for ((joined, one), _) in self
            .axes
            .iter_mut()
            .zip(axes)
            .zip(labelled)
            .filter(|(_, is)| *is)
        {
            if joined.changed && !one.edges.is_empty() {
                return differ(format!(
                    "the {} has bins of variable width, and different labels",
                    one.name()
                ));
            }
            if let Some(place) = joined.other.first_mut() {
                *place = Some(0);
            }
            for place in [joined.other.last_mut()].into_iter().flatten() {
                *place = Some(joined.n_bins + 1);
            }
            if let Some(place) = joined.first.last_mut() {
                *place = joined.n_bins + 1;
            }
        }
        Ok(())
    }

    fn check_size(&self, one: &Histogram) -> Result<(), HistogramError> {
        match self.n_cells() {
            n if n <= MOST_CELLS.max(one.contents.n) => Ok(()),
            n => differ(format!("together they would have {n} bins")),
        }
    }

    /// Checks that there are no entries outside of an axis that are inside of the joined one: their
    /// bins are unknown.
    fn check_overflow(
        &self,
        histogram: &Histogram,
        axes: &[Axis],
        matches: &[Match],
    ) -> Result<(), HistogramError> {
        if !matches.contains(&Match::Edges) {
            return Ok(());
        }
        for cell in (0..histogram.contents.n).filter(|&cell| histogram.occupied(cell)) {
            let mut rest = cell;
            for (joined, axis) in self.axes.iter().zip(axes) {
                let bin = rest % (axis.n_bins + 2);
                rest /= axis.n_bins + 2;
                let below = bin == 0 && !nearly(joined.low, axis.low, 1e-12);
                let above = bin > axis.n_bins && !nearly(joined.high, axis.high, 1e-12);
                if below || above {
                    return differ(format!(
                        "the limits of the {} differ, and there are entries outside of the narrower limits ({})",
                        axis.name(),
                        axis.describe()
                    ));
                }
            }
        }
        Ok(())
    }

    /// Number of bins of all axes together.
    pub fn n_cells(&self) -> usize {
        let sizes = self.axes.iter().map(|axis| axis.n_bins.saturating_add(2));
        sizes.fold(1, usize::saturating_mul)
    }

    /// The bin in the joined histogram for each bin of the other one; none for bins without
    /// content.
    pub fn cells(&self, other: &Histogram) -> Vec<Option<usize>> {
        let of = |cell| {
            self.cell(
                cell,
                |joined, bin| joined.other.get(bin).copied().flatten(),
                |joined| joined.other.len(),
            )
        };
        (0..other.contents.n).map(of).collect()
    }

    /// The bin in the joined histogram, from the bins of each axis.
    pub fn cell(
        &self,
        cell: usize,
        to: impl Fn(&Joined, usize) -> Option<usize>,
        size: impl Fn(&Joined) -> usize,
    ) -> Option<usize> {
        let (mut rest, mut stride, mut out) = (cell, 1, 0);
        for joined in &self.axes {
            let n = size(joined).max(1);
            out += to(joined, rest % n)? * stride;
            rest /= n;
            stride *= joined.n_bins + 2;
        }
        Some(out)
    }
}
