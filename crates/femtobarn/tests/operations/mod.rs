//! Operations on malicious files, for tests and a fuzz target: opening, verifying, reading, iterating, and making other
//! files. They end soon, in bounded memory, with a result or an error. A file that passes verification can be read.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use femtobarn::convert::{ConvertOptions, Input, Replace, convert};
use femtobarn::io::MemorySource;
use femtobarn::merge::{Entries, Level, MergeOptions, merge};
use femtobarn::{Error, NTuple, OpenOptions, ReadOptions, Steps, StepsOptions};
use femtobarn_testkit::Mutator;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::{WriterProperties, WriterVersion};

const LONGEST: Duration = Duration::from_secs(5);
const MOST_WAITING: Duration = Duration::from_secs(60);
const MOST_KIB: u64 = 1 << 20;
/// Maximum number of steps of an iteration.
const MOST_STEPS: u64 = 100;

pub fn input(path: &Path) -> Input {
    Input {
        url: path.to_str().unwrap().to_owned(),
        ..Input::default()
    }
}

/// A number in kB that the kernel reports for this process.
fn kib(name: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// CPU time of this process, which does not depend on other load.
fn processor_time() -> Duration {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // after the name, which may contain spaces: state, ten numbers, then user and system time in hundredths
    let fields = text.rsplit(')').next().unwrap_or_default();
    let hundredths = fields.split_whitespace().skip(11).take(2);
    let hundredths = hundredths.map(|text| text.parse::<u64>().unwrap_or(0));
    Duration::from_millis(10 * hundredths.sum::<u64>())
}

/// Runs an operation on a malicious file, and checks its time and memory.
pub fn bounded<T>(what: &str, work: impl FnOnce() -> T) -> T {
    // time and memory are measured for the process
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock();
    // resets the peak
    let _ = fs::write("/proc/self/clear_refs", "5");
    let (start, from, before) = (Instant::now(), processor_time(), kib("VmRSS:"));
    let out = work();
    let (took, waited, peak) = (processor_time() - from, start.elapsed(), kib("VmHWM:"));
    assert!(took < LONGEST, "{what} took {took:?}");
    assert!(waited < MOST_WAITING, "{what} hung for {waited:?}");
    if let Some((before, peak)) = before.zip(peak) {
        let more = peak.saturating_sub(before);
        assert!(more < MOST_KIB, "{what} took {more} KiB");
    }
    out
}

pub fn open(bytes: &[u8]) -> Result<NTuple, Error> {
    let source = MemorySource::new("hostile.root", bytes.to_vec());
    NTuple::open_source(source, None, OpenOptions::default())
}

/// The entries of a range; `None` if Arrow cannot represent them, such as strings that are not UTF-8.
pub fn read(ntuple: &NTuple, from: u64, to: u64) -> Result<Option<RecordBatch>, Error> {
    let arrays = ntuple.read(&ntuple.select(None)?, from..to, &ReadOptions::default())?;
    Ok(arrays.to_arrow().ok())
}

/// Checks what must hold for any ntuple or tree. Returns whether verification calls it good.
fn check_root(bytes: &[u8], name: &str) -> bool {
    let Ok(ntuple) = bounded(&format!("{name}: opening"), || open(bytes)) else {
        return false;
    };
    let n = ntuple.n_entries();
    let verified = bounded(&format!("{name}: verifying"), || ntuple.verify(1, None));
    let whole = bounded(&format!("{name}: reading"), || read(&ntuple, 0, n));
    let is_good = verified.is_ok_and(|reports| {
        let good = |report: &femtobarn::VerifyReport| {
            report.damages.is_empty() && report.not_checked.is_empty()
        };
        reports.iter().all(good)
    });
    match &whole {
        Err(error) => assert!(!is_good, "{name} is good, and cannot be read: {error}"),
        Ok(None) => {}
        Ok(Some(whole)) => {
            let at = |entry: u64| usize::try_from(entry).unwrap();
            bounded(&format!("{name}: reading in pieces"), || {
                for (from, to) in [(0, n / 3), (n / 3, n - n / 5), (n - n / 5, n)] {
                    // a part of a column that was added later below a variant is rejected
                    if let Ok(Some(piece)) = read(&ntuple, from, to) {
                        assert_eq!(piece, whole.slice(at(from), at(to - from)), "{name}");
                    }
                }
            });
        }
    }
    let iterated = bounded(&format!("{name}: iterating"), || iterate(ntuple));
    insist(is_good, &format!("{name}: iterating"), iterated);
    is_good
}

/// Checks that operations succeed on a file that verification calls good, except if the output does not support the data:
/// variants in Parquet, names with control characters, shared blocks, pages of columns that begin late, objects of
/// unknown classes. Attribute sets are separate ntuples, and not verified here.
fn insist<T>(is_good: bool, what: &str, done: Result<T, Error>) {
    let Err(error) = done else { return };
    let text = error.with_causes();
    let is_limit = match error.kind() {
        "unwritable-field" => !text.contains("its structure is not supported for writing"),
        "usage" => {
            let limits = [
                "attribute set",
                "cannot share blocks",
                "use level auto or L4",
                "others=",
            ];
            limits.iter().any(|limit| text.contains(limit))
        }
        _ => false,
    };
    assert!(is_limit || !is_good, "{what}: {}: {text}", error.kind());
}

/// Reads in small steps, like an iteration.
fn iterate(ntuple: NTuple) -> Result<(), Error> {
    let (n, selection) = (ntuple.n_entries(), ntuple.select(None)?);
    let options = StepsOptions {
        step: n.div_ceil(MOST_STEPS),
        ..StepsOptions::default()
    };
    let steps = Steps::new(Arc::new(ntuple), selection, 0..n, options);
    steps.into_iter().try_for_each(|step| step.map(drop))
}

/// All operations that make another file. They succeed if the file is good.
fn check_outputs(path: &Path, folder: &Path, name: &str, is_good: bool) {
    for output in ["out.root", "out.parquet", "out.arrow"] {
        let options = ConvertOptions {
            replace: Replace::Anything,
            verify: is_good,
            ..ConvertOptions::default()
        };
        let what = format!("{name}: converting into {output}");
        let done = bounded(&what, || {
            convert(&[input(path)], &folder.join(output), &options, &|_| true)
        });
        insist(is_good, &what, done);
    }
    if path.extension().is_none_or(|extension| extension != "root") {
        return;
    }
    for (what, level, stop) in [
        ("merging", Level::Auto, None),
        ("merging at L0", Level::L0, None),
        ("merging at L1", Level::L1, None),
        ("merging at L2", Level::L2, None),
        ("merging at L3", Level::L3, None),
        ("rebuilding", Level::L4, None),
        ("cloning three entries", Level::L4, Some(3)),
    ] {
        let mut options = MergeOptions {
            level,
            compression: (level == Level::L2).then_some(505),
            overwrite: true,
            // the output is compared with the input
            verify: is_good && stop.is_none(),
            ..MergeOptions::default()
        };
        if stop.is_some() {
            options.entries = Entries::Slice { start: None, stop };
        }
        let (what, output) = (format!("{name}: {what}"), folder.join("merged.root"));
        let done = bounded(&what, || {
            merge(&[input(path)], &output, &options, &|_| true)
        });
        insist(is_good, &what, done);
    }
}

/// Files to change, with their contents.
pub type Subjects = Vec<(PathBuf, Vec<u8>)>;

/// Files to change: ntuples, trees and histograms in `testdata`, and tables made of ntuples in `folder`.
pub fn subjects(testdata: &Path, folder: &Path) -> Subjects {
    let mut files = vec![testdata.join("histograms.root")];
    for kind in ["rntuple", "ttree"] {
        let found = fs::read_dir(testdata.join(kind)).unwrap();
        files.extend(found.map(|entry| entry.unwrap().path()));
    }
    files.retain(|path| path.extension().is_some_and(|e| e == "root"));
    files.retain(|path| fs::metadata(path).is_ok_and(|meta| meta.len() < 200_000));
    files.sort();
    for name in ["mixed_zstd", "lists", "associative", "encodings"] {
        let given = testdata.join(format!("rntuple/{name}.root"));
        for kind in ["parquet", "arrow"] {
            let path = folder.join(format!("{name}.{kind}"));
            if convert(&[input(&given)], &path, &ConvertOptions::default(), &|_| {
                true
            })
            .is_ok()
            {
                // as many tables as other files
                files.extend(std::iter::repeat_n(path, 4));
            }
        }
    }
    for (name, properties) in parquet_properties() {
        let path = folder.join(format!("{name}.parquet"));
        write_parquet(&testdata.join("rntuple/lists.root"), &path, properties);
        files.extend(std::iter::repeat_n(path, 4));
    }
    files
        .into_iter()
        .map(|file| (file.clone(), fs::read(file).unwrap()))
        .collect()
}

/// Tables as other programs write them: uncompressed pages, both versions, with and without dictionaries.
fn parquet_properties() -> [(&'static str, WriterProperties); 3] {
    let builder = || WriterProperties::builder().set_data_page_row_count_limit(7);
    let plain = builder().set_dictionary_enabled(false);
    let second = builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_compression(Compression::LZ4_RAW);
    let snappy = plain
        .clone()
        .set_compression(Compression::SNAPPY)
        .set_writer_version(WriterVersion::PARQUET_2_0);
    [
        ("plain", plain.set_encoding(Encoding::PLAIN).build()),
        ("second", second.build()),
        ("snappy", snappy.build()),
    ]
}

fn write_parquet(given: &Path, path: &Path, properties: WriterProperties) {
    let ntuple = open(&fs::read(given).unwrap()).unwrap();
    let batch = read(&ntuple, 0, ntuple.n_entries()).unwrap().unwrap();
    let file = fs::File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

/// Changes one of the files, and runs all operations on it; `begins` is called with its name before.
pub fn check_one(
    mutator: &mut Mutator,
    subjects: &Subjects,
    folder: &Path,
    begins: impl FnOnce(&str),
) {
    let (subject, bytes) = &subjects[mutator.below(subjects.len())];
    let is_root = subject.extension().is_some_and(|e| e == "root");
    let changed = if is_root {
        mutator.root(bytes)
    } else {
        mutator.table(bytes)
    };
    let path = folder
        .join("current")
        .with_extension(subject.extension().unwrap());
    fs::write(&path, &changed).unwrap();
    let name = subject.file_name().unwrap().to_string_lossy();
    begins(&name);
    let is_good = is_root && check_root(&changed, &name);
    check_outputs(&path, folder, &name, is_good);
}
