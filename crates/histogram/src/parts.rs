//! The content of a histogram, apart from its stored form.

/// An axis.
#[derive(Debug, Clone, PartialEq)]
pub struct AxisParts {
    /// The title.
    pub title: String,
    /// Edges of the bins, one more than there are bins.
    pub edges: Vec<f64>,
    /// Whether all bins have the same width, so that ROOT stores only the limits.
    pub is_regular: bool,
    /// Labels by bin; the first bin is 1.
    pub labels: Vec<(u32, String)>,
}

impl AxisParts {
    /// An axis with edges, which are regular if they are so up to rounding.
    #[must_use]
    pub fn new(title: String, edges: Vec<f64>, labels: Vec<(u32, String)>) -> Self {
        Self {
            title,
            is_regular: are_regular(&edges),
            edges,
            labels,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "bin numbers are far below 2^53")]
fn are_regular(edges: &[f64]) -> bool {
    let (Some(low), Some(high)) = (edges.first(), edges.last()) else {
        return false;
    };
    let width = (high - low) / edges.len().saturating_sub(1) as f64;
    let rounding = 4.0 * f64::EPSILON * low.abs().max(high.abs());
    let regular = (0..edges.len()).map(|at| low + at as f64 * width);
    let mut pairs = edges.iter().zip(regular);
    pairs.all(|(edge, regular)| (edge - regular).abs() <= rounding)
}

/// The bins of a profile, with under- and overflows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Moments {
    /// Sums of the weights.
    pub weights: Vec<f64>,
    /// Sums of the squared weights.
    pub weight_squares: Vec<f64>,
    /// Weighted means of the values.
    pub means: Vec<f64>,
    /// Weighted sums of the squared differences from the mean.
    pub deltas: Vec<f64>,
}

/// The bins of a histogram, with under- and overflows; the bin of the first axis runs fastest.
#[derive(Debug, Clone, PartialEq)]
pub enum Bins {
    /// Numbers of a NumPy type, as `i4` or `f8`, big-endian; and the sums of squared weights, if there are weights.
    Counts {
        /// The type.
        dtype: String,
        /// The bytes.
        contents: Vec<u8>,
        /// Sums of squared weights.
        squares: Option<Vec<f64>>,
    },
    /// Those of a profile.
    Means(Moments),
}

/// A histogram or a profile.
#[derive(Debug, Clone, PartialEq)]
pub struct Parts {
    /// The name.
    pub name: String,
    /// The title.
    pub title: String,
    /// One to three axes.
    pub axes: Vec<AxisParts>,
    /// The bins.
    pub bins: Bins,
    /// Statistics in the order of ROOT's `GetStats`; by default, those of the bins.
    pub sums: Option<Vec<f64>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_regular_up_to_rounding() {
        let thirds = (0..=3).map(|at| f64::from(at) / 3.0).collect::<Vec<_>>();
        assert!(are_regular(&thirds));
        assert!(are_regular(&[-0.3, -0.19999999999999998, -0.1, 0.0]));
        assert!(!are_regular(&[0.0, 1.0, 2.0, 3.001]));
        assert!(!are_regular(&[]));
    }
}
