//! Merging, joining and proving: the output has the entries of the inputs, however the pages are copied.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod common;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, Int64Array, RecordBatch};
use arrow_select::concat::concat_batches;
use arrow_select::filter::filter_record_batch;
use common::{
    dimuon, input, merged, ntuples_in, random, read, root, test_files, top_level, verified,
};
use femtobarn::convert::Input;
use femtobarn::expression::Expression;
use femtobarn::io::SourceState;
use femtobarn::merge::{Entries, JoinOptions, Level, MergeOptions, Unmatched, join, merge};
use femtobarn::proof::{ProofOptions, ProofReport, prove};
use femtobarn::write::{FieldModel, Mode, NTupleWriter, WriteOptions};
use femtobarn::{NTuple, OpenOptions, create_new_file};
use tempfile::TempDir;

fn open(path: &Path) -> NTuple {
    NTuple::open_files(&[path.to_str().unwrap()], OpenOptions::default()).unwrap()
}

fn all(path: &Path) -> RecordBatch {
    let ntuple = open(path);
    read(&ntuple, None, 0, ntuple.n_entries())
}

fn proven(output: &Path, inputs: &[Input], options: &ProofOptions) -> ProofReport {
    prove(&input(output), inputs, options, None).unwrap()
}

/// Writes columns of integers as an ntuple.
fn written(folder: &TempDir, name: &str, columns: &[(&str, &[i64])]) -> PathBuf {
    let path = folder.path().join(name);
    let column = |values: &[i64]| Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
    let batch = columns.iter().map(|(name, values)| (*name, column(values)));
    let batch = RecordBatch::try_from_iter(batch).unwrap();
    let schema = batch.schema();
    let fields = schema
        .fields()
        .iter()
        .map(|field| FieldModel::from_arrow(field));
    let fields: Vec<FieldModel> = fields.collect::<Result<_, _>>().unwrap();
    let mut file = create_new_file(path.to_str().unwrap(), 505).unwrap();
    let options = WriteOptions::default();
    let mut writer = NTupleWriter::new(&mut file, 0, "Events", &fields, options).unwrap();
    writer.extend(&mut file, &batch).unwrap();
    writer.finish(&mut file).unwrap();
    file.finish().unwrap();
    path
}

fn integers(path: &Path, name: &str) -> Vec<i64> {
    let batch = all(path);
    let column = batch.column_by_name(name).unwrap();
    let column = column.as_any().downcast_ref::<Int64Array>().unwrap();
    column.values().to_vec()
}

#[test]
fn merging_a_file_with_itself_doubles_its_entries() {
    let folder = tempfile::tempdir().unwrap();
    let mut n = 0;
    for file in test_files() {
        let [(path, ntuple)] = &ntuples_in(&file)[..] else {
            continue;
        };
        if top_level(ntuple).is_empty() {
            continue;
        }
        let own = Input {
            path: Some(path.clone()),
            ..input(&file)
        };
        let output = folder.path().join(format!("{n}.root"));
        let options = MergeOptions {
            others: femtobarn::merge::OtherObjects::First,
            ..verified()
        };
        let report = merged(&[own.clone(), own], &output, &options);
        let report = report.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert!(report.proof.unwrap().is_equal(), "{}", file.display());
        let once = read(ntuple, None, 0, ntuple.n_entries());
        let twice = concat_batches(&once.schema(), [&once, &once]).unwrap();
        assert_eq!(all(&output), twice, "{}", file.display());
        n += 1;
    }
    assert!(n > 50, "{n}");
}

#[test]
fn all_levels_give_the_same_values() {
    let folder = tempfile::tempdir().unwrap();
    let inputs = [dimuon(), dimuon()];
    let mut found = Vec::new();
    for level in [Level::Auto, Level::L1, Level::L2, Level::L3, Level::L4] {
        let output = folder.path().join(format!("{level:?}.root"));
        let options = MergeOptions {
            level,
            compression: (level == Level::L2).then_some(404),
            ..verified()
        };
        let report = merged(&inputs, &output, &options).unwrap();
        let levels = report.inputs[0].ntuples[0].1.levels;
        match level {
            Level::L1 => assert!(levels.copied > 0 && levels.rebuilt == 0),
            Level::L2 => assert!(levels.recompressed > 0 && levels.rebuilt == 0),
            Level::L4 => assert!(levels.rebuilt > 0),
            _ => {}
        }
        found.push(all(&output));
    }
    assert!(
        found
            .iter()
            .all(|one| *one == found[0] && one.num_rows() == 24_000)
    );
}

