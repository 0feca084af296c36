//! Decompression of concatenated records into memory of the caller.

use libdeflater::DecompressionError;
use liblzma::stream::{Action, Error as LzmaError, Status, Stream};

use crate::{Algorithm, CodecError, RecordHeader};

/// Memory limit of an XZ stream. Preset 9, the largest, needs 65 MiB; ROOT's dictionaries have at
/// most a quarter of a record.
const LZMA_MEMORY_LIMIT: u64 = 128 << 20;

/// Size of the checksum before an LZ4 block.
const LZ4_CHECKSUM_SIZE: usize = 8;

/// Decompresses records of all algorithms that ROOT has ever written.
///
/// It keeps the contexts of the libraries between calls, so use one per thread. Bytes go from `src`
/// to `dst` without intermediate copies.
pub struct Decompressor {
    deflate: Option<libdeflater::Decompressor>,
    zstd: Option<zstd_safe::DCtx<'static>>,
}

impl std::fmt::Debug for Decompressor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Decompressor")
            .finish_non_exhaustive()
    }
}

impl Default for Decompressor {
    fn default() -> Self {
        Self::new()
    }
}

impl Decompressor {
    /// Creates a decompressor. It allocates the context of each library when it is first needed.
    #[must_use]
    pub fn new() -> Self {
        Self {
            deflate: None,
            zstd: None,
        }
    }

    /// Decompresses the records in `src`, which must fill `dst` exactly.
    ///
    /// On an error the contents of `dst` are unspecified.
    ///
    /// # Errors
    /// A header that is truncated or unknown, sizes that do not fit `src` or `dst`, a checksum
    /// mismatch, data that the library rejects, bytes left over in `src` or missing in `dst`.
    pub fn decompress(&mut self, src: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
        let wanted = dst.len();
        let (mut rest, mut room) = (src, dst);
        while !room.is_empty() {
            let offset = src.len() - rest.len();
            if rest.is_empty() {
                return Err(CodecError::ShortPayload {
                    offset,
                    expected: wanted,
                    found: wanted - room.len(),
                });
            }
            let (header, payload, next) = next_record(rest, offset)?;
            let free = room.len();
            if header.uncompressed == 0 {
                return Err(CodecError::EmptyRecord {
                    offset,
                    expected: free,
                });
            }
            let Some((target, next_room)) = room.split_at_mut_checked(header.uncompressed) else {
                return Err(CodecError::RecordExceedsTarget {
                    offset,
                    expected: free,
                    found: header.uncompressed,
                });
            };
            self.decompress_record(header.algorithm, payload, target, offset)?;
            (rest, room) = (next, next_room);
        }
        if rest.is_empty() {
            return Ok(());
        }
        Err(CodecError::TrailingBytes {
            offset: src.len() - rest.len(),
            found: rest.len(),
        })
    }

    fn decompress_record(
        &mut self,
        algorithm: Algorithm,
        payload: &[u8],
        target: &mut [u8],
        offset: usize,
    ) -> Result<(), CodecError> {
        let expected = target.len();
        let found = match algorithm {
            Algorithm::Zlib => {
                let deflate = self
                    .deflate
                    .get_or_insert_with(libdeflater::Decompressor::new);
                deflate
                    .zlib_decompress(payload, target)
                    .map_err(|error| deflate_error(error, algorithm, offset))
            }
            Algorithm::OldDeflate => {
                let deflate = self
                    .deflate
                    .get_or_insert_with(libdeflater::Decompressor::new);
                deflate
                    .deflate_decompress(payload, target)
                    .map_err(|error| deflate_error(error, algorithm, offset))
            }
            Algorithm::Lzma => decompress_lzma(payload, target, offset),
            Algorithm::Lz4 => decompress_lz4(payload, target, offset),
            Algorithm::Zstd => self.decompress_zstd(payload, target, offset),
        }?;
        if found == expected {
            return Ok(());
        }
        Err(CodecError::WrongRecordSize {
            offset,
            algorithm,
            expected,
            found,
        })
    }

    fn decompress_zstd(
        &mut self,
        payload: &[u8],
        target: &mut [u8],
        offset: usize,
    ) -> Result<usize, CodecError> {
        let algorithm = Algorithm::Zstd;
        let context = match &mut self.zstd {
            Some(context) => context,
            empty => {
                let created =
                    zstd_safe::DCtx::try_create().ok_or(CodecError::OutOfMemory { algorithm })?;
                empty.insert(created)
            }
        };
        context
            .decompress(target, payload)
            .map_err(|code| CodecError::Corrupt {
                offset,
                algorithm,
                reason: zstd_safe::get_error_name(code),
            })
    }
}

