//! Written data are read back, for any batches, sizes of pages and clusters, and numbers of threads.

mod append;
mod faults;
mod fields;
mod keyed;
mod objects;
mod parallel;

use std::sync::Arc;

use arrow_array::types::{Float32Type, Int32Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, FixedSizeListArray, Float64Array, Int16Array, Int64Array,
    LargeListArray, LargeStringArray, RecordBatch, StructArray, UInt8Array,
};
use arrow_schema::{DataType, Field, Schema};
use femtobarn_io::{MemorySink, MemorySource};
use femtobarn_rootfile::{FileWriter, RootFile, Uuid};

use super::{Levels, MergeOptions, NTupleMerger, NTupleWriter, PageSink, WriteOptions};
use crate::RNTupleError;
use crate::read::{
    Part, ReadOptions, ReadSchema, Reader, ReaderOptions, SourceStore, read, verify,
};
use crate::spec::Anchor;

fn batch(n: usize) -> RecordBatch {
    let number = |i: usize| i64::try_from(i).unwrap();
    let lists = (0..n).map(|i| {
        Some(
            (0..i % 4)
                .map(|k| Some(i as f32 + k as f32))
                .collect::<Vec<_>>(),
        )
    });
    let nested = LargeListArray::from_iter_primitive::<Int32Type, _, _>(
        (0..n).map(|i| Some((0..i % 3).map(move |k| Some(i32::try_from(i * k).unwrap())))),
    );
    let pairs = FixedSizeListArray::try_new(
        Arc::new(Field::new("item", DataType::Int16, false)),
        2,
        Arc::new(Int16Array::from_iter_values(
            (0..2 * n).map(|i| i16::try_from(i % 1000).unwrap() - 500),
        )),
        None,
    );
    let record = StructArray::from(vec![
        (
            Arc::new(Field::new("byte", DataType::UInt8, false)),
            Arc::new(UInt8Array::from_iter_values(
                (0..n).map(|i| u8::try_from(i % 256).unwrap()),
            )) as ArrayRef,
        ),
        (
            Arc::new(Field::new("text", DataType::LargeUtf8, false)),
            Arc::new(LargeStringArray::from_iter_values(
                (0..n).map(|i| "ü".repeat(i % 5)),
            )) as ArrayRef,
        ),
    ]);
    let lists = LargeListArray::from_iter_primitive::<Float32Type, _, _>(lists);
    // the reader's lists have items that are not nullable
    let plain = |list: LargeListArray, inner: DataType| -> ArrayRef {
        let (_, offsets, values, nulls) = list.into_parts();
        let field = Arc::new(Field::new("item", inner, false));
        Arc::new(LargeListArray::try_new(field, offsets, values, nulls).unwrap())
    };
    let columns: Vec<(&str, ArrayRef, bool)> = vec![
        (
            "number",
            Arc::new(Int64Array::from_iter_values((0..n).map(|i| number(i) * -7))),
            false,
        ),
        (
            "bit",
            Arc::new(BooleanArray::from_iter((0..n).map(|i| Some(i % 3 == 0)))),
            false,
        ),
        (
            "maybe",
            Arc::new(Float64Array::from_iter(
                (0..n).map(|i| (i % 4 != 1).then_some(i as f64 / 3.0)),
            )),
            true,
        ),
        ("lists", plain(lists, DataType::Float32), false),
        ("nested", plain(nested, DataType::Int32), false),
        ("pairs", Arc::new(pairs.unwrap()), false),
        ("record", Arc::new(record), false),
    ];
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, array, nullable)| Field::new(*name, array.data_type().clone(), *nullable))
        .collect();
    let arrays = columns.into_iter().map(|(_, array, _)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

/// Writes the batch in parts of these lengths; returns the file.
fn written(whole: &RecordBatch, lengths: &[usize], options: &WriteOptions) -> Vec<u8> {
    let sink = Arc::new(MemorySink::default());
    let mut file = FileWriter::create(
        sink.clone(),
        "written.root",
        options.compression,
        Uuid::default(),
    )
    .unwrap();
    let directory = file.directory("some/where").unwrap();
    let schema = whole.schema();
    let mut writer =
        NTupleWriter::from_arrow(&mut file, directory, "Events", &schema, options.clone()).unwrap();
    let mut at = 0;
    for length in lengths.iter().cycle() {
        let length = (*length).min(whole.num_rows() - at);
        if length == 0 {
            break;
        }
        writer.extend(&mut file, &whole.slice(at, length)).unwrap();
        at += length;
    }
    assert_eq!(writer.finish(&mut file).unwrap(), whole.num_rows() as u64);
    file.finish().unwrap();
    sink.to_vec()
}

fn read_back(bytes: Vec<u8>) -> (RecordBatch, Arc<Reader>) {
    open(bytes, "some/where/Events")
}

/// The content of an ntuple in a file.
/// Merges all fields of ntuples; returns what was done with the pages of each.
fn merged(
    sink: &mut dyn PageSink,
    name: &str,
    inputs: &[Arc<Reader>],
    how: MergeOptions,
) -> Vec<Levels> {
    let top_level = inputs[0].descriptor().top_level.clone();
    let mut merger = NTupleMerger::new(sink, (0, name), &inputs[0], &top_level, how).unwrap();
    let add = |input: &Arc<Reader>| merger.add(sink, input, &|_| true, None, &|_| true).unwrap();
    let levels = inputs.iter().map(add).map(|done| done.levels).collect();
    merger.finish(sink).unwrap();
    levels
}

fn open(bytes: Vec<u8>, path: &str) -> (RecordBatch, Arc<Reader>) {
    let source = MemorySource::new("mem:written.root", bytes);
    let file = RootFile::open(source.clone()).unwrap();
    let key = file.find(path).unwrap();
    let anchor = Anchor::parse(&file.read_object(&key).unwrap()).unwrap();
    let store = Arc::new(SourceStore::new(source, "Events", anchor.max_key_size));
    let reader = Reader::open(
        store.clone(),
        &*store,
        "Events",
        anchor,
        ReaderOptions::default(),
    );
    let reader = Arc::new(reader.unwrap());
    (all_of(&reader).unwrap(), reader)
}

/// All entries of an ntuple.
fn all_of(reader: &Arc<Reader>) -> Result<RecordBatch, RNTupleError> {
    let (schema, bindings) = ReadSchema::new(std::slice::from_ref(reader), None)?;
    let binding = bindings.into_iter().next().unwrap();
    let part = Part {
        reader: reader.clone(),
        binding,
        start: 0,
        stop: reader.n_entries(),
    };
    let arrays = read(&schema, &[part], &ReadOptions::default())?;
    Ok(arrays.to_arrow().unwrap())
}

#[test]
fn everything_is_read_as_written() {
    let whole = batch(1000);
    for compression in [505, 404, 106, 207, 0] {
        for (lengths, page_bytes, cluster_bytes, threads) in [
            (vec![1000], 1 << 20, 128 << 20, 1),
            (vec![7, 1, 100], 64, 2000, 3),
            (vec![333], 1000, 4000, 2),
        ] {
            let options = WriteOptions {
                compression,
                page_bytes,
                cluster_bytes,
                threads,
                ..WriteOptions::default()
            };
            let (found, reader) = read_back(written(&whole, &lengths, &options));
            assert_eq!(found, whole, "{compression} {lengths:?}");
            assert!(verify(&reader, 1, None).unwrap().damages.is_empty());
            let lists = reader.page_lists(0..u64::MAX).unwrap();
            let clusters: usize = lists.iter().map(|(_, list)| list.clusters().len()).sum();
            assert_eq!(
                clusters > 1,
                cluster_bytes < 1 << 20,
                "{compression} {lengths:?}"
            );
        }
    }
}

#[test]
fn an_ntuple_may_have_no_entries() {
    let empty = batch(0);
    let (found, reader) = read_back(written(&empty, &[1], &WriteOptions::default()));
    assert_eq!((found.num_rows(), reader.n_entries()), (0, 0));
    assert_eq!(found.schema(), empty.schema());
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let sink = Arc::new(MemorySink::default());
    let mut file = FileWriter::create(sink, "written.root", 0, Uuid::default()).unwrap();
    let schema = Arc::new(Schema::new(vec![Field::new(
        "when",
        DataType::Date64,
        false,
    )]));
    let error = NTupleWriter::from_arrow(&mut file, 0, "Events", &schema, WriteOptions::default())
        .unwrap_err();
    assert_eq!(error.kind(), "unwritable-field");
    assert!(error.to_string().contains("\"when\""), "{error}");

    let whole = batch(10);
    let schema = whole.schema();
    let mut writer =
        NTupleWriter::from_arrow(&mut file, 0, "Events", &schema, WriteOptions::default()).unwrap();
    let error = writer
        .extend(&mut file, &whole.project(&[1, 2, 3, 4, 5, 6]).unwrap())
        .unwrap_err();
    assert!(error.to_string().contains("\"number\""), "{error}");
    // nothing of it was taken
    writer.extend(&mut file, &whole).unwrap();
    assert_eq!(writer.finish(&mut file).unwrap(), 10);
}
