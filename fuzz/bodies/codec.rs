//! Bodies of the fuzz targets, functions so that tests can replay a corpus. They panic if the crate
//! breaks a promise.

use femtobarn_codec::{Decompressor, RecordHeader, bits, delta, real, transpose, zigzag};

/// The most bytes that a fuzz input may request to be decompressed.
const LARGEST_TARGET: usize = 1 << 22;

/// Decompresses `data` into targets of the size that its headers state, and of other sizes.
pub fn compression_record(data: &[u8]) {
    let mut promised = 0;
    let mut rest = data;
    while let Ok(header) = RecordHeader::parse(rest) {
        promised += header.uncompressed;
        rest = rest
            .get(RecordHeader::SIZE + header.compressed..)
            .unwrap_or_default();
    }
    let mut decompressor = Decompressor::new();
    for size in [0, 1, promised.saturating_sub(1), promised, promised + 1] {
        if size <= LARGEST_TARGET {
            let result = decompressor.decompress(data, &mut vec![0; size]);
            if let Err(error) = result {
                let _ = (error.to_string(), error.kind());
            }
        }
    }
}

/// Decodes `data` with every element decoder.
///
/// # Panics
/// If encoding the result does not give the same bytes, for encodings that are one-to-one.
pub fn element_decoders(data: &[u8]) {
    let Some((&[width, n_bits], body)) = data.split_first_chunk() else {
        return;
    };
    wrong_lengths(usize::from(width), u32::from(n_bits), body);
    split_words(body);
    split_indexes(body);
    packed(1 + u32::from(n_bits) % 32, body);
}

/// Lengths and parameters that need not match: any result is accepted.
fn wrong_lengths(width: usize, n_bits: u32, body: &[u8]) {
    let _ = transpose::unsplit(body, width, &mut vec![0; body.len()]);
    let _ = zigzag::unsplit_zigzag(body, width, &mut vec![0; width]);
    let _ = delta::unsplit_delta_32(body, &mut vec![0; width]);
    let _ = bits::unpack_bools(body, &mut vec![0; width]);
    let _ = bits::unpack_u32(body, n_bits, &mut vec![0; width]);
    let _ = real::unpack_truncated(body, n_bits, &mut vec![0.0; width]);
    let _ = real::unpack_quantized(body, n_bits, f64::from(n_bits), 9.0, &mut vec![0.0; width]);
}

fn split_words(body: &[u8]) {
    for width in [2, 4, 8] {
        let src = body
            .get(..body.len() - body.len() % width)
            .unwrap_or_default();
        let (mut words, mut back) = (vec![0; src.len()], vec![0; src.len()]);
        let decoded = transpose::unsplit(src, width, &mut words)
            .and_then(|()| transpose::split(&words, width, &mut back));
        assert_eq!(
            (decoded, back.as_slice()),
            (Ok(()), src),
            "split of width {width}"
        );
        let decoded = zigzag::unsplit_zigzag(src, width, &mut words)
            .and_then(|()| zigzag::split_zigzag(&words, width, &mut back));
        assert_eq!(
            (decoded, back.as_slice()),
            (Ok(()), src),
            "zigzag of width {width}"
        );
    }
}

fn split_indexes(body: &[u8]) {
    for (width, decode, encode) in [
        (
            4,
            delta::unsplit_delta_32 as fn(&[u8], &mut [u64]) -> _,
            delta::split_delta_32 as fn(&[u64], &mut [u8]) -> _,
        ),
        (8, delta::unsplit_delta_64, delta::split_delta_64),
    ] {
        let src = body
            .get(..body.len() - body.len() % width)
            .unwrap_or_default();
        let (mut indexes, mut back) = (vec![0; src.len() / width], vec![0; src.len()]);
        let decoded = decode(src, &mut indexes).and_then(|()| encode(&indexes, &mut back));
        assert_eq!(
            (decoded, back.as_slice()),
            (Ok(()), src),
            "delta of width {width}"
        );
    }
}

fn packed(n_bits: u32, body: &[u8]) {
    let n = body.len() * 8 / n_bits as usize;
    let src = body
        .get(..(n * n_bits as usize).div_ceil(8))
        .unwrap_or_default();
    let (mut elements, mut again) = (vec![0; n], vec![1; n]);
    let mut back = vec![0; src.len()];
    let decoded = bits::unpack_u32(src, n_bits, &mut elements)
        .and_then(|()| bits::pack_u32(&elements, n_bits, &mut back))
        .and_then(|()| bits::unpack_u32(&back, n_bits, &mut again));
    assert_eq!((decoded, again), (Ok(()), elements), "{n_bits} bits");
    let mut bools = vec![0; body.len() * 8];
    let mut back = vec![0; body.len()];
    let decoded =
        bits::unpack_bools(body, &mut bools).and_then(|()| bits::pack_bools(&bools, &mut back));
    assert_eq!((decoded, back.as_slice()), (Ok(()), body), "bits");
    let src = body.get(..body.len() & !1).unwrap_or_default();
    let (mut reals, mut back) = (vec![0.0; src.len() / 2], vec![0; src.len()]);
    let decoded =
        real::half_to_f32(src, &mut reals).and_then(|()| real::f32_to_half(&reals, &mut back));
    assert_eq!((decoded, back.as_slice()), (Ok(()), src), "halfs");
}
