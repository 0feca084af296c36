//! Shared parts of the tests: the test files, their ntuples, and sources to read them.
#![allow(dead_code, reason = "each test uses its own part")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "tests"
)]

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use bytes::Bytes;
use femtobarn::convert::Input;
use femtobarn::io::{ByteSource, IoError, MemorySource, RecordSource, SourceCost, SourceInfo};
use femtobarn::merge::{MergeOptions, MergeReport, merge};
use femtobarn::{Error, NTuple, OpenOptions, ReadOptions};

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file as input of an operation.
pub fn input(path: &Path) -> Input {
    Input {
        url: path.to_str().unwrap().to_owned(),
        ..Input::default()
    }
}

pub fn dimuon() -> Input {
    input(&root().join("testdata/dimuon.root"))
}

/// Merges without progress callbacks.
pub fn merged(
    inputs: &[Input],
    output: &Path,
    options: &MergeOptions,
) -> Result<MergeReport, Error> {
    merge(inputs, output, options, &|_| true)
}

/// Options of a merge that proves its output.
pub fn verified() -> MergeOptions {
    MergeOptions {
        verify: true,
        ..MergeOptions::default()
    }
}

/// A source with latency: several reads in flight, of the sizes that `cost` says.
#[derive(Debug)]
pub struct Distant {
    pub memory: Arc<MemorySource>,
    pub cost: SourceCost,
}

impl ByteSource for Distant {
    fn info(&self) -> SourceInfo<'_> {
        SourceInfo::new(self.memory.url(), self.memory.meta(), self.cost)
    }

    fn inner(&self) -> Option<&dyn ByteSource> {
        None
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, IoError> {
        let is_small = |range: &Range<u64>| range.end - range.start < 1 << 20;
        assert!(ranges.len() <= self.cost.most_ranges || ranges.iter().all(is_small));
        std::thread::yield_now();
        self.memory.read_ranges(ranges)
    }
}

/// The path of a file of real data. If the directory of real data does not exist, prints a message and returns none.
pub fn shared(name: &str) -> Option<PathBuf> {
    let path = root().join("../shared/data").join(name);
    if path.exists() {
        return Some(path);
    }
    assert!(
        std::env::var_os("FEMTOBARN_REQUIRE_ALL").is_none(),
        "{} is missing",
        path.display()
    );
    eprintln!("skipped: {} is not there", path.display());
    None
}

/// Every readable ROOT file in testdata/ that our scripts made.
pub fn test_files() -> Vec<PathBuf> {
    let folder = root().join("testdata/rntuple");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    let refused = |path: &Path| {
        path.file_name()
            .is_some_and(|name| name == "unknown_flag.root")
    };
    files.retain(|path| path.extension().is_some_and(|e| e == "root") && !refused(path));
    files.push(root().join("testdata/dimuon.root"));
    files.sort();
    files
}

/// Every ntuple in a file, by path and cycle.
pub fn ntuples_in(file: &Path) -> Vec<(String, NTuple)> {
    ntuples_of(MemorySource::new(
        file.to_str().unwrap(),
        std::fs::read(file).unwrap(),
    ))
}

pub fn ntuples_of(source: Arc<dyn ByteSource>) -> Vec<(String, NTuple)> {
    let file = femtobarn::rootfile::RootFile::open(source.clone()).unwrap();
    let entries = file.walk().unwrap();
    let ours = entries
        .into_iter()
        .filter(|entry| entry.key.class_name == femtobarn::RNTUPLE_CLASS);
    let open = |entry: femtobarn::rootfile::Entry| {
        let path = entry.path.split(';').next().unwrap().to_owned();
        let path = format!("{path};{}", entry.key.cycle);
        let ntuple = NTuple::open_source(source.clone(), Some(&path), OpenOptions::default());
        (
            path.clone(),
            ntuple.unwrap_or_else(|error| panic!("{} {path}: {error}", source.url())),
        )
    };
    ours.map(open).collect()
}

/// Every readable ntuple of the test files, with a name for messages.
pub fn all_ntuples() -> Vec<(String, NTuple)> {
    let named = |file: &PathBuf| {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        ntuples_in(file)
            .into_iter()
            .map(move |(path, ntuple)| (format!("{name}:{path}"), ntuple))
            .collect::<Vec<_>>()
    };
    test_files().iter().flat_map(named).collect()
}

pub fn read(ntuple: &NTuple, paths: Option<&[String]>, start: u64, stop: u64) -> RecordBatch {
    read_with(ntuple, paths, start, stop, &ReadOptions::default())
}

pub fn read_with(
    ntuple: &NTuple,
    paths: Option<&[String]>,
    start: u64,
    stop: u64,
    options: &ReadOptions<'_>,
) -> RecordBatch {
    let selection = ntuple.select(paths).unwrap();
    ntuple
        .read(&selection, start..stop, options)
        .unwrap()
        .to_arrow()
        .unwrap()
}

pub fn top_level(ntuple: &NTuple) -> Vec<String> {
    let descriptor = ntuple.readers()[0].descriptor();
    descriptor
        .top_level
        .iter()
        .map(|&id| descriptor.field_name(id).to_owned())
        .collect()
}

pub fn recorded(file: &Path) -> Arc<RecordSource> {
    RecordSource::new(MemorySource::new(
        file.to_str().unwrap(),
        std::fs::read(file).unwrap(),
    ))
}

/// Small pseudo-random numbers, the same for each seed.
pub fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |below| {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        if below == 0 { 0 } else { (state >> 33) % below }
    }
}
