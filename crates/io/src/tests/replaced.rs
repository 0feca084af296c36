//! Files that are replaced while they are read. A read fails with one kind of error, or returns the old contents to the
//! end, but never a mixture.

use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use femtobarn_testkit::{Ways, content};

use super::kinds::Place;
use crate::with_causes;

const SIZE: usize = 1_000_000;

/// How a file is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// By the server itself, or by writing to the file.
    Written,
    /// By renaming another file.
    Renamed,
}

fn replace(place: &mut Place, name: &str, how: How, content: &[u8]) {
    if how == How::Written {
        place.put(name, content);
    }
    let path = place.server.data[0].join(name);
    if how == How::Renamed {
        let other = path.with_extension("other");
        fs::write(&other, content).unwrap();
        fs::rename(other, &path).unwrap();
    }
    // servers report times in whole seconds
    if let Ok(file) = File::options().write(true).open(&path) {
        let earlier = SystemTime::now() - Duration::from_secs(1000);
        file.set_modified(earlier).unwrap();
    }
}

/// Another file of this size.
fn other(size: usize) -> Vec<u8> {
    content(size).iter().map(|byte| !byte).collect()
}

/// Checks that each replacement is reported.
fn is_told(kind: &'static str, replacements: &[(How, usize)]) {
    let Some(mut place) = Place::start(kind) else {
        return;
    };
    let old = content(SIZE);
    for (number, (how, size)) in replacements.iter().enumerate() {
        let name = format!("f{number}");
        place.put(&name, &old);
        // XRootD's HTTP starts answers with ranges beyond the end of a truncated file, and never finishes them
        let hasty = [("request_timeout", "1")];
        let source = place.open(place.server.port, &name, &hasty).unwrap();
        let found = source.read_ranges(&[300_000..300_100]).unwrap();
        assert_eq!(found[0], old[300_000..300_100]);
        replace(&mut place, &name, *how, &other(*size));
        for ranges in [
            vec![400_000..400_100],
            (0..300)
                .map(|i| 90_000 + i * 2000..90_100 + i * 2000)
                .collect(),
        ] {
            let error = source.read_ranges(&ranges).unwrap_err();
            let case = format!("{kind}, {how:?}, {size} bytes");
            assert_eq!(
                error.kind(),
                "file-changed",
                "{case}: {}",
                with_causes(&error)
            );
        }
    }
}

const ALL: &[(How, usize)] = &[
    (How::Written, SIZE),
    (How::Written, SIZE / 3),
    (How::Written, SIZE + 1),
    (How::Renamed, SIZE),
    (How::Renamed, SIZE / 3),
    (How::Renamed, SIZE + 1),
];

#[test]
fn nginx_tells_replaced_files() {
    is_told("nginx", ALL);
}

/// XRootD's HTTP sends neither entity tags nor modification times.
#[test]
fn xrootds_http_tells_files_of_another_size() {
    let others: Vec<_> = ALL
        .iter()
        .filter(|(_, size)| *size != SIZE)
        .copied()
        .collect();
    is_told("xrdhttp", &others);
}

#[test]
fn object_stores_tell_replaced_objects() {
    for kind in ["minio", "azurite", "fake-gcs"] {
        is_told(kind, &ALL[..3]);
    }
}

/// XRootD reports no changes of an open file except truncation.
#[test]
fn xrootd_tells_files_that_were_cut() {
    is_told("xrootd", &[(How::Written, SIZE / 3)]);
}

/// An open file keeps its old contents to the end. A file that is opened again after a lost connection must still be
/// the same.
#[test]
fn xrootd_reads_the_old_file_to_its_end() {
    let (Some(mut place), Some(mut ways)) = (Place::start("xrootd"), Ways::start()) else {
        return;
    };
    let old = content(SIZE);
    for (number, size) in [SIZE, SIZE / 3, SIZE + 1].into_iter().enumerate() {
        let name = format!("f{number}");
        place.put(&name, &old);
        let way = ways.before(place.server.port);
        let source = place.open(way, &name, &[]).unwrap();
        replace(&mut place, &name, How::Renamed, &other(size));
        super::check_reads(&*source, &old).unwrap();
        ways.heal(way);
        // until the proxy has closed the connection, reads use it
        std::thread::sleep(Duration::from_millis(300));
        let error = source.read_ranges(&[0..100]).unwrap_err();
        assert_eq!(error.kind(), "file-changed", "{}", with_causes(&error));
    }
}
