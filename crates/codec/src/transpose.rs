//! Split encoding: the first bytes of all elements, then all second bytes, and so on.

use crate::error::check_length;
use crate::portable::Word;
use crate::{CodecError, kernel};

const ENCODING: &str = "split elements";

/// Joins the byte planes in `src` to native elements of `width` (2, 4 or 8) bytes in `dst`.
///
/// # Errors
/// [`CodecError::UnsupportedWidth`]; [`CodecError::LengthMismatch`], unless both sides have the
/// same length, a multiple of `width`.
pub fn unsplit(src: &[u8], width: usize, dst: &mut [u8]) -> Result<(), CodecError> {
    check(src.len(), width, dst.len(), ENCODING)?;
    match width {
        2 => kernel::unsplit::<u16, false>(src, dst),
        4 => kernel::unsplit::<u32, false>(src, dst),
        _ => kernel::unsplit::<u64, false>(src, dst),
    }
    Ok(())
}

/// Splits the native elements of `width` (2, 4 or 8) bytes in `src` into byte planes in `dst`.
///
/// # Errors
/// As [`unsplit`].
pub fn split(src: &[u8], width: usize, dst: &mut [u8]) -> Result<(), CodecError> {
    check(dst.len(), width, src.len(), ENCODING)?;
    match width {
        2 => kernel::split::<u16, false>(src, dst),
        4 => kernel::split::<u32, false>(src, dst),
        _ => kernel::split::<u64, false>(src, dst),
    }
    Ok(())
}

/// Checks the width, and that both sides have the same whole number of elements.
pub(crate) fn check(
    encoded: usize,
    width: usize,
    decoded: usize,
    encoding: &'static str,
) -> Result<(), CodecError> {
    if !matches!(width, u16::WIDTH | u32::WIDTH | u64::WIDTH) {
        return Err(CodecError::UnsupportedWidth {
            encoding,
            found: width,
        });
    }
    check_length(encoding, Some(decoded - decoded % width), encoded)?;
    check_length(encoding, Some(decoded), encoded)
}
