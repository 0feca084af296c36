//! Anchor, header, footer and page lists.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| femtobarn_rntuple::fuzz::envelopes(data));
