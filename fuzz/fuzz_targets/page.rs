//! Pages of every column type.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| femtobarn_rntuple::fuzz::page(data));
