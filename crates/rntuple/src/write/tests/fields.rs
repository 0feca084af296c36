//! Special fields: projected fields, ranges, late fields, attribute sets; and invalid ones.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowDictionaryKeyType, Float16Type, Float32Type, Float64Type, Int32Type,
};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Float64Array, Int8Array, Int32Array, Int64Array,
    LargeListArray, PrimitiveArray, RecordBatch, StringArray, UInt16Array, UInt64Array,
    new_empty_array,
};
use femtobarn_io::MemorySink;
use femtobarn_rootfile::{FileWriter, Uuid};

use super::open;
use crate::schema::DType;
use crate::spec::ColumnType;
use crate::write::{
    AttributeSetWriter, FieldKind, FieldModel, LeafModel, NTupleWriter, StoredAs, WriteOptions,
};

fn file() -> (Arc<MemorySink>, FileWriter) {
    let sink = Arc::new(MemorySink::default());
    let file = FileWriter::create(sink.clone(), "fields.root", 505, Uuid::default());
    (sink, file.unwrap())
}

fn column(name: &str, array: impl Array + 'static) -> RecordBatch {
    RecordBatch::try_from_iter([(name, Arc::new(array) as ArrayRef)]).unwrap()
}

fn refused(fields: &[FieldModel]) -> String {
    let (_, mut file) = file();
    let made = NTupleWriter::new(&mut file, 0, "Events", fields, WriteOptions::default());
    made.unwrap_err().to_string()
}

fn number(name: &str) -> FieldModel {
    FieldModel::number(name, DType::Int32)
}

#[test]
fn names_that_root_refuses_are_refused() {
    for name in ["", "a.b", "a/b", "a b", "a\\b", "a\nb", "a\u{7f}"] {
        assert!(refused(&[number(name)]).contains("name"), "{name:?}");
        let member = FieldModel::record("r", "", vec![number(name)]);
        assert!(refused(&[member]).contains("name"), "{name:?}");
        let (_, mut file) = file();
        let options = WriteOptions::default();
        assert!(NTupleWriter::new(&mut file, 0, name, &[number("n")], options).is_err());
    }
    assert!(refused(&[number("n"), number("n")]).contains("another field"));
}

#[test]
fn what_the_format_cannot_say_is_refused() {
    let record = FieldModel::record("", "", vec![number("n")]);
    let variant = FieldModel::variant("v", vec![number("a"), record.clone()]);
    assert!(refused(&[variant]).contains("class"));
    assert!(refused(&[FieldModel::variant("v", Vec::new())]).contains("0 alternatives"));
    assert!(refused(&[FieldModel::array("a", 0, number("n"))]).contains("size"));
    let projected = FieldModel::projected("copy", "float", "nothing", Vec::new());
    assert!(refused(&[projected]).contains("nothing"));
    let length = FieldModel::cardinality("n_n", "n", false);
    assert!(refused(&[number("n"), length]).contains("not a collection"));
    // an array of a type without a name is a collection
    let array = FieldModel::array("a", 2, record);
    assert!(matches!(array.kind, FieldKind::Collection(_)));
    for max_key_size in [63, 2_000_000_001] {
        let (_, mut file) = file();
        let options = WriteOptions {
            max_key_size,
            ..WriteOptions::default()
        };
        assert!(NTupleWriter::new(&mut file, 0, "Events", &[number("n")], options).is_err());
    }
}

#[test]
fn a_payload_that_needs_more_records_than_one_can_name_is_refused() {
    let (_, mut file) = file();
    let options = WriteOptions {
        max_key_size: 64,
        compression: 0,
        ..WriteOptions::default()
    };
    let fields: Vec<FieldModel> = (0..100).map(|i| number(&format!("field_{i}"))).collect();
    let error = NTupleWriter::new(&mut file, 0, "Events", &fields, options).unwrap_err();
    assert!(error.to_string().contains("max_key_size"), "{error}");
}

