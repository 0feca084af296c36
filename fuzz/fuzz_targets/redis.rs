//! What a server of Redis may send.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| femtobarn_redis::fuzz::replies(data));
