//! SSE2 and AVX2 kernels. Each does as many elements as fill its registers and says how many that
//! were; the portable kernels do the rest.
#![expect(
    unsafe_code,
    reason = "SIMD intrinsics, and loads and stores through pointers"
)]

mod unpack;
mod unsplit;

pub(crate) use unpack::{unpack_bools, unpack_u32};
pub(crate) use unsplit::unsplit;
