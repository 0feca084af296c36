//! Anchor, header, footer and page lists.
#![no_main]
#![allow(dead_code, reason = "bodies of other targets")]

#[path = "../bodies/rntuple.rs"]
mod rntuple;

libfuzzer_sys::fuzz_target!(|data: &[u8]| rntuple::envelopes(data));
