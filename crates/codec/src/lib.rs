//! ROOT compression records, checksums and RNTuple element encodings: bytes in, bytes out.
//!
//! This crate knows the 9-byte record headers of ROOT's `core/zip`, their five algorithms, and the
//! element encodings of the section "Column Description" of the RNTuple binary format specification
//! (split, zigzag, delta, bit-packed, truncated, quantized). It does not know pages, columns or
//! files, and does no I/O.
//!
//! Plain (unsplit) column types are little-endian copies and need no code here.
//!
//! **Invariant**: for any input, every function returns `Ok` or `Err`. None panics, reads outside
//! its slices, or allocates memory by a number from the input.

mod compress;
mod decompress;
mod error;
mod kernel;
mod planes;
mod portable;
mod record;
#[cfg(target_arch = "x86_64")]
mod simd;

pub mod bits;
pub mod delta;
pub mod real;
pub mod transpose;
pub mod zigzag;

pub use compress::Compressor;
pub use decompress::Decompressor;
pub use error::CodecError;
pub use record::{Algorithm, RecordHeader, parse_settings, settings_name};

/// The XXH3 hash (64 bit, seed 0) that RNTuple uses for envelopes, anchors and pages.
#[must_use]
pub fn xxh3(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}

/// The XXH3 hash with 128 bits.
#[must_use]
pub fn xxh3_128(bytes: &[u8]) -> u128 {
    xxhash_rust::xxh3::xxh3_128(bytes)
}
