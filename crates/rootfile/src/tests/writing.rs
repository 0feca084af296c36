//! Written files are read: here by this crate, in the tests of the Python package by ROOT.

use std::collections::BTreeMap;
use std::sync::Arc;

use femtobarn_io::{ByteSink, MemorySink, MemorySource};

use crate::{ElementKind, FileWriter, RootFile, StreamerElement, StreamerInfo, Uuid};

fn info(name: &str) -> StreamerInfo {
    let element = |name: &str| StreamerElement {
        kind: ElementKind::BasicType,
        name: name.to_owned(),
        title: "a title".to_owned(),
        type_code: 14,
        size: 8,
        array_length: 0,
        array_dim: 0,
        max_index: [0; 5],
        type_name: "unsigned long".to_owned(),
    };
    StreamerInfo {
        name: name.to_owned(),
        version: 2,
        checksum: 0x1234_5678,
        title: String::new(),
        elements: vec![element("fOne"), element("fTwo")],
    }
}

fn open(sink: &MemorySink) -> RootFile {
    RootFile::open(MemorySource::new("mem:written", sink.to_vec())).unwrap()
}

fn paths(file: &RootFile) -> Vec<String> {
    let entries = file.walk().unwrap().into_iter();
    entries
        .map(|entry| format!("{};{}", entry.path, entry.key.cycle))
        .collect()
}

#[test]
fn a_new_file_holds_its_objects_directories_and_classes() {
    let sink = Arc::new(MemorySink::default());
    let mut file = FileWriter::create(sink.clone(), "new.root", 505, Uuid([7; 16])).unwrap();
    let long = "x".repeat(300);
    let object = b"an object ".repeat(100);
    file.write_object(0, ("TThing", "one", &long), &object, 505)
        .unwrap();
    let deep = file.directory("a/b").unwrap();
    file.write_object(deep, ("TThing", "two", ""), b"short", 505)
        .unwrap();
    file.write_object(deep, ("TThing", "two", ""), b"again", 0)
        .unwrap();
    let blob = file.append_blob(&[b"blob ", b"of parts"]).unwrap();
    assert_eq!(file.directory("/a//b/").unwrap(), deep);
    assert_eq!(file.directory("one").unwrap_err().kind(), "not-a-directory");
    for none in ["..", "a/../c", "a/.", "a;1/b"] {
        let error = file.directory(none).unwrap_err();
        assert_eq!(error.kind(), "invalid-name", "{none}");
    }
    file.add_streamer_info(info("One"));
    file.add_streamer_info(info("One"));
    file.finish().unwrap();

    let read = open(&sink);
    assert_eq!(
        paths(&read),
        ["one;1", "a;1", "a/b;1", "a/b/two;2", "a/b/two;1"]
    );
    let one = read.find("one").unwrap();
    assert_eq!(read.read_object(&one).unwrap(), object);
    assert!(one.is_compressed() && one.title == long);
    assert_eq!(
        read.read_object(&read.find("a/b/two").unwrap()).unwrap(),
        &b"again"[..]
    );
    let mut found = [0; 13];
    read.source().read_into(blob, &mut found).unwrap();
    assert_eq!(&found, b"blob of parts");
    assert_eq!(read.streamer_infos().unwrap(), [info("One")]);
    assert_eq!(read.header().uuid, Uuid([7; 16]));
    let free = read.free_segments().unwrap();
    assert_eq!((free.len(), free[0].first), (1, read.header().end));
    assert_eq!(read.header().end, read.source().meta().size);
}

#[test]
fn classes_are_described_as_they_were() {
    for name in ["elements.root", "objects_zstd.root"] {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/container/");
        let source = femtobarn_io::LocalSource::open(format!("{folder}{name}").as_ref()).unwrap();
        let infos = RootFile::open(source).unwrap().streamer_infos().unwrap();
        assert!(!infos.is_empty(), "{name}");
        let sink = Arc::new(MemorySink::default());
        let mut file = FileWriter::create(sink.clone(), "new.root", 505, Uuid([7; 16])).unwrap();
        for info in &infos {
            file.add_streamer_info(info.clone());
        }
        file.finish().unwrap();
        assert_eq!(open(&sink).streamer_infos().unwrap(), infos, "{name}");
    }
}

/// The class versions in a list of streamer infos: each follows the name of the class and a byte count.
fn element_versions(list: &[u8]) -> BTreeMap<String, u16> {
    let marks = list.windows(4).enumerate();
    let marks = marks.filter(|(_, word)| *word == [0xFF; 4]);
    marks
        .map(|(at, _)| {
            let rest = &list[at + 4..];
            let length = rest.iter().position(|&byte| byte == 0).unwrap();
            let name = String::from_utf8(rest[..length].to_vec()).unwrap();
            let version = &rest[length + 5..length + 7];
            (name, u16::from_be_bytes([version[0], version[1]]))
        })
        .collect()
}

