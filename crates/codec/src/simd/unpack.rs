//! Unpacking bits with AVX2. Without it the portable kernels are as fast as SSE2 would be, which
//! has no shuffle of bytes and no shift by a different amount in each word.

use std::arch::x86_64::{
    __m128i, __m256i, _mm_loadu_si128, _mm256_and_si256, _mm256_cmpeq_epi8, _mm256_loadu_si256,
    _mm256_set_m128i, _mm256_set1_epi8, _mm256_set1_epi32, _mm256_set1_epi64x, _mm256_setr_epi64x,
    _mm256_shuffle_epi8, _mm256_srlv_epi32, _mm256_storeu_si256,
};

/// Bytes of a 128-bit lane.
const LANE: usize = 16;

/// Spreads bits over bytes and says how many bits it did, a multiple of 32.
pub(crate) fn unpack_bools(src: &[u8], dst: &mut [u8]) -> usize {
    if !is_x86_feature_detected!("avx2") {
        return 0;
    }
    // SAFETY: the processor has AVX2
    unsafe { unpack_bools_avx2(src, dst) }
}

#[target_feature(enable = "avx2")]
fn unpack_bools_avx2(src: &[u8], dst: &mut [u8]) -> usize {
    // byte i of the register looks at bit i % 8 of source byte i / 8
    let spread = _mm256_setr_epi64x(
        0,
        0x0101_0101_0101_0101,
        0x0202_0202_0202_0202,
        0x0303_0303_0303_0303,
    );
    let bit = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64.cast_signed());
    let one = _mm256_set1_epi8(1);
    let (groups, _) = dst.as_chunks_mut::<32>();
    let mut done = 0;
    for (group, bits) in groups.iter_mut().zip(src.as_chunks::<4>().0) {
        let bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(i32::from_le_bytes(*bits)), spread);
        let bools = _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit), one);
        // SAFETY: the group has 32 bytes
        unsafe { _mm256_storeu_si256(group.as_mut_ptr().cast(), bools) };
        done += 32;
    }
    done
}

/// Unpacks elements of `n_bits` from element `start` on and says how many it did, a multiple of 8.
pub(crate) fn unpack_u32(src: &[u8], n_bits: u32, start: usize, dst: &mut [u32]) -> usize {
    if !start.is_multiple_of(8) || !is_x86_feature_detected!("avx2") {
        return 0;
    }
    let (Some(plan), Some(from)) = (Plan::new(n_bits), src.get(start / 8 * n_bits as usize..))
    else {
        return 0;
    };
    // SAFETY: the processor has AVX2
    unsafe { unpack_u32_avx2(from, &plan, dst) }
}

/// How to get eight elements out of the `n_bits` bytes that hold them: each lane loads 16 bytes,
/// moves the four that hold an element to the element's place, and shifts them.
struct Plan {
    n_bits: u32,
    shuffle: [u8; 32],
    shifts: [u32; 8],
}

impl Plan {
    /// The plan, if no element reaches into a fifth byte.
    fn new(n_bits: u32) -> Option<Self> {
        if !(1..=32).contains(&n_bits) {
            return None;
        }
        let (mut shuffle, mut shifts) = ([0; 32], [0; 8]);
        let places = shuffle.as_chunks_mut::<4>().0.iter_mut().zip(&mut shifts);
        for (element, (bytes, shift)) in (0..8).zip(places) {
            // the second lane starts at the byte that holds the start of element 4
            let lane_start = if element < 4 { 0 } else { n_bits / 2 * 8 };
            let bit = element * n_bits - lane_start;
            *shift = bit % 8;
            if *shift + n_bits > 32 {
                return None;
            }
            let first = u8::try_from(bit / 8).ok()?;
            *bytes = [first, first + 1, first + 2, first + 3];
        }
        Some(Self {
            n_bits,
            shuffle,
            shifts,
        })
    }
}

#[target_feature(enable = "avx2")]
fn unpack_u32_avx2(src: &[u8], plan: &Plan, dst: &mut [u32]) -> usize {
    let group_bytes = plan.n_bits as usize;
    let half = group_bytes / 2;
    let mask = _mm256_set1_epi32((u32::MAX >> (32 - plan.n_bits)).cast_signed());
    // SAFETY: both arrays have 32 bytes
    let (shuffle, shifts) = unsafe {
        let shifts: *const __m256i = plan.shifts.as_ptr().cast();
        (
            _mm256_loadu_si256(plan.shuffle.as_ptr().cast()),
            _mm256_loadu_si256(shifts),
        )
    };
    let (groups, _) = dst.as_chunks_mut::<8>();
    // the second lane of the last group reads up to `half + LANE` bytes from the group's start
    let readable = src
        .len()
        .checked_sub(half + LANE)
        .map_or(0, |room| room / group_bytes + 1);
    let mut from = src.as_ptr();
    let mut done = 0;
    for group in groups.iter_mut().take(readable) {
        // SAFETY: `from` is at a multiple of `group_bytes` that leaves `half + LANE` bytes in `src`;
        // the group has 32 bytes. The pointer moves at most to the end of the group that was read.
        unsafe {
            let low: __m128i = _mm_loadu_si128(from.cast());
            let high: __m128i = _mm_loadu_si128(from.add(half).cast());
            let windows = _mm256_shuffle_epi8(_mm256_set_m128i(high, low), shuffle);
            let elements = _mm256_and_si256(_mm256_srlv_epi32(windows, shifts), mask);
            _mm256_storeu_si256(group.as_mut_ptr().cast(), elements);
            from = from.wrapping_add(group_bytes);
        }
        done += 8;
    }
    done
}
