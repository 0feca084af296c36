//! Trees that ROOT wrote have the values that it was given: `testdata/make_ttrees.py` has the formulas.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "tests"
)]

use std::fmt::Debug;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch, downcast_primitive_array};
use femtobarn_io::{ByteSource, LocalSource};
use femtobarn_rntuple::read::{Part, ReadOptions, ReadSchema, Reader, ReaderOptions, read, verify};
use femtobarn_rootfile::RootFile;
use femtobarn_ttree::open;

fn reader(file: &str, tree: &str) -> Arc<Reader> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/ttree");
    let source: Arc<dyn ByteSource> =
        LocalSource::open(format!("{folder}/{file}.root").as_ref()).unwrap();
    let file = RootFile::open(source.clone()).unwrap();
    let key = file.find(tree).unwrap();
    Arc::new(open(source, &file, &key, tree, ReaderOptions::default()).unwrap())
}

fn part(reader: &Arc<Reader>, start: u64, stop: u64, threads: usize) -> RecordBatch {
    let (schema, bindings) = ReadSchema::new(std::slice::from_ref(reader), None).unwrap();
    let part = Part {
        reader: reader.clone(),
        binding: bindings[0].clone(),
        start,
        stop,
    };
    let options = ReadOptions {
        threads,
        ..ReadOptions::default()
    };
    read(&schema, &[part], &options)
        .unwrap()
        .to_arrow()
        .unwrap()
}

fn whole(file: &str, tree: &str) -> RecordBatch {
    let reader = reader(file, tree);
    part(&reader, 0, reader.n_entries(), 1)
}

/// A value as Rust shows it: lists in brackets, records as tuples.
fn shown(array: &dyn Array, at: usize) -> String {
    let items = |items: &dyn Array| -> String {
        let items: Vec<String> = (0..items.len()).map(|at| shown(items, at)).collect();
        format!("[{}]", items.join(", "))
    };
    if let Some(lists) = array.as_list_opt::<i64>() {
        return items(&lists.value(at));
    }
    if let Some(lists) = array.as_fixed_size_list_opt() {
        return items(&lists.value(at));
    }
    if let Some(record) = array.as_struct_opt() {
        let members = record.columns().iter();
        let members: Vec<String> = members.map(|it| shown(it, at)).collect();
        return format!("({})", members.join(", "));
    }
    if let Some(texts) = array.as_string_opt::<i64>() {
        return format!("{:?}", texts.value(at));
    }
    if let Some(bits) = array.as_boolean_opt() {
        return bits.value(at).to_string();
    }
    downcast_primitive_array!(
        array => format!("{:?}", array.value(at)),
        other => panic!("{other}")
    )
}

fn column(batch: &RecordBatch, name: &str) -> Vec<String> {
    let column = batch.column_by_name(name);
    let column = column.unwrap_or_else(|| panic!("no {name:?} in {:?}", batch.schema()));
    (0..column.len()).map(|at| shown(column, at)).collect()
}

fn assert_is<T: Debug>(batch: &RecordBatch, name: &str, value: impl Fn(i64) -> T) {
    let entries = 0..batch.num_rows() as i64;
    let expected: Vec<String> = entries.map(|e| format!("{:?}", value(e))).collect();
    assert_eq!(column(batch, name), expected, "{name}");
}

fn list<T>(n: i64, item: impl Fn(i64) -> T) -> Vec<T> {
    (0..n).map(item).collect()
}

/// The files, and how many entries they have.
const LEAVES: [(&str, usize); 6] = [
    ("leaves_zlib", 40),
    ("leaves_many_baskets", 60),
    ("leaves_none", 5),
    ("leaves_lz4", 12),
    ("leaves_lzma", 12),
    ("leaves_empty", 0),
];

