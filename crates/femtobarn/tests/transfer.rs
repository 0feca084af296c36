//! Ingesting and exporting: what goes into a store comes out of it, whatever happens meanwhile.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use femtobarn::create_file;
use femtobarn::events::{DataSet, DataStore, Descriptor, ObjectOptions, Overwrite, ProductName};
use femtobarn::export::{ExportOptions, ExportReport, Exported, export};
use femtobarn::ingest::{Ingest, IngestOptions, IngestReport, OnConflict};
use femtobarn::products::Types;
use femtobarn::transfer::TransferError;
use femtobarn::write::{NTupleWriter, WriteOptions};
use tempfile::TempDir;

fn dataset() -> DataSet {
    let store = DataStore::connect("memory:", ObjectOptions::default()).unwrap();
    store.root().create_dataset("a").unwrap()
}

/// Writes columns of integers as an ntuple.
fn written(folder: &TempDir, name: &str, columns: &[(&str, Vec<i64>)]) -> PathBuf {
    let path = folder.path().join(name);
    let column = |values: &[i64]| Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
    let batch = columns.iter().map(|(name, values)| (*name, column(values)));
    let batch = RecordBatch::try_from_iter(batch).unwrap();
    let mut file = create_file(path.to_str().unwrap(), 505).unwrap();
    let options = WriteOptions::default();
    let mut writer =
        NTupleWriter::from_arrow(&mut file, 0, "Events", &batch.schema(), options).unwrap();
    writer.extend(&mut file, &batch).unwrap();
    writer.finish(&mut file).unwrap();
    file.finish().unwrap();
    path
}

/// Events of one subrun, with a product `x`.
fn events(folder: &TempDir, name: &str, run: i64, x: impl Iterator<Item = i64>) -> PathBuf {
    let x: Vec<i64> = x.collect();
    let n = i64::try_from(x.len()).unwrap();
    let numbers = [
        ("run", vec![run; x.len()]),
        ("luminosityBlock", vec![1; x.len()]),
    ];
    let mut columns = numbers.to_vec();
    columns.extend([
        ("event", (0..n).rev().collect()),
        ("x", x.clone()),
        ("y", x),
    ]);
    written(folder, name, &columns)
}

fn ingest(
    dataset: &DataSet,
    paths: &[&Path],
    options: IngestOptions,
) -> Result<IngestReport, TransferError> {
    let files = paths
        .iter()
        .map(|path| (path.to_str().unwrap().to_owned(), None));
    let files: Vec<_> = files.collect();
    let types = Arc::new(Types::new(dataset.datastore()));
    let mut own = Ingest::new(dataset, &types, &files, options)?;
    let todo = own.files().1.to_vec();
    own.read(&todo, &|_, _| true)?;
    Ok(own.finish())
}

fn exported(
    dataset: &DataSet,
    path: &Path,
    options: &ExportOptions,
    meanwhile: &dyn Fn(),
) -> Result<ExportReport, TransferError> {
    let types = Types::new(dataset.datastore());
    let changed = Cell::new(false);
    let tick = |_, _| {
        if !changed.replace(true) {
            meanwhile();
        }
        true
    };
    export(
        Exported::DataSet(dataset),
        &types,
        path.to_str().unwrap(),
        options,
        &tick,
    )
}

/// The names and values of products.
type Stored = Vec<(String, Vec<u8>)>;

/// All events with their products.
fn everything(dataset: &DataSet) -> Vec<(Descriptor, Stored)> {
    let mut found = Vec::new();
    for run in dataset.children(..) {
        for subrun in run.unwrap().children(..) {
            for event in subrun.unwrap().children(..) {
                let event = event.unwrap();
                let names = event.names(None).unwrap();
                let products = names.iter().map(|name| {
                    let value = event.load(name).unwrap().unwrap();
                    (name.to_string(), value)
                });
                let mut products: Vec<_> = products.collect();
                products.sort();
                found.push((
                    Descriptor {
                        dataset: femtobarn::events::Uuid::NIL,
                        ..event.descriptor()
                    },
                    products,
                ));
            }
        }
    }
    found
}

