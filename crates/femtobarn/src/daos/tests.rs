//! Writers that live, but are swept or overtaken: with the stand-in of `femtobarn-daos`.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arrow_array::{Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use bytes::Bytes;
use femtobarn_daos::mapping::LISTS;
use femtobarn_daos::{Address, Container, Existing, NTupleValues, names_and_classes};
use femtobarn_io::{IoError, Settings};
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::schema::DType;
use femtobarn_rntuple::write::{
    AttributeSetWriter, FieldModel, NTupleWriter, ObjectSize, ObjectsLeft, PageSink, WriteOptions,
};
use femtobarn_rootfile::Uuid;

use super::claims::Claim;
use super::source::{set_base, set_name};
use super::writing::{BLOCK, existing, preview_name};
use super::{DaosSink, delete_ntuple, requests_by, sweep};
use crate::{NTuple, OpenOptions};

pub(super) fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../daos/tests/standin/standin.c");
        let library = std::env::temp_dir().join("libdaos-writers.so");
        let new = library.with_extension(format!("new-{}", std::process::id()));
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
        let built = Command::new(compiler)
            .args(["-O2", "-std=gnu11", "-shared", "-fPIC", "-pthread", "-o"])
            .args([&new, &source])
            .status();
        assert!(built.unwrap().success());
        std::fs::rename(&new, &library).unwrap();
        library
    })
}

/// Writes clusters of a page with one number.
struct Writer {
    sink: DaosSink,
    ntuple: NTupleWriter,
    number: i64,
}

impl Writer {
    fn of(mut sink: DaosSink, number: i64) -> Self {
        let options = WriteOptions {
            object_size: Some(ObjectSize::Page),
            same_page_merging: false,
            ..WriteOptions::default()
        };
        let schema = batch(0).schema();
        let ntuple = NTupleWriter::from_arrow(&mut sink, 0, "Events", &schema, options);
        let ntuple = ntuple.unwrap();
        Self {
            sink,
            ntuple,
            number,
        }
    }

    fn new(url: &str, number: i64) -> Self {
        let sink = DaosSink::create(url, false, &Settings::default()).unwrap();
        Self::of(sink, number)
    }

    fn write(&mut self, n_clusters: usize) -> Result<(), RNTupleError> {
        for _ in 0..n_clusters {
            self.ntuple.extend(&mut self.sink, &batch(self.number))?;
            self.ntuple.commit_cluster(&mut self.sink)?;
        }
        Ok(())
    }

    fn finish(self) -> Result<(), RNTupleError> {
        let Self {
            mut sink, ntuple, ..
        } = self;
        ntuple.finish(&mut sink)?;
        sink.finish()?;
        Ok(())
    }
}

fn batch(number: i64) -> RecordBatch {
    let schema = Schema::new(vec![Field::new("x", DataType::Int64, false)]);
    let x = Int64Array::from(vec![number; 100]);
    RecordBatch::try_new(Arc::new(schema), vec![Arc::new(x)]).unwrap()
}

fn swept(url: &str) -> ObjectsLeft {
    sweep(url, &Settings::default(), Duration::ZERO, true).unwrap()
}

fn values(url: &str, name: &str) -> NTupleValues {
    let requests = requests_by(&Settings::default()).unwrap();
    let container = Container::open(&Address::parse(url).unwrap(), requests).unwrap();
    NTupleValues::new(Arc::new(container), name, "").unwrap()
}

/// The numbers of all values in the first two blocks.
fn numbers(url: &str) -> Vec<u64> {
    let starts = [0, BLOCK, LISTS, LISTS + BLOCK];
    existing(&values(url, "Events"), starts.map(|at| at..at + BLOCK)).unwrap()
}

fn check(url: &str, number: i64, n_entries: u64) {
    let ntuple = NTuple::open_files(&[url], OpenOptions::default()).unwrap();
    assert_eq!(ntuple.n_entries(), n_entries);
    let all = ntuple.select(None).unwrap();
    let read = ntuple.read(&all, 0..n_entries, &Default::default());
    let read = read.unwrap().to_arrow().unwrap();
    let x = read.column(0).as_any().downcast_ref::<Int64Array>();
    assert!(x.unwrap().values().iter().all(|&x| x == number));
}

