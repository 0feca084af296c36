//! Joins byte planes: loads a register of each plane and interleaves bytes, then pairs of bytes,
//! and so on.

/// Joins planes of `n` bytes in `src`, from element `start` on, to words of `width` bytes in `dst`,
/// and undoes zigzag if `ZIGZAG`; returns the number of processed elements.
pub(crate) fn unsplit<const ZIGZAG: bool>(
    src: &[u8],
    width: usize,
    n: usize,
    start: usize,
    dst: &mut [u8],
) -> usize {
    let fits = n.checked_mul(width).is_some_and(|bytes| bytes <= src.len());
    let (true, Some(left), Some(from)) = (fits, n.checked_sub(start), src.get(start..)) else {
        return 0;
    };
    let count = left.min(dst.len() / width);
    let (planes, out) = (from.as_ptr(), dst.as_mut_ptr());
    let done = if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2. `start + count <= n` and `width * n <= src.len()`, so
        // that `count` bytes of each plane can be read; `dst` has room for `count` words.
        unsafe { avx2::unsplit::<ZIGZAG>(planes, width, n, count, out) }
    } else {
        0
    };
    // SAFETY: as above, less what was done; every x86-64 processor has SSE2
    unsafe {
        let (planes, out) = (planes.add(done), out.add(done * width));
        done + sse2::unsplit::<ZIGZAG>(planes, width, n, count - done, out)
    }
}

/// The kernels for one register width. The surrounding module imports the intrinsics by short
/// names, and has `order`, which puts interleaved registers into the order of their words.
macro_rules! kernels {
    ($feature:literal) => {
        /// Bytes of a register, which is the number of elements processed at a time.
        pub(in crate::simd) const BYTES: usize = size_of::<Register>();

        /// Processes as many whole registers as `count` elements fill; returns the number of
        /// elements.
        ///
        /// # Safety
        /// The processor has the feature; `count` bytes can be read at each of `width` planes that
        /// are `n` bytes apart, and `width * count` bytes can be written at `out`.
        #[target_feature(enable = $feature)]
        pub(super) unsafe fn unsplit<const ZIGZAG: bool>(
            planes: *const u8,
            width: usize,
            n: usize,
            count: usize,
            out: *mut u8,
        ) -> usize {
            let done = count - count % BYTES;
            for i in (0..done).step_by(BYTES) {
                // SAFETY: `i + BYTES <= count`
                unsafe {
                    let (planes, out) = (planes.add(i), out.add(i * width));
                    match width {
                        2 => put::<2, 2, ZIGZAG>(out, join_2(planes, n)),
                        4 => put::<4, 4, ZIGZAG>(out, join_4(planes, n)),
                        8 => put::<8, 8, ZIGZAG>(out, join_8(planes, n)),
                        _ => return 0,
                    }
                }
            }
            done
        }

        /// Joins a register of each of 2 planes that are `n` bytes apart.
        ///
        /// # Safety
        /// They can be read.
        #[inline]
        #[target_feature(enable = $feature)]
        pub(in crate::simd) unsafe fn join_2(planes: *const u8, n: usize) -> [Register; 2] {
            // SAFETY: the caller's promise
            let [a, b] = unsafe { load(planes, n) };
            order([lo8(a, b), hi8(a, b)])
        }

        /// Joins a register of each of 4 planes that are `n` bytes apart.
        ///
        /// # Safety
        /// They can be read.
        #[inline]
        #[target_feature(enable = $feature)]
        pub(in crate::simd) unsafe fn join_4(planes: *const u8, n: usize) -> [Register; 4] {
            // SAFETY: the caller's promise
            let [a, b, c, d] = unsafe { load(planes, n) };
            let [p, q] = [lo8(a, b), lo8(c, d)];
            let [r, s] = [hi8(a, b), hi8(c, d)];
            order([lo16(p, q), hi16(p, q), lo16(r, s), hi16(r, s)])
        }

        /// Joins a register of each of 8 planes that are `n` bytes apart.
        ///
        /// # Safety
        /// They can be read.
        #[inline]
        #[target_feature(enable = $feature)]
        pub(in crate::simd) unsafe fn join_8(planes: *const u8, n: usize) -> [Register; 8] {
            // SAFETY: the caller's promise
            let [a, b, c, d, e, f, g, h] = unsafe { load(planes, n) };
            let [p, q] = [lo8(a, b), lo8(c, d)];
            let [r, s] = [lo8(e, f), lo8(g, h)];
            let [w0, x0] = [lo16(p, q), lo16(r, s)];
            let [w1, x1] = [hi16(p, q), hi16(r, s)];
            let [p, q] = [hi8(a, b), hi8(c, d)];
            let [r, s] = [hi8(e, f), hi8(g, h)];
            let [w2, x2] = [lo16(p, q), lo16(r, s)];
            let [w3, x3] = [hi16(p, q), hi16(r, s)];
            order([
                lo32(w0, x0),
                hi32(w0, x0),
                lo32(w1, x1),
                hi32(w1, x1),
                lo32(w2, x2),
                hi32(w2, x2),
                lo32(w3, x3),
                hi32(w3, x3),
            ])
        }

        /// Loads a register from each of `K` planes that are `n` bytes apart.
        ///
        /// # Safety
        /// They can be read.
        #[inline]
        #[target_feature(enable = $feature)]
        unsafe fn load<const K: usize>(planes: *const u8, n: usize) -> [Register; K] {
            let mut registers = [zero(); K];
            for (index, register) in registers.iter_mut().enumerate() {
                // SAFETY: the caller's promise
                *register = unsafe { load_register(planes.add(index * n).cast()) };
            }
            registers
        }

        /// Stores words of `WIDTH` bytes.
        ///
        /// # Safety
        /// They can be written at `out`.
        #[inline]
        #[target_feature(enable = $feature)]
        unsafe fn put<const K: usize, const WIDTH: usize, const ZIGZAG: bool>(
            out: *mut u8,
            words: [Register; K],
        ) {
            for (index, mut words) in words.into_iter().enumerate() {
                if ZIGZAG {
                    words = unzigzag::<WIDTH>(words);
                }
                // SAFETY: the caller's promise
                unsafe { store_register(out.cast::<Register>().add(index), words) };
            }
        }

        /// Undoes zigzag of words of `WIDTH` bytes.
        #[inline]
        #[target_feature(enable = $feature)]
        fn unzigzag<const WIDTH: usize>(words: Register) -> Register {
            let (half, sign) = match WIDTH {
                2 => (srl16::<1>(words), sub16(zero(), and(words, set16(1)))),
                4 => (srl32::<1>(words), sub32(zero(), and(words, set32(1)))),
                _ => (srl64::<1>(words), sub64(zero(), and(words, set64(1)))),
            };
            xor(half, sign)
        }
    };
}

