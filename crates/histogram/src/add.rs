//! Adding one histogram to another.

use crate::HistogramError;
use crate::error::{differ, unsupported};
use crate::histogram::Histogram;
use crate::numbers::{Kind, add_to, put_real};
use crate::plan::{Plan, plan};
use crate::shape::{BIN_ENTRIES, BIN_SUMW2};
use crate::splice::{Splice, splice};
use crate::stats::statistics;

impl Histogram {
    /// Adds another histogram to this one.
    ///
    /// # Errors
    /// If they are incompatible: different dimensions, or bins or labels that cannot be combined. This one then stays
    /// unchanged.
    pub fn add(&mut self, other: &Self) -> Result<(), HistogramError> {
        if self.class != other.class {
            return differ(format!(
                "the first is a {} and this one a {}",
                self.class, other.class
            ));
        }
        if self.contents.kind != other.contents.kind {
            return differ("the bin contents have different types");
        }
        if self.settle_buffers(other)? {
            return Ok(());
        }
        if self.lacks_labels_of(other)? {
            return self.replace(other, "labels");
        }
        let plan = plan(self, other)?;
        let sums: Vec<f64> = {
            let (one, two) = (statistics(self)?, statistics(other)?);
            one.iter().zip(two).map(|(one, two)| one + two).collect()
        };
        let entries = self.number("fEntries")? + other.number("fEntries")?;
        if let Some(larger) = plan
            .as_ref()
            .and_then(|plan| plan.applied(self).transpose())
        {
            *self = larger?;
        }
        self.grow(other)?;
        self.add_bins(other, plan.as_ref())?;
        for (name, sum) in self.shape.statistics().into_iter().zip(sums) {
            self.set_number(name, sum)?;
        }
        self.set_number("fEntries", entries)
    }

    /// Whether this histogram is empty, and would have got the labels of the other one with its entries.
    fn lacks_labels_of(&self, other: &Self) -> Result<bool, HistogramError> {
        let labelled = |histogram: &Self| -> Result<bool, HistogramError> {
            let axes = histogram.axes()?;
            Ok(axes.iter().any(|axis| !axis.labels.is_empty()))
        };
        Ok(labelled(other)? && !labelled(self)? && self.is_empty()?)
    }

    /// Combines buffered entries, for axes whose limits are determined by their entries. Returns whether nothing else is
    /// left to do.
    fn settle_buffers(&mut self, other: &Self) -> Result<bool, HistogramError> {
        let limits = |histogram: &Self| -> Result<bool, HistogramError> {
            Ok(histogram.axes()?.iter().all(|axis| axis.has_limits()))
        };
        let waiting = (self.buffered()?, other.buffered()?);
        match ((limits(self)?, waiting.0), (limits(other)?, waiting.1)) {
            ((true, 0), (true, 0)) => {
                self.forget_buffer();
                Ok(false)
            }
            (_, (false, 0)) => Ok(true),
            ((false, 0), _) => self.replace(other, "limits").map(|()| true),
            ((false, _), (false, _)) => self.join_buffers(other, waiting).map(|()| true),
            _ => unsupported(format!(
                "only one of the histograms has axis limits, and there are buffered entries ({} in the first, {} in this one): call BufferEmpty(1) before writing it, or create it with limits",
                waiting.0, waiting.1
            )),
        }
    }

    /// Empties a buffer whose entries were filled in, so that they are not filled in again.
    fn forget_buffer(&mut self) {
        let place = self.layout.members.get("fBuffer").copied();
        if let Some(place) = place {
            put_real(place.kind, self.slice_mut(place), 0.0);
        }
    }

    /// Replaces an empty histogram by the other one.
    fn replace(&mut self, other: &Self, what: &str) -> Result<(), HistogramError> {
        if self.title() != other.title() {
            return differ(format!(
                "the first is empty, has no {what}, and has another title"
            ));
        }
        *self = other.clone();
        Ok(())
    }

