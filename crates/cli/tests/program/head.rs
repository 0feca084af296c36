//! `fb head`: values equal those that ROOT read, and tables are aligned.

use serde_json::{Value, json};

use crate::support::{DIMUON, MIXED, fb, good, root};

/// Whether a number is the one with these bits. The last bit may differ, as serde_json parses fast rather than exactly;
/// a double that is stored with 32 or fewer bits is read as such.
fn same_number(found: &Value, bits: &str) -> bool {
    let number = match found.as_str() {
        Some("NaN") => f64::NAN,
        Some("Infinity") => f64::INFINITY,
        Some("-Infinity") => f64::NEG_INFINITY,
        _ => found.as_f64().unwrap(),
    };
    let value = u64::from_str_radix(&bits[2..], 16).unwrap();
    let wanted = match u32::try_from(value) {
        Ok(value) if bits.len() == 10 => f64::from(f32::from_bits(value)),
        _ => f64::from_bits(value),
    };
    let as_f32 = f64::from(wanted as f32) == wanted
        && (number as f32).to_bits() == (wanted as f32).to_bits();
    let same = number.to_bits().abs_diff(wanted.to_bits()) <= 1;
    (number.is_nan() && wanted.is_nan()) || as_f32 || (same && bits.len() == 18)
}

/// Whether a value of `fb head --json` equals the expected one: numbers by their bits, base classes flattened.
fn equal(found: &Value, golden: &Value) -> bool {
    match (found, golden) {
        (Value::Number(_) | Value::String(_), Value::String(bits)) if is_bits(bits) => {
            same_number(found, bits)
        }
        // streamed objects, and strings that are not UTF-8
        (Value::Object(object), Value::Array(bytes)) if object.contains_key("bytes") => {
            hex(object) == *bytes
        }
        (Value::Object(object), Value::Object(golden)) if golden.contains_key("bytes") => {
            Value::from(hex(object)) == golden["bytes"]
        }
        // a unique_ptr is a list of zero or one item
        (Value::Array(found), Value::Null) if found.is_empty() => true,
        (Value::Array(found), golden) if found.len() == 1 && equal(&found[0], golden) => true,
        (Value::Array(found), Value::Array(golden)) => {
            found.len() == golden.len() && found.iter().zip(golden).all(|(f, g)| equal(f, g))
        }
        (found, Value::Object(map)) if map.contains_key("tag") && map.contains_key("value") => {
            equal(found, &map["value"])
        }
        (Value::Object(found), Value::Object(golden)) => {
            let mut members = Vec::new();
            flatten(golden, &mut members);
            found.len() == members.len()
                && members.iter().all(|(name, value)| {
                    // members with equal names in base classes have their class prepended
                    let suffix = format!("::{name}");
                    found
                        .iter()
                        .any(|(key, f)| (key == name || key.ends_with(&suffix)) && equal(f, value))
                })
        }
        _ => found == golden,
    }
}

fn is_bits(text: &str) -> bool {
    text.starts_with("0x") && matches!(text.len(), 10 | 18)
}

fn hex(object: &serde_json::Map<String, Value>) -> Vec<Value> {
    let digits = object["bytes"].as_str().unwrap();
    let byte = |at| Value::from(u8::from_str_radix(&digits[at..at + 2], 16).unwrap());
    (0..digits.len()).step_by(2).map(byte).collect()
}

fn flatten<'a>(record: &'a serde_json::Map<String, Value>, out: &mut Vec<(&'a str, &'a Value)>) {
    for (name, value) in record {
        match value {
            Value::Object(base) if name.starts_with(":_") => flatten(base, out),
            _ => out.push((name, value)),
        }
    }
}

#[test]
fn values_are_those_that_root_read() {
    let folder = "testdata/rntuple";
    let names = std::fs::read_dir(root().join(folder)).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    // the "blocks" are megabytes of repetitions, to be compressed in several records
    let wanted = |name: &String| name.ends_with(".json") && !name.starts_with("blocks");
    let goldens: Vec<String> = names.filter(wanted).collect();
    assert!(goldens.len() >= 6, "{goldens:?}");
    for golden in goldens {
        let file = golden.split_inclusive(".root").next().unwrap();
        let golden = std::fs::read_to_string(root().join(folder).join(&golden)).unwrap();
        let golden: Value = serde_json::from_str(&golden).unwrap();
        let target = format!("{folder}/{file}:{}", golden["ntuple"].as_str().unwrap());
        let out = good(&["head", "--json", "-n", "1000", "--threads", "2", &target]);
        let entries: Vec<Value> = out
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(
            entries.len() as u64,
            golden["entries"].as_u64().unwrap(),
            "{target}"
        );
        let fields = golden["fields"].as_object().unwrap();
        assert!(
            entries
                .iter()
                .all(|entry| entry.as_object().unwrap().len() == fields.len()),
            "{target}"
        );
        for (name, values) in fields {
            for (i, (entry, golden)) in entries.iter().zip(values.as_array().unwrap()).enumerate() {
                assert!(
                    equal(&entry[name], golden),
                    "{target} {name}[{i}]: {} is not {golden}",
                    entry[name]
                );
            }
        }
    }
}

#[test]
fn integers_and_reals_are_exact_in_json() {
    let out = good(&[
        "head", "--json", "-n", "1", MIXED, "i64", "u64", "f64", "f32",
    ]);
    assert_eq!(
        out,
        "{\"i64\":-9223372036854775808,\"u64\":18446744073709551615,\"f64\":0.0,\"f32\":0.0}\n"
    );
}

