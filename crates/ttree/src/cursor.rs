//! Reading big-endian values from bytes that may end too early.

use crate::TreeError;

/// In front of a version: the four bytes are a byte count.
const BYTE_COUNT: u32 = 0x4000_0000;
/// In a version: the members of a collection's items are stored one after another.
pub(crate) const MEMBER_WISE: u16 = 0x4000;
/// In the bits of a TObject: a process id follows.
const IS_REFERENCED: u32 = 1 << 4;

/// A position in bytes.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// The beginning of something with a version.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    pub version: u16,
    /// Where it ends, if its size was written.
    pub end: Option<usize>,
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Starts at a position, which may be the end.
    pub fn at(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    pub fn position(&self) -> usize {
        self.at
    }

    pub fn remaining(&self) -> usize {
        self.bytes.len().saturating_sub(self.at)
    }

    pub fn end(&self) -> usize {
        self.bytes.len()
    }

    pub fn seek(&mut self, to: usize) -> Result<(), TreeError> {
        if to > self.bytes.len() {
            return Err(self.truncated("position", to.saturating_sub(self.at)));
        }
        self.at = to;
        Ok(())
    }

    fn truncated(&self, what: &'static str, expected: usize) -> TreeError {
        TreeError::Truncated {
            what,
            offset: self.at,
            expected: expected as u64,
            found: self.remaining() as u64,
        }
    }

    pub fn corrupt(
        &self,
        what: &'static str,
        expected: impl ToString,
        found: impl ToString,
    ) -> TreeError {
        TreeError::Corrupt {
            what,
            offset: self.at,
            expected: expected.to_string(),
            found: found.to_string(),
        }
    }

    pub fn take(&mut self, n: usize, what: &'static str) -> Result<&'a [u8], TreeError> {
        let taken = self.bytes.get(self.at..).and_then(|rest| rest.get(..n));
        let taken = taken.ok_or_else(|| self.truncated(what, n))?;
        self.at += n;
        Ok(taken)
    }

    pub fn skip(&mut self, n: usize, what: &'static str) -> Result<(), TreeError> {
        self.take(n, what).map(|_| ())
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], TreeError> {
        let rest = self
            .bytes
            .get(self.at..)
            .and_then(|rest| rest.first_chunk::<N>());
        let array = *rest.ok_or_else(|| self.truncated(what, N))?;
        self.at += N;
        Ok(array)
    }

    pub fn u8(&mut self, what: &'static str) -> Result<u8, TreeError> {
        self.array(what).map(u8::from_be_bytes)
    }

    pub fn u16(&mut self, what: &'static str) -> Result<u16, TreeError> {
        self.array(what).map(u16::from_be_bytes)
    }

    pub fn i16(&mut self, what: &'static str) -> Result<i16, TreeError> {
        self.array(what).map(i16::from_be_bytes)
    }

    pub fn u32(&mut self, what: &'static str) -> Result<u32, TreeError> {
        self.array(what).map(u32::from_be_bytes)
    }

    pub fn i32(&mut self, what: &'static str) -> Result<i32, TreeError> {
        self.array(what).map(i32::from_be_bytes)
    }

    pub fn i64(&mut self, what: &'static str) -> Result<i64, TreeError> {
        self.array(what).map(i64::from_be_bytes)
    }

    /// A count of things that take at least `each` bytes; more than the rest can hold are an error.
    pub fn count(&mut self, each: usize, what: &'static str) -> Result<usize, TreeError> {
        let before = self.clone();
        let count = self.i32(what)?;
        let most = self.remaining().checked_div(each).unwrap_or(usize::MAX);
        match usize::try_from(count) {
            Ok(count) if count <= most => Ok(count),
            _ => Err(before.corrupt(what, format_args!("at most {most} items"), count)),
        }
    }

    /// The bytes of a TString or std::string: one byte of length, or 255 and four.
    pub fn string(&mut self, what: &'static str) -> Result<&'a [u8], TreeError> {
        let length = match self.u8(what)? {
            255 => self.count(1, what)?,
            short => usize::from(short),
        };
        self.take(length, what)
    }

    /// A string as text: UTF-8 if it is, else Latin-1.
    pub fn text(&mut self, what: &'static str) -> Result<String, TreeError> {
        self.string(what).map(text)
    }

    /// The bytes up to a zero, which is read too.
    pub fn zero_terminated(&mut self, what: &'static str) -> Result<&'a [u8], TreeError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Some(length) = rest.iter().position(|&byte| byte == 0) else {
            return Err(self.truncated(what, rest.len() + 1));
        };
        let taken = self.take(length, what)?;
        self.at += 1;
        Ok(taken)
    }

    /// A byte count, if there is one, and a version.
    pub fn header(&mut self, what: &'static str) -> Result<Header, TreeError> {
        let mut end = None;
        let mut ahead = self.clone();
        if let Ok(word) = ahead.u32(what)
            && word & BYTE_COUNT != 0
        {
            let count = (word & !BYTE_COUNT) as usize;
            if count > ahead.remaining() {
                return Err(ahead.truncated(what, count));
            }
            end = Some(ahead.at + count);
            *self = ahead;
        }
        Ok(Header {
            version: self.u16(what)?,
            end,
        })
    }

    /// Goes to the end of what `header` began: later versions may have more members than are known.
    pub fn finish(&mut self, header: Header, what: &'static str) -> Result<(), TreeError> {
        let Some(end) = header.end else { return Ok(()) };
        if self.at > end {
            return Err(self.corrupt(what, format_args!("an end at byte {end}"), self.at));
        }
        self.seek(end)
    }

    /// The members of a TObject: its id and its bits.
    pub fn object(&mut self) -> Result<(u32, u32), TreeError> {
        const WHAT: &str = "TObject";
        let version = self.u16(WHAT)?;
        if version & MEMBER_WISE != 0 {
            // what was read are the first two bytes of a byte count
            self.skip(4, WHAT)?;
        }
        let (id, bits) = (self.u32(WHAT)?, self.u32(WHAT)?);
        if bits & IS_REFERENCED != 0 {
            self.skip(2, WHAT)?;
        }
        Ok((id, bits))
    }
}

/// Bytes as text: UTF-8 if they are, else Latin-1, so that different bytes stay different.
pub(crate) fn text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|&byte| char::from(byte)).collect(),
    }
}