/// Splits the record at the start of `bytes` into its header, its compressed bytes, and the bytes
/// after the record.
fn next_record(bytes: &[u8], offset: usize) -> Result<(RecordHeader, &[u8], &[u8]), CodecError> {
    let header = RecordHeader::parse(bytes).map_err(|error| match error {
        CodecError::TruncatedHeader {
            expected, found, ..
        } => CodecError::TruncatedHeader {
            offset,
            expected,
            found,
        },
        CodecError::UnknownAlgorithm { magic, method, .. } => CodecError::UnknownAlgorithm {
            offset,
            magic,
            method,
        },
        other => other,
    })?;
    let body = bytes.get(RecordHeader::SIZE..).unwrap_or_default();
    match body.split_at_checked(header.compressed) {
        Some((payload, next)) => Ok((header, payload, next)),
        None => Err(CodecError::RecordExceedsSource {
            offset,
            expected: header.compressed,
            found: body.len(),
        }),
    }
}

fn deflate_error(error: DecompressionError, algorithm: Algorithm, offset: usize) -> CodecError {
    let reason = match error {
        DecompressionError::BadData => "invalid deflate data or checksum",
        DecompressionError::InsufficientSpace => "more data than the record header states",
    };
    CodecError::Corrupt {
        offset,
        algorithm,
        reason,
    }
}

fn decompress_lz4(payload: &[u8], target: &mut [u8], offset: usize) -> Result<usize, CodecError> {
    let algorithm = Algorithm::Lz4;
    let Some((checksum, block)) = payload.split_first_chunk::<LZ4_CHECKSUM_SIZE>() else {
        return Err(CodecError::Corrupt {
            offset,
            algorithm,
            reason: "no room for the checksum",
        });
    };
    let expected = u64::from_be_bytes(*checksum);
    let found = xxhash_rust::xxh64::xxh64(block, 0);
    if expected != found {
        return Err(CodecError::ChecksumMismatch {
            offset,
            expected,
            found,
        });
    }
    let too_large = CodecError::Corrupt {
        offset,
        algorithm,
        reason: "larger than a record can be",
    };
    let size = i32::try_from(target.len()).map_err(|_| too_large)?;
    lz4::block::decompress_to_buffer(block, Some(size), target).map_err(|_| CodecError::Corrupt {
        offset,
        algorithm,
        reason: "invalid LZ4 block",
    })
}

fn decompress_lzma(payload: &[u8], target: &mut [u8], offset: usize) -> Result<usize, CodecError> {
    let algorithm = Algorithm::Lzma;
    let corrupt = |reason| CodecError::Corrupt {
        offset,
        algorithm,
        reason,
    };
    let failed = |error| match error {
        LzmaError::MemLimit => CodecError::MemoryLimit {
            offset,
            algorithm,
            limit: LZMA_MEMORY_LIMIT,
        },
        LzmaError::Mem => CodecError::OutOfMemory { algorithm },
        LzmaError::Format => corrupt("not an xz stream"),
        LzmaError::Options => corrupt("unsupported xz options"),
        _ => corrupt("invalid xz data or checksum"),
    };
    let mut stream = Stream::new_stream_decoder(LZMA_MEMORY_LIMIT, 0).map_err(failed)?;
    let capacity = target.len();
    let (mut rest, mut room) = (payload, target);
    loop {
        let (consumed, produced) = (stream.total_in(), stream.total_out());
        let status = stream.process(rest, room, Action::Finish).map_err(failed)?;
        let used = usize::try_from(stream.total_in() - consumed)
            .map_err(|_| corrupt("impossible size"))?;
        let made = usize::try_from(stream.total_out() - produced)
            .map_err(|_| corrupt("impossible size"))?;
        rest = rest.get(used..).unwrap_or_default();
        room = room.get_mut(made..).unwrap_or_default();
        match status {
            Status::StreamEnd if rest.is_empty() => return Ok(capacity - room.len()),
            Status::StreamEnd => return Err(corrupt("bytes after the end of the xz stream")),
            _ if used == 0 && made == 0 => {
                return Err(corrupt("xz stream does not end with the record"));
            }
            _ => {}
        }
    }
}
