//! Several threads that fill one ntuple.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use femtobarn_io::MemorySink;
use femtobarn_rootfile::{FileWriter, Uuid};

use super::open;
use crate::read::verify;
use crate::schema::DType;
use crate::write::{FieldModel, ParallelWriter, WriteOptions};

fn numbers(range: std::ops::Range<i64>) -> RecordBatch {
    let array: ArrayRef = Arc::new(Int64Array::from_iter_values(range));
    RecordBatch::try_from_iter([("n", array)]).unwrap()
}

fn file() -> (Arc<MemorySink>, FileWriter) {
    let sink = Arc::new(MemorySink::default());
    let file = FileWriter::create(sink.clone(), "parallel.root", 505, Uuid::default());
    (sink, file.unwrap())
}

fn fields() -> [FieldModel; 1] {
    [FieldModel::number("n", DType::Int64)]
}

#[test]
fn threads_fill_one_ntuple_and_each_keeps_its_order() {
    const N: i64 = 20_000;
    let (sink, mut file) = file();
    let options = WriteOptions {
        compression: 0,
        page_bytes: 4000,
        cluster_bytes: 8000,
        ..WriteOptions::default()
    };
    let writer = ParallelWriter::new(&mut file, 0, "Events", &fields(), options).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let mut context = writer.context();
            scope.spawn(move || {
                for start in (0..N).step_by(100) {
                    let first = thread * N + start;
                    context.extend(&numbers(first..first + 100)).unwrap();
                }
                context.flush().unwrap();
            });
        }
    });
    assert_eq!(writer.finish().unwrap(), 4 * N.unsigned_abs());
    file.finish().unwrap();
    let (found, reader) = open(sink.to_vec(), "Events");
    assert!(verify(&reader, 1, None).unwrap().damages.is_empty());
    let found: Vec<i64> = found
        .column(0)
        .as_primitive::<Int64Type>()
        .values()
        .to_vec();
    for thread in 0..4 {
        let own = found.iter().filter(|&&n| n / N == thread).copied();
        assert!(own.eq(thread * N..(thread + 1) * N));
    }
    let lists = reader.page_lists(0..u64::MAX).unwrap();
    let clusters: usize = lists.iter().map(|(_, list)| list.clusters().len()).sum();
    assert!(clusters > 4);
}

#[test]
fn entries_that_were_never_flushed_are_an_error() {
    let (_, mut file) = file();
    let writer =
        ParallelWriter::new(&mut file, 0, "Events", &fields(), WriteOptions::default()).unwrap();
    let mut context = writer.context();
    context.extend(&numbers(0..7)).unwrap();
    drop(context);
    let error = writer.finish().unwrap_err();
    assert!(error.to_string().contains("7 entries"), "{error}");
}

#[test]
fn a_context_refuses_what_does_not_fit_and_goes_on() {
    let (sink, mut file) = file();
    let writer =
        ParallelWriter::new(&mut file, 0, "Events", &fields(), WriteOptions::default()).unwrap();
    let mut context = writer.context();
    let other: ArrayRef = Arc::new(Int64Array::from_iter_values([1]));
    let other = RecordBatch::try_from_iter([("m", other)]).unwrap();
    assert_eq!(
        context.extend(&other).unwrap_err().kind(),
        "unwritable-field"
    );
    context.extend(&numbers(0..3)).unwrap();
    context.flush().unwrap();
    context.flush().unwrap();
    drop(context);
    assert_eq!(writer.finish().unwrap(), 3);
    file.finish().unwrap();
    assert_eq!(open(sink.to_vec(), "Events").0, {
        let read = numbers(0..3);
        let field = read.schema().field(0).clone().with_nullable(false);
        RecordBatch::try_new(
            Arc::new(arrow_schema::Schema::new(vec![field])),
            read.columns().to_vec(),
        )
        .unwrap()
    });
}
