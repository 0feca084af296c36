//! The error of this crate.

use crate::Algorithm;

/// What is wrong with the bytes, or with the request.
///
/// Offsets count from the start of the compressed bytes given to
/// [`Decompressor::decompress`](crate::Decompressor::decompress).
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// The bytes end within a record's header.
    #[error(
        "compression record header cut short at {offset}: expected {expected} bytes, found {found}"
    )]
    TruncatedHeader {
        /// Where the header starts.
        offset: usize,
        /// Bytes that a header has.
        expected: usize,
        /// Bytes that there are.
        found: usize,
    },
    /// The first three bytes of a record name no algorithm that ROOT writes.
    #[error("unknown compression algorithm at {offset}: magic {magic:02x?}, method {method}")]
    UnknownAlgorithm {
        /// Where the header starts.
        offset: usize,
        /// The first two bytes.
        magic: [u8; 2],
        /// The third byte.
        method: u8,
    },
    /// A record claims more compressed bytes than follow its header.
    #[error(
        "compression record at {offset} exceeds its source: expected {expected} bytes after the header, found {found}"
    )]
    RecordExceedsSource {
        /// Where the record's header starts.
        offset: usize,
        /// Compressed bytes by the header.
        expected: usize,
        /// Bytes that follow the header.
        found: usize,
    },
    /// A record claims more uncompressed bytes than there is room for.
    #[error(
        "compression record at {offset} exceeds its target: room for {expected} bytes, record holds {found}"
    )]
    RecordExceedsTarget {
        /// Where the record's header starts.
        offset: usize,
        /// Bytes still free in the target.
        expected: usize,
        /// Uncompressed bytes by the header.
        found: usize,
    },
    /// A record claims to hold no uncompressed bytes though some are wanted.
    #[error("empty compression record at {offset}: {expected} bytes are still to come")]
    EmptyRecord {
        /// Where the record's header starts.
        offset: usize,
        /// Bytes still free in the target.
        expected: usize,
    },
    /// The records end before the target is full.
    #[error(
        "compressed bytes end at {offset}: expected {expected} uncompressed bytes, found {found}"
    )]
    ShortPayload {
        /// Where the bytes end.
        offset: usize,
        /// Size of the target.
        expected: usize,
        /// Bytes of it that were filled.
        found: usize,
    },
    /// Bytes follow the record that filled the target.
    #[error(
        "trailing bytes after the last compression record at {offset}: expected 0, found {found}"
    )]
    TrailingBytes {
        /// Where the records end.
        offset: usize,
        /// Bytes after that.
        found: usize,
    },
    /// The checksum of an LZ4 record does not match its bytes.
    #[error(
        "checksum mismatch in the compression record at {offset}: expected {expected:#018x}, found {found:#018x}"
    )]
    ChecksumMismatch {
        /// Where the record's header starts.
        offset: usize,
        /// The checksum that the record holds.
        expected: u64,
        /// The checksum of the record's bytes.
        found: u64,
    },
    /// The compression library refuses a record's bytes.
    #[error("corrupt {algorithm} record at {offset}: {reason}")]
    Corrupt {
        /// Where the record's header starts.
        offset: usize,
        /// The record's algorithm.
        algorithm: Algorithm,
        /// What the library says.
        reason: &'static str,
    },
    /// A record's bytes decompress to another size than its header says.
    #[error(
        "wrong size of the {algorithm} record at {offset}: expected {expected} bytes, found {found}"
    )]
    WrongRecordSize {
        /// Where the record's header starts.
        offset: usize,
        /// The record's algorithm.
        algorithm: Algorithm,
        /// Uncompressed bytes by the header.
        expected: usize,
        /// Bytes that came out.
        found: usize,
    },
    /// An XZ stream asks for more memory than [`Decompressor`](crate::Decompressor) grants.
    #[error("{algorithm} record at {offset} needs more memory than the limit of {limit} bytes")]
    MemoryLimit {
        /// Where the record's header starts.
        offset: usize,
        /// The record's algorithm.
        algorithm: Algorithm,
        /// Bytes granted.
        limit: u64,
    },
    /// A compression library could not allocate its state.
    #[error("out of memory for {algorithm}")]
    OutOfMemory {
        /// The library's algorithm.
        algorithm: Algorithm,
    },
    /// The lengths of source and target do not fit together.
    #[error("wrong length for {encoding}: expected {expected} bytes, found {found}")]
    LengthMismatch {
        /// The element encoding.
        encoding: &'static str,
        /// Encoded bytes that the decoded side implies.
        expected: usize,
        /// Encoded bytes given.
        found: usize,
    },
    /// An element width for which the encoding is not defined.
    #[error("unsupported element width for {encoding}: expected 2, 4 or 8 bytes, found {found}")]
    UnsupportedWidth {
        /// The element encoding.
        encoding: &'static str,
        /// The width asked for.
        found: usize,
    },
    /// A number of bits for which the encoding is not defined.
    #[error("unsupported number of bits for {encoding}: expected {least} to {most}, found {found}")]
    UnsupportedBits {
        /// The element encoding.
        encoding: &'static str,
        /// Fewest bits allowed.
        least: u32,
        /// Most bits allowed.
        most: u32,
        /// The number asked for.
        found: u32,
    },
    /// The value range of a quantized column is no range of finite numbers.
    #[error("invalid value range for quantized reals: {min} to {max}")]
    InvalidRange {
        /// The lower limit.
        min: f64,
        /// The upper limit.
        max: f64,
    },
    /// A value that the encoding cannot hold.
    #[error("value {index} cannot be stored as {encoding}")]
    OutOfRange {
        /// The element encoding.
        encoding: &'static str,
        /// Which element.
        index: usize,
    },
    /// Compression settings that name no algorithm.
    #[error("unknown compression settings: {settings}")]
    UnknownSettings {
        /// Algorithm times 100 plus level.
        settings: u32,
    },
}

impl CodecError {
    /// A stable name of the variant, in kebab-case.
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

/// Checks that `found` encoded bytes are what `expected` says.
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
