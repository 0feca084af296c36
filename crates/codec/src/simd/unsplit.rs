//! Joining byte planes: load a register of each plane and interleave bytes, then pairs of bytes,
//! and so on.

/// Joins planes of `n` bytes in `src`, from element `start` on, to words of `width` bytes in
/// `dst`, undoing zigzag where `ZIGZAG`, and says how many of them it did.
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
        // SAFETY: the processor has AVX2. `start + count <= n` and `width * n <= src.len()`, so that
        // `count` bytes of each plane can be read; `dst` has room for `count` words.
        unsafe { avx2::unsplit::<ZIGZAG>(planes, width, n, count, out) }
    } else {
        0
    };
    // SAFETY: as above, less what was done; every x86-64 processor has SSE2
    unsafe {
        done + sse2::unsplit::<ZIGZAG>(
            planes.add(done),
            width,
            n,
            count - done,
            out.add(done * width),
        )
    }
}

/// The kernels for one register width. The module around has `Register`, `load`, `store`,
/// `unzigzag`, the unpacking instructions by short names, and `put`, which stores neighbouring
/// registers in the order of their words.
macro_rules! kernels {
    ($feature:literal) => {
        /// Bytes of a register, and so the elements that are done at a time.
        const BYTES: usize = size_of::<Register>();

        /// Does as many whole registers as there are in `count` elements and returns their number.
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
            // SAFETY: `done <= count`
            unsafe {
                match width {
                    2 => unsplit_2::<ZIGZAG>(planes, n, done, out),
                    4 => unsplit_4::<ZIGZAG>(planes, n, done, out),
                    8 => unsplit_8::<ZIGZAG>(planes, n, done, out),
                    _ => return 0,
                }
            }
            done
        }

        /// # Safety
        /// As [`unsplit`], and `count` is a multiple of `BYTES`.
        #[target_feature(enable = $feature)]
        unsafe fn unsplit_2<const ZIGZAG: bool>(
            planes: *const u8,
            n: usize,
            count: usize,
            out: *mut u8,
        ) {
            for i in (0..count).step_by(BYTES) {
                // SAFETY: `i + BYTES <= count`
                unsafe {
                    let (a, b) = (load(planes.add(i)), load(planes.add(n + i)));
                    put::<2, ZIGZAG>(out.add(2 * i), 1, 0, lo8(a, b), hi8(a, b));
                }
            }
        }

        /// # Safety
        /// As [`unsplit_2`].
        #[target_feature(enable = $feature)]
        unsafe fn unsplit_4<const ZIGZAG: bool>(
            planes: *const u8,
            n: usize,
            count: usize,
            out: *mut u8,
        ) {
            for i in (0..count).step_by(BYTES) {
                // SAFETY: `i + BYTES <= count`
                unsafe {
                    let (a, b) = (load(planes.add(i)), load(planes.add(n + i)));
                    let (c, d) = (load(planes.add(2 * n + i)), load(planes.add(3 * n + i)));
                    let out = out.add(4 * i);
                    let (ab, cd) = (lo8(a, b), lo8(c, d));
                    put::<4, ZIGZAG>(out, 2, 0, lo16(ab, cd), hi16(ab, cd));
                    let (ab, cd) = (hi8(a, b), hi8(c, d));
                    put::<4, ZIGZAG>(out, 2, 1, lo16(ab, cd), hi16(ab, cd));
                }
            }
        }

        /// # Safety
        /// As [`unsplit_2`].
        #[target_feature(enable = $feature)]
        unsafe fn unsplit_8<const ZIGZAG: bool>(
            planes: *const u8,
            n: usize,
            count: usize,
            out: *mut u8,
        ) {
            for i in (0..count).step_by(BYTES) {
                // SAFETY: `i + BYTES <= count`
                unsafe {
                    let (a, b) = (load(planes.add(i)), load(planes.add(n + i)));
                    let (c, d) = (load(planes.add(2 * n + i)), load(planes.add(3 * n + i)));
                    let (e, f) = (load(planes.add(4 * n + i)), load(planes.add(5 * n + i)));
                    let (g, h) = (load(planes.add(6 * n + i)), load(planes.add(7 * n + i)));
                    let out = out.add(8 * i);
                    let (ab, cd, ef, gh) = (lo8(a, b), lo8(c, d), lo8(e, f), lo8(g, h));
                    let (low, high) = (lo16(ab, cd), lo16(ef, gh));
                    put::<8, ZIGZAG>(out, 4, 0, lo32(low, high), hi32(low, high));
                    let (low, high) = (hi16(ab, cd), hi16(ef, gh));
                    put::<8, ZIGZAG>(out, 4, 1, lo32(low, high), hi32(low, high));
                    let (ab, cd, ef, gh) = (hi8(a, b), hi8(c, d), hi8(e, f), hi8(g, h));
                    let (low, high) = (lo16(ab, cd), lo16(ef, gh));
                    put::<8, ZIGZAG>(out, 4, 2, lo32(low, high), hi32(low, high));
                    let (low, high) = (hi16(ab, cd), hi16(ef, gh));
                    put::<8, ZIGZAG>(out, 4, 3, lo32(low, high), hi32(low, high));
                }
            }
        }

        /// # Safety
        /// A register can be read at `from`.
        #[inline]
        #[target_feature(enable = $feature)]
        unsafe fn load(from: *const u8) -> Register {
            // SAFETY: the caller's promise
            unsafe { load_register(from.cast()) }
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

        #[inline]
        #[target_feature(enable = $feature)]
        fn finish<const WIDTH: usize, const ZIGZAG: bool>(words: Register) -> Register {
            if ZIGZAG {
                unzigzag::<WIDTH>(words)
            } else {
                words
            }
        }
    };
}

