//! Errors in the bytes of a tree.

/// An error in the bytes of an object or of a basket. Offsets count from the first byte of that object or basket.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    /// The bytes are truncated.
    #[error("{what} at byte {offset}: expected {expected} bytes, found {found}")]
    Truncated {
        /// The item that was read.
        what: &'static str,
        /// Its offset.
        offset: usize,
        /// Number of bytes needed.
        expected: u64,
        /// Number of bytes available.
        found: u64,
    },
    /// A value that is invalid.
    #[error("{what} at byte {offset}: expected {expected}, found {found}")]
    Corrupt {
        /// The item that was read.
        what: &'static str,
        /// Its offset.
        offset: usize,
        /// Description of valid values.
        expected: String,
        /// The value found.
        found: String,
    },
    /// An error in one entry of a tree.
    #[error("entry {entry}: {source}")]
    Entry {
        /// The entry number: in the basket while that is decoded, in the tree once the basket is known.
        entry: u64,
        /// The error, with offsets from the first byte of the entry.
        source: Box<TreeError>,
    },
    /// A structure that is not supported.
    #[error("{0}")]
    Unsupported(String),
    /// A structure that is not supported, provided that the bytes are intact: the file has no description of it.
    #[error("{0}")]
    Undescribed(String),
}

impl TreeError {
    /// Adds the entry number to an error.
    pub(crate) fn in_entry(self, entry: u64) -> Self {
        match self {
            Self::Truncated { .. } | Self::Corrupt { .. } => Self::Entry {
                entry,
                source: Box::new(self),
            },
            other => other,
        }
    }

    /// Converts entry numbers in the basket, whose first entry is `first`, to entry numbers in the tree.
    pub(crate) fn counted_from(self, first: u64) -> Self {
        match self {
            Self::Entry { entry, source } => Self::Entry {
                entry: first.saturating_add(entry),
                source,
            },
            other => other,
        }
    }
}

/// The error that a branch cannot be read, with a reason.
pub(crate) fn unsupported<T>(reason: impl Into<String>) -> Result<T, TreeError> {
    Err(TreeError::Unsupported(reason.into()))
}
