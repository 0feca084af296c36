//! Converting: the output equals the input, for every file in testdata/.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod common;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Int8Array, Int32Array, Int64Array, LargeListArray, ListArray,
    MapArray, RecordBatch, StringArray, StructArray,
};
use arrow_buffer::OffsetBuffer;
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::{DataType, Field, Fields};
use common::{ntuples_in, read, root, test_files, top_level};
use femtobarn::convert::{ConvertOptions, Converted, Input, convert};
use femtobarn::expression::Expression;
use femtobarn::merge::{Entries, MergeOptions, merge};
use femtobarn::write::{FieldModel, NTupleWriter, WriteOptions};
use femtobarn::{Error, NTuple, create_new_file};

fn input(path: &Path, name: Option<&str>) -> Input {
    Input {
        url: path.to_str().unwrap().to_owned(),
        path: name.map(str::to_owned),
        ..Input::default()
    }
}

fn verified() -> ConvertOptions {
    ConvertOptions {
        verify: true,
        ..ConvertOptions::default()
    }
}

fn converted(input: Input, output: &Path, options: &ConvertOptions) -> Result<Converted, Error> {
    convert(&[input], output, options, &|_| true)
}

fn open(path: &Path) -> NTuple {
    NTuple::open_files(&[path.to_str().unwrap()], femtobarn::OpenOptions::default()).unwrap()
}

fn all(ntuple: &NTuple) -> RecordBatch {
    read(ntuple, None, 0, ntuple.n_entries())
}

fn digests(converted: &Converted) -> Vec<String> {
    let certificates = converted.ntuples.iter().map(|it| it.certificate.as_ref());
    let columns = certificates.flat_map(|it| it.unwrap().columns.iter());
    columns
        .map(|column| format!("{:?}", column.found))
        .collect()
}

fn trees() -> Vec<PathBuf> {
    let folder = std::fs::read_dir(root().join("testdata/ttree")).unwrap();
    let mut files: Vec<PathBuf> = folder.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn every_ntuple_becomes_one_with_the_same_values() {
    let folder = tempfile::tempdir().unwrap();
    let mut n = 0;
    for file in test_files() {
        for (path, ntuple) in ntuples_in(&file) {
            let name = path.split(';').next().unwrap();
            let output = folder.path().join(format!("{n}.root"));
            let done = match converted(input(&file, Some(&path)), &output, &verified()) {
                Ok(done) => done,
                // an ntuple without fields has nothing to convert
                Err(error) if top_level(&ntuple).is_empty() => {
                    assert_eq!(error.kind(), "usage", "{error}");
                    continue;
                }
                Err(error) => panic!("{}:{path}: {}", file.display(), error.with_causes()),
            };
            let certificate = done.ntuples[0].certificate.as_ref().unwrap();
            assert!(certificate.is_equal());
            let made = open(&output);
            let fields: Vec<String> = top_level(&made);
            let of = |ntuple: &NTuple| read(ntuple, Some(&fields), 0, ntuple.n_entries());
            let (found, given) = (of(&made), of(&ntuple));
            // unions are compared by their certificate: here, values that no entry refers to would be
            // compared as well
            if !format!("{:?}", given.schema()).contains("Union") {
                assert!(found == given, "{}:{name}", file.display());
            }
            n += 1;
        }
    }
    assert!(n > 60, "{n}");
}

#[test]
fn every_tree_becomes_an_ntuple_that_is_proven() {
    let folder = tempfile::tempdir().unwrap();
    for (n, file) in trees().iter().enumerate() {
        let output = folder.path().join(format!("{n}.root"));
        // baskets there have no checksum, so damage looks like objects of another version
        let name = file.file_name().unwrap().to_str().unwrap();
        let has_odd = name == "versions_none.root" || name == "versions_zstd.root";
        let options = ConvertOptions {
            drop: has_odd.then(|| "thing".to_owned()).into_iter().collect(),
            ..verified()
        };
        let done = converted(input(file, None), &output, &options);
        let done = done.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert!(!done.ntuples.is_empty(), "{}", file.display());
        for ntuple in &done.ntuples {
            let certificate = ntuple.certificate.as_ref().unwrap();
            assert!(certificate.is_equal() && !certificate.columns.is_empty());
        }
    }
}

#[test]
fn digests_do_not_depend_on_compression_pages_clusters_or_threads() {
    let folder = tempfile::tempdir().unwrap();
    let plain = WriteOptions::default();
    let options = [
        plain.clone(),
        WriteOptions {
            compression: 0,
            ..plain.clone()
        },
        WriteOptions {
            compression: 404,
            page_bytes: 100,
            ..plain.clone()
        },
        WriteOptions {
            cluster_bytes: 20_000,
            page_bytes: 4096,
            threads: 3,
            ..plain
        },
    ];
    let mut found = Vec::new();
    for (n, write) in options.into_iter().enumerate() {
        let options = ConvertOptions {
            write,
            ..verified()
        };
        let output = folder.path().join(format!("{n}.root"));
        let done = converted(
            input(&root().join("testdata/dimuon.root"), None),
            &output,
            &options,
        );
        found.push(digests(&done.unwrap()));
    }
    assert!(!found[0].is_empty() && found.iter().all(|one| *one == found[0]));
}

#[test]
fn fields_are_chosen_and_dropped_by_patterns() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.root");
    let options = ConvertOptions {
        fields: vec!["event".into(), "Muon_*".into()],
        drop: vec!["*_phi".into()],
        ..verified()
    };
    let dimuon = || input(&root().join("testdata/dimuon.root"), None);
    converted(dimuon(), &output, &options).unwrap();
    let fields = top_level(&open(&output));
    assert!(fields.contains(&"event".into()) && fields.contains(&"Muon_pt".into()));
    assert!(!fields.contains(&"run".into()) && !fields.contains(&"Muon_phi".into()));
    let misspelt = ConvertOptions {
        fields: vec!["Muon_ptt".into()],
        ..verified()
    };
    let error = converted(dimuon(), &folder.path().join("none.root"), &misspelt).unwrap_err();
    assert_eq!(error.kind(), "no-such-field");
    assert!(error.to_string().contains("Muon_pt"), "{error}");
}