#[test]
fn every_kind_of_leaf_has_its_values_in_baskets_of_every_codec() {
    for (file, n_entries) in LEAVES {
        let all = whole(file, "leaves");
        assert_eq!(all.num_rows(), n_entries, "{file}");
        assert_is(&all, "bool", |e| e % 3 == 0);
        assert_is(&all, "int8", |e| e - 50);
        assert_is(&all, "uint8", |e| 3 * e);
        assert_is(&all, "int16", |e| -7 * e);
        assert_is(&all, "uint16", |e| 1000 * e);
        assert_is(&all, "int32", |e| -100_000 * e);
        assert_is(&all, "uint32", |e| 4_000_000_000 + e);
        assert_is(&all, "int64", |e| -10_000_000_000 * e);
        assert_is(&all, "uint64", |e| 18_000_000_000_000_000_000 + e as u64);
        assert_is(&all, "long", |e| -e);
        assert_is(&all, "ulong", |e| e);
        assert_is(&all, "float32", |e| e as f32 * 0.5);
        assert_is(&all, "float64", |e| e as f64 / 7.0);
        // in the file it has single precision
        assert_is(&all, "double32", |e| f64::from((e as f64 / 3.0) as f32));
        let part = "a text of which an entry has a part";
        assert_is(&all, "text", |e| part[..e as usize % 30].to_owned());
        let row = |e, x| list(3, |y| 100 * e + 10 * x + y);
        assert_is(&all, "grid", |e| list(2, |x| row(e, x)));
        assert_is(&all, "flags", |e| list(4, |x| (e >> x) & 1 == 1));
        assert_is(&all, "n", |e| e * 7 % 11);
        assert_is(&all, "m", |e| e % 5);
        let of_n = |e: i64| e * 7 % 11;
        assert_is(&all, "jag", |e| {
            list(of_n(e), |k| e as f32 + k as f32 / 16.0)
        });
        assert_is(&all, "jag3", |e| {
            list(of_n(e), |k| list(3, |x| (e * 100 + k * 10 + x) as f64))
        });
        assert_is(&all, "jagged_flags", |e| list(e % 5, |k| (e + k) % 2 == 1));
        assert_is(&all, "d32jag", |e| {
            let value = |k: i64| (e % 10) as f64 * 0.9 + k as f64 / 20.0;
            list(of_n(e), |k| f64::from(value(k) as f32))
        });
        assert_is(&all, "pair", |e| {
            (e, list(3, |x| e as f32 + x as f32 / 4.0))
        });
        assert_is(&all, "vector_float", |e| list(e % 4, |_| e as f32 * 0.25));
        assert_is(&all, "vector_bool", |e| list(e % 6, |k| k % 2 == 1));
        assert_is(&all, "vector_vector", |e| {
            list(e % 3, |k| list(k + 1, |_| e))
        });
        let text = |letter: &str, n: i64| letter.repeat(n as usize);
        assert_is(&all, "vector_string", |e| {
            list(e % 4, |k| text("x", k * (e % 50)))
        });
        assert_is(&all, "string", |e| {
            text("y", if e % 2 == 1 { e * 3 } else { 0 })
        });
        assert_is(&all, "vector_double", |e| list(e % 5, |_| e as f64));
    }
}

#[test]
fn numbers_of_low_precision_are_within_their_steps() {
    for (file, _) in LEAVES {
        let all = whole(file, "leaves");
        let check = |name: &str, value: &dyn Fn(f64) -> f64, step: &dyn Fn(f64) -> f64| {
            for (e, found) in column(&all, name).iter().enumerate() {
                let (found, value): (f64, f64) = (found.parse().unwrap(), value(e as f64));
                let is_near = (found - value).abs() <= step(value);
                assert!(is_near, "{file} {name} {e}: {found}, not {value}");
            }
        };
        check("float16", &|e| 1.0 / (e + 1.0), &|value| value / 2048.0);
        check("float16_range", &|e| -3.0 + e * 0.01, &|_| 6.0 / 1023.0);
        check("double32_range", &|e| e * 0.9, &|_| 100.0 / 65535.0);
        check("double32_bits", &|e| e * -1.1, &|value| {
            value.abs() / 8192.0
        });
    }
}

