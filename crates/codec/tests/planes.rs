//! Pages of byte planes: they are decompressed to the same bytes, every record is smaller than its payload as ROOT
//! requires, and compression plane by plane is at most an eighth larger than compression as a whole.

#![expect(
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "tests may panic and know their values"
)]

use femtobarn_codec::{Compressor, Decompressor, RecordHeader};
use proptest::prelude::*;

/// The content of a plane.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Constant,
    Noise,
    /// Unevenly distributed, without repetitions.
    Skewed,
    /// A short sequence of bytes, repeated.
    Periodic,
    Text,
    /// Low bytes of numbers that grow by up to this amount each.
    Steps(u8),
    /// Zero, except one byte in so many.
    Sparse(u16),
    /// Zero, and one where a byte of `Sparse` is not zero.
    Flags(u16),
}

const KINDS: [Kind; 16] = [
    Kind::Constant,
    Kind::Noise,
    Kind::Skewed,
    Kind::Periodic,
    Kind::Text,
    Kind::Steps(4),
    Kind::Steps(10),
    Kind::Sparse(10),
    Kind::Sparse(30),
    Kind::Sparse(100),
    Kind::Sparse(400),
    Kind::Sparse(2000),
    Kind::Flags(10),
    Kind::Flags(30),
    Kind::Flags(100),
    Kind::Flags(2000),
];

fn plane(kind: Kind, n: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    let words = [
        b"muon ".as_slice(),
        b"electron ",
        b"jet ",
        b"photon ",
        b"tau ",
    ];
    let mut text = Vec::new();
    if matches!(kind, Kind::Text) {
        while text.len() < n {
            text.extend_from_slice(words[usize::from(random()) % words.len()]);
        }
    }
    let mut number = 0u8;
    (0..n)
        .map(|i| match kind {
            Kind::Constant => 0x3f,
            Kind::Noise => random(),
            Kind::Skewed => random().leading_zeros() as u8,
            Kind::Periodic => (i % 37) as u8,
            Kind::Text => text[i],
            Kind::Steps(most) => {
                number = number.wrapping_add(1 + random() % most);
                number
            }
            Kind::Sparse(n) | Kind::Flags(n) => {
                let at = u16::from(random()) << 8 | u16::from(random());
                match kind {
                    _ if at % n > 0 => 0,
                    Kind::Flags(_) => 1,
                    _ => random(),
                }
            }
        })
        .collect()
}

fn page(kinds: &[Kind], n: usize, seed: u64) -> Vec<u8> {
    let planes = kinds.iter().zip(seed..);
    planes
        .flat_map(|(kind, seed)| plane(*kind, n, seed))
        .collect()
}

/// Compresses a page, checks the records and the decompressed bytes; returns the size, or none if the page is
/// stored.
fn round_trip(settings: u32, n: usize, page: &[u8]) -> Option<usize> {
    let mut compressor = Compressor::new();
    let mut out = b"before".to_vec();
    let shrunk = compressor
        .compress_planes(settings, n, page, &mut out)
        .unwrap();
    let again = &mut Vec::new();
    assert_eq!(
        compressor.compress_planes(settings, n, page, again),
        Ok(shrunk)
    );
    let records = out.strip_prefix(b"before").unwrap();
    assert_eq!(records, again);
    if !shrunk {
        assert!(records.is_empty());
        return None;
    }
    assert!(records.len() < page.len());
    let mut rest = records;
    while !rest.is_empty() {
        let header = RecordHeader::parse(rest).unwrap();
        let size = RecordHeader::SIZE + header.compressed;
        assert!(
            size < header.uncompressed,
            "ROOT refuses a record that does not shrink"
        );
        rest = &rest[size..];
    }
    let mut back = vec![0; page.len()];
    Decompressor::new().decompress(records, &mut back).unwrap();
    assert!(back == page);
    Some(records.len())
}

fn whole(settings: u32, page: &[u8]) -> usize {
    let mut out = Vec::new();
    let shrunk = Compressor::new()
        .compress(settings, page, &mut out)
        .unwrap();
    if shrunk { out.len() } else { page.len() }
}

