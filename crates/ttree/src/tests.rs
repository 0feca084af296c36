//! Trees that ROOT wrote, intact and damaged, read without Python.

use std::sync::Arc;

use bytes::Bytes;
use femtobarn_io::{ByteSource, MemorySource};
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::array::{Arrays, SlotData};
use femtobarn_rntuple::read::{Part, ReadOptions, ReadSchema, Reader, ReaderOptions, read};
use femtobarn_rootfile::RootFile;

use crate::model::TreeModel;
use crate::{Tree, open};

fn bytes_of(name: &str) -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/ttree/");
    std::fs::read(format!("{folder}{name}.root")).unwrap()
}

fn opened(bytes: Vec<u8>, name: &str) -> Result<Arc<Reader>, RNTupleError> {
    let source: Arc<dyn ByteSource> = MemorySource::new("mem:tree", Bytes::from(bytes));
    let file = RootFile::open(source.clone())?;
    let key = file.find(name)?;
    open(source, &file, &key, name, ReaderOptions::default()).map(Arc::new)
}

fn arrays(reader: &Arc<Reader>, path: &str, start: u64, stop: u64) -> Result<Arrays, RNTupleError> {
    let (schema, mut bindings) =
        ReadSchema::new(std::slice::from_ref(reader), Some(&[path.to_owned()]))?;
    let part = Part {
        reader: reader.clone(),
        binding: bindings.remove(0),
        start,
        stop,
    };
    let options = ReadOptions {
        threads: 2,
        ..ReadOptions::default()
    };
    read(&schema, &[part], &options)
}

#[test]
fn the_model_says_what_the_tree_is() {
    let reader = opened(bytes_of("leaves_many_baskets"), "leaves").unwrap();
    let model = Tree::model(&reader).unwrap();
    let filling = Tree::filling(&reader).unwrap();
    assert_eq!(
        (filling.n_entries, model.class_name.as_str()),
        (60, "TTree")
    );
    assert_eq!(filling.clusters, [0, 20, 40, 60]);
    let at = model.branches.iter().position(|b| b.name == "jag").unwrap();
    let jag = &model.branches[at];
    let (counter, _) = jag.leaves[0].count.unwrap();
    assert_eq!(model.branches[counter].name, "n");
    let baskets = filling.contents(at).baskets;
    assert!(baskets.len() > 1);
    assert_eq!(baskets.last().unwrap().end(), 60);
}

#[test]
fn lists_are_read_over_the_borders_of_baskets() {
    let reader = opened(bytes_of("leaves_many_baskets"), "leaves").unwrap();
    let arrays = arrays(&reader, "jag", 13, 47).unwrap();
    let SlotData::Index { offsets } = arrays.slot(0).unwrap() else {
        panic!("offsets first");
    };
    let offsets: Vec<i64> = bytemuck::cast_slice(offsets).to_vec();
    let (mut sum, mut expected) = (0, vec![0]);
    for entry in 13..47 {
        sum += (entry * 7) % 11;
        expected.push(sum);
    }
    assert_eq!(offsets, expected);
    let values: Vec<f32> = bytemuck::cast_slice(arrays.leaf(1).unwrap().1).to_vec();
    assert_eq!(values.len(), usize::try_from(sum).unwrap());
    assert_eq!(values[..3], [13.0, 13.0625, 13.125]);
}

#[test]
fn a_truncated_file_is_an_error() {
    let bytes = bytes_of("leaves_zlib");
    for length in [100, 1000, bytes.len() / 2, bytes.len() - 1] {
        assert!(opened(bytes[..length].to_vec(), "leaves").is_err());
    }
}

/// Other writers than ROOT write trees without descriptions of their classes; leaves always have the same members.
#[test]
fn leaves_need_no_description() {
    let bytes = bytes_of("leaves_many_baskets");
    let source: Arc<dyn ByteSource> = MemorySource::new("mem:tree", Bytes::from(bytes));
    let file = RootFile::open(source).unwrap();
    let key = file.find("leaves").unwrap();
    let object = file.read_object(&key).unwrap();
    let model = |without: &str| {
        let mut infos = file.streamer_infos().unwrap();
        infos.retain(|info| info.name != without);
        let infos = crate::object::Infos::new(infos, 0);
        crate::model::build(&infos, "TTree", &object, key.key_len, None)
    };
    let whole = format!("{:?}", model("").unwrap());
    assert_eq!(format!("{:?}", model("TLeaf").unwrap()), whole);
    assert!(model("TBranch").is_err());
}

/// Parts that equal those of a tree opened before are reused; differing parts, wherever they are, are not.
#[test]
fn a_tree_is_the_same_whatever_tree_it_is_compared_with() {
    let source = MemorySource::new("mem:tree", Bytes::from(bytes_of("leaves_many_baskets")));
    let source: Arc<dyn ByteSource> = source;
    let file = RootFile::open(source).unwrap();
    let key = file.find("leaves").unwrap();
    let object = file.read_object(&key).unwrap();
    let infos = crate::object::Infos::new(file.streamer_infos().unwrap(), 0);
    let built = |like: Option<&TreeModel>| {
        let built = crate::model::build(&infos, "TTree", &object, key.key_len, like);
        built.unwrap().0
    };
    let model = built(None).unwrap();
    assert_eq!(built(Some(&model)), None);
    let counted = model.branches.iter().position(|branch| {
        let mut leaves = branch.leaves.iter();
        leaves.any(|leaf| leaf.count.is_some())
    });
    let counted = counted.unwrap();
    let changes: [&dyn Fn(&mut TreeModel); 7] = [
        &|like| drop(like.branches.remove(0)),
        &|like| drop(like.branches.pop()),
        &|like| like.branches.push(like.branches[0].clone()),
        &|like| like.title.push('x'),
        &|like| like.branches[1].title = "another".into(),
        &|like| like.branches[counted].leaves[0].count = Some((0, 1)),
        &|like| like.branches[counted].leaves[0].length += 1,
    ];
    for (number, change) in changes.iter().enumerate() {
        let mut like = model.clone();
        change(&mut like);
        assert_eq!(built(Some(&like)).as_ref(), Some(&model), "{number}");
    }
}

