//! Small files with every byte damaged in turn, and truncated everywhere.

use super::{bytes_of, open_bytes};
use crate::fuzz;

#[test]
fn a_cut_anywhere_is_an_error_and_never_a_panic() {
    for name in ["directories.root", "cycles.root", "empty.root"] {
        let bytes = bytes_of(name);
        let end = usize::try_from(open_bytes(bytes.clone()).unwrap().header().end).unwrap();
        for length in 0..end {
            let error = open_bytes(bytes[..length].to_vec()).unwrap_err();
            let cut = if length < 4 {
                "not-a-root-file"
            } else {
                "truncated-file"
            };
            assert_eq!(error.kind(), cut, "{name} cut at {length}: {error}");
        }
    }
}

#[test]
fn a_flipped_bit_anywhere_never_panics() {
    for name in ["directories.root", "elements.root"] {
        let mut bytes = bytes_of(name);
        for at in 0..bytes.len() {
            for bit in 0..8 {
                bytes[at] ^= 1 << bit;
                fuzz::container(&bytes);
                bytes[at] ^= 1 << bit;
            }
        }
    }
}

#[test]
fn extreme_values_anywhere_never_panic() {
    for name in [
        "directories.root",
        "elements.root",
        "objects_lz4.root",
        "cycles.root",
    ] {
        let mut bytes = bytes_of(name);
        for at in 0..bytes.len() - 4 {
            let kept: [u8; 4] = bytes[at..at + 4].try_into().unwrap();
            for value in [0, 1, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF_u32] {
                bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
                fuzz::container(&bytes);
            }
            bytes[at..at + 4].copy_from_slice(&kept);
        }
    }
}

#[test]
fn zeros_anywhere_never_panic() {
    let bytes = bytes_of("directories.root");
    for at in (0..bytes.len()).step_by(16) {
        let mut holed = bytes.clone();
        let end = bytes.len().min(at + 64);
        holed[at..end].fill(0);
        fuzz::container(&holed);
    }
}
