//! Damaged files: every read fails or returns the correct values.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "tests"
)]

mod common;

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};

use arrow_array::RecordBatch;
use bytes::Bytes;
use common::{random, root};
use femtobarn::io::{ByteSource, IoError, MemorySource, SourceInfo};
use femtobarn::{Error, NTuple, OpenOptions, ReadOptions};

fn read_all(bytes: Vec<u8>, path: Option<&str>) -> Result<RecordBatch, Error> {
    let ntuple = NTuple::open_source(
        MemorySource::new("damaged.root", bytes),
        path,
        OpenOptions::default(),
    )?;
    let selection = ntuple.select(None)?;
    let arrays = ntuple.read(&selection, 0..ntuple.n_entries(), &ReadOptions::default())?;
    Ok(arrays.to_arrow().unwrap())
}

/// A file to damage: its name, its content, and the values of the intact file.
struct Subject {
    name: String,
    ntuple: Option<&'static str>,
    bytes: Vec<u8>,
    truth: RecordBatch,
}

impl Subject {
    fn new(file: &Path, ntuple: Option<&'static str>) -> Self {
        let bytes = std::fs::read(file).unwrap();
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let truth = read_all(bytes.clone(), ntuple).unwrap();
        Self {
            name,
            ntuple,
            bytes,
            truth,
        }
    }

    /// Whether the damage is detected; if not, the values must be correct.
    fn is_noticed(&self, change: &str, damaged: Vec<u8>) -> bool {
        match read_all(damaged, self.ntuple) {
            Ok(batch) => {
                assert_eq!(
                    batch, self.truth,
                    "{}: {change} gave other values",
                    self.name
                );
                false
            }
            Err(error) => {
                assert!(!error.to_string().is_empty() && !error.kind().is_empty());
                true
            }
        }
    }
}

/// Our own files, one per codec, and real ones if available.
fn subjects() -> Vec<Subject> {
    let own = ["zstd", "lz4", "zlib", "lzma", "none"].map(|codec| {
        let file = root().join(format!("testdata/rntuple/mixed_{codec}.root"));
        Subject::new(&file, Some("mixed"))
    });
    let mut subjects = Vec::from(own);
    if let Some(folder) = common::shared("rntuple") {
        let files = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let files = files.filter(|file| file.extension().is_some_and(|e| e == "root"));
        subjects.extend(files.map(|file| Subject::new(&file, None)));
    }
    subjects
}

#[test]
fn flipped_bytes_give_an_error_or_the_true_values() {
    for subject in subjects() {
        let mut random = random(3);
        let trials = 300;
        let mut noticed = 0;
        for _ in 0..trials {
            let at = random(subject.bytes.len() as u64) as usize;
            let bit = 1 << random(8);
            let mut damaged = subject.bytes.clone();
            damaged[at] ^= bit;
            let change = format!("bit {bit:#x} at {at}");
            noticed += u32::from(subject.is_noticed(&change, damaged));
        }
        // most of a file is data and metadata with checksums; the rest are key headers, gaps, and streamer
        // information
        let name = &subject.name;
        assert!(
            noticed > trials / 8,
            "{name}: only {noticed} of {trials} flips were noticed"
        );
    }
}

#[test]
fn overwritten_runs_give_an_error_or_the_true_values() {
    for subject in subjects() {
        let mut random = random(5);
        for fill in [0x00, 0xff, 0x7f] {
            for _ in 0..60 {
                let at = random(subject.bytes.len() as u64) as usize;
                let end = (at + 1 + random(300) as usize).min(subject.bytes.len());
                let mut damaged = subject.bytes.clone();
                damaged[at..end].fill(fill);
                subject.is_noticed(&format!("{fill:#x} in {at}..{end}"), damaged);
            }
        }
    }
}

#[test]
fn truncated_files_give_an_error() {
    for subject in subjects() {
        let bytes = &subject.bytes;
        for n in (0..bytes.len()).step_by(bytes.len() / 150 + 1) {
            subject.is_noticed(&format!("cut to {n} bytes"), bytes[..n].to_vec());
        }
        assert!(subject.is_noticed("cut in half", bytes[..bytes.len() / 2].to_vec()));
    }
}

