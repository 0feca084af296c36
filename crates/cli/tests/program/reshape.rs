//! Cloning, reshaping and skimming: outputs, messages and errors.

use std::path::Path;

use serde_json::Value;

use crate::support::{DIMUON, MIXED, OBJECTS, document, failure, good};

/// A directory, and names in it.
struct Names(tempfile::TempDir);

impl Names {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn of(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }
}

/// The clusters reported by `fb info`: first entry and number of entries.
fn clusters(file: &str) -> Vec<(u64, u64)> {
    let info = document(&["info", file]);
    let all = info["clusters"].as_array().unwrap().iter();
    all.map(|cluster| {
        (
            cluster["first_entry"].as_u64().unwrap(),
            cluster["num_entries"].as_u64().unwrap(),
        )
    })
    .collect()
}

/// The column of a field, in its first representation.
fn column(file: &str, path: &str) -> Value {
    let info = document(&["info", file]);
    let fields = info["fields"].as_array().unwrap();
    let field = fields.iter().find(|field| field["path"] == path).unwrap();
    field["columns"][0].clone()
}

fn head(file: &str, n: usize, fields: &[&str]) -> String {
    let n = n.to_string();
    good(&[&["head", "--json", file, "-n", &n], fields].concat())
}

#[test]
fn a_clone_has_its_entries_and_only_clusters_that_are_cut_are_rebuilt() {
    let names = Names::new();
    let out = names.of("out.root");
    let all = head(DIMUON, 12000, &[]);
    let lines: Vec<&str> = all.lines().collect();
    for (entries, range, n_rebuilt) in [
        (":", 0..12000, 0),
        ("4000:8000", 4000..8000, 0),
        ("4000:8001", 4000..8001, 1),
        ("3999:", 3999..12000, 1),
        ("3999:8001", 3999..8001, 2),
        ("-1:", 11999..12000, 1),
        (":-11999", 0..1, 1),
        ("-99999:99999", 0..12000, 0),
        ("7:7", 7..7, 0),
        ("9:3", 9..9, 0),
    ] {
        let args = ["clone", "-f", DIMUON, &out, "--entries", entries];
        let report = document(&args);
        assert_eq!(report["ntuples"]["Events"]["entries"], range.len());
        let found = head(&out, 12000, &[]);
        assert!(
            found.lines().eq(lines[range.clone()].iter().copied()),
            "{entries}"
        );
        assert!(good(&["verify", &out]).contains("good"), "{entries}");
        // three clusters of about 84 kB
        let rebuilt = report["levels"]["L4"].as_u64().unwrap();
        assert_eq!(rebuilt > 0, n_rebuilt > 0, "{entries}: {report}");
        assert!(rebuilt < n_rebuilt * 90_000 + 1, "{entries}: {rebuilt}");
        let why = report["inputs"][0]["ntuples"]["Events"]["why"].as_array();
        let is_rebuilt = why.unwrap().iter().any(|why| why[0] == "L4");
        assert_eq!(is_rebuilt, n_rebuilt > 0, "{entries}: {why:?}");
    }
    let text = good(&["clone", "-f", DIMUON, &out, "--entries=-10:"]);
    assert!(
        text.contains("  L4: only some entries of the clusters are selected\n"),
        "{text}"
    );
}

#[test]
fn a_clone_of_fields_decompresses_no_page() {
    let names = Names::new();
    let out = names.of("out.root");
    let report = document(&["clone", DIMUON, &out, "--fields", "Muon_pt,event"]);
    let levels = &report["levels"];
    for level in ["L2", "L3", "L4", "zeros"] {
        assert_eq!(levels[level], 0, "{level}");
    }
    let brought = levels["L0"].as_u64().unwrap() + levels["L1"].as_u64().unwrap();
    // the pt, the event numbers and the offsets
    assert!((80_000..90_000).contains(&brought), "{levels}");
    let fields = ["event", "Muon_pt"];
    assert_eq!(head(&out, 12000, &fields), head(DIMUON, 12000, &fields));
    failure(&["head", &out, "Muon_eta"], 3);
}

