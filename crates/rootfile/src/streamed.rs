//! Reading objects as ROOT streams them: big-endian values, byte counts and versions, from bytes that may end too early.

use std::marker::PhantomData;

/// In front of a version: the four bytes are a byte count.
pub const BYTE_COUNT: u32 = 0x4000_0000;

/// In a version: the members of a collection's items are stored one after another.
pub const MEMBER_WISE: u16 = 0x4000;

/// In the bits of a TObject: a process id follows.
const IS_REFERENCED: u32 = 1 << 4;

/// What errors of those who read objects can be made of.
#[expect(missing_docs, reason = "named by what they take")]
pub trait StreamedError {
    fn truncated(what: &'static str, offset: usize, expected: usize, found: usize) -> Self;
    fn corrupt(what: &'static str, offset: usize, expected: String, found: String) -> Self;
}

/// A position in the bytes of an object. Errors are those of the reader.
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

/// The beginning of something with a version.
#[derive(Debug, Clone, Copy)]
pub struct StreamedHeader {
    /// The version.
    pub version: u16,
    /// Where it begins: the byte count is there, if it has an end.
    pub start: usize,
    /// Where it ends, if its size was written.
    pub end: Option<usize>,
}

/// The members of a TObject.
#[derive(Debug, Clone, Copy)]
pub struct ObjectBase {
    /// Its number.
    pub id: u32,
    /// Where its bits are.
    pub bits_at: usize,
}

#[expect(
    missing_docs,
    clippy::missing_errors_doc,
    reason = "each reads what it is called, or says that the bytes end before"
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

    /// The error of a value that no intact object has.
    pub fn corrupt(&self, what: &'static str, expected: impl ToString, found: impl ToString) -> E {
        E::corrupt(what, self.at, expected.to_string(), found.to_string())
    }

    fn truncated(&self, what: &'static str, expected: usize) -> E {
        E::truncated(what, self.at, expected, self.remaining())
    }

    /// Goes to a place, before or behind this one.
    pub fn jump(&mut self, to: usize, what: &'static str) -> Result<(), E> {
        if to > self.bytes.len() {
            return Err(self.truncated(what, to.saturating_sub(self.at)));
        }
        self.at = to;
        Ok(())
    }

    /// Goes to where something ends, which is no place before this one.
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

    /// A count of things that take at least `each` bytes; more than the rest can hold are an error.
    pub fn count(&mut self, each: usize, what: &'static str) -> Result<usize, E> {
        let before = self.clone();
        let count = self.i32(what)?;
        let most = self.remaining().checked_div(each).unwrap_or(usize::MAX);
        match usize::try_from(count) {
            Ok(count) if count <= most => Ok(count),
            _ => Err(before.corrupt(what, format_args!("at most {most} items"), count)),
        }
    }

    /// The bytes of a TString or std::string: one byte of length, or 255 and four.
    pub fn string(&mut self, what: &'static str) -> Result<&'a [u8], E> {
        let length = match self.u8(what)? {
            255 => self.count(1, what)?,
            short => usize::from(short),
        };
        self.take(length, what)
    }

    /// A string as text: UTF-8 if it is, else Latin-1.
    pub fn text(&mut self, what: &'static str) -> Result<String, E> {
        self.string(what).map(streamed_text)
    }

    /// The bytes up to a zero, which is read too.
    pub fn zero_terminated(&mut self, what: &'static str) -> Result<&'a [u8], E> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Some(length) = rest.iter().position(|&byte| byte == 0) else {
            return Err(self.truncated(what, rest.len() + 1));
        };
        let taken = self.take(length, what)?;
        self.at += 1;
        Ok(taken)
    }

    /// Where something of `length` bytes from here ends.
    pub fn end_of(&self, length: u32, what: &'static str) -> Result<usize, E> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > self.remaining() {
            return Err(self.truncated(what, length));
        }
        Ok(self.at + length)
    }

    /// A byte count, if there is one, and a version.
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

    /// Goes to the end of what `header` began: later versions may have more members than are known.
    pub fn finish(&mut self, header: StreamedHeader, what: &'static str) -> Result<(), E> {
        header.end.map_or(Ok(()), |end| self.seek(end, what))
    }

    /// Says whether what `header` began ends here, if its size was written.
    pub fn close(&self, header: StreamedHeader, what: &'static str) -> Result<(), E> {
        match header.end {
            Some(end) if end != self.at => {
                let written = end.saturating_sub(header.start);
                let read = self.at.saturating_sub(header.start);
                let expected = format_args!("{written} bytes, as its byte count says");
                Err(self.corrupt(what, expected, format_args!("{read} bytes")))
            }
            _ => Ok(()),
        }
    }

    /// The members of a TObject.
    pub fn object(&mut self) -> Result<ObjectBase, E> {
        const WHAT: &str = "TObject";
        let version = self.u16(WHAT)?;
        if version & MEMBER_WISE != 0 {
            // what was read are the first two bytes of a byte count
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

/// Bytes as text: UTF-8 if they are, else Latin-1, so that different bytes stay different.
pub fn streamed_text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|&byte| char::from(byte)).collect(),
    }
}
