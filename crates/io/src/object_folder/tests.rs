use femtobarn_testkit::{Servers, can_store, content};

use super::*;
use crate::object::testing::settings;

fn names(folder: &ObjectFolder) -> Vec<String> {
    let mut names: Vec<_> = folder
        .list()
        .unwrap()
        .into_iter()
        .map(|object| object.name)
        .collect();
    names.sort_unstable();
    names
}

/// Common behaviour of all locations.
fn keeps_objects(folder: &ObjectFolder) {
    assert!(names(folder).is_empty());
    let large = content((8 << 20) * 2 + 5);
    let objects: Vec<(String, &[u8])> = (0..20)
        .map(|n| (format!("a/{}/{n}", n % 3), &large[..n * n * 7]))
        .chain([("b/large".to_owned(), large.as_slice())])
        .collect();
    let given: Vec<_> = objects
        .iter()
        .map(|(name, bytes)| (name.as_str(), *bytes))
        .collect();
    folder.put(&given).unwrap();
    assert_eq!(folder.list().unwrap().len(), 21);
    let wanted: Vec<_> = given
        .iter()
        .map(|(name, bytes)| (*name, bytes.len() as u64))
        .collect();
    for (found, (name, bytes)) in folder.get(&wanted).unwrap().into_iter().zip(&given) {
        assert!(found.unwrap() == *bytes, "{name}");
    }
    // each fails by itself
    let mut found = folder
        .get(&[("a/0/0", 0), ("a/none", 5), ("a/1/1", 6), ("a/1/1", 8)])
        .unwrap()
        .into_iter();
    assert!(found.next().unwrap().unwrap().is_empty());
    let missing = found.next().unwrap().unwrap_err();
    assert_eq!(missing.kind(), "file-not-found", "{missing}");
    for found in found {
        let kind = found.unwrap_err().kind();
        assert!(["short-read", "file-changed"].contains(&kind), "{kind}");
    }
    folder.delete(&["a/0/3", "a/0/3", "a/none/x"]).unwrap();
    assert_eq!(names(folder).len(), 20);
    // an object whose name has the same characters at the start is not below it
    folder.put(&[("a/10/x", b"x")]).unwrap();
    folder.delete_below("a/1").unwrap();
    folder.delete_below("a/1").unwrap();
    let left = names(folder);
    assert!(left.iter().any(|name| name == "a/10/x") && left.len() == 20 - 7 + 1);
    folder.delete_below("a").unwrap();
    assert_eq!(names(folder), ["b/large"]);
    folder.delete(&["b/large"]).unwrap();
    assert!(names(folder).is_empty());
    one_of_many_makes_an_object(folder);
}

fn one_of_many_makes_an_object(folder: &ObjectFolder) {
    assert_eq!(folder.get_small("who").unwrap(), None);
    let made = std::thread::scope(|scope| {
        let put = |n: u8| move || folder.put_new("who", &[n]).unwrap();
        let threads: Vec<_> = (0..8).map(|n| scope.spawn(put(n))).collect();
        let made = threads.into_iter().map(|thread| thread.join().unwrap());
        made.collect::<Vec<_>>()
    });
    let first = made.iter().position(|made| *made).unwrap();
    assert_eq!(made.iter().filter(|made| **made).count(), 1);
    let expected = vec![u8::try_from(first).unwrap()];
    assert_eq!(folder.get_small("who").unwrap(), Some(expected));
    folder.put(&[("who", b"replaced")]).unwrap();
    assert_eq!(folder.get_small("who").unwrap().unwrap(), b"replaced");
    folder.delete(&["who"]).unwrap();
    assert!(names(folder).is_empty());
}

#[test]
fn a_folder_keeps_objects() {
    let place = tempfile::tempdir().unwrap();
    let base = place.path().join("made/when/needed/");
    let folder = ObjectFolder::open(base.to_str().unwrap(), &Settings::default()).unwrap();
    keeps_objects(&folder);
    // empty directories are removed, except the base
    assert!(std::fs::read_dir(&base).unwrap().next().is_none());
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let folder = &folder;
            scope.spawn(move || {
                for n in 0..50 {
                    let name = format!("x/y/{thread}-{n}");
                    folder.put(&[(&name, b"x")]).unwrap();
                    folder.delete(&[&name]).unwrap();
                }
            });
        }
    });
    assert!(names(&folder).is_empty());
}

#[test]
fn a_bucket_keeps_objects() {
    if !can_store("minio") {
        return;
    }
    let server = Servers::start("minio");
    let own = settings(&server, &[("part_size", "5 MiB")]);
    for base in ["s3://private/deep/prefix/", "s3://private"] {
        keeps_objects(&ObjectFolder::open(base, &own).unwrap());
    }
    let other = ObjectFolder::open("s3://none/x", &own).unwrap();
    let error = other.put(&[("a", b"x")]).unwrap_err();
    assert_eq!(error.kind(), "file-not-found", "{error}");
}

#[test]
fn bases_of_one_place_are_the_same() {
    let plain = |base: &str| ObjectFolder::plain(base).unwrap();
    assert_eq!(plain("s3://b/x/"), "s3://b/x");
    assert_eq!(plain("/a/b//"), "/a/b");
    assert_eq!(plain("file:///a"), "/a");
    assert!(plain("here").ends_with("/here"));
    for bad in ["", "root://h//f", "https://h/f", "file://"] {
        assert!(ObjectFolder::plain(bad).is_err(), "{bad}");
    }
}
