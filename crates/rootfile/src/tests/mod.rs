//! Tests of the whole crate. `testdata/container` has files written by ROOT
//! (`testdata/make_container.py`). Malicious and very large files are made here.

mod builder;
mod costs;
mod faults;
mod find;
mod goldens;
mod hostile;
mod shared_data;
mod widths;

use std::path::{Path, PathBuf};

use femtobarn_io::{LocalSource, MemorySource};

use crate::RootFile;

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../testdata/container")
        .join(name)
}

fn open(name: &str) -> RootFile {
    RootFile::open(LocalSource::open(&testdata(name)).unwrap()).unwrap()
}

fn bytes_of(name: &str) -> Vec<u8> {
    std::fs::read(testdata(name)).unwrap()
}

fn open_bytes(bytes: Vec<u8>) -> Result<RootFile, crate::RootFileError> {
    RootFile::open(MemorySource::new("mem:test", bytes))
}
mod writing;
