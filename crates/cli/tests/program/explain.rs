//! `fb explain`.

use serde_json::json;

use crate::support::{DIMUON, document, good};

#[test]
fn the_plan_of_a_whole_column_is_exact() {
    let value = document(&["explain", DIMUON, "event"]);
    assert_eq!(value["exact"], true);
    assert_eq!(value["num_entries"], 12_000);
    assert_eq!(
        (&value["clusters"], &value["pages"]),
        (&json!(3), &json!(3))
    );
    assert_eq!(value["bytes_decoded"], 96_000);
    assert_eq!(value["per_column"][0]["field"], "event");
    assert_eq!(value["notes"], json!([]));
    assert!(value["bytes_read"].as_u64() >= value["bytes_needed"].as_u64());
}

#[test]
fn a_range_of_entries_costs_its_clusters_only() {
    let range = ["--entry-start", "10", "--entry-stop", "30"];
    let value = document(&[&["explain", DIMUON, "Muon_pt"], &range[..]].concat());
    assert_eq!(
        (&value["entry_start"], &value["entry_stop"]),
        (&json!(10), &json!(30))
    );
    assert_eq!(
        (&value["num_entries"], &value["clusters"]),
        (&json!(20), &json!(1))
    );
    assert_eq!(value["exact"], false);
    assert!(value["notes"][0].as_str().unwrap().contains("upper bound"));
}

#[test]
fn negative_entries_count_from_the_end() {
    let range = ["--entry-start", "-10", "--entry-stop=-4"];
    let value = document(&[&["explain", DIMUON, "event"], &range[..]].concat());
    assert_eq!(
        (&value["entry_start"], &value["entry_stop"]),
        (&json!(11_990), &json!(11_996))
    );
}

#[test]
fn patterns_choose_fields() {
    let value = document(&["explain", DIMUON, "Muon_*"]);
    let text = good(&["explain", DIMUON, "Muon_p*"]);
    assert_eq!(value["per_column"].as_array().unwrap().len(), 6);
    assert!(
        text.contains("Muon_phi") && text.contains("Muon_pt") && !text.contains("Muon_eta"),
        "{text}"
    );
}