#[test]
fn small_steps_and_batches_give_the_same_as_large_ones() {
    let folder = TempDir::new().unwrap();
    let path = events(&folder, "a.root", 1, 0..3000);
    let (whole, pieces) = (dataset(), dataset());
    ingest(&whole, &[&path], IngestOptions::default()).unwrap();
    let small = IngestOptions {
        step_bytes: 4000,
        batch_items: 50,
        ..IngestOptions::default()
    };
    let report = ingest(&pieces, &[&path], small.clone()).unwrap();
    assert_eq!(
        (report.events, report.products, report.kept),
        (3000, 6000, 0)
    );
    assert_eq!(everything(&pieces), everything(&whole));
    let again = IngestOptions {
        again: true,
        ..small
    };
    let report = ingest(&pieces, &[&path], again).unwrap();
    assert_eq!(
        (report.events, report.products, report.kept),
        (3000, 0, 6000)
    );
}

#[test]
fn entries_without_numbers_are_counted_over_all_steps() {
    let folder = TempDir::new().unwrap();
    let path = written(&folder, "a.root", &[("x", (0..2000).collect())]);
    let options = IngestOptions {
        numbers: ["1", "2", "10"].map(|number| Some(number.to_owned())),
        step_bytes: 3000,
        ..IngestOptions::default()
    };
    let found = dataset();
    ingest(&found, &[&path], options).unwrap();
    let all = everything(&found);
    assert_eq!(all.len(), 2000);
    for (n, (event, products)) in (0i64..).zip(all) {
        assert_eq!(
            (event.run, event.subrun, event.event),
            (1, 2, 10 + n as u64)
        );
        assert_eq!(
            products,
            [("x#std::int64_t".to_owned(), n.to_le_bytes().to_vec())]
        );
    }
}

#[test]
fn several_readers_give_the_same_in_the_order_of_the_files() {
    let folder = TempDir::new().unwrap();
    let paths: Vec<PathBuf> = (0..5)
        .map(|n| {
            events(
                &folder,
                &format!("{n}.root"),
                1,
                (0..500).map(move |x| x + n),
            )
        })
        .collect();
    let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    let with = |workers: usize, on_conflict: OnConflict| IngestOptions {
        workers: Some(workers),
        on_conflict,
        step_bytes: 2000,
        ..IngestOptions::default()
    };
    for on_conflict in [OnConflict::Keep, OnConflict::Replace] {
        let (one, three) = (dataset(), dataset());
        let first = ingest(&one, &paths, with(1, on_conflict)).unwrap();
        let second = ingest(&three, &paths, with(3, on_conflict)).unwrap();
        assert_eq!(first.conflicts, 4000);
        assert_eq!(
            (first.products, first.conflicts),
            (second.products, second.conflicts)
        );
        assert_eq!(everything(&one), everything(&three));
    }
    let error = ingest(&dataset(), &paths, with(3, OnConflict::Raise)).unwrap_err();
    assert_eq!((error.kind(), error.class()), ("conflict", "ExistsError"));
    assert!(
        error
            .to_string()
            .contains("1.root: run 1, subrun 1, event "),
        "{error}"
    );
}

#[test]
fn an_error_of_one_reader_ends_all() {
    let folder = TempDir::new().unwrap();
    let good = events(&folder, "a.root", 1, 0..100);
    let bad = folder.path().join("b.root");
    std::fs::write(
        &bad,
        [b"root".as_slice(), &[0, 0, 0, 1, 0, 0, 0, 100], &[0; 500]].concat(),
    )
    .unwrap();
    let after = events(&folder, "c.root", 2, 0..100);
    let found = dataset();
    let options = IngestOptions {
        workers: Some(3),
        ..IngestOptions::default()
    };
    let error = ingest(&found, &[&good, &bad, &after], options).unwrap_err();
    assert!(error.to_string().contains("b.root"), "{error}");
    let again = ingest(&found, &[&good, &after], IngestOptions::default()).unwrap();
    assert_eq!((again.skipped, again.files, again.events), (1, 1, 100));
}

#[test]
fn an_interrupted_ingest_goes_on() {
    let folder = TempDir::new().unwrap();
    let paths = [
        events(&folder, "a.root", 1, 0..100),
        events(&folder, "b.root", 2, 0..100),
    ];
    let files: Vec<_> = paths
        .iter()
        .map(|path| (path.to_str().unwrap().to_owned(), None))
        .collect();
    let found = dataset();
    let types = Arc::new(Types::new(found.datastore()));
    let mut own = Ingest::new(&found, &types, &files, IngestOptions::default()).unwrap();
    let first = std::fs::metadata(&paths[0]).unwrap().len();
    let error = own.read(&[0, 1], &|done, _| done <= first).unwrap_err();
    assert_eq!(error.kind(), "interrupted");
    assert!(
        own.state()
            .starts_with("1 of 2 files is completely in dataset 'a', at least 200 events"),
        "{}",
        own.state()
    );
    let report = ingest(&found, &[&paths[0], &paths[1]], IngestOptions::default()).unwrap();
    assert_eq!((report.skipped, report.files), (1, 1));
    assert_eq!(everything(&found).len(), 200);
}

