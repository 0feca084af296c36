//! Changes chosen by the fuzzer in ntuples, trees, histograms and tables, with corrected checksums: all operations on
//! files.
#![no_main]

#[path = "../../crates/femtobarn/tests/operations/mod.rs"]
mod operations;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use operations::{Subjects, check_one, subjects};

/// The files to change, and a directory for output.
static SUBJECTS: LazyLock<(Subjects, PathBuf)> = LazyLock::new(|| {
    let own = format!("femtobarn-hostile-{}", std::process::id());
    let folder = std::env::temp_dir().join(own);
    std::fs::create_dir_all(&folder).unwrap();
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata");
    (subjects(&testdata, &folder), folder)
});

libfuzzer_sys::fuzz_target!(|choices: &[u8]| {
    let (subjects, folder) = &*SUBJECTS;
    let mut mutator = femtobarn_testkit::Mutator::with_choices(choices);
    check_one(&mut mutator, subjects, folder, |_| {});
});