#[test]
fn arrays_with_one_counter_become_a_collection() {
    let folder = tempfile::tempdir().unwrap();
    let tree = || input(&root().join("testdata/ttree/leaves_zlib.root"), None);
    let plain = folder.path().join("plain.root");
    converted(tree(), &plain, &verified()).unwrap();
    assert!(
        top_level(&open(&plain))
            .iter()
            .any(|name| name == "_collection0")
    );
}

#[test]
fn tables_come_back_as_they_went() {
    let folder = tempfile::tempdir().unwrap();
    let options = ConvertOptions {
        fields: vec!["event".into(), "nMuon".into(), "Muon_pt".into()],
        ..verified()
    };
    let source = root().join("testdata/dimuon.root");
    let given = open(&source);
    for ending in ["parquet", "arrow"] {
        let table = folder.path().join(format!("table.{ending}"));
        let back = folder.path().join(format!("{ending}.root"));
        converted(input(&source, None), &table, &options).unwrap();
        converted(input(&table, None), &back, &verified()).unwrap();
        let made = open(&back);
        let fields = ["event".to_owned(), "Muon_pt".to_owned()];
        let of = |ntuple: &NTuple| read(ntuple, Some(&fields), 0, ntuple.n_entries());
        let (one, other) = (of(&given), of(&made));
        assert_eq!(one.num_rows(), other.num_rows());
        for (a, b) in one.columns().iter().zip(other.columns()) {
            assert_eq!(a.to_data(), b.to_data(), "{ending}");
        }
    }
}

