//! Reads streamed objects: big-endian values, byte counts and versions, from bytes that may be truncated.

use std::marker::PhantomData;

/// The flag of a byte count that precedes a version.
pub const BYTE_COUNT: u32 = 0x4000_0000;

/// The flag of a version: the items of a collection are stored member-wise.
pub const MEMBER_WISE: u16 = 0x4000;

/// The bit of a TObject that a process ID follows.
const IS_REFERENCED: u32 = 1 << 4;

/// Makes the errors of a reader of streamed objects.
#[expect(missing_docs, reason = "named by what they take")]
pub trait StreamedError {
    fn truncated(what: &'static str, offset: usize, expected: usize, found: usize) -> Self;
    fn corrupt(what: &'static str, offset: usize, expected: String, found: String) -> Self;
}

/// A position in the bytes of an object. `E` is the error type of the reader.
#[derive(Debug)]
pub struct StreamedCursor<'a, E> {
    bytes: &'a [u8],
    at: usize,
    errors: PhantomData<fn() -> E>,
}

impl<E> Clone for StreamedCursor<'_, E> {
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

/// The header of a streamed object: byte count and version.
#[derive(Debug, Clone, Copy)]
pub struct StreamedHeader {
    /// The version.
    pub version: u16,
    /// Its position, which is that of the byte count if there is one.
    pub start: usize,
    /// The end of the object, if there is a byte count.
    pub end: Option<usize>,
}

/// The members of a TObject.
#[derive(Debug, Clone, Copy)]
pub struct ObjectBase {
    /// The unique ID.
    pub id: u32,
    /// Position of the bits.
    pub bits_at: usize,
}

#[expect(
    missing_docs,
    clippy::missing_errors_doc,
    reason = "each reads the value that it is named after, or returns that the bytes are truncated"
)]
impl<'a, E: StreamedError> StreamedCursor<'a, E> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self::at(bytes, 0)
    }

    /// Starts at a position, which may be the end.
    pub fn at(bytes: &'a [u8], at: usize) -> Self {
        Self {
            bytes,
            at,
            errors: PhantomData,
        }
    }

    pub fn position(&self) -> usize {
        self.at
    }

    pub fn remaining(&self) -> usize {
        self.bytes.len().saturating_sub(self.at)
    }

    /// Where the bytes end.
    pub fn end(&self) -> usize {
        self.bytes.len()
    }

    /// The error for an invalid value.
    pub fn corrupt(&self, what: &'static str, expected: impl ToString, found: impl ToString) -> E {
        E::corrupt(what, self.at, expected.to_string(), found.to_string())
    }

    fn truncated(&self, what: &'static str, expected: usize) -> E {
        E::truncated(what, self.at, expected, self.remaining())
    }

    /// Moves to any position.
    pub fn jump(&mut self, to: usize, what: &'static str) -> Result<(), E> {
        if to > self.bytes.len() {
            return Err(self.truncated(what, to.saturating_sub(self.at)));
        }
        self.at = to;
        Ok(())
    }

    /// Moves forward to the end of an item.
    pub fn seek(&mut self, to: usize, what: &'static str) -> Result<(), E> {
        if to > self.bytes.len() || to < self.at {
            return Err(self.corrupt(what, format_args!("an end at byte {to}"), self.at));
        }
        self.at = to;
        Ok(())
    }

    pub fn take(&mut self, n: usize, what: &'static str) -> Result<&'a [u8], E> {
        let taken = self.bytes.get(self.at..).and_then(|rest| rest.get(..n));
        let taken = taken.ok_or_else(|| self.truncated(what, n))?;
        self.at += n;
        Ok(taken)
    }

    pub fn skip(&mut self, n: usize, what: &'static str) -> Result<(), E> {
        self.take(n, what).map(|_| ())
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], E> {
        let rest = self.bytes.get(self.at..);
        let array = rest.and_then(|rest| rest.first_chunk::<N>());
        let array = *array.ok_or_else(|| self.truncated(what, N))?;
        self.at += N;
        Ok(array)
    }

    pub fn u8(&mut self, what: &'static str) -> Result<u8, E> {
        self.array(what).map(u8::from_be_bytes)
    }

    pub fn u16(&mut self, what: &'static str) -> Result<u16, E> {
        self.array(what).map(u16::from_be_bytes)
    }

    pub fn i16(&mut self, what: &'static str) -> Result<i16, E> {
        self.array(what).map(i16::from_be_bytes)
    }

    pub fn u32(&mut self, what: &'static str) -> Result<u32, E> {
        self.array(what).map(u32::from_be_bytes)
    }

    pub fn i32(&mut self, what: &'static str) -> Result<i32, E> {
        self.array(what).map(i32::from_be_bytes)
    }

    pub fn i64(&mut self, what: &'static str) -> Result<i64, E> {
        self.array(what).map(i64::from_be_bytes)
    }

    /// A count of items that take at least `each` bytes; an error if the rest cannot hold them.
    pub fn count(&mut self, each: usize, what: &'static str) -> Result<usize, E> {
        let before = self.clone();
        let count = self.i32(what)?;
        let most = self.remaining().checked_div(each).unwrap_or(usize::MAX);
        match usize::try_from(count) {
            Ok(count) if count <= most => Ok(count),
            _ => Err(before.corrupt(what, format_args!("at most {most} items"), count)),
        }
    }

    /// The bytes of a TString or std::string: one length byte, or 255 and a 32-bit length.
    pub fn string(&mut self, what: &'static str) -> Result<&'a [u8], E> {
        let length = match self.u8(what)? {
            255 => self.count(1, what)?,
            short => usize::from(short),
        };
        self.take(length, what)
    }

    /// The bytes up to a zero byte, which is consumed.
    pub fn zero_terminated(&mut self, what: &'static str) -> Result<&'a [u8], E> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Some(length) = rest.iter().position(|&byte| byte == 0) else {
            return Err(self.truncated(what, rest.len() + 1));
        };
        let taken = self.take(length, what)?;
        self.at += 1;
        Ok(taken)
    }

    /// The end of an item of `length` bytes that begins here.
    pub fn end_of(&self, length: u32, what: &'static str) -> Result<usize, E> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > self.remaining() {
            return Err(self.truncated(what, length));
        }
        Ok(self.at + length)
    }

    /// Reads a byte count, if there is one, and a version.
    pub fn header(&mut self, what: &'static str) -> Result<StreamedHeader, E> {
        let start = self.at;
        let mut end = None;
        let mut ahead = self.clone();
        if let Ok(word) = ahead.u32(what)
            && word & BYTE_COUNT != 0
        {
            end = Some(ahead.end_of(word & !BYTE_COUNT, what)?);
            *self = ahead;
        }
        Ok(StreamedHeader {
            version: self.u16(what)?,
            start,
            end,
        })
    }

    /// Moves to the end of the object that `header` began: later versions may have further members.
    pub fn finish(&mut self, header: StreamedHeader, what: &'static str) -> Result<(), E> {
        header.end.map_or(Ok(()), |end| self.seek(end, what))
    }

    /// Checks that the object that `header` began ends here, if there is a byte count.
    pub fn close(&self, header: StreamedHeader, what: &'static str) -> Result<(), E> {
        match header.end {
            Some(end) if end != self.at => {
                let written = end.saturating_sub(header.start);
                let read = self.at.saturating_sub(header.start);
                let expected = format_args!("{written} bytes according to its byte count");
                Err(self.corrupt(what, expected, format_args!("{read} bytes")))
            }
            _ => Ok(()),
        }
    }

    /// Reads the members of a TObject.
    pub fn object(&mut self) -> Result<ObjectBase, E> {
        const WHAT: &str = "TObject";
        let version = self.u16(WHAT)?;
        if version & MEMBER_WISE != 0 {
            // these were the first two bytes of a byte count
            self.skip(4, WHAT)?;
        }
        let id = self.u32(WHAT)?;
        let bits_at = self.at;
        if self.u32(WHAT)? & IS_REFERENCED != 0 {
            self.skip(2, WHAT)?;
        }
        Ok(ObjectBase { id, bits_at })
    }
}

/// Decodes bytes: as UTF-8 if they are valid, else as Latin-1, so that different bytes stay different.
pub fn streamed_text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|&byte| char::from(byte)).collect(),
    }
}
