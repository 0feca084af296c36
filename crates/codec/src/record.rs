//! Headers of ROOT's compression records, and names of compression settings.

use std::fmt;

use crate::CodecError;

/// A compression algorithm of ROOT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// `ZL`: a zlib stream. Settings 1xx.
    Zlib,
    /// `CS`: deflate without a zlib header, written before ROOT 5.18. Settings 3xx.
    OldDeflate,
    /// `XZ`: an .xz stream. Settings 2xx.
    Lzma,
    /// `L4`: the XXH64 of an LZ4 block, then the block. Settings 4xx.
    Lz4,
    /// `ZS`: a zstd frame. Settings 5xx.
    Zstd,
}

impl Algorithm {
    /// The magic bytes and the method byte of this algorithm's records.
    #[must_use]
    pub fn magic(self) -> [u8; 3] {
        match self {
            Self::Zlib => *b"ZL\x08",
            Self::OldDeflate => *b"CS\x08",
            Self::Lzma => *b"XZ\x00",
            Self::Lz4 => *b"L4\x01",
            Self::Zstd => *b"ZS\x01",
        }
    }

    /// The algorithm of compression settings (algorithm times 100 plus level); `None` for unknown algorithms. Settings
    /// below 100 stand for ROOT's default, zlib.
    #[must_use]
    pub fn of_settings(settings: u32) -> Option<Self> {
        match settings / 100 {
            0 | 1 => Some(Self::Zlib),
            2 => Some(Self::Lzma),
            3 => Some(Self::OldDeflate),
            4 => Some(Self::Lz4),
            5 => Some(Self::Zstd),
            _ => None,
        }
    }

    /// The name as in [`settings_name`].
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Zlib => "zlib",
            Self::OldDeflate => "old deflate",
            Self::Lzma => "lzma",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The header of one compression record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordHeader {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Number of bytes after the header (for LZ4, including the 8 bytes of checksum).
    pub compressed: usize,
    /// Number of uncompressed bytes.
    pub uncompressed: usize,
}

impl RecordHeader {
    /// Size of a header: two magic bytes, one method byte, two sizes of three bytes each.
    pub const SIZE: usize = 9;

    /// The largest size in a header, 2²⁴ − 1. Longer payloads are several records.
    pub const MAX_SIZE: usize = 0xff_ffff;

    /// Parses the header at the start of `bytes`.
    ///
    /// # Errors
    /// [`CodecError::TruncatedHeader`] and [`CodecError::UnknownAlgorithm`], at offset 0. The sizes are not checked.
    pub fn parse(bytes: &[u8]) -> Result<Self, CodecError> {
        let Some(&[m0, m1, method, c0, c1, c2, u0, u1, u2]) = bytes.first_chunk::<{ Self::SIZE }>()
        else {
            return Err(CodecError::TruncatedHeader {
                offset: 0,
                expected: Self::SIZE,
                found: bytes.len(),
            });
        };
        let algorithm = match &[m0, m1, method] {
            b"ZL\x08" => Algorithm::Zlib,
            b"CS\x08" => Algorithm::OldDeflate,
            b"XZ\x00" => Algorithm::Lzma,
            b"L4\x01" => Algorithm::Lz4,
            b"ZS\x01" => Algorithm::Zstd,
            _ => {
                return Err(CodecError::UnknownAlgorithm {
                    offset: 0,
                    magic: [m0, m1],
                    method,
                });
            }
        };
        Ok(Self {
            algorithm,
            compressed: size([c0, c1, c2]),
            uncompressed: size([u0, u1, u2]),
        })
    }

