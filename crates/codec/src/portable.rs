//! Element kernels without intrinsics: the reference, the remainder after SIMD kernels, and the
//! only kernels on other platforms.
//!
//! Split data of `n` elements are `W` planes of `n` bytes, the least significant bytes first.

/// An unsigned element of a split column.
pub(crate) trait Word: Copy {
    /// Bytes of an element.
    const WIDTH: usize;
    /// Undoes the zigzag encoding.
    fn unzigzag(self) -> Self;
    /// Zigzag encodes the bits of a signed element.
    fn zigzag(self) -> Self;
    /// Joins elements from `start` on from the planes of `n` bytes each in `src`, applies `map`,
    /// and writes native words to `dst`.
    fn unsplit(src: &[u8], n: usize, start: usize, map: impl Fn(Self) -> Self, dst: &mut [u8]);
    /// Applies `map` to the native words of `src`, and splits them into the planes of `n` bytes
    /// each in `dst`, from element `start` on.
    fn split(src: &[u8], n: usize, start: usize, map: impl Fn(Self) -> Self, dst: &mut [u8]);
}

macro_rules! word {
    ($word:ty, $signed:ty, $width:literal, [$($plane:ident $index:literal),+]) => {
        impl Word for $word {
            const WIDTH: usize = $width;

            #[inline(always)]
            fn unzigzag(self) -> Self {
                (self >> 1) ^ (self & 1).wrapping_neg()
            }

            #[inline(always)]
            fn zigzag(self) -> Self {
                let sign = (self.cast_signed() >> (<$word>::BITS - 1)).cast_unsigned();
                (self << 1) ^ sign
            }

            #[inline(always)]
            fn unsplit(src: &[u8], n: usize, start: usize, map: impl Fn(Self) -> Self, dst: &mut [u8]) {
                let (words, _) = dst.as_chunks_mut::<$width>();
                let [$($plane),+] = [$($index),+].map(|index: usize| src.get(index * n + start..).unwrap_or_default());
                let mut words = words.iter_mut();
                $(let mut $plane = $plane.iter();)+
                while let ($(Some($plane),)+ Some(word)) = ($($plane.next(),)+ words.next()) {
                    *word = map(<$word>::from_le_bytes([$(*$plane),+])).to_ne_bytes();
                }
            }

            #[inline(always)]
            fn split(src: &[u8], n: usize, start: usize, map: impl Fn(Self) -> Self, dst: &mut [u8]) {
                if n == 0 {
                    return;
                }
                let (words, _) = src.as_chunks::<$width>();
                for (index, plane) in dst.chunks_exact_mut(n).enumerate() {
                    let plane = plane.get_mut(start..).unwrap_or_default();
                    for (byte, word) in plane.iter_mut().zip(words) {
                        let [$($plane),+] = map(<$word>::from_ne_bytes(*word)).to_le_bytes();
                        *byte = [$($plane),+].get(index).copied().unwrap_or_default();
                    }
                }
            }
        }
    };
}

word!(u16, i16, 2, [a 0, b 1]);
word!(u32, i32, 4, [a 0, b 1, c 2, d 3]);
word!(u64, i64, 8, [a 0, b 1, c 2, d 3, e 4, f 5, g 6, h 7]);

/// Unpacks bits into bytes 0 or 1, least significant bit first.
pub(crate) fn unpack_bools(src: &[u8], dst: &mut [u8]) {
    let (groups, tail) = dst.as_chunks_mut::<8>();
    for (group, &bits) in groups.iter_mut().zip(src) {
        *group = spread(bits);
    }
    let last = spread(src.get(groups.len()).copied().unwrap_or_default());
    for (bool, byte) in tail.iter_mut().zip(last) {
        *bool = byte;
    }
}

/// The bits of a byte as eight bytes 0 or 1.
#[inline(always)]
fn spread(bits: u8) -> [u8; 8] {
    let masked = (u64::from(bits) * 0x0101_0101_0101_0101) & 0x8040_2010_0804_0201;
    // every byte is now 0 or one bit: adding 127 sets bit 7 of the latter without a carry
    ((masked + 0x7f7f_7f7f_7f7f_7f7f) >> 7 & 0x0101_0101_0101_0101).to_le_bytes()
}

/// Unpacks elements of `n_bits` (1 to 32) from element `start` on, least significant bit first.
/// Bits after the end of `src` read as zeros.
pub(crate) fn unpack_u32(src: &[u8], n_bits: u32, start: usize, dst: &mut [u32]) {
    let width = n_bits as usize;
    let mask = u64::MAX >> (64 - n_bits);
    let (groups, tail) = dst.as_chunks_mut::<8>();
    let mut bit = start * width;
    let mut element = |word: &mut u32| {
        let window = src.get(bit / 8..).unwrap_or_default();
        *word = low_half(load_le(window) >> (bit % 8) & mask);
        bit += width;
    };
    groups.iter_mut().flatten().for_each(&mut element);
    tail.iter_mut().for_each(element);
}

/// The first eight bytes as a number; missing bytes are zeros.
#[inline(always)]
fn load_le(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(window) => u64::from_le_bytes(*window),
        None => bytes
            .iter()
            .rev()
            .fold(0, |value, &byte| value << 8 | u64::from(byte)),
    }
}

/// The lower half of a number.
#[inline(always)]
#[expect(
    clippy::cast_possible_truncation,
    reason = "the upper half is dropped on purpose"
)]
pub(crate) const fn low_half(value: u64) -> u32 {
    value as u32
}

/// Converts half-precision floats to single precision.
#[inline(always)]
pub(crate) fn half_to_f32(src: &[u8], dst: &mut [f32]) {
    for (value, half) in dst.iter_mut().zip(src.as_chunks().0) {
        *value = widen_half(u16::from_le_bytes(*half));
    }
}

/// Without branches and without arithmetic on subnormals, so that it compiles to fast SIMD.
#[inline(always)]
fn widen_half(half: u16) -> f32 {
    // the biases of the exponents differ by 112
    const REBASE: u32 = 112 << 23;
    const LEAST_NORMAL: u32 = 1 << 23;
    const SPECIAL: u32 = 0x1f << 23;
    let magnitude = u32::from(half & 0x7fff) << 13;
    let normal = magnitude + REBASE;
    // add 2⁻¹⁴ temporarily, so that a subnormal has a leading bit
    let lent = REBASE + LEAST_NORMAL;
    let subnormal = (f32::from_bits(magnitude + lent) - f32::from_bits(lent)).to_bits();
    let finite = if magnitude < LEAST_NORMAL {
        subnormal
    } else {
        normal
    };
    let bits = if magnitude >= SPECIAL {
        normal + REBASE
    } else {
        finite
    };
    f32::from_bits(bits | u32::from(half & 0x8000) << 16)
}

/// Converts quantized fractions to values.
#[inline(always)]
pub(crate) fn unquantize<T>(
    src: &[u32],
    scale: f64,
    min: f64,
    max: f64,
    round: impl Fn(f64) -> T,
    dst: &mut [T],
) {
    for (out, &fraction) in dst.iter_mut().zip(src) {
        let value = f64::from(fraction) * scale + min;
        *out = round(if max < value { max } else { value });
    }
}
