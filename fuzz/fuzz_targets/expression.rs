//! Texts as expressions, parsed and evaluated.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| femtobarn::expression::fuzz::expression(data));
