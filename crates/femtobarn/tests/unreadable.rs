//! Branches of trees that turn out to be unreadable only when they are read.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use std::sync::Arc;

use common::root;
use femtobarn::{Error, NTuple, OpenOptions, ReadOptions, Steps, StepsOptions};

/// 400 entries; objects in branch "thing" have another version from entry 200 on, and do not state it.
fn versions() -> Arc<NTuple> {
    let path = root().join("testdata/ttree/versions.root");
    let files = [(path.to_str().unwrap().to_owned(), None)];
    Arc::new(NTuple::open(&files, OpenOptions::default()).unwrap())
}

#[test]
fn a_read_of_all_fields_leaves_out_what_is_not_understood() {
    let ntuple = versions();
    let selection = ntuple.select(None).unwrap();
    assert_eq!(selection.schema().columns.len(), 4);
    let arrays = ntuple
        .read(&selection, 0..400, &ReadOptions::default())
        .unwrap();
    assert_eq!(arrays.to_arrow().unwrap().num_columns(), 3);
    let left_out = ntuple.left_out();
    let [(name, reason)] = left_out.unreadable() else {
        panic!("one branch");
    };
    assert_eq!(name, "thing");
    assert!(reason.contains("basket 1"), "{reason}");
    assert_eq!(ntuple.select(None).unwrap().schema().columns.len(), 3);
}

#[test]
fn a_named_field_that_is_not_understood_is_an_error() {
    let ntuple = versions();
    let selection = ntuple.select(Some(&["thing".to_owned()])).unwrap();
    let error = ntuple
        .read(&selection, 0..400, &ReadOptions::default())
        .unwrap_err();
    assert!(matches!(&error, Error::Unsupported { name, .. } if name == "thing"));
    assert!(error.to_string().contains("by selecting fields"), "{error}");
    assert!(ntuple.left_out().is_empty());
    // but not of fields that were selected by a pattern
    let arrays = ntuple
        .read(&selection.leaving_out(), 0..400, &ReadOptions::default())
        .unwrap();
    assert_eq!(arrays.to_arrow().unwrap().num_columns(), 0);
}

#[test]
fn all_steps_have_the_fields_of_the_first() {
    let ntuple = versions();
    let options = StepsOptions {
        step: 150,
        ..StepsOptions::default()
    };
    let steps = || {
        let selection = ntuple.select(None).unwrap();
        let steps = Steps::new(ntuple.clone(), selection, 0..400, options);
        steps.map(|step| Some(step.ok()?.1.to_arrow().unwrap().num_columns()))
    };
    assert_eq!(steps().collect::<Vec<_>>(), [Some(4), None]);
    assert_eq!(steps().collect::<Vec<_>>(), [Some(3); 3]);
}

#[test]
fn a_settled_selection_is_without_what_the_first_entry_shows() {
    let ntuple = versions();
    let all = ntuple.select(None).unwrap();
    let early = ntuple.without_unreadable(&all, &(0..400)).unwrap();
    assert_eq!(early.schema().columns.len(), 4);
    let late = ntuple.without_unreadable(&all, &(300..400)).unwrap();
    assert_eq!(late.schema().columns.len(), 3);
}
