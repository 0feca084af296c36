use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Float32Array, Int32Array, ListArray, StructArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::Field;
use femtobarn_events::{BatchOptions, MemoryBackend, WriteBatch};
use femtobarn_rntuple::write::FieldModel;

use super::*;

fn store() -> DataStore {
    DataStore::new(Arc::new(MemoryBackend::new("memory:")))
}

/// Lists of records: `{pt: float, n: int}`.
fn tracks(lengths: &[usize]) -> ArrayRef {
    let n: i32 = lengths.iter().map(|n| i32::try_from(*n).unwrap()).sum();
    let pt: ArrayRef = Arc::new((0..n).map(|n| Some(n as f32)).collect::<Float32Array>());
    let number: ArrayRef = Arc::new(Int32Array::from_iter_values(0..n));
    let field =
        |name: &str, array: &ArrayRef| Arc::new(Field::new(name, array.data_type().clone(), false));
    let members = vec![(field("pt", &pt), pt), (field("n", &number), number)];
    let items: ArrayRef = Arc::new(StructArray::from(members));
    let item = Arc::new(Field::new_list_field(items.data_type().clone(), false));
    let ends = OffsetBuffer::from_lengths(lengths.iter().copied());
    Arc::new(ListArray::new(item, ends, items, None))
}

fn model(array: &ArrayRef) -> FieldModel {
    FieldModel::from_arrow(&Field::new("tracks", array.data_type().clone(), false)).unwrap()
}

#[test]
fn what_is_stored_by_event_is_loaded_as_columns() {
    let store = store();
    let types = Types::new(&store);
    let lengths = [2, 0, 3, 1];
    let array = tracks(&lengths);
    let described = describe(&model(&array), "Track");
    assert_eq!(described.type_name, "std::vector<Track>");
    types.note(&described).unwrap();
    types.note(&described).unwrap();
    let name = ProductName::new("tracks", &described.type_name).unwrap();
    let rows = types.of(&described.type_name, "tracks").unwrap();
    let encoded = rows.encode(&array).unwrap();
    let dataset = store.root().create_dataset("a").unwrap();
    let mut batch = WriteBatch::new(&store, BatchOptions::default());
    for at in 0..lengths.len() {
        let event = dataset
            .child(1)
            .unwrap()
            .child(2)
            .unwrap()
            .child(at as u64)
            .unwrap();
        for above in [
            event.above().unwrap().above().unwrap(),
            event.above().unwrap(),
            event.clone(),
        ] {
            batch.create(above.descriptor()).unwrap();
        }
        batch
            .store(event.descriptor(), &name, encoded.get(at).unwrap())
            .unwrap();
    }
    batch.flush().unwrap();
    // another program, which knows only the store
    let others = Types::new(&store);
    let all: [Container; 1] = [(*dataset).clone()];
    let whole = arrays(&others, &store, &all, std::slice::from_ref(&name), true).unwrap();
    let table = whole.to_arrow().unwrap();
    let columns: Vec<_> = table
        .schema()
        .fields()
        .iter()
        .map(|field| field.name().clone())
        .collect();
    assert_eq!(columns, ["run", "subrun", "event", "tracks"]);
    let again = rows.encode(table.column(3)).unwrap();
    assert_eq!(again, encoded);
    // the error of an invalid value names its event
    let event = dataset
        .child(1)
        .unwrap()
        .child(2)
        .unwrap()
        .child(2)
        .unwrap();
    event.store(&name, b"short", Default::default()).unwrap();
    let error = arrays(&others, &store, &all, &[name], false).unwrap_err();
    assert_eq!(error.kind(), "product-damaged");
    let error = error.to_string();
    assert!(error.contains("run 1, subrun 2, event 2"), "{error}");
}

