//! A cursor for streamed objects.

use femtobarn_rootfile::{StreamedCursor, StreamedError};

use crate::TreeError;

/// A position in the bytes of a tree, or of a basket.
pub(crate) type Cursor<'a> = StreamedCursor<'a, TreeError>;

impl StreamedError for TreeError {
    fn truncated(what: &'static str, offset: usize, expected: usize, found: usize) -> Self {
        Self::Truncated {
            what,
            offset,
            expected: expected as u64,
            found: found as u64,
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
