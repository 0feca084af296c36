//! Histograms of their parts.

use crate::classes::known;
use crate::encode::{Members, encode};
use crate::error::unsupported;
use crate::numbers::Kind;
use crate::parts::{AxisParts, Bins, Moments, Parts};
use crate::shape::{BIN_ENTRIES, BIN_SUMW2, SUMW2};
use crate::stats::statistics;
use crate::{Histogram, HistogramError};

/// The members and the names of the axes.
const AXES: [(&str, &str); 3] = [
    ("fXaxis", "xaxis"),
    ("fYaxis", "yaxis"),
    ("fZaxis", "zaxis"),
];

/// The bits of an axis with a label for each bin: it is alphanumeric and can be extended.
const ALL_LABELS: f64 = 3.0;

impl Histogram {
    /// Makes a histogram.
    ///
    /// # Errors
    /// If ROOT has no histogram with these axes or this type of numbers, or the numbers of bins differ.
    pub fn build(parts: &Parts) -> Result<Self, HistogramError> {
        let class = class_of(parts)?;
        let mut members = Members::default();
        let strings = &mut members.strings;
        strings.insert("fName".to_owned(), parts.name.clone());
        strings.insert("fTitle".to_owned(), parts.title.clone());
        let mut n_cells = 1usize;
        for (at, (member, name)) in AXES.into_iter().enumerate() {
            let axis = parts.axes.get(at);
            n_cells = n_cells.saturating_mul(axis.map_or(1, |axis| axis.edges.len() + 1));
            add_axis(&mut members, (member, name), axis)?;
        }
        set(&mut members, "fNcells", real(n_cells));
        let entries = match &parts.bins {
            Bins::Counts {
                dtype,
                contents,
                squares,
            } => add_counts(
                &mut members,
                kind_of(dtype)?.0,
                contents,
                squares.as_deref(),
            ),
            Bins::Means(moments) => add_means(&mut members, moments),
        };
        set(&mut members, "fEntries", entries);
        let infos = known();
        let mut histogram = Self::parse(&class, &encode(&class, &members, &infos), 0, &infos)?;
        let sums = match &parts.sums {
            Some(sums) => sums.clone(),
            None => statistics(&histogram)?,
        };
        for (name, sum) in histogram.shape.statistics().into_iter().zip(sums) {
            histogram.set_number(name, sum)?;
        }
        Ok(histogram)
    }
}

fn class_of(parts: &Parts) -> Result<String, HistogramError> {
    let n = parts.axes.len();
    if !(1..=3).contains(&n) {
        return unsupported(format!("ROOT's histograms have 1 to 3 axes, not {n}"));
    }
    Ok(match &parts.bins {
        Bins::Counts { dtype, .. } => format!("TH{n}{}", kind_of(dtype)?.1),
        Bins::Means(_) if n == 1 => "TProfile".to_owned(),
        Bins::Means(_) => format!("TProfile{n}D"),
    })
}

/// The stored type of a type of NumPy, and its letter in names of classes.
fn kind_of(dtype: &str) -> Result<(Kind, char), HistogramError> {
    match dtype {
        "i1" => Ok((Kind::I8, 'C')),
        "i2" => Ok((Kind::I16, 'S')),
        "i4" => Ok((Kind::I32, 'I')),
        "i8" => Ok((Kind::I64, 'L')),
        "f4" => Ok((Kind::F32, 'F')),
        "f8" => Ok((Kind::F64, 'D')),
        other => unsupported(format!(
            "ROOT has no histograms of the type {other:?}: convert the contents to float64"
        )),
    }
}

fn add_axis(
    members: &mut Members,
    (member, name): (&str, &str),
    axis: Option<&AxisParts>,
) -> Result<(), HistogramError> {
    let path = |name: &str| format!("{member}.{name}");
    members.strings.insert(path("fName"), name.to_owned());
    let Some(axis) = axis else {
        set(members, &path("fNbins"), 1.0);
        set(members, &path("fXmax"), 1.0);
        return Ok(());
    };
    let edges = &axis.edges;
    let increase = edges
        .windows(2)
        .all(|pair| matches!(pair, [low, high] if low < high));
    let (Some(low), Some(high), true) = (edges.first(), edges.last(), edges.len() > 1) else {
        return unsupported(format!("the {name} has no bins"));
    };
    if !increase || !low.is_finite() || !high.is_finite() {
        return unsupported(format!(
            "the edges of the {name} are not finite and increasing: {edges:?}"
        ));
    }
    let n_bins = edges.len() - 1;
    members.strings.insert(path("fTitle"), axis.title.clone());
    set(members, &path("fNbins"), real(n_bins));
    set(members, &path("fXmin"), *low);
    set(members, &path("fXmax"), *high);
    if !axis.is_regular {
        let bytes = big_endian(edges);
        members
            .arrays
            .insert(path("fXbins.fArray"), (Kind::F64, bytes));
    }
    if !axis.labels.is_empty() {
        if axis.labels.len() == n_bins {
            set(members, &path("fBits2"), ALL_LABELS);
        }
        members.labels.insert(path("fLabels"), axis.labels.clone());
    }
    Ok(())
}

/// Adds the bins of a histogram, and returns its number of entries.
fn add_counts(members: &mut Members, kind: Kind, contents: &[u8], squares: Option<&[f64]>) -> f64 {
    let counts = contents.chunks_exact(kind.size());
    let counts: Vec<f64> = counts
        .map(|bytes| crate::numbers::real(kind, bytes))
        .collect();
    let array = (kind, contents.to_vec());
    members.arrays.insert("fArray".to_owned(), array);
    let Some(squares) = squares else {
        return counts.iter().sum();
    };
    let array = (Kind::F64, big_endian(squares));
    members.arrays.insert(SUMW2.to_owned(), array);
    effective(&counts, squares)
}

/// Adds the bins of a profile, and returns its number of entries.
fn add_means(members: &mut Members, moments: &Moments) -> f64 {
    let Moments {
        weights,
        weight_squares,
        means,
        deltas,
    } = moments;
    let sums: Vec<f64> = std::iter::zip(weights, means)
        .map(|(weight, mean)| if *weight == 0.0 { 0.0 } else { weight * mean })
        .collect();
    let squares: Vec<f64> = std::iter::zip(std::iter::zip(&sums, means), deltas)
        .map(|((sum, mean), delta)| {
            if *sum == 0.0 {
                *delta
            } else {
                delta + sum * mean
            }
        })
        .collect();
    let arrays = [
        ("fArray", &sums),
        (SUMW2, &squares),
        (BIN_ENTRIES, weights),
        (BIN_SUMW2, weight_squares),
    ];
    for (name, numbers) in arrays {
        // without weights, ROOT does not store their squares
        if name != BIN_SUMW2 || weights != weight_squares {
            let array = (Kind::F64, big_endian(numbers));
            members.arrays.insert(name.to_owned(), array);
        }
    }
    effective(weights, weight_squares)
}

/// The effective number of entries.
fn effective(weights: &[f64], squares: &[f64]) -> f64 {
    let (weights, squares): (f64, f64) = (weights.iter().sum(), squares.iter().sum());
    if squares > 0.0 {
        weights * weights / squares
    } else {
        0.0
    }
}

fn set(members: &mut Members, name: &str, value: f64) {
    members.numbers.insert(name.to_owned(), value);
}

fn big_endian(numbers: &[f64]) -> Vec<u8> {
    numbers
        .iter()
        .flat_map(|number| number.to_be_bytes())
        .collect()
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
fn real(n: usize) -> f64 {
    n as f64
}
