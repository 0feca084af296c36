//! Free segments: the gaps of deleted records.

use crate::RootFileError;
use crate::cursor::Cursor;
use crate::key::Key;

/// An unused part of the file. Both ends are inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeSegment {
    /// The first byte.
    pub first: u64,
    /// The last byte. In the last segment, which follows the end of the file, the largest possible
    /// position.
    pub last: u64,
}

/// Parses the record that lists `count` free segments.
pub(crate) fn parse_free_segments(
    mut cursor: Cursor<'_>,
    count: u32,
) -> Result<Vec<FreeSegment>, RootFileError> {
    let header = Key::parse(&mut cursor)?;
    cursor.seek(usize::from(header.key_len))?;
    let mut segments = Vec::new();
    for _ in 0..count {
        let offset = cursor.offset();
        let wide = cursor.u16()? > 1000;
        let (first, last) = (cursor.seek_value(wide)?, cursor.seek_value(wide)?);
        if first > last {
            let expected = format_args!("an end from {first} on");
            return Err(cursor.place().corrupt(offset, expected, last));
        }
        segments.push(FreeSegment { first, last });
    }
    Ok(segments)
}