/// One of two sources of a file has hundreds of damaged pages, or pages so large that both sources deliver parts of a page.
/// Merging failed.
#[test]
fn damaged_pages_are_taken_from_another_source() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = random(1);
    let n = 3_000_000;
    let values: Vec<i64> = (0..n).map(|_| random(1 << 60).cast_signed()).collect();
    let columns = [("a", &*values), ("zeros", &vec![0; values.len()])];
    let whole = written(&folder, "whole.root", &columns);
    for (page_bytes, n_pages) in [(32 << 10, 600), (1 << 20, 20)] {
        let good = folder.path().join(format!("good_{page_bytes}.root"));
        let mut options = MergeOptions {
            level: Level::L4,
            ..MergeOptions::default()
        };
        options.write.page_bytes = page_bytes;
        merged(&[input(&whole)], &good, &options).unwrap();
        let mut bytes = std::fs::read(&good).unwrap();
        let end = bytes.len() - 1_000_000;
        for at in (100_000..end).step_by(10_000) {
            bytes[at] ^= 1;
        }
        let bad = folder.path().join("bad.root");
        std::fs::write(&bad, bytes).unwrap();
        let url = format!("file://{}|file://{}", bad.display(), good.display());
        let ntuple = || NTuple::open_files(&[url.as_str()], OpenOptions::default()).unwrap();
        let check = |ntuple: &NTuple| {
            let sources = &ntuple.sources()[0];
            assert_eq!(sources[0].state, SourceState::Disabled, "{sources:?}");
            assert!(sources[0].errors[0].contains("damaged bytes"));
            assert_eq!(sources[1].state, SourceState::Active, "{sources:?}");
        };

        let damaged = open(&bad).verify(2, None).unwrap()[0].damages.len();
        assert!(damaged > n_pages, "{damaged}");
        let verified = ntuple();
        let damages = &verified.verify(2, None).unwrap()[0].damages;
        assert!(damages.is_empty(), "{damages:?}");
        check(&verified);
        let ntuple = ntuple();
        assert!(read(&ntuple, None, 0, n) == all(&good));
        check(&ntuple);

        for level in [Level::L1, Level::L2, Level::L4] {
            let output = folder.path().join(format!("{level:?}_{page_bytes}.root"));
            let given = Input {
                url: url.clone(),
                ..Input::default()
            };
            let options = MergeOptions {
                level,
                compression: (level == Level::L2).then_some(404),
                ..MergeOptions::default()
            };
            merged(&[given, input(&good)], &output, &options).unwrap();
            let found = integers(&output, "a");
            assert!(found == [&*values, &*values].concat(), "{level:?}");
            let zeros = integers(&output, "zeros");
            assert!(zeros.iter().all(|n| *n == 0), "{level:?}");
        }
    }
}

#[test]
fn a_range_of_entries_is_the_slice_of_all() {
    let folder = tempfile::tempdir().unwrap();
    let whole = all(&root().join("testdata/dimuon.root"));
    for (n, (start, stop, first, count)) in [
        (Some(3000), Some(-4000), 3000, 5000),
        (None, Some(0), 0, 0),
        (Some(-1), None, 11_999, 1),
        (Some(4000), Some(8000), 4000, 4000),
    ]
    .into_iter()
    .enumerate()
    {
        let output = folder.path().join(format!("{n}.root"));
        let options = MergeOptions {
            entries: Entries::Slice { start, stop },
            ..verified()
        };
        merged(&[dimuon()], &output, &options).unwrap();
        assert_eq!(all(&output), whole.slice(first, count));
    }
}

