//! Free segments: the gaps that deleted records left.

use crate::RootFileError;
use crate::cursor::Cursor;
use crate::key::Key;

/// A stretch of the file that holds nothing. Both ends belong to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeSegment {
    /// The first byte.
    pub first: u64,
    /// The last byte. In the last segment, the one behind the end of the file, the largest position
    /// that the file could grow to.
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
