//! What is written is read: by this crate here, by ROOT in the tests of the Python package.

use std::sync::Arc;

use femtobarn_io::{MemorySink, MemorySource};

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
