//! Merging into an ntuple that is in the file, and the state after an interrupted attempt.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_select::concat::concat_batches;
use femtobarn_io::{ByteSink, MemorySink, MemorySource};
use femtobarn_rootfile::{FileWriter, RootFile};

use super::faults::{FaultySink, Operation, apply, small};
use super::{batch, open, written};
use crate::RNTupleError;
use crate::read::verify;
use crate::write::{MergeOptions, NTupleMerger, WriteOptions};

const PATH: &str = "some/where/Events";

/// Appends 60 entries.
fn append(sink: Arc<dyn ByteSink>, old: &[u8]) -> Result<(), RNTupleError> {
    append_with(sink, old, &written(&batch(60), &[60], &small()))
}

fn append_with(sink: Arc<dyn ByteSink>, old: &[u8], input: &[u8]) -> Result<(), RNTupleError> {
    let source = MemorySource::new("mem:old.root", old.to_vec());
    let mut file = FileWriter::update(sink, &RootFile::open(source)?)?;
    let (_, there) = open(old.to_vec(), PATH);
    let (_, input) = open(input.to_vec(), PATH);
    let directory = file.directory("some/where")?;
    let mut merger = NTupleMerger::resume((directory, "Events"), &there, MergeOptions::default())?;
    merger.add(&mut file, &input, &|_| true, None, &|_| true)?;
    merger.finish(&mut file)?;
    file.finish()?;
    Ok(())
}

/// The first 100 entries, and the 60 appended ones so many times.
fn expected(n_appends: usize) -> RecordBatch {
    let mut parts = vec![batch(100)];
    parts.extend((0..n_appends).map(|_| batch(60)));
    concat_batches(&batch(0).schema(), &parts).unwrap()
}

/// Number of times that entries were appended, after checking all entries.
fn n_appends(bytes: &[u8]) -> usize {
    let (found, reader) = open(bytes.to_vec(), PATH);
    let n = (found.num_rows() - 100) / 60;
    assert_eq!(found, expected(n));
    assert!(verify(&reader, 1, None).unwrap().damages.is_empty());
    n
}

fn operations_of_append(old: &[u8]) -> Vec<Operation> {
    let sink = Arc::new(FaultySink::default());
    append(sink.clone(), old).unwrap();
    sink.done.lock().unwrap().clone()
}

fn applied(old: &[u8], operations: &[Operation]) -> Vec<u8> {
    let mut bytes = old.to_vec();
    operations
        .iter()
        .for_each(|operation| apply(&mut bytes, operation));
    bytes
}

fn appended(old: &[u8]) -> Vec<u8> {
    applied(old, &operations_of_append(old))
}

fn old() -> Vec<u8> {
    written(&batch(100), &[100], &small())
}

#[test]
fn entries_follow_those_that_are_there() {
    let mut bytes = old();
    for n in 1..5 {
        bytes = appended(&bytes);
        assert_eq!(n_appends(&bytes), n);
    }
    let file = RootFile::open(MemorySource::new("mem:", bytes)).unwrap();
    let keys = file.walk().unwrap().into_iter();
    let keys: Vec<String> = keys
        .map(|entry| format!("{};{}", entry.path, entry.key.cycle))
        .collect();
    assert_eq!(keys, ["some;1", "some/where;1", "some/where/Events;1"]);
}

#[test]
fn none_is_lost_after_any_write_and_the_next_append_goes_on() {
    let once = appended(&old());
    let operations = operations_of_append(&once);
    assert!(operations.len() > 10);
    for n in 0..=operations.len() {
        let bytes = applied(&once, &operations[..n]);
        let before = n_appends(&bytes);
        assert!(before == 1 || (before == 2 && n + 2 >= operations.len()));
        let next = appended(&bytes);
        assert_eq!(n_appends(&next), before + 1, "{n}");
        // left-over bytes are removed
        if before == 1 && n + 5 < operations.len() {
            assert_eq!(next.len(), applied(&once, &operations).len(), "{n}");
        }
    }
}

#[test]
fn none_is_lost_whichever_of_the_last_writes_survive_and_the_next_append_goes_on() {
    let once = appended(&old());
    let operations = operations_of_append(&once);
    let is_sync = |operation: &Operation| matches!(operation, Operation::Sync);
    let first_sync = operations.iter().position(is_sync).unwrap();
    let (before, after) = operations.split_at(first_sync);
    let synced = applied(&once, before);
    let places: Vec<&Operation> = after
        .iter()
        .filter(|operation| matches!(operation, Operation::Write(..)))
        .collect();
    assert!((2..10).contains(&places.len()), "{}", places.len());
    for subset in 0..1u32 << places.len() {
        let mut bytes = synced.clone();
        let chosen = places.iter().enumerate();
        let chosen = chosen.filter(|(i, _)| subset >> i & 1 == 1);
        chosen.for_each(|(_, operation)| apply(&mut bytes, operation));
        let there = n_appends(&bytes);
        assert!((1..=2).contains(&there));
        let next = appended(&bytes);
        assert_eq!(n_appends(&next), there + 1, "{subset:b}");
    }
}

#[test]
fn every_failing_operation_is_an_error_that_leaves_the_old_bytes() {
    let once = appended(&old());
    let n = operations_of_append(&once).len();
    for fails_at in 0..n {
        let sink = Arc::new(FaultySink {
            fails_at: Some(fails_at),
            ..FaultySink::default()
        });
        let error = append(sink.clone(), &once).unwrap_err();
        assert_eq!(error.kind(), "write-failed", "{fails_at}");
        let operations = sink.done.lock().unwrap();
        let bytes = applied(&once, &operations);
        let is_sync = |operation: &Operation| matches!(operation, Operation::Sync);
        if operations[..fails_at].iter().any(is_sync) {
            let is_torn = matches!(operations.get(fails_at), Some(Operation::Write(..)));
            assert!(is_torn || n_appends(&bytes) >= 1);
        } else {
            assert_eq!(bytes, once, "{fails_at}");
        }
    }
}

#[test]
fn pages_that_are_larger_than_the_records_of_the_output_are_split() {
    let options = WriteOptions {
        max_key_size: 300,
        compression: 0,
        ..small()
    };
    let bytes = written(&batch(100), &[100], &options);
    let large = WriteOptions {
        compression: 0,
        ..WriteOptions::default()
    };
    let input = written(&batch(600), &[600], &large);
    let sink = Arc::new(MemorySink::default());
    sink.write_at(0, &bytes).unwrap();
    append_with(sink.clone(), &bytes, &input).unwrap();
    let (found, reader) = open(sink.to_vec(), PATH);
    let parts = [batch(100), batch(600)];
    assert_eq!(found, concat_batches(&batch(0).schema(), &parts).unwrap());
    assert_eq!(reader.descriptor().anchor.max_key_size, 300);
}