#[test]
fn one_name_is_one_type() {
    let store = store();
    let types = Types::new(&store);
    types
        .note(&describe(&model(&tracks(&[1])), "Track"))
        .unwrap();
    let other = FieldModel::record(
        "x",
        "Track",
        vec![FieldModel::from_type_name("pt", "double").unwrap()],
    );
    let error = types.note(&describe(&other, "")).unwrap_err().to_string();
    assert!(
        error.contains("pt is float there and double here; only there: n; rename the class"),
        "{error}"
    );
    // after it was forgotten, the next definition counts
    types.of("Track", "x").unwrap();
    types.forget("Track").unwrap();
    types.note(&describe(&other, "")).unwrap();
    assert_eq!(types.notes("Track").unwrap()[0].members.len(), 1);
    types.forget("Track").unwrap();
    assert!(types.of("Track", "x").is_err());
    for (type_name, why) in [
        (
            "std::vector<Unknown>",
            "as columns: the store has no description of class \"Unknown\"",
        ),
        (
            "std::map<std::string,Unknown>",
            "no description of class \"Unknown\"",
        ),
        (
            "std::deque<float>",
            "its type \"std::deque<float>\" is not a known type",
        ),
        ("flot", "as columns: its type \"flot\" is not a known type"),
        ("flot", "did you mean float?"),
        ("bytes", "load them as bytes"),
    ] {
        let error = types.of(type_name, "x").unwrap_err();
        assert_eq!(error.kind(), "product-type");
        assert!(error.to_string().contains(why), "{error}");
    }
    for (name, note) in [
        ("Bad", &b"nonsense"[..]),
        ("Bad2", b"{\"type\": \"Bad2\"}"),
        (
            "Bad3",
            br#"{"type": "Bad3", "members": [{"name": 1, "type": "float"}]}"#,
        ),
        (
            "Loop",
            br#"{"type": "Loop", "members": [{"name": "x", "type": "std::vector<Loop>"}]}"#,
        ),
    ] {
        store.backend().note(&ClassNote::key(name), note).unwrap();
        assert_eq!(types.of(name, "x").unwrap_err().kind(), "product-type");
    }
}

#[test]
fn names_say_the_whole_type() {
    for (type_name, classes) in [
        ("std::vector<std::vector<float>>", 0),
        ("std::map<std::int32_t,std::string>", 0),
        ("std::optional<std::array<double,3>>", 0),
        ("std::variant<std::int32_t,std::string>", 0),
        ("std::pair<float,std::vector<bool>>", 0),
        ("std::set<std::uint8_t>", 0),
        ("ROOT::VecOps::RVec<float>", 0),
    ] {
        let model = FieldModel::from_type_name("x", type_name).unwrap();
        let described = describe(&model, "X");
        assert_eq!(described.type_name, model.type_name);
        assert_eq!(described.classes.len(), classes);
    }
    let inner = FieldModel::record(
        "inner",
        "",
        vec![FieldModel::from_type_name("a", "float").unwrap()],
    );
    let outer = FieldModel::record("x", "", vec![FieldModel::vector("inner", inner)]);
    let described = describe(&outer, "Outer");
    assert_eq!(described.type_name, "Outer");
    let names: Vec<_> = described.classes.iter().map(|class| &*class.name).collect();
    assert_eq!(names, ["Outer::inner", "Outer"]);
    assert_eq!(
        described.classes[1].members[0].type_name,
        "std::vector<Outer::inner>"
    );
}

