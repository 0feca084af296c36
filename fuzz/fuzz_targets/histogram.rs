//! Whole files with histograms and other objects.
#![no_main]

#[path = "../bodies/histogram.rs"]
mod histogram;

libfuzzer_sys::fuzz_target!(|data: &[u8]| histogram::histogram(data));