mod sse2 {
    use std::arch::x86_64::{
        __m128i as Register, _mm_and_si128 as and, _mm_loadu_si128 as load_register,
        _mm_set1_epi16 as set16, _mm_set1_epi32 as set32, _mm_set1_epi64x as set64,
        _mm_setzero_si128 as zero, _mm_srli_epi16 as srl16, _mm_srli_epi32 as srl32,
        _mm_srli_epi64 as srl64, _mm_storeu_si128, _mm_sub_epi16 as sub16, _mm_sub_epi32 as sub32,
        _mm_sub_epi64 as sub64, _mm_unpackhi_epi8 as hi8, _mm_unpackhi_epi16 as hi16,
        _mm_unpackhi_epi32 as hi32, _mm_unpacklo_epi8 as lo8, _mm_unpacklo_epi16 as lo16,
        _mm_unpacklo_epi32 as lo32, _mm_xor_si128 as xor,
    };

    kernels!("sse2");

    /// Stores the pair of registers number `pair` of a group of `_pairs`.
    ///
    /// # Safety
    /// The whole group can be written at `out`.
    #[inline]
    #[target_feature(enable = "sse2")]
    unsafe fn put<const WIDTH: usize, const ZIGZAG: bool>(
        out: *mut u8,
        _pairs: usize,
        pair: usize,
        first: Register,
        second: Register,
    ) {
        // SAFETY: the caller's promise
        unsafe {
            let out = out.cast::<Register>().add(2 * pair);
            _mm_storeu_si128(out, finish::<WIDTH, ZIGZAG>(first));
            _mm_storeu_si128(out.add(1), finish::<WIDTH, ZIGZAG>(second));
        }
    }
}

mod avx2 {
    use std::arch::x86_64::{
        __m256i as Register, _mm256_and_si256 as and, _mm256_loadu_si256 as load_register,
        _mm256_permute2x128_si256 as permute, _mm256_set1_epi16 as set16,
        _mm256_set1_epi32 as set32, _mm256_set1_epi64x as set64, _mm256_setzero_si256 as zero,
        _mm256_srli_epi16 as srl16, _mm256_srli_epi32 as srl32, _mm256_srli_epi64 as srl64,
        _mm256_storeu_si256, _mm256_sub_epi16 as sub16, _mm256_sub_epi32 as sub32,
        _mm256_sub_epi64 as sub64, _mm256_unpackhi_epi8 as hi8, _mm256_unpackhi_epi16 as hi16,
        _mm256_unpackhi_epi32 as hi32, _mm256_unpacklo_epi8 as lo8, _mm256_unpacklo_epi16 as lo16,
        _mm256_unpacklo_epi32 as lo32, _mm256_xor_si256 as xor,
    };

    kernels!("avx2");

    /// Stores the pair of registers number `pair` of a group of `pairs`.
    ///
    /// The unpacking instructions work within lanes of 128 bits, so that the lower lanes of the
    /// whole group hold the first half of its words.
    ///
    /// # Safety
    /// The whole group can be written at `out`.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn put<const WIDTH: usize, const ZIGZAG: bool>(
        out: *mut u8,
        pairs: usize,
        pair: usize,
        first: Register,
        second: Register,
    ) {
        // SAFETY: the caller's promise
        unsafe {
            let out = out.cast::<Register>().add(pair);
            _mm256_storeu_si256(out, finish::<WIDTH, ZIGZAG>(permute::<0x20>(first, second)));
            _mm256_storeu_si256(
                out.add(pairs),
                finish::<WIDTH, ZIGZAG>(permute::<0x31>(first, second)),
            );
        }
    }
}
