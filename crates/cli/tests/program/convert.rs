//! Converting: errors before anything is done, and exit codes.

use std::path::Path;

use crate::support::{
    DIMUON, MIXED, command, document, failure, fb, finish, good, page, root, with_bad_page,
};

fn folder() -> (tempfile::TempDir, impl Fn(&str) -> String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    (folder, move |name: &str| {
        path.join(name).to_str().unwrap().to_owned()
    })
}

#[test]
fn outputs_that_make_no_sense_are_wrong_usage() {
    let (_folder, path) = folder();
    let copy = path("copy.root");
    std::fs::copy(root().join(DIMUON), &copy).unwrap();
    let twins = path("twins/");
    for (args, says) in [
        (vec![DIMUON, &path("y.root:Foo")], "--name Foo"),
        (vec![DIMUON, "-"], "standard output"),
        (vec![DIMUON, "/dev/null"], "neither a file nor a directory"),
        (vec![&copy, &copy], "would be replaced"),
        (vec![DIMUON, &path("x.csv")], ".parquet"),
        (vec![DIMUON, &path("v1.2_run3")], "a directory with /"),
        (vec![DIMUON, &path("no/x.root")], "does not exist"),
        (vec![DIMUON, &path("x.root"), "--name", "a;2"], "cycle"),
        (
            vec![DIMUON, &format!("./{DIMUON}"), &twins],
            "different directories",
        ),
    ] {
        let error = failure(&[&["convert"], args.as_slice()].concat(), 2);
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(says), "{args:?}: {message}");
    }
    assert!(!Path::new(&path("y.root:Foo")).exists() && !Path::new("-").exists());
}

#[test]
fn a_pattern_is_no_output() {
    // `--fields nJet 'Jet_*'` made a directory named Jet_* of the file that was meant to be the output
    let (_folder, path) = folder();
    let copy = path("copy.root");
    std::fs::copy(root().join(DIMUON), &copy).unwrap();
    let error = failure(
        &["convert", DIMUON, &copy, "--fields", "nMuon", "Muon_*"],
        2,
    );
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("cannot be a pattern")
    );
    assert!(error["next"].as_str().unwrap().contains("--fields 'a,b_*'"));
    assert!(!root().join("Muon_*").exists());
    let out = path("out.root");
    let error = failure(&["convert", DIMUON, "--fields", "nMuon", "Muon_*", &out], 3);
    assert!(error["next"].as_str().unwrap().contains("--fields 'a,b_*'"));
}

#[test]
fn tables_are_told_from_root_files() {
    // a name in a table was ignored, a ROOT file beside one was a corrupt table, and `fb ls` gave no
    // advice
    let (_folder, path) = folder();
    let (table, out) = (path("t.parquet"), path("out.root"));
    good(&["convert", DIMUON, &table]);
    for (inputs, says) in [
        (
            vec![format!("{table}:Events")],
            "a table has no object \"Events\"",
        ),
        (
            vec![table.clone(), DIMUON.into()],
            "inputs of different formats",
        ),
        (
            vec![DIMUON.into(), table.clone()],
            "inputs of different formats",
        ),
    ] {
        let mut args = vec!["convert"];
        args.extend(inputs.iter().map(String::as_str));
        args.push(&out);
        let error = failure(&args, 2);
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(says), "{message}");
    }
    for verb in ["ls", "info", "head", "verify"] {
        let next = failure(&[verb, &table], 4)["next"].clone();
        let says = format!("`fb convert {table} NAME.root`");
        assert!(next.as_str().unwrap().contains(&says), "{verb}: {next}");
    }
}

#[test]
fn a_folder_that_stops_says_how_to_go_on() {
    // neither --skip-bad-files nor --drop was mentioned
    let bad = with_bad_page(&page(DIMUON, 1, 0));
    let (_folder, path) = folder();
    let done = fb(&["convert", bad.path(), DIMUON, &path("out/")]);
    assert_eq!(done.code, 4);
    assert!(done.err.contains("--skip-bad-files REPORT"), "{}", done.err);
    assert!(
        done.err.contains("leave out this one with `drop`"),
        "{}",
        done.err
    );
    let error = failure(&["convert", bad.path(), &path("x.root")], 4);
    assert!(error["next"].as_str().unwrap().contains("`drop`"));
    good(&["convert", bad.path(), &path("x.root"), "--drop", "event"]);
    // an error of the whole file is not blamed on a field
    std::fs::write(path("no.root"), "no root file").unwrap();
    let done = fb(&["convert", &path("no.root"), &path("out/")]);
    assert!(!done.err.contains("drop") && !done.err.contains("--skip"));
}