#[test]
fn every_option_of_reshape_changes_what_it_names() {
    let names = Names::new();
    let out = names.of("out.root");
    let all = head(DIMUON, 12000, &[]);
    let shaped = |options: &[&str]| {
        let report = document(&[&["reshape", "-f", DIMUON, &out], options].concat());
        assert!(good(&["verify", &out]).contains("good"), "{options:?}");
        report["levels"].clone()
    };

    let levels = shaped(&["--compression", "lz4:4"]);
    assert!(
        levels["L2"].as_u64().unwrap() > 0 && levels["L4"] == 0,
        "{levels}"
    );
    assert_eq!(
        document(&["info", &out])["compressions"],
        serde_json::json!(["lz4 4"])
    );
    assert_eq!(head(&out, 12000, &[]), all);

    let levels = shaped(&["--encoding", "plain"]);
    assert!(
        levels["L3"].as_u64().unwrap() > 0 && levels["L4"] == 0,
        "{levels}"
    );
    assert_eq!(column(&out, "event")["type"], "UInt64");
    assert_eq!(head(&out, 12000, &[]), all);

    let levels = shaped(&["--cluster-size", "20kB"]);
    assert!(levels["L4"].as_u64().unwrap() > 0, "{levels}");
    assert!(clusters(&out).len() > 9, "{:?}", clusters(&out));
    assert_eq!(head(&out, 12000, &[]), all);

    shaped(&["--cluster-size", "128MiB", "--page-size", "1024"]);
    assert_eq!(clusters(&out), [(0, 12000)]);
    // 12,000 entries of 8 bytes
    assert!(column(&out, "event")["pages"].as_u64().unwrap() >= 93);

    shaped(&["--page-size", "1024"]);
    assert_eq!(clusters(&out), clusters(DIMUON));
    assert!(column(&out, "event")["pages"].as_u64().unwrap() >= 93);
    assert_eq!(head(&out, 12000, &[]), all);

    shaped(&[
        "--precision",
        "_collection0.Muon_pt=12,_collection0.Muon_phi=16:-3.15:3.15",
    ]);
    let [pt, phi] = ["pt", "phi"].map(|name| column(&out, &format!("_collection0.Muon_{name}")));
    assert_eq!(
        (&pt["type"], &pt["bits"]),
        (&"Real32Trunc".into(), &12.into())
    );
    assert_eq!(
        (&phi["type"], &phi["bits"]),
        (&"Real32Quant".into(), &16.into())
    );
    assert_eq!(phi["range"], serde_json::json!([-3.15, 3.15]));
    assert_eq!(
        head(&out, 12000, &["nMuon", "event"]),
        head(DIMUON, 12000, &["nMuon", "event"])
    );
}

#[test]
fn a_skim_has_the_entries_of_which_the_condition_is_true() {
    let names = Names::new();
    let [one, two, condition] = ["one.root", "two.root", "condition"].map(|name| names.of(name));
    let muons = |line: &&str| {
        let entry: Value = serde_json::from_str(line).unwrap();
        entry["nMuon"].as_u64().unwrap() >= 3
    };
    let all = head(DIMUON, 12000, &[]);
    let wanted: Vec<&str> = all.lines().filter(muons).collect();
    std::fs::write(&condition, "nMuon >= 3\n").unwrap();
    let condition = format!("@{condition}");
    let report = document(&["skim", DIMUON, &one, "--where", &condition]);
    assert_eq!(report["ntuples"]["Events"]["entries"], wanted.len());
    assert!(head(&one, 12000, &[]).lines().eq(wanted.iter().copied()));
    // the columns of the condition need not be among the selected ones
    let text = good(&[
        "skim",
        DIMUON,
        &one,
        &two,
        "--where",
        "nMuon >= 3",
        "--fields",
        "event",
        "--compression",
        "lz4:1",
    ]);
    assert!(
        text.contains(&format!("Events: {} entries", 2 * wanted.len())),
        "{text}"
    );
    let events = head(&one, 12000, &["event"]);
    assert_eq!(head(&two, 12000, &["event"]), events.clone() + &events);
    failure(&["head", &two, "nMuon"], 3);
}