#[test]
fn columns_without_categories_are_converted() {
    let folder = tempfile::tempdir().unwrap();
    let none: ArrayRef = Arc::new(StringArray::from(Vec::<String>::new()));
    let batch = |n: usize| {
        let dictionary = |n: usize| {
            let keys = Int8Array::new_null(n);
            DictionaryArray::<Int8Type>::try_new(keys, none.clone()).unwrap()
        };
        let one = Arc::new(arrow_schema::Field::new_list_field(
            dictionary(0).data_type().clone(),
            true,
        ));
        let offsets = arrow_buffer::OffsetBuffer::from_lengths(vec![2; n]);
        let lists = ListArray::try_new(one, offsets, Arc::new(dictionary(2 * n)), None).unwrap();
        let x = Int32Array::from_iter_values((0..n).map(|i| i32::try_from(i).unwrap()));
        let columns: [(&str, ArrayRef, bool); 3] = [
            ("cut", Arc::new(dictionary(n)), true),
            ("cuts", Arc::new(lists), false),
            ("x", Arc::new(x), false),
        ];
        RecordBatch::try_from_iter_with_nullable(columns).unwrap()
    };
    for n in [0, 3] {
        let batch = batch(n);
        let path = |ending: &str| folder.path().join(format!("{n}.{ending}"));
        let create = |ending: &str| File::create(path(ending)).unwrap();
        let mut arrow = FileWriter::try_new(create("arrow"), &batch.schema()).unwrap();
        arrow.write(&batch).unwrap();
        arrow.finish().unwrap();
        let mut stream = StreamWriter::try_new(create("arrows"), &batch.schema()).unwrap();
        stream.write(&batch).unwrap();
        stream.finish().unwrap();
        let parquet = create("parquet");
        let mut parquet =
            parquet::arrow::ArrowWriter::try_new(parquet, batch.schema(), None).unwrap();
        parquet.write(&batch).unwrap();
        parquet.close().unwrap();
        for ending in ["arrow", "arrows", "parquet"] {
            let output = path(&format!("{ending}.root"));
            converted(input(&path(ending), None), &output, &verified()).unwrap();
            let found = all(&open(&output));
            assert_eq!((found.num_rows(), found.num_columns()), (n, 3), "{ending}");
            let cut = found.column_by_name("cut").unwrap();
            assert_eq!(cut.logical_null_count(), n, "{ending}");
        }
    }
}

#[test]
fn an_interrupted_conversion_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.root");
    let calls = AtomicUsize::new(0);
    let stops = |_| calls.fetch_add(1, Ordering::Relaxed) > 0;
    let options = ConvertOptions {
        write: WriteOptions {
            cluster_bytes: 10_000,
            ..WriteOptions::default()
        },
        ..verified()
    };
    let dimuon = input(&root().join("testdata/dimuon.root"), None);
    let error = convert(&[dimuon], &output, &options, &stops).unwrap_err();
    assert_eq!(error.kind(), "interrupted");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn damage_in_the_input_is_an_error_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let damaged = folder.path().join("damaged.root");
    let mut bytes = std::fs::read(root().join("testdata/dimuon.root")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    std::fs::write(&damaged, bytes).unwrap();
    let output = folder.path().join("out.root");
    let error = converted(input(&damaged, None), &output, &verified()).unwrap_err();
    assert_eq!(error.kind(), "page-checksum");
    assert!(!output.exists());
    // undamaged files can be converted
    let options = ConvertOptions {
        fields: vec!["event".into()],
        ..verified()
    };
    converted(input(&damaged, None), &output, &options).unwrap();
    assert_eq!(all(&open(&output)).num_columns(), 1);
}

#[test]
fn an_output_is_neither_its_input_nor_another_file() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.root");
    std::fs::copy(root().join("testdata/dimuon.root"), &copy).unwrap();
    let error = converted(input(&copy, None), &copy, &verified()).unwrap_err();
    assert_eq!(error.kind(), "usage");
    let text = folder.path().join("notes.root");
    std::fs::write(&text, "not a conversion").unwrap();
    assert!(converted(input(&copy, None), &text, &verified()).is_err());
    assert_eq!(std::fs::read(&text).unwrap(), b"not a conversion");
}

/// Writes a file of ntuples at these paths, all with the same batch.
fn written(output: &Path, paths: &[&str], batch: &RecordBatch) {
    let schema = batch.schema();
    let fields = schema.fields().iter();
    let fields = fields.map(|field| FieldModel::from_arrow(field));
    let fields: Vec<FieldModel> = fields.collect::<Result<_, _>>().unwrap();
    let mut file = create_new_file(output.to_str().unwrap(), 505).unwrap();
    for path in paths {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let folder = file.directory(folder).unwrap();
        let options = WriteOptions::default();
        let mut writer = NTupleWriter::new(&mut file, folder, name, &fields, options).unwrap();
        writer.extend(&mut file, batch).unwrap();
        writer.finish(&mut file).unwrap();
    }
    file.finish().unwrap();
}

