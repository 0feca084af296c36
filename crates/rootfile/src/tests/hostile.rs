//! Files that were made to attack readers.

use femtobarn_codec::{Algorithm, RecordHeader};

use super::builder::{BEGIN, Builder, DirectoryParts, Widths, directory};
use super::{bytes_of, open, open_bytes};
use crate::{Key, RootFile, RootFileError};

const SIZE: u64 = 100_000;

/// Writes a subdirectory at `offset` with `keys`; its key list is 1000 bytes later.
fn subdirectory(builder: &mut Builder, offset: u64, name: &str, keys: &[&Key]) -> Key {
    let seek_keys = offset + 1000;
    let n_bytes_keys = builder.key_list(seek_keys, keys);
    let parts = DirectoryParts {
        wide: false,
        n_bytes_keys,
        seek_dir: offset,
        seek_keys,
    };
    builder.record(offset, false, ("TDirectory", name), &directory(&parts))
}

fn with_root(mut builder: Builder, keys: &[&Key]) -> RootFile {
    builder.root(Widths::default(), (SIZE, 0), 1000, keys);
    RootFile::open(builder.source(SIZE)).unwrap()
}

fn assert_loop(file: &RootFile) {
    let error = file.walk().unwrap_err();
    assert_eq!(error.kind(), "directory-loop", "{error}");
}

#[test]
fn a_directory_in_itself_is_a_loop_and_does_not_hang() {
    let mut builder = Builder::default();
    let key = subdirectory(&mut builder, 10_000, "self", &[]);
    let key = subdirectory(&mut builder, 10_000, "self", &[&key]);
    let file = with_root(builder, &[&key]);
    assert_loop(&file);
    assert!(
        file.find("self/self/self").unwrap().is_directory(),
        "each step is asked for"
    );
    assert_eq!(
        file.find("self/self/none").unwrap_err().kind(),
        "key-not-found"
    );
}

#[test]
fn directories_in_each_other_are_a_loop() {
    let mut builder = Builder::default();
    let two = subdirectory(&mut builder, 20_000, "two", &[]);
    let one = subdirectory(&mut builder, 10_000, "one", &[&two]);
    let _two = subdirectory(&mut builder, 20_000, "two", &[&one]);
    assert_loop(&with_root(builder, &[&one]));
}

#[test]
fn the_root_directory_in_itself_is_a_loop() {
    let mut builder = Builder::default();
    let mut key = builder.record(10_000, false, ("TDirectory", "root"), &[0; 60]);
    key.seek_key = BEGIN;
    assert_loop(&with_root(builder, &[&key]));
}

#[test]
fn a_directory_with_two_names_is_a_loop() {
    let mut builder = Builder::default();
    let one = subdirectory(&mut builder, 10_000, "one", &[]);
    let two = Key {
        name: "two".to_owned(),
        ..one.clone()
    };
    assert_loop(&with_root(builder, &[&one, &two]));
}

#[test]
fn directories_that_share_a_key_list_longer_than_the_file_in_all_are_a_loop() {
    // 600 directories that share a list of 600 keys would give 360 000 entries from 100 kB
    let mut builder = Builder::default();
    let object = builder.record(90_000, false, ("TNamed", "x"), b"");
    let seek_keys = 60_000;
    let n_bytes_keys = builder.key_list(seek_keys, &[&object; 600]);
    let mut directories = Vec::new();
    for seek_dir in (91_000..).step_by(100).take(600) {
        let parts = DirectoryParts {
            wide: false,
            n_bytes_keys,
            seek_dir,
            seek_keys,
        };
        let record = directory(&parts);
        directories.push(builder.record(seek_dir, false, ("TDirectory", "d"), &record));
    }
    let keys: Vec<&Key> = directories.iter().collect();
    builder.root(Widths::default(), (SIZE, 0), 1000, &keys);
    let file = RootFile::open(builder.source(200_000)).unwrap();
    assert_loop(&file);
    assert_eq!(
        file.directory("d").unwrap().keys().len(),
        600,
        "one of them is no problem"
    );
}

