//! Compression records: round trips, several records, damage.

#![expect(
    clippy::cast_possible_truncation,
    reason = "tests may panic and know their values"
)]

#[path = "../../../fuzz/bodies/codec.rs"]
#[allow(dead_code, reason = "bodies of several targets")]
mod fuzz;

use femtobarn_codec::{CodecError, Compressor, Decompressor, RecordHeader};
use proptest::prelude::*;

const SETTINGS: [u32; 11] = [1, 101, 106, 109, 201, 209, 303, 401, 409, 501, 509];

/// Bytes with some structure, so that every algorithm makes them smaller.
fn walk(n: usize) -> Vec<u8> {
    let mut state = 1u32;
    (0..n)
        .map(|i| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            ((i / 256) as u8).wrapping_add((state >> 30) as u8)
        })
        .collect()
}

fn compressed(settings: u32, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    assert_eq!(
        Compressor::new().compress(settings, data, &mut out),
        Ok(true),
        "{settings}"
    );
    assert!(out.len() < data.len());
    out
}

fn decompressed(src: &[u8], size: usize) -> Result<Vec<u8>, CodecError> {
    let mut dst = vec![0xaa; size];
    Decompressor::new().decompress(src, &mut dst).map(|()| dst)
}

#[test]
fn each_algorithm_survives_with_contexts_used_again() {
    let (mut compressor, mut decompressor) = (Compressor::new(), Decompressor::new());
    for size in [4000, 300, 70_000] {
        let data = walk(size);
        for settings in SETTINGS {
            let mut records = b"before".to_vec();
            assert_eq!(
                compressor.compress(settings, &data, &mut records),
                Ok(true),
                "{settings}"
            );
            let mut back = vec![0; size];
            decompressor.decompress(&records[6..], &mut back).unwrap();
            assert!(back == data, "{settings}");
        }
    }
}

#[test]
fn payloads_over_16_mib_are_several_records() {
    let data = walk(RecordHeader::MAX_SIZE + 12_345);
    for settings in [101, 201, 301, 404, 505] {
        let records = compressed(settings, &data);
        let first = RecordHeader::parse(&records).unwrap();
        assert_eq!(first.uncompressed, RecordHeader::MAX_SIZE);
        let second =
            RecordHeader::parse(&records[RecordHeader::SIZE + first.compressed..]).unwrap();
        assert_eq!(second.uncompressed, 12_345);
        assert!(
            decompressed(&records, data.len()).unwrap() == data,
            "{settings}"
        );
    }
}

#[test]
fn payloads_that_do_not_shrink_are_left_to_the_caller() {
    let mut state = 1u64;
    let noise: Vec<u8> = (0..5000)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 56) as u8
        })
        .collect();
    for settings in SETTINGS {
        for data in [&noise[..], &[0; 10], &[]] {
            let mut out = vec![1, 2, 3];
            assert_eq!(
                Compressor::new().compress(settings, data, &mut out),
                Ok(false),
                "{settings}"
            );
            assert_eq!(out, [1, 2, 3]);
        }
    }
    assert_eq!(
        Compressor::new().compress(500, &[0; 1000], &mut Vec::new()),
        Ok(false)
    );
    assert_eq!(
        Compressor::new().compress(0, &[0; 1000], &mut Vec::new()),
        Ok(false)
    );
    let error = Compressor::new()
        .compress(601, &[0; 1000], &mut Vec::new())
        .unwrap_err();
    assert_eq!(error.kind(), "unknown-settings");
}

#[test]
fn nothing_decompresses_to_nothing() {
    assert_eq!(decompressed(&[], 0), Ok(vec![]));
    let error = decompressed(&[], 5).unwrap_err();
    assert_eq!(
        error,
        CodecError::ShortPayload {
            offset: 0,
            expected: 5,
            found: 0
        }
    );
    assert_eq!(
        decompressed(b"x", 0).unwrap_err(),
        CodecError::TrailingBytes {
            offset: 0,
            found: 1
        }
    );
}

