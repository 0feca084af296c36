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
use femtobarn::{NTuple, OpenOptions};

/// The path of a file of testdata.
fn path(name: &str) -> String {
    let path = root().join("testdata").join(name);
    path.to_str().unwrap().to_owned()
}

fn open(files: &[(&str, &str)]) -> NTuple {
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
    assert!(together.left_out().is_empty());
    for (i, one) in (0u64..).zip(&single) {
        assert_eq!(
            read(&together, None, i * n, (i + 1) * n),
            read(one, None, 0, n),
            "{}",
            names[i as usize]
        );
    }
    // across file boundaries: the parts of each file
    let across = read(&together, None, n / 2, 2 * n + n / 3);
    let whole = read(&together, None, 0, 5 * n);
    assert_eq!(
        across,
        whole.slice((n / 2) as usize, (2 * n + n / 3 - n / 2) as usize)
    );
}

#[test]
fn fields_that_a_file_lacks_are_left_out_and_named() {
    let (wide, narrow) = (
        ("rntuple/sums.root", "sums"),
        ("rntuple/representations.root", "representations"),
    );
    let both = open(&[wide, narrow]);
    let (first, second) = (top_level(&open(&[wide])), top_level(&open(&[narrow])));
    for (names, others, file) in [(&first, &second, narrow.0), (&second, &first, wide.0)] {
        for name in names.iter().filter(|name| !others.contains(name)) {
            let left_out = both.left_out();
            let why = left_out.reason(name).unwrap();
            assert!(why.contains(file), "{name}: {why}");
        }
    }
    let lacking = first.iter().find(|name| !second.contains(name)).unwrap();
    let error = both
        .select(Some(std::slice::from_ref(lacking)))
        .unwrap_err();
    assert!(error.to_string().contains(narrow.0), "{error}");
}

#[test]
fn files_that_are_no_ntuple_together_are_refused() {
    let files = [path("dimuon.root"), path("rntuple/mixed_zstd.root")];
    let unnamed = files.clone().map(|file| (file, None));
    let error = NTuple::open(&unnamed, OpenOptions::default()).unwrap_err();
    assert_eq!(error.kind(), "schema-mismatch");
    assert!(
        error
            .to_string()
            .contains("\"mixed\" here, \"Events\" there"),
        "{error}"
    );
    let [first, second] = files;
    let named = [
        (first, Some("Events".to_owned())),
        (second, Some("mixed".to_owned())),
    ];
    let error = NTuple::open(&named, OpenOptions::default()).unwrap_err();
    assert!(
        error.to_string().contains("no field is in all files"),
        "{error}"
    );
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
fn numbers_of_different_types_are_promoted_where_no_value_changes() {
    let both = open(&[
        ("rntuple/mixed_zstd.root", "mixed"),
        ("rntuple/imported.root", "Events"),
    ]);
    let names = ["triple".to_owned()];
    let (n, whole) = (
        both.n_entries(),
        read(&both, Some(&names), 0, both.n_entries()),
    );
    assert_eq!(whole.num_rows() as u64, n);
    assert!(format!("{:?}", whole.schema()).contains("Float64"));

    let both = open(&[
        ("rntuple/split.root", "split"),
        ("rntuple/keys_zstd.root", "keys"),
    ]);
    let error = both.select(Some(&["numbers".to_owned()])).unwrap_err();
    assert!(
        error.to_string().contains("int64 here, float64 there"),
        "{error}"
    );
}

#[test]
fn what_is_made_and_held_does_not_grow_with_the_files() {
    let names: Vec<String> = CODECS
        .iter()
        .map(|codec| format!("rntuple/mixed_{codec}.root"))
        .collect();
    let all: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "mixed")).collect();
    let few = open(&all);
    let files: Vec<(&str, &str)> = all.iter().copied().cycle().take(1000).collect();
    let many = open(&files);
    let n = few.n_entries() / 5;
    assert_eq!(many.n_entries(), 1000 * n);
    assert_eq!(many.n_schemas(), few.n_schemas());
    assert_eq!(many.page_list_bytes(), 0);
    let before = many.n_selected();
    for start in (0..many.n_entries()).step_by(n as usize) {
        let selection = many.select(None).unwrap();
        assert!(many.decoded_bytes(&selection, start..start + n).unwrap() > 0);
    }
    assert_eq!(many.n_selected() - before, 1);
    assert_eq!(
        read(&many, None, 500 * n - n / 2, 500 * n + n / 3),
        read_around(&few, n)
    );
    // other fields are another selection, and so are the same fields after one turned out to be
    // unreadable
    let field = [top_level(&many)[0].clone()];
    many.select(Some(&field)).unwrap();
    many.select(Some(&field)).unwrap();
    assert_eq!(many.n_selected() - before, 2);
}

#[test]
fn trees_of_files_that_were_written_alike_share_what_their_branches_are() {
    let names = ["zlib", "lzma", "lz4"].map(|codec| format!("ttree/leaves_{codec}.root"));
    let all: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "leaves")).collect();
    let few = open(&all);
    let files: Vec<(&str, &str)> = all.iter().copied().cycle().take(300).collect();
    let many = open(&files);
    assert_eq!(many.n_schemas(), few.n_schemas());
    assert_eq!(many.page_list_bytes(), 0);
    // another reader of one of the files shares them as well, while they are open
    let alone = open(&all[..1]);
    let schema = |ntuple: &NTuple| std::sync::Arc::as_ptr(&ntuple.readers()[0].descriptor().schema);
    assert_eq!(schema(&alone), schema(&many));
    let (n, all) = (few.n_entries(), many.n_entries());
    assert_eq!(all, 100 * n);
    assert_eq!(read(&many, None, all - n, all), read(&few, None, 0, n));
}

/// The end of the second file, and the beginning of the third.
fn read_around(few: &NTuple, n: u64) -> arrow_array::RecordBatch {
    let (end, begin) = (
        read(few, None, 5 * n - n / 2, 5 * n),
        read(few, None, 0, n / 3),
    );
    arrow_select::concat::concat_batches(&end.schema(), [&end, &begin]).unwrap()
}
