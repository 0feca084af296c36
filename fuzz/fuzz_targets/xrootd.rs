//! What a server of XRootD may send.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| femtobarn_xrootd::fuzz::answers(data));
