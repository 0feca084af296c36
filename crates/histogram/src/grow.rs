//! Rewrites a histogram with extended axes.

use crate::HistogramError;
use crate::axis::AXIS_RANGE;
use crate::error::differ;
use crate::histogram::Histogram;
use crate::labels::items;
use crate::layout::Place;
use crate::numbers::{Kind, add_to, put_int, real};
use crate::plan::{Joined, Plan};
use crate::splice::{Splice, splice};

impl Plan {
    /// The first histogram with the joined axes; none if they are its own axes.
    pub fn applied(&self, one: &Histogram) -> Result<Option<Histogram>, HistogramError> {
        if self.axes.iter().all(|joined| !joined.changed) {
            return Ok(None);
        }
        let n = self.n_cells();
        let mut splices = Vec::new();
        for place in arrays(one)? {
            let old = 0..place.n;
            let cells = old.map(|cell| {
                let of = |joined: &Joined, bin| joined.first.get(bin).copied();
                self.cell(cell, of, |joined| joined.first.len())
                    .unwrap_or(0)
            });
            let mut bytes = u32::try_from(n).unwrap_or(0).to_be_bytes().to_vec();
            bytes.extend(redistributed(place.kind, one.slice(place), n, cells));
            let range = place.at.saturating_sub(4)..place.range().end;
            splices.push(Splice { range, bytes });
        }
        let mut one = one.clone();
        for joined in self.axes.iter().filter(|joined| joined.changed) {
            joined.describe(&mut one, &mut splices)?;
        }
        set_int(&mut one, "fNcells", signed(n))?;
        let bytes = splice(&one, splices)?;
        one.with(&bytes).map(Some)
    }
}

impl Joined {
    /// Writes limits and labels, and resets the selected range.
    fn describe(
        &self,
        one: &mut Histogram,
        splices: &mut Vec<Splice>,
    ) -> Result<(), HistogramError> {
        let name = |name: &str| format!("{}.{name}", self.member);
        one.set_number(&name("fXmin"), self.low)?;
        one.set_number(&name("fXmax"), self.high)?;
        set_int(one, &name("fNbins"), signed(self.n_bins))?;
        set_int(one, &name("fFirst"), 0)?;
        set_int(one, &name("fLast"), 0)?;
        let bits = one.int(&name("fBits")) & !AXIS_RANGE;
        set_int(one, &name("fBits"), bits)?;
        if self.labels.is_empty() {
            return Ok(());
        }
        let labels = one
            .layout
            .labels
            .get(self.member)
            .cloned()
            .unwrap_or_default();
        let list = labels.list.zip(items(&self.labels, labels.tag));
        let Some(((count_at, end), bytes)) = list.filter(|_| labels.tag != 0) else {
            return differ(format!("the labels of {} cannot be extended", self.member));
        };
        let count = u32::try_from(labels.items.len() + self.labels.len()).unwrap_or(0);
        splices.push(Splice {
            range: count_at..count_at + 4,
            bytes: count.to_be_bytes().to_vec(),
        });
        splices.push(Splice {
            range: end..end,
            bytes,
        });
        Ok(())
    }
}

fn set_int(one: &mut Histogram, name: &str, value: i64) -> Result<(), HistogramError> {
    let place = one.place(name)?;
    put_int(place.kind, one.slice_mut(place), value);
    Ok(())
}

/// A number of bins, which is far below the limit of `i64`.
fn signed(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(0)
}

/// The numbers of an array, moved to other bins.
fn redistributed(
    kind: Kind,
    numbers: &[u8],
    n: usize,
    cells: impl Iterator<Item = usize>,
) -> Vec<u8> {
    let size = kind.size();
    let mut out = vec![0; n.saturating_mul(size)];
    for (number, cell) in numbers.chunks_exact(size).zip(cells) {
        if real(kind, number) != 0.0
            && let Some(place) = out.get_mut(cell.saturating_mul(size)..)
        {
            add_to(kind, place, number);
        }
    }
    out
}

/// The arrays of a histogram that have a number for each bin.
fn arrays(histogram: &Histogram) -> Result<Vec<Place>, HistogramError> {
    let mut out = vec![histogram.contents];
    for (name, _) in histogram.shape.arrays() {
        out.push(histogram.place(name)?);
    }
    out.retain(|place| place.n > 0);
    Ok(out)
}