#[test]
fn small_clusters_are_merged_into_large_ones() {
    let names = Names::new();
    let out = names.of("out.root");
    let args = [
        "merge",
        &out,
        DIMUON,
        DIMUON,
        "--level",
        "L4",
        "--page-size",
        "8kB",
    ];
    let text = good(&args);
    assert!(
        text.contains("L4: pages or clusters get the requested size\n"),
        "{text}"
    );
    assert_eq!(clusters(&out), [(0, 24000)]);
    assert_eq!(column(&out, "event")["pages"], 24);
}

#[test]
fn an_output_is_named_in_any_position() {
    let names = Names::new();
    let (one, two) = (names.of("one.root"), names.of("two.root"));
    good(&["skim", "-o", &one, DIMUON, "--where", "nMuon > 2"]);
    good(&["skim", DIMUON, &two, "--where", "nMuon > 2"]);
    let entries = |file: &str| document(&["info", file])["num_entries"].clone();
    assert_eq!((entries(&one), entries(&two)), (802.into(), 802.into()));
    for (command, options) in [
        ("clone", &[][..]),
        ("reshape", &["--compression", "lz4"]),
        ("merge", &[]),
        ("convert", &["--compression", "lz4"]),
        ("cp", &[]),
    ] {
        let out = names.of(&format!("{command}.root"));
        good(&[&[command, &one, "--output", &out], options].concat());
        assert_eq!(entries(&out), 802, "{command}");
    }
    let out = names.of("joined.root");
    let fields = ["--fields", "nMuon", "--fields", "Muon_pt"];
    good(&[&["join", &one, &two, "-o", &out], &fields[..]].concat());
    assert_eq!(entries(&out), 802);
}

#[test]
fn force_refuses_to_replace_a_file_by_a_smaller_one_unless_it_is_named() {
    let names = Names::new();
    let (small, large) = (names.of("small.root"), names.of("large.root"));
    std::fs::copy(crate::support::root().join(DIMUON), &large).unwrap();
    good(&["clone", DIMUON, &small, "--entries", ":10"]);
    let before = std::fs::read(&large).unwrap();
    for args in [
        &["skim", "-f", &small, &large, "--where", "nMuon > 2"][..],
        &["clone", "-f", &small, &large],
        &["reshape", "-f", &small, &large, "--compression", "lz4"],
        &["convert", "-f", &small, &large],
        &["merge", "-f", &large, &small],
    ] {
        let error = failure(args, 2);
        let (message, next) = (error["message"].as_str(), error["next"].as_str());
        let message = message.unwrap();
        assert!(
            message.contains("12000") && message.contains("(10)"),
            "{message}"
        );
        assert!(next.unwrap().contains(&format!("-o {large}")), "{args:?}");
        assert!(std::fs::read(&large).unwrap() == before, "{args:?}");
    }
    // the other way round, and with the name, it is what is asked for
    good(&["merge", "-f", &small, &large]);
    good(&["clone", &small, "-f", "-o", &large, "--entries", ":3"]);
    assert_eq!(document(&["info", &large])["num_entries"], 3);
}

#[test]
fn messages_recommend_options_that_the_command_has() {
    let names = Names::new();
    let out = names.of("out.root");
    std::fs::copy(crate::support::root().join(DIMUON), &out).unwrap();
    let message = |args: &[&str]| failure(args, 2)["message"].as_str().unwrap().to_owned();
    for args in [
        &["clone", DIMUON, &out][..],
        &["skim", DIMUON, &out, "--where", "nMuon > 2"],
        &["reshape", DIMUON, &out, "--compression", "lz4"],
        &["join", &out, DIMUON, MIXED],
    ] {
        let message = message(args);
        assert!(
            message.contains("(--force)") && !message.contains("append"),
            "{message}"
        );
        assert!(!message.contains("=True"), "{message}");
    }
    let merged = message(&["merge", &out, DIMUON]);
    assert!(
        merged.contains("(--append)") && !merged.contains("=True"),
        "{merged}"
    );
    let tip = message(&["skim", "--append", DIMUON, &out, "--where", "nMuon > 2"]);
    assert!(
        tip.contains("--append") && !tip.contains("-- --append"),
        "{tip}"
    );
}

