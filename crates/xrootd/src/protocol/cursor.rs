//! Reads big-endian numbers one after another.

use super::Malformed;

/// The bytes of an answer, and the position in them.
pub(super) struct Cursor<'a> {
    what: &'static str,
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub fn new(what: &'static str, bytes: &'a [u8]) -> Self {
        Self { what, rest: bytes }
    }

    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let found = self.rest.len();
        let (first, rest) = self
            .rest
            .split_first_chunk()
            .ok_or_else(|| Malformed::new(self.what, format!("{N} bytes more"), found))?;
        self.rest = rest;
        Ok(*first)
    }

    pub fn bytes(&mut self, n: usize) -> Result<&'a [u8], Malformed> {
        let found = self.rest.len();
        let (first, rest) = self
            .rest
            .split_at_checked(n)
            .ok_or_else(|| Malformed::new(self.what, format!("{n} bytes more"), found))?;
        self.rest = rest;
        Ok(first)
    }

    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    pub fn i32(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_be_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_be_bytes)
    }

    /// A length, which must not be negative.
    pub fn length(&mut self) -> Result<usize, Malformed> {
        let found = self.i32()?;
        usize::try_from(found).map_err(|_| Malformed::new(self.what, "a length", found))
    }

    /// The rest, as text without the zero byte at its end.
    pub fn text(&self) -> String {
        text(self.rest)
    }
}

/// Text to show on terminals, without control characters.
pub(super) fn shown(bytes: &[u8]) -> String {
    let text = text(bytes).replace(char::is_control, " ");
    text.trim().to_owned()
}

/// Text of a server, with or without a zero byte at its end.
pub(super) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0);
    let bytes = end.and_then(|end| bytes.get(..end)).unwrap_or(bytes);
    String::from_utf8_lossy(bytes).into_owned()
}
