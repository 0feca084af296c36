//! Converts big-endian numbers to native ones.

use femtobarn_rntuple::schema::DType;

use crate::interp::{Number, NumberWire};

/// Writes numbers to `out`, which has room for all numbers in `bytes`.
pub(crate) fn numbers(number: Number, bytes: &[u8], out: &mut [u8]) {
    match number.wire {
        NumberWire::Plain => swapped(number.dtype.size(), bytes, out),
        NumberWire::Single => convert(bytes, out, |word: [u8; 4]| {
            f64::from(f32::from_be_bytes(word))
        }),
        NumberWire::Steps { low, factor } => {
            // in this order, so that the last bit equals ROOT's
            let value = |word: [u8; 4]| f64::from(u32::from_be_bytes(word)) / factor + low;
            match number.dtype {
                DType::Float64 => convert(bytes, out, value),
                #[expect(clippy::cast_possible_truncation, reason = "a Float16_t is a float")]
                _ => convert(bytes, out, |word: [u8; 4]| value(word) as f32),
            }
        }
        NumberWire::Truncated { bits } => {
            let value = |word: [u8; 3]| truncated(word, bits);
            match number.dtype {
                DType::Float64 => convert(bytes, out, |word| f64::from(value(word))),
                _ => convert(bytes, out, value),
            }
        }
        NumberWire::Bits => swapped(4, bytes, out),
    }
}

/// Decodes one byte of exponent and some bits of mantissa. More than 14 bits leave no room for the sign. For invalid bit
/// counts the result is that of ROOT on x86, where shifts wrap around.
fn truncated([exponent, high, low]: [u8; 3], bits: i32) -> f32 {
    let mantissa = u32::from(u16::from_be_bytes([high, low]));
    let sign = 1u32.wrapping_shl(bits.wrapping_add(1).cast_unsigned());
    let kept = mantissa & sign.wrapping_sub(1);
    let moved = kept.wrapping_shl(23i32.wrapping_sub(bits).cast_unsigned());
    let value = f32::from_bits((u32::from(exponent) << 23) | moved);
    if mantissa & sign != 0 { -value } else { value }
}

fn swapped(size: usize, bytes: &[u8], out: &mut [u8]) {
    match size {
        2 => convert(bytes, out, u16::from_be_bytes),
        4 => convert(bytes, out, u32::from_be_bytes),
        8 => convert(bytes, out, u64::from_be_bytes),
        _ => {
            let n = bytes.len().min(out.len());
            if let (Some(out), Some(bytes)) = (out.get_mut(..n), bytes.get(..n)) {
                out.copy_from_slice(bytes);
            }
        }
    }
}

/// Converts a value to native bytes.
trait Native {
    fn write(self, out: &mut [u8]);
    const SIZE: usize;
}

macro_rules! native {
    ($($type:ty),*) => {$(
        impl Native for $type {
            const SIZE: usize = size_of::<$type>();
            #[inline]
            fn write(self, out: &mut [u8]) {
                if let Some(out) = out.first_chunk_mut() {
                    *out = self.to_ne_bytes();
                }
            }
        }
    )*};
}

native!(u16, u32, u64, f32, f64);

#[inline]
fn convert<const N: usize, T: Native>(bytes: &[u8], out: &mut [u8], value: impl Fn([u8; N]) -> T) {
    let words = bytes.as_chunks::<N>().0;
    for (word, out) in words.iter().zip(out.chunks_exact_mut(T::SIZE)) {
        value(*word).write(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_swapped_and_converted() {
        let mut out = [0u8; 8];
        numbers(
            Number::plain(DType::Int32),
            &[0, 0, 0, 1, 0, 0, 1, 0],
            &mut out,
        );
        assert_eq!(out, [1, 0, 0, 0, 0, 1, 0, 0]);
        let steps = Number {
            dtype: DType::Float64,
            wire: NumberWire::Steps {
                low: -1.0,
                factor: 2.0,
            },
        };
        numbers(steps, &[0, 0, 0, 3], &mut out);
        assert_eq!(f64::from_ne_bytes(out), 0.5);
    }
}