#[test]
fn counters_and_bitsets_have_their_values() {
    let all = whole("counted", "counted");
    assert_eq!(all.num_rows(), 30);
    let value = |e, k, i| e as f32 + k as f32 / 4.0 + 100.0 * i as f32;
    assert_is(&all, "list", |e| {
        let n = e % 5;
        (n, list(n, |k| list(2, |i| value(e, k, i))))
    });
    let all = whole("bits", "bits");
    assert_is(&all, "bits", |e| list(12, |at| (37 * e) >> at & 1 == 1));
    assert_is(&all, "several", |e| {
        list(e % 3, |k| list(5, |at| (e + k) >> at & 1 == 1))
    });
}

#[test]
fn an_array_has_no_more_items_than_the_maximum_of_its_counter() {
    let all = whole("clamped", "clamped");
    // the greatest number that fits into a signed byte, as which ROOT looks at the counter
    let n = |e: i64| if e == 0 { 120 } else { 125.min(e * 5) };
    assert_is(&all, "nb", |e| if e == 0 { 120 } else { e * 5 });
    assert_is(&all, "d", |e| list(n(e), |k| e as f64 + k as f64 / 4.0));
    assert_is(&all, "s", |e| list(n(e), |k| [e, k]));
}

#[test]
fn vectors_of_a_class_with_a_base_have_its_members() {
    let all = whole("derived", "derived");
    assert_eq!(all.num_rows(), 20);
    let base = |e, k: i64| (e, k as f32 / 2.0);
    assert_is(&all, "items", |e| {
        list(e % 4, |k| (base(e, k).0, base(e, k).1, (e + k) as f64))
    });
}

#[test]
fn objects_have_the_same_values_however_they_are_split() {
    for split in [0, 1, 99] {
        let all = whole(&format!("objects_split{split}"), "objects");
        assert_eq!(all.num_rows(), 30);
        let float = |n: i64| n as f64;
        assert_is(&all, "p4", |e| {
            ((float(e), float(e * 2), float(e * 3)), float(e * 10))
        });
        assert_is(&all, "vectors", |e| list(e % 3, |_| (float(e), 1.0, 2.0)));
        if split > 0 {
            assert_is(&all, "clones.fX", |e| list(e % 4, |_| float(e)));
            assert_is(&all, "clones.fZ", |e| list(e % 4, |k| float(e + k)));
        }
        assert_is(&all, "map.first", |e| list(e % 3, |k| e + k));
        assert_is(&all, "map.second", |e| list(e % 3, |k| k as f32 / 2.0));
        assert_is(&all, "lists.first", |e| list(e % 3, |k| format!("key {k}")));
        assert_is(&all, "lists.second", |e| list(e % 3, |k| list(k, |_| e)));
        assert_is(&all, "set", |e| list(e % 3, |k| e - (e % 3 - 1 - k)));
        let arrays = whole(&format!("arrays_split{split}"), "arrays");
        let first = whole("arrays_split0", "arrays");
        assert_eq!(column(&arrays, "map"), column(&first, "map"), "{split}");
    }
}

#[test]
fn a_part_of_the_entries_is_that_part_of_all() {
    for (file, _) in LEAVES {
        let reader = reader(file, "leaves");
        let n = reader.n_entries();
        let all = part(&reader, 0, n, 1);
        for start in 0..n {
            let stop = n.min(start + 1 + start * 7 % 23);
            let found = part(&reader, start, stop, 1 + (start % 3) as usize);
            let expected = all.slice(start as usize, (stop - start) as usize);
            assert_eq!(found, expected, "{file} {start}..{stop}");
        }
    }
}

#[test]
fn whole_trees_have_no_damage() {
    for (file, _) in LEAVES {
        let report = verify(&reader(file, "leaves"), 2, None).unwrap();
        assert!(report.damages.is_empty(), "{file}: {:?}", report.damages);
    }
}