#[test]
fn quantized_values_are_in_their_range_or_refused() {
    let (sink, mut file) = file();
    let mut field = FieldModel::number("x", DType::Float64);
    let stored = |bits, min, max| StoredAs::Quantized { bits, min, max };
    for bad in [
        stored(33, 0.0, 1.0),
        stored(0, 0.0, 1.0),
        stored(8, 1.0, 1.0),
        stored(8, 0.0, f64::NAN),
    ] {
        assert!(field.store_reals(bad).is_err(), "{bad:?}");
    }
    assert!(field.store_reals(StoredAs::Truncated(9)).is_err());
    assert!(number("n").store_reals(StoredAs::Truncated(12)).is_err());
    field.store_reals(stored(8, -1.0, 254.0)).unwrap();
    let options = WriteOptions::default();
    let mut writer = NTupleWriter::new(&mut file, 0, "Events", &[field], options).unwrap();
    for bad in [-1.5, 255.0, f64::NAN, f64::INFINITY] {
        let error = writer.extend(&mut file, &column("x", Float64Array::from(vec![0.0, bad])));
        assert!(error.unwrap_err().to_string().contains("outside"), "{bad}");
    }
    let values = [-1.0, 254.0, 17.0];
    writer
        .extend(&mut file, &column("x", Float64Array::from(values.to_vec())))
        .unwrap();
    assert_eq!(writer.finish(&mut file).unwrap(), 3);
    file.finish().unwrap();
    let (found, _) = open(sink.to_vec(), "Events");
    assert_eq!(
        found.column(0).as_primitive::<Float64Type>().values(),
        &values
    );
}

/// They became infinite without an error.
#[test]
fn reals_that_their_column_makes_infinite_are_refused() {
    let half = StoredAs::Column(ColumnType::Real16);
    for (stored, largest, bad) in [
        (half, 65519.0, 65520.0),
        (StoredAs::Column(ColumnType::Real32), 3.402_823_5e38, 1e39),
        (StoredAs::Truncated(12), 3.402_823_5e38, 1e39),
    ] {
        let (sink, mut file) = file();
        let mut field = FieldModel::number("x", DType::Float64);
        let leaf = LeafModel {
            dtype: DType::Float64,
            stored: Some(stored),
        };
        field.kind = FieldKind::Leaf(leaf);
        let options = WriteOptions::default();
        let mut writer = NTupleWriter::new(&mut file, 0, "Events", &[field], options).unwrap();
        for bad in [bad, -bad] {
            let error = writer.extend(&mut file, &column("x", Float64Array::from(vec![0.0, bad])));
            assert!(error.unwrap_err().to_string().contains("infinite"), "{bad}");
        }
        let values = vec![largest, -largest, f64::INFINITY, f64::NAN];
        writer
            .extend(&mut file, &column("x", Float64Array::from(values)))
            .unwrap();
        assert_eq!(writer.finish(&mut file).unwrap(), 4);
        file.finish().unwrap();
        let (found, _) = open(sink.to_vec(), "Events");
        let found: Vec<f32> = match found.column(0).as_primitive_opt::<Float16Type>() {
            Some(halfs) => halfs.values().iter().map(|half| half.to_f32()).collect(),
            None => found
                .column(0)
                .as_primitive::<Float32Type>()
                .values()
                .to_vec(),
        };
        assert!(found[0].is_finite() && found[1].is_finite(), "{found:?}");
        assert!(found[2].is_infinite() && found[3].is_nan(), "{found:?}");
    }
}

