//! Floats that are stored in fewer bits than they have in memory.
//!
//! `Real32Quant` gives the same bits as ROOT: all arithmetic in f64 without fused multiply-add, and the
//! result is clamped to the upper limit before it is rounded to f32.

use crate::bits::{check_packed, pack};
use crate::error::check_length;
use crate::{CodecError, kernel};

/// Number of elements unpacked at a time, on the stack.
const BLOCK: usize = 1024;

const TRUNCATED: &str = "truncated floats";
const TRUNCATED_BITS: (u32, u32) = (10, 31);
const QUANTIZED: &str = "quantized floats";
const QUANTIZED_BITS: (u32, u32) = (1, 32);
const HALF: &str = "half-precision floats";

/// Converts little-endian IEEE half-precision floats. Infinities, subnormals and the payloads of NaNs are
/// kept.
///
/// # Errors
/// [`CodecError::LengthMismatch`], unless `src` has 2 bytes per element.
pub fn half_to_f32(src: &[u8], dst: &mut [f32]) -> Result<(), CodecError> {
    check_length(HALF, dst.len().checked_mul(2), src.len())?;
    kernel::half_to_f32(src, dst);
    Ok(())
}

/// Converts a float to double precision. NaNs keep their bits; a cast would change signaling ones.
#[must_use]
pub fn widened(value: f32) -> f64 {
    if !value.is_nan() {
        return f64::from(value);
    }
    let bits = u64::from(value.to_bits());
    f64::from_bits(bits >> 31 << 63 | 0x7ff << 52 | (bits & 0x7f_ffff) << 29)
}

/// Rounds to single precision. A NaN keeps the bits that fit, and always stays a NaN.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    reason = "this function narrows on purpose"
)]
pub fn narrowed(value: f64) -> f32 {
    if !value.is_nan() {
        return value as f32;
    }
    let bits = value.to_bits();
    let payload = (bits >> 29) as u32 & 0x7f_ffff;
    let payload = if payload == 0 { 0x40_0000 } else { payload };
    f32::from_bits((bits >> 63 << 31) as u32 | 0x7f80_0000 | payload)
}

/// Rounds to little-endian IEEE half-precision floats, to nearest with ties to even. Larger values become
/// infinite.
///
/// # Errors
/// As [`half_to_f32`].
pub fn f32_to_half(src: &[f32], dst: &mut [u8]) -> Result<(), CodecError> {
    check_length(HALF, src.len().checked_mul(2), dst.len())?;
    for (half, value) in dst.as_chunks_mut().0.iter_mut().zip(src) {
        *half = round_to_half(*value);
    }
    Ok(())
}

/// Unpacks floats that were stored as their upper `n_bits` bits (10 to 31). The lower bits become 0.
///
/// # Errors
/// [`CodecError::UnsupportedBits`], and [`CodecError::LengthMismatch`] as in
/// [`bits::unpack_u32`](crate::bits::unpack_u32).
pub fn unpack_truncated(src: &[u8], n_bits: u32, dst: &mut [f32]) -> Result<(), CodecError> {
    check_packed(TRUNCATED, TRUNCATED_BITS, n_bits, dst.len(), src.len())?;
    unpack_blocks(src, n_bits, dst, |elements, out| {
        for (value, bits) in out.iter_mut().zip(elements) {
            *value = f32::from_bits(bits << (32 - n_bits));
        }
    });
    Ok(())
}

/// Packs the upper `n_bits` (10 to 31) bits of each float.
///
/// # Errors
/// As [`unpack_truncated`].
pub fn pack_truncated(src: &[f32], n_bits: u32, dst: &mut [u8]) -> Result<(), CodecError> {
    check_packed(TRUNCATED, TRUNCATED_BITS, n_bits, src.len(), dst.len())?;
    // a NaN would become infinite if its payload were truncated to zero
    let kept = 0x7f_ffff & (u32::MAX << (32 - n_bits));
    let bits = |value: &f32| match value.to_bits() {
        bits if value.is_nan() && bits & kept == 0 => bits | 1 << 22,
        bits => bits,
    };
    pack(
        src.iter().map(|value| bits(value) >> (32 - n_bits)),
        n_bits,
        dst,
    );
    Ok(())
}

