//! Errors: exit codes, kinds, and the next step.

use crate::support::{
    Copy, DIMUON, OBJECTS, command, document, failure, fb, finish, good, page, with_bad_page,
};

/// The message for users: all of standard error.
fn told(args: &[&str], code: i32) -> String {
    let done = fb(args);
    assert_eq!(
        (done.code, done.out.as_str()),
        (code, ""),
        "{args:?}: {}",
        done.err
    );
    assert!(
        done.err.lines().all(|line| line.starts_with("fb: ")),
        "{}",
        done.err
    );
    done.err
}

#[test]
fn a_missing_file_is_named_with_its_neighbour() {
    let text = told(&["info", "testdata/dimuonn.root:Events"], 3);
    assert!(
        text.contains("no such file: testdata/dimuonn.root"),
        "{text}"
    );
    assert!(
        text.contains("did you mean testdata/dimuon.root?"),
        "{text}"
    );
    let error = failure(&["ls", "nowhere.root"], 3);
    assert_eq!(error["kind"], "file-not-found");
}

#[test]
fn a_missing_ntuple_lists_the_nearest() {
    let text = told(&["head", &format!("{DIMUON}:Event")], 3);
    assert!(text.contains("did you mean \"Events\"?"), "{text}");
    assert!(text.contains("`fb ls testdata/dimuon.root`"), "{text}");
    assert_eq!(
        failure(&["verify", &format!("{DIMUON}:Event")], 3)["kind"],
        "key-not-found"
    );
    assert_eq!(
        failure(&["info", &format!("{DIMUON}:Events;7")], 3)["kind"],
        "key-not-found"
    );
}

#[test]
fn a_missing_field_lists_the_nearest() {
    for verb in ["head", "explain"] {
        let text = told(&[verb, DIMUON, "Muon_ptt"], 3);
        assert!(text.contains("did you mean Muon_pt"), "{text}");
        assert!(
            text.contains("`fb info testdata/dimuon.root:Events` lists the fields"),
            "{text}"
        );
    }
    assert_eq!(
        failure(&["head", DIMUON, "Jet_*"], 3)["kind"],
        "no-such-field"
    );
}

#[test]
fn a_tree_is_opened_and_a_histogram_is_not() {
    for target in [OBJECTS.to_owned(), format!("{OBJECTS}:tree")] {
        for verb in ["info", "head", "explain", "verify"] {
            good(&[verb, &target]);
        }
    }
    let error = failure(&["info", &format!("{OBJECTS}:h1")], 3);
    assert_eq!(error["kind"], "not-an-rntuple");
    assert!(error["message"].as_str().unwrap().contains("TH1D"));
    let told = error["message"].as_str().unwrap();
    assert!(
        told.contains(&format!("`fb hist {OBJECTS}:h1` draws it")),
        "{told}"
    );
    let error = failure(&["info", &format!("{OBJECTS}:h1x")], 3);
    let message = error["message"].as_str().unwrap();
    assert!(
        message.ends_with("did you mean \"tree\" or \"h1\"?"),
        "{message}"
    );
}

#[test]
fn what_is_no_root_file_is_4() {
    let error = failure(&["ls", "testdata/PROVENANCE.md"], 4);
    assert_eq!(error["kind"], "not-a-root-file");
    assert_eq!(
        failure(&["verify", "testdata/PROVENANCE.md"], 4)["kind"],
        "not-a-root-file"
    );
    assert_eq!(failure(&["info", "testdata"], 3)["kind"], "not-a-file");
}

#[test]
fn what_only_fsspec_reads_is_3_and_told_with_how_to_get_it() {
    for url in [
        "gopher://example.org/a.root",
        "zip://a.root:Events::https://me:SECRET@h/b.zip?SECRET",
    ] {
        let error = failure(&["ls", url], 3);
        assert_eq!(error["kind"], "unsupported-url");
        let message = error["message"].as_str().unwrap();
        assert!(
            message.contains("pip install 'femtobarn[fsspec]'"),
            "{message}"
        );
        assert!(!message.contains("SECRET"), "{message}");
    }
}

#[test]
fn what_is_too_new_is_4_and_no_damage() {
    for verb in ["info", "head", "verify"] {
        let error = failure(&[verb, "testdata/rntuple/unknown_flag.root"], 4);
        assert_eq!(error["kind"], "unknown-feature");
        assert!(error["message"].as_str().unwrap().contains("feature flag"));
    }
}

#[test]
fn a_truncated_file_is_4_with_offset_and_advice() {
    let copy = Copy::of(DIMUON, |bytes| bytes.truncate(bytes.len() / 2));
    for verb in ["ls", "info", "head", "explain"] {
        let error = failure(&[verb, copy.path()], 4);
        assert_eq!(error["kind"], "truncated-file");
        assert!(error["next"].as_str().unwrap().contains("copy it again"));
    }
}

