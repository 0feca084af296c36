//! A whole file, opened and read.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| femtobarn_rntuple::fuzz::whole_file(data));
