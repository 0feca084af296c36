//! A file whose values are changed and whose checksums are mended, opened and read.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((seed, file)) = data.split_first_chunk::<8>() else {
        return;
    };
    let mut mutator = femtobarn_testkit::Mutator::new(u64::from_le_bytes(*seed));
    femtobarn_rntuple::fuzz::whole_file(&mutator.ntuple(file));
});
