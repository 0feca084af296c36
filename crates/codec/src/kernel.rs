//! Chooses between the SIMD kernels and the portable ones.

use crate::portable::{self, Word};

/// Joins all planes of `src` to the words of `dst`, and undoes zigzag if `ZIGZAG`. The caller has
/// checked the lengths.
pub(crate) fn unsplit<W: Word, const ZIGZAG: bool>(src: &[u8], dst: &mut [u8]) {
    unsplit_range::<W, ZIGZAG>(src, src.len() / W::WIDTH, 0, dst);
}

/// As [`unsplit`], for as many elements as `dst` has, from element `start` of `n`.
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

/// Splits the words of `src` into the planes of `dst`, after applying zigzag if `ZIGZAG`. The
/// caller has checked the lengths.
pub(crate) fn split<W: Word, const ZIGZAG: bool>(src: &[u8], dst: &mut [u8]) {
    split_range::<W, ZIGZAG>(src, dst.len() / W::WIDTH, 0, dst);
}

/// As [`split`], writing the elements of `src` from element `start` of `n`.
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

/// Unpacks bits into bytes 0 or 1. The caller has checked the lengths.
pub(crate) fn unpack_bools(src: &[u8], dst: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    let done = crate::simd::unpack_bools(src, dst);
    #[cfg(not(target_arch = "x86_64"))]
    let done = 0;
    // the SIMD kernel processes whole bytes of bits
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

/// No SIMD kernel on this platform: the portable code does all elements.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn unsplit_delta_32(_src: &[u8], _dst: &mut [u64]) -> usize {
    0
}

/// No SIMD kernel on this platform: the portable code does all elements.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn unsplit_delta_64(_src: &[u8], _dst: &mut [u64]) -> usize {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(n: usize) -> Vec<u8> {
        let mut state = 9u64;
        let next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            state.to_be_bytes()[0]
        };
        std::iter::repeat_with(next).take(n).collect()
    }

    fn words_are_as_from_the_portable_code<W: Word>() {
        for n in (0..140).chain([255, 1000]) {
            let src = noise(n * W::WIDTH);
            for start in (0..n).step_by(37) {
                let size = (n - start) * W::WIDTH;
                let (mut ours, mut plain) = (vec![1; size], vec![2; size]);
                unsplit_range::<W, false>(&src, n, start, &mut ours);
                W::unsplit(&src, n, start, |word| word, &mut plain);
                assert_eq!(ours, plain, "{n} elements from {start} on");
                unsplit_range::<W, true>(&src, n, start, &mut ours);
                W::unsplit(&src, n, start, W::unzigzag, &mut plain);
                assert_eq!(ours, plain, "{n} elements from {start} on, zigzag");
                let words = &src[..size];
                let (mut ours, mut plain) = (vec![3; n * W::WIDTH], vec![3; n * W::WIDTH]);
                split_range::<W, false>(words, n, start, &mut ours);
                W::split(words, n, start, |word| word, &mut plain);
                assert_eq!(ours, plain, "{n} elements, split from {start} on");
                split_range::<W, true>(words, n, start, &mut ours);
                W::split(words, n, start, W::zigzag, &mut plain);
                assert_eq!(ours, plain, "{n} elements, split from {start} on, zigzag");
            }
        }
    }

    #[test]
    fn words_of_every_width_are_as_from_the_portable_code() {
        words_are_as_from_the_portable_code::<u16>();
        words_are_as_from_the_portable_code::<u32>();
        words_are_as_from_the_portable_code::<u64>();
    }

    #[test]
    fn bits_are_as_from_the_portable_code() {
        for n in (0..140usize).chain([1000]) {
            let src = noise(n.div_ceil(8));
            let (mut ours, mut plain) = (vec![8; n], vec![9; n]);
            unpack_bools(&src, &mut ours);
            portable::unpack_bools(&src, &mut plain);
            assert_eq!(ours, plain, "{n} bools");
            for n_bits in 1..=32 {
                let src = noise((n * n_bits as usize).div_ceil(8));
                for start in (0..n).step_by(29) {
                    let (mut ours, mut plain) = (vec![8; n - start], vec![9; n - start]);
                    unpack_u32(&src, n_bits, start, &mut ours);
                    portable::unpack_u32(&src, n_bits, start, &mut plain);
                    assert_eq!(ours, plain, "{n} elements of {n_bits} bits from {start} on");
                }
            }
        }
    }

    #[test]
    fn indexes_are_as_from_the_plainest_code() {
        for n in (0..140usize).chain([1000]) {
            let (src, mut ours) = (noise(8 * n), vec![0; n]);
            let mut deltas = vec![0; 8 * n];
            u64::unsplit(&src, n, 0, |word| word, &mut deltas);
            let mut plain: Vec<u64> = deltas
                .as_chunks()
                .0
                .iter()
                .map(|word| u64::from_ne_bytes(*word))
                .collect();
            (1..n).for_each(|i| plain[i] = plain[i].wrapping_add(plain[i - 1]));
            crate::delta::unsplit_delta_64(&src, &mut ours).unwrap();
            assert_eq!(ours, plain, "{n} indexes of 64 bits");
            let src = &src[..4 * n];
            u32::unsplit(src, n, 0, |word| word, &mut deltas[..4 * n]);
            let mut plain: Vec<u32> = deltas
                .as_chunks()
                .0
                .iter()
                .take(n)
                .map(|word| u32::from_ne_bytes(*word))
                .collect();
            (1..n).for_each(|i| plain[i] = plain[i].wrapping_add(plain[i - 1]));
            crate::delta::unsplit_delta_32(src, &mut ours).unwrap();
            assert!(
                ours.into_iter().eq(plain.into_iter().map(u64::from)),
                "{n} indexes of 32 bits"
            );
        }
    }

    #[test]
    fn reals_are_as_from_the_portable_code() {
        let src = noise(4 * 1001);
        let (mut ours, mut plain) = ([0.0; 2002], [1.0; 2002]);
        half_to_f32(&src, &mut ours);
        portable::half_to_f32(&src, &mut plain);
        assert_eq!(ours.map(f32::to_bits), plain.map(f32::to_bits));
        let fractions: Vec<u32> = src
            .as_chunks()
            .0
            .iter()
            .map(|word| u32::from_ne_bytes(*word))
            .collect();
        let (mut ours, mut plain) = (vec![0.0; 1001], vec![1.0; 1001]);
        let scale = (0.7 + 0.1) / f64::from(u32::MAX);
        unquantize(&fractions, scale, -0.1, 0.7, |value| value, &mut ours);
        portable::unquantize(&fractions, scale, -0.1, 0.7, |value| value, &mut plain);
        assert_eq!(ours, plain);
    }
}
