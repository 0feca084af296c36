use std::sync::Arc;

use arrow_array::builder::{Int64Builder, ListBuilder, StringBuilder};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float32Array, Float64Array, Int16Array, RecordBatch, StructArray,
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field};
use proptest::prelude::*;

use super::*;

fn rows(type_name: &str, classes: &[FieldModel]) -> RowType {
    let model = FieldModel::from_type_name_with("x", type_name, classes).unwrap();
    RowType::new(model).unwrap()
}

fn track() -> FieldModel {
    let members = [
        ("good", "bool"),
        ("pt", "float"),
        ("n", "std::int16_t"),
        ("e", "double"),
    ];
    let members = members.map(|(name, of)| FieldModel::from_type_name(name, of).unwrap());
    FieldModel::record("", "Track", members.to_vec())
}

fn column(arrays: &Arrays) -> ArrayRef {
    let batch: RecordBatch = arrays.to_arrow().unwrap();
    batch.column(0).clone()
}

/// Encodes an array, decodes it, and encodes it once more, which must give the same bytes.
fn there_and_back(rows: &RowType, array: &ArrayRef) -> ArrayRef {
    let encoded = rows.encode(array).unwrap();
    let each = (0..array.len()).map(|at| encoded.get(at));
    let back = column(&rows.decode(each).unwrap());
    assert_eq!(rows.encode(&back).unwrap(), encoded);
    back
}

fn tracks(pts: &[f32]) -> ArrayRef {
    let n = i16::try_from(pts.len()).unwrap();
    let good: BooleanArray = pts.iter().map(|pt| Some(*pt > 1.)).collect();
    let members: [(&str, ArrayRef); 4] = [
        ("good", Arc::new(good)),
        ("pt", Arc::new(Float32Array::from(pts.to_vec()))),
        ("n", Arc::new(Int16Array::from_iter_values(0..n))),
        (
            "e",
            Arc::new(
                pts.iter()
                    .map(|pt| f64::from(*pt) * 2.)
                    .collect::<Float64Array>(),
            ),
        ),
    ];
    let members = members.map(|(name, array)| {
        (
            Arc::new(Field::new(name, array.data_type().clone(), false)),
            array,
        )
    });
    Arc::new(StructArray::from(members.to_vec()))
}

#[test]
fn structs_lie_as_compilers_lay_them_out() {
    let type_name = "std::vector<Track>";
    let rows = rows(type_name, &[track()]);
    let items = tracks(&[0.5, 1.5, 2.5]);
    let field = Arc::new(Field::new_list_field(items.data_type().clone(), false));
    let ends = OffsetBuffer::<i32>::from_lengths([2, 0, 1]);
    let lists: ArrayRef = Arc::new(arrow_array::ListArray::new(field, ends, items, None));
    let encoded = rows.encode(&lists).unwrap();
    // the memory of `struct Track { bool good; float pt; std::int16_t n; double e; }`, after their number
    let track = |good: u8, pt: f32, n: i16, e: f64| {
        let mut bytes = vec![good, 0, 0, 0];
        bytes.extend(pt.to_le_bytes());
        bytes.extend(n.to_le_bytes());
        bytes.extend([0; 6]);
        bytes.extend(e.to_le_bytes());
        bytes
    };
    let first = [
        2u64.to_le_bytes().to_vec(),
        track(0, 0.5, 0, 1.),
        track(1, 1.5, 1, 3.),
    ]
    .concat();
    assert_eq!(encoded.get(0).unwrap(), first);
    assert_eq!(encoded.get(1).unwrap(), [0; 8]);
    assert_eq!(encoded.get(2).unwrap().len(), 8 + 24);
    assert_eq!(encoded.get(3), None);
    let back = there_and_back(&rows, &lists);
    assert_eq!(back.len(), 3);
    // padding bytes may have any value, and so may a bool
    let mut dirty = first.clone();
    (dirty[8], dirty[9], dirty[8 + 10]) = (7, 9, 9);
    let found = rows.decode([Some(&dirty[..])].into_iter()).unwrap();
    let again = rows.encode(&column(&found)).unwrap();
    let mut clean = first;
    clean[8] = 1;
    assert_eq!(again.get(0).unwrap(), clean);
}

#[test]
fn missing_values_are_missing() {
    let rows = rows("float", &[]);
    assert_eq!(rows.size(), Some(4));
    let value = 2.5f32.to_le_bytes();
    let arrays = rows.decode([Some(&value[..]), None, Some(&value[..])].into_iter());
    let array = column(&arrays.unwrap());
    let expected = Float32Array::from(vec![Some(2.5), None, Some(2.5)]);
    assert_eq!(
        array.as_any().downcast_ref::<Float32Array>(),
        Some(&expected)
    );
    let none: [Option<&[u8]>; 0] = [];
    assert_eq!(column(&rows.decode(none.into_iter()).unwrap()).len(), 0);
}

