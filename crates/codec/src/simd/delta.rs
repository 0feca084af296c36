//! Joins indexes and computes their cumulative sums with AVX2.
//!
//! Within a register, cumulative sums are computed by adding the register to itself, shifted by one
//! element and then by two. Only the sum of all preceding elements is carried from register to
//! register, so the chain of dependent additions has one link per register.

use std::arch::x86_64::{
    __m256i, _mm256_add_epi32, _mm256_add_epi64, _mm256_castsi256_si128, _mm256_cvtepu32_epi64,
    _mm256_extracti128_si256, _mm256_permute2x128_si256, _mm256_permute4x64_epi64,
    _mm256_set1_epi32, _mm256_set1_epi64x, _mm256_shuffle_epi32, _mm256_slli_si256,
    _mm256_storeu_si256,
};

use super::unsplit::avx2::{BYTES, join_4, join_8};

/// Joins 4 planes in `src` and sums up, modulo 2³², as many elements as fill registers; returns
/// their number.
pub(crate) fn unsplit_delta_32(src: &[u8], dst: &mut [u64]) -> usize {
    let n = dst.len();
    if n.checked_mul(4) != Some(src.len()) || !is_x86_feature_detected!("avx2") {
        return 0;
    }
    // SAFETY: the processor has AVX2; `src` has 4 planes of `n` bytes
    unsafe { sum_32(src.as_ptr(), n, dst) }
}

/// Joins 8 planes in `src` and sums up as many elements as fill registers; returns their number.
pub(crate) fn unsplit_delta_64(src: &[u8], dst: &mut [u64]) -> usize {
    let n = dst.len();
    if n.checked_mul(8) != Some(src.len()) || !is_x86_feature_detected!("avx2") {
        return 0;
    }
    // SAFETY: the processor has AVX2; `src` has 8 planes of `n` bytes
    unsafe { sum_64(src.as_ptr(), n, dst) }
}

/// # Safety
/// `n` bytes can be read at each of 4 planes that are `n` bytes apart; `dst` has no more elements.
#[target_feature(enable = "avx2")]
unsafe fn sum_32(mut planes: *const u8, n: usize, dst: &mut [u64]) -> usize {
    let (groups, _) = dst.as_chunks_mut::<BYTES>();
    let mut before = _mm256_set1_epi32(0);
    for group in groups.iter_mut() {
        let mut out = group.as_mut_ptr().cast::<__m256i>();
        // SAFETY: each group takes BYTES elements from each plane, and has room for them
        unsafe {
            for deltas in join_4(planes, n) {
                let local = prefix_32(deltas);
                let sums = _mm256_add_epi32(local, before);
                before = _mm256_add_epi32(before, last_32(local));
                let low = _mm256_cvtepu32_epi64(_mm256_castsi256_si128(sums));
                let high = _mm256_cvtepu32_epi64(_mm256_extracti128_si256::<1>(sums));
                _mm256_storeu_si256(out, low);
                _mm256_storeu_si256(out.add(1), high);
                out = out.add(2);
            }
            planes = planes.add(BYTES);
        }
    }
    groups.len() * BYTES
}

/// # Safety
/// `n` bytes can be read at each of 8 planes that are `n` bytes apart; `dst` has no more elements.
#[target_feature(enable = "avx2")]
unsafe fn sum_64(mut planes: *const u8, n: usize, dst: &mut [u64]) -> usize {
    let (groups, _) = dst.as_chunks_mut::<BYTES>();
    let mut before = _mm256_set1_epi64x(0);
    for group in groups.iter_mut() {
        let out = group.as_mut_ptr().cast::<__m256i>();
        // SAFETY: each group takes BYTES elements from each plane, and has room for them
        unsafe {
            for (index, deltas) in join_8(planes, n).into_iter().enumerate() {
                let local = prefix_64(deltas);
                _mm256_storeu_si256(out.add(index), _mm256_add_epi64(local, before));
                before = _mm256_add_epi64(before, _mm256_permute4x64_epi64::<0xff>(local));
            }
            planes = planes.add(BYTES);
        }
    }
    groups.len() * BYTES
}

/// The cumulative sums of the elements.
#[inline]
#[target_feature(enable = "avx2")]
fn prefix_32(deltas: __m256i) -> __m256i {
    let pairs = _mm256_add_epi32(deltas, _mm256_slli_si256::<4>(deltas));
    let lanes = _mm256_add_epi32(pairs, _mm256_slli_si256::<8>(pairs));
    let last = _mm256_shuffle_epi32::<0xff>(lanes);
    _mm256_add_epi32(lanes, lower_to_upper(last))
}

/// The last element in all positions.
#[inline]
#[target_feature(enable = "avx2")]
fn last_32(sums: __m256i) -> __m256i {
    let last = _mm256_shuffle_epi32::<0xff>(sums);
    _mm256_permute2x128_si256::<0x11>(last, last)
}

/// The cumulative sums of the elements.
#[inline]
#[target_feature(enable = "avx2")]
fn prefix_64(deltas: __m256i) -> __m256i {
    let lanes = _mm256_add_epi64(deltas, _mm256_slli_si256::<8>(deltas));
    let last = _mm256_shuffle_epi32::<0b11_10_11_10>(lanes);
    _mm256_add_epi64(lanes, lower_to_upper(last))
}

/// The lower lane moved to the upper one; the lower one becomes zero.
#[inline]
#[target_feature(enable = "avx2")]
fn lower_to_upper(words: __m256i) -> __m256i {
    _mm256_permute2x128_si256::<0x08>(words, words)
}