    fn join_buffers(
        &mut self,
        other: &Self,
        (n, more): (usize, usize),
    ) -> Result<(), HistogramError> {
        let (to, from) = (self.place("fBuffer")?, other.place("fBuffer")?);
        let each = self.shape.values() + 1;
        let most = to.n.saturating_sub(1) / each;
        if n + more > most || to.kind != Kind::F64 || from.kind != Kind::F64 {
            return unsupported(format!(
                "histograms without axis limits have {n} and {more} buffered entries, and the buffer holds at most {most}: create them with limits"
            ));
        }
        let size = to.kind.size();
        let bytes = other.slice(from).get(size..size * (1 + more * each));
        let bytes = bytes.unwrap_or_default().to_vec();
        let target = self.slice_mut(to);
        let start = size * (1 + n * each);
        if let Some(place) = target.get_mut(start..start + bytes.len()) {
            place.copy_from_slice(&bytes);
        }
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
        put_real(Kind::F64, target, (n + more) as f64);
        Ok(())
    }

    /// Creates arrays that only the other histogram has. The squared errors of unweighted entries are their number.
    fn grow(&mut self, other: &Self) -> Result<(), HistogramError> {
        let mut splices = Vec::new();
        for (name, _) in self.shape.arrays() {
            let place = self.place(name)?;
            if place.n > 0 || other.place(name)?.n == 0 {
                continue;
            }
            let squares = self.unweighted(name)?;
            let n = u32::try_from(squares.len()).unwrap_or(0);
            let mut bytes = n.to_be_bytes().to_vec();
            bytes.extend(squares.iter().flat_map(|square| square.to_be_bytes()));
            let range = place.at.saturating_sub(4)..place.at;
            splices.push(Splice { range, bytes });
        }
        if !splices.is_empty() {
            *self = self.with(&splice(self, splices)?)?;
        }
        Ok(())
    }

    /// The values of a missing array of squared weights.
    fn unweighted(&self, name: &str) -> Result<Vec<f64>, HistogramError> {
        if name == BIN_SUMW2 {
            return self.reals(BIN_ENTRIES);
        }
        let contents = (0..self.contents.n).map(|bin| self.content(bin).abs());
        Ok(contents.collect())
    }

    fn add_bins(&mut self, other: &Self, plan: Option<&Plan>) -> Result<(), HistogramError> {
        let cells = plan.map(|plan| plan.cells(other));
        let mut places = vec![(self.contents, Some(other.contents), "fArray")];
        for (name, _) in self.shape.arrays() {
            let (to, from) = (self.place(name)?, other.place(name)?);
            if to.n > 0 {
                places.push((to, Some(from).filter(|from| from.n > 0), name));
            }
        }
        for (to, from, name) in places {
            let size = to.kind.size();
            let squares = match from {
                Some(_) => Vec::new(),
                None => other
                    .unweighted(name)?
                    .iter()
                    .flat_map(|square| square.to_be_bytes())
                    .collect(),
            };
            let (kind, numbers) = match from {
                Some(from) => (from.kind, other.slice(from)),
                None => (Kind::F64, squares.as_slice()),
            };
            let target = self.slice_mut(to);
            for (bin, number) in numbers.chunks_exact(kind.size()).enumerate() {
                let bin = match &cells {
                    None => bin,
                    Some(cells) => match cells.get(bin) {
                        Some(&Some(bin)) => bin,
                        _ => continue,
                    },
                };
                let place = target.get_mut(bin.saturating_mul(size)..);
                add_to(to.kind, place.unwrap_or_default(), number);
            }
        }
        Ok(())
    }

    /// Whether a bin has any content.
    pub(crate) fn occupied(&self, bin: usize) -> bool {
        let mut arrays = self.shape.arrays().into_iter();
        self.content(bin) != 0.0
            || arrays.any(|(name, _)| {
                let place = self.layout.members.get(name);
                let place = place.filter(|place| bin < place.n);
                place.is_some_and(|&place| self.element(place, bin) != 0.0)
            })
    }
}
