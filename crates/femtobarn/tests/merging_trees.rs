//! Merging trees: branches are matched by name, in any order.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod common;

use std::path::Path;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt32Type};
use arrow_schema::DataType;
use common::{dimuon, input, merged, ntuples_in, read, root, verified};
use femtobarn::convert::Input;
use femtobarn::expression::Expression;
use femtobarn::merge::{Entries, MergeOptions, merge};
use femtobarn::write::Mode;
use tempfile::TempDir;

fn named(name: &str) -> Input {
    input(&root().join("testdata/names").join(format!("{name}.root")))
}

/// Checks the values of an integer field.
fn has_values(output: &Path, ntuple: &str, field: &str, expected: &[i64]) {
    let (all, newest) = (ntuples_in(output), format!("{ntuple};1"));
    let found = all.iter().find(|(path, _)| *path == newest);
    let (_, ntuple) = found.unwrap_or_else(|| panic!("no {ntuple}"));
    let batch = read(ntuple, Some(&[field.to_owned()]), 0, ntuple.n_entries());
    let values = batch.column(0);
    let values: Vec<i64> = match values.data_type() {
        DataType::Int32 => {
            let values = values.as_primitive::<Int32Type>().values();
            values.iter().map(|&n| i64::from(n)).collect()
        }
        DataType::UInt32 => {
            let values = values.as_primitive::<UInt32Type>().values();
            values.iter().map(|&n| i64::from(n)).collect()
        }
        _ => values.as_primitive::<Int64Type>().values().to_vec(),
    };
    assert_eq!(values, expected, "{field}");
}

#[test]
fn branches_are_paired_by_their_own_names() {
    let folder = TempDir::new().unwrap();
    let output = folder.path().join("out.root");
    let with = |mode| MergeOptions {
        mode,
        overwrite: true,
        ..verified()
    };
    let inputs = [named("dotted"), named("turned")];
    for mode in [Mode::Filter, Mode::Strict, Mode::Union] {
        merged(&inputs, &output, &with(mode)).unwrap();
        has_values(&output, "E", "a_b", &[2, 20]);
        has_values(&output, "E", "a_b_2", &[1, 10]);
    }
    // matched as in conversions
    let options = femtobarn::convert::ConvertOptions::default();
    let converted = folder.path().join("converted.root");
    femtobarn::convert::convert(&inputs, &converted, &options, &|_| true).unwrap();
    has_values(&converted, "E", "a_b", &[2, 20]);
    // the other order
    let inputs = [named("turned"), named("dotted"), named("dotted")];
    merged(&inputs, &output, &with(Mode::Strict)).unwrap();
    has_values(&output, "E", "a_b", &[20, 2, 2]);
    has_values(&output, "E", "a_b_2", &[10, 1, 1]);
    // two branches that would have the same name are not one field
    let apart = [named("plain"), named("only_dotted")];
    let error = merged(&apart, &output, &with(Mode::Filter)).unwrap_err();
    assert_eq!(error.kind(), "schema-mismatch", "{error}");
    merged(&apart, &output, &with(Mode::Union)).unwrap();
    has_values(&output, "E", "a_b", &[200, 0]);
    has_values(&output, "E", "a_b_2", &[0, 100]);
    // conditions refer to the branch that has the name itself
    for (condition, expected) in [("a_b == 2", &[2][..]), ("a_b == 1", &[])] {
        let chosen = MergeOptions {
            entries: Entries::Where(Expression::parse(condition).unwrap()),
            ..with(Mode::Filter)
        };
        merged(&[named("dotted")], &output, &chosen).unwrap();
        has_values(&output, "E", "a_b", expected);
    }
    let chosen = MergeOptions {
        entries: Entries::Where(Expression::parse("a_b > 0").unwrap()),
        ..with(Mode::Union)
    };
    let error = merged(&[named("only_dotted"), named("plain")], &output, &chosen).unwrap_err();
    assert_eq!(error.kind(), "usage", "{error}");
    // with selected entries
    let chosen = MergeOptions {
        entries: Entries::Where(Expression::parse("a_b < 15").unwrap()),
        ..with(Mode::Filter)
    };
    let inputs = [named("turned"), named("dotted")];
    merged(&inputs, &output, &chosen).unwrap();
    has_values(&output, "E", "a_b", &[2]);
    has_values(&output, "E", "a_b_2", &[1]);
}

