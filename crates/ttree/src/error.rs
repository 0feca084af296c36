//! What can be wrong in the bytes of a tree.

/// An error in the bytes of an object or of a basket. Offsets count from the first byte of what is read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    /// The bytes end too early.
    #[error("{what} at byte {offset}: expected {expected} bytes, found {found}")]
    Truncated {
        /// What was being read.
        what: &'static str,
        /// Where.
        offset: usize,
        /// Bytes needed.
        expected: u64,
        /// Bytes there.
        found: u64,
    },
    /// A value that no intact file has.
    #[error("{what} at byte {offset}: expected {expected}, found {found}")]
    Corrupt {
        /// What was being read.
        what: &'static str,
        /// Where.
        offset: usize,
        /// What would be right, in words.
        expected: String,
        /// What is there.
        found: String,
    },
    /// What is wrong in one entry of a tree.
    #[error("entry {entry}: {source}")]
    Entry {
        /// Its number: in the basket while that is decoded, in the tree once the basket is known.
        entry: u64,
        /// What is wrong, with offsets from the first byte of the entry.
        source: Box<TreeError>,
    },
    /// Something that is not read.
    #[error("{0}")]
    Unsupported(String),
    /// Something that is not read if the bytes are intact: nothing in the file speaks of it.
    #[error("{0}")]
    Undescribed(String),
}

impl TreeError {
    /// The error of bytes in an entry.
    pub(crate) fn in_entry(self, entry: u64) -> Self {
        match self {
            Self::Truncated { .. } | Self::Corrupt { .. } => Self::Entry {
                entry,
                source: Box::new(self),
            },
            other => other,
        }
    }

    /// Counts the entry from the first one of the tree and not from that of a basket, whose first entry is `first`.
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

/// Why a branch cannot be read, in words.
pub(crate) fn unsupported<T>(reason: impl Into<String>) -> Result<T, TreeError> {
    Err(TreeError::Unsupported(reason.into()))
}
