//! Bit-packed columns: one continuous stream, least significant bit first.

use crate::error::check_length;
use crate::portable::low_half;
use crate::{CodecError, kernel};

/// ROOT packs into words of this size. The last word may be truncated to the bytes needed.
const WORD: usize = 8;

/// Unpacks the bits of `src` into bytes 0 or 1 of `dst`.
///
/// # Errors
/// [`CodecError::LengthMismatch`], unless `src` has one bit per element, rounded up to bytes.
pub fn unpack_bools(src: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
    check_length("bits", Some(dst.len().div_ceil(8)), src.len())?;
    kernel::unpack_bools(src, dst);
    Ok(())
}

/// Packs the bytes of `src` (any but 0 counts as 1) into the bits of `dst`; padding is 0.
///
/// # Errors
/// As [`unpack_bools`].
pub fn pack_bools(src: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
    check_length("bits", Some(src.len().div_ceil(8)), dst.len())?;
    for (byte, group) in dst.iter_mut().zip(src.chunks(8)) {
        *byte = group
            .iter()
            .rev()
            .fold(0, |bits, &bool| bits << 1 | u8::from(bool != 0));
    }
    Ok(())
}

/// Unpacks elements of `n_bits` (1 to 32) bits each.
///
/// # Errors
/// [`CodecError::UnsupportedBits`]; [`CodecError::LengthMismatch`], unless `src` has the bytes that
/// the elements need, or is padded to whole 64-bit words.
pub fn unpack_u32(src: &[u8], n_bits: u32, dst: &mut [u32]) -> Result<(), CodecError> {
    check_packed("packed integers", (1, 32), n_bits, dst.len(), src.len())?;
    kernel::unpack_u32(src, n_bits, 0, dst);
    Ok(())
}

/// Packs elements of `n_bits` (1 to 32) bits each; higher bits must be 0.
///
/// # Errors
/// As [`unpack_u32`], and [`CodecError::OutOfRange`] if higher bits are set.
pub fn pack_u32(src: &[u32], n_bits: u32, dst: &mut [u8]) -> Result<(), CodecError> {
    let encoding = "packed integers";
    check_packed(encoding, (1, 32), n_bits, src.len(), dst.len())?;
    let most = u32::MAX >> (32 - n_bits);
    if let Some(index) = src.iter().position(|&element| element > most) {
        return Err(CodecError::OutOfRange { encoding, index });
    }
    pack(src.iter().copied(), n_bits, dst);
    Ok(())
}

/// Packs elements that are known to fit into `n_bits`, and zeroes the rest of `dst`.
pub(crate) fn pack(elements: impl Iterator<Item = u32>, n_bits: u32, dst: &mut [u8]) {
    let mut bytes = dst.iter_mut();
    let (mut bits, mut n) = (0u64, 0u32);
    for element in elements {
        bits |= u64::from(element) << n;
        n += n_bits;
        while n >= 8 {
            put(&mut bytes, bits);
            bits >>= 8;
            n -= 8;
        }
    }
    if n > 0 {
        put(&mut bytes, bits);
    }
    bytes.for_each(|byte| *byte = 0);
}

fn put(bytes: &mut std::slice::IterMut<'_, u8>, bits: u64) {
    if let Some(byte) = bytes.next() {
        [*byte, ..] = low_half(bits).to_le_bytes();
    }
}

/// Checks the number of bits, and the packed length of `n` elements.
pub(crate) fn check_packed(
    encoding: &'static str,
    (least, most): (u32, u32),
    n_bits: u32,
    n: usize,
    packed: usize,
) -> Result<(), CodecError> {
    if !(least..=most).contains(&n_bits) {
        return Err(CodecError::UnsupportedBits {
            encoding,
            least,
            most,
            found: n_bits,
        });
    }
    let needed = n.checked_mul(n_bits as usize).map(|bits| bits.div_ceil(8));
    if needed.and_then(|bytes| bytes.checked_next_multiple_of(WORD)) == Some(packed) {
        return Ok(());
    }
    check_length(encoding, needed, packed)
}