#[test]
fn a_field_that_can_be_any_of_several_branches_is_refused() {
    let folder = TempDir::new().unwrap();
    let (ntuple, output) = (folder.path().join("n.root"), folder.path().join("out.root"));
    merged(&[named("only_dotted")], &ntuple, &verified()).unwrap();
    // only one branch has that name
    let options = MergeOptions {
        overwrite: true,
        ..verified()
    };
    merged(&[input(&ntuple), named("only_dotted")], &output, &options).unwrap();
    has_values(&output, "E", "a_b", &[100, 100]);
    let mixed = [named("plain"), named("only_dotted"), input(&ntuple)];
    let union = MergeOptions {
        mode: Mode::Union,
        ..options
    };
    for inputs in [mixed.clone(), [2, 0, 1].map(|at: usize| mixed[at].clone())] {
        let error = merged(&inputs, &output, &union).unwrap_err();
        assert_eq!(error.kind(), "usage", "{error}");
        assert!(error.to_string().contains("\"a_b\""), "{error}");
    }
    let append = MergeOptions {
        append: true,
        overwrite: false,
        verify: false,
        ..union
    };
    let error = merged(&mixed[..2], &ntuple, &append).unwrap_err();
    assert_eq!(error.kind(), "usage", "{error}");
    has_values(&ntuple, "E", "a_b", &[100]);
    // the branch behind each field is unknown
    std::fs::remove_file(&ntuple).unwrap();
    merged(&[named("dotted")], &ntuple, &verified()).unwrap();
    let error = merged(&[named("only_dotted")], &ntuple, &append).unwrap_err();
    assert!(error.to_string().contains("several branches"), "{error}");
    merged(&[named("plain")], &ntuple, &append).unwrap();
    has_values(&ntuple, "E", "a_b", &[2, 200]);
    has_values(&ntuple, "E", "a_b_2", &[1, 0]);
}

#[test]
fn trees_are_paired_by_their_own_names() {
    let folder = TempDir::new().unwrap();
    let output = folder.path().join("out.root");
    let report = merged(&[named("spaced"), named("unspaced")], &output, &verified()).unwrap();
    has_values(&output, "my_tree", "x", &[2, 3]);
    has_values(&output, "my_tree_2", "x", &[1]);
    let is_told = |notes: &[(String, String)]| {
        let mut notes = notes.iter();
        notes.any(|(tree, note)| tree == "my tree" && note.contains("my_tree_2"))
    };
    assert!(is_told(&report.inputs[0].notes));
    let options = femtobarn::convert::ConvertOptions::default();
    let converted = folder.path().join("converted.root");
    let report =
        femtobarn::convert::convert(&[named("spaced")], &converted, &options, &|_| true).unwrap();
    has_values(&converted, "my_tree", "x", &[2]);
    assert!(report.ntuples.iter().any(|ntuple| is_told(&ntuple.notes)));
}

