//! Locators and envelope links.

use super::cursor::{Cursor, SpecError};

/// What a locator's offset counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocatorKind {
    /// Bytes from the start of the file.
    File,
    /// A kind that a file cannot serve (an object's id, or one of the future); the number is the type byte.
    Other(u8),
}

/// Where a page or an envelope is stored, compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Locator {
    /// Kind of the offset.
    pub kind: LocatorKind,
    /// Compressed size in bytes, without a page's checksum.
    pub size: u64,
    /// Offset in bytes.
    pub offset: u64,
}

impl Locator {
    /// Reads a locator of any kind; unknown kinds are skipped by their own size.
    pub fn parse(cursor: &mut Cursor<'_>) -> Result<Self, SpecError> {
        let at = cursor.offset();
        let head = cursor.i32("locator")?;
        if let Ok(size) = u64::try_from(head) {
            let offset = cursor.u64("locator offset")?;
            return Ok(Self {
                kind: LocatorKind::File,
                size,
                offset,
            });
        }
        let head = head.unsigned_abs();
        let own_size = (head & 0xffff) as usize;
        let kind = ((head >> 24) & 0x7f) as u8;
        let payload = own_size
            .checked_sub(4)
            .ok_or_else(|| SpecError::Unexpected {
                what: "locator size",
                offset: at,
                expected: "at least 4".into(),
                found: own_size.to_string(),
            })?;
        let mut payload = Cursor::new(cursor.bytes(payload, "locator payload")?);
        match kind {
            1 => {
                let size = payload.u64("large locator size")?;
                let offset = payload.u64("large locator offset")?;
                Ok(Self {
                    kind: LocatorKind::File,
                    size,
                    offset,
                })
            }
            other => Ok(Self {
                kind: LocatorKind::Other(other),
                size: 0,
                offset: 0,
            }),
        }
    }
}

/// A locator and the uncompressed length of the envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnvelopeLink {
    /// Uncompressed length in bytes.
    pub length: u64,
    /// Where the envelope is stored.
    pub locator: Locator,
}

impl EnvelopeLink {
    /// Reads a link.
    pub fn parse(cursor: &mut Cursor<'_>) -> Result<Self, SpecError> {
        let length = cursor.u64("envelope link length")?;
        Ok(Self {
            length,
            locator: Locator::parse(cursor)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn non_standard(kind: u8, payload: &[u8]) -> Vec<u8> {
        let head = -(i32::from(kind) << 24 | i32::try_from(4 + payload.len()).unwrap());
        [&head.to_le_bytes()[..], payload].concat()
    }

    #[test]
    fn large_locator_has_64_bit_size() {
        let payload = [5_000_000_000u64.to_le_bytes(), 77u64.to_le_bytes()].concat();
        let bytes = non_standard(1, &payload);
        let locator = Locator::parse(&mut Cursor::new(&bytes)).unwrap();
        assert_eq!(
            locator,
            Locator {
                kind: LocatorKind::File,
                size: 5_000_000_000,
                offset: 77
            }
        );
    }

    #[test]
    fn unknown_locator_spoils_only_itself() {
        let mut bytes = non_standard(0x42, &[0; 9]);
        bytes.extend(12i32.to_le_bytes());
        bytes.extend(34u64.to_le_bytes());
        let mut cursor = Cursor::new(&bytes);
        assert_eq!(
            Locator::parse(&mut cursor).unwrap().kind,
            LocatorKind::Other(0x42)
        );
        assert_eq!(
            Locator::parse(&mut cursor).unwrap(),
            Locator {
                kind: LocatorKind::File,
                size: 12,
                offset: 34
            }
        );
    }

    #[test]
    fn object_locator_of_the_s3_embedding_is_recognised() {
        let bytes = [&[0xf0u8, 0xff, 0xff, 0xfd][..], &[0; 12]].concat();
        assert_eq!(
            Locator::parse(&mut Cursor::new(&bytes)).unwrap().kind,
            LocatorKind::Other(2)
        );
    }
}