#[test]
fn a_damaged_basket_is_named() {
    let mut bytes = bytes_of("leaves_many_baskets");
    let name = b"TBasket\x04grid";
    let at = bytes.windows(name.len()).position(|w| w == name).unwrap();
    bytes[at + name.len() + 30] ^= 0xFF;
    let reader = opened(bytes, "leaves").unwrap();
    let error = arrays(&reader, "grid", 0, 60).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("basket 0 of branch \"grid\""), "{text}");
    assert!(arrays(&reader, "int32", 0, 60).is_ok());
}

/// Every byte of an uncompressed basket's key is changed: the read fails, or returns the same values.
#[test]
fn keys_of_baskets_are_compared_with_their_records() {
    let whole = bytes_of("leaves_none");
    let name = b"TBasket\x03jag";
    let at = whole.windows(name.len()).position(|w| w == name).unwrap();
    let reader = opened(whole.clone(), "leaves").unwrap();
    let n = reader.n_entries();
    let expected: Vec<u8> = arrays(&reader, "jag", 0, n)
        .unwrap()
        .leaf(1)
        .unwrap()
        .1
        .to_vec();
    for position in at - 26..at + name.len() + 26 {
        let mut bytes = whole.clone();
        bytes[position] ^= 0x55;
        let reader = opened(bytes, "leaves").unwrap();
        if let Ok(found) = arrays(&reader, "jag", 0, n) {
            assert_eq!(*found.leaf(1).unwrap().1, expected, "byte {position}");
        }
    }
}

/// Bytes all over a file are changed, and everything is read: if the read succeeds, ranges equal parts of the whole.
#[test]
fn damaged_files_are_read_without_panics() {
    for (name, steps) in [("leaves_none", 23), ("objects_split0", 41)] {
        let whole = bytes_of(name);
        for position in (0..whole.len()).step_by(steps) {
            let mut bytes = whole.clone();
            bytes[position] = bytes[position].wrapping_mul(31).wrapping_add(127);
            crate::fuzz::tree(&bytes);
        }
    }
}

#[test]
fn types_that_ask_for_values_without_bytes_are_refused() {
    // strings in arrays: an entry without bytes has no strings
    crate::fuzz::basket(&[6, 3, 0]);
    let shape = crate::interp::Shapes::new(&crate::object::Infos::default())
        .of_type(
            &crate::interp::Cpp::parse("array<string,4000000000>").unwrap(),
            false,
        )
        .unwrap();
    let op = crate::read::Op::new(&shape, &[true, true]);
    let mut sinks = vec![crate::read::Sink::default(); 2];
    assert!(crate::read::decode_entries(&op, &mut sinks, &[], Some(&[0]), 1).is_err());
}

/// If objects of a branch do not match their description although the bytes were verified, the description is wrong, and
/// the branch is left out. zstd records and uncompressed bytes have no checksum: a flipped bit in one made its branch
/// disappear with a warning.
#[test]
fn objects_in_bytes_that_nothing_checked_are_damaged_but_for_the_first() {
    let is_foreign = |bytes: Vec<u8>, field: &str| {
        let reader = opened(bytes, "versions").unwrap();
        match arrays(&reader, field, 0, reader.n_entries()).err().unwrap() {
            RNTupleError::Unsupported { .. } => true,
            RNTupleError::Object { structure, .. } => {
                assert_eq!(structure, format!("basket 1 of branch {field:?}"));
                false
            }
            error => panic!("{error}"),
        }
    };
    assert!(is_foreign(bytes_of("versions"), "thing"));
    assert!(!is_foreign(bytes_of("versions_zstd"), "thing"));
    assert!(!is_foreign(bytes_of("versions_none"), "thing"));
    // in the header of an object: its byte count, or its version
    let name = b"TBasket\x06holder";
    for at in [3, 5] {
        for (basket, expected) in [(0, true), (1, false)] {
            let mut bytes = bytes_of("versions_none");
            let mut keys = (0..bytes.len()).filter(|&at| bytes[at..].starts_with(name));
            let key = keys.nth(basket).unwrap() - 35;
            let key_len = usize::from(bytes[key + 14]) << 8 | usize::from(bytes[key + 15]);
            bytes[key + key_len + at] ^= 0x10;
            assert_eq!(is_foreign(bytes, "holder"), expected, "{at}, {basket}");
        }
    }
    // if nothing matches the description, no basket counts as damaged
    let mut bytes = bytes_of("versions_none");
    let keys = (0..bytes.len()).filter(|&at| bytes[at..].starts_with(name));
    for key in keys.map(|at| at - 35).collect::<Vec<_>>() {
        let key_len = usize::from(bytes[key + 14]) << 8 | usize::from(bytes[key + 15]);
        bytes[key + key_len + 5] ^= 0x10;
    }
    let reader = opened(bytes, "versions").unwrap();
    for start in [0, 200] {
        let error = arrays(&reader, "holder", start, 400).err().unwrap();
        assert!(matches!(error, RNTupleError::Unsupported { .. }), "{error}");
    }
    // versions that the file describes are not damage
    let whole = opened(bytes_of("versions_none"), "versions").unwrap();
    assert!(arrays(&whole, "holder", 0, whole.n_entries()).is_ok());
}
