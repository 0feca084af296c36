//! Unpacks bits with AVX2. SSE2 has no byte shuffle and no variable shift per word, and would not be
//! faster than the portable kernels.

use std::arch::x86_64::{
    __m128i, __m256i, _mm_loadu_si128, _mm256_and_si256, _mm256_castps_si256, _mm256_castsi256_ps,
    _mm256_cmpeq_epi8, _mm256_loadu_si256, _mm256_set_m128i, _mm256_set1_epi8, _mm256_set1_epi32,
    _mm256_set1_epi64x, _mm256_setr_epi64x, _mm256_shuffle_epi8, _mm256_shuffle_ps,
    _mm256_srlv_epi32, _mm256_srlv_epi64, _mm256_storeu_si256,
};

/// Bytes of a 128-bit lane.
const LANE: usize = 16;

/// Unpacks bits into bytes; returns the number of bits, a multiple of 32.
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

/// Unpacks elements of `n_bits` (1 to 32) from element `start` on; returns their number, a multiple of
/// 8.
pub(crate) fn unpack_u32(src: &[u8], n_bits: u32, start: usize, dst: &mut [u32]) -> usize {
    if !start.is_multiple_of(8) || !is_x86_feature_detected!("avx2") {
        return 0;
    }
    let Some(from) = src.get(start / 8 * n_bits as usize..) else {
        return 0;
    };
    // SAFETY: the processor has AVX2
    unsafe {
        match Plan::new(n_bits) {
            Some(plan) => unpack_narrow(from, &plan, dst),
            None => unpack_wide(from, &WidePlan::new(n_bits), dst),
        }
    }
}

/// How to extract eight elements from their `n_bits` bytes: each lane loads 16 bytes, moves the four
/// bytes that contain an element to its position, and shifts them.
struct Plan {
    n_bits: u32,
    shuffle: [u8; 32],
    shifts: [u32; 8],
}

impl Plan {
    /// Makes the plan, if no element extends over five bytes.
    fn new(n_bits: u32) -> Option<Self> {
        let (mut shuffle, mut shifts) = ([0; 32], [0; 8]);
        let places = shuffle.as_chunks_mut::<4>().0.iter_mut().zip(&mut shifts);
        for (element, (bytes, shift)) in (0..8).zip(places) {
            // the second lane starts at the byte that contains the start of element 4
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
fn unpack_narrow(src: &[u8], plan: &Plan, dst: &mut [u32]) -> usize {
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
        // the group has 32 bytes
        unsafe {
            let low: __m128i = _mm_loadu_si128(from.cast());
            let high: __m128i = _mm_loadu_si128(from.add(half).cast());
            let windows = _mm256_shuffle_epi8(_mm256_set_m128i(high, low), shuffle);
            let elements = _mm256_and_si256(_mm256_srlv_epi32(windows, shifts), mask);
            _mm256_storeu_si256(group.as_mut_ptr().cast(), elements);
        }
        from = from.wrapping_add(group_bytes);
        done += 8;
    }
    done
}

/// Like [`Plan`] with windows of eight bytes: four lanes with two elements each.
struct WidePlan {
    n_bits: u32,
    /// Offset of each lane in the bytes of the group.
    starts: [usize; 4],
    shuffles: [[u8; 16]; 4],
    shifts: [[u64; 2]; 4],
}

impl WidePlan {
    fn new(n_bits: u32) -> Self {
        let mut plan = Self {
            n_bits,
            starts: [0; 4],
            shuffles: [[0; 16]; 4],
            shifts: [[0; 2]; 4],
        };
        let lanes = plan
            .starts
            .iter_mut()
            .zip(&mut plan.shuffles)
            .zip(&mut plan.shifts);
        for (lane, ((start, shuffle), shifts)) in (0..4).zip(lanes) {
            let bit = 2 * lane * n_bits;
            *start = bit as usize / 8;
            let places = shuffle.as_chunks_mut::<8>().0.iter_mut().zip(shifts);
            for ((bytes, shift), bit) in places.zip([bit % 8, bit % 8 + n_bits]) {
                *shift = u64::from(bit % 8);
                let first = bit.to_le_bytes()[0] / 8;
                *bytes = [0, 1, 2, 3, 4, 5, 6, 7].map(|byte| first + byte);
            }
        }
        plan
    }
}

#[target_feature(enable = "avx2")]
fn unpack_wide(src: &[u8], plan: &WidePlan, dst: &mut [u32]) -> usize {
    let group_bytes = plan.n_bits as usize;
    let [s0, s1, s2, s3] = plan.starts;
    let mask = _mm256_set1_epi32((u32::MAX >> (32 - plan.n_bits)).cast_signed());
    // lanes 0 and 2 are in one register, 1 and 3 in the other, so that the lower halves of all windows
    // are the elements in order
    let [f0, f1, f2, f3] = plan.shuffles;
    let [h0, h1, h2, h3] = plan.shifts;
    // SAFETY: each array has 32 bytes
    let (shuffles, shifts) = unsafe {
        (
            [[f0, f2], [f1, f3]].map(|lanes| _mm256_loadu_si256(lanes.as_ptr().cast())),
            [[h0, h2], [h1, h3]].map(|lanes| _mm256_loadu_si256(lanes.as_ptr().cast())),
        )
    };
    let (groups, _) = dst.as_chunks_mut::<8>();
    let readable = src
        .len()
        .checked_sub(s3 + LANE)
        .map_or(0, |room| room / group_bytes + 1);
    let mut from = src.as_ptr();
    let mut done = 0;
    for group in groups.iter_mut().take(readable) {
        // SAFETY: `from` is at a multiple of `group_bytes` that leaves `s3 + LANE` bytes in `src`, and
        // the other lanes start before; the group has 32 bytes
        unsafe {
            let lane = |start: usize| _mm_loadu_si128(from.add(start).cast());
            let first = _mm256_shuffle_epi8(_mm256_set_m128i(lane(s2), lane(s0)), shuffles[0]);
            let second = _mm256_shuffle_epi8(_mm256_set_m128i(lane(s3), lane(s1)), shuffles[1]);
            let first = _mm256_castsi256_ps(_mm256_srlv_epi64(first, shifts[0]));
            let second = _mm256_castsi256_ps(_mm256_srlv_epi64(second, shifts[1]));
            let elements = _mm256_castps_si256(_mm256_shuffle_ps::<0b10_00_10_00>(first, second));
            _mm256_storeu_si256(group.as_mut_ptr().cast(), _mm256_and_si256(elements, mask));
        }
        from = from.wrapping_add(group_bytes);
        done += 8;
    }
    done
}
