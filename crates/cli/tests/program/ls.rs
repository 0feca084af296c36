//! `fb ls`.

use crate::support::{Copy, DIMUON, OBJECTS, document, good, header_offset};

#[test]
fn everything_is_listed_with_class_title_and_size() {
    let out = good(&["ls", OBJECTS]);
    for (path, class, title) in [
        ("h1;1", "TH1D", "one dimension"),
        ("h2;1", "TH2F", "two dimensions"),
        ("loose;1", "vector<float>", ""),
        ("tree;1", "TTree", "a small tree"),
    ] {
        let line = out.lines().find(|line| line.starts_with(path)).unwrap();
        assert!(line.contains(class) && line.contains(title), "{line}");
        assert!(line.contains("B  "), "{line}");
    }
    assert!(out.lines().all(|line| !line.ends_with(' ')), "{out}");
}

#[test]
fn all_cycles_and_subdirectories_are_listed() {
    let value = document(&["ls", "testdata/container/cycles.root"]);
    let names: Vec<String> = value["objects"]
        .as_array()
        .unwrap()
        .iter()
        .map(|object| format!("{};{}", object["path"].as_str().unwrap(), object["cycle"]))
        .collect();
    assert_eq!(names.len(), 12);
    for name in ["often;12", "often;1", "dir;1", "dir/often;2", "dir/often;1"] {
        assert!(names.iter().any(|n| n == name), "{name} in {names:?}");
    }
}

#[test]
fn an_ntuple_counts_with_its_pages_and_entries() {
    let value = document(&["ls", DIMUON]);
    let ntuple = &value["objects"][0];
    assert_eq!(ntuple["path"], "Events");
    assert_eq!(ntuple["class"], "ROOT::RNTuple");
    assert_eq!(ntuple["num_entries"], 12_000);
    assert_eq!(ntuple["error"], serde_json::Value::Null);
    let (disk, file) = (
        ntuple["bytes_on_disk"].as_u64().unwrap(),
        value["bytes"].as_u64().unwrap(),
    );
    assert!(disk < file && disk > file * 9 / 10, "{disk} of {file}");
    let factor = ntuple["compression_factor"].as_f64().unwrap();
    assert!((1.5..10.0).contains(&factor), "{factor}");
    assert_eq!(value["root_version"], "6.40/00");
    assert_eq!(
        value["compression"], "zlib 1",
        "the file's default, not the ntuple's"
    );
}

#[test]
fn only_ntuples_are_listed_when_asked() {
    assert_eq!(
        document(&["ls", "--rntuples", OBJECTS])["objects"],
        serde_json::json!([])
    );
    let value = document(&["ls", "--rntuples", DIMUON]);
    assert_eq!(value["objects"].as_array().unwrap().len(), 1);
}

#[test]
fn an_empty_file_is_an_empty_list() {
    let value = document(&["ls", "testdata/container/empty.root"]);
    assert_eq!(value["objects"], serde_json::json!([]));
    assert_eq!(
        good(&["ls", "testdata/container/empty.root"])
            .lines()
            .count(),
        2
    );
}

#[test]
fn a_damaged_ntuple_is_listed_with_what_is_wrong() {
    let at = header_offset(DIMUON) + 40;
    let copy = Copy::of(DIMUON, |bytes| bytes[at] ^= 0x10);
    let value = document(&["ls", copy.path()]);
    let error = &value["objects"][0]["error"];
    assert!(
        error["message"].as_str().unwrap().contains("header"),
        "{error}"
    );
    assert_eq!(value["objects"][0]["num_entries"], serde_json::Value::Null);
    assert!(good(&["ls", copy.path()]).contains("  ! "));
}

#[test]
fn names_and_lines_fit_the_width_that_was_asked_for() {
    let mut command = crate::support::command(&["ls", OBJECTS]);
    command.env("COLUMNS", "60");
    let out = crate::support::finish(command).out;
    assert!(out.lines().all(|line| line.chars().count() <= 60), "{out}");
}

#[test]
fn a_tree_has_the_size_of_its_baskets() {
    let file = "testdata/ttree/leaves_zlib.root";
    let listed = document(&["ls", file]);
    let objects = listed["objects"].as_array().unwrap().iter();
    let tree = objects.clone().find(|object| object["class"] == "TTree");
    let size = tree.unwrap()["bytes_on_disk"].as_u64().unwrap();
    let baskets = document(&["info", file])["bytes_on_disk"].as_u64().unwrap();
    let whole = listed["bytes"].as_u64().unwrap();
    assert!(baskets < size && size < whole, "{baskets} {size} {whole}");
}
