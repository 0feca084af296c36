//! The anchor: payload of a TKey of class `ROOT::RNTuple`, big-endian.

use super::address::PageAddress;
use super::address::StoredRange;
use super::cursor::SpecError;
use super::locator::EnvelopeLink;

/// Size of the members of a version 2 anchor, which has byte count, class version, members and checksum.
const MEMBERS: usize = 64;
const PREFIX: usize = 6;
const BYTE_COUNT_MASK: u32 = 0x4000_0000;

/// The anchor of an RNTuple: the entry point to its metadata.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the specification's names")]
pub struct Anchor {
    /// Epoch, major, minor and patch.
    pub version: [u16; 4],
    pub header: EnvelopeLink,
    pub footer: EnvelopeLink,
    pub max_key_size: u64,
}

impl Anchor {
    /// Parses the key's payload: byte count (4), class version (2), members, XXH3 of the members.
    ///
    /// Members that a later version appends are skipped, but are included in the checksum.
    pub fn parse(payload: &[u8]) -> Result<Self, SpecError> {
        let count = read_be::<4>(payload, 0).map(u32::from_be_bytes)?;
        let members = (count & !BYTE_COUNT_MASK) as usize;
        if count & BYTE_COUNT_MASK == 0 || members < 2 + MEMBERS {
            return Err(SpecError::Unexpected {
                what: "anchor byte count",
                offset: 0,
                expected: format!("at least {:#x}", BYTE_COUNT_MASK as usize + 2 + MEMBERS),
                found: format!("{count:#x}"),
            });
        }
        let end = 4 + members;
        let body = payload.get(PREFIX..end).ok_or(SpecError::Truncated {
            what: "anchor",
            offset: PREFIX,
            expected: (end - PREFIX) as u64,
            found: payload.len().saturating_sub(PREFIX) as u64,
        })?;
        let expected = read_be::<8>(payload, end).map(u64::from_be_bytes)?;
        let found = femtobarn_codec::xxh3(body);
        if expected != found {
            return Err(SpecError::Checksum {
                what: "anchor",
                expected,
                found,
            });
        }
        Self::parse_members(body)
    }

    fn parse_members(body: &[u8]) -> Result<Self, SpecError> {
        let short = |i: usize| read_be::<2>(body, 2 * i).map(u16::from_be_bytes);
        let long = |i: usize| read_be::<8>(body, 8 + 8 * i).map(u64::from_be_bytes);
        let anchor = Self {
            version: [short(0)?, short(1)?, short(2)?, short(3)?],
            header: link(long(0)?, long(1)?, long(2)?),
            footer: link(long(3)?, long(4)?, long(5)?),
            max_key_size: long(6)?,
        };
        anchor.checked()
    }

    /// The anchor, if its format is known.
    pub(super) fn checked(self) -> Result<Self, SpecError> {
        let [epoch, ..] = self.version;
        let found = match epoch {
            1 => return Ok(self),
            0 => "0, a release candidate of 2024 or earlier; its data must be written again, by ROOT 6.34 or later".into(),
            epoch => format!("{epoch}, which needs a newer femtobarn or ROOT"),
        };
        Err(SpecError::Unsupported {
            what: "RNTuple version epoch",
            offset: PREFIX,
            found,
        })
    }

    /// The format version in the specification's notation, for example `1.0.0.1`.
    pub fn version(&self) -> String {
        let [epoch, major, minor, patch] = self.version;
        format!("{epoch}.{major}.{minor}.{patch}")
    }
}

/// The link to an envelope in a file.
fn link(offset: u64, size: u64, length: u64) -> EnvelopeLink {
    EnvelopeLink {
        length,
        stored: StoredRange {
            address: PageAddress::File(offset),
            size,
        },
    }
}

fn read_be<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], SpecError> {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk::<N>())
        .copied()
        .ok_or(SpecError::Truncated {
            what: "anchor",
            offset: at,
            expected: N as u64,
            found: bytes.len().saturating_sub(at) as u64,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(extra: &[u8]) -> Vec<u8> {
        of_epoch(1, extra)
    }

    fn of_epoch(epoch: u16, extra: &[u8]) -> Vec<u8> {
        let mut body = Vec::new();
        for v in [epoch, 0, 0, 1] {
            body.extend(v.to_be_bytes());
        }
        for v in 100u64..107 {
            body.extend(v.to_be_bytes());
        }
        body.extend(extra);
        let mut out = (BYTE_COUNT_MASK | u32::try_from(2 + body.len()).unwrap())
            .to_be_bytes()
            .to_vec();
        out.extend(2u16.to_be_bytes());
        out.extend(&body);
        out.extend(femtobarn_codec::xxh3(&body).to_be_bytes());
        out
    }

    #[test]
    fn anchor_of_version_1_is_78_bytes_and_parses() {
        let bytes = example(&[]);
        assert_eq!(bytes.len(), 78);
        let anchor = Anchor::parse(&bytes).unwrap();
        assert_eq!(anchor.version(), "1.0.0.1");
        let at = anchor.header.stored.address;
        assert_eq!((at, anchor.max_key_size), (PageAddress::File(100), 106));
    }

    #[test]
    fn appended_members_are_skipped_but_checked() {
        let mut bytes = example(&[7; 8]);
        assert_eq!(Anchor::parse(&bytes).unwrap().max_key_size, 106);
        bytes[74] ^= 1;
        assert!(matches!(
            Anchor::parse(&bytes),
            Err(SpecError::Checksum { .. })
        ));
    }

    #[test]
    fn other_epochs_are_refused_by_name() {
        for (epoch, advice) in [(0, "written again"), (2, "needs a newer")] {
            let error = Anchor::parse(&of_epoch(epoch, &[])).unwrap_err();
            assert!(matches!(error, SpecError::Unsupported { .. }));
            assert!(error.to_string().contains(advice), "{error}");
        }
    }

    #[test]
    fn every_truncation_is_an_error() {
        let bytes = example(&[]);
        for n in 0..bytes.len() {
            assert!(Anchor::parse(&bytes[..n]).is_err(), "{n}");
        }
    }
}
