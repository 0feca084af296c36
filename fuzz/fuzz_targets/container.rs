//! The TFile container.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| femtobarn_rootfile::fuzz::container(data));