#[test]
fn errors_name_file_offset_expected_and_found() {
    let file = root().join("testdata/rntuple/mixed_zstd.root");
    let mut bytes = std::fs::read(&file).unwrap();
    let ntuple = common::ntuples_in(&file).remove(0).1;
    let page = ntuple.readers()[0].page_lists(0..1).unwrap()[0]
        .1
        .all_pages()[0];
    bytes[page.body.address.offset() as usize + 1] ^= 0x10;
    let error = read_all(bytes.clone(), Some("mixed")).unwrap_err();
    assert_eq!(error.kind(), "page-checksum");
    let text = error.to_string();
    for part in [
        "damaged.root",
        &format!("offset {}", page.body.address.offset()),
        "expected 0x",
        "found 0x",
        "cluster 0",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
    // verification finds it as well, and continues
    let ntuple = NTuple::open_source(
        MemorySource::new("damaged.root", bytes),
        Some("mixed"),
        OpenOptions::default(),
    )
    .unwrap();
    let reports = ntuple.verify(2, None).unwrap();
    let damaged: Vec<u64> = reports[0]
        .damages
        .iter()
        .map(|damage| damage.address.offset())
        .collect();
    assert!(
        !damaged.is_empty()
            && damaged
                .iter()
                .all(|&offset| offset == page.body.address.offset())
    );
}

#[test]
fn checksums_can_be_left_unverified() {
    let file = root().join("testdata/rntuple/mixed_none.root");
    let mut bytes = std::fs::read(&file).unwrap();
    let ntuple = common::ntuples_in(&file).remove(0).1;
    let list = ntuple.readers()[0].page_lists(0..1).unwrap()[0].1.clone();
    let page = list
        .all_pages()
        .iter()
        .find(|page| page.has_checksum)
        .unwrap();
    bytes[(page.body.address.offset() + page.body.size) as usize] ^= 1;
    assert_eq!(
        read_all(bytes.clone(), Some("mixed")).unwrap_err().kind(),
        "page-checksum"
    );
    let mut options = OpenOptions::default();
    options.reader.verify_checksums = false;
    let ntuple = NTuple::open_source(
        MemorySource::new("damaged.root", bytes),
        Some("mixed"),
        options,
    )
    .unwrap();
    let selection = ntuple.select(None).unwrap();
    assert!(
        ntuple
            .read(&selection, 0..ntuple.n_entries(), &ReadOptions::default())
            .is_ok()
    );
}

#[test]
fn unknown_feature_flags_are_refused_by_number() {
    let bytes = std::fs::read(root().join("testdata/rntuple/unknown_flag.root")).unwrap();
    let error = NTuple::open_source(
        MemorySource::new("new.root", bytes),
        None,
        OpenOptions::default(),
    )
    .unwrap_err();
    assert_eq!(error.kind(), "unknown-feature");
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("bit 137"), "{source}");
}

/// A source with two copies: if bytes of the first are rejected, the second is read.
#[derive(Debug)]
struct TwoCopies {
    copies: [Arc<MemorySource>; 2],
    rejected: Mutex<Vec<Range<u64>>>,
}

impl TwoCopies {
    fn new(first: Vec<u8>, second: Vec<u8>) -> Arc<Self> {
        Arc::new(Self {
            copies: [first, second].map(|bytes| MemorySource::new("copies.root", bytes)),
            rejected: Mutex::default(),
        })
    }
}

impl ByteSource for TwoCopies {
    fn info(&self) -> SourceInfo<'_> {
        // threads that wait, as for servers
        let mut info = self.copies[0].info();
        info.cost.concurrency = 2;
        info
    }

    fn inner(&self) -> Option<&dyn ByteSource> {
        None
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, IoError> {
        let rejected = self.rejected.lock().unwrap();
        let read = |range: &Range<u64>| {
            let copy = |n: usize, range: Range<u64>| self.copies[n].read_ranges(&[range]);
            let mut bytes = copy(0, range.clone())?.remove(0).to_vec();
            for other in rejected.iter() {
                let part = range.start.max(other.start)..range.end.min(other.end);
                if part.start < part.end {
                    let at = (part.start - range.start) as usize;
                    let found = copy(1, part)?.remove(0);
                    bytes[at..at + found.len()].copy_from_slice(&found);
                }
            }
            Ok(Bytes::from(bytes))
        };
        ranges.iter().map(read).collect()
    }

    fn reject(&self, range: &Range<u64>, _: bool) -> bool {
        self.rejected.lock().unwrap().push(range.clone());
        true
    }
}

#[test]
fn damaged_bytes_are_read_again_where_another_copy_exists() {
    let files = [
        "rntuple/mixed_zstd.root",
        "rntuple/mixed_none.root",
        "ttree/leaves_lz4.root",
    ];
    for file in files.map(|file| root().join("testdata").join(file)) {
        let good = std::fs::read(&file).unwrap();
        let read = |source: Arc<dyn ByteSource>| {
            let ntuple = NTuple::open_source(source, None, OpenOptions::default())?;
            let selection = ntuple.select(None)?;
            let options = ReadOptions::default();
            let arrays = ntuple.read(&selection, 0..ntuple.n_entries(), &options)?;
            Ok::<_, Error>(arrays.to_arrow().unwrap())
        };
        let truth = read(TwoCopies::new(good.clone(), Vec::new())).unwrap();
        // all of the second half is damaged, or all but the beginning, or one byte in each block
        for (from, step) in [(good.len() / 2, 1), (300, 1), (0, 997)] {
            let mut bad = good.clone();
            for at in (from..bad.len()).step_by(step) {
                bad[at] ^= 0x5a;
            }
            let source = TwoCopies::new(bad.clone(), good.clone());
            assert_eq!(
                read(source.clone()).unwrap(),
                truth,
                "{} {from} {step}",
                file.display()
            );
            assert!(!source.rejected.lock().unwrap().is_empty());
            read(TwoCopies::new(bad.clone(), bad)).unwrap_err();
        }
    }
}
