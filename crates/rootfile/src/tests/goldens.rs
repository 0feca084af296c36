//! Compares with what ROOT and uproot find in files that ROOT wrote.

use std::collections::BTreeMap;

use super::{open, testdata};
use crate::{ElementKind, RootFile};

/// The lines of `expected.tsv` for `kind` and `file`, without these columns.
fn expected(kind: &str, file: &str) -> Vec<Vec<String>> {
    let lines = std::fs::read_to_string(testdata("expected.tsv")).unwrap();
    let rows = lines
        .lines()
        .map(|line| line.split('\t').map(str::to_owned).collect::<Vec<_>>());
    rows.filter(|row| row[0] == kind && row[1] == file)
        .map(|row| row[2..].to_vec())
        .collect()
}

fn files() -> Vec<String> {
    let entries = std::fs::read_dir(testdata("")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut files: Vec<_> = names.filter(|name| name.ends_with(".root")).collect();
    files.sort();
    assert_eq!(files.len(), 10);
    files
}

/// CRC-32 as zlib computes it.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            if crc & 1 == 1 {
                crc >> 1 ^ 0xEDB8_8320
            } else {
                crc >> 1
            }
        })
    })
}

/// Path, cycle, class, title, object length and checksum of all objects.
fn keys(file: &RootFile) -> Vec<Vec<String>> {
    let row = |entry: crate::Entry| {
        let object = file.read_object(&entry.key).unwrap();
        assert_eq!(object.len(), usize::try_from(entry.key.object_len).unwrap());
        let directory = entry.key.is_directory();
        let class = if directory {
            "TDirectoryFile".to_owned()
        } else {
            entry.key.class_name
        };
        vec![
            entry.path,
            entry.key.cycle.to_string(),
            class,
            entry.key.title,
            object.len().to_string(),
            crc32(&object).to_string(),
        ]
    };
    file.walk().unwrap().into_iter().map(row).collect()
}

fn class_of(kind: &ElementKind) -> &'static str {
    match kind {
        ElementKind::Base { .. } => "TStreamerBase",
        ElementKind::BasicType => "TStreamerBasicType",
        ElementKind::BasicPointer(_) => "TStreamerBasicPointer",
        ElementKind::Loop(_) => "TStreamerLoop",
        ElementKind::Object => "TStreamerObject",
        ElementKind::ObjectPointer => "TStreamerObjectPointer",
        ElementKind::ObjectAny => "TStreamerObjectAny",
        ElementKind::ObjectAnyPointer => "TStreamerObjectAnyPointer",
        ElementKind::String => "TStreamerString",
        ElementKind::Stl { .. } => "TStreamerSTL",
        ElementKind::StlString { .. } => "TStreamerSTLstring",
        ElementKind::Other => "other",
    }
}

#[test]
fn keys_and_objects_are_those_that_root_and_uproot_read() {
    for file in files() {
        assert_eq!(keys(&open(&file)), expected("key", &file), "{file}");
    }
}

#[test]
fn streamer_infos_and_elements_are_those_that_root_reads() {
    for file in files() {
        let (mut infos, mut elements) = (Vec::new(), Vec::new());
        for info in open(&file).streamer_infos().unwrap() {
            let (version, checksum) = (info.version.to_string(), info.checksum.to_string());
            let count = info.elements.len().to_string();
            infos.push(vec![info.name.clone(), version, checksum, count]);
            for element in info.elements {
                let class = class_of(&element.kind).to_owned();
                let array_length = element.array_length.to_string();
                let names = [element.name, element.title, element.type_name];
                let mut row = vec![info.name.clone(), class];
                row.extend(names);
                row.push(array_length);
                elements.push(row);
            }
        }
        assert_eq!(infos, expected("info", &file), "{file}");
        assert_eq!(elements, expected("element", &file), "{file}");
    }
}

#[test]
fn each_kind_of_element_has_its_own_members() {
    let infos = open("elements.root").streamer_infos().unwrap();
    let kinds = infos.iter().find(|info| info.name == "FbKinds").unwrap();
    let elements: BTreeMap<_, _> = kinds
        .elements
        .iter()
        .map(|element| (element.name.as_str(), element))
        .collect();
    let kind = |name: &str| elements[name].kind.clone();
    assert_eq!(kinds.version, 7);
    assert_eq!(kind("TNamed"), ElementKind::Base { version: 1 });
    assert_eq!(kind("FbPart"), ElementKind::Base { version: 2 });
    assert_eq!(
        kind("word"),
        ElementKind::StlString {
            container: 365,
            content: 365
        }
    );
    assert_eq!(
        kind("vec"),
        ElementKind::Stl {
            container: 1,
            content: 3
        }
    );
    assert_eq!(
        kind("map"),
        ElementKind::Stl {
            container: 4,
            content: 61
        }
    );
    for name in ["counted", "looped"] {
        let (ElementKind::BasicPointer(counter) | ElementKind::Loop(counter)) = kind(name) else {
            panic!("{name} has no counter");
        };
        assert_eq!(
            (counter.name.as_str(), counter.class_name.as_str()),
            ("n", "FbKinds")
        );
        assert_eq!(counter.version, 7);
    }
    let numbers = elements["numbers"];
    assert_eq!((numbers.array_length, numbers.array_dim), (6, 2));
    assert_eq!(numbers.max_index, [2, 3, 0, 0, 0]);
    assert_eq!(numbers.size, 24);
}

#[test]
fn header_and_free_segments_are_what_root_wrote() {
    let file = open("cycles.root");
    let header = file.header();
    assert_eq!(header.root_version(), "6.40/00");
    assert_eq!(
        (header.begin, header.units, header.compression),
        (100, 4, 0)
    );
    let segments = file.free_segments().unwrap();
    assert_eq!(segments.len(), usize::try_from(header.n_free).unwrap());
    assert!(segments.len() > 5, "deleted keys left gaps");
    let last = segments.last().unwrap();
    assert_eq!((last.first, last.last), (header.end, 2_000_000_000));
    assert!(file.keys().iter().all(|key| {
        let record = key.record();
        segments
            .iter()
            .all(|gap| record.end <= gap.first || record.start > gap.last)
    }));
}

#[test]
fn a_file_without_keys_has_none() {
    let file = open("empty.root");
    assert!(file.keys().is_empty());
    assert!(file.walk().unwrap().is_empty());
    assert!(file.streamer_infos().unwrap().is_empty());
}
