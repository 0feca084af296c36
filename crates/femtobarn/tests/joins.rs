//! Data of joined ntuples besides their fields.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use std::path::Path;

use common::root;
use femtobarn::convert::Input;
use femtobarn::merge::{Entries, JoinOptions, MergeOptions, join, merge};
use femtobarn::{NTuple, OpenOptions};

fn open(path: &Path) -> NTuple {
    let files = [(path.to_str().unwrap().to_owned(), None)];
    NTuple::open(&files, OpenOptions::default()).unwrap()
}

/// Regression: joined ntuples lost the class descriptions of streamed objects, without which ROOT cannot
/// read them.
#[test]
fn classes_of_streamed_objects_are_described_in_what_is_joined() {
    let folder = tempfile::tempdir().unwrap();
    let given = |name: &str| root().join("testdata/rntuple").join(name);
    let input = |path: &Path| Input {
        url: path.to_str().unwrap().to_owned(),
        path: None,
        ..Input::default()
    };
    let streamed = open(&given("streamers.root"));
    let options = MergeOptions {
        entries: Entries::Slice {
            start: None,
            stop: Some(streamed.n_entries().cast_signed()),
        },
        ..MergeOptions::default()
    };
    let (others, output) = (folder.path().join("a.root"), folder.path().join("out.root"));
    let source = input(&given("double32.root"));
    merge(&[source], &others, &options, &|_| true).unwrap();
    let inputs = [input(&others), input(&given("streamers.root"))];
    join(&inputs, &output, &JoinOptions::default(), &|_| true).unwrap();
    let infos = |ntuple: &NTuple| {
        let readers = ntuple.readers().iter();
        let all = readers.flat_map(|reader| reader.descriptor().extra_type_infos.clone());
        all.collect::<Vec<_>>()
    };
    assert!(!infos(&streamed).is_empty());
    assert_eq!(infos(&open(&output)), infos(&streamed));
}