fn is_swept(error: &RNTupleError) -> bool {
    matches!(error, RNTupleError::Io(IoError::Swept { .. }))
}

fn is_overtaken(error: &RNTupleError) -> bool {
    matches!(error, RNTupleError::Io(IoError::Overtaken { .. }))
}

#[test]
fn little_data_is_written_in_time_and_all_claims_are_renewed_with_it() {
    let url = "daos://writers/slow";
    let mut writer = Writer::new(url, 1);
    let set = writer.sink.attribute_set("runs").unwrap();
    let pages = [Bytes::from_static(b"page")];
    set.append_pages(&pages, &WriteOptions::default()).unwrap();
    writer.write(1).unwrap();
    assert_eq!(numbers(url), [LISTS], "values are collected");
    let events = values(url, "Events");
    let set = set_name(events.places().values, 0, &set_base("runs"));
    let both = [events, values(url, &set)];
    let times = || {
        let claims = both.each_ref().map(|own| Claim::read_one(own, LISTS));
        claims.map(|claim| claim.unwrap().unwrap().time)
    };
    let before = times();
    std::thread::sleep(Duration::from_millis(1100));
    writer.sink.claims.grow_old();
    writer.write(1).unwrap();
    let is_written = || {
        std::thread::sleep(Duration::from_millis(10));
        numbers(url).contains(&1)
    };
    assert!((0..500).any(|_| is_written()));
    let after = times();
    assert!(after[0] > before[0] && after[1] > before[1]);
}

#[test]
fn a_swept_writer_neither_damages_nor_deletes_what_another_one_writes() {
    for is_published in [false, true] {
        let url = format!("daos://writers/swept-{is_published}");
        let mut slow = Writer::new(&url, 1);
        slow.write(3).unwrap();
        slow.sink.complete().unwrap();
        assert_eq!(swept(&url).names.len(), 4);
        assert!(numbers(&url).is_empty());
        let mut other = Writer::new(&url, 2);
        other.write(2).unwrap();
        other.sink.complete().unwrap();
        let before = numbers(&url);
        assert_eq!(before, [0, 1, LISTS], "it has the numbers of the first one");
        let other = match is_published {
            true => other.finish().map(|()| None).unwrap(),
            false => Some(other),
        };
        let before = match is_published {
            true => numbers(&url),
            false => before,
        };
        slow.sink.claims.grow_old();
        let failed = slow.write(1).and_then(|()| slow.sink.complete());
        assert!(is_overtaken(&failed.unwrap_err()));
        drop(slow);
        assert_eq!(numbers(&url), before);
        if let Some(mut other) = other {
            other.sink.claims.grow_old();
            other.write(1).unwrap();
            other.finish().unwrap();
        }
        // by its name, which the first one has not removed
        check(&url, 2, if is_published { 200 } else { 300 });
    }
}

#[test]
fn a_swept_writer_publishes_nothing_and_leaves_nothing() {
    let url = "daos://writers/alone";
    let mut slow = Writer::new(url, 1);
    slow.write(3).unwrap();
    slow.sink.complete().unwrap();
    swept(url);
    // what it sends before its claims are old again
    slow.write(2).unwrap();
    slow.sink.complete().unwrap();
    assert_eq!(numbers(url), [3, 4]);
    slow.sink.claims.grow_old();
    assert!(is_swept(&slow.finish().unwrap_err()));
    assert!(numbers(url).is_empty());
    assert!(NTuple::open_files(&["daos://writers/alone:Events"], OpenOptions::default()).is_err());
}

/// A writer that has ended a step.
fn step(url: &str, mark: Uuid) -> DaosSink {
    let sink = DaosSink::in_steps(url, false, &Settings::default(), mark).unwrap();
    let mut writer = Writer::of(sink, 1);
    writer.write(2).unwrap();
    let Writer {
        mut sink, ntuple, ..
    } = writer;
    ntuple.finish(&mut sink).unwrap();
    sink.checkpoint().unwrap();
    sink
}