fn integers(values: [i64; 4]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

fn record(members: Vec<(&str, ArrayRef)>) -> ArrayRef {
    Arc::new(StructArray::try_from(members).unwrap())
}

fn list(item: ArrayRef, lengths: [usize; 4]) -> ArrayRef {
    let field = Arc::new(Field::new("item", item.data_type().clone(), false));
    let offsets = OffsetBuffer::from_lengths(lengths);
    Arc::new(LargeListArray::new(field, offsets, item, None))
}

/// Pairs and tuples: alone, in lists, in a map and in a record. The members differ by 100.
fn tuples() -> RecordBatch {
    let pair = || {
        record(vec![
            ("_0", integers([0, 1, 2, 3])),
            ("_1", integers([100, 101, 102, 103])),
        ])
    };
    let tuple = record(vec![
        ("_0", integers([0, 1, 2, 3])),
        ("_1", integers([100, 101, 102, 103])),
        ("_2", integers([200, 201, 202, 203])),
        ("_3", integers([300, 301, 302, 303])),
    ]);
    let entries = Fields::from(vec![
        Field::new("key", DataType::Int64, false),
        Field::new("value", DataType::Int64, false),
    ]);
    let columns = vec![integers([0, 1, 2, 3]), integers([100, 101, 102, 103])];
    let map = MapArray::new(
        Arc::new(Field::new(
            "entries",
            DataType::Struct(entries.clone()),
            false,
        )),
        OffsetBuffer::from_lengths([0, 1, 1, 2]),
        StructArray::new(entries, columns, None),
        None,
        false,
    );
    let inner = record(vec![("p", pair()), ("_1", integers([7, 8, 9, 10]))]);
    let columns = vec![
        ("p", pair()),
        ("t", tuple),
        ("l", list(pair(), [1, 0, 2, 1])),
        ("m", Arc::new(map) as ArrayRef),
        ("r", inner),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

#[test]
fn conditions_take_any_member_of_a_tuple() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("tuples.root");
    written(&source, &["E"], &tuples());
    let chosen = |condition: &str| -> Vec<i64> {
        let output = folder.path().join("out.root");
        _ = std::fs::remove_file(&output);
        let options = MergeOptions {
            entries: Entries::Where(Expression::parse(condition).unwrap()),
            ..MergeOptions::default()
        };
        let done = merge(&[input(&source, None)], &output, &options, &|_| true);
        done.unwrap_or_else(|error| panic!("{condition}: {error}"));
        let found = all(&open(&output));
        let pairs = found.column_by_name("p").unwrap().as_struct();
        let first = pairs.column(0).as_primitive::<Int64Type>();
        first.values().to_vec()
    };
    for (condition, expected) in [
        ("p.0 == 2", vec![2]),
        ("p.1 == 102", vec![2]),
        ("p.1 >= 102 and p.0 != 3", vec![2]),
        ("t.3 == 301", vec![1]),
        ("t.2 == 2 || t.2 == 203", vec![3]),
        ("t.0 <= 1 && t.2 == 201", vec![1]),
        ("t.1 >= 101 && t.2 < 203", vec![1, 2]),
        ("t.1 == 101 && t.3 == 301", vec![1]),
        ("t.3 == 301 && t.1 == 101 && t.0 == 1", vec![1]),
        ("any(l.1 == 102)", vec![2]),
        ("any(l.1 == 1)", vec![]),
        ("any(m.1 == 103)", vec![3]),
        ("any(m.0 == 3) and sum(m.1) > 0", vec![3]),
        ("r.p.1 == 101", vec![1]),
        ("r._1 == 8", vec![1]),
        ("r.p.1 == 101 and r._1 == 8", vec![1]),
        // the names of pair members in C++ and in trees
        ("p.second == 102", vec![2]),
        ("p.first == 1 || p.second == 103", vec![1, 3]),
        ("r.p.second == 101 and any(m.second > 0)", vec![1]),
        ("any(l.second == 102) and any(l.first == 2)", vec![2]),
    ] {
        assert_eq!(chosen(condition), expected, "{condition}");
    }
    // only pairs have these names
    let of_tuple = MergeOptions {
        entries: Entries::Where(Expression::parse("t.first == 1").unwrap()),
        ..MergeOptions::default()
    };
    let output = folder.path().join("none.root");
    let error = merge(&[input(&source, None)], &output, &of_tuple, &|_| true).unwrap_err();
    assert_eq!(error.kind(), "no-such-field");
}

fn names(converted: &Converted) -> Vec<&str> {
    converted.ntuples.iter().map(|it| &*it.name).collect()
}

#[test]
fn an_ntuple_keeps_its_path_also_alone() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    let (one, same, other) = (place("one.root"), place("same.root"), place("other.root"));
    written(&one, &["deep/down/E"], &tuples());
    written(&same, &["deep/down/E"], &tuples());
    written(&other, &["other/E"], &tuples());
    let made = |inputs: &[Input], name: Option<&str>| {
        let options = ConvertOptions {
            name: name.map(str::to_owned),
            ..verified()
        };
        _ = std::fs::remove_file(place("out.root"));
        _ = std::fs::remove_file(place("again.root"));
        let done = convert(inputs, &place("out.root"), &options, &|_| true).unwrap();
        // the same holds for the path of the output
        let again = convert(
            &[input(&place("out.root"), None)],
            &place("again.root"),
            &verified(),
            &|_| true,
        );
        assert_eq!(names(&again.unwrap()), names(&done));
        names(&done).join(" ")
    };
    let whole = |path: &Path| input(path, None);
    let named = |path: &Path, name: &str| input(path, Some(name));
    assert_eq!(made(&[whole(&one)], None), "deep/down/E");
    assert_eq!(made(&[whole(&one)], Some("F")), "F");
    assert_eq!(made(&[named(&one, "deep/down/E")], None), "deep/down/E");
    assert_eq!(made(&[named(&one, "/deep/down/E;1")], None), "deep/down/E");
    assert_eq!(made(&[whole(&one), whole(&same)], None), "deep/down/E");
    let named_ones = [named(&one, "deep/down/E"), whole(&same)];
    assert_eq!(made(&named_ones, None), "deep/down/E");
    let several = [named(&one, "deep/down/E"), named(&other, "other/E")];
    assert_eq!(made(&several, None), "E");
    assert_eq!(made(&several, Some("x/y")), "x/y");
}

#[test]
fn directories_of_which_everything_is_named_are_not_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    let both = folder.path().join("both.root");
    written(&both, &["a/E", "b/E", "b/more/F", "c/E"], &tuples());
    let left = |names: &[&str]| -> Vec<String> {
        let inputs: Vec<Input> = names.iter().map(|name| input(&both, Some(name))).collect();
        let output = folder.path().join("out.root");
        _ = std::fs::remove_file(&output);
        let done = convert(&inputs, &output, &ConvertOptions::default(), &|_| true).unwrap();
        let mut found: Vec<_> = (done.left_behind.iter())
            .map(|(item, _)| item.name.clone())
            .collect();
        found.sort();
        found
    };
    assert_eq!(left(&["a/E"]), ["b", "c"]);
    assert_eq!(left(&["a/E", "c/E"]), ["b"]);
    assert_eq!(left(&["a/E", "b/E"]), ["b/more", "c"]);
    assert_eq!(left(&["b/more/F", "a/E", "c/E"]), ["b/E"]);
    assert!(left(&["a/E", "b/E", "b/more/F", "c/E"]).is_empty());
}

#[test]
fn conditions_on_trees_take_their_names_of_members_of_maps() {
    let folder = tempfile::tempdir().unwrap();
    let tree = root().join("testdata/ttree/objects_split0.root");
    let output = folder.path().join("out.root");
    let skim = |condition: &str| {
        _ = std::fs::remove_file(&output);
        let options = MergeOptions {
            entries: Entries::Where(Expression::parse(condition).unwrap()),
            ..MergeOptions::default()
        };
        merge(&[input(&tree, None)], &output, &options, &|_| true)?;
        Ok::<_, Error>(open(&output).n_entries())
    };
    assert_eq!(skim("any(map.first == 4)").unwrap(), 1);
    let of_numbers = skim("any(map.1 == 0.5)").unwrap();
    assert!(of_numbers > 0 && of_numbers < 30);
    assert_eq!(skim("any(map.second == 0.5)").unwrap(), of_numbers);
    assert_eq!(skim("any(map.second == 4)").unwrap(), 0);
    let error = skim("any(map.third == 4)").unwrap_err();
    assert_eq!(error.kind(), "no-such-field");
}
