//! `fb info`.

use serde_json::{Value, json};

use crate::support::{DIMUON, MIXED, document, good};

fn field<'a>(value: &'a Value, path: &str) -> &'a Value {
    let fields = value["fields"].as_array().unwrap();
    fields.iter().find(|field| field["path"] == path).unwrap()
}

#[test]
fn the_schema_has_types_columns_and_sizes() {
    let value = document(&["info", &format!("{DIMUON}:Events")]);
    assert_eq!(value["ntuple"], "Events");
    assert_eq!(value["num_entries"], 12_000);
    assert_eq!(value["compressions"], json!(["zstd 5"]));
    assert_eq!(value["feature_flags"], json!([]));
    assert_eq!(value["skipped"], json!([]));
    assert!(value["version"].as_str().unwrap().starts_with("1.0."));
    assert!(value["writer"].as_str().unwrap().contains("ROOT"));
    let event = field(&value, "event");
    assert_eq!(event["typename"], "std::uint64_t");
    assert_eq!(event["columns"][0]["type"], "SplitUInt64");
    assert_eq!(event["columns"][0]["elements"], 12_000);
    assert_eq!(event["bytes_uncompressed"], 96_000);
    let projected = field(&value, "Muon_pt");
    assert_eq!(projected["projected_from"], "_collection0");
    assert_eq!(projected["bytes_on_disk"], 0);
}

#[test]
fn sizes_in_trees_are_those_that_are_known() {
    // arrays with a counter in another leaf had no size, and the last member of a leaf list had that of all
    let tree = "testdata/ttree/leaves_zlib.root:leaves";
    let value = document(&["info", tree]);
    assert!(field(&value, "pair.first")["bytes_on_disk"].is_null());
    assert!(field(&value, "pair.second")["compression_factor"].is_null());
    assert_eq!(field(&value, "pair")["bytes_uncompressed"], 640);
    let text = good(&["info", tree]);
    let line = |name: &str| {
        let mut lines = text.lines().map(str::split_whitespace);
        let words = lines.find_map(|mut words| (words.next() == Some(name)).then_some(words));
        words.unwrap().collect::<Vec<_>>().join(" ")
    };
    assert!(
        line("jag3").contains("from jag 1.45 kB"),
        "{}",
        line("jag3")
    );
    assert_eq!(line("first"), "std::int32_t Int32");
}

#[test]
fn sizes_of_fields_add_up() {
    for file in [DIMUON, MIXED] {
        let value = document(&["info", file]);
        let sum = |list: &Value, key: &str| -> u64 {
            list.as_array()
                .unwrap()
                .iter()
                .map(|item| item[key].as_u64().unwrap())
                .sum()
        };
        let fields = value["fields"].as_array().unwrap();
        let tops: Vec<Value> = fields
            .iter()
            .filter(|f| f["parent"].is_null())
            .cloned()
            .collect();
        for key in ["bytes_on_disk", "bytes_uncompressed"] {
            assert_eq!(
                sum(&Value::from(tops.clone()), key),
                value[key].as_u64().unwrap(),
                "{file} {key}"
            );
            assert_eq!(
                sum(&value["clusters"], key),
                value[key].as_u64().unwrap(),
                "{file} {key}"
            );
        }
        assert_eq!(
            sum(&value["clusters"], "num_entries"),
            value["num_entries"].as_u64().unwrap()
        );
        assert_eq!(sum(&value["cluster_groups"], "clusters"), 3);
    }
}

#[test]
fn members_of_base_classes_have_the_names_that_reads_take() {
    let out = good(&["info", MIXED]);
    assert!(out.contains("\n  fb::BaseA::id "), "{out}");
    let value = document(&["info", MIXED]);
    field(&value, "derived.fb::BaseA::id");
}

#[test]
fn anonymous_fields_are_shown_on_demand() {
    let plain = good(&["info", MIXED]);
    let all = good(&["info", "--all", MIXED]);
    assert!(!plain.contains(":_0"), "{plain}");
    assert!(all.contains("\n  :_0 "), "{all}");
    let row = plain
        .lines()
        .find(|line| line.starts_with("nested"))
        .unwrap();
    assert!(row.contains("SplitIndex64, SplitInt32"), "{row}");
}

#[test]
fn the_summary_says_what_scripts_get_too() {
    let out = good(&["info", DIMUON]);
    for text in [
        "12,000",
        "zstd 5",
        "3 clusters in 1 cluster group",
        "ROOT v6.40.00",
        " from _collection0.Muon_pt ",
    ] {
        assert!(out.contains(text), "{text} in {out}");
    }
    assert!(
        out.contains("\ncluster  group"),
        "few clusters are listed: {out}"
    );
}

#[test]
fn attribute_sets_are_listed_with_their_entries() {
    let value = document(&["info", "testdata/rntuple/attributes.root"]);
    let sets = value["attribute_sets"].as_array().unwrap();
    let lumi = sets.iter().find(|set| set["name"] == "lumi").unwrap();
    assert_eq!(
        (&lumi["num_entries"], &lumi["error"]),
        (&json!(5), &Value::Null)
    );
    assert!(
        good(&["info", "testdata/rntuple/attributes.root"])
            .contains("attribute set   lumi: 5 entries")
    );
}

#[test]
fn an_ntuple_without_anything_is_shown() {
    let out = good(&["info", "testdata/rntuple/no_fields.root:nothing"]);
    assert!(
        out.contains("0 top-level fields") && !out.contains("\n\n"),
        "{out}"
    );
    let value = document(&["info", "testdata/rntuple/empty.root"]);
    assert_eq!(
        (&value["num_entries"], &value["clusters"]),
        (&json!(0), &json!([]))
    );
}

#[test]
fn several_representations_and_late_columns_are_shown() {
    let row = |file: &str, name: &str| {
        let out = good(&["info", &format!("testdata/rntuple/{file}")]);
        out.lines()
            .find(|line| line.starts_with(name))
            .unwrap()
            .to_owned()
    };
    assert!(row("representations.root", "f32 ").contains("Real32, Real16, SplitReal32"));
    assert!(row("extension_late.root", "f32 ").contains("Real32 deferred, Real16 deferred"));
    assert!(row("packed.root", "f32_Trunc").contains("Real32Trunc("));
}