#[test]
fn every_pair_of_kinds_survives_and_is_about_as_small_as_the_whole() {
    for (n, levels) in [(6000, [1, 4, 5, 6, 9].as_slice()), (100_000, &[1, 5, 6])] {
        for &level in levels {
            for first in KINDS {
                for second in KINDS {
                    let page = page(&[first, second], n, u64::from(level));
                    let size = round_trip(500 + level, n, &page).unwrap_or(page.len());
                    let whole = whole(500 + level, &page);
                    let more = if level > 5 { whole / 20 } else { whole / 8 };
                    assert!(
                        size <= whole + more + 400,
                        "{level} {n} {first:?} {second:?}: {size}, whole {whole}"
                    );
                }
            }
        }
    }
}

#[test]
fn noise_is_stored_as_it_is_and_beside_other_planes_nothing_is_lost() {
    use Kind::{Constant, Noise, Skewed};
    let n = 20_000;
    assert_eq!(round_trip(505, n, &page(&[Noise; 4], n, 1)), None);
    for kinds in [
        [Noise, Noise, Noise, Skewed],
        [Skewed, Noise, Noise, Noise],
        [Noise, Skewed, Noise, Constant],
        [Constant, Noise, Constant, Noise],
    ] {
        let size = round_trip(505, n, &page(&kinds, n, 2)).unwrap();
        let stored = kinds.iter().filter(|kind| matches!(kind, Noise)).count() * n;
        let coded = kinds.iter().filter(|kind| matches!(kind, Skewed)).count() * n * 2 / 8;
        assert!(
            size < (stored + coded) * 102 / 100 + 200,
            "{kinds:?}: {size}"
        );
    }
}

#[test]
fn planes_that_are_the_same_are_stored_once() {
    let n = 100_000;
    for kind in [Kind::Noise, Kind::Skewed, Kind::Steps(4)] {
        let (one, other) = (plane(kind, n, 5), plane(kind, n, 6));
        for planes in [[&one, &one], [&one, &other]] {
            let page = [planes[0].as_slice(), &other, planes[1], &one].concat();
            for level in [1, 5, 6, 9] {
                let size = round_trip(500 + level, n, &page).unwrap();
                let whole = whole(500 + level, &page);
                assert!(size <= whole, "{level} {kind:?}: {size}, whole {whole}");
            }
        }
    }
}

#[test]
fn unevenly_distributed_planes_take_what_their_entropy_says() {
    // the leading zeros of random bytes have an entropy of just below two bits
    let n = 100_000;
    let size = round_trip(505, n, &page(&[Kind::Skewed], n, 3)).unwrap();
    assert!(size < n * 2 / 8 * 103 / 100, "{size}");
    assert!(size < whole(505, &page(&[Kind::Skewed], n, 3)));
}

#[test]
fn other_codecs_small_and_huge_pages_are_compressed_as_a_whole() {
    let mut compressor = Compressor::new();
    let data = page(&[Kind::Text, Kind::Skewed], 9 << 20, 4);
    for (settings, data) in [
        (101, &data[..100_000]),
        (404, &data[..100_000]),
        (505, &data[..1000]),
        (501, &data[..]),
        (0, &data[..5000]),
    ] {
        let (mut planes, mut plain) = (Vec::new(), Vec::new());
        let shrunk = compressor.compress_planes(settings, data.len() / 2, data, &mut planes);
        assert_eq!(shrunk, compressor.compress(settings, data, &mut plain));
        assert!(planes == plain, "{settings}");
    }
    assert!(
        compressor
            .compress_planes(601, 8, &data[..5000], &mut Vec::new())
            .is_err()
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn pages_survive(
        kinds in prop::collection::vec(prop::sample::select(KINDS.to_vec()), 1..=8),
        n in 1..9000usize,
        cut in 0..3usize,
        seed: u64,
        level in 1..=9u32,
    ) {
        // a page need not be a whole number of planes
        let mut page = page(&kinds, n, seed);
        page.truncate(page.len().saturating_sub(cut).max(1));
        round_trip(500 + level, n, &page);
    }
}
