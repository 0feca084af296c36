//! The error of this crate.

/// An error about a histogram. Offsets are positions in its object.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "members are named by the messages")]
pub enum HistogramError {
    /// The object is truncated.
    #[error(
        "truncated: {what} at byte {offset} of the object: expected {expected} bytes, found {found}"
    )]
    Truncated {
        what: &'static str,
        offset: usize,
        expected: usize,
        found: usize,
    },
    /// A value that is invalid.
    #[error("corrupt: {what} at byte {offset} of the object: expected {expected}, found {found}")]
    Corrupt {
        what: &'static str,
        offset: usize,
        expected: String,
        found: String,
    },
    /// A structure that is not supported.
    #[error("{what}")]
    Unsupported { what: String },
    /// Two incompatible histograms.
    #[error("{what}")]
    Differ { what: String },
}

pub(crate) fn unsupported<T>(what: impl Into<String>) -> Result<T, HistogramError> {
    Err(HistogramError::Unsupported { what: what.into() })
}

pub(crate) fn differ<T>(what: impl Into<String>) -> Result<T, HistogramError> {
    Err(HistogramError::Differ { what: what.into() })
}
