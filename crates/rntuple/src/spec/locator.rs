//! Locators and envelope links.

use super::address::{PageAddress, StoredRange};
use super::cursor::{Cursor, SpecError};

/// Types of locators with a type: a large range of the file, an object, and a range of an object.
pub(super) const LARGE: u8 = 1;
pub(super) const OBJECT: u8 = 2;
pub(super) const IN_OBJECT: u8 = 3;

/// The flag, in the reserved byte of an object's locator, of an object with several pages. ROOT wrote it to DAOS until February
/// 2026.
const CAGED: u8 = 1;

/// Parses a locator of any type: where an envelope is stored, or a page without its checksum. An unknown type is skipped by
/// the locator's own size.
pub(super) fn parse(cursor: &mut Cursor<'_>) -> Result<StoredRange, SpecError> {
    let at = cursor.offset();
    let head = cursor.i32("locator")?;
    if let Ok(size) = u64::try_from(head) {
        let address = PageAddress::File(cursor.u64("locator offset")?);
        return Ok(StoredRange { address, size });
    }
    let head = head.unsigned_abs();
    let own_size = (head & 0xffff) as usize;
    let kind = ((head >> 24) & 0x7f) as u8;
    let is_caged = ((head >> 16) & 0xff) as u8 & CAGED != 0;
    let payload = own_size
        .checked_sub(4)
        .ok_or_else(|| SpecError::Unexpected {
            what: "locator size",
            offset: at,
            expected: "at least 4".into(),
            found: own_size.to_string(),
        })?;
    let n_bytes = payload;
    let mut payload = Cursor::new(cursor.bytes(payload, "locator payload")?);
    match (kind, n_bytes) {
        (LARGE, _) => {
            let size = payload.u64("large locator size")?;
            let address = PageAddress::File(payload.u64("large locator offset")?);
            Ok(StoredRange { address, size })
        }
        (OBJECT | IN_OBJECT, 12 | 16) => {
            let size = match n_bytes {
                12 => payload.u32("object locator size")?.into(),
                _ => payload.u64("object locator size")?,
            };
            let (id, offset) = match (kind, is_caged) {
                (OBJECT, false) => (payload.u64("object locator number")?, 0),
                _ => {
                    let id = payload.u32("object locator number")?;
                    (id.into(), payload.u32("object locator offset")?)
                }
            };
            let address = PageAddress::Object { id, offset };
            Ok(StoredRange { address, size })
        }
        (other, _) => Ok(StoredRange {
            address: PageAddress::Unknown(other),
            size: 0,
        }),
    }
}

/// A locator and the uncompressed length of the envelope.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EnvelopeLink {
    /// Uncompressed length in bytes.
    pub length: u64,
    /// The stored bytes.
    pub stored: StoredRange,
}

impl EnvelopeLink {
    /// Parses a link.
    pub fn parse(cursor: &mut Cursor<'_>) -> Result<Self, SpecError> {
        let length = cursor.u64("envelope link length")?;
        Ok(Self {
            length,
            stored: parse(cursor)?,
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
        let locator = parse(&mut Cursor::new(&bytes)).unwrap();
        assert_eq!(
            locator,
            StoredRange {
                address: PageAddress::File(77),
                size: 5_000_000_000
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
            parse(&mut cursor).unwrap().address,
            PageAddress::Unknown(0x42)
        );
        assert_eq!(
            parse(&mut cursor).unwrap(),
            StoredRange {
                address: PageAddress::File(34),
                size: 12
            }
        );
    }

    #[test]
    fn object_locator_has_a_number_and_a_size_of_32_or_64_bits() {
        let number = 7u64.to_le_bytes();
        for (head, size) in [
            ([0xf0u8, 0xff, 0xff, 0xfd], &9u32.to_le_bytes()[..]),
            ([0xec, 0xff, 0xff, 0xfd], &9u64.to_le_bytes()),
        ] {
            let bytes = [&head[..], size, &number].concat();
            let locator = parse(&mut Cursor::new(&bytes)).unwrap();
            let address = PageAddress::Object { id: 7, offset: 0 };
            assert_eq!(locator, StoredRange { address, size: 9 });
        }
    }

    #[test]
    fn a_range_of_an_object_has_a_number_and_an_offset_of_32_bits() {
        let place = [3, 2, 1, 0, 7, 6, 5, 4];
        for (head, size) in [
            ([0xf0u8, 0xff, 0xff, 0xfc], &9u32.to_le_bytes()[..]),
            // a cage: a whole object with the flag
            ([0xf0, 0xff, 0xfe, 0xfd], &9u32.to_le_bytes()),
            ([0xec, 0xff, 0xff, 0xfc], &(9u64 << 32).to_le_bytes()),
        ] {
            let bytes = [&head[..], size, &place].concat();
            let found = parse(&mut Cursor::new(&bytes)).unwrap();
            let address = PageAddress::Object {
                id: 0x0001_0203,
                offset: 0x0405_0607,
            };
            assert_eq!(found.address, address);
            assert_eq!(found.size, if size.len() == 4 { 9 } else { 9 << 32 });
        }
    }
}
