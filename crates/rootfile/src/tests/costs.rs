//! The number of reads of each operation.

use std::sync::Arc;

use femtobarn_io::{HeldSource, LocalSource, RecordSource};

use super::{open, testdata};
use crate::RootFile;

fn recorded(name: &str) -> (Arc<RecordSource>, RootFile) {
    let record = RecordSource::new(LocalSource::open(&testdata(name)).unwrap());
    let file = RootFile::open(Arc::clone(&record) as _).unwrap();
    (record, file)
}

#[test]
fn opening_costs_two_reads() {
    for name in [
        "cycles.root",
        "directories.root",
        "empty.root",
        "objects_zstd.root",
    ] {
        let (record, file) = recorded(name);
        let keys = file.root().record().key_list().unwrap();
        let first = 0..512.min(file.source().meta().size);
        assert_eq!(record.log(), [vec![first], vec![keys]], "{name}");
    }
}

#[test]
fn opening_reads_nothing_beyond_a_head_and_a_tail_that_cover_header_and_key_list() {
    for name in [
        "cycles.root",
        "directories.root",
        "empty.root",
        "objects_zstd.root",
    ] {
        let plain = open(name);
        let size = plain.source().meta().size;
        let tail = size - plain.root().record().seek_keys;
        let record = RecordSource::new(LocalSource::open(&testdata(name)).unwrap());
        let source = HeldSource::with_ends(Arc::clone(&record) as _, 512, tail).unwrap();
        assert_eq!(record.log().len(), 1, "{name}");
        let file = RootFile::open(source).unwrap();
        assert_eq!(file.keys(), plain.keys());
        assert_eq!(record.log().len(), 1, "{name}: the head and the tail only");
    }
}

#[test]
fn an_object_costs_one_read_of_its_record() {
    let (record, file) = recorded("objects_zlib.root");
    let key = file.find("h1").unwrap();
    record.clear();
    file.read_object(&key).unwrap();
    assert_eq!(record.log(), [vec![key.record()]]);
}

#[test]
fn finding_costs_two_reads_for_each_directory_on_the_way() {
    let (record, file) = recorded("directories.root");
    for (path, reads) in [("top", 0), ("a", 0), ("a/shallow", 2), ("a/b/c/deep", 6)] {
        record.clear();
        file.find(path).unwrap();
        assert_eq!(record.log().len(), reads, "{path}");
    }
}

#[test]
fn walking_costs_two_vector_reads_for_each_level() {
    let (record, file) = recorded("directories.root");
    record.clear();
    file.walk().unwrap();
    let ranges: Vec<_> = record.log().iter().map(Vec::len).collect();
    // records of a and empty; key list of a (empty has none); then b, then c
    assert_eq!(ranges, [2, 1, 1, 1, 1, 1]);
}

#[test]
fn streamer_infos_and_free_segments_cost_one_read_each() {
    let (record, file) = recorded("objects_lzma.root");
    record.clear();
    file.streamer_infos().unwrap();
    file.free_segments().unwrap();
    assert_eq!(record.log().len(), 2);
}
