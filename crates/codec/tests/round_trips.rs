//! Round trips of all encodings, and comparison with the simplest code that does the same.

#![expect(
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    reason = "tests may panic and know their values"
)]

#[path = "../../../fuzz/bodies/codec.rs"]
#[allow(dead_code, reason = "bodies of several targets")]
mod fuzz;

use femtobarn_codec::{bits, delta, real, transpose, zigzag};
use proptest::prelude::*;

/// Lengths around every register width, and some longer ones.
fn lengths() -> impl Strategy<Value = usize> {
    prop_oneof![0..70usize, 250..262usize, 500..1100usize]
}

fn bytes_of(width: usize) -> impl Strategy<Value = Vec<u8>> {
    lengths().prop_flat_map(move |n| prop::collection::vec(any::<u8>(), n * width))
}

fn plain_split(words: &[u8], width: usize) -> Vec<u8> {
    (0..width)
        .flat_map(|plane| words.iter().skip(plane).step_by(width).copied())
        .collect()
}

fn zigzag_word(word: &[u8], width: usize) -> Vec<u8> {
    let mut bytes = [if word[width - 1] & 0x80 == 0 { 0 } else { 0xff }; 8];
    bytes[..width].copy_from_slice(word);
    let value = i64::from_le_bytes(bytes);
    ((value << 1) ^ (value >> 63)).to_le_bytes()[..width].to_vec()
}

proptest! {
    #[test]
    fn split_equals_the_plain_transposition((width, words) in prop_oneof![Just(2), Just(4), Just(8)]
        .prop_flat_map(|width| (Just(width), bytes_of(width))))
    {
        let mut planes = vec![0; words.len()];
        transpose::split(&words, width, &mut planes).unwrap();
        prop_assert_eq!(&planes, &plain_split(&words, width));
        let mut back = vec![0; words.len()];
        transpose::unsplit(&planes, width, &mut back).unwrap();
        prop_assert_eq!(&back, &words);

        let zigzagged: Vec<u8> = words.chunks(width).flat_map(|word| zigzag_word(word, width)).collect();
        zigzag::split_zigzag(&words, width, &mut planes).unwrap();
        prop_assert_eq!(&planes, &plain_split(&zigzagged, width));
        zigzag::unsplit_zigzag(&planes, width, &mut back).unwrap();
        prop_assert_eq!(&back, &words);
    }

    #[test]
    fn indexes_of_64_bits_survive(values in lengths().prop_flat_map(|n| prop::collection::vec(any::<u64>(), n))) {
        let mut planes = vec![0; 8 * values.len()];
        delta::split_delta_64(&values, &mut planes).unwrap();
        let mut back = vec![0; values.len()];
        delta::unsplit_delta_64(&planes, &mut back).unwrap();
        prop_assert_eq!(back, values);
    }

    #[test]
    fn indexes_of_32_bits_survive(values in lengths().prop_flat_map(|n| prop::collection::vec(any::<u32>(), n))) {
        let values: Vec<u64> = values.into_iter().map(u64::from).collect();
        let mut planes = vec![0; 4 * values.len()];
        delta::split_delta_32(&values, &mut planes).unwrap();
        let mut back = vec![0; values.len()];
        delta::unsplit_delta_32(&planes, &mut back).unwrap();
        prop_assert_eq!(back, values);
    }

    #[test]
    fn bools_survive(bools in lengths().prop_flat_map(|n| prop::collection::vec(0..2u8, n))) {
        let mut packed = vec![0xff; bools.len().div_ceil(8)];
        bits::pack_bools(&bools, &mut packed).unwrap();
        let mut back = vec![7; bools.len()];
        bits::unpack_bools(&packed, &mut back).unwrap();
        prop_assert_eq!(back, bools);
    }

    #[test]
    fn packed_integers_survive_with_and_without_padding(
        n_bits in 1..=32u32,
        values in lengths().prop_flat_map(|n| prop::collection::vec(any::<u32>(), n)),
        padded: bool,
    ) {
        let values: Vec<u32> = values.into_iter().map(|value| value >> (32 - n_bits)).collect();
        let mut size = (values.len() * n_bits as usize).div_ceil(8);
        if padded {
            size = size.next_multiple_of(8);
        }
        let mut packed = vec![0xff; size];
        bits::pack_u32(&values, n_bits, &mut packed).unwrap();
        let mut back = vec![7; values.len()];
        bits::unpack_u32(&packed, n_bits, &mut back).unwrap();
        prop_assert_eq!(back, values);
    }

    #[test]
    fn truncated_reals_keep_their_upper_bits(
        n_bits in 10..=31u32,
        values in lengths().prop_flat_map(|n| prop::collection::vec(any::<u32>(), n)),
    ) {
        let reals: Vec<f32> = values.iter().map(|&bits| f32::from_bits(bits)).collect();
        let mut packed = vec![0; (values.len() * n_bits as usize).div_ceil(8)];
        real::pack_truncated(&reals, n_bits, &mut packed).unwrap();
        let mut back = vec![0.0; values.len()];
        real::unpack_truncated(&packed, n_bits, &mut back).unwrap();
        let cut = |bits: u32| bits & (u32::MAX << (32 - n_bits));
        // a NaN stays a NaN
        let kept = |&bits: &u32| match f32::from_bits(cut(bits)) {
            value if value.is_infinite() && f32::from_bits(bits).is_nan() => cut(bits) | 1 << 22,
            value => value.to_bits(),
        };
        let kept: Vec<u32> = values.iter().map(kept).collect();
        prop_assert_eq!(back.into_iter().map(f32::to_bits).collect::<Vec<_>>(), kept);
    }

    #[test]
    fn quantized_reals_are_off_by_half_a_step_at_most(
        n_bits in 1..=32u32,
        min in -1e6..1e6f32,
        span in 1e-3..1e6f32,
        fractions in lengths().prop_flat_map(|n| prop::collection::vec(0.0..=1.0f32, n)),
    ) {
        let max = min + span;
        let reals: Vec<f32> = fractions.iter().map(|fraction| (min + fraction * (max - min)).clamp(min, max)).collect();
        let (low, high) = (f64::from(min), f64::from(max));
        let mut packed = vec![0; (reals.len() * n_bits as usize).div_ceil(8)];
        real::pack_quantized(&reals, n_bits, low, high, &mut packed).unwrap();
        let mut back = vec![0.0; reals.len()];
        real::unpack_quantized(&packed, n_bits, low, high, &mut back).unwrap();
        let mut wide = vec![0.0; reals.len()];
        real::unpack_quantized_f64(&packed, n_bits, low, high, &mut wide).unwrap();
        let step = (high - low) / ((1u64 << n_bits) - 1) as f64;
        for ((&real, &back), &wide) in reals.iter().zip(&back).zip(&wide) {
            prop_assert!((low..=high).contains(&wide));
            prop_assert!((wide - f64::from(real)).abs() <= step * 0.500_001);
            prop_assert_eq!(back, wide as f32);
        }
    }

    #[test]
    fn element_decoders_keep_their_promises(data in prop::collection::vec(any::<u8>(), 0..2000)) {
        fuzz::element_decoders(&data);
    }
}