#[test]
fn the_digits_of_reals_give_their_bits_back() {
    let golden = std::fs::read_to_string(root().join(format!("{MIXED}.mixed.json"))).unwrap();
    let golden: Value = serde_json::from_str(&golden).unwrap();
    let out = good(&["head", "--json", "-n", "1000", MIXED, "rvec"]);
    let mut n = 0;
    for (line, values) in out
        .lines()
        .zip(golden["fields"]["rvec"].as_array().unwrap())
    {
        let list = line
            .strip_prefix("{\"rvec\":[")
            .unwrap()
            .strip_suffix("]}")
            .unwrap();
        let found = list.split(',').filter(|digits| !digits.is_empty());
        for (digits, bits) in found.zip(values.as_array().unwrap()) {
            let bits = u64::from_str_radix(&bits.as_str().unwrap()[2..], 16).unwrap();
            assert_eq!(digits.parse::<f64>().unwrap().to_bits(), bits, "{digits}");
            n += 1;
        }
    }
    assert!(n > 20, "{n}");
}

#[test]
fn fields_come_in_the_order_asked_for_and_by_pattern() {
    let out = good(&["head", DIMUON, "-n", "2", "nMuon", "Muon_p*"]);
    let lines: Vec<&str> = out.lines().collect();
    let header: Vec<&str> = lines[0].split_whitespace().collect();
    assert_eq!(header[..2], ["entry", "nMuon"]);
    assert!(
        header.contains(&"Muon_pt") && header.contains(&"Muon_phi"),
        "{out}"
    );
    assert_eq!(lines.len(), 4);
}

#[test]
fn numbers_are_aligned_to_the_right() {
    let out = good(&["head", MIXED, "-n", "3", "i8", "text"]);
    let expected = "\
entry    i8  text
─────  ────  ────────────────────────────────
    0  -128  \"longer than the others, by far\"
    1   127  \"muon\"
    2     1  \"longer than the others, by far\"
";
    assert_eq!(out, expected);
}

#[test]
fn a_table_that_does_not_fit_has_a_line_for_each_value() {
    let out = good(&["head", MIXED, "-n", "2", "--width", "70"]);
    assert!(out.starts_with("entry 0\n  flag "), "{out}");
    assert!(out.lines().all(|line| line.chars().count() <= 70), "{out}");
    assert!(out.contains("  tuple    (\"ντ\", 0, [])"), "{out}");
    assert!(out.contains("…"), "{out}");
}

#[test]
fn every_kind_of_value_has_a_text() {
    let head = |file: &str, field: &str| {
        good(&[
            "head",
            &format!("testdata/rntuple/{file}"),
            "-n",
            "3",
            field,
        ])
    };
    let valueless = head("valueless.root", "many");
    assert!(
        valueless.contains("    2  [(2, \"x\"), null]\n"),
        "{valueless}"
    );
    let streamed = head("streamers.root", "histogram");
    assert!(streamed.contains("    0  <TH1F, 536 B>\n"), "{streamed}");
    let nothing = head("untyped.root", "nothing");
    assert!(nothing.contains("    0  {}\n"), "{nothing}");
    let floats = head("again.root", "floats");
    assert!(
        floats.contains("[nan]") && floats.contains(" inf,"),
        "{floats}"
    );
}

#[test]
fn no_more_entries_than_there_are_and_none_if_none_are_wanted() {
    assert_eq!(
        good(&["head", "--json", MIXED, "-n", "99", "i8"])
            .lines()
            .count(),
        40
    );
    assert_eq!(good(&["head", "--json", MIXED, "-n", "0"]), "");
    assert_eq!(good(&["head", "--json", DIMUON, "run"]).lines().count(), 10);
    assert_eq!(good(&["head", MIXED, "-n", "0", "i8"]).lines().count(), 2);
}

#[test]
fn a_member_alone_is_read_alone() {
    let out = good(&["head", "--json", "-n", "1", MIXED, "points.x"]);
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(value, json!({"points": [{"x": 0.0}]}));
}

#[test]
fn many_entries_are_written_step_by_step() {
    let out = good(&["head", "--json", "-n", "12000", DIMUON, "event"]);
    let events: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(events.len(), 12_000);
    assert!(
        events
            .iter()
            .zip(1000..)
            .all(|(event, i)| event["event"] == i)
    );
}

#[test]
fn a_branch_that_is_not_understood_is_named_on_standard_error() {
    let args = ["head", "testdata/ttree/versions.root", "-n", "300"];
    let done = fb(&args);
    assert_eq!(done.code, 0, "{}", done.err);
    assert!(done.out.contains("holder") && !done.out.contains("thing  "));
    assert!(
        done.err
            .starts_with("fb: skipped field \"thing\": basket 1"),
        "{}",
        done.err
    );
}

#[test]
fn a_metalink_file_stands_for_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let list = |names: &[&str]| {
        let path = folder.path().join("list.meta4");
        let file = |name: &&str| {
            let url = format!("file://{}", root().join(name).display());
            format!("<file name=\"{name}\"><url>{url}</url></file>")
        };
        let files: String = names.iter().map(file).collect();
        std::fs::write(&path, format!("<metalink>{files}</metalink>")).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let one = list(&[DIMUON]);
    assert_eq!(
        good(&["head", &one, "-n", "3"]),
        good(&["head", DIMUON, "-n", "3"])
    );
    let plan = good(&["explain", DIMUON]);
    assert!(good(&["explain", &one]).ends_with(&plan));
    let several = fb(&["head", &list(&[DIMUON, MIXED])]);
    assert_eq!(several.code, 2);
    assert!(several.err.contains("names 2 files"), "{}", several.err);
}
