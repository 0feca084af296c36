//! Values of a basket.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| femtobarn_ttree::fuzz::basket(data));
