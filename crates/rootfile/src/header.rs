//! The file header.

use femtobarn_io::{begins_as_anchor, ntuple_of_anchor};

use crate::cursor::{Cursor, Place};
use crate::{RootFileError, Uuid};

/// Added to the version if positions in the header have 64 bits.
const WIDE: i32 = 1_000_000;

/// The file header. Positions on disk have 32 bits in files up to 2 GB, and 64 bits in larger ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileHeader {
    /// The ROOT version that wrote the file (62400 is 6.24/00). On disk, 1 000 000 is added if
    /// positions in the header have 64 bits.
    pub version: u32,
    /// Offset of the first record, that of the file itself.
    pub begin: u64,
    /// Offset of the end of the file.
    pub end: u64,
    /// Offset of the free segments' record.
    pub seek_free: u64,
    /// Size of that record.
    pub n_bytes_free: u32,
    /// Number of free segments; the last one follows the end of the file.
    pub n_free: u32,
    /// Size of the first record's key with name and title; the root directory's record follows
    /// them.
    pub n_bytes_name: u32,
    /// Bytes per position, 4 or 8.
    pub units: u8,
    /// Default compression settings: algorithm × 100 + level.
    pub compression: u32,
    /// Offset of the streamer infos' record; 0 if there is none.
    pub seek_info: u64,
    /// Size of that record.
    pub n_bytes_info: u32,
    /// UUID of the file; all zeros in files of old versions, which have none.
    pub uuid: Uuid,
}

impl FileHeader {
    const MAGIC: &[u8] = b"root";

    /// Parses the header from the beginning of a file.
    pub(crate) fn parse(url: &str, bytes: &[u8]) -> Result<Self, RootFileError> {
        if !bytes.starts_with(Self::MAGIC) {
            let found = describe(url, bytes);
            return Err(RootFileError::NotARootFile {
                url: url.to_owned(),
                offset: 0,
                found,
            });
        }
        let mut cursor = Cursor::new(
            bytes,
            0,
            Place {
                url,
                what: "file header",
            },
        );
        cursor.take(Self::MAGIC.len())?;
        let version = cursor.u32()?.cast_signed();
        let wide = version >= WIDE;
        // some writers store a wide header without adding the million
        let version = if wide {
            version
        } else {
            version.rem_euclid(WIDE)
        }
        .cast_unsigned();
        let mut header = Self {
            version,
            begin: u64::from(cursor.size()?),
            end: cursor.seek_value(wide)?,
            seek_free: cursor.seek_value(wide)?,
            n_bytes_free: cursor.size()?,
            n_free: cursor.size()?,
            n_bytes_name: cursor.size()?,
            units: cursor.u8()?,
            compression: cursor.u32()?,
            seek_info: cursor.seek_value(wide)?,
            n_bytes_info: cursor.size()?,
            uuid: Uuid::default(),
        };
        if header.begin < cursor.offset() || header.begin > header.end {
            let expected =
                format_args!("a first record from {} to {}", cursor.offset(), header.end);
            return Err(cursor.place().corrupt(8, expected, header.begin));
        }
        // the two bytes before the UUID are its class version
        if header.begin - cursor.offset() >= 18 {
            cursor.u16()?;
            header.uuid = Uuid(cursor.array()?);
        }
        Ok(header)
    }

    /// The ROOT version in the usual notation, for example `6.24/00`.
    #[must_use]
    pub fn root_version(&self) -> String {
        let version = self.version % 1_000_000;
        format!(
            "{}.{:02}/{:02}",
            version / 10_000,
            version / 100 % 100,
            version % 100
        )
    }
}

/// Describes the beginning of a file that is not a ROOT file.
fn describe(url: &str, bytes: &[u8]) -> String {
    const KNOWN: [(&[u8], &str); 12] = [
        (b"\x89HDF", "an HDF5 file"),
        (b"PAR1", "a Parquet file"),
        (b"ARROW1", "an Arrow IPC file"),
        (b"\x1f\x8b", "gzip-compressed data"),
        (b"\x28\xb5\x2f\xfd", "zstd-compressed data"),
        (b"\xfd7zXZ", "xz-compressed data"),
        (b"BZh", "bzip2-compressed data"),
        (b"PK\x03\x04", "a zip archive"),
        (b"<!DOCTYPE", "a web page"),
        (b"<html", "a web page"),
        (b"<?xml", "an XML document"),
        (
            b"version https://git-lfs",
            "a Git LFS pointer, not the file itself",
        ),
    ];
    if bytes.is_empty() {
        return "an empty file".to_owned();
    }
    let start = bytes.get(..4).unwrap_or(bytes).escape_ascii();
    if begins_as_anchor(bytes) {
        let open = ntuple_of_anchor(url);
        let advice = open.map_or(String::new(), |open| format!(": open it as {open}"));
        return format!("\"{start}\": the anchor of an ntuple in objects{advice}");
    }
    match KNOWN.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        Some((_, name)) => format!("\"{start}\": {name}"),
        None if bytes.len() < 4 => format!("\"{start}\": {} bytes in all", bytes.len()),
        None => format!("\"{start}\""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_files_are_told_apart() {
        let found = |bytes| FileHeader::parse("mem:x", bytes).unwrap_err().to_string();
        assert!(found(b"\x89HDF\r\n\x1a\n").ends_with("found \"\\x89HDF\": an HDF5 file"));
        assert!(found(b"").ends_with("found an empty file"));
        assert!(found(b"ro").ends_with("found \"ro\": 2 bytes in all"));
        assert!(found(b"ROOT").ends_with("found \"ROOT\""));
        let anchor = b"{\"anchorVersion\":0,";
        for (url, advice) in [
            ("s3://b/p", ": open it as ntpl+s3://b/p"),
            ("az://b/p", ": open it as ntpl+az://b/p"),
            ("/d/a:b/anchor", ": open it as ntpl+file:///d/a%3Ab"),
            ("https://h/p", "an ntuple in objects"),
        ] {
            let error = FileHeader::parse(url, anchor).unwrap_err().to_string();
            assert!(error.ends_with(advice), "{error}");
        }
    }

    #[test]
    fn a_version_below_zero_has_narrow_positions() {
        let header = |version: i32| {
            let mut bytes = b"root".to_vec();
            bytes.extend(version.to_be_bytes());
            for value in [100u32, 5000, 4900, 60, 1, 58] {
                bytes.extend(value.to_be_bytes());
            }
            bytes.push(4);
            for value in [101u32, 4000, 300] {
                bytes.extend(value.to_be_bytes());
            }
            bytes.resize(100, 0);
            FileHeader::parse("mem:x", &bytes).unwrap()
        };
        let usual = header(61_800);
        assert_eq!(usual.root_version(), "6.18/00");
        assert_eq!((usual.end, usual.seek_info), (5000, 4000));
        assert_eq!(header(61_800 - 1_000_000), usual);
        assert_eq!(header(61_800 - 2_000_000), usual);
        for (version, text) in [(1_063_602, "6.36/02"), (53_434, "5.34/34")] {
            let header = FileHeader { version, ..usual };
            assert_eq!(header.root_version(), text);
        }
    }

    #[test]
    fn a_cut_header_is_truncated() {
        let error = FileHeader::parse("mem:x", b"root\0\0\xf3").unwrap_err();
        assert_eq!(error.kind(), "truncated-file");
    }
}