#[test]
fn who_goes_on_with_steps_overtakes_their_writer() {
    let url = "daos://writers/steps";
    let (settings, mark) = (Settings::default(), Uuid::random());
    let mut first = step(url, mark);
    let (second, _) = DaosSink::resume(url, false, &settings, mark)
        .unwrap()
        .unwrap();
    let before = numbers(url);
    first.claims.grow_old();
    assert!(is_overtaken(&first.checkpoint().unwrap_err()));
    drop(first);
    assert_eq!(numbers(url), before);
    second.claims.grow_old();
    second.finish().unwrap();
    check(url, 1, 200);

    // swept while it is stopped
    let url = "daos://writers/stopped";
    let sink = step(url, mark);
    assert!(!swept(url).names.is_empty());
    sink.claims.grow_old();
    assert!(is_swept(&sink.finish().unwrap_err()));
    assert!(numbers(url).is_empty());
    assert!(
        DaosSink::resume(url, false, &settings, mark)
            .unwrap()
            .is_none()
    );
}

#[test]
fn steps_of_a_writer_that_was_killed_when_it_had_published_are_deleted_with_the_ntuple() {
    let url = "daos://writers/published";
    let (settings, mark) = (Settings::default(), Uuid::random());
    let sink = step(url, mark);
    let events = values(url, "Events");
    let index = events.places().values;
    let names = [preview_name(index, 0), preview_name(index, mark)];
    let find = |name: &String| NTupleValues::find(events.container().clone(), name).unwrap();
    let steps = names.each_ref().map(|name| {
        let (step, anchor) = find(name).unwrap();
        let envelopes = step.read_envelopes(&anchor).unwrap();
        (step, envelopes, anchor)
    });
    sink.finish().unwrap();
    assert!(names.iter().all(|name| find(name).is_none()));
    for (step, envelopes, anchor) in steps {
        step.publish(&envelopes, &anchor, Existing::Refused)
            .unwrap();
    }
    delete_ntuple(&format!("{url}:Events"), &settings).unwrap();
    assert!(names.iter().all(|name| find(name).is_none()));
}

#[test]
fn a_deleted_ntuple_leaves_nothing_and_others_stay() {
    let url = "daos://writers/deleted";
    let write = |name, with_set| {
        let mut sink = DaosSink::create(url, false, &Settings::default()).unwrap();
        let schema = batch(0).schema();
        let options = WriteOptions::default();
        let mut ntuple = NTupleWriter::from_arrow(&mut sink, 0, name, &schema, options).unwrap();
        ntuple.extend(&mut sink, &batch(3)).unwrap();
        if with_set {
            let fields = [FieldModel::number("run", DType::Int64)];
            let mut runs = AttributeSetWriter::new(&mut sink, &ntuple, "runs", &fields).unwrap();
            let schema = Schema::new(vec![Field::new("run", DataType::Int64, false)]);
            let run = Int64Array::from(vec![7]);
            let row = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(run)]);
            runs.append(&mut sink, 0..100, &row.unwrap()).unwrap();
            runs.finish(&mut sink, &mut ntuple).unwrap();
        }
        ntuple.finish(&mut sink).unwrap();
        sink.finish().unwrap();
    };
    write("Events", true);
    write("Others", false);
    let delete = |url: &str| delete_ntuple(url, &Settings::default());
    let error = delete(url).unwrap_err().to_string();
    assert!(error.contains("Events, Others"), "{error}");
    let error = delete(&format!("{url}:Evens")).unwrap_err().to_string();
    assert!(error.contains("Events"), "{error}");
    let deleted = delete(&format!("{url}:Events")).unwrap();
    let is_of_set = |name: &&String| name.contains("_clone/runs");
    // a page, a page list and a claim; of the attribute set pages of three columns
    assert_eq!(deleted.names.len(), 8);
    assert_eq!(deleted.names.iter().filter(is_of_set).count(), 5);
    assert!(deleted.bytes > 0);
    assert!(numbers(url).is_empty());
    // with the name, as Others is the only one now
    let container = values(url, "").container().clone();
    let listed = names_and_classes(&container).unwrap();
    assert_eq!(listed.len(), 1);
    assert!(delete(&format!("{url}:Events")).is_err());
    check(url, 3, 100);
    assert_eq!(delete(url).unwrap().names.len(), 3);
    assert!(
        delete(url)
            .unwrap_err()
            .to_string()
            .contains("has 0 RNTuples")
    );
    assert!(names_and_classes(&container).unwrap().is_empty());
}
