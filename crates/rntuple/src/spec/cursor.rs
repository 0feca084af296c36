//! A bounds-checked little-endian cursor, and frames.

/// An error in a structure. Offsets count from the start of the uncompressed structure.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// The structure is truncated.
    #[error("{what} at byte {offset}: expected {expected} more bytes, found {found}")]
    Truncated {
        /// The item that was read.
        what: &'static str,
        /// Offset in the structure.
        offset: usize,
        /// Number of bytes needed.
        expected: u64,
        /// Number of bytes left.
        found: u64,
    },
    /// A value that the format does not allow.
    #[error("{what} at byte {offset}: expected {expected}, found {found}")]
    Unexpected {
        /// The item that was read.
        what: &'static str,
        /// Offset in the structure.
        offset: usize,
        /// The expected values.
        expected: String,
        /// The value found.
        found: String,
    },
    /// A checksum does not match.
    #[error("{what} checksum mismatch: expected {expected:#018x}, found {found:#018x}")]
    Checksum {
        /// The structure.
        what: &'static str,
        /// The stored checksum.
        expected: u64,
        /// The checksum of the bytes.
        found: u64,
    },
    /// A valid structure that this version does not support.
    #[error("{what} at byte {offset}: {found}")]
    Unsupported {
        /// The item that was read.
        what: &'static str,
        /// Offset in the structure.
        offset: usize,
        /// What was found, and which software supports it.
        found: String,
    },
    /// An unknown feature flag.
    #[error(
        "feature flag bit {bit} is not supported; a newer femtobarn or ROOT is needed to read this ntuple"
    )]
    UnknownFeature {
        /// The bit number, with 64 bits per word.
        bit: u32,
    },
}

/// A bounds-checked cursor over a structure.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    data: &'a [u8],
    position: usize,
    base: usize,
}

/// A record or list frame; its payload ends where the frame's size says.
#[derive(Debug)]
pub struct Frame<'a> {
    /// Cursor over the payload.
    pub payload: Cursor<'a>,
    /// Number of items of a list frame.
    pub n_items: Option<u32>,
}

macro_rules! integers {
    ($($name:ident $type:ty;)*) => {$(
        #[doc = concat!("Reads a little-endian `", stringify!($type), "`.")]
        pub fn $name(&mut self, what: &'static str) -> Result<$type, SpecError> {
            self.array(what).map(<$type>::from_le_bytes)
        }
    )*};
}

impl<'a> Cursor<'a> {
    /// A cursor over `data`.
    pub fn new(data: &'a [u8]) -> Self {
        Self {
            data,
            position: 0,
            base: 0,
        }
    }

    /// Offset in the whole structure.
    pub fn offset(&self) -> usize {
        self.base.saturating_add(self.position)
    }

    /// Number of bytes left.
    pub fn remaining(&self) -> usize {
        self.data.len().saturating_sub(self.position)
    }

    /// The next `n` bytes.
    pub fn bytes(&mut self, n: usize, what: &'static str) -> Result<&'a [u8], SpecError> {
        let found = self.remaining();
        let slice = self
            .position
            .checked_add(n)
            .and_then(|end| self.data.get(self.position..end))
            .ok_or(SpecError::Truncated {
                what,
                offset: self.offset(),
                expected: n as u64,
                found: found as u64,
            })?;
        self.position += n;
        Ok(slice)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], SpecError> {
        let offset = self.offset();
        let bytes = self.bytes(N, what)?;
        bytes.try_into().map_err(|_| SpecError::Truncated {
            what,
            offset,
            expected: N as u64,
            found: bytes.len() as u64,
        })
    }

    integers! {
        u8 u8; u16 u16; u32 u32; u64 u64; i32 i32; i64 i64; f64 f64;
    }

    /// A string: 32-bit length, then UTF-8. Invalid bytes are replaced.
    pub fn string(&mut self, what: &'static str) -> Result<String, SpecError> {
        let length = self.u32(what)?;
        let bytes = self.bytes(length as usize, what)?;
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }

    /// A frame. The cursor moves to its end, independent of its payload.
    pub fn frame(&mut self, what: &'static str) -> Result<Frame<'a>, SpecError> {
        let offset = self.offset();
        let size = self.i64(what)?;
        let preamble: u64 = if size < 0 { 12 } else { 8 };
        let n_items = if size < 0 {
            Some(self.u32(what)?)
        } else {
            None
        };
        let payload =
            size.unsigned_abs()
                .checked_sub(preamble)
                .ok_or_else(|| SpecError::Unexpected {
                    what,
                    offset,
                    expected: format!("a frame of at least {preamble} bytes"),
                    found: format!("{} bytes", size.unsigned_abs()),
                })?;
        let base = self.offset();
        let length = usize::try_from(payload).unwrap_or(usize::MAX);
        let data = self.bytes(length, what)?;
        Ok(Frame {
            payload: Cursor {
                data,
                position: 0,
                base,
            },
            n_items,
        })
    }

    /// A record frame.
    pub fn record(&mut self, what: &'static str) -> Result<Cursor<'a>, SpecError> {
        let offset = self.offset();
        let frame = self.frame(what)?;
        match frame.n_items {
            None => Ok(frame.payload),
            Some(_) => Err(SpecError::Unexpected {
                what,
                offset,
                expected: "a record frame".into(),
                found: "a list frame".into(),
            }),
        }
    }

    /// A list frame: its payload and the number of items.
    pub fn list(&mut self, what: &'static str) -> Result<(Cursor<'a>, u32), SpecError> {
        let offset = self.offset();
        let frame = self.frame(what)?;
        match frame.n_items {
            Some(n) => Ok((frame.payload, n)),
            None => Err(SpecError::Unexpected {
                what,
                offset,
                expected: "a list frame".into(),
                found: "a record frame".into(),
            }),
        }
    }

    /// The items of a list frame, each parsed by `item`; `smallest` is the smallest size of an item in
    /// bytes.
    pub fn items<T>(
        &mut self,
        what: &'static str,
        smallest: usize,
        mut item: impl FnMut(&mut Cursor<'a>) -> Result<T, SpecError>,
    ) -> Result<Vec<T>, SpecError> {
        let offset = self.offset();
        let (mut payload, n) = self.list(what)?;
        let fits = payload.remaining() / smallest.max(1);
        if n as usize > fits {
            return Err(SpecError::Unexpected {
                what,
                offset,
                expected: format!("at most {fits} items in {} bytes", payload.remaining()),
                found: format!("{n} items"),
            });
        }
        (0..n).map(|_| item(&mut payload)).collect()
    }
}
