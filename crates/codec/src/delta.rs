//! Split encoding of indexes: the difference to the preceding element, then split. The first
//! element is absolute.
//!
//! All arithmetic wraps around, at 32 bits for `SplitIndex32` as in ROOT. Invalid bytes give
//! numbers that are not ascending; the caller must check that.

use crate::error::check_length;
use crate::portable::low_half;
use crate::{CodecError, kernel};

/// Number of elements joined at a time, on the stack.
const BLOCK: usize = 256;

/// Joins the byte planes of 32-bit elements in `src` and computes their cumulative sums, as 64-bit
/// numbers.
///
/// # Errors
/// [`CodecError::LengthMismatch`], unless `src` has 4 bytes per element of `dst`.
pub fn unsplit_delta_32(src: &[u8], dst: &mut [u64]) -> Result<(), CodecError> {
    check_length("split 32-bit indexes", dst.len().checked_mul(4), src.len())?;
    let n = dst.len();
    let n_done = kernel::unsplit_delta_32(src, dst);
    let (done, rest) = dst.split_at_mut(n_done);
    let mut buffer = [0; 4 * BLOCK];
    let mut sum = done.last().map_or(0, |&last| low_half(last));
    for (block, out) in rest.chunks_mut(BLOCK).enumerate() {
        let bytes = buffer.get_mut(..4 * out.len()).unwrap_or_default();
        kernel::unsplit_range::<u32, false>(src, n, n_done + block * BLOCK, bytes);
        for (value, delta) in out.iter_mut().zip(bytes.as_chunks().0) {
            sum = sum.wrapping_add(u32::from_ne_bytes(*delta));
            *value = u64::from(sum);
        }
    }
    Ok(())
}

/// Joins the byte planes of 64-bit elements in `src` and computes their cumulative sums.
///
/// # Errors
/// [`CodecError::LengthMismatch`], unless `src` has 8 bytes per element of `dst`.
pub fn unsplit_delta_64(src: &[u8], dst: &mut [u64]) -> Result<(), CodecError> {
    check_length("split 64-bit indexes", dst.len().checked_mul(8), src.len())?;
    let n = dst.len();
    let n_done = kernel::unsplit_delta_64(src, dst);
    let (done, rest) = dst.split_at_mut(n_done);
    let mut buffer = [0; 8 * BLOCK];
    let mut sum = done.last().copied().unwrap_or_default();
    for (block, out) in rest.chunks_mut(BLOCK).enumerate() {
        let bytes = buffer.get_mut(..8 * out.len()).unwrap_or_default();
        kernel::unsplit_range::<u64, false>(src, n, n_done + block * BLOCK, bytes);
        for (value, delta) in out.iter_mut().zip(bytes.as_chunks().0) {
            sum = sum.wrapping_add(u64::from_ne_bytes(*delta));
            *value = sum;
        }
    }
    Ok(())
}

/// Splits the differences between the elements of `src` into byte planes of 32-bit elements.
///
/// # Errors
/// [`CodecError::LengthMismatch`], and [`CodecError::OutOfRange`] for an element of more than 32
/// bits.
pub fn split_delta_32(src: &[u64], dst: &mut [u8]) -> Result<(), CodecError> {
    let encoding = "split 32-bit indexes";
    check_length(encoding, src.len().checked_mul(4), dst.len())?;
    if let Some(index) = src.iter().position(|&value| value > u64::from(u32::MAX)) {
        return Err(CodecError::OutOfRange { encoding, index });
    }
    let mut buffer = [0; 4 * BLOCK];
    let mut last = 0u32;
    for (block, values) in src.chunks(BLOCK).enumerate() {
        for (delta, &value) in buffer.as_chunks_mut().0.iter_mut().zip(values) {
            let value = low_half(value);
            *delta = value.wrapping_sub(last).to_ne_bytes();
            last = value;
        }
        let bytes = buffer.get(..4 * values.len()).unwrap_or_default();
        kernel::split_range::<u32, false>(bytes, src.len(), block * BLOCK, dst);
    }
    Ok(())
}

/// Splits the differences between the elements of `src` into byte planes of 64-bit elements.
///
/// # Errors
/// [`CodecError::LengthMismatch`].
pub fn split_delta_64(src: &[u64], dst: &mut [u8]) -> Result<(), CodecError> {
    check_length("split 64-bit indexes", src.len().checked_mul(8), dst.len())?;
    let mut buffer = [0; 8 * BLOCK];
    let mut last = 0u64;
    for (block, values) in src.chunks(BLOCK).enumerate() {
        for (delta, &value) in buffer.as_chunks_mut().0.iter_mut().zip(values) {
            *delta = value.wrapping_sub(last).to_ne_bytes();
            last = value;
        }
        let bytes = buffer.get(..8 * values.len()).unwrap_or_default();
        kernel::split_range::<u64, false>(bytes, src.len(), block * BLOCK, dst);
    }
    Ok(())
}