#[test]
fn late_fields_may_show_others_and_are_zero_before() {
    let (sink, mut file) = file();
    let options = WriteOptions::default();
    let mut writer = NTupleWriter::new(&mut file, 0, "Events", &[number("n")], options).unwrap();
    writer
        .extend(&mut file, &column("n", Int32Array::from(vec![1, 2])))
        .unwrap();
    let late = [
        FieldModel::cardinality("n_late", "late", false),
        FieldModel::vector("late", FieldModel::number("", DType::Float32)),
    ];
    writer.add_fields(&mut file, &late).unwrap();
    // a name that is taken adds nothing, and leaves the writer unchanged
    assert!(
        writer
            .add_fields(&mut file, &[number("other"), number("n")])
            .is_err()
    );
    let lists = LargeListArray::from_iter_primitive::<Float32Type, _, _>([Some(vec![
        Some(0.5),
        Some(1.5),
    ])]);
    let batch = RecordBatch::try_from_iter([
        ("late", Arc::new(lists) as ArrayRef),
        ("n", Arc::new(Int32Array::from(vec![3]))),
    ]);
    writer.extend(&mut file, &batch.unwrap()).unwrap();
    assert_eq!(writer.finish(&mut file).unwrap(), 3);
    file.finish().unwrap();
    let (found, _) = open(sink.to_vec(), "Events");
    let get = |name| found.column_by_name(name).unwrap();
    assert_eq!(get("n").as_primitive::<Int32Type>().values(), &[1, 2, 3]);
    let late = get("late").as_list::<i64>();
    assert_eq!(
        (
            late.value_length(0),
            late.value_length(1),
            late.value_length(2)
        ),
        (0, 0, 2)
    );
    assert_eq!(get("n_late").len(), 3);
}

