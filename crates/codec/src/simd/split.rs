//! Splits into byte planes with SSE2: separates the even bytes of two registers from the odd ones, and
//! continues with each half until all bytes of a register belong to one plane.

use std::arch::x86_64::{
    __m128i, _mm_and_si128, _mm_loadu_si128, _mm_packus_epi16, _mm_set1_epi16, _mm_setzero_si128,
    _mm_slli_epi16, _mm_slli_epi32, _mm_slli_epi64, _mm_srli_epi16, _mm_srli_epi32, _mm_srli_epi64,
    _mm_storeu_si128, _mm_sub_epi16, _mm_sub_epi32, _mm_sub_epi64, _mm_xor_si128,
};

/// Number of elements processed at a time: each plane gets one register.
const ELEMENTS: usize = 16;

/// Splits the words of `width` bytes in `src`, after applying zigzag if `ZIGZAG`, into planes of `n`
/// bytes in `dst`, from element `start` on; returns the number of processed elements.
pub(crate) fn split<const ZIGZAG: bool>(
    src: &[u8],
    width: usize,
    n: usize,
    start: usize,
    dst: &mut [u8],
) -> usize {
    let fits = n.checked_mul(width).is_some_and(|bytes| bytes <= dst.len());
    let (true, Some(left), Some(to)) = (fits, n.checked_sub(start), dst.get_mut(start..)) else {
        return 0;
    };
    let count = left.min(src.len() / width);
    let done = count - count % ELEMENTS;
    let (from, planes) = (src.as_ptr(), to.as_mut_ptr());
    for i in (0..done).step_by(ELEMENTS) {
        // SAFETY: every x86-64 processor has SSE2. `i + ELEMENTS <= count`: `count` words can be read,
        // and as `start + count <= n`, `count` bytes of each plane can be written.
        unsafe {
            let (from, planes) = (from.add(i * width).cast(), planes.add(i));
            match width {
                2 => store(planes, n, split_2(load::<2, 2, ZIGZAG>(from))),
                4 => store(planes, n, split_4(load::<4, 4, ZIGZAG>(from))),
                8 => store(planes, n, split_8(load::<8, 8, ZIGZAG>(from))),
                _ => return 0,
            }
        }
    }
    done
}

/// The even bytes and the odd bytes of both registers.
#[inline]
#[target_feature(enable = "sse2")]
fn halve(first: __m128i, second: __m128i) -> [__m128i; 2] {
    let even = _mm_set1_epi16(0xff);
    [
        _mm_packus_epi16(_mm_and_si128(first, even), _mm_and_si128(second, even)),
        _mm_packus_epi16(_mm_srli_epi16::<8>(first), _mm_srli_epi16::<8>(second)),
    ]
}

#[inline]
#[target_feature(enable = "sse2")]
fn split_2([a, b]: [__m128i; 2]) -> [__m128i; 2] {
    halve(a, b)
}

#[inline]
#[target_feature(enable = "sse2")]
fn split_4([a, b, c, d]: [__m128i; 4]) -> [__m128i; 4] {
    let ([even, odd], [more_even, more_odd]) = (halve(a, b), halve(c, d));
    let ([p0, p2], [p1, p3]) = (halve(even, more_even), halve(odd, more_odd));
    [p0, p1, p2, p3]
}

#[inline]
#[target_feature(enable = "sse2")]
fn split_8([a, b, c, d, e, f, g, h]: [__m128i; 8]) -> [__m128i; 8] {
    let ([e0, o0], [e1, o1], [e2, o2], [e3, o3]) =
        (halve(a, b), halve(c, d), halve(e, f), halve(g, h));
    let [p0, p2, p4, p6] = split_4([e0, e1, e2, e3]);
    let [p1, p3, p5, p7] = split_4([o0, o1, o2, o3]);
    [p0, p1, p2, p3, p4, p5, p6, p7]
}

/// Loads `K` registers of words of `WIDTH` bytes.
///
/// # Safety
/// They can be read at `from`.
#[inline]
#[target_feature(enable = "sse2")]
unsafe fn load<const K: usize, const WIDTH: usize, const ZIGZAG: bool>(
    from: *const __m128i,
) -> [__m128i; K] {
    let mut words = [_mm_setzero_si128(); K];
    for (index, word) in words.iter_mut().enumerate() {
        // SAFETY: the caller's promise
        *word = unsafe { _mm_loadu_si128(from.add(index)) };
        if ZIGZAG {
            *word = zigzag::<WIDTH>(*word);
        }
    }
    words
}

/// Stores `K` registers, one at each of the planes that are `n` bytes apart.
///
/// # Safety
/// A register can be written at each plane.
#[inline]
#[target_feature(enable = "sse2")]
unsafe fn store<const K: usize>(planes: *mut u8, n: usize, registers: [__m128i; K]) {
    for (index, register) in registers.into_iter().enumerate() {
        // SAFETY: the caller's promise
        unsafe { _mm_storeu_si128(planes.add(index * n).cast(), register) };
    }
}

#[inline]
#[target_feature(enable = "sse2")]
fn zigzag<const WIDTH: usize>(words: __m128i) -> __m128i {
    let zero = _mm_setzero_si128();
    let (double, sign) = match WIDTH {
        2 => (
            _mm_slli_epi16::<1>(words),
            _mm_sub_epi16(zero, _mm_srli_epi16::<15>(words)),
        ),
        4 => (
            _mm_slli_epi32::<1>(words),
            _mm_sub_epi32(zero, _mm_srli_epi32::<31>(words)),
        ),
        _ => (
            _mm_slli_epi64::<1>(words),
            _mm_sub_epi64(zero, _mm_srli_epi64::<63>(words)),
        ),
    };
    _mm_xor_si128(double, sign)
}
