//! `fb ingest` and `fb export` of ROOT files, which need no Python.

use serde_json::json;

use crate::support::{DIMUON, MIXED, document, failure, fb, good};

/// Numbers for files that have none.
const NUMBERS: [&str; 6] = ["--run", "1", "--subrun", "2", "--event", "0"];

#[test]
fn files_are_ingested_and_exported() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("dir:{}", folder.path().join("store").display());
    let output = folder.path().join("out.root").display().to_string();
    let ingest = [
        &[
            "ingest",
            DIMUON,
            "--into",
            &store,
            "--dataset",
            "cms/muons",
            "--collections",
        ][..],
        &["--fields", "Muon_pt,Muon_eta"],
        &NUMBERS,
    ]
    .concat();
    let report = document(&ingest);
    let expected = json!({"files": 1, "events": 12000, "products": 12000, "conflicts": 0});
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&report[name], value, "{name}");
    }
    let told = good(&ingest);
    assert!(
        told.starts_with(
            "0 files read, 1 skipped (already in the dataset)\n0 events, 0 products written\n"
        ),
        "{told}"
    );
    let export = ["export", &store, &output, "--dataset", "cms/muons"];
    let told = good(&export);
    assert!(
        told.starts_with(&format!("{output}: 12,000 events, 1 column\n")),
        "{told}"
    );
    let columns = &document(&["info", &output])["fields"];
    assert!(
        columns.to_string().contains("std::vector<Muon>"),
        "{columns}"
    );
    let error = failure(&export, 3);
    assert_eq!(
        error["message"],
        format!("{output} already exists: replace it with -f")
    );
    let report = document(
        &[
            &export[..],
            &["-f", "--products", "M*", "--missing", "list"],
        ]
        .concat(),
    );
    assert_eq!(report["ntuples"], json!({"Events": 12000}));
    assert_eq!(report["products"][0]["label"], "Muon");
}

#[test]
fn errors_name_options_of_the_program_and_leave_no_dataset() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("dir:{}", folder.path().join("store").display());
    let ingest =
        |file: &'static str, dataset: &'static str, more: &[&'static str]| -> Vec<String> {
            let own = ["ingest", file, "--into", &store, "--dataset", dataset];
            let all = own.iter().chain(more);
            all.map(|text| (*text).to_owned()).collect()
        };
    let failed = |args: &[String], code| {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        failure(&args, code)
    };
    let error = failed(&ingest(DIMUON, "a", &[]), 3);
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains("name the field with --subrun, or give a number for all entries"),
        "{message}"
    );
    assert!(!folder.path().join("store").exists());
    let error = failed(&ingest(DIMUON, "a", &["--run=-1"]), 2);
    assert!(
        error["message"]
            .to_string()
            .contains("--run -1: run numbers must not be negative")
    );
    let error = failed(
        &ingest(DIMUON, "a", &[&NUMBERS[..], &["--groups", "rec"]].concat()),
        2,
    );
    assert!(
        error["message"]
            .to_string()
            .contains("--groups is for HDF5 files")
    );
    let error = failure(&["ingest", DIMUON, "--into", "store", "--dataset", "a"], 2);
    assert_eq!(
        error["message"],
        "store is not an event store: did you mean \"dir:store\"?"
    );
    // another value for a product
    let first = ingest(
        DIMUON,
        "a",
        &[&NUMBERS[..], &["--fields", "nMuon"]].concat(),
    );
    let first: Vec<&str> = first.iter().map(String::as_str).collect();
    good(&first);
    let swapped = ["--run", "1", "--subrun", "2", "--event", "1"];
    let error = failed(
        &ingest(
            DIMUON,
            "a",
            &[&swapped[..], &["--fields", "nMuon"]].concat(),
        ),
        2,
    );
    assert_eq!(error["kind"], "conflict");
    assert!(
        error["message"]
            .to_string()
            .contains("--on-conflict 'keep'"),
        "{error}"
    );
    assert!(
        error["next"].to_string().contains("--on-conflict replace"),
        "{error}"
    );
    // nothing of this file is stored
    let failed = fb(&[
        "ingest",
        MIXED,
        "--into",
        &store,
        "--dataset",
        "x/y",
        "--event",
        "no",
    ]);
    assert_eq!(failed.code, 3, "{}", failed.err);
    let datasets = document(&["store", "ls", &store]);
    assert!(!datasets.to_string().contains("x/y"), "{datasets}");
}