#[test]
fn more_keys_than_fit_are_not_allocated() {
    let mut builder = Builder::default();
    let mut payload = 0x7FFF_FFFF_u32.to_be_bytes().to_vec();
    payload.extend([0; 100]);
    builder.root(Widths::default(), (SIZE, 0), 1000, &[]);
    let list = builder.record(1000, false, ("TFile", "built"), &payload);
    let parts = DirectoryParts {
        wide: false,
        n_bytes_keys: list.n_bytes,
        seek_dir: BEGIN,
        seek_keys: 1000,
    };
    let mut record = super::builder::string("built");
    record.extend(super::builder::string(""));
    record.extend(directory(&parts));
    builder.record(BEGIN, false, ("TFile", "built"), &record);
    let error = RootFile::open(builder.source(SIZE)).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("expected at most 3 items in the remaining bytes"),
        "{error}"
    );
}

#[test]
fn an_object_that_claims_to_decompress_to_much_is_not_allocated() {
    let (algorithm, compressed, uncompressed) = (Algorithm::Zstd, 4, RecordHeader::MAX_SIZE);
    let header = RecordHeader {
        algorithm,
        compressed,
        uncompressed,
    };
    let mut payload = header.to_bytes().unwrap().to_vec();
    payload.extend([0; 4]);
    let mut builder = Builder::default();
    let mut key = builder.record(10_000, false, ("TNamed", "bomb"), &payload);
    key.object_len = 0x7FFF_FFFF;
    let mut record = super::builder::key_bytes(&key);
    record.extend(payload);
    builder.put(10_000, record);
    let file = with_root(builder, &[&key]);
    let error = file.read_object(&key).unwrap_err();
    assert_eq!(error.kind(), "decompression-failed");
}

#[test]
fn a_key_that_disagrees_with_its_record_is_corrupt() {
    let file = open("objects_zlib.root");
    let key = file.find("h1").unwrap();
    for wrong in [
        Key {
            key_len: key.key_len + 1,
            ..key.clone()
        },
        Key {
            object_len: key.object_len - 1,
            ..key.clone()
        },
        Key {
            n_bytes: key.n_bytes - 1,
            ..key.clone()
        },
        Key {
            seek_key: key.seek_key + 1,
            ..key.clone()
        },
        Key {
            seek_key: 0,
            ..key.clone()
        },
    ] {
        let error = file.read_object(&wrong).unwrap_err();
        assert_eq!(error.kind(), "corrupt-file", "{error}");
    }
    let beyond = Key {
        seek_key: 1 << 40,
        ..key
    };
    assert_eq!(
        file.read_object(&beyond).unwrap_err().kind(),
        "truncated-file"
    );
}

#[test]
fn a_file_that_was_not_closed_says_so() {
    let mut bytes = bytes_of("directories.root");
    let file = open("directories.root");
    let at = file.header().begin + u64::from(file.header().n_bytes_name) + 26;
    let at = usize::try_from(at).unwrap();
    let seek_keys = u32::try_from(file.root().record().seek_keys).unwrap();
    assert_eq!(bytes[at..at + 4], seek_keys.to_be_bytes());
    bytes[at..at + 4].fill(0);
    let error = open_bytes(bytes).unwrap_err();
    assert_eq!(error.kind(), "file-not-closed");
    assert!(
        error.to_string().contains("before it closed the file"),
        "{error}"
    );
}

#[test]
fn a_cut_file_names_offset_expected_and_found() {
    let mut bytes = bytes_of("directories.root");
    let (end, cut) = (bytes.len() as u64, 1000);
    bytes.truncate(1000);
    match open_bytes(bytes).unwrap_err() {
        RootFileError::Truncated {
            what: "file",
            offset,
            expected,
            found,
            ..
        } => {
            assert_eq!((offset, expected, found), (cut, end, cut));
        }
        error => panic!("{error}"),
    }
}

/// Other writers than ROOT have left the sizes of an empty list in the key of a list to which keys
/// were added later. ROOT reads such files, as it uses only the directory's record.
#[test]
fn a_key_list_whose_own_sizes_are_wrong_is_read() {
    let mut builder = Builder::default();
    let object = builder.record(10_000, false, ("TNamed", "object"), b"the object");
    builder.root(Widths::default(), (SIZE, 0), 1000, &[&object]);
    let mut list = builder.record(1000, false, ("TFile", "built"), &[0; 4]);
    list.object_len = list.n_bytes;
    let mut record = super::builder::key_bytes(&list);
    record.extend(1_u32.to_be_bytes());
    record.extend(super::builder::key_bytes(&object));
    builder.put(1000, record);
    let file = RootFile::open(builder.source(SIZE)).unwrap();
    assert_eq!(file.keys(), [object]);
}
