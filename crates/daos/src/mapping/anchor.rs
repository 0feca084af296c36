//! The anchor of an ntuple in DAOS.

use xxhash_rust::xxh3::xxh3_64;

use crate::{DaosError, ObjectClass};

/// Size of an anchor.
pub const ANCHOR_SIZE: usize = 100;
/// The version of anchors that ROOT writes.
const VERSION: u64 = 1;
/// The name of the object class begins here, with its length.
const CLASS: usize = 32;
/// What femtobarn adds: the last bytes, which ROOT leaves as they are.
const OURS: usize = ANCHOR_SIZE - 32;
const MAGIC: [u8; 8] = *b"fbarnDS1";
/// The longest name that leaves room for what femtobarn adds.
const LONGEST_CLASS: usize = OURS - CLASS - 4;

/// What femtobarn adds to an anchor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spliced {
    /// The class of the objects with pages and metadata, as DAOS resolved it when they were written.
    pub class: ObjectClass,
    /// No value with pages is larger, so that a reader knows how much memory a value needs.
    pub largest_value: u32,
    /// The first number of the first block of the writer, which no other writer has.
    pub block: u32,
    /// The index of the objects with pages and page lists; 0 for the ntuple's own.
    pub index: u32,
}

/// The anchor: what must be known to read header and footer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaosAnchor {
    /// Epoch, major, minor and patch of the format.
    pub version: [u16; 4],
    /// Compressed size of the header.
    pub header_size: u32,
    /// Size of the header.
    pub header_length: u32,
    /// Compressed size of the footer.
    pub footer_size: u32,
    /// Size of the footer.
    pub footer_length: u32,
    /// The name of the object class; empty if DAOS chose it.
    pub class: String,
    /// What femtobarn added; none in anchors of ROOT.
    pub spliced: Option<Spliced>,
}

impl DaosAnchor {
    /// The bytes.
    ///
    /// # Errors
    /// If the name of the class is too long.
    pub fn to_bytes(&self) -> Result<[u8; ANCHOR_SIZE], DaosError> {
        let longest = match self.spliced {
            Some(_) => LONGEST_CLASS,
            None => ANCHOR_SIZE - CLASS - 4,
        };
        if self.class.len() > longest {
            let expected = format!("at most {longest} bytes");
            return Err(error(
                "name of the object class",
                expected,
                self.class.clone(),
            ));
        }
        let mut bytes = Vec::with_capacity(ANCHOR_SIZE);
        bytes.extend(VERSION.to_le_bytes());
        self.version
            .iter()
            .for_each(|part| bytes.extend(part.to_le_bytes()));
        let sizes = [
            self.header_size,
            self.header_length,
            self.footer_size,
            self.footer_length,
        ];
        sizes
            .iter()
            .for_each(|size| bytes.extend(size.to_le_bytes()));
        bytes.extend(
            u32::try_from(self.class.len())
                .unwrap_or_default()
                .to_le_bytes(),
        );
        bytes.extend(self.class.as_bytes());
        if let Some(spliced) = &self.spliced {
            bytes.resize(OURS, 0);
            bytes.extend(MAGIC);
            bytes.extend(spliced.class.bits().to_le_bytes());
            bytes.extend(spliced.largest_value.to_le_bytes());
            bytes.extend(spliced.block.to_le_bytes());
            bytes.extend(spliced.index.to_le_bytes());
            bytes.extend(xxh3_64(&bytes).to_le_bytes());
        }
        bytes.resize(ANCHOR_SIZE, 0);
        bytes
            .try_into()
            .map_err(|_| error("size", ANCHOR_SIZE, "another"))
    }

    /// Reads an anchor.
    ///
    /// # Errors
    /// If it is truncated, damaged, or of another version.
    pub fn parse(bytes: &[u8]) -> Result<Self, DaosError> {
        let short = || error("size", format!("{ANCHOR_SIZE} bytes"), bytes.len());
        let version = u64::from_le_bytes(array(bytes, 0).ok_or_else(short)?);
        if version != VERSION {
            return Err(error(
                "version",
                format!("{VERSION}, or a newer femtobarn"),
                version,
            ));
        }
        let part = |at| array(bytes, at).map(u16::from_le_bytes).ok_or_else(short);
        let size = |at| array(bytes, at).map(u32::from_le_bytes).ok_or_else(short);
        let length = size(CLASS)? as usize;
        let class = bytes.get(CLASS + 4..).unwrap_or_default();
        let class = class.get(..length).ok_or_else(|| {
            error(
                "length of the object class",
                format!("at most {}", class.len()),
                length,
            )
        })?;
        let class = std::str::from_utf8(class);
        let class = class.map_err(|_| error("object class", "a name", "other bytes"))?;
        Ok(Self {
            version: [part(8)?, part(10)?, part(12)?, part(14)?],
            header_size: size(16)?,
            header_length: size(20)?,
            footer_size: size(24)?,
            footer_length: size(28)?,
            class: class.to_owned(),
            spliced: spliced(bytes, length)?,
        })
    }
}

