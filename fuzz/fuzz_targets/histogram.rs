//! Whole files with histograms and other objects.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| femtobarn_histogram::fuzz::histogram(data));
