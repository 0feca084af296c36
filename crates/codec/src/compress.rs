//! Compression into concatenated records.

use libdeflater::CompressionLvl;
use liblzma::stream::{Action, Check, Filters, LzmaOptions, Status, Stream};
use lz4::block::CompressionMode;

use crate::planes::PlaneContexts;
use crate::{Algorithm, CodecError, RecordHeader};

/// Smallest payload that ROOT compresses.
const LEAST_PAYLOAD: usize = 11;

/// The smallest dictionary that liblzma accepts.
const LEAST_LZMA_DICTIONARY: usize = 4096;

/// Dictionary sizes of liblzma's presets 0 to 9.
const PRESET_DICTIONARIES: [u32; 10] = [
    1 << 18,
    1 << 20,
    1 << 21,
    1 << 22,
    1 << 22,
    1 << 23,
    1 << 23,
    1 << 24,
    1 << 25,
    1 << 26,
];

/// The lowest level at which ROOT uses LZ4's high compression mode.
const LEAST_LZ4_HIGH_LEVEL: u32 = 4;

/// Compresses payloads into records with ROOT's algorithms and levels. Only zlib streams differ in
/// their bytes, as libdeflate makes them.
#[derive(Default)]
pub struct Compressor {
    deflate: Option<(u32, libdeflater::Compressor)>,
    zstd: Option<zstd_safe::CCtx<'static>>,
    pub(crate) planes: PlaneContexts,
}

impl std::fmt::Debug for Compressor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Compressor").finish_non_exhaustive()
    }
}

impl Compressor {
    /// Creates a compressor. It allocates the context of each library when it is first needed.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends `src` to `out` as records of at most 2²⁴ − 1 bytes each. `settings` is the algorithm
    /// times 100 plus the level.
    ///
    /// Returns `false`, without changing `out`, if ROOT would store the payload uncompressed: at
    /// level 0, for short payloads, and if the whole or one record would not become smaller.
    ///
    /// # Errors
    /// [`CodecError::UnknownSettings`] for an unknown algorithm, and [`CodecError::OutOfMemory`].
    pub fn compress(
        &mut self,
        settings: u32,
        src: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<bool, CodecError> {
        let algorithm =
            Algorithm::of_settings(settings).ok_or(CodecError::UnknownSettings { settings })?;
        let level = settings % 100;
        if level == 0 || src.len() < LEAST_PAYLOAD {
            return Ok(false);
        }
        let start = out.len();
        for block in src.chunks(RecordHeader::MAX_SIZE) {
            let shrunk = self.append_record(algorithm, level, block, out);
            if !matches!(shrunk, Ok(true)) {
                out.truncate(start);
                return shrunk;
            }
        }
        Ok(true)
    }

    /// Appends one record if it is shorter than `block`.
    pub(crate) fn append_record(
        &mut self,
        algorithm: Algorithm,
        level: u32,
        block: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<bool, CodecError> {
        if block.len() < LEAST_PAYLOAD {
            return Ok(false);
        }
        let start = out.len();
        out.resize(start + block.len() - 1, 0);
        let tail = out.get_mut(start..).unwrap_or_default();
        let Some((room, payload)) = tail.split_first_chunk_mut() else {
            return Ok(false);
        };
        let compressed = match algorithm {
            Algorithm::Zlib => self.deflater(level).zlib_compress(block, payload).ok(),
            Algorithm::OldDeflate => self.deflater(level).deflate_compress(block, payload).ok(),
            Algorithm::Lzma => compress_lzma(level, block, payload)?,
            Algorithm::Lz4 => compress_lz4(level, block, payload),
            Algorithm::Zstd => self.compress_zstd(level, block, payload)?,
        };
        let Some(compressed) = compressed else {
            return Ok(false);
        };
        let Some(header) = (RecordHeader {
            algorithm,
            compressed,
            uncompressed: block.len(),
        })
        .to_bytes() else {
            return Ok(false);
        };
        *room = header;
        out.truncate(start + RecordHeader::SIZE + compressed);
        Ok(true)
    }

    fn deflater(&mut self, level: u32) -> &mut libdeflater::Compressor {
        let level = level.min(9);
        let kept = self.deflate.take_if(|(kept, _)| *kept == level);
        let compressor = kept.map_or_else(|| new_deflater(level), |(_, compressor)| compressor);
        &mut self.deflate.insert((level, compressor)).1
    }

    pub(crate) fn compress_zstd(
        &mut self,
        level: u32,
        block: &[u8],
        payload: &mut [u8],
    ) -> Result<Option<usize>, CodecError> {
        let context = match &mut self.zstd {
            Some(context) => context,
            empty => empty.insert(new_zstd()?),
        };
        // ROOT maps its levels 1 to 9 to zstd's 1 to 22 by doubling them
        let level = i32::try_from(2 * level)
            .unwrap_or(i32::MAX)
            .min(zstd_safe::max_c_level());
        Ok(context.compress(payload, block, level).ok())
    }
}

/// A zstd context with default parameters.
pub(crate) fn new_zstd() -> Result<zstd_safe::CCtx<'static>, CodecError> {
    zstd_safe::CCtx::try_create().ok_or(CodecError::OutOfMemory {
        algorithm: Algorithm::Zstd,
    })
}

fn new_deflater(level: u32) -> libdeflater::Compressor {
    let level = i32::try_from(level)
        .ok()
        .and_then(|level| CompressionLvl::new(level).ok());
    libdeflater::Compressor::new(level.unwrap_or_default())
}

fn compress_lz4(level: u32, block: &[u8], payload: &mut [u8]) -> Option<usize> {
    let (checksum, room) = payload.split_first_chunk_mut()?;
    let mode = match i32::try_from(level.min(9)) {
        Ok(high) if level >= LEAST_LZ4_HIGH_LEVEL => CompressionMode::HIGHCOMPRESSION(high),
        _ => CompressionMode::DEFAULT,
    };
    let size = lz4::block::compress_to_buffer(block, Some(mode), false, room).ok()?;
    *checksum = xxhash_rust::xxh64::xxh64(room.get(..size)?, 0).to_be_bytes();
    Some(checksum.len() + size)
}

/// With ROOT's parameters: presets 1 to 9, a dictionary of at most a quarter of the block, CRC32.
fn compress_lzma(
    level: u32,
    block: &[u8],
    payload: &mut [u8],
) -> Result<Option<usize>, CodecError> {
    let failed = |_| CodecError::OutOfMemory {
        algorithm: Algorithm::Lzma,
    };
    let mut options = LzmaOptions::new_preset(level.min(9)).map_err(failed)?;
    let preset = PRESET_DICTIONARIES
        .get(level.min(9) as usize)
        .copied()
        .unwrap_or(u32::MAX);
    let quarter = u32::try_from((block.len() / 4).max(LEAST_LZMA_DICTIONARY)).unwrap_or(u32::MAX);
    options.dict_size(quarter.min(preset));
    let mut filters = Filters::new();
    filters.lzma2(&options);
    let mut stream = Stream::new_stream_encoder(&filters, Check::Crc32).map_err(failed)?;
    let status = stream
        .process(block, payload, Action::Finish)
        .map_err(failed)?;
    let size = usize::try_from(stream.total_out()).ok();
    Ok(size.filter(|_| matches!(status, Status::StreamEnd)))
}