#[test]
fn values_of_nested_types_come_back() {
    let mut lists = ListBuilder::new(ListBuilder::new(Int64Builder::new()));
    for n in 0..5 {
        for m in 0..n {
            lists
                .values()
                .append_value((0..m).map(|value| Some(value * n)));
        }
        lists.append(true);
    }
    let lists: ArrayRef = Arc::new(lists.finish());
    there_and_back(&rows("std::vector<std::vector<std::int64_t>>", &[]), &lists);

    let mut texts = ListBuilder::new(StringBuilder::new());
    texts.append_value([Some(""), Some("ä"), Some("three\0")]);
    texts.append_value([None::<&str>; 0]);
    let texts: ArrayRef = Arc::new(texts.finish());
    let back = there_and_back(&rows("std::vector<std::string>", &[]), &texts);
    assert_eq!(back.len(), 2);

    let some: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.), None, Some(3.)]));
    let back = there_and_back(&rows("std::optional<double>", &[]), &some);
    assert_eq!(back.null_count(), 1);
}

#[test]
fn values_that_are_none_of_the_type_are_told() {
    let rows = rows("std::vector<Track>", &[track()]);
    let fails = |bytes: &[u8], expected: &str, found: &str| {
        let fault = rows.decode([None, Some(bytes)].into_iter()).unwrap_err();
        assert_eq!(
            (fault.row, &*fault.expected, &*fault.found),
            (1, expected, found)
        );
    };
    fails(&[1, 2, 3], "8 more bytes at byte 0", "3 of 3 bytes left");
    fails(
        &u64::MAX.to_le_bytes(),
        "at most 0 items at byte 0",
        "18446744073709551615 items",
    );
    let mut two = 2u64.to_le_bytes().to_vec();
    two.extend([0; 47]);
    fails(&two, "at most 1 items at byte 0", "2 items");
    two.extend([0; 2]);
    fails(&two, "56 bytes", "57 bytes");
    for type_name in [
        "std::vector<std::array<std::string,0>>",
        "std::array<double,2305843009213693952>",
    ] {
        let model = FieldModel::from_type_name("x", type_name);
        assert!(model.and_then(RowType::new).is_err(), "{type_name}");
    }
}

#[test]
fn types_have_the_sizes_that_they_have_in_memory() {
    let empty = FieldModel::record("", "Empty", Vec::new());
    for (type_name, size) in [
        ("bool", Some(1)),
        ("std::array<Track, 3>", Some(72)),
        ("Empty", Some(1)),
        ("std::pair<std::int8_t, double>", Some(16)),
        ("std::string", None),
        ("std::array<std::string, 2>", None),
    ] {
        assert_eq!(
            rows(type_name, &[track(), empty.clone()]).size(),
            size,
            "{type_name}"
        );
    }
}

proptest! {
    #[test]
    fn no_bytes_panic(
        which in 0..6usize,
        bytes in prop::collection::vec(prop_oneof![Just(0u8), 0..4u8, any::<u8>()], 0..80),
    ) {
        let types = [
            "std::vector<Track>",
            "std::vector<std::vector<std::string>>",
            "std::variant<Track, std::string, std::vector<bool>>",
            "std::optional<std::vector<std::optional<float>>>",
            "std::map<std::int32_t, std::string>",
            "std::array<std::variant<double, std::string>, 2>",
        ];
        let rows = rows(types[which], &[track()]);
        if let Ok(arrays) = rows.decode([Some(&bytes[..]), None].into_iter()) {
            prop_assert_eq!(arrays.n_entries(), 2);
            let _ = arrays.to_arrow();
        }
    }

    #[test]
    fn any_floats_come_back(lists in prop::collection::vec(prop::collection::vec(any::<u32>(), 0..5), 0..20)) {
        let items: Vec<f32> = lists.iter().flatten().map(|bits| f32::from_bits(*bits)).collect();
        let items: ArrayRef = Arc::new(Float32Array::from(items));
        let ends = OffsetBuffer::<i32>::from_lengths(lists.iter().map(Vec::len));
        let field = Arc::new(Field::new_list_field(DataType::Float32, false));
        let array: ArrayRef = Arc::new(arrow_array::ListArray::new(field, ends, items, None));
        there_and_back(&rows("std::vector<float>", &[]), &array);
    }
}