#[test]
fn a_damaged_page_stops_reads_of_its_entries_only() {
    let copy = with_bad_page(&page(DIMUON, 0, 1));
    let failed = ["head", "-n", "5000", copy.path(), "run"];
    let error = failure(&failed, 4);
    assert_eq!(error["kind"], "page-checksum");
    assert!(error["next"].as_str().unwrap().contains("fb verify"));
    let written = fb(&[&failed[..], &["--json"]].concat()).out;
    assert_eq!(
        written.lines().count(),
        4000,
        "as JSON, what is in front of the damage is given"
    );
    assert_eq!(fb(&["head", copy.path(), "-n", "4000", "run"]).code, 0);
    assert_eq!(fb(&["head", copy.path(), "-n", "5000", "event"]).code, 0);
}

#[test]
fn a_name_is_needed_only_where_there_are_several() {
    let crowd = "testdata/rntuple/crowd.root";
    let text = told(&["info", crowd], 2);
    assert!(
        text.contains("first, outer/inner/third") && text.contains("crowd.root:NAME"),
        "{text}"
    );
    assert_eq!(fb(&["info", &format!("{crowd}:outer/inner/third")]).code, 0);
    assert_eq!(
        fb(&["head", &format!("{crowd}:répertoire δ/événements;1")]).code,
        0
    );
    let text = told(&["head", &format!("{crowd}:outer/inner/thrd")], 3);
    assert!(
        text.contains("did you mean \"outer/inner/third\""),
        "{text}"
    );
    let error = failure(&["ls", &format!("{DIMUON}:Events")], 2);
    assert_eq!(error["kind"], "usage");
    assert_eq!(
        fb(&[
            "info",
            &format!("file://{}", crate::support::root().join(DIMUON).display())
        ])
        .code,
        0
    );
}

#[test]
fn fields_in_one_argument_are_to_be_separated_by_spaces() {
    for fields in ["nMuon,Muon_pt", "nMuon,Muon_*"] {
        let error = failure(&["head", DIMUON, fields], 3);
        let next = error["next"].as_str().unwrap();
        assert!(next.ends_with(&fields.replace(',', " ")), "{next}");
    }
}

#[test]
fn an_invalid_limit_of_unused_memory_is_an_error() {
    let mut command = command(&["head", DIMUON, "nMuon"]);
    command.env("FEMTOBARN_IDLE_MEMORY", "lots");
    let done = finish(command);
    assert_eq!(done.code, 2);
    for text in ["FEMTOBARN_IDLE_MEMORY", "lots", "256 MiB"] {
        assert!(done.err.contains(text), "{}", done.err);
    }
}

#[test]
fn json_as_a_condition_leads_to_the_guide_of_luminosity_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (golden, out) = (path("Cert.json"), path("out.root"));
    std::fs::write(&golden, "{\"1\": [[1, 90]]}").unwrap();
    let condition = format!("@{golden}");
    let error = failure(&["skim", DIMUON, "-o", &out, "--where", &condition], 2);
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("docs/guides/luminosity.md"), "{message}");
    let ternary = failure(&["skim", DIMUON, "-o", &out, "--where", "nMuon ? 1 : 0"], 2);
    let message = ternary["message"].as_str().unwrap();
    assert!(
        message.contains("`a ? b : c` is not supported"),
        "{message}"
    );
}

#[test]
fn damage_in_an_input_of_several_leads_to_its_verification() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.root");
    let out = out.to_str().unwrap();
    let bad = Copy::of(DIMUON, |bytes| bytes[20_000] ^= 1);
    let inputs = [bad.path(), DIMUON];
    for args in [
        &["skim", "-o", out, "--where", "nMuon > 1"][..],
        &["merge", "-o", out, "--level", "L4"],
    ] {
        let error = failure(&[args, &inputs].concat(), 4);
        let next = error["next"].as_str().unwrap_or_default();
        assert!(
            next.contains(&format!("`fb verify {}", bad.path())),
            "{error}"
        );
    }
}

#[test]
fn a_misspelt_field_of_a_tree_has_neighbours() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.root");
    let out = out.to_str().unwrap();
    let tree = "testdata/ttree/leaves_zlib.root";
    let info = document(&["info", tree]);
    let name = info["fields"][0]["name"].as_str().unwrap();
    let misspelt = format!("{name}x");
    for args in [
        &[
            "skim", tree, "-o", out, "--where", "1 > 0", "--fields", &misspelt,
        ][..],
        &["clone", tree, "-o", out, "--fields", &misspelt],
    ] {
        let error = failure(args, 3);
        let message = error["message"].as_str().unwrap();
        assert!(
            message.contains("did you mean") && message.contains(name),
            "{message}"
        );
    }
}
