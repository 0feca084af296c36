//! Answers of an XRootD server.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| femtobarn_xrootd::fuzz::answers(data));