#[test]
fn sizes_that_do_not_fit_are_reported_with_offset() {
    let data = walk(1000);
    for settings in SETTINGS {
        let one = compressed(settings, &data);
        let n = one.len();
        let two = [one.clone(), one.clone()].concat();
        let kind = |src: &[u8], size| decompressed(src, size).unwrap_err();
        assert_eq!(
            kind(&two, 1000),
            CodecError::TrailingBytes {
                offset: n,
                found: n
            }
        );
        assert_eq!(
            kind(&two, 2001),
            CodecError::ShortPayload {
                offset: 2 * n,
                expected: 2001,
                found: 2000
            }
        );
        assert_eq!(
            kind(&two, 1500),
            CodecError::RecordExceedsTarget {
                offset: n,
                expected: 500,
                found: 1000
            }
        );
        assert_eq!(
            kind(&two[..n + 4], 2000),
            CodecError::TruncatedHeader {
                offset: n,
                expected: 9,
                found: 4
            }
        );
        assert_eq!(
            kind(&two[..2 * n - 1], 2000),
            CodecError::RecordExceedsSource {
                offset: n,
                expected: n - 9,
                found: n - 10
            }
        );
        let mut bad = two.clone();
        bad[n] = b'?';
        assert_eq!(kind(&bad, 2000).kind(), "unknown-algorithm");
        let mut empty = two;
        empty[n + 6..n + 9].fill(0);
        assert_eq!(
            kind(&empty, 2000),
            CodecError::EmptyRecord {
                offset: n,
                expected: 1000
            }
        );
    }
}

#[test]
fn header_that_claims_another_size_is_an_error() {
    let data = walk(1000);
    for settings in SETTINGS {
        let records = compressed(settings, &data);
        for size in [999usize, 1001] {
            let mut bad = records.clone();
            bad[6..9].copy_from_slice(&size.to_le_bytes()[..3]);
            assert!(decompressed(&bad, size).is_err(), "{settings} {size}");
        }
    }
}

#[test]
fn truncated_records_are_errors_even_if_the_header_agrees() {
    let data = walk(1000);
    for settings in SETTINGS {
        let records = compressed(settings, &data);
        for n in 0..records.len() {
            assert!(decompressed(&records[..n], 1000).is_err());
            if let Some(compressed) = n.checked_sub(RecordHeader::SIZE) {
                let mut bad = records[..n].to_vec();
                bad[3..6].copy_from_slice(&compressed.to_le_bytes()[..3]);
                assert!(decompressed(&bad, 1000).is_err(), "{settings} {n}");
            }
        }
    }
}

#[test]
fn flipped_bits_give_an_error_or_the_right_bytes_where_there_is_a_checksum() {
    let data = walk(1000);
    for settings in SETTINGS {
        // The CRC32 of xz and the XXH64 of LZ4 detect every flip. Zlib's Adler-32 missed one here:
        // a changed distance turned the bytes 2 1 1 into 1 3 0, with the same sums. Old deflate and
        // ROOT's zstd records have no checksum.
        let checked = matches!(settings / 100, 2 | 4);
        let mut records = compressed(settings, &data);
        for bit in 0..records.len() * 8 {
            records[bit / 8] ^= 1 << (bit % 8);
            if let Ok(back) = decompressed(&records, 1000) {
                assert!(!checked || back == data, "{settings}, bit {bit}");
            }
            fuzz::compression_record(&records);
            records[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn lz4_checksum_is_compared() {
    let mut records = compressed(404, &walk(1000));
    records[10] ^= 1;
    let error = decompressed(&records, 1000).unwrap_err();
    assert!(
        matches!(error, CodecError::ChecksumMismatch { offset: 0, .. }),
        "{error}"
    );
}

proptest! {
    #[test]
    fn compression_survives(settings in prop::sample::select(&SETTINGS[..]), data in prop::collection::vec(0..4u8, 0..3000)) {
        let mut out = Vec::new();
        if Compressor::new().compress(settings, &data, &mut out).unwrap() {
            prop_assert_eq!(decompressed(&out, data.len()).unwrap(), data);
        } else {
            prop_assert!(out.is_empty());
        }
    }

    #[test]
    fn any_bytes_are_survived(data in prop::collection::vec(any::<u8>(), 0..500), which in 0..5usize) {
        fuzz::compression_record(&data);
        if data.len() > 9 {
            let mut data = data;
            data[..3].copy_from_slice([b"ZL\x08", b"CS\x08", b"XZ\x00", b"L4\x01", b"ZS\x01"][which]);
            let compressed = data.len() - 9;
            data[3..9].copy_from_slice(&[compressed as u8, (compressed >> 8) as u8, 0, 0, 1, 0]);
            fuzz::compression_record(&data);
        }
    }
}
