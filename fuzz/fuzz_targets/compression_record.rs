//! Compression records of every algorithm.
#![no_main]
#![allow(dead_code, reason = "bodies of other targets")]

#[path = "../bodies/codec.rs"]
mod codec;

libfuzzer_sys::fuzz_target!(|data: &[u8]| codec::compression_record(data));
