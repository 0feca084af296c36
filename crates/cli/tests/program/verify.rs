//! `fb verify`.

use serde_json::{Value, json};

use crate::support::{
    Copy, DIMUON, MIXED, OBJECTS, document, fb, good, header_offset, page, with_bad_page,
};

/// Runs `verify --json` on a damaged file.
fn damaged(path: &str) -> Value {
    let done = fb(&["verify", "--json", path]);
    assert_eq!((done.code, done.err.as_str()), (1, ""), "{}", done.out);
    let value: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(value["ok"], false);
    value
}

#[test]
fn intact_files_are_good() {
    let codecs = ["deflate", "lz4", "lzma", "none", "zlib", "zstd"];
    let files = codecs.map(|codec| format!("testdata/rntuple/mixed_{codec}.root"));
    for file in files.iter().map(String::as_str).chain([DIMUON]) {
        let value = document(&["verify", file]);
        assert_eq!(
            (&value["ok"], &value["error"]),
            (&json!(true), &Value::Null),
            "{file}"
        );
        let ntuple = &value["ntuples"][0];
        assert_eq!(ntuple["damages"], json!([]), "{file}");
        assert_eq!(ntuple["lost"], json!([]), "{file}");
        assert!(ntuple["pages"].as_u64() > Some(0), "{file}");
    }
    let out = good(&["verify", DIMUON, "--threads", "3"]);
    assert!(
        out.starts_with("testdata/dimuon.root:Events: good: 12,000 entries"),
        "{out}"
    );
    good(&["verify", &format!("{MIXED}:mixed")]);
}

#[test]
fn a_flipped_bit_is_found_with_its_place_and_the_entries_lost() {
    let page = page(DIMUON, 1, 2);
    let copy = with_bad_page(&page);
    let value = damaged(copy.path());
    let ntuple = &value["ntuples"][0];
    let (start, stop) = page.entries;
    assert_eq!(ntuple["damages"].as_array().unwrap().len(), 1);
    let damage = &ntuple["damages"][0];
    assert_eq!(damage["field"], "event");
    assert_eq!(damage["cluster"], page.cluster);
    assert_eq!(damage["offset"], page.offset);
    assert_eq!(
        (&damage["entry_start"], &damage["entry_stop"]),
        (&json!(start), &json!(stop))
    );
    assert!(damage["problem"].as_str().unwrap().contains("checksum"));
    assert_eq!(ntuple["lost"], json!([[start, stop]]));
    assert_eq!(ntuple["entries_lost"], stop - start);
}

#[test]
fn people_are_told_what_is_lost() {
    let page = page(DIMUON, 1, 2);
    let copy = with_bad_page(&page);
    let done = fb(&["verify", copy.path()]);
    assert_eq!((done.code, done.err.as_str()), (1, ""));
    for text in [
        "DAMAGED: 1 damaged page",
        "lost: 4,000 of 12,000 entries, in 1 field: 8000..12000",
        "checksum mismatch",
    ] {
        assert!(done.out.contains(text), "{text} in {}", done.out);
    }
}

#[test]
fn a_truncated_file_is_damaged() {
    let copy = Copy::of(DIMUON, |bytes| bytes.truncate(bytes.len() - 100));
    let value = damaged(copy.path());
    assert_eq!(value["error"]["kind"], "truncated-file");
    assert_eq!(value["ntuples"], json!([]));
    assert!(
        fb(&["verify", copy.path()])
            .out
            .contains(" is truncated at offset ")
    );
}

#[test]
fn damaged_metadata_cost_the_whole_ntuple() {
    let at = header_offset(DIMUON) + 40;
    let copy = Copy::of(DIMUON, |bytes| bytes[at] ^= 0x10);
    for target in [copy.path().to_owned(), format!("{}:Events", copy.path())] {
        let value = damaged(&target);
        assert_eq!(value["error"], Value::Null);
        assert_eq!(value["ntuples"][0]["ntuple"], "Events");
        assert!(
            value["ntuples"][0]["error"]["message"]
                .as_str()
                .unwrap()
                .contains("header")
        );
    }
}