/// What femtobarn added, if it did.
fn spliced(bytes: &[u8], class: usize) -> Result<Option<Spliced>, DaosError> {
    if class > LONGEST_CLASS
        || bytes
            .get(OURS..)
            .is_none_or(|ours| !ours.starts_with(&MAGIC))
    {
        return Ok(None);
    }
    let (Some(checked), Some(checksum)) =
        (bytes.get(..ANCHOR_SIZE - 8), array(bytes, ANCHOR_SIZE - 8))
    else {
        return Ok(None);
    };
    let (expected, found) = (u64::from_le_bytes(checksum), xxh3_64(checked));
    if expected != found {
        return Err(error(
            "checksum",
            format!("{expected:#018x}"),
            format!("{found:#018x}"),
        ));
    }
    let number = |at| array(bytes, at).map(u32::from_le_bytes).unwrap_or_default();
    Ok(Some(Spliced {
        class: ObjectClass::from_bits(number(OURS + 8)),
        largest_value: number(OURS + 12),
        block: number(OURS + 16),
        index: number(OURS + 20),
    }))
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn error(what: &'static str, expected: impl ToString, found: impl ToString) -> DaosError {
    DaosError::Anchor {
        what,
        expected: expected.to_string(),
        found: found.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As ROOT writes it: after the class there is whatever its memory had.
    const ROOTS: [u8; 38] = [
        1, 0, 0, 0, 0, 0, 0, 0, // version of the anchor
        1, 0, 0, 0, 0, 0, 2, 0, // version of the format
        0x34, 0x12, 0, 0, 0x78, 0x56, 0, 0, // header
        5, 0, 0, 0, 6, 0, 0, 0, // footer
        2, 0, 0, 0, b'S', b'X',
    ];

    fn of_root() -> DaosAnchor {
        DaosAnchor {
            version: [1, 0, 0, 2],
            header_size: 0x1234,
            header_length: 0x5678,
            footer_size: 5,
            footer_length: 6,
            class: "SX".into(),
            spliced: None,
        }
    }

    fn ours() -> DaosAnchor {
        let spliced = Some(Spliced {
            class: ObjectClass::from_bits(0x0401_0008),
            largest_value: 1 << 20,
            block: 5 << 20,
            index: 0x87d4_b929,
        });
        DaosAnchor {
            spliced,
            ..of_root()
        }
    }

    #[test]
    fn an_anchor_of_root_has_100_bytes_whatever_they_end_with() {
        for rest in [0, 0xff, b'f'] {
            let mut bytes = ROOTS.to_vec();
            bytes.resize(ANCHOR_SIZE, rest);
            assert_eq!(DaosAnchor::parse(&bytes).unwrap(), of_root());
        }
        let bytes = of_root().to_bytes().unwrap();
        assert_eq!((bytes.len(), &bytes[..38]), (100, &ROOTS[..]));
        let none = DaosAnchor {
            class: String::new(),
            ..of_root()
        };
        assert_eq!(DaosAnchor::parse(&none.to_bytes().unwrap()).unwrap(), none);
    }

    #[test]
    fn what_femtobarn_adds_is_at_the_end_and_has_a_checksum() {
        let bytes = ours().to_bytes().unwrap();
        assert_eq!(bytes[..38], ROOTS);
        assert_eq!(bytes[38..68], [0; 30]);
        assert_eq!(bytes[68..84], *b"fbarnDS1\x08\x00\x01\x04\x00\x00\x10\x00");
        assert_eq!(bytes[84..92], *b"\x00\x00\x50\x00\x29\xb9\xd4\x87");
        assert_eq!(DaosAnchor::parse(&bytes).unwrap(), ours());
        for at in (8..68).chain(76..100) {
            let mut damaged = bytes;
            damaged[at] ^= 1;
            assert!(DaosAnchor::parse(&damaged).is_err(), "{at}");
        }
    }

    #[test]
    fn other_versions_truncations_and_wrong_lengths_are_errors() {
        let bytes = ours().to_bytes().unwrap();
        for n in 0..38 {
            assert!(DaosAnchor::parse(&bytes[..n]).is_err(), "{n}");
        }
        let mut newer = bytes;
        newer[0] = 2;
        let error = DaosAnchor::parse(&newer).unwrap_err();
        assert!(error.to_string().contains("newer"), "{error}");
        let mut long = bytes;
        long[32] = 65;
        assert!(DaosAnchor::parse(&long).is_err());
        let class = "x".repeat(33);
        assert!(DaosAnchor { class, ..ours() }.to_bytes().is_err());
    }
}
