//! Merging: what is printed, what is refused, and the exit codes.

use crate::support::{DIMUON, OBJECTS, document, failure, good};

#[test]
fn merged_files_are_read_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let report = document(&["merge", &path("a.root"), DIMUON, DIMUON]);
    assert_eq!(report["ntuples"]["Events"]["entries"], 24000);
    assert_eq!(report["inputs"].as_array().unwrap().len(), 2);
    let levels = &report["levels"];
    assert!(levels["L0"].as_u64().unwrap() + levels["L1"].as_u64().unwrap() > 100_000);
    assert!(good(&["verify", &path("a.root")]).contains("24,000 entries"));
    let text = good(&[
        "merge",
        &path("b.root"),
        DIMUON,
        "--fields",
        "nMuon",
        "--level",
        "L1",
    ]);
    assert!(
        text.contains("from 1 file in") && text.contains("copied"),
        "{text}"
    );
    assert!(text.contains("Events: 12000 entries"), "{text}");
}

#[test]
fn files_are_appended_and_the_report_tells_what_was_there() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.root").to_str().unwrap().to_owned();
    let first = document(&["merge", &out, DIMUON, "--append"]);
    assert!(first["bytes_before"].is_null());
    let report = document(&["merge", "-a", &out, DIMUON]);
    assert_eq!(report["bytes_before"], first["bytes_out"]);
    let ntuple = &report["ntuples"]["Events"];
    assert_eq!(ntuple["entries_before"], 12000);
    assert_eq!(ntuple["entries"], 24000);
    let text = good(&["merge", "--append", &out, DIMUON]);
    assert!(
        text.contains("Events: 36000 entries (24000 before)"),
        "{text}"
    );
    assert!(good(&["verify", &out]).contains("36,000 entries"));
    failure(&["merge", "--append", "--force", &out, DIMUON], 2);
    let error = failure(&["merge", "--append", &out, &out], 2);
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("it is the input, too"), "{message}");
    assert!(good(&["verify", &out]).contains("36,000 entries"));
}

#[test]
fn outputs_and_objects_that_make_no_sense_are_wrong_usage() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let out = path("out.root");
    std::fs::write(&out, "mine").unwrap();
    let new = path("new.root");
    for (args, says) in [
        (vec![out.as_str(), DIMUON], "--force"),
        (
            vec!["testdata/*.root", &new],
            "the first name is the output",
        ),
        (vec!["out.txt", DIMUON], "no name of a ROOT file"),
        (vec![new.as_str(), OBJECTS], "others="),
        (
            vec![new.as_str(), DIMUON, "--fields", "no"],
            "no field fits",
        ),
        (
            vec![new.as_str(), DIMUON, "--compression", "zip"],
            "no compression is called",
        ),
    ] {
        let error = failure(&[&["merge"], args.as_slice()].concat(), 2);
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(says), "{args:?}: {message}");
    }
    assert_eq!(std::fs::read(&out).unwrap(), b"mine");
    assert!(!std::path::Path::new(&new).exists());
}