#[test]
fn arrays_are_paired_by_their_counters() {
    let folder = TempDir::new().unwrap();
    let output = folder.path().join("out.root");
    let counters = MergeOptions {
        mode: Mode::Union,
        fields: vec!["nAk".to_owned(), "nJet".to_owned()],
        ..verified()
    };
    let inputs = [named("counted_one"), named("counted_two")];
    merged(&inputs, &output, &counters).unwrap();
    has_values(&output, "E", "nJet", &[2, 2]);
    has_values(&output, "E", "nAk", &[0, 1]);
    let all = MergeOptions {
        mode: Mode::Union,
        overwrite: true,
        ..verified()
    };
    for inputs in [inputs.clone(), [inputs[1].clone(), inputs[0].clone()]] {
        let report = merged(&inputs, &output, &all).unwrap();
        has_values(&output, "E", "nJet", &[2, 2]);
        // fields that an input lacks are reported, regardless of the order of inputs
        let lacks = |input: usize| report.inputs[input].ntuples[0].1.missing.to_vec();
        let one = usize::from(inputs[0] == named("counted_two"));
        let mut missing = lacks(one);
        missing.sort();
        assert!(missing.contains(&"nAk".to_owned()), "{missing:?}");
        assert!(missing.contains(&"Ak".to_owned()), "{missing:?}");
        assert!(!missing.contains(&"Jet".to_owned()), "{missing:?}");
        assert!(lacks(1 - one).is_empty(), "{:?}", lacks(1 - one));
    }
}

#[test]
fn older_cycles_are_told_as_left_behind() {
    let folder = TempDir::new().unwrap();
    let output = folder.path().join("out.root");
    let told = |left: &femtobarn::AllLeftBehind| -> Vec<(String, String)> {
        left.iter()
            .map(|(item, _)| (item.name.clone(), item.reason.clone()))
            .collect()
    };
    let older = |name: &str| (name.to_owned(), "an older cycle of it".to_owned());
    let report = merged(&[named("cycles")], &output, &verified()).unwrap();
    assert_eq!(told(&report.left_behind), [older("t;1"), older("h;1")]);
    has_values(&output, "t", "x", &[2]);
    assert_eq!(
        report.left_behind.lines(1),
        [
            "left behind: t;1 (TTree): an older cycle of it",
            "left behind: h;1 (TH1F): an older cycle of it",
        ]
    );
    let options = femtobarn::convert::ConvertOptions::default();
    let converted = folder.path().join("converted.root");
    let report =
        femtobarn::convert::convert(&[named("cycles")], &converted, &options, &|_| true).unwrap();
    let left = told(&report.left_behind);
    assert!(
        left.contains(&older("t;1")) && left.contains(&older("h;1")),
        "{left:?}"
    );
    // named, with or without a cycle
    let of = |path: &str| Input {
        path: Some(path.to_owned()),
        ..named("cycles")
    };
    let options = MergeOptions {
        overwrite: true,
        ..verified()
    };
    let report = merged(&[of("t")], &output, &options).unwrap();
    assert!(told(&report.left_behind).contains(&older("t;1")));
    let report = merged(&[of("t;1")], &output, &options).unwrap();
    let newer = ("t;2".to_owned(), "a newer cycle of it".to_owned());
    assert!(told(&report.left_behind).contains(&newer));
    has_values(&output, "t", "x", &[1]);
}

#[test]
fn many_trees_are_converted_into_few_files() {
    let folder = TempDir::new().unwrap();
    let output = folder.path().join("out.root");
    let inputs: Vec<Input> = (0..100)
        .map(|n| match n % 3 {
            0 => named("dotted"),
            1 => named("turned"),
            _ => dimuon(),
        })
        .collect();
    let most = std::sync::atomic::AtomicUsize::new(0);
    let count = |_| {
        let found = std::fs::read_dir(folder.path()).unwrap();
        most.fetch_max(found.count(), std::sync::atomic::Ordering::Relaxed);
        true
    };
    let report = merge(&inputs, &output, &verified(), &count).unwrap();
    // handles for the output, and for 1, 1, 2, 4, 8, 16, 32 and the remaining inputs
    let most = most.into_inner();
    assert!(most <= 10, "{most}");
    assert_eq!(report.ntuples["E"].n_entries, 67);
    let expected: Vec<i64> = (0..67).map(|n| if n % 2 == 0 { 2 } else { 20 }).collect();
    has_values(&output, "E", "a_b", &expected);
}
