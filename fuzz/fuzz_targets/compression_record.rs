//! Compression records of every algorithm.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| femtobarn_codec::fuzz::compression_record(data));
