//! Converts numbers to a type that can represent them.

use femtobarn_codec::real;

use crate::schema::DType;

/// Converts values to another type; `out` must have their size. This is needed if a column has different types in
/// different representations or files.
pub fn promote(values: &[u8], from: DType, to: DType, out: &mut [u8]) {
    let values = values.chunks_exact(from.size());
    let places = out.chunks_exact_mut(to.size());
    for (value, place) in values.zip(places) {
        if to.is_float() {
            store_float(load_float(from, value), to, place)
        } else {
            store_int(load_int(from, value), place)
        }
    }
}

fn load_int(dtype: DType, bytes: &[u8]) -> i128 {
    let mut wide = [0u8; 8];
    for (to, from) in wide.iter_mut().zip(bytes) {
        *to = *from;
    }
    let unsigned = u64::from_le_bytes(wide);
    let shift = 64 - 8 * dtype.size().min(8);
    match dtype {
        DType::Int8 | DType::Int16 | DType::Int32 | DType::Int64 => {
            i128::from(((unsigned << shift) as i64) >> shift)
        }
        _ => i128::from(unsigned),
    }
}

fn load_float(dtype: DType, bytes: &[u8]) -> f64 {
    match dtype {
        DType::Float64 => bytes.first_chunk().map_or(0.0, |b| f64::from_le_bytes(*b)),
        DType::Float32 => bytes
            .first_chunk()
            .map_or(0.0, |b| real::widened(f32::from_le_bytes(*b))),
        DType::Float16 => {
            let mut value = [0f32];
            match real::half_to_f32(bytes, &mut value) {
                Ok(()) => real::widened(value[0]),
                Err(_) => f64::NAN,
            }
        }
        _ => load_int(dtype, bytes) as f64,
    }
}

fn store_float(value: f64, dtype: DType, place: &mut [u8]) {
    match dtype {
        // only from types whose values are half-precision floats, so nothing is rounded
        DType::Float16 => {
            let mut half = [0; 2];
            if real::f32_to_half(&[real::narrowed(value)], &mut half).is_ok() {
                place.copy_from_slice(&half);
            }
        }
        DType::Float32 => place.copy_from_slice(&real::narrowed(value).to_le_bytes()),
        _ => place.copy_from_slice(&value.to_le_bytes()),
    }
}

fn store_int(value: i128, place: &mut [u8]) {
    for (to, from) in place.iter_mut().zip(value.to_le_bytes()) {
        *to = from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small number as bytes.
    fn bytes(dtype: DType, value: u8) -> Vec<u8> {
        let mut out = vec![0; dtype.size()];
        if dtype.is_float() {
            store_float(f64::from(value), dtype, &mut out);
        } else {
            store_int(i128::from(value), &mut out);
        }
        out
    }

    #[test]
    fn numbers_are_converted_between_all_types_that_are_promoted() {
        for a in DType::ALL {
            for b in DType::ALL {
                let to = a.promote(b);
                for value in [0, 1] {
                    let mut out = vec![0xff; to.size()];
                    promote(&bytes(a, value), a, to, &mut out);
                    assert_eq!(out, bytes(to, value), "{a:?} with {b:?}: {value}");
                }
            }
        }
    }

    #[test]
    fn signs_and_fractions_are_kept() {
        let mut out = [0u8; 8];
        promote(&(-5i16).to_le_bytes(), DType::Int16, DType::Int64, &mut out);
        assert_eq!(i64::from_le_bytes(out), -5);
        promote(&(-5i8).to_le_bytes(), DType::Int8, DType::Float64, &mut out);
        assert_eq!(f64::from_le_bytes(out), -5.0);
        let (single, double) = (DType::Float32, DType::Float64);
        promote(&1.5f32.to_le_bytes(), single, double, &mut out);
        assert_eq!(f64::from_le_bytes(out), 1.5);
    }
}
