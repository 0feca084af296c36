//! Subcommands with several files.

use serde_json::Value;

use crate::support::{Copy, DIMUON, MIXED, fb, good, page};

/// The documents of a stream.
fn documents(text: &str) -> Vec<Value> {
    let documents = serde_json::Deserializer::from_str(text).into_iter();
    documents.map(Result::unwrap).collect()
}

#[test]
fn each_file_has_its_title_and_its_document() {
    for verb in ["ls", "info"] {
        let out = good(&[verb, DIMUON, MIXED]);
        assert!(out.starts_with(&format!("{DIMUON}:\n")), "{out}");
        assert!(out.contains(&format!("\n\n{MIXED}:\n")), "{out}");
        let (first, second) = (good(&[verb, DIMUON]), good(&[verb, MIXED]));
        assert_eq!(out, format!("{DIMUON}:\n{first}\n{MIXED}:\n{second}"));
    }
    for verb in ["ls", "info", "verify"] {
        let found = documents(&good(&[verb, "--json", DIMUON, MIXED]));
        assert_eq!(found.len(), 2, "{verb}");
        assert!(
            found[1]["file"].as_str().unwrap().ends_with(MIXED),
            "{verb}"
        );
    }
    let out = good(&["verify", DIMUON, MIXED]);
    assert_eq!(
        out.lines().filter(|line| line.contains(": good: ")).count(),
        2
    );
}

#[test]
fn a_list_stands_for_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("files.txt");
    std::fs::write(&list, format!("# mine\n{DIMUON}\n\n{MIXED}\n")).unwrap();
    let list = format!("@{}", list.display());
    for verb in ["ls", "info", "verify"] {
        assert_eq!(good(&[verb, &list]), good(&[verb, DIMUON, MIXED]), "{verb}");
    }
    let missing = fb(&["verify", "@nowhere.txt"]);
    assert_eq!(missing.code, 3);
    assert!(
        missing.err.contains("list of files nowhere.txt"),
        "{}",
        missing.err
    );
}

#[test]
fn a_bad_file_does_not_hide_the_others() {
    let cut = Copy::of(DIMUON, |bytes| bytes.truncate(3000));
    let done = fb(&["verify", cut.path(), "nowhere.root", MIXED]);
    assert_eq!(done.code, 1, "{}", done.out);
    assert!(
        done.out.contains("DAMAGED") && done.out.contains("mixed: good"),
        "{}",
        done.out
    );
    assert_eq!(
        done.err
            .lines()
            .filter(|line| line.contains("no such file"))
            .count(),
        1
    );
    let done = fb(&["verify", "--json", "nowhere.root", cut.path(), MIXED]);
    let found = documents(&done.out);
    assert_eq!((done.code, done.err.as_str(), found.len()), (1, "", 3));
    assert_eq!(found[0]["file"], "nowhere.root");
    assert_eq!(found[0]["error"]["kind"], "file-not-found");
    let done = fb(&["ls", "nowhere.root", DIMUON]);
    assert_eq!(done.code, 3);
    assert!(done.out.contains("Events;1"), "{}", done.out);
}

#[test]
fn folders_of_this_machine_are_listed_as_those_of_servers() {
    let out = good(&["ls", "testdata"]);
    assert!(
        out.contains("dimuon.root") && out.contains("rntuple/"),
        "{out}"
    );
    let found = documents(&good(&["ls", "--json", "testdata"]));
    let entries = found[0]["entries"].as_array().unwrap();
    let size = std::fs::metadata(crate::support::root().join(DIMUON)).unwrap();
    let is_known = |entry: &&Value| entry["name"] == "dimuon.root";
    assert_eq!(entries.iter().find(is_known).unwrap()["bytes"], size.len());
}

#[test]
fn statistics_list_the_servers_of_a_file_with_several() {
    let page = page(DIMUON, 0, 0);
    let bad = Copy::of(DIMUON, |bytes| bytes[page.offset as usize + 20] ^= 1);
    let good = Copy::of(DIMUON, |_| {});
    let both = format!("file://{}|file://{}", bad.path(), good.path());
    let done = fb(&["--stats", "verify", &both]);
    assert_eq!(done.code, 0, "{}{}", done.out, done.err);
    assert!(done.out.contains(": good: "), "{}", done.out);
    let about = |copy: &Copy, what: &str| {
        let is_it = |line: &&str| line.contains(copy.path()) && line.contains(what);
        assert!(
            done.err.lines().any(|line| is_it(&line)),
            "{what}: {}",
            done.err
        );
    };
    about(&bad, ": disabled, ");
    about(&bad, "; damaged bytes at ");
    about(&bad, "; reading goes on from file://");
    about(&good, ": active, ");
    about(&good, " vector read");
    // a file with one source has no such lines
    let done = fb(&["--stats", "verify", good.path()]);
    assert!(!done.err.contains(": active"), "{}", done.err);
}
