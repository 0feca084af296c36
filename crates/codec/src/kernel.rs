//! Chooses between the SIMD kernels and the portable ones.

use crate::portable::{self, Word};

/// Joins all planes of `src` to the words of `dst`, undoing zigzag where `ZIGZAG`. The lengths
/// were compared by the caller.
pub(crate) fn unsplit<W: Word, const ZIGZAG: bool>(src: &[u8], dst: &mut [u8]) {
    unsplit_range::<W, ZIGZAG>(src, src.len() / W::WIDTH, 0, dst);
}

/// As [`unsplit`] for as many elements as `dst` holds, from element `start` of `n` on.
pub(crate) fn unsplit_range<W: Word, const ZIGZAG: bool>(
    src: &[u8],
    n: usize,
    start: usize,
    dst: &mut [u8],
) {
    #[cfg(target_arch = "x86_64")]
    let done = crate::simd::unsplit::<ZIGZAG>(src, W::WIDTH, n, start, dst);
    #[cfg(not(target_arch = "x86_64"))]
    let done = 0;
    let rest = dst.get_mut(done * W::WIDTH..).unwrap_or_default();
    if ZIGZAG {
        W::unsplit(src, n, start + done, W::unzigzag, rest);
    } else {
        W::unsplit(src, n, start + done, |word| word, rest);
    }
}

/// Splits the words of `src` over the planes of `dst`, with zigzag before where `ZIGZAG`. The
/// lengths were compared by the caller.
pub(crate) fn split<W: Word, const ZIGZAG: bool>(src: &[u8], dst: &mut [u8]) {
    split_range::<W, ZIGZAG>(src, dst.len() / W::WIDTH, 0, dst);
}

/// As [`split`] for the elements in `src`, to element `start` of `n` and the following.
pub(crate) fn split_range<W: Word, const ZIGZAG: bool>(
    src: &[u8],
    n: usize,
    start: usize,
    dst: &mut [u8],
) {
    #[cfg(target_arch = "x86_64")]
    let done = crate::simd::split::<ZIGZAG>(src, W::WIDTH, n, start, dst);
    #[cfg(not(target_arch = "x86_64"))]
    let done = 0;
    let rest = src.get(done * W::WIDTH..).unwrap_or_default();
    if ZIGZAG {
        W::split(rest, n, start + done, W::zigzag, dst);
    } else {
        W::split(rest, n, start + done, |word| word, dst);
    }
}

/// Spreads bits over bytes of 0 or 1. The lengths were compared by the caller.
pub(crate) fn unpack_bools(src: &[u8], dst: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    let done = crate::simd::unpack_bools(src, dst);
    #[cfg(not(target_arch = "x86_64"))]
    let done = 0;
    // the SIMD kernel does whole bytes of bits
    let (src, dst) = (
        src.get(done / 8..).unwrap_or_default(),
        dst.get_mut(done..).unwrap_or_default(),
    );
    portable::unpack_bools(src, dst);
}

/// Unpacks elements of `n_bits` (1 to 32) from element `start` on.
pub(crate) fn unpack_u32(src: &[u8], n_bits: u32, start: usize, dst: &mut [u32]) {
    #[cfg(target_arch = "x86_64")]
    let done = crate::simd::unpack_u32(src, n_bits, start, dst);
    #[cfg(not(target_arch = "x86_64"))]
    let done = 0;
    portable::unpack_u32(
        src,
        n_bits,
        start + done,
        dst.get_mut(done..).unwrap_or_default(),
    );
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) use crate::portable::{half_to_f32, unquantize};
#[cfg(target_arch = "x86_64")]
pub(crate) use crate::simd::{half_to_f32, unquantize, unsplit_delta_32, unsplit_delta_64};

/// Joins and sums up no elements: the portable code is the caller's.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn unsplit_delta_32(_src: &[u8], _dst: &mut [u64]) -> usize {
    0
}

/// Joins and sums up no elements: the portable code is the caller's.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn unsplit_delta_64(_src: &[u8], _dst: &mut [u64]) -> usize {
    0
}
