//! Reads big-endian values from bytes that may be truncated.

use std::fmt::Display;

use crate::RootFileError;

/// Context for errors: the file, and the item that is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) url: &'a str,
    pub(crate) what: &'static str,
}

impl Place<'_> {
    pub(crate) fn truncated(&self, offset: u64, expected: u64, found: u64) -> RootFileError {
        RootFileError::Truncated {
            url: self.url.to_owned(),
            what: self.what,
            offset,
            expected,
            found,
        }
    }

    pub(crate) fn corrupt(
        &self,
        offset: u64,
        expected: impl Display,
        found: impl Display,
    ) -> RootFileError {
        RootFileError::Corrupt {
            url: self.url.to_owned(),
            what: self.what,
            offset,
            expected: expected.to_string(),
            found: found.to_string(),
        }
    }
}

/// A position in bytes that begin at offset `base` of the file (or of an object).
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    base: u64,
    place: Place<'a>,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8], base: u64, place: Place<'a>) -> Self {
        Self {
            bytes,
            at: 0,
            base,
            place,
        }
    }

    pub(crate) fn place(&self) -> Place<'a> {
        self.place
    }

    /// How many bytes have been read.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// The position in the file.
    pub(crate) fn offset(&self) -> u64 {
        self.base.saturating_add(self.at as u64)
    }

    /// How many bytes are left.
    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len().saturating_sub(self.at)
    }

    /// Moves to `position`, which may be the end.
    pub(crate) fn seek(&mut self, position: usize) -> Result<(), RootFileError> {
        if position > self.bytes.len() {
            return Err(self
                .place
                .truncated(self.base, position as u64, self.bytes.len() as u64));
        }
        self.at = position;
        Ok(())
    }

    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], RootFileError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Some(taken) = rest.get(..length) else {
            return Err(self
                .place
                .truncated(self.offset(), length as u64, rest.len() as u64));
        };
        self.at += length;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], RootFileError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, RootFileError> {
        self.array().map(u8::from_be_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, RootFileError> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, RootFileError> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, RootFileError> {
        self.array().map(i32::from_be_bytes)
    }

    /// A size or a count: a signed 32-bit number that must not be negative.
    pub(crate) fn size(&mut self) -> Result<u32, RootFileError> {
        let offset = self.offset();
        let value = self.i32()?;
        u32::try_from(value).map_err(|_| self.place.corrupt(offset, "a size", value))
    }

    /// A count of items that take at least `each` bytes; an error if the rest cannot hold them.
    pub(crate) fn count(&mut self, each: usize) -> Result<usize, RootFileError> {
        let offset = self.offset();
        let count = self.size()?;
        let most = self.remaining() / each;
        match usize::try_from(count) {
            Ok(count) if count <= most => Ok(count),
            _ => {
                let expected = format_args!("at most {most} items in the remaining bytes");
                Err(self.place.corrupt(offset, expected, count))
            }
        }
    }

    /// A position in the file: four bytes, or eight if `wide`.
    pub(crate) fn seek_value(&mut self, wide: bool) -> Result<u64, RootFileError> {
        if !wide {
            return self.size().map(u64::from);
        }
        let offset = self.offset();
        let value = self.array().map(i64::from_be_bytes)?;
        u64::try_from(value).map_err(|_| self.place.corrupt(offset, "a position", value))
    }

    /// A TString: one length byte, or 255 and a 32-bit length.
    pub(crate) fn string(&mut self) -> Result<String, RootFileError> {
        let length = match self.u8()? {
            255 => self.count(1)?,
            short => usize::from(short),
        };
        self.take(length).map(text)
    }

    /// The bytes up to a zero byte, which is consumed.
    pub(crate) fn zero_terminated(&mut self) -> Result<&'a [u8], RootFileError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        match rest.iter().position(|&byte| byte == 0) {
            Some(length) => {
                let taken = self.take(length)?;
                self.at += 1;
                Ok(taken)
            }
            None => {
                let found = rest.len() as u64;
                Err(self.place.truncated(self.offset(), found + 1, found))
            }
        }
    }
}

/// Decodes bytes: as UTF-8 if they are valid, else as Latin-1, so that different bytes stay
/// different.
fn text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|&byte| char::from(byte)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place<'_> = Place {
        url: "mem:x",
        what: "test",
    };

    #[test]
    fn reading_past_the_end_names_offset_expected_and_found() {
        let mut cursor = Cursor::new(&[1, 2, 3], 100, PLACE);
        assert_eq!(cursor.u8().unwrap(), 1);
        let error = cursor.u32().unwrap_err();
        assert!(
            matches!(
                error,
                RootFileError::Truncated {
                    offset: 101,
                    expected: 4,
                    found: 2,
                    ..
                }
            ),
            "{error}"
        );
        assert_eq!(cursor.u16().unwrap(), 0x0203, "nothing was consumed");
    }

    #[test]
    fn strings_have_short_and_long_lengths_and_any_bytes() {
        let mut bytes = vec![2, b'a', b'b', 1, 0xE4, 255, 0, 0, 1, 4];
        bytes.extend([b'x'; 260]);
        let mut cursor = Cursor::new(&bytes, 0, PLACE);
        assert_eq!(cursor.string().unwrap(), "ab");
        assert_eq!(cursor.string().unwrap(), "ä");
        assert_eq!(cursor.string().unwrap(), "x".repeat(260));
        assert_eq!(cursor.remaining(), 0);
    }

    #[test]
    fn negative_sizes_and_counts_beyond_the_bytes_are_corrupt() {
        for bytes in [[0xFF, 0xFF, 0xFF, 0xFF, 0, 0], [0, 0, 0, 3, 0, 0]] {
            assert_eq!(
                Cursor::new(&bytes, 0, PLACE).count(1).unwrap_err().kind(),
                "corrupt-file"
            );
        }
        assert_eq!(
            Cursor::new(&[0, 0, 0, 2, 0, 0], 0, PLACE).count(1).unwrap(),
            2
        );
    }
}
