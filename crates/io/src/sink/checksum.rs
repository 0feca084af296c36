//! Checksums of whole files in the formats of servers.

use libdeflater::{Adler32, Crc};

use crate::{ByteSource, IoError, pieces};

/// Bytes per read.
const CHUNK: u64 = 4 << 20;

/// An incremental checksum.
enum Sum {
    Adler32(Adler32),
    Crc32(Crc),
    Crc32c(u32),
}

impl Sum {
    fn of(kind: &str) -> Option<Self> {
        match kind.to_ascii_lowercase().as_str() {
            "adler32" => Some(Self::Adler32(Adler32::new())),
            "crc32" => Some(Self::Crc32(Crc::new())),
            "crc32c" => Some(Self::Crc32c(0)),
            _ => None,
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        match self {
            Self::Adler32(sum) => sum.update(bytes),
            Self::Crc32(sum) => sum.update(bytes),
            Self::Crc32c(sum) => *sum = crc32c::crc32c_append(*sum, bytes),
        }
    }

    fn value(&self) -> u32 {
        match self {
            Self::Adler32(sum) => sum.sum(),
            Self::Crc32(sum) => sum.sum(),
            Self::Crc32c(sum) => *sum,
        }
    }
}

/// Whether a source has a checksum; `None` if its kind is not supported, or its digits are invalid.
///
/// # Errors
/// If the source cannot be read.
pub(super) fn has_checksum(
    source: &dyn ByteSource,
    kind: &str,
    digits: &str,
) -> Result<Option<bool>, IoError> {
    let (Some(mut sum), Ok(expected)) = (Sum::of(kind), u32::from_str_radix(digits, 16)) else {
        return Ok(None);
    };
    for range in pieces(source.meta().size, CHUNK) {
        for bytes in source.read_ranges(&[range])? {
            sum.add(&bytes);
        }
    }
    Ok(Some(sum.value() == expected))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemorySource;

    #[test]
    fn known_checksums_are_found() {
        let source = MemorySource::new("m", b"123456789".to_vec());
        for (kind, digits) in [
            ("adler32", "091e01de"),
            ("adler32", "91e01de"),
            ("CRC32", "cbf43926"),
            ("crc32c", "e3069283"),
        ] {
            assert_eq!(has_checksum(&*source, kind, digits).unwrap(), Some(true));
        }
        assert_eq!(
            has_checksum(&*source, "adler32", "091e01df").unwrap(),
            Some(false)
        );
        assert_eq!(has_checksum(&*source, "md5", "00").unwrap(), None);
        assert_eq!(has_checksum(&*source, "crc32", "no").unwrap(), None);
    }
}
