//! SSE2 and AVX2 kernels. Each processes as many elements as fill its registers and returns their
//! number; the portable kernels process the rest.
#![expect(
    unsafe_code,
    reason = "SIMD intrinsics, and loads and stores through pointers"
)]

mod delta;
mod split;
mod unpack;
mod unsplit;

use crate::portable;

pub(crate) use delta::{unsplit_delta_32, unsplit_delta_64};
pub(crate) use split::split;
pub(crate) use unpack::{unpack_bools, unpack_u32};
pub(crate) use unsplit::unsplit;

/// [`portable::half_to_f32`], compiled for AVX2 if the processor has it.
pub(crate) fn half_to_f32(src: &[u8], dst: &mut [f32]) {
    #[target_feature(enable = "avx2")]
    fn avx2(src: &[u8], dst: &mut [f32]) {
        portable::half_to_f32(src, dst);
    }
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2
        unsafe { avx2(src, dst) }
    } else {
        portable::half_to_f32(src, dst);
    }
}

/// [`portable::unquantize`], compiled for AVX2 if the processor has it.
pub(crate) fn unquantize<T>(
    src: &[u32],
    scale: f64,
    min: f64,
    max: f64,
    round: impl Fn(f64) -> T,
    dst: &mut [T],
) {
    #[target_feature(enable = "avx2")]
    fn avx2<T>(
        src: &[u32],
        scale: f64,
        min: f64,
        max: f64,
        round: impl Fn(f64) -> T,
        dst: &mut [T],
    ) {
        portable::unquantize(src, scale, min, max, round, dst);
    }
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2
        unsafe { avx2(src, scale, min, max, round, dst) }
    } else {
        portable::unquantize(src, scale, min, max, round, dst);
    }
}