pub(super) mod sse2 {
    use std::arch::x86_64::{
        __m128i as Register, _mm_and_si128 as and, _mm_loadu_si128 as load_register,
        _mm_set1_epi16 as set16, _mm_set1_epi32 as set32, _mm_set1_epi64x as set64,
        _mm_setzero_si128 as zero, _mm_srli_epi16 as srl16, _mm_srli_epi32 as srl32,
        _mm_srli_epi64 as srl64, _mm_storeu_si128 as store_register, _mm_sub_epi16 as sub16,
        _mm_sub_epi32 as sub32, _mm_sub_epi64 as sub64, _mm_unpackhi_epi8 as hi8,
        _mm_unpackhi_epi16 as hi16, _mm_unpackhi_epi32 as hi32, _mm_unpacklo_epi8 as lo8,
        _mm_unpacklo_epi16 as lo16, _mm_unpacklo_epi32 as lo32, _mm_xor_si128 as xor,
    };

    kernels!("sse2");

    /// The registers are in order already.
    #[inline]
    fn order<const K: usize>(words: [Register; K]) -> [Register; K] {
        words
    }
}

pub(super) mod avx2 {
    use std::arch::x86_64::{
        __m256i as Register, _mm256_and_si256 as and, _mm256_loadu_si256 as load_register,
        _mm256_permute2x128_si256 as permute, _mm256_set1_epi16 as set16,
        _mm256_set1_epi32 as set32, _mm256_set1_epi64x as set64, _mm256_setzero_si256 as zero,
        _mm256_srli_epi16 as srl16, _mm256_srli_epi32 as srl32, _mm256_srli_epi64 as srl64,
        _mm256_storeu_si256 as store_register, _mm256_sub_epi16 as sub16,
        _mm256_sub_epi32 as sub32, _mm256_sub_epi64 as sub64, _mm256_unpackhi_epi8 as hi8,
        _mm256_unpackhi_epi16 as hi16, _mm256_unpackhi_epi32 as hi32, _mm256_unpacklo_epi8 as lo8,
        _mm256_unpacklo_epi16 as lo16, _mm256_unpacklo_epi32 as lo32, _mm256_xor_si256 as xor,
    };

    kernels!("avx2");

    /// The unpacking instructions work within 128-bit lanes: the lower lanes of all registers have
    /// the first half of the words, the upper lanes the second half.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn order<const K: usize>(words: [Register; K]) -> [Register; K] {
        let mut ordered = [zero(); K];
        let (lower, upper) = ordered.split_at_mut(K / 2);
        let (pairs, _) = words.as_chunks::<2>();
        for ((lower, upper), [first, second]) in lower.iter_mut().zip(upper).zip(pairs) {
            *lower = permute::<0x20>(*first, *second);
            *upper = permute::<0x31>(*first, *second);
        }
        ordered
    }
}

#[cfg(test)]
mod tests {
    use crate::portable::Word;

    fn sse2_equals_the_portable_code<W: Word>() {
        for n in 0..100usize {
            let src: Vec<u8> = (0..n * W::WIDTH)
                .map(|i| (i * i).to_le_bytes()[0])
                .collect();
            let (mut ours, mut plain) = (vec![1; src.len()], vec![2; src.len()]);
            let (planes, out) = (src.as_ptr(), ours.as_mut_ptr());
            // SAFETY: `src` has WIDTH planes of n bytes, and `ours` as many bytes
            let done = unsafe { super::sse2::unsplit::<true>(planes, W::WIDTH, n, n, out) };
            assert_eq!(done, n / 16 * 16);
            W::unsplit(&src, n, 0, W::unzigzag, &mut plain);
            assert_eq!(ours[..done * W::WIDTH], plain[..done * W::WIDTH]);
        }
    }

    #[test]
    fn kernels_of_every_processor_equal_the_portable_code() {
        sse2_equals_the_portable_code::<u16>();
        sse2_equals_the_portable_code::<u32>();
        sse2_equals_the_portable_code::<u64>();
    }

    #[test]
    fn planes_that_are_too_short_are_left_alone() {
        let mut dst = [7; 64];
        assert_eq!(super::unsplit::<false>(&[0; 63], 2, 32, 0, &mut dst), 0);
        assert_eq!(super::unsplit::<false>(&[0; 64], 2, 32, 33, &mut dst), 0);
        assert_eq!(
            super::unsplit::<false>(&[0; 64], 2, usize::MAX, 0, &mut dst),
            0
        );
        assert_eq!(dst, [7; 64]);
    }
}
