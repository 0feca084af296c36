//! Keys: they precede every record, and are in the key lists of directories.

use std::ops::Range;

use crate::cursor::Cursor;
use crate::{Datime, RootFileError};

/// The upper bits of a wide key's parent position are a process ID offset.
const PARENT_MASK: u64 = 0xFFFF_FFFF_FFFF;

/// A TKey: offset, size, class and name of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Size of the record: this key and the payload.
    pub n_bytes: u32,
    /// Version of the key; positions have 64 bits if it is over 1000.
    pub version: u16,
    /// Size of the decompressed payload.
    pub object_len: u32,
    /// When the record was written.
    pub datetime: Datime,
    /// Size of the key at the beginning of the record.
    pub key_len: u16,
    /// The cycle number, which distinguishes records of the same name; the highest is the newest.
    pub cycle: u16,
    /// Offset of the record.
    pub seek_key: u64,
    /// Offset of the record of the directory that contains the key.
    pub seek_parent: u64,
    /// Class of the object.
    pub class_name: String,
    /// Name of the object.
    pub name: String,
    /// Title of the object.
    pub title: String,
}

impl Key {
    /// The smallest size of a key on disk.
    pub(crate) const SMALLEST: usize = 29;

    /// Parses a key at the beginning of a record, or in a key list.
    pub(crate) fn parse(cursor: &mut Cursor<'_>) -> Result<Self, RootFileError> {
        let offset = cursor.offset();
        let n_bytes = cursor.i32()?;
        let Some(n_bytes) = u32::try_from(n_bytes).ok().filter(|&n_bytes| n_bytes > 0) else {
            let found = format_args!("{n_bytes}, which marks a deleted record");
            return Err(cursor
                .place()
                .corrupt(offset, "the size of a record", found));
        };
        let version = cursor.u16()?;
        let wide = version > 1000;
        let key = Self {
            n_bytes,
            version,
            object_len: cursor.size()?,
            datetime: Datime(cursor.u32()?),
            key_len: cursor.u16()?,
            cycle: cursor.u16()?,
            seek_key: cursor.seek_value(wide)?,
            seek_parent: parent(cursor, wide)?,
            class_name: cursor.string()?,
            name: cursor.string()?,
            title: cursor.string()?,
        };
        if usize::from(key.key_len) < Self::SMALLEST || u32::from(key.key_len) > n_bytes {
            let expected = format_args!("a key of {} to {n_bytes} bytes", Self::SMALLEST);
            return Err(cursor.place().corrupt(offset, expected, key.key_len));
        }
        Ok(key)
    }

    /// Offset of the payload.
    #[must_use]
    pub fn payload_offset(&self) -> u64 {
        self.seek_key.saturating_add(u64::from(self.key_len))
    }

    /// Size of the payload on disk.
    #[must_use]
    pub fn payload_size(&self) -> u32 {
        self.n_bytes.saturating_sub(u32::from(self.key_len))
    }

    /// Whether the payload is compressed.
    #[must_use]
    pub fn is_compressed(&self) -> bool {
        self.object_len > self.payload_size()
    }

    /// Whether it is the key of a directory.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        matches!(self.class_name.as_str(), "TDirectoryFile" | "TDirectory")
    }

    /// The range of the whole record.
    pub fn record(&self) -> Range<u64> {
        self.seek_key..self.seek_key.saturating_add(u64::from(self.n_bytes))
    }
}

fn parent(cursor: &mut Cursor<'_>, wide: bool) -> Result<u64, RootFileError> {
    if wide {
        return Ok(cursor.array().map(u64::from_be_bytes)? & PARENT_MASK);
    }
    cursor.seek_value(false)
}
