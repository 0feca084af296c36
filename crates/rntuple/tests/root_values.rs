//! Every value of every ntuple that ROOT wrote for the tests is the one that ROOT reads.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "tests"
)]

mod files;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, downcast_primitive_array};
use files::{Golden, entries, goldens};
use serde_json::Value;

/// Whether a value is that of a golden.
fn agrees(array: &dyn Array, at: usize, golden: &Value) -> bool {
    if array.is_null(at) || golden.is_null() {
        return is_nothing(array, at) && golden.is_null();
    }
    if let Some(lists) = array.as_list_opt::<i64>() {
        return items_agree(&lists.value(at), golden);
    }
    if let Some(lists) = array.as_fixed_size_list_opt() {
        return items_agree(&lists.value(at), golden);
    }
    if let Some(record) = array.as_struct_opt() {
        let members = members(golden);
        let own = record.column_names().into_iter().zip(record.columns());
        return members.len() == record.num_columns()
            && own.zip(members).all(|((name, column), (known, golden))| {
                known.is_none_or(|known| is_called(name, known)) && agrees(column, at, golden)
            });
    }
    if let Some(union) = array.as_union_opt() {
        let value = union.value(at);
        let tag = Value::from(union.type_id(at));
        let is_valueless = union.type_id(at) == 0;
        return golden["tag"] == tag && (is_valueless || agrees(&value, 0, &golden["value"]));
    }
    if let Some(text) = array.as_string_opt::<i64>() {
        return golden == text.value(at);
    }
    if let Some(bytes) = array.as_binary_opt::<i64>() {
        return *golden == Value::from(bytes.value(at));
    }
    if let Some(bits) = array.as_boolean_opt() {
        return golden == bits.value(at);
    }
    if let Some(bits) = golden.as_str() {
        return float_agrees(array, at, bits);
    }
    let number = downcast_primitive_array!(
        array => format!("{:?}", array.value(at)),
        other => panic!("{other}")
    );
    let golden = golden.to_string();
    number == golden
}

/// Of two members with one name, one has that of its class before it.
fn is_called(name: &str, known: &str) -> bool {
    let class = name.strip_suffix(known);
    class.is_some_and(|class| class.is_empty() || class.ends_with("::"))
}

/// Of pointers to pointers it is not said which of them is null. A variant that is missing has no value.
fn is_nothing(array: &dyn Array, at: usize) -> bool {
    let valueless = array.as_union_opt().map(|union| union.type_id(at) == 0);
    if array.is_null(at) || valueless == Some(true) {
        return true;
    }
    let items = array.as_list_opt::<i64>().map(|lists| lists.value(at));
    items.is_some_and(|items| match items.len() {
        0 => true,
        1 => is_nothing(&items, 0),
        _ => false,
    })
}

/// A pointer is a list of none or one here, and its value there.
fn items_agree(items: &dyn Array, golden: &Value) -> bool {
    let are_equal = golden.as_array().is_some_and(|golden| {
        let mut pairs = golden.iter().enumerate();
        golden.len() == items.len() && pairs.all(|(at, golden)| agrees(items, at, golden))
    });
    are_equal || items.len() == 1 && agrees(items, 0, golden)
}

/// The members of a record, and their names if they have some: its own, then those of its last base to those of the first.
fn members(golden: &Value) -> Vec<(Option<&str>, &Value)> {
    let Some(members) = golden.as_object() else {
        let items = golden.as_array().unwrap();
        return items.iter().map(|item| (None, item)).collect();
    };
    let (bases, own): (Vec<_>, Vec<_>) =
        members.iter().partition(|(name, _)| name.starts_with(":_"));
    let own = own
        .into_iter()
        .map(|(name, value)| (Some(name.as_str()), value));
    let bases = bases.into_iter().rev();
    own.chain(bases.flat_map(|(_, base)| self::members(base)))
        .collect()
}

/// A float of the width of its column, which may be less than that of its type.
fn float_agrees(array: &dyn Array, at: usize, bits: &str) -> bool {
    let number = u64::from_str_radix(&bits[2..], 16).unwrap();
    let golden = match bits.len() {
        10 => f64::from(f32::from_bits(number as u32)),
        _ => f64::from_bits(number),
    };
    if let Some(values) = array.as_primitive_opt::<Float64Type>() {
        return bits.len() == 18 && values.value(at).to_bits() == number;
    }
    if let Some(values) = array.as_primitive_opt::<Float32Type>() {
        let value = values.value(at);
        let rounded = golden as f32;
        return match bits.len() {
            10 => u64::from(value.to_bits()) == number,
            _ => value.to_bits() == rounded.to_bits() || value.is_nan() && rounded.is_nan(),
        };
    }
    let value = array.as_primitive::<Float16Type>().value(at).to_f64();
    value == golden || value.is_nan() && golden.is_nan()
}

/// The first value of a field that is not as in the golden.
fn first_difference(golden: &Golden, field: &str, values: &[Value]) -> Option<String> {
    let batch = match entries(&golden.reader, Some(&[field.to_owned()])) {
        Ok(batch) => batch,
        // a string that is not UTF-8
        Err(_) if format!("{values:?}").contains("\"bytes\"") => return None,
        Err(error) => return Some(error),
    };
    let column = batch.column(0);
    if column.len() != values.len() {
        return Some(format!("{} entries, not {}", column.len(), values.len()));
    }
    let mut entries = values.iter().enumerate();
    let (at, value) = entries.find(|(at, value)| !agrees(column, *at, value))?;
    let ours = column.slice(at, 1);
    Some(format!("entry {at}: {ours:?}, not {value}"))
}

#[test]
fn every_value_is_the_one_that_root_reads() {
    let (mut n_fields, mut differences) = (0, Vec::new());
    for golden in goldens() {
        assert_eq!(
            golden.golden["entries"],
            golden.reader.n_entries(),
            "{}",
            golden.name
        );
        for (field, values) in golden.golden["fields"].as_object().unwrap() {
            let difference = first_difference(&golden, field, values.as_array().unwrap());
            differences.extend(difference.map(|it| format!("{} {field}, {it}", golden.name)));
            n_fields += 1;
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(n_fields > 900, "{n_fields}");
}
