//! Joining: outputs and errors.

use crate::support::{DIMUON, document, failure, good};

const DOUBLES: &str = "testdata/rntuple/double32.root";
const LISTS: &str = "testdata/rntuple/clusters.root";

#[test]
fn fields_stand_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let of = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (one, two, out) = (of("one.root"), of("two.root"), of("out.root"));
    good(&["clone", DOUBLES, &one, "--entries", ":10"]);
    good(&["clone", LISTS, &two, "--entries", ":10"]);
    let report = document(&["join", &out, &one, &two]);
    assert_eq!(report["ntuples"]["double32"]["entries"], 10);
    let count = |file: &str| {
        document(&["info", file])["fields"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!(count(&out), count(&one) + count(&two));
    let text = good(&["join", &out, &two, &one, "--force", "--name", "both"]);
    assert!(text.contains("both: 10 entries"), "{text}");
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let of = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (short, out) = (of("short.root"), of("out.root"));
    good(&["clone", DIMUON, &short, "--entries", ":10"]);
    let refused = |args: &[&str]| failure(args, 2)["message"].as_str().unwrap().to_owned();
    let message = refused(&["join", &out, DIMUON, &short]);
    assert!(
        message.contains("has 10 entries") && message.contains("--on run,"),
        "{message}"
    );
    let message = refused(&["join", &out, DIMUON, &short, "--on", "nMuon"]);
    assert!(message.contains("a duplicate key"), "{message}");
    let message = refused(&["join", &out, &short, &short, "--fields", "nMuon"]);
    assert!(
        message.contains("for 1 ntuples, but there are 2"),
        "{message}"
    );
    assert!(!folder.path().join("out.root").exists());
}

#[test]
fn what_is_beside_an_ntuple_is_left_out_if_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let of = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (some, one, two, out) = (
        of("some.root"),
        of("one.root"),
        of("two.root"),
        of("out.root"),
    );
    good(&["clone", DOUBLES, &some, "--entries", ":10"]);
    good(&["merge", &one, &some, "testdata/histograms.root"]);
    good(&["clone", LISTS, &two, "--entries", ":10"]);
    let join = ["join", &out, &one, &two];
    let error = [&join[..], &["--others", "error"]].concat();
    let message = failure(&error, 2)["message"].as_str().unwrap().to_owned();
    assert!(message.contains("besides its ntuple"), "{message}");
    let report = document(&[&join[..], &["--others", "drop"]].concat());
    let left = report["left_behind"].as_array().unwrap();
    let labels = left.iter().find(|it| it["name"] == "labels").unwrap();
    assert!(labels["reason"].as_str().unwrap().contains("dropped"));
    let named = format!("{one}:double32");
    let report = document(&["join", &out, &named, &two, "--force"]);
    let left = report["left_behind"].as_array().unwrap();
    assert!(
        left.iter().all(|it| it["reason"] == "not named"),
        "{left:?}"
    );
}