#[test]
fn memory_follows_the_size_of_products() {
    let found = dataset();
    let name = ProductName::new("x", "bytes").unwrap();
    let subrun = found.create(1).unwrap().create(1).unwrap();
    for n in 0..1500u64 {
        // small, large and small again
        let size = if (500..700).contains(&n) { 20_000 } else { 0 };
        let event = subrun.create(n).unwrap();
        event
            .store(&name, &vec![1; size], Overwrite::Replace)
            .unwrap();
    }
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.root");
    let options = ExportOptions {
        batch_bytes: 100_000,
        ..ExportOptions::default()
    };
    let types = Types::new(found.datastore());
    let done = std::cell::RefCell::new(vec![0]);
    let tick = |n, _| {
        done.borrow_mut().push(n);
        true
    };
    export(
        Exported::DataSet(&found),
        &types,
        path.to_str().unwrap(),
        &options,
        &tick,
    )
    .unwrap();
    let steps: Vec<u64> = done
        .borrow()
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .collect();
    assert_eq!(steps.iter().sum::<u64>(), 1500);
    assert!(
        steps.iter().any(|n| *n > 200) && steps.iter().any(|n| *n <= 10),
        "{steps:?}"
    );
    let copy = dataset();
    ingest(&copy, &[&path], IngestOptions::default()).unwrap();
    assert_eq!(everything(&copy), everything(&found));
}

#[test]
fn changes_during_an_export_are_an_error_and_no_file_appears() {
    let double = |label: &str| ProductName::new(label, "double").unwrap();
    type Change<'a> = &'a dyn Fn(&DataSet);
    let subrun = |dataset: &DataSet| dataset.get(1).unwrap().get(1).unwrap();
    let store = |dataset: &DataSet, label: &str| {
        let event = subrun(dataset).get(3).unwrap();
        event
            .store(&double(label), &[0; 8], Overwrite::Replace)
            .unwrap();
    };
    let changes: [(Change<'_>, &str); 6] = [
        (
            &|dataset| drop(subrun(dataset).create(1000).unwrap()),
            "had 200 events when its products were counted, but 201 when",
        ),
        (
            &|dataset| store(dataset, "late"),
            "had 0 products 'late' of type double of events when the export began, but 1 when",
        ),
        (
            &|dataset| store(dataset, "sometimes"),
            "had 1 products 'sometimes' of type double of events when the export began, but 2 when",
        ),
        (
            &|dataset| {
                let run = dataset.get(1).unwrap();
                run.store(&double("late"), &[0; 8], Overwrite::Replace)
                    .unwrap();
            },
            "had 0 products 'late' of type double of runs when the export began, but 1 when",
        ),
        (
            &|dataset| {
                let stored = dataset.store(&double("late"), &[0; 8], Overwrite::Replace);
                stored.unwrap();
            },
            "had 0 products 'late' of type double of the dataset when",
        ),
        (
            &|dataset| drop(dataset.get(1).unwrap().create(2).unwrap()),
            "had 0 subruns without events or products when the export began, but 1 when",
        ),
    ];
    for (change, words) in changes {
        let found = dataset();
        let subrun = found.create(1).unwrap().create(1).unwrap();
        for n in 0..200 {
            let event = subrun.create(n).unwrap();
            event
                .store(&double("x"), &[0; 8], Overwrite::Replace)
                .unwrap();
            if n == 0 {
                event
                    .store(&double("sometimes"), &[0; 8], Overwrite::Replace)
                    .unwrap();
            }
        }
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("a.root");
        let error =
            exported(&found, &path, &ExportOptions::default(), &|| change(&found)).unwrap_err();
        assert_eq!(error.kind(), "changed");
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }
}

#[test]
fn an_interrupted_export_leaves_nothing() {
    let found = dataset();
    found
        .create(1)
        .unwrap()
        .create(1)
        .unwrap()
        .create(1)
        .unwrap();
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.root");
    let types = Types::new(found.datastore());
    let options = ExportOptions::default();
    let error = export(
        Exported::DataSet(&found),
        &types,
        path.to_str().unwrap(),
        &options,
        &|_, _| false,
    );
    assert_eq!(error.unwrap_err().kind(), "interrupted");
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}