#[test]
fn slips_are_wrong_usage_and_leave_everything_as_it_was() {
    let names = Names::new();
    let (new, mine) = (names.of("new.root"), names.of("mine.root"));
    std::fs::copy(crate::support::root().join(DIMUON), &mine).unwrap();
    let before = std::fs::read(&mine).unwrap();
    for (args, says) in [
        // names in the wrong order, or without the output
        (vec!["clone", &new, &mine], "already exists"),
        (
            vec!["skim", DIMUON, &mine, "--where", "nMuon > 2"],
            "already exists",
        ),
        (
            vec!["skim", &mine, "--where", "nMuon > 2"],
            "output missing",
        ),
        (
            vec!["skim", "-f", &mine, &mine, "--where", "nMuon > 2"],
            "also an input",
        ),
        (
            vec!["reshape", "-f", &mine, &mine, "--compression", "zstd"],
            "also an input",
        ),
        (
            vec!["clone", DIMUON, "out.txt"],
            "the last argument is the output",
        ),
        (
            vec!["clone", DIMUON, "*.root"],
            "the last argument is the output",
        ),
        (
            vec!["clone", DIMUON, &new, "--entries", "5"],
            "invalid entries \"5\"",
        ),
        (
            vec![
                "clone",
                "testdata/rntuple/mixed_*.root",
                &new,
                "--entries",
                "0:5",
            ],
            "counted in one file",
        ),
        (
            vec!["reshape", DIMUON, &new, "--precision", "Muon_pt=5"],
            "takes 10 to 31 bits",
        ),
        (
            vec!["reshape", DIMUON, &new, "--precision", "run=16"],
            "it has no floats",
        ),
        (
            vec!["reshape", DIMUON, &new, "--precision", "Muon_eta=12:-1:1"],
            "(in testdata/dimuon.root:Events, entries 0:4000)",
        ),
        (
            vec!["clone", DIMUON, &new, "--fields", "run", "event"],
            "unexpected argument",
        ),
        (vec!["clone", OBJECTS, &new, "--others", "error"], "others="),
        (vec!["reshape", DIMUON, &new], "no change requested"),
        (
            vec!["reshape", DIMUON, &new, "--page-size", "0"],
            "invalid size",
        ),
        (
            vec!["reshape", DIMUON, &new, "--cluster-size", "big"],
            "invalid size",
        ),
        (
            vec!["reshape", DIMUON, &new, "--precision", "Muon_pt"],
            "invalid precision",
        ),
        (vec!["skim", DIMUON, &new, "--where", "nMuon >"], "nMuon >"),
        (vec!["skim", DIMUON, &new, "--where", "Muon_pt > 2"], "any("),
    ] {
        let error = failure(&args, 2);
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(says), "{args:?}: {message}");
    }
    for args in [
        ["clone", DIMUON, &new, "--fields", "Muon_ptt"],
        ["reshape", DIMUON, &new, "--precision", "Muon_ptt=12"],
    ] {
        let error = failure(&args, 3);
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("did you mean Muon_pt"), "{message}");
    }
    let next = failure(&["clone", DIMUON, &new, "--fields", "run", "event"], 2)["next"].clone();
    assert!(next.as_str().unwrap().contains("one argument"), "{next}");
    let error = failure(&["skim", DIMUON, &new, "--where", "nMuons > 2"], 3);
    assert!(
        error["message"].as_str().unwrap().contains("nMuon"),
        "{error}"
    );
    assert_eq!(std::fs::read(&mine).unwrap(), before);
    assert!(!Path::new(&new).exists());
}
