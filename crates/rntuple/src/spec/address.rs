//! Addresses of pages and envelopes.

use std::fmt::{Display, Formatter};
use std::ops::Range;

/// The address of stored bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PageAddress {
    /// An offset in the file.
    File(u64),
    /// An object of an object store, or the value of a key.
    Object {
        /// ID of the object, which the store maps to a name or a key.
        id: u64,
        /// Offset in the object.
        offset: u32,
    },
    /// Unknown: the locator has an unsupported type.
    Unknown(u8),
}

impl Default for PageAddress {
    fn default() -> Self {
        Self::File(0)
    }
}

impl PageAddress {
    /// Offset in the file or in the object.
    pub fn offset(self) -> u64 {
        match self {
            Self::File(offset) => offset,
            Self::Object { offset, .. } => offset.into(),
            Self::Unknown(_) => 0,
        }
    }

    /// ID of the object; none of files.
    pub fn object(self) -> Option<u64> {
        match self {
            Self::Object { id, .. } => Some(id),
            Self::File(_) | Self::Unknown(_) => None,
        }
    }

    /// The address `n` bytes later; none if that is out of range.
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

/// A range of stored bytes: a page with its checksum, an envelope, or several adjacent pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct StoredRange {
    /// Address of the first byte.
    pub address: PageAddress,
    /// Number of bytes.
    pub size: u64,
}

impl StoredRange {
    /// A range of the file. An inverted range is empty.
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

    /// The range in the file; none if the bytes are not in a file.
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
