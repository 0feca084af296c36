//! Decoders of column elements.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| femtobarn_codec::fuzz::element_decoders(data));