#[test]
fn a_report_that_cannot_be_written_is_told_before_anything_is_converted() {
    // it was reported at the end, after hours
    let (_folder, path) = folder();
    let (out, report) = (path("out/"), path("no/report.json"));
    let error = failure(&["convert", DIMUON, &out, "--skip-bad-files", &report], 2);
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("no/report.json")
    );
    assert!(!Path::new(&out).exists());
}

#[test]
fn a_folder_ends_with_the_code_of_the_first_failure() {
    let (_folder, path) = folder();
    let bad = path("bad.root");
    std::fs::write(&bad, "no root file").unwrap();
    let out = path("out/");
    assert_eq!(fb(&["convert", &bad, DIMUON, &out]).code, 4);
    assert_eq!(
        fb(&["convert", &path("nowhere.root"), DIMUON, &out]).code,
        3
    );
    let report = path("report.json");
    let done = fb(&["convert", &bad, DIMUON, &out, "--skip-bad-files", &report]);
    assert_eq!(done.code, 1);
    assert!(Path::new(&report).exists() && done.out.contains("1 file converted"));
}

#[test]
fn nothing_is_replaced_unless_told_to() {
    let (_folder, path) = folder();
    let (one, two, out) = (path("1.root"), path("2.root"), path("out.root"));
    for copy in [&one, &two] {
        std::fs::copy(root().join(DIMUON), copy).unwrap();
    }
    let before = std::fs::read(&two).unwrap();
    // a glob without an output: the shell makes the last file an output
    let error = failure(&["convert", &one, &two], 2);
    assert!(error["message"].as_str().unwrap().contains("--force"));
    // the same with a report, which is an input
    let error = failure(&["convert", "--skip-bad-files", &two, &one, &path("o/")], 2);
    assert!(error["message"].as_str().unwrap().contains("report.json"));
    assert!(std::fs::read(&two).unwrap() == before);
    let error = failure(&["convert", &one], 2);
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("output missing")
    );
    // options may be in between
    good(&["convert", &one, "--no-verify", &out]);
    good(&["convert", &one, &out, "--force", "--no-verify"]);
    let folder = path("o/");
    good(&["convert", &one, &folder]);
    assert_eq!(fb(&["convert", &one, &folder]).code, 2);
    good(&["convert", &one, &folder, "--resume"]);
    good(&["convert", &one, &folder, "-f"]);
}

#[test]
fn the_variable_for_threads_is_heeded() {
    let run = |value: &str| {
        let mut command = command(&["verify", DIMUON]);
        command.env("FEMTOBARN_THREADS", value);
        finish(command)
    };
    let done = run("zz");
    assert_eq!(done.code, 2);
    assert!(done.err.contains("FEMTOBARN_THREADS"), "{}", done.err);
    assert_eq!((run("2").code, run("").code, run("0").code), (0, 0, 2));
}

#[test]
fn patterns_in_quotes_are_files_for_every_verb_that_takes_several() {
    let out = good(&["verify", "testdata/rntuple/mixed_*.root"]);
    assert!(out.contains(MIXED) && out.lines().count() > 1, "{out}");
    let out = good(&["ls", "testdata/dimuo?.root"]);
    assert_eq!(out, good(&["ls", DIMUON]));
    assert_eq!(
        failure(&["info", "testdata/nowhere*.root"], 3)["kind"],
        "file-not-found"
    );
}

#[test]
fn a_folder_is_told_with_the_pattern_for_its_files() {
    let error = failure(&["info", "testdata/"], 3);
    let next = error["next"].as_str().unwrap();
    assert!(next.contains("'testdata/*.root'"), "{next}");
}

#[test]
fn a_tree_has_no_version_of_the_format_and_its_entries_are_listed() {
    let tree = "testdata/ttree/leaves_zlib.root";
    let info = good(&["info", &format!("{tree}:leaves")]);
    assert!(
        !info.contains("0.0.0.0") && !info.contains("of metadata"),
        "{info}"
    );
    assert!(info.contains("TTree"), "{info}");
    let list = good(&["ls", tree]);
    let line = list.lines().find(|line| line.contains("TTree")).unwrap();
    assert!(line.split_whitespace().any(|word| word == "40"), "{list}");
}

#[test]
fn the_bytes_of_the_inputs_do_not_depend_on_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (few, out) = (path("few.root"), path("out.root"));
    good(&["clone", DIMUON, &few, "--fields", "nMuon,Muon_pt"]);
    let bytes = |file: &str| document(&["info", file])["bytes_on_disk"].as_u64().unwrap();
    let all = bytes(&few) + bytes(DIMUON);
    for inputs in [[few.as_str(), DIMUON], [DIMUON, few.as_str()]] {
        let options = ["-o", &out, "-f", "--fields", "nMuon,Muon_pt"];
        let done = document(&[&["convert"], &inputs[..], &options].concat());
        assert_eq!(done["bytes_in"], all, "{inputs:?}");
    }
}