#[test]
fn attributes_speak_of_entries_that_there_are() {
    let (_, mut file) = file();
    let options = WriteOptions::default();
    let mut writer = NTupleWriter::new(&mut file, 0, "Events", &[number("n")], options).unwrap();
    let about = [FieldModel::number("run", DType::Int64)];
    let mut set = AttributeSetWriter::new(&mut file, &writer, "about", &about).unwrap();
    let row = column("run", Int64Array::from(vec![7]));
    set.append(&mut file, 0..3, &row).unwrap();
    writer
        .extend(&mut file, &column("n", Int32Array::from(vec![1, 2])))
        .unwrap();
    set.finish(&mut file, &mut writer).unwrap();
    let error = writer.finish(&mut file).unwrap_err().to_string();
    assert!(
        error.contains(r#"ranges up to entry 3, but "Events" has only 2"#),
        "{error}"
    );
}

#[test]
fn attribute_sets_have_one_row_a_range() {
    let (sink, mut file) = file();
    let options = WriteOptions::default();
    let mut writer = NTupleWriter::new(&mut file, 0, "Events", &[number("n")], options).unwrap();
    let about = [FieldModel::number("run", DType::Int64)];
    for bad in ["", "__own", "a b"] {
        assert!(AttributeSetWriter::new(&mut file, &writer, bad, &about).is_err());
    }
    let mut set = AttributeSetWriter::new(&mut file, &writer, "about", &about).unwrap();
    writer
        .extend(&mut file, &column("n", Int32Array::from(vec![1, 2])))
        .unwrap();
    let row = column("run", Int64Array::from(vec![7]));
    set.append(&mut file, 0..2, &row).unwrap();
    let two = column("run", Int64Array::from(vec![7, 8]));
    assert!(set.append(&mut file, 0..2, &two).is_err());
    assert!(
        set.append(
            &mut file,
            0..2,
            &column("run", UInt64Array::from(vec![u64::MAX]))
        )
        .is_err()
    );
    set.finish(&mut file, &mut writer).unwrap();
    assert!(AttributeSetWriter::new(&mut file, &writer, "about", &about).is_err());
    writer.finish(&mut file).unwrap();
    file.finish().unwrap();
    let (_, reader) = open(sink.to_vec(), "Events");
    let names: Vec<&str> = reader
        .descriptor()
        .attribute_sets
        .iter()
        .map(|set| set.name.as_str())
        .collect();
    assert_eq!(names, ["about"]);
}

#[test]
fn values_outside_of_a_slice_do_not_matter() {
    // slices of lists keep the items that were cut off, which were checked as well
    let lists = LargeListArray::from_iter_primitive::<Int32Type, _, _>([
        Some(vec![Some(1), None]),
        Some(vec![Some(2)]),
        Some(vec![None]),
    ]);
    let (sink, mut file) = file();
    let fields = [FieldModel::vector("x", number(""))];
    let options = WriteOptions::default();
    let mut writer = NTupleWriter::new(&mut file, 0, "Events", &fields, options).unwrap();
    assert!(
        writer
            .extend(&mut file, &column("x", lists.clone()))
            .is_err()
    );
    writer
        .extend(&mut file, &column("x", lists.slice(1, 1)))
        .unwrap();
    writer.finish(&mut file).unwrap();
    file.finish().unwrap();
    let (found, _) = open(sink.to_vec(), "Events");
    let found = found.column(0).as_list::<i64>().values().clone();
    assert_eq!(found.as_primitive::<Int32Type>().values(), &[2]);
}

#[test]
fn limits_of_memory_take_threads_and_clusters_away() {
    let mut options = WriteOptions {
        threads: 64,
        ..WriteOptions::default()
    };
    assert!(options.memory() > 1 << 30);
    let limit = 256 << 20;
    assert!(options.limit_memory(limit) <= limit);
    assert!(options.threads >= 1 && options.threads < 64);
    assert!(options.cluster_bytes > 0 && options.page_buffer > 0);
    assert!(options.limit_memory(1) > 1);
}

#[test]
fn a_struct_of_arrays_stays_one() {
    // conversions once lost the flag, and made a plain collection of it
    let item = FieldModel::record("_0", "Hit", vec![number("energy")]);
    let mut hits = FieldModel::new("hits", "HitSoA", FieldKind::Collection(Box::new(item)));
    hits.is_soa = true;
    let (sink, mut file) = file();
    let options = WriteOptions::default();
    let writer = NTupleWriter::new(&mut file, 0, "Events", &[hits], options).unwrap();
    writer.finish(&mut file).unwrap();
    file.finish().unwrap();
    let (_, reader) = open(sink.to_vec(), "Events");
    let descriptor = reader.descriptor();
    let top = descriptor.top_level.clone();
    assert!(descriptor.field(top[0]).unwrap().record.flags.soa());
    assert_eq!(descriptor.anchor.version(), "1.0.2.0");
    let again = FieldModel::from_descriptor(descriptor, &top).unwrap();
    assert!(again[0].is_soa && !again[0].subfields()[0].is_soa);
}

#[test]
fn values_of_a_dictionary_without_entries_are_all_missing() {
    fn of<K: ArrowDictionaryKeyType>(keys: PrimitiveArray<K>, values: &ArrayRef) -> ArrayRef {
        Arc::new(DictionaryArray::try_new(keys, values.clone()).unwrap())
    }
    let integers: ArrayRef = Arc::new(Int32Array::from(Vec::<i32>::new()));
    let texts: ArrayRef = Arc::new(StringArray::from(Vec::<String>::new()));
    let lists =
        LargeListArray::from_iter_primitive::<Int32Type, _, _>([None::<[Option<i32>; 0]>; 0]);
    let lists: ArrayRef = Arc::new(lists);
    for values in [integers, texts, lists] {
        for n in [0, 1, 3] {
            let small = of(Int8Array::new_null(n), &values);
            let wide = of(UInt16Array::new_null(n), &values);
            // a dictionary of dictionaries
            let empty = new_empty_array(small.data_type());
            let nested = of(Int8Array::new_null(n), &empty);
            for given in [small, wide, nested] {
                let (sink, mut file) = file();
                let batch = RecordBatch::try_from_iter([("cut", given)]).unwrap();
                let (schema, options) = (batch.schema(), WriteOptions::default());
                let mut writer =
                    NTupleWriter::from_arrow(&mut file, 0, "Events", &schema, options).unwrap();
                writer.extend(&mut file, &batch).unwrap();
                writer.finish(&mut file).unwrap();
                file.finish().unwrap();
                let (found, _) = open(sink.to_vec(), "Events");
                let found = found.column(0);
                assert_eq!((found.len(), found.logical_null_count()), (n, n));
            }
        }
    }
}
