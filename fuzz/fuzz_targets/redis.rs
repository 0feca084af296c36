//! Replies of a Redis server.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| femtobarn_redis::fuzz::replies(data));
