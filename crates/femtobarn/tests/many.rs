//! Several files as one ntuple.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "tests"
)]

mod common;

use common::{read, root, top_level};
use femtobarn::{NTuple, OpenOptions, ReadOptions};

fn open(files: &[(&str, &str)]) -> NTuple {
    let path = |name: &str| {
        root()
            .join("testdata")
            .join(name)
            .to_str()
            .unwrap()
            .to_owned()
    };
    let files: Vec<_> = files
        .iter()
        .map(|(file, ntuple)| (path(file), Some((*ntuple).to_owned())))
        .collect();
    NTuple::open(&files, OpenOptions::default()).unwrap()
}

const CODECS: [&str; 5] = ["zstd", "none", "lzma", "lz4", "zlib"];

#[test]
fn files_are_read_one_after_another_whatever_their_encodings() {
    let names: Vec<String> = CODECS
        .iter()
        .map(|codec| format!("rntuple/mixed_{codec}.root"))
        .collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "mixed")).collect();
    let together = open(&files);
    let single: Vec<NTuple> = files.iter().map(|file| open(&[*file])).collect();
    let n = single[0].n_entries();
    assert_eq!(together.n_entries(), 5 * n);
    assert!(together.uncommon().is_empty());
    for (i, one) in (0u64..).zip(&single) {
        assert_eq!(
            read(&together, None, i * n, (i + 1) * n),
            read(one, None, 0, n),
            "{}",
            names[i as usize]
        );
    }
    // over the borders: the parts of each file
    let across = read(&together, None, n / 2, 2 * n + n / 3);
    let whole = read(&together, None, 0, 5 * n);
    assert_eq!(
        across,
        whole.slice((n / 2) as usize, (2 * n + n / 3 - n / 2) as usize)
    );
}

#[test]
fn fields_that_a_file_lacks_are_left_out_and_named() {
    let both = open(&[
        ("rntuple/mixed_zstd.root", "mixed"),
        ("dimuon.root", "Events"),
    ]);
    let first = top_level(&open(&[("rntuple/mixed_zstd.root", "mixed")]));
    let second = top_level(&open(&[("dimuon.root", "Events")]));
    for name in first.iter().filter(|name| !second.contains(name)) {
        assert!(
            both.uncommon()
                .iter()
                .any(|(n, why)| n == name && why.contains("dimuon.root")),
            "{name}"
        );
    }
    assert!(
        both.uncommon()
            .iter()
            .any(|(n, why)| n == "Muon_pt" && why.contains("mixed_zstd.root"))
    );
    // without names, the common fields are read; one that is lacking can be asked for and is refused
    let all = both.select(None).unwrap();
    assert!(
        all.schema()
            .columns
            .iter()
            .all(|(name, _)| first.contains(name) && second.contains(name))
    );
    assert_eq!(
        both.read(&all, 0..5, &ReadOptions::default())
            .unwrap()
            .n_entries(),
        5
    );
    let error = both.select(Some(&[first[0].clone()])).unwrap_err();
    assert!(error.to_string().contains("dimuon.root"), "{error}");
}

#[test]
fn fields_of_the_same_name_and_another_structure_are_refused() {
    for (one, other, field) in [
        (
            ("rntuple/mixed_zstd.root", "mixed"),
            ("rntuple/empty.root", "empty"),
            "bits",
        ),
        (
            ("rntuple/sums.root", "sums"),
            ("rntuple/representations.root", "representations"),
            "pair",
        ),
    ] {
        let both = open(&[one, other]);
        let error = both.select(Some(&[field.to_owned()])).unwrap_err();
        assert_eq!(error.kind(), "schema-mismatch");
        let text = error.to_string();
        assert!(
            [field, one.0, other.0]
                .iter()
                .all(|part| text.contains(part)),
            "{text}"
        );
    }
}

#[test]
fn numbers_of_different_types_are_promoted() {
    let both = open(&[
        ("rntuple/split.root", "split"),
        ("rntuple/keys_zstd.root", "keys"),
    ]);
    let names = ["numbers".to_owned()];
    let (n, whole) = (
        both.n_entries(),
        read(&both, Some(&names), 0, both.n_entries()),
    );
    assert_eq!(whole.num_rows() as u64, n);
    assert!(format!("{:?}", whole.schema()).contains("Float64"));
}
