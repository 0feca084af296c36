//! A histogram in its stored form.

use std::borrow::Cow;
use std::sync::Arc;

use crate::axis::Axis;
use crate::layout::{Layout, Place};
use crate::numbers::{Kind, put_real, real};
use crate::shape::Shape;
use crate::splice::moved;
use crate::walk::{int_at, walk};
use crate::{HistogramError, Infos};

/// Whether objects of this class are histograms that can be added.
#[must_use]
pub fn is_histogram(class: &str) -> bool {
    Shape::of(class).is_some()
}

/// A histogram or profile.
#[derive(Debug, Clone)]
pub struct Histogram {
    pub(crate) class: String,
    pub(crate) shape: Shape,
    pub(crate) bytes: Vec<u8>,
    /// Length of the key, which tags depend on.
    pub(crate) key_len: u16,
    pub(crate) layout: Layout,
    pub(crate) infos: Arc<Infos>,
    pub(crate) contents: Place,
}

impl Histogram {
    /// Locates the numbers in `object`, which was stored with a key of `key_len` bytes.
    ///
    /// # Errors
    /// If it is damaged, or its class is not a histogram, or is not described in the file.
    pub fn parse(
        class: &str,
        object: &[u8],
        key_len: u16,
        infos: &Arc<Infos>,
    ) -> Result<Self, HistogramError> {
        let unknown = || HistogramError::Unsupported {
            what: format!("objects of class {class} are not histograms that can be added"),
        };
        let shape = Shape::of(class).ok_or_else(unknown)?;
        let layout = walk(class, object, key_len, infos)?;
        let Some(&contents) = layout.members.get("fArray") else {
            return Err(missing(&layout, class, "fArray"));
        };
        let histogram = Self {
            class: class.to_owned(),
            shape,
            bytes: object.to_vec(),
            key_len,
            layout,
            infos: Arc::clone(infos),
            contents,
        };
        histogram.check()?;
        Ok(histogram)
    }

    /// Checks that all required members exist, and that the number of bins is that of the axes.
    fn check(&self) -> Result<(), HistogramError> {
        for name in self.shape.statistics() {
            self.number(name)?;
        }
        self.number("fEntries")?;
        let mut n_cells: usize = 1;
        for axis in self.axes()? {
            n_cells = n_cells.saturating_mul(axis.n_bins.saturating_add(2));
        }
        let sized = |name: &'static str, n: usize| match n == n_cells {
            true => Ok(()),
            false => Err(HistogramError::Corrupt {
                what: name,
                offset: self.contents.at,
                expected: format!("{n_cells} bins, as the axes say"),
                found: n.to_string(),
            }),
        };
        sized("fArray", self.contents.n)?;
        for (name, always) in self.shape.arrays() {
            let Place { kind, n, .. } = self.place(name)?;
            if kind != Kind::F64 {
                return Err(missing(&self.layout, &self.class, name));
            }
            if always || n > 0 {
                sized(name, n)?;
            }
        }
        Ok(())
    }

    /// The object for a record with a key of `key_len` bytes.
    ///
    /// # Errors
    /// If it contains references, which depend on the key's length, in parts that are not supported.
    pub fn object(&self, key_len: u16) -> Result<Cow<'_, [u8]>, HistogramError> {
        if key_len == self.key_len {
            return Ok(Cow::Borrowed(&self.bytes));
        }
        moved(self, key_len).map(Cow::Owned)
    }

    /// The histogram with other bytes, of the same class.
    pub(crate) fn with(&self, bytes: &[u8]) -> Result<Self, HistogramError> {
        Self::parse(&self.class, bytes, self.key_len, &self.infos)
    }

    /// The location of a member.
    pub(crate) fn place(&self, name: &str) -> Result<Place, HistogramError> {
        let found = self.layout.members.get(name).copied();
        found.ok_or_else(|| missing(&self.layout, &self.class, name))
    }

    /// The bytes at a location.
    pub(crate) fn slice(&self, place: Place) -> &[u8] {
        self.bytes.get(place.range()).unwrap_or_default()
    }

    pub(crate) fn slice_mut(&mut self, place: Place) -> &mut [u8] {
        self.bytes.get_mut(place.range()).unwrap_or_default()
    }

    /// A floating-point member.
    pub(crate) fn number(&self, name: &str) -> Result<f64, HistogramError> {
        let place = self.place(name)?;
        match place.kind {
            Kind::F64 | Kind::F32 => Ok(real(place.kind, self.slice(place))),
            _ => Err(missing(&self.layout, &self.class, name)),
        }
    }

    pub(crate) fn set_number(&mut self, name: &str, value: f64) -> Result<(), HistogramError> {
        let place = self.place(name)?;
        put_real(place.kind, self.slice_mut(place), value);
        Ok(())
    }

    /// An integer member; zero if it does not exist.
    pub(crate) fn int(&self, name: &str) -> i64 {
        let place = self.layout.members.get(name);
        place.map_or(0, |&place| int_at(&self.bytes, place))
    }

    /// An array of double-precision numbers.
    pub(crate) fn reals(&self, name: &str) -> Result<Vec<f64>, HistogramError> {
        let place = self.place(name)?;
        let size = place.kind.size();
        let numbers = self.slice(place).chunks_exact(size);
        Ok(numbers.map(|bytes| real(place.kind, bytes)).collect())
    }

    /// The stored content of a bin; for a profile, the sum of its values.
    pub(crate) fn content(&self, bin: usize) -> f64 {
        self.element(self.contents, bin)
    }

    pub(crate) fn element(&self, place: Place, at: usize) -> f64 {
        let size = place.kind.size();
        let bytes = self.slice(place).get(at.saturating_mul(size)..);
        real(place.kind, bytes.unwrap_or_default())
    }

    /// The axes, one per dimension.
    pub(crate) fn axes(&self) -> Result<Vec<Axis>, HistogramError> {
        let names = ["fXaxis", "fYaxis", "fZaxis"].into_iter();
        let names = names.take(self.shape.dimensions);
        names.map(|name| Axis::of(self, name)).collect()
    }

    /// Whether nothing was ever filled into it.
    pub(crate) fn is_empty(&self) -> Result<bool, HistogramError> {
        let zero = |place: Place| self.slice(place).iter().all(|&byte| byte == 0);
        let sums = [self.number("fEntries")?, self.number("fTsumw")?];
        let mut empty = sums == [0.0, 0.0] && zero(self.contents) && self.buffered()? == 0;
        for (name, _) in self.shape.arrays() {
            empty &= zero(self.place(name)?);
        }
        Ok(empty)
    }

    /// Number of buffered entries.
    pub(crate) fn buffered(&self) -> Result<usize, HistogramError> {
        let Some(&place) = self.layout.members.get("fBuffer") else {
            return Ok(0);
        };
        let n = self.element(place, 0);
        let most = place.n.saturating_sub(1) / (self.shape.values() + 1);
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
        if n > most as f64 || n.is_nan() {
            return Err(HistogramError::Corrupt {
                what: "fBuffer",
                offset: place.at,
                expected: format!("at most {most} entries"),
                found: n.to_string(),
            });
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked"
        )]
        let n = n.max(0.0) as usize;
        Ok(n)
    }
}

fn missing(layout: &Layout, class: &str, name: &str) -> HistogramError {
    let why = match &layout.undescribed {
        Some(missing) => format!("its file has no description of {missing}"),
        None => format!("its {class} has no {name}"),
    };
    HistogramError::Unsupported { what: why }
}
