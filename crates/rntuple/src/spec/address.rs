//! Addresses: where the bytes of a page or an envelope are stored.

use std::fmt::{Display, Formatter};
use std::ops::Range;

/// Where stored bytes begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PageAddress {
    /// At this offset of the file.
    File(u64),
    /// In an object of an object store, or in the value of a key.
    Object {
        /// The object's number, which the store turns into a name or a key.
        id: u64,
        /// Bytes from the start of the object.
        offset: u32,
    },
    /// Unknown: the locator has a type that this version cannot read.
    Unknown(u8),
}

impl Default for PageAddress {
    fn default() -> Self {
        Self::File(0)
    }
}

impl PageAddress {
    /// Bytes from the start of the file or of the object.
    pub fn offset(self) -> u64 {
        match self {
            Self::File(offset) => offset,
            Self::Object { offset, .. } => offset.into(),
            Self::Unknown(_) => 0,
        }
    }

    /// The address of a later byte; none if it is too far behind.
    pub fn plus(self, n: u64) -> Option<Self> {
        Some(match self {
            Self::File(offset) => Self::File(offset.checked_add(n)?),
            Self::Object { id, offset } => {
                let offset = u32::try_from(u64::from(offset).checked_add(n)?).ok()?;
                Self::Object { id, offset }
            }
            Self::Unknown(kind) => Self::Unknown(kind),
        })
    }

    /// The address of the first byte of the same file or object.
    pub(crate) fn base(self) -> Self {
        match self {
            Self::File(_) => Self::File(0),
            Self::Object { id, .. } => Self::Object { id, offset: 0 },
            Self::Unknown(_) => self,
        }
    }
}

impl Display for PageAddress {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(offset) => write!(f, "offset {offset}"),
            Self::Object { id, offset: 0 } => write!(f, "object {id}"),
            Self::Object { id, offset } => write!(f, "offset {offset} of object {id}"),
            Self::Unknown(kind) => write!(f, "a locator of unknown type {kind:#x}"),
        }
    }
}

/// Stored bytes: those of a page with its checksum, of an envelope, or of several pages that are read together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoredRange {
    /// Where the bytes begin.
    pub address: PageAddress,
    /// How many bytes there are.
    pub size: u64,
}

impl StoredRange {
    /// A range of the file; an inverted one has no bytes.
    pub fn of_file(range: Range<u64>) -> Self {
        Self {
            address: PageAddress::File(range.start),
            size: range.end.saturating_sub(range.start),
        }
    }

    /// The range in its file or object.
    pub fn range(self) -> Range<u64> {
        let start = self.address.offset();
        start..start.saturating_add(self.size)
    }

    /// The range in the file; none if the bytes are elsewhere.
    pub fn in_file(self) -> Option<Range<u64>> {
        matches!(self.address, PageAddress::File(_)).then(|| self.range())
    }

    /// The last bytes of the range, at most `n`.
    pub fn last(self, n: u64) -> Self {
        let skipped = self.size.saturating_sub(n);
        Self {
            address: self.address.plus(skipped).unwrap_or(self.address),
            size: self.size - skipped,
        }
    }
}
