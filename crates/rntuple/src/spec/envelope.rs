//! Envelopes: type, length, payload, checksum.

use super::cursor::{Cursor, SpecError};

/// The three envelope types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the specification's names")]
pub enum EnvelopeKind {
    Header,
    Footer,
    PageList,
}

impl EnvelopeKind {
    pub(super) fn id(self) -> u16 {
        match self {
            Self::Header => 1,
            Self::Footer => 2,
            Self::PageList => 3,
        }
    }

    /// The name in the specification.
    pub fn name(self) -> &'static str {
        match self {
            Self::Header => "header envelope",
            Self::Footer => "footer envelope",
            Self::PageList => "page list envelope",
        }
    }
}

/// An envelope with a verified checksum.
#[derive(Debug)]
pub struct Envelope<'a> {
    /// Cursor after the preamble, ending before the checksum.
    pub payload: Cursor<'a>,
    /// XXH3 of everything before it.
    pub checksum: u64,
}

impl<'a> Envelope<'a> {
    /// Checks type, length and checksum of an uncompressed envelope.
    pub fn parse(bytes: &'a [u8], kind: EnvelopeKind) -> Result<Self, SpecError> {
        let what = kind.name();
        let Some((body, tail)) = bytes.split_last_chunk::<8>() else {
            return Err(SpecError::Truncated {
                what,
                offset: 0,
                expected: 16,
                found: bytes.len() as u64,
            });
        };
        let mut payload = Cursor::new(body);
        let preamble = payload.u64(what)?;
        let id = (preamble & 0xffff) as u16;
        if id != kind.id() {
            let (expected, found) = (format!("envelope type {}", kind.id()), format!("{id}"));
            return Err(SpecError::Unexpected {
                what,
                offset: 0,
                expected,
                found,
            });
        }
        let length = preamble >> 16;
        if length != bytes.len() as u64 {
            let (expected, found) = (format!("length {}", bytes.len()), format!("{length}"));
            return Err(SpecError::Unexpected {
                what,
                offset: 2,
                expected,
                found,
            });
        }
        let expected = u64::from_le_bytes(*tail);
        let found = femtobarn_codec::xxh3(body);
        if expected != found {
            return Err(SpecError::Checksum {
                what,
                expected,
                found,
            });
        }
        Ok(Self {
            payload,
            checksum: expected,
        })
    }
}