/// All elements without members of their own were written with version 2. ROOT knows no such TStreamerObjectAnyPointer:
/// it warned, and read objects of classes with such a member wrongly.
#[test]
fn elements_have_the_versions_that_root_gives_them() {
    for name in [
        "container/elements.root",
        "container/objects_zstd.root",
        "histograms.root",
    ] {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/");
        let source = femtobarn_io::LocalSource::open(format!("{folder}{name}").as_ref()).unwrap();
        let read = RootFile::open(source).unwrap();
        let sink = Arc::new(MemorySink::default());
        let mut file = FileWriter::create(sink.clone(), "new.root", 505, Uuid([7; 16])).unwrap();
        for info in read.streamer_infos().unwrap() {
            file.add_streamer_info(info);
        }
        file.finish().unwrap();
        let versions = |file: &RootFile| {
            let (list, _) = file.streamer_info_object().unwrap().unwrap();
            let mut versions = element_versions(&list);
            // TStreamerInfo has the version of the ROOT that wrote it; the other classes are I/O rules, which are not
            // copied
            versions.retain(|class, _| class.starts_with("TStreamer") && class != "TStreamerInfo");
            versions
        };
        assert_eq!(versions(&open(&sink)), versions(&read), "{name}");
    }
}

#[test]
fn an_update_adds_and_the_old_is_readable_until_the_end() {
    let sink = Arc::new(MemorySink::default());
    let mut file = FileWriter::create(sink.clone(), "new.root", 0, Uuid::default()).unwrap();
    let folder = file.directory("a").unwrap();
    file.write_object(folder, ("TThing", "old", ""), b"old", 0)
        .unwrap();
    file.add_streamer_info(info("One"));
    file.finish().unwrap();
    let before = open(&sink);

    let mut file = FileWriter::update(sink.clone(), &before).unwrap();
    let folder = file.directory("a").unwrap();
    file.write_object(folder, ("TThing", "old", ""), b"newer", 0)
        .unwrap();
    file.write_object(0, ("TThing", "top", ""), b"top", 0)
        .unwrap();
    file.add_streamer_info(info("Two"));
    assert_eq!(paths(&open(&sink)), ["a;1", "a/old;1"]);
    file.finish().unwrap();

    let after = open(&sink);
    assert_eq!(paths(&after), ["a;1", "a/old;2", "a/old;1", "top;1"]);
    assert_eq!(after.streamer_infos().unwrap(), [info("One"), info("Two")]);
    assert_eq!(
        after.read_object(&after.find("a/old").unwrap()).unwrap(),
        &b"newer"[..]
    );
    assert_eq!(
        after.read_object(&after.find("a/old;1").unwrap()).unwrap(),
        &b"old"[..]
    );
}

#[test]
fn an_object_that_replaces_another_has_its_cycle_and_older_ones_stay() {
    let sink = Arc::new(MemorySink::default());
    let mut file = FileWriter::create(sink.clone(), "new.root", 0, Uuid::default()).unwrap();
    for object in [b"old", b"new"] {
        file.write_object(0, ("TThing", "one", ""), object, 0)
            .unwrap();
    }
    file.write_object(0, ("TOther", "two", ""), b"two", 0)
        .unwrap();
    file.finish().unwrap();
    let mut file = FileWriter::update(sink.clone(), &open(&sink)).unwrap();
    for (class, name) in [("TThing", "one"), ("TThing", "three")] {
        file.replace_object(0, (class, name, ""), b"newest", 0)
            .unwrap();
    }
    file.finish().unwrap();
    let after = open(&sink);
    assert_eq!(paths(&after), ["one;2", "one;1", "two;1", "three;1"]);
    let of = |path: &str| after.read_object(&after.find(path).unwrap()).unwrap();
    assert_eq!(
        (&of("one")[..], &of("one;1")[..]),
        (&b"newest"[..], &b"old"[..])
    );
}

/// A file with one object, and bytes after its end.
fn with_rest(rest: impl Fn(u64) -> Vec<u8>) -> (Arc<MemorySink>, u64) {
    let sink = Arc::new(MemorySink::default());
    let mut file = FileWriter::create(sink.clone(), "new.root", 0, Uuid::default()).unwrap();
    file.write_object(0, ("TThing", "one", ""), b"one", 0)
        .unwrap();
    let end = file.finish().unwrap();
    sink.write_at(end, &rest(end)).unwrap();
    (sink, end)
}

fn add_two(sink: &Arc<MemorySink>) -> RootFile {
    let mut file = FileWriter::update(sink.clone(), &open(sink)).unwrap();
    file.write_object(0, ("TThing", "two", ""), b"two", 0)
        .unwrap();
    file.finish().unwrap();
    let read = open(sink);
    assert_eq!(paths(&read), ["one;1", "two;1"]);
    read
}

#[test]
fn what_an_update_left_behind_the_end_is_written_over_and_what_others_did_becomes_a_gap() {
    let (sink, end) = with_rest(|_| Vec::new());
    let clean = add_two(&sink).header().end;
    let left = sink.to_vec();
    // the state when only the records were written: the header is the old one
    let (sink, _) = with_rest(|end| left[usize::try_from(end).unwrap()..].to_vec());
    assert_eq!(add_two(&sink).header().end, clean);
    for n_bytes in [1, 3, 4, 100, 1000] {
        let (sink, _) = with_rest(|_| vec![7; n_bytes]);
        let file = add_two(&sink);
        let gap = n_bytes.max(4);
        assert_eq!(file.header().end, clean + gap as u64);
        let bytes = sink.to_vec();
        let at = usize::try_from(end).unwrap();
        let found = i32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!(found, -i32::try_from(gap).unwrap());
        // other bytes of the gap are unchanged, and the next record follows it
        assert!(bytes[at + 4..at + gap].iter().all(|&byte| byte == 7));
    }
}
