//! What can go wrong when histograms are read and added.

/// An error about a histogram. Offsets are positions in its object.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "members are named by the messages")]
pub enum HistogramError {
    /// The object ends before it should.
    #[error(
        "truncated: {what} at byte {offset} of the object: expected {expected} bytes, found {found}"
    )]
    Truncated {
        what: &'static str,
        offset: usize,
        expected: usize,
        found: usize,
    },
    /// A value that no intact histogram has.
    #[error("corrupt: {what} at byte {offset} of the object: expected {expected}, found {found}")]
    Corrupt {
        what: &'static str,
        offset: usize,
        expected: String,
        found: String,
    },
    /// Something that is not understood.
    #[error("{what}")]
    Unsupported { what: String },
    /// Two histograms that do not belong together.
    #[error("{what}")]
    Differ { what: String },
}

pub(crate) fn unsupported<T>(what: impl Into<String>) -> Result<T, HistogramError> {
    Err(HistogramError::Unsupported { what: what.into() })
}

pub(crate) fn differ<T>(what: impl Into<String>) -> Result<T, HistogramError> {
    Err(HistogramError::Differ { what: what.into() })
}