#[test]
fn a_condition_keeps_the_entries_of_which_it_is_true() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.root");
    let options = MergeOptions {
        entries: Entries::Where(Expression::parse("nMuon >= 3").unwrap()),
        ..verified()
    };
    merged(&[dimuon()], &output, &options).unwrap();
    let whole = all(&root().join("testdata/dimuon.root"));
    let n_muons = whole.column_by_name("nMuon").unwrap();
    let n_muons = n_muons.as_any().downcast_ref::<Int64Array>().unwrap();
    let mask: BooleanArray = n_muons.iter().map(|n| n.map(|n| n >= 3)).collect();
    let expected = filter_record_batch(&whole, &mask).unwrap();
    assert!(expected.num_rows() > 100);
    assert_eq!(all(&output), expected);
}

#[test]
fn appending_is_merging() {
    let folder = tempfile::tempdir().unwrap();
    let one = written(&folder, "one.root", &[("x", &[1, 2, 3])]);
    let two = written(&folder, "two.root", &[("x", &[4, 5])]);
    let output = folder.path().join("all.root");
    merged(&[input(&one)], &output, &verified()).unwrap();
    let options = MergeOptions {
        append: true,
        ..MergeOptions::default()
    };
    let report = merged(&[input(&two)], &output, &options).unwrap();
    assert_eq!(
        (
            report.ntuples["Events"].n_entries,
            report.ntuples["Events"].n_before
        ),
        (5, 3)
    );
    assert_eq!(integers(&output, "x"), [1, 2, 3, 4, 5]);
    let options = ProofOptions {
        since: 3,
        ..ProofOptions::default()
    };
    assert!(proven(&output, &[input(&two)], &options).is_equal());
}

#[test]
fn modes_say_which_fields_files_must_have() {
    let folder = tempfile::tempdir().unwrap();
    let few = written(&folder, "few.root", &[("x", &[1])]);
    let more = written(&folder, "more.root", &[("x", &[2]), ("y", &[7])]);
    let (few, more) = (input(&few), input(&more));
    let output = folder.path().join("out.root");
    let with = |mode| MergeOptions {
        mode,
        overwrite: true,
        ..verified()
    };
    let report = merged(&[few.clone(), more.clone()], &output, &with(Mode::Filter)).unwrap();
    assert_eq!(integers(&output, "x"), [1, 2]);
    assert!(!report.left_behind.is_empty());
    let error = merged(&[more.clone(), few.clone()], &output, &with(Mode::Filter)).unwrap_err();
    assert_eq!(error.kind(), "schema-mismatch");
    let error = merged(&[few.clone(), more.clone()], &output, &with(Mode::Strict)).unwrap_err();
    assert_eq!(error.kind(), "schema-mismatch");
    merged(&[few, more], &output, &with(Mode::Union)).unwrap();
    assert_eq!(
        (integers(&output, "x"), integers(&output, "y")),
        (vec![1, 2], vec![0, 7])
    );
}

#[test]
fn a_merge_that_fails_or_is_interrupted_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.root");
    let missing = input(&folder.path().join("missing.root"));
    let error = merged(&[dimuon(), missing], &output, &verified()).unwrap_err();
    assert_eq!(error.kind(), "file-not-found");
    let error = merge(&[dimuon()], &output, &verified(), &|_| false).unwrap_err();
    assert_eq!(error.kind(), "interrupted");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn ntuples_are_joined_by_number_or_by_key() {
    let folder = tempfile::tempdir().unwrap();
    let left = written(
        &folder,
        "left.root",
        &[("run", &[1, 2, 3]), ("x", &[10, 20, 30])],
    );
    let right = written(
        &folder,
        "right.root",
        &[("run", &[3, 1, 2]), ("y", &[300, 100, 200])],
    );
    let few = written(&folder, "few.root", &[("run", &[3, 1]), ("z", &[3, 1])]);
    let output = folder.path().join("out.root");
    let by_key = JoinOptions {
        on: vec!["run".into()],
        verify: true,
        overwrite: true,
        ..JoinOptions::default()
    };
    let done = |inputs: &[&PathBuf], options: &JoinOptions| {
        let inputs: Vec<Input> = inputs.iter().map(|path| input(path)).collect();
        join(&inputs, &output, options, &|_| true)
    };
    done(&[&left, &right], &by_key).unwrap();
    assert_eq!(integers(&output, "x"), [10, 20, 30]);
    assert_eq!(integers(&output, "y"), [100, 200, 300]);
    let error = done(&[&left, &few], &by_key).unwrap_err();
    assert!(error.to_string().contains("entry 1"), "{error}");
    let dropping = JoinOptions {
        unmatched: Unmatched::Drop,
        ..by_key
    };
    done(&[&left, &few], &dropping).unwrap();
    assert_eq!(
        (integers(&output, "x"), integers(&output, "z")),
        (vec![10, 30], vec![1, 3])
    );
    let by_number = JoinOptions {
        fields: vec![vec!["x".into()], vec!["y".into()]],
        overwrite: true,
        verify: true,
        ..JoinOptions::default()
    };
    done(&[&left, &right], &by_number).unwrap();
    assert_eq!(integers(&output, "y"), [300, 100, 200]);
}