    /// Encodes the header; `None` if a size exceeds [`MAX_SIZE`](Self::MAX_SIZE).
    #[must_use]
    pub fn to_bytes(self) -> Option<[u8; Self::SIZE]> {
        if self.compressed.max(self.uncompressed) > Self::MAX_SIZE {
            return None;
        }
        let [m0, m1, method] = self.algorithm.magic();
        let [c0, c1, c2, ..] = self.compressed.to_le_bytes();
        let [u0, u1, u2, ..] = self.uncompressed.to_le_bytes();
        Some([m0, m1, method, c0, c1, c2, u0, u1, u2])
    }
}

fn size(bytes: [u8; 3]) -> usize {
    bytes
        .iter()
        .rev()
        .fold(0, |size, &byte| size << 8 | usize::from(byte))
}

/// A readable name of compression settings: `zstd 5` for 505, `uncompressed` for level 0.
#[must_use]
pub fn settings_name(settings: u32) -> String {
    let level = settings % 100;
    match Algorithm::of_settings(settings) {
        _ if level == 0 => "uncompressed".to_owned(),
        Some(algorithm) => format!("{algorithm} {level}"),
        None => format!("unknown algorithm {}, level {level}", settings / 100),
    }
}

/// Parses compression settings: `zstd:5`, `lzma` (with ROOT's default level), `none`, `505`.
///
/// # Errors
/// [`CodecError::UnknownSettings`] for an unknown algorithm or level. It has the value 0 if the text is not a number.
pub fn parse_settings(text: &str) -> Result<u32, CodecError> {
    let unknown = |settings| CodecError::UnknownSettings { settings };
    if let Ok(settings) = text.trim().parse::<u32>() {
        let known = Algorithm::of_settings(settings).is_some() && settings % 100 <= 9;
        return if known {
            Ok(settings)
        } else {
            Err(unknown(settings))
        };
    }
    let (name, level) = text.split_once([':', ' ']).unwrap_or((text, ""));
    let (code, default) = match name.trim().to_ascii_lowercase().as_str() {
        "none" | "uncompressed" | "off" => return Ok(0),
        "zlib" | "deflate" => (1, 1),
        "lzma" | "xz" => (2, 7),
        "lz4" => (4, 4),
        "zstd" => (5, 5),
        _ => return Err(unknown(0)),
    };
    let level = match level.trim() {
        "" => default,
        level => level
            .parse()
            .ok()
            .filter(|&level| level <= 9)
            .ok_or(unknown(code * 100))?,
    };
    Ok(code * 100 + level)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_understood_as_they_are_said() {
        for (text, settings) in [
            ("zstd:5", 505),
            ("ZSTD", 505),
            ("lz4 9", 409),
            ("lzma", 207),
            ("zlib:6", 106),
            ("none", 0),
            ("404", 404),
            ("zstd:0", 500),
        ] {
            assert_eq!(parse_settings(text).unwrap(), settings, "{text}");
        }
        for text in ["", "gzip", "zstd:10", "zstd:x", "777", "599"] {
            assert!(parse_settings(text).is_err(), "{text}");
        }
    }

    #[test]
    fn settings_are_named_by_algorithm_and_level() {
        let names = [0, 1, 101, 207, 303, 404, 500, 505, 912].map(settings_name);
        assert_eq!(
            names,
            [
                "uncompressed",
                "zlib 1",
                "zlib 1",
                "lzma 7",
                "old deflate 3",
                "lz4 4",
                "uncompressed",
                "zstd 5",
                "unknown algorithm 9, level 12"
            ]
        );
    }

    #[test]
    fn header_survives_a_round_trip() {
        for algorithm in [
            Algorithm::Zlib,
            Algorithm::OldDeflate,
            Algorithm::Lzma,
            Algorithm::Lz4,
            Algorithm::Zstd,
        ] {
            let header = RecordHeader {
                algorithm,
                compressed: 0x01_0203,
                uncompressed: RecordHeader::MAX_SIZE,
            };
            let bytes = header.to_bytes().unwrap();
            assert_eq!(bytes[3..], [3, 2, 1, 255, 255, 255]);
            assert_eq!(RecordHeader::parse(&bytes).unwrap(), header);
        }
    }

    #[test]
    fn header_of_a_size_over_24_bits_is_refused() {
        let header = RecordHeader {
            algorithm: Algorithm::Zstd,
            compressed: 0,
            uncompressed: 1 << 24,
        };
        assert_eq!(header.to_bytes(), None);
    }

    #[test]
    fn unknown_magic_and_method_are_reported() {
        for bytes in [
            b"ZL\x00......",
            b"ZZ\x08......",
            b"L4\x02......",
            b"\0\0\0......",
        ] {
            let error = RecordHeader::parse(bytes).unwrap_err();
            assert_eq!(error.kind(), "unknown-algorithm");
        }
    }

    #[test]
    fn cut_header_is_reported() {
        let error = RecordHeader::parse(b"ZL\x08\x01").unwrap_err();
        assert_eq!(
            error,
            CodecError::TruncatedHeader {
                offset: 0,
                expected: 9,
                found: 4
            }
        );
    }
}