#[test]
fn every_half_survives_and_equals_its_definition() {
    let halfs: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    let mut reals = vec![0.0; 1 << 16];
    real::half_to_f32(&halfs, &mut reals).unwrap();
    for (half, &real) in (0..=u16::MAX).zip(&reals) {
        let (sign, exponent, fraction) = (half >> 15, i32::from(half >> 10 & 31), half & 1023);
        let magnitude = match exponent {
            0 => f64::from(fraction) * 2f64.powi(-24),
            31 if fraction == 0 => f64::INFINITY,
            31 => f64::NAN,
            _ => (1.0 + f64::from(fraction) / 1024.0) * 2f64.powi(exponent - 15),
        };
        assert_eq!(real.is_nan(), magnitude.is_nan(), "{half:#06x}");
        assert_eq!(real.is_sign_negative(), sign == 1, "{half:#06x}");
        assert!(
            real.is_nan() || f64::from(real.abs()) == magnitude,
            "{half:#06x}"
        );
    }
    let mut back = vec![0; 1 << 17];
    real::f32_to_half(&reals, &mut back).unwrap();
    assert_eq!(back, halfs);
}

#[test]
fn lengths_that_do_not_fit_are_refused() {
    let mut bytes = [0; 24];
    let mut words = [0; 3];
    let mut reals = [0.0; 3];
    for result in [
        transpose::unsplit(&[0; 23], 4, &mut bytes),
        transpose::unsplit(&[0; 25], 4, &mut bytes),
        transpose::unsplit(&[0; 7], 2, &mut bytes[..7]),
        transpose::split(&[0; 8], 8, &mut bytes),
        zigzag::unsplit_zigzag(&[0; 20], 8, &mut bytes[..20]),
        zigzag::split_zigzag(&[0; 20], 8, &mut bytes[..20]),
        delta::unsplit_delta_32(&[0; 11], &mut words),
        delta::unsplit_delta_64(&[0; 25], &mut words),
        delta::split_delta_32(&[0; 3], &mut bytes),
        delta::split_delta_64(&[0; 4], &mut bytes),
        bits::unpack_bools(&[0; 4], &mut bytes),
        bits::pack_bools(&[0; 9], &mut bytes[..1]),
        bits::unpack_u32(&[0; 5], 12, &mut [0; 4]),
        bits::unpack_u32(&[0; 7], 12, &mut [0; 4]),
        bits::unpack_u32(&[0; 16], 12, &mut [0; 4]),
        real::half_to_f32(&[0; 7], &mut reals),
        real::f32_to_half(&[0.0; 3], &mut bytes),
        real::unpack_truncated(&[0; 3], 10, &mut reals),
        real::unpack_quantized(&[0; 3], 10, 0.0, 1.0, &mut reals),
    ] {
        assert_eq!(result.unwrap_err().kind(), "length-mismatch");
    }
}

