//! Split encoding of signed integers: zigzag (0, −1, 1, −2, …) first, then split.

use crate::transpose::check;
use crate::{CodecError, kernel};

const ENCODING: &str = "split zigzag elements";

/// Joins the byte planes in `src` and undoes the zigzag encoding, giving native signed elements of
/// `width` (2, 4 or 8) bytes in `dst`.
///
/// # Errors
/// As [`transpose::unsplit`](crate::transpose::unsplit).
pub fn unsplit_zigzag(src: &[u8], width: usize, dst: &mut [u8]) -> Result<(), CodecError> {
    check(src.len(), width, dst.len(), ENCODING)?;
    match width {
        2 => kernel::unsplit::<u16, true>(src, dst),
        4 => kernel::unsplit::<u32, true>(src, dst),
        _ => kernel::unsplit::<u64, true>(src, dst),
    }
    Ok(())
}

/// Zigzag encodes the native signed elements of `width` (2, 4 or 8) bytes in `src` and splits them
/// into byte planes in `dst`.
///
/// # Errors
/// As [`transpose::unsplit`](crate::transpose::unsplit).
pub fn split_zigzag(src: &[u8], width: usize, dst: &mut [u8]) -> Result<(), CodecError> {
    check(dst.len(), width, src.len(), ENCODING)?;
    match width {
        2 => kernel::split::<u16, true>(src, dst),
        4 => kernel::split::<u32, true>(src, dst),
        _ => kernel::split::<u64, true>(src, dst),
    }
    Ok(())
}