#[test]
fn all_ntuples_all_cycles_and_attribute_sets_are_verified() {
    let names = |file: &str| -> Vec<Value> {
        let value = document(&["verify", &format!("testdata/rntuple/{file}")]);
        assert_eq!(value["ok"], true);
        let ntuples = value["ntuples"].as_array().unwrap().iter();
        ntuples
            .map(|n| json!([n["ntuple"], n["attribute_set_of"]]))
            .collect()
    };
    assert_eq!(
        names("again.root"),
        [json!(["again;2", null]), json!(["again;1", null])]
    );
    // six ntuples and three trees
    assert_eq!(names("crowd.root").len(), 9);
    let attributes = names("attributes.root");
    assert_eq!(attributes[0], json!(["main", null]));
    assert!(
        attributes.contains(&json!(["lumi", "main"])),
        "{attributes:?}"
    );
}

#[test]
fn trees_are_verified_with_or_without_their_names() {
    for target in [OBJECTS.to_owned(), format!("{OBJECTS}:tree")] {
        let value = document(&["verify", &target]);
        assert_eq!(value["ok"], true, "{target}");
        assert_eq!(value["ntuples"].as_array().unwrap().len(), 1);
        let tree = &value["ntuples"][0];
        assert_eq!(
            (&tree["ntuple"], &tree["num_entries"]),
            (&json!("tree"), &json!(10))
        );
        assert!(tree["pages"].as_u64() > Some(0), "{target}");
    }
}

#[test]
fn a_damaged_basket_of_a_tree_is_found() {
    let copy = Copy::of("testdata/ttree/leaves_many_baskets.root", |bytes| {
        let name = b"TBasket\x04grid";
        let at = bytes.windows(name.len()).position(|w| w == name).unwrap();
        bytes[at + name.len() + 30] ^= 0xFF;
    });
    let value = damaged(copy.path());
    let damages = value["ntuples"][0]["damages"].as_array().unwrap();
    assert_eq!(damages.len(), 1, "{damages:?}");
    assert_eq!(damages[0]["field"], "grid");
    let problem = damages[0]["problem"].as_str().unwrap();
    assert!(problem.contains("basket 0 of branch"), "{problem}");
}

#[test]
fn a_file_without_ntuples_cannot_be_verified() {
    let done = fb(&["verify", "testdata/container/cycles.root"]);
    assert_eq!((done.code, done.out.as_str()), (3, ""));
    assert!(done.err.contains("no RNTuple or TTree"), "{}", done.err);
}

/// A branch that could not be interpreted was ignored silently, and the tree reported as good.
#[test]
fn branches_that_cannot_be_interpreted_are_listed() {
    let versions = "testdata/ttree/versions.root";
    let out = good(&["verify", versions]);
    let mut lines = out.lines();
    let first = lines.next().unwrap();
    let expected =
        "versions.root:versions: good, except for a field that cannot be read: 400 entries";
    assert!(first.contains(expected), "{out}");
    assert!(
        out.contains("\n  not checked: thing: basket 1 has values that do not match the file"),
        "{out}"
    );
    let value = document(&["verify", versions]);
    assert_eq!(value["ok"], true);
    let ntuple = &value["ntuples"][0];
    assert_eq!(ntuple["not_checked"][0]["field"], "thing");
    assert_eq!(ntuple["damages"], json!([]));
    let value = damaged("testdata/ttree/versions_zstd.root");
    assert_eq!(value["ntuples"][0]["damages"][0]["field"], "thing");
}

#[test]
fn pages_that_projected_fields_share_are_counted_once() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.root");
    let copy = copy.to_str().unwrap();
    let file = "testdata/rntuple/imported.root";
    good(&["clone", file, copy]);
    let found = document(&["verify", copy, "--against", file]);
    let (ntuple, proof) = (&found["ntuples"][0], &found["against"]["ntuples"][0]);
    assert!(ntuple["pages"].as_u64().unwrap() > 0);
    assert_eq!(proof["pages_equal"], ntuple["pages"]);
    assert_eq!(proof["bytes_equal"], ntuple["bytes"]);
}
