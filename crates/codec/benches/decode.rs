//! Speed of the decoders, in GB/s of decoded bytes, and as a ratio to `memcpy` in the same run.
//!
//! The source is one page of 1 MiB that stays in the cache, like a page that was just decompressed. The target is newly
//! allocated memory (`fresh`: page faults count), memory that was written before and exceeds the caches (`used`), or the
//! same page again and again (`cached`).
//!
//! Run: `cargo bench -p femtobarn-codec`; arguments after `--` select benchmarks by parts of their names. With
//! `GLIBC_TUNABLES=glibc.malloc.hugetlb=1` huge pages are requested for fresh memory.
#![expect(clippy::expect_used, reason = "a benchmark may panic")]

use std::hint::black_box;
use std::time::Instant;

use femtobarn_codec::{
    CodecError, Compressor, Decompressor, bits, delta, real, transpose, xxh3, zigzag,
};

/// Bytes of encoded source.
const PAGE: usize = 1 << 20;

/// Bytes of target.
const TARGET: usize = 256 << 20;

/// Number of runs; the fastest counts.
const RUNS: usize = 5;

type Decoded = Result<(), CodecError>;

fn main() {
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let page = noise(PAGE);
    let words = page.len() / 8;
    println!(
        "{:28} {:>8} {:>7} {:>8} {:>7} {:>8}",
        "GB/s, and ratio to memcpy", "fresh", "", "used", "", "cached"
    );
    let base = row("memcpy", PAGE, &[1.0; 3], |dst: &mut [u8]| {
        dst.copy_from_slice(&page);
        Ok(())
    });
    for width in [2, 4, 8] {
        row(
            &format!("unsplit {width}"),
            PAGE,
            &base,
            |dst: &mut [u8]| transpose::unsplit(&page, width, dst),
        );
        row(
            &format!("unsplit_zigzag {width}"),
            PAGE,
            &base,
            |dst: &mut [u8]| zigzag::unsplit_zigzag(&page, width, dst),
        );
    }
    row("unsplit_delta_32", 2 * words, &base, |dst: &mut [u64]| {
        delta::unsplit_delta_32(&page, dst)
    });
    row("unsplit_delta_64", words, &base, |dst: &mut [u64]| {
        delta::unsplit_delta_64(&page, dst)
    });
    row("unpack_bools", PAGE, &base, |dst: &mut [u8]| {
        bits::unpack_bools(page.get(..PAGE / 8).unwrap_or_default(), dst)
    });
    row("half_to_f32", PAGE / 2, &base, |dst: &mut [f32]| {
        real::half_to_f32(&page, dst)
    });
    for n_bits in [8, 12, 16, 27, 31, 32] {
        let src = packed(&page, n_bits);
        row(
            &format!("unpack_u32 {n_bits}"),
            PAGE / 4,
            &base,
            |dst: &mut [u32]| bits::unpack_u32(src, n_bits, dst),
        );
    }
    for n_bits in [12, 20, 31] {
        let src = packed(&page, n_bits);
        row(
            &format!("unpack_truncated {n_bits}"),
            PAGE / 4,
            &base,
            |dst: &mut [f32]| real::unpack_truncated(src, n_bits, dst),
        );
        row(
            &format!("unpack_quantized {n_bits}"),
            PAGE / 4,
            &base,
            |dst: &mut [f32]| real::unpack_quantized(src, n_bits, -1.0, 1.0, dst),
        );
    }
    row("split 4", PAGE, &base, |dst: &mut [u8]| {
        transpose::split(&page, 4, dst)
    });
    row("split 8", PAGE, &base, |dst: &mut [u8]| {
        transpose::split(&page, 8, dst)
    });
    row("xxh3 (bytes read)", PAGE, &base, |_: &mut [u8]| {
        black_box(xxh3(&page));
        Ok(())
    });
    compression(&base);
}

/// Split floats, like a page of floats.
fn compression(base: &[f64; 3]) {
    let reals: Vec<u8> = (0..PAGE / 4)
        .flat_map(|i| ((i as f32).sqrt() * 0.25).to_le_bytes())
        .collect();
    let mut data = vec![0; PAGE];
    transpose::split(&reals, 4, &mut data).expect("lengths fit");
    let mut decompressor = Decompressor::new();
    for settings in [101, 207, 301, 404, 505] {
        let mut records = Vec::new();
        let shrunk = Compressor::new()
            .compress(settings, &data, &mut records)
            .expect("settings are known");
        let name = format!(
            "{} ({} %)",
            femtobarn_codec::settings_name(settings),
            records.len() * 100 / PAGE
        );
        assert!(shrunk, "{name}");
        row(&name, PAGE, base, |dst: &mut [u8]| {
            decompressor.decompress(&records, dst)
        });
    }
}

/// Prints the speed of a decoder for pages of `n` elements.
fn row<T: Copy + Default>(
    name: &str,
    n: usize,
    base: &[f64; 3],
    mut decode: impl FnMut(&mut [T]) -> Decoded,
) -> [f64; 3] {
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    if name != "memcpy" && !wanted.is_empty() && !wanted.iter().any(|part| name.contains(part)) {
        return *base;
    }
    let n_pages = TARGET / size_of::<T>() / n;
    let mut best = [f64::INFINITY; 3];
    let measure = |decode: &mut dyn FnMut(usize), seconds: &mut f64| {
        let start = Instant::now();
        (0..n_pages).for_each(decode);
        *seconds = seconds.min(start.elapsed().as_secs_f64());
    };
    for _ in 0..RUNS {
        // memory zeroed by the system: no page is touched before the decoder writes to it
        let mut target = vec![T::default(); n_pages * n + 64];
        let skip = target.as_ptr().align_offset(64);
        let [fresh, used, cached] = &mut best;
        let mut page = |index: usize| {
            let page = target
                .get_mut(skip + index * n..skip + (index + 1) * n)
                .unwrap_or_default();
            decode(page).expect("lengths fit");
            black_box(page);
        };
        measure(&mut page, fresh);
        measure(&mut page, used);
        measure(&mut |_| page(0), cached);
    }
    let speeds = best.map(|seconds| (n_pages * n * size_of::<T>()) as f64 / seconds / 1e9);
    print!("{name:28}");
    for (speed, base) in speeds.iter().zip(base) {
        print!(" {speed:8.2} {:7.2}", speed / base);
    }
    println!();
    speeds
}

/// The part of a page that encodes one page of target.
fn packed(page: &[u8], n_bits: u32) -> &[u8] {
    page.get(..PAGE / 4 * n_bits as usize / 8)
        .unwrap_or_default()
}

fn noise(n: usize) -> Vec<u8> {
    let mut state = 1u64;
    let next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state.to_be_bytes().first().copied().unwrap_or_default()
    };
    std::iter::repeat_with(next).take(n).collect()
}