#[test]
fn parameters_that_make_no_sense_are_refused() {
    let mut reals = [0.0; 8];
    let kind = |result: Result<(), femtobarn_codec::CodecError>| result.unwrap_err().kind();
    for width in [0, 1, 3, 16, usize::MAX] {
        assert_eq!(
            kind(transpose::unsplit(&[0; 16], width, &mut [0; 16])),
            "unsupported-width"
        );
        assert_eq!(
            kind(zigzag::split_zigzag(&[0; 16], width, &mut [0; 16])),
            "unsupported-width"
        );
    }
    for n_bits in [0, 33, u32::MAX] {
        assert_eq!(
            kind(bits::unpack_u32(&[0; 8], n_bits, &mut [0; 8])),
            "unsupported-bits"
        );
        assert_eq!(
            kind(real::unpack_quantized(
                &[0; 8], n_bits, 0.0, 1.0, &mut reals
            )),
            "unsupported-bits"
        );
    }
    assert_eq!(
        kind(real::unpack_truncated(&[0; 9], 9, &mut reals)),
        "unsupported-bits"
    );
    assert_eq!(
        kind(real::unpack_truncated(&[0; 32], 32, &mut reals)),
        "unsupported-bits"
    );
    for (min, max) in [
        (1.0, 0.0),
        (f64::NAN, 1.0),
        (0.0, f64::NAN),
        (f64::NEG_INFINITY, 0.0),
        (-f64::MAX, f64::MAX),
    ] {
        assert_eq!(
            kind(real::unpack_quantized(&[0; 8], 8, min, max, &mut reals)),
            "invalid-range"
        );
    }
}

#[test]
fn values_that_cannot_be_stored_are_refused() {
    let kind = |result: Result<(), femtobarn_codec::CodecError>| result.unwrap_err().kind();
    assert_eq!(
        kind(delta::split_delta_32(&[0, 1 << 32], &mut [0; 8])),
        "out-of-range"
    );
    assert_eq!(
        kind(bits::pack_u32(&[7, 8], 3, &mut [0; 1])),
        "out-of-range"
    );
    assert_eq!(
        kind(real::pack_quantized(&[0.5, 1.5], 8, 0.0, 1.0, &mut [0; 2])),
        "out-of-range"
    );
    assert_eq!(
        kind(real::pack_quantized(&[f32::NAN], 8, 0.0, 1.0, &mut [0; 1])),
        "out-of-range"
    );
}

#[test]
fn hostile_indexes_wrap() {
    let mut out = [0; 2];
    delta::unsplit_delta_32(&[0xff; 8], &mut out).unwrap();
    assert_eq!(out, [0xffff_ffff, 0xffff_fffe]);
    delta::unsplit_delta_64(&[0xff; 16], &mut out).unwrap();
    assert_eq!(out, [u64::MAX, u64::MAX - 1]);
}

#[test]
fn reals_keep_their_bits_in_double_precision() {
    for bits in [
        0x7f80_ff00u32,
        0xff80_0001,
        0x7fc0_0000,
        0xffff_ffff,
        0x7f80_0000,
        0x8000_0000,
        0x0000_0001,
        0x3f80_0001,
    ] {
        let value = f32::from_bits(bits);
        let wide = real::widened(value);
        assert_eq!(wide.is_nan(), value.is_nan(), "{bits:#x}");
        assert_eq!(real::narrowed(wide).to_bits(), bits, "{bits:#x}");
    }
    // a payload that does not fit
    assert!(real::narrowed(f64::from_bits(0x7ff0_0000_0000_0001)).is_nan());
    assert_eq!(real::narrowed(1e300), f32::INFINITY);
}