#[test]
fn a_proof_finds_what_is_not_as_in_the_inputs() {
    let folder = tempfile::tempdir().unwrap();
    let one = written(&folder, "one.root", &[("x", &[1, 2, 3]), ("y", &[0, 0, 0])]);
    let two = written(&folder, "two.root", &[("x", &[1, 9, 3]), ("y", &[0, 0, 0])]);
    let both = folder.path().join("both.root");
    merged(&[input(&one), input(&two)], &both, &MergeOptions::default()).unwrap();
    let inputs = [input(&one), input(&two)];
    let report = proven(&both, &inputs, &ProofOptions::default());
    assert!(report.is_equal() && report.ntuples[0].pages_equal > 0);
    let by_value = ProofOptions {
        values: true,
        ..ProofOptions::default()
    };
    let report = proven(&both, &inputs, &by_value);
    assert!(report.is_equal() && report.ntuples[0].by_value["x"] == 6);
    let swapped = [input(&two), input(&one)];
    let report = proven(&both, &swapped, &ProofOptions::default());
    let (ntuple, difference) = report.differences().next().unwrap();
    assert_eq!(
        (ntuple, difference.field.as_str(), difference.entry),
        ("Events", "x", Some(1))
    );
    assert_eq!(
        (difference.found.as_str(), difference.expected.as_str()),
        ("2", "9")
    );
    // only one of them
    assert!(!proven(&both, &inputs[..1], &ProofOptions::default()).is_equal());
    // a field that is not compared does not count
    let only_y = ProofOptions {
        fields: vec!["y".into()],
        ..ProofOptions::default()
    };
    assert!(proven(&both, &swapped, &only_y).is_equal());
    let error = prove(&input(&one), &[input(&one)], &by_value, None).unwrap_err();
    assert_eq!(error.kind(), "usage");
}

#[test]
fn histograms_of_one_path_are_added_up() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.root");
    let histograms = input(&root().join("testdata/histograms.root"));
    let options = MergeOptions {
        others: femtobarn::merge::OtherObjects::Drop,
        ..MergeOptions::default()
    };
    let report = merged(&[histograms.clone(), histograms], &output, &options).unwrap();
    assert!(report.histograms > 0, "{}", report.histograms);
}

#[test]
fn fields_of_later_inputs_are_told_as_missing_in_the_first() {
    let folder = TempDir::new().unwrap();
    let few = written(&folder, "few.root", &[("x", &[1])]);
    let more = written(&folder, "more.root", &[("x", &[2]), ("y", &[3])]);
    let output = folder.path().join("out.root");
    let options = MergeOptions {
        mode: Mode::Union,
        overwrite: true,
        ..verified()
    };
    for (inputs, lacking) in [
        ([&few, &more, &few], [1, 0, 1]),
        ([&more, &few, &more], [0, 1, 0]),
    ] {
        let inputs = inputs.map(|path| input(path));
        let report = merged(&inputs, &output, &options).unwrap();
        for (input, n) in report.inputs.iter().zip(lacking) {
            let missing = &input.ntuples[0].1.missing;
            assert_eq!(missing.len(), n, "{missing:?}");
            assert!(missing.iter().all(|name| name == "y"));
        }
    }
}
