//! Decoders of column elements.
#![no_main]
#![allow(dead_code, reason = "bodies of other targets")]

#[path = "../bodies/codec.rs"]
mod codec;

libfuzzer_sys::fuzz_target!(|data: &[u8]| codec::element_decoders(data));
