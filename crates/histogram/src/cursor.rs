//! Reading big-endian values from bytes that may end too early.

use crate::HistogramError;

/// In front of a version: the four bytes are a byte count.
pub(crate) const BYTE_COUNT: u32 = 0x4000_0000;
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
    /// Where it ends, and where that is written, if it is.
    pub end: Option<(usize, usize)>,
}

/// Where the members of a TObject are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ObjectPlace {
    pub id: u32,
    pub bits_at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub fn position(&self) -> usize {
        self.at
    }

    pub fn remaining(&self) -> usize {
        self.bytes.len().saturating_sub(self.at)
    }

    pub fn corrupt(
        &self,
        what: &'static str,
        expected: impl ToString,
        found: impl ToString,
    ) -> HistogramError {
        HistogramError::Corrupt {
            what,
            offset: self.at,
            expected: expected.to_string(),
            found: found.to_string(),
        }
    }

    fn truncated(&self, what: &'static str, expected: usize) -> HistogramError {
        HistogramError::Truncated {
            what,
            offset: self.at,
            expected,
            found: self.remaining(),
        }
    }

    /// Goes to where something ends.
    pub fn seek(&mut self, to: usize, what: &'static str) -> Result<(), HistogramError> {
        if to > self.bytes.len() || to < self.at {
            return Err(self.corrupt(what, format_args!("an end at byte {to}"), self.at));
        }
        self.at = to;
        Ok(())
    }

    pub fn take(&mut self, n: usize, what: &'static str) -> Result<&'a [u8], HistogramError> {
        let taken = self.bytes.get(self.at..).and_then(|rest| rest.get(..n));
        let taken = taken.ok_or_else(|| self.truncated(what, n))?;
        self.at += n;
        Ok(taken)
    }

    pub fn skip(&mut self, n: usize, what: &'static str) -> Result<(), HistogramError> {
        self.take(n, what).map(|_| ())
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], HistogramError> {
        let rest = self.bytes.get(self.at..);
        let array = *rest
            .and_then(|rest| rest.first_chunk::<N>())
            .ok_or_else(|| self.truncated(what, N))?;
        self.at += N;
        Ok(array)
    }

    pub fn u8(&mut self, what: &'static str) -> Result<u8, HistogramError> {
        self.array(what).map(u8::from_be_bytes)
    }

    pub fn u16(&mut self, what: &'static str) -> Result<u16, HistogramError> {
        self.array(what).map(u16::from_be_bytes)
    }

    pub fn u32(&mut self, what: &'static str) -> Result<u32, HistogramError> {
        self.array(what).map(u32::from_be_bytes)
    }

    /// A count of things that take at least `each` bytes; more than the rest can hold are an error.
    pub fn count(&mut self, each: usize, what: &'static str) -> Result<usize, HistogramError> {
        let before = self.clone();
        let count = self.u32(what)?.cast_signed();
        let most = self.remaining().checked_div(each).unwrap_or(usize::MAX);
        match usize::try_from(count) {
            Ok(count) if count <= most => Ok(count),
            _ => Err(before.corrupt(what, format_args!("at most {most} items"), count)),
        }
    }

    /// The bytes of a TString: one byte of length, or 255 and four.
    pub fn string(&mut self, what: &'static str) -> Result<&'a [u8], HistogramError> {
        let length = match self.u8(what)? {
            255 => self.count(1, what)?,
            short => usize::from(short),
        };
        self.take(length, what)
    }

    /// The bytes up to a zero, which is read too.
    pub fn zero_terminated(&mut self, what: &'static str) -> Result<&'a [u8], HistogramError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Some(length) = rest.iter().position(|&byte| byte == 0) else {
            return Err(self.truncated(what, rest.len() + 1));
        };
        let taken = self.take(length, what)?;
        self.at += 1;
        Ok(taken)
    }

    /// Where something of `length` bytes from here ends.
    pub fn end_of(&self, length: u32, what: &'static str) -> Result<usize, HistogramError> {
        match usize::try_from(length) {
            Ok(length) if length <= self.remaining() => Ok(self.at + length),
            _ => Err(self.truncated(what, length as usize)),
        }
    }

    /// A byte count, if there is one, and a version.
    pub fn header(&mut self, what: &'static str) -> Result<Header, HistogramError> {
        let mut end = None;
        let mut ahead = self.clone();
        if let Ok(word) = ahead.u32(what)
            && word & BYTE_COUNT != 0
        {
            end = Some((ahead.end_of(word & !BYTE_COUNT, what)?, self.at));
            *self = ahead;
        }
        Ok(Header {
            version: self.u16(what)?,
            end,
        })
    }

    /// The members of a TObject.
    pub fn object(&mut self) -> Result<ObjectPlace, HistogramError> {
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
        Ok(ObjectPlace { id, bits_at })
    }
}
