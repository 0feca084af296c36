//! A cursor for streamed histograms.

use femtobarn_rootfile::{StreamedCursor, StreamedError};

use crate::HistogramError;

/// A position in the bytes of a histogram.
pub(crate) type Cursor<'a> = StreamedCursor<'a, HistogramError>;

impl StreamedError for HistogramError {
    fn truncated(what: &'static str, offset: usize, expected: usize, found: usize) -> Self {
        Self::Truncated {
            what,
            offset,
            expected,
            found,
        }
    }

    fn corrupt(what: &'static str, offset: usize, expected: String, found: String) -> Self {
        Self::Corrupt {
            what,
            offset,
            expected,
            found,
        }
    }
}
