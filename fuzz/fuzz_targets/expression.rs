//! Strings parsed and evaluated as expressions.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| femtobarn::expression::fuzz::expression(data));
