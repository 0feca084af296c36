use std::path::Path as FilePath;
use std::time::Duration;

use femtobarn_testkit::{Servers, can_store, content};

use super::*;
use crate::object::testing::settings;
use crate::{ByteSource, ObjectSource};

const PART: usize = 5 << 20;

fn parts(server: &Servers) -> Settings {
    settings(server, &[("part_size", "5 MiB")])
}

fn read(server: &Servers, url: &str) -> Vec<u8> {
    let source = ObjectSource::open(url, &settings(server, &[])).unwrap();
    let all = source.read_ranges(&[0..source.meta().size]);
    all.unwrap()[0].to_vec()
}

/// Files of incomplete uploads.
fn uploads(server: &Servers) -> usize {
    fn files(place: &FilePath) -> usize {
        let Ok(entries) = std::fs::read_dir(place) else {
            return 0;
        };
        let each = |entry: std::fs::DirEntry| match entry.path().is_dir() {
            true => files(&entry.path()),
            false => 1,
        };
        entries.flatten().map(each).sum()
    }
    files(&server.data[0].join(".minio.sys/multipart"))
}

#[test]
fn what_threads_write_in_any_order_is_the_object() {
    if !can_store("minio") {
        return;
    }
    let server = Servers::start("minio");
    for size in [0, 1, 1000, PART - 1, PART, PART + 1, 3 * PART + 12_345] {
        let all = content(size);
        let url = format!("s3://private/f{size}");
        let sink = ObjectSink::create(&url, false, &parts(&server)).unwrap();
        // the beginning comes last, like a file's header
        let chunk = 700_001;
        let pieces: Vec<usize> = (100.min(size)..size).step_by(chunk).collect();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (sink, all, pieces) = (&sink, &all, &pieces);
                scope.spawn(move || {
                    for at in pieces.iter().rev().skip(thread).step_by(4) {
                        let end = (at + chunk).min(all.len());
                        sink.write_at(*at as u64, &all[*at..end]).unwrap();
                    }
                });
            }
        });
        sink.write_at(0, &all[..100.min(size)]).unwrap();
        sink.sync().unwrap();
        let error = ObjectSource::open(&url, &settings(&server, &[])).unwrap_err();
        assert!(matches!(error, IoError::NotFound { .. }), "{error}");
        sink.commit().unwrap();
        assert!(read(&server, &url) == all, "{size}");
        assert!(sink.write_at(0, b"x").is_err() && sink.commit().is_err());
    }
    assert_eq!(uploads(&server), 0);
}

#[test]
fn what_is_never_written_is_zero() {
    if !can_store("minio") {
        return;
    }
    let server = Servers::start("minio");
    for (at, url) in [(1000, "s3://private/a"), (2 * PART + 7, "s3://private/b")] {
        let sink = ObjectSink::create(url, true, &parts(&server)).unwrap();
        sink.write_at(5, b"begin").unwrap();
        sink.write_at(at as u64, b"end").unwrap();
        sink.commit().unwrap();
        let mut expected = vec![0; at + 3];
        expected[5..10].copy_from_slice(b"begin");
        expected[at..].copy_from_slice(b"end");
        assert!(read(&server, url) == expected);
    }
}

#[test]
fn nothing_appears_and_nothing_stays_without_a_commit() {
    if !can_store("minio") {
        return;
    }
    let server = Servers::start("minio");
    let url = "s3://private/f";
    let sink = ObjectSink::create(url, false, &parts(&server)).unwrap();
    sink.write_at(0, &content(2 * PART + 1)).unwrap();
    while uploads(&server) < 2 {
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(sink);
    assert_eq!(uploads(&server), 0);
    let error = ObjectSource::open(url, &settings(&server, &[])).unwrap_err();
    assert!(matches!(error, IoError::NotFound { .. }), "{error}");
}

#[test]
fn what_is_there_is_not_replaced_unless_it_is_wanted() {
    if !can_store("minio") {
        return;
    }
    let server = Servers::start("minio");
    for size in [10, 2 * PART] {
        let url = format!("s3://private/f{size}");
        let write = |sink: &ObjectSink, byte| sink.write_at(0, &vec![byte; size]).unwrap();
        let sinks = [1, 2].map(|byte| {
            let sink = ObjectSink::create(&url, false, &parts(&server)).unwrap();
            write(&sink, byte);
            sink
        });
        sinks[0].commit().unwrap();
        let error = sinks[1].commit().unwrap_err();
        assert!(matches!(error, IoError::Exists { .. }), "{error}");
        let error = ObjectSink::create(&url, false, &parts(&server)).unwrap_err();
        assert!(matches!(error, IoError::Exists { .. }), "{error}");
        assert!(read(&server, &url) == vec![1; size]);
        let sink = ObjectSink::create(&url, true, &parts(&server)).unwrap();
        write(&sink, 3);
        sink.commit().unwrap();
        assert!(read(&server, &url) == vec![3; size]);
        drop(sinks);
        assert_eq!(uploads(&server), 0);
    }
}

#[test]
fn what_was_sent_is_not_written_to() {
    if !can_store("minio") {
        return;
    }
    let server = Servers::start("minio");
    let sink = ObjectSink::create("s3://private/f", true, &parts(&server)).unwrap();
    sink.write_at(PART as u64, &content(PART)).unwrap();
    // a waiting part may be overwritten
    sink.write_at(0, b"old").unwrap();
    sink.write_at(0, b"new").unwrap();
    let error = sink.write_at(PART as u64 + 3, b"x").unwrap_err();
    assert_eq!(error.kind(), "write-failed");
    sink.commit().unwrap();
    assert_eq!(read(&server, "s3://private/f")[..3], *b"new");
}

#[test]
fn what_cannot_be_written_is_told() {
    if !can_store("minio") {
        return;
    }
    let mut server = Servers::start("minio");
    let wrong = settings(&server, &[("anonymous", "true")]);
    let sink = ObjectSink::create("s3://private/f", true, &wrong).unwrap();
    sink.write_at(0, b"x").unwrap();
    assert_eq!(sink.commit().unwrap_err().kind(), "permission-denied");
    let sink = ObjectSink::create("s3://nowhere/f", true, &parts(&server)).unwrap();
    let error = sink.write_at(0, &content(PART)).unwrap_err();
    assert!(matches!(error, IoError::NoBucket { .. }), "{error}");
    assert!(sink.commit().is_err());
    let small = settings(&server, &[("part_size", "1 MiB")]);
    let error = ObjectSink::create("s3://private/f", true, &small).unwrap_err();
    assert!(error.to_string().contains("from 5 MiB"), "{error}");

    let sink = ObjectSink::create("s3://private/f", true, &parts(&server)).unwrap();
    sink.write_at(0, &content(PART)).unwrap();
    server.kill();
    let error = sink.write_at(PART as u64, &content(PART)).err();
    let error = error.or_else(|| sink.commit().err()).unwrap();
    assert_eq!(error.kind(), "create-failed", "{error}");
}
