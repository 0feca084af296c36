//! Whole files with trees.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| femtobarn_ttree::fuzz::tree(data));