#[test]
fn forms_say_what_is_missing_and_what_is_bytes() {
    let store = store();
    let types = Types::new(&store);
    let note = |name: &str, members: &[(&str, &str)]| {
        let member = |(name, type_name): &(&str, &str)| Member {
            name: (*name).into(),
            type_name: (*type_name).into(),
        };
        let class = ClassNote {
            name: name.into(),
            members: members.iter().map(member).collect(),
        };
        let described = Described {
            type_name: name.into(),
            classes: vec![class],
        };
        types.note(&described).unwrap();
    };
    note("Dotted", &[("a.b", "float")]);
    note("ns::Box<std::pair<float,double>>", &[("x", "float")]);
    for (type_name, whole, partial) in [
        ("float", Form::Value, Form::Optional),
        (
            "std::vector<std::optional<float>>",
            Form::Value,
            Form::Optional,
        ),
        ("std::optional<float>", Form::Value, Form::List),
        (
            "std::atomic<std::variant<float,bool>>",
            Form::Value,
            Form::List,
        ),
        (
            "std::vector<ns::Box<std::pair<float,double>>>",
            Form::Value,
            Form::Optional,
        ),
        (
            "std::optional<std::variant<float,bool>>",
            Form::Bytes,
            Form::OptionalBytes,
        ),
        (
            "std::variant<std::optional<float>,bool>",
            Form::Bytes,
            Form::OptionalBytes,
        ),
        (
            "std::unique_ptr<std::vector<float>>",
            Form::Bytes,
            Form::OptionalBytes,
        ),
        ("Dotted", Form::Bytes, Form::OptionalBytes),
        ("ns::Box<float>", Form::Bytes, Form::OptionalBytes),
        ("pickle", Form::Bytes, Form::OptionalBytes),
    ] {
        for (is_partial, wanted) in [(false, whole), (true, partial)] {
            let (form, why) = types.form(type_name, is_partial).unwrap();
            assert_eq!(form, wanted, "{type_name}");
            assert_eq!(form.name().parse::<Form>().unwrap(), form);
            assert_eq!(why.is_some(), form.is_bytes() && type_name != "pickle");
            let field = types.field("x", type_name, form).unwrap();
            field.check().unwrap();
            assert_eq!(field.name, "x");
        }
    }
    let notes = types
        .notes("std::map<Dotted,ns::Box<std::pair<float,double>>>")
        .unwrap();
    let names: Vec<_> = notes.iter().map(|note| &*note.name).collect();
    assert_eq!(names, ["Dotted", "ns::Box<std::pair<float,double>>"]);
}

#[test]
fn lists_of_more_than_one_value_are_no_product() {
    let (values, there) = present(&tracks(&[1, 0, 1]), Form::List, "x").unwrap();
    assert_eq!((values.len(), there), (2, Some(vec![true, false, true])));
    for (array, form) in [
        (tracks(&[1, 2]), Form::List),
        (
            Arc::new(Float32Array::from_iter_values([1.0])) as ArrayRef,
            Form::List,
        ),
    ] {
        assert_eq!(
            present(&array, form, "x").unwrap_err().kind(),
            "unwritable-field"
        );
    }
    let array: ArrayRef = Arc::new(Float32Array::from_iter([Some(1.0), None]));
    let (values, there) = present(&array, Form::Optional, "x").unwrap();
    assert_eq!((values.len(), there), (1, Some(vec![true, false])));
}

#[test]
fn a_class_whose_members_do_not_lie_as_they_say_is_refused() {
    let note = |size: u64, places: [u64; 2]| {
        let members = [("x", "float"), ("n", "std::int64_t")]
            .into_iter()
            .zip(places);
        let members: Vec<_> = members
            .map(|((name, type_name), offset)| {
                serde_json::json!({"name": name, "type": type_name, "offset": offset})
            })
            .collect();
        serde_json::json!({"type": "Hit", "size": size, "members": members}).to_string()
    };
    for (size, places, is_whole) in [
        (16, [0, 8], true),
        (24, [0, 8], false),
        (24, [0, 16], false),
        (16, [8, 0], false),
    ] {
        let store = store();
        let noted = note(size, places);
        store.backend().note("type/Hit", noted.as_bytes()).unwrap();
        let found = Types::new(&store).of("std::vector<Hit>", "hits");
        assert_eq!(found.is_ok(), is_whole, "{noted}");
        if let Err(error) = found {
            assert!(
                error.to_string().contains("describe all members"),
                "{error}"
            );
        }
    }
}
