//! Merging: output, errors and exit codes.

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
    assert!(message.contains("also an input"), "{message}");
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
            "the first argument is the output",
        ),
        (
            vec!["out.txt", DIMUON],
            "a ROOT file's name ends with .root",
        ),
        (vec![new.as_str(), OBJECTS, "--others", "error"], "others="),
        (
            vec![new.as_str(), DIMUON, "--compression", "zip"],
            "invalid compression \"zip\"",
        ),
    ] {
        let error = failure(&[&["merge"], args.as_slice()].concat(), 2);
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(says), "{args:?}: {message}");
    }
    assert_eq!(std::fs::read(&out).unwrap(), b"mine");
    assert!(!std::path::Path::new(&new).exists());
}

/// The exit code 4 was also used for intact files that do not match: scripts that download corrupt files again
/// did so in vain.
#[test]
fn files_that_do_not_go_together_are_wrong_usage_and_corrupt_ones_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (some, out) = (path("some.root"), path("out.root"));
    good(&["clone", DIMUON, &some, "--fields", "run,event"]);
    for args in [
        vec!["merge", &out, &some, DIMUON, "--mode", "strict"],
        vec!["merge", &out, DIMUON, &some],
        vec!["join", &out, &some, DIMUON],
    ] {
        let error = failure(&args, 2);
        assert_eq!(error["kind"], "schema-mismatch", "{args:?}");
    }
    assert_eq!(
        failure(&["merge", &out, DIMUON, &path("no.root")], 3)["kind"],
        "file-not-found"
    );
    let cut = path("cut.root");
    let bytes = std::fs::read(crate::support::root().join(DIMUON)).unwrap();
    std::fs::write(&cut, &bytes[..4000]).unwrap();
    let error = failure(&["merge", &out, DIMUON, &cut], 4);
    assert!(
        error["next"].as_str().unwrap().contains("copy it again"),
        "{error}"
    );
}

#[test]
fn lists_of_files_are_read_from_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (list, out) = (path("list.txt"), path("out.root"));
    let at = format!("@{list}");
    std::fs::write(
        &list,
        format!("{DIMUON}\r\n\n  testdata/dim*.root:Events \n"),
    )
    .unwrap();
    let report = document(&["merge", &out, &at, DIMUON]);
    assert_eq!(report["ntuples"]["Events"]["entries"], 36000);
    let selected = path("selected.root");
    let report = document(&["skim", &at, &selected, "--where", "nMuon > 2"]);
    assert_eq!(report["inputs"].as_array().unwrap().len(), 2);
    assert!(good(&["verify", &out, "--against", &at, DIMUON]).contains("as in the inputs"));
    let error = failure(&["merge", &path("new.root"), "@none.txt"], 3);
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("the list of files none.txt"),
        "{error}"
    );
    std::fs::write(&list, "\n \n").unwrap();
    let error = failure(&["merge", &path("new.root"), &at], 2);
    assert!(
        error["message"].as_str().unwrap().contains("is empty"),
        "{error}"
    );
}

#[test]
fn reports_say_what_was_done_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (hist, out) = ("testdata/histograms.root", path("out.root"));
    let text = good(&["clone", hist, &out, "--others", "drop"]);
    assert!(
        text.contains(" histograms\n") && !text.contains("added up"),
        "{text}"
    );
    assert!(!text.contains("()"), "{text}");
    let text = good(&["merge", "-f", &out, hist, hist, "--others", "drop"]);
    assert!(text.contains(" histograms, added up\n"), "{text}");
    let text = good(&["reshape", "-f", DIMUON, &out, "--precision", "Muon_*=12"]);
    assert!(
        text.contains("L3: other encoding or precision was requested: "),
        "{text}"
    );
    let text = good(&["reshape", "-f", DIMUON, &out, "--encoding", "plain"]);
    assert!(text.contains(" more\n"), "{text}");
    let some = path("some.root");
    good(&["clone", DIMUON, &some, "--fields", "run,event"]);
    let both = [DIMUON, some.as_str(), some.as_str()];
    let args = ["merge", "-f", &out, "--mode", "union", "--level", "L1"];
    let text = good(&[&args, &both[..]].concat());
    let line = format!("zero or empty: nMuon of Events (not in {some} and 1 more file)");
    assert!(text.contains(&line), "{text}");
    let text = good(&[&["verify", &out, "--against"], &both[..]].concat());
    assert!(
        text.contains(&format!("(not in {some}:Events and 1 more file)")),
        "{text}"
    );
    assert_eq!(text.matches("zero or empty: nMuon ").count(), 1, "{text}");
}