/// Unpacks floats that were stored as fractions of `n_bits` (1 to 32) bits in the range `min` to `max`.
///
/// # Errors
/// [`CodecError::UnsupportedBits`], [`CodecError::InvalidRange`], and
/// [`CodecError::LengthMismatch`] as in [`bits::unpack_u32`](crate::bits::unpack_u32).
pub fn unpack_quantized(
    src: &[u8],
    n_bits: u32,
    min: f64,
    max: f64,
    dst: &mut [f32],
) -> Result<(), CodecError> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the column's floats are f32"
    )]
    let round = |value: f64| value as f32;
    unpack_fractions(src, n_bits, min, max, dst, round)
}

/// As [`unpack_quantized`] for fields of type `double`, which ROOT does not round to f32.
///
/// # Errors
/// As [`unpack_quantized`].
pub fn unpack_quantized_f64(
    src: &[u8],
    n_bits: u32,
    min: f64,
    max: f64,
    dst: &mut [f64],
) -> Result<(), CodecError> {
    unpack_fractions(src, n_bits, min, max, dst, |value| value)
}

/// Packs floats of single or double precision as fractions of `n_bits` (1 to 32) bits in the range `min` to
/// `max`.
///
/// # Errors
/// As [`unpack_quantized`], and [`CodecError::OutOfRange`] for values outside the range and NaNs.
pub fn pack_quantized<T: Copy + Into<f64>>(
    src: &[T],
    n_bits: u32,
    min: f64,
    max: f64,
    dst: &mut [u8],
) -> Result<(), CodecError> {
    check_packed(QUANTIZED, QUANTIZED_BITS, n_bits, src.len(), dst.len())?;
    check_range(min, max)?;
    if let Some(index) = src
        .iter()
        .position(|&value| !(min..=max).contains(&value.into()))
    {
        return Err(CodecError::OutOfRange {
            encoding: QUANTIZED,
            index,
        });
    }
    let scale = largest(n_bits) / (max - min);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "rounds to an integer of n_bits"
    )]
    let quantize = |&value: &T| (0.5 + (value.into() - min) * scale) as u32;
    let most = u32::MAX >> (32 - n_bits);
    pack(
        src.iter().map(|value| quantize(value).min(most)),
        n_bits,
        dst,
    );
    Ok(())
}

fn unpack_fractions<T>(
    src: &[u8],
    n_bits: u32,
    min: f64,
    max: f64,
    dst: &mut [T],
    round: impl Fn(f64) -> T,
) -> Result<(), CodecError> {
    check_packed(QUANTIZED, QUANTIZED_BITS, n_bits, dst.len(), src.len())?;
    check_range(min, max)?;
    let scale = (max - min) / largest(n_bits);
    unpack_blocks(src, n_bits, dst, |elements, out| {
        kernel::unquantize(elements, scale, min, max, &round, out);
    });
    Ok(())
}

/// The largest fraction.
fn largest(n_bits: u32) -> f64 {
    f64::from(u32::MAX >> (32 - n_bits))
}

fn check_range(min: f64, max: f64) -> Result<(), CodecError> {
    if min <= max && (max - min).is_finite() {
        return Ok(());
    }
    Err(CodecError::InvalidRange { min, max })
}

/// Unpacks block by block, and passes each block with its part of `dst` to `map`.
#[inline(always)]
fn unpack_blocks<T>(src: &[u8], n_bits: u32, dst: &mut [T], map: impl Fn(&[u32], &mut [T])) {
    let mut buffer = [0; BLOCK];
    for (block, out) in dst.chunks_mut(BLOCK).enumerate() {
        let elements = buffer.get_mut(..out.len()).unwrap_or_default();
        kernel::unpack_u32(src, n_bits, block * BLOCK, elements);
        map(elements, out);
    }
}

fn round_to_half(value: f32) -> [u8; 2] {
    const INFINITY: u32 = 0x7f80_0000;
    // 65520, halfway between the largest half-precision float and the next power of two
    const OVERFLOW: u32 = 0x477f_f000;
    const LEAST_NORMAL: u32 = 113 << 23;
    let magnitude = value.to_bits() & 0x7fff_ffff;
    let half = match magnitude {
        nan if nan > INFINITY => 0x7c00 | ((nan & 0x7f_ffff) >> 13).max(1),
        OVERFLOW.. => 0x7c00,
        LEAST_NORMAL.. => {
            let rebased = magnitude - (112 << 23);
            (rebased + 0xfff + (rebased >> 13 & 1)) >> 13
        }
        // the last place of 0.5 is the smallest subnormal half-precision float
        _ => (f32::from_bits(magnitude) + 0.5).to_bits() - 0.5f32.to_bits(),
    };
    let [low, high, ..] = (half | value.to_bits() >> 16 & 0x8000).to_le_bytes();
    [low, high]
}
