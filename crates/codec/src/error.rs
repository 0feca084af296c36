//! The error of this crate.

use crate::Algorithm;

/// An error in the input bytes, or in the request.
///
/// Offsets count from the start of the compressed bytes given to
/// [`Decompressor::decompress`](crate::Decompressor::decompress).
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// The bytes end within a record header.
    #[error(
        "compression record header truncated at {offset}: expected {expected} bytes, found {found}"
    )]
    TruncatedHeader {
        /// Offset of the header.
        offset: usize,
        /// Size of a header.
        expected: usize,
        /// Number of available bytes.
        found: usize,
    },
    /// The first three bytes of a record are not those of a known algorithm.
    #[error("unknown compression algorithm at {offset}: magic {magic:02x?}, method {method}")]
    UnknownAlgorithm {
        /// Offset of the header.
        offset: usize,
        /// The first two bytes.
        magic: [u8; 2],
        /// The third byte.
        method: u8,
    },
    /// A record header states more compressed bytes than follow it.
    #[error(
        "compression record at {offset} exceeds its source: expected {expected} bytes after the header, found {found}"
    )]
    RecordExceedsSource {
        /// Offset of the record header.
        offset: usize,
        /// Compressed size in the header.
        expected: usize,
        /// Number of bytes after the header.
        found: usize,
    },
    /// A record header states more uncompressed bytes than fit the target.
    #[error(
        "compression record at {offset} exceeds its target: expected at most {expected} uncompressed bytes, found {found}"
    )]
    RecordExceedsTarget {
        /// Offset of the record header.
        offset: usize,
        /// Free bytes in the target.
        expected: usize,
        /// Uncompressed size in the header.
        found: usize,
    },
    /// A record header states no uncompressed bytes, although the target is not full.
    #[error("empty compression record at {offset}: {expected} bytes are missing")]
    EmptyRecord {
        /// Offset of the record header.
        offset: usize,
        /// Free bytes in the target.
        expected: usize,
    },
    /// The records end before the target is full.
    #[error(
        "compressed bytes end at {offset}: expected {expected} uncompressed bytes, found {found}"
    )]
    ShortPayload {
        /// Offset of the end.
        offset: usize,
        /// Size of the target.
        expected: usize,
        /// Number of bytes written to the target.
        found: usize,
    },
    /// Bytes follow the record that filled the target.
    #[error(
        "trailing bytes after the last compression record at {offset}: expected 0, found {found}"
    )]
    TrailingBytes {
        /// Offset of the end of the records.
        offset: usize,
        /// Number of bytes after it.
        found: usize,
    },
    /// The checksum of an LZ4 record does not match its bytes.
    #[error(
        "checksum mismatch in the compression record at {offset}: expected {expected:#018x}, found {found:#018x}"
    )]
    ChecksumMismatch {
        /// Offset of the record header.
        offset: usize,
        /// The checksum in the record.
        expected: u64,
        /// The checksum of the record's bytes.
        found: u64,
    },
    /// The compression library rejects the data of a record.
    #[error("corrupt {algorithm} record at {offset}: {reason}")]
    Corrupt {
        /// Offset of the record header.
        offset: usize,
        /// The record's algorithm.
        algorithm: Algorithm,
        /// The reason.
        reason: &'static str,
    },
    /// A record decompresses to another size than its header states.
    #[error(
        "wrong size of the {algorithm} record at {offset}: expected {expected} bytes, found {found}"
    )]
    WrongRecordSize {
        /// Offset of the record header.
        offset: usize,
        /// The record's algorithm.
        algorithm: Algorithm,
        /// Uncompressed size in the header.
        expected: usize,
        /// Actual uncompressed size.
        found: usize,
    },
    /// An XZ stream needs more memory than [`Decompressor`](crate::Decompressor) allows.
    #[error("{algorithm} record at {offset} needs more memory than the limit of {limit} bytes")]
    MemoryLimit {
        /// Offset of the record header.
        offset: usize,
        /// The record's algorithm.
        algorithm: Algorithm,
        /// The memory limit in bytes.
        limit: u64,
    },
    /// A compression library could not allocate memory.
    #[error("out of memory for {algorithm}")]
    OutOfMemory {
        /// The algorithm of the library.
        algorithm: Algorithm,
    },
    /// The lengths of source and target do not match.
    #[error("wrong length for {encoding}: expected {expected} bytes, found {found}")]
    LengthMismatch {
        /// The element encoding.
        encoding: &'static str,
        /// Encoded size of the decoded elements.
        expected: usize,
        /// Encoded size given.
        found: usize,
    },
    /// The encoding is not defined for an element width.
    #[error("unsupported element width for {encoding}: expected 2, 4 or 8 bytes, found {found}")]
    UnsupportedWidth {
        /// The element encoding.
        encoding: &'static str,
        /// The width requested.
        found: usize,
    },
    /// The encoding is not defined for a number of bits.
    #[error("unsupported number of bits for {encoding}: expected {least} to {most}, found {found}")]
    UnsupportedBits {
        /// The element encoding.
        encoding: &'static str,
        /// Fewest bits allowed.
        least: u32,
        /// Most bits allowed.
        most: u32,
        /// The number of bits requested.
        found: u32,
    },
    /// The value range of a quantized column is not a range of finite numbers.
    #[error("invalid value range for quantized floats: {min} to {max}")]
    InvalidRange {
        /// The lower limit.
        min: f64,
        /// The upper limit.
        max: f64,
    },
    /// The encoding cannot represent a value.
    #[error("value {index} cannot be stored as {encoding}")]
    OutOfRange {
        /// The element encoding.
        encoding: &'static str,
        /// Index of the element.
        index: usize,
    },
    /// Compression settings with an unknown algorithm.
    #[error("unknown compression settings: {settings}")]
    UnknownSettings {
        /// The algorithm times 100 plus the level.
        settings: u32,
    },
}

impl CodecError {
    /// The stable name of the error, in kebab case.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::TruncatedHeader { .. } => "truncated-header",
            Self::UnknownAlgorithm { .. } => "unknown-algorithm",
            Self::RecordExceedsSource { .. } => "record-exceeds-source",
            Self::RecordExceedsTarget { .. } => "record-exceeds-target",
            Self::EmptyRecord { .. } => "empty-record",
            Self::ShortPayload { .. } => "short-payload",
            Self::TrailingBytes { .. } => "trailing-bytes",
            Self::ChecksumMismatch { .. } => "checksum-mismatch",
            Self::Corrupt { .. } => "corrupt",
            Self::WrongRecordSize { .. } => "wrong-record-size",
            Self::MemoryLimit { .. } => "memory-limit",
            Self::OutOfMemory { .. } => "out-of-memory",
            Self::LengthMismatch { .. } => "length-mismatch",
            Self::UnsupportedWidth { .. } => "unsupported-width",
            Self::UnsupportedBits { .. } => "unsupported-bits",
            Self::InvalidRange { .. } => "invalid-range",
            Self::OutOfRange { .. } => "out-of-range",
            Self::UnknownSettings { .. } => "unknown-settings",
        }
    }
}

/// Checks the number of encoded bytes.
pub(crate) fn check_length(
    encoding: &'static str,
    expected: Option<usize>,
    found: usize,
) -> Result<(), CodecError> {
    if expected == Some(found) {
        return Ok(());
    }
    Err(CodecError::LengthMismatch {
        encoding,
        expected: expected.unwrap_or(usize::MAX),
        found,
    })
}
