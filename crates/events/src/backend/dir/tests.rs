use std::sync::{Arc, Mutex};

use super::*;
use crate::tests::conformance;

#[test]
fn it_does_what_backends_promise() {
    let folders = Mutex::new(Vec::new());
    conformance::all(&|| {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path(), Mode::Append).unwrap();
        folders.lock().unwrap().push(folder);
        store as Arc<dyn Backend>
    });
}

/// LMDB split leaves in the middle: an event with a product of 100 bytes took 272 bytes. The keys of a second dataset
/// preceded those of the first in every second case, and the keys of a second product were between those of the first.
#[test]
fn leaves_are_full_when_events_come_in_their_order() {
    const EVENTS: u64 = 2000;
    let folder = tempfile::tempdir().unwrap();
    let backend = open(folder.path(), Mode::Append).unwrap();
    let store = crate::DataStore::new(backend.clone());
    let names = ["b", "a"].map(|label| ProductName::new(label, "T").unwrap());
    for dataset in ["x", "y"] {
        let dataset = store.root().create_dataset(dataset).unwrap();
        let parent = Parent::subrun(dataset.uuid(), 1, 1);
        let mut batch = Batch::default();
        for event in 0..EVENTS {
            batch.create(parent, event);
            for name in &names {
                batch.store(parent, event, name, &[7; 100]);
            }
            if batch.len() > 1000 {
                store.write(&batch).unwrap();
                batch.clear();
            }
        }
        store.write(&batch).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(2)); // so that the next has a later UUID
    }
    let txn = backend.env.read_txn().unwrap();
    let tables = backend.tables.unwrap();
    // a node has a header of 8 bytes and a pointer of 2, and begins at an even position; a page has a header of 16 bytes
    for (table, n, node) in [
        (Name::Events, 2 * EVENTS, 40 + 10),
        (Name::Products, 4 * EVENTS, 43 + 105 + 10),
    ] {
        let found = tables.of(table).stat(&txn).unwrap();
        let page = found.page_size as u64 - 16;
        assert_eq!(found.entries as u64, n);
        assert_eq!(found.leaf_pages as u64, n.div_ceil(page / node));
    }
}

/// The content of a store: containers and products by key.
type Content = std::collections::BTreeMap<String, Vec<u8>>;

fn content(store: &crate::DataStore) -> Result<Content, EventsError> {
    let mut found = Content::new();
    for dataset in store.root().datasets(None) {
        let dataset = dataset?;
        found.insert(
            format!("{:?} {}", dataset.path(), dataset.uuid()),
            Vec::new(),
        );
        below_of(&dataset, &mut found)?;
    }
    Ok(found)
}

fn below_of(item: &crate::Container, found: &mut Content) -> Result<(), EventsError> {
    for name in item.names(None)? {
        let value = item.load(&name)?.unwrap_or_default();
        found.insert(format!("{:?} {name}", item.descriptor()), value);
    }
    for child in item.children(..) {
        let child = child?;
        found.insert(format!("{:?}", child.descriptor()), Vec::new());
        below_of(&child, found)?;
    }
    Ok(())
}

/// Writes a store of 900 events, with large values, an overwritten value, and free pages.
fn small_store(folder: &std::path::Path) {
    let store = crate::DataStore::new(open(folder, Mode::Append).unwrap());
    let names = ["a", "b"].map(|label| ProductName::new(label, "T").unwrap());
    let dataset = store.root().create_dataset("x").unwrap();
    for run in 0..3u64 {
        let parent = Parent::subrun(dataset.uuid(), run, 1);
        let mut batch = Batch::default();
        batch.create(Parent::dataset(dataset.uuid()), run);
        batch.create(Parent::run(dataset.uuid(), run), 1);
        for event in 0..300 {
            batch.create(parent, event);
            batch.store(parent, event, &names[0], &event.to_be_bytes());
            if event % 100 == 0 {
                batch.store(parent, event, &names[1], &[7; 9000]);
            }
        }
        store.write(&batch).unwrap();
        store.write(&batch).unwrap();
    }
    let removed = dataset.create(9).unwrap().create(1).unwrap();
    removed
        .store(&names[0], &[7; 20_000], crate::Overwrite::Replace)
        .unwrap();
    removed.remove().unwrap();
    store.flush().unwrap();
}

/// Regression: of 250 stores with one changed byte, reading 38 ended the process with a signal, and one lost 207 of 900
/// events without an error, even in `verify`.
#[test]
fn a_changed_byte_is_told_and_ends_no_process() {
    let folder = tempfile::tempdir().unwrap();
    small_store(folder.path());
    let whole = std::fs::read(folder.path().join("data.mdb")).unwrap();
    let read = |bytes: &[u8]| {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("data.mdb"), bytes).unwrap();
        let store = crate::DataStore::new(open(folder.path(), Mode::Read)?);
        let found = content(&store);
        let verified = store.verify()?;
        Ok::<_, EventsError>((found?, verified))
    };
    let (expected, verified) = read(&whole).unwrap();
    assert_eq!(expected.len(), 1 + 3 + 3 + 900 + 909 + 1);
    assert_eq!(
        (verified.n_damaged, verified.n_products),
        (0, 909),
        "{verified:?}"
    );
    let (mut n_told, mut n_harmless, mut n) = (0, 0, 0);
    let mut tell = |at: usize, change: u8| {
        let mut bytes = whole.clone();
        bytes[at] ^= change;
        n += 1;
        match read(&bytes) {
            Ok((found, verified)) if verified.n_damaged == 0 => {
                assert_eq!(found, expected, "byte {at} of page {}", at / 4096);
                n_harmless += 1;
            }
            _ => n_told += 1,
        }
    };
    // of each page, bytes of its header and some others
    for page in 0..whole.len() / 4096 {
        for n in 0..4 {
            let of_header = [0, 1, 7, 10, 11, 12, 13, 14, 15, 16, 17, 18];
            tell(4096 * page + of_header[(page * 4 + n) % 12], 1);
            let at = (page * 4 + n) * 2_654_435_761 % 4096;
            tell(4096 * page + at, 1 << ((page + n) % 8));
        }
    }
    assert!(
        n >= 250 && n_told > n / 3,
        "{n_told} of {n} told, {n_harmless} harmless"
    );
}

/// A store of the first layout is read, and written in that layout.
#[test]
fn a_store_without_counts_is_read_and_written() {
    let folder = tempfile::tempdir().unwrap();
    small_store(folder.path());
    {
        let backend = open(folder.path(), Mode::Append).unwrap();
        let notes = backend.tables.unwrap().of(Name::Notes);
        let mut txn = backend.env.write_txn().unwrap();
        notes.put(&mut txn, b"femtobarn event store", b"1").unwrap();
        assert!(notes.delete(&mut txn, writing::COUNTS).unwrap());
        txn.commit().unwrap();
    }
    let store = crate::DataStore::new(open(folder.path(), Mode::Append).unwrap());
    let run = store.root().dataset("x").unwrap().create(17).unwrap();
    let name = ProductName::new("a", "T").unwrap();
    run.store(&name, b"new", crate::Overwrite::Replace).unwrap();
    assert_eq!(run.load(&name).unwrap().as_deref(), Some(&b"new"[..]));
    // that version of femtobarn does not support compression
    let plain = ProductName::new("plain", "T").unwrap();
    run.store(&plain, &[7; 9000], crate::Overwrite::Replace)
        .unwrap();
    let bytes = store.backend().stored_bytes(&run.descriptor().placed_by());
    assert!(bytes.unwrap() > 9000);
    assert_eq!(content(&store).unwrap().len(), 1 + 3 + 3 + 900 + 909 + 4);
    let verified = store.verify().unwrap();
    assert_eq!((verified.n_damaged, verified.n_products), (0, 911));
}

/// Products of the dataset and of runs have higher keys than products of events. A single one left all pages with later
/// products of events half empty.
#[test]
fn products_of_events_fill_their_pages_before_those_of_what_they_are_in() {
    let n_pages = |with_own: bool| {
        let folder = tempfile::tempdir().unwrap();
        let backend = open(folder.path(), Mode::Append).unwrap();
        let store = crate::DataStore::new(backend.clone());
        let name = ProductName::new("x", "T").unwrap();
        let dataset = store.root().create_dataset("x").unwrap();
        let mut batch = crate::WriteBatch::new(
            &store,
            crate::BatchOptions {
                max_items: 500,
                ..crate::BatchOptions::default()
            },
        );
        for run in 0..4u64 {
            let run = dataset.child(run).unwrap().descriptor();
            batch.create(run).unwrap();
            if with_own {
                for own in [dataset.descriptor(), run] {
                    batch.store(own, &name, &run.run.to_be_bytes()).unwrap();
                }
            }
            let parent = Parent::subrun(dataset.uuid(), run.run, 1);
            batch.create(parent.descriptor()).unwrap();
            for event in 0..2000 {
                batch.create(parent.child(event)).unwrap();
                batch.store(parent.child(event), &name, &[7; 50]).unwrap();
            }
        }
        batch.finish().unwrap();
        let own = dataset.load(&name).unwrap();
        assert_eq!(own, with_own.then(|| 3u64.to_be_bytes().to_vec()));
        let verified = store.verify().unwrap();
        let n = if with_own { 8005 } else { 8000 };
        assert_eq!((verified.n_damaged, verified.n_products), (0, n));
        let products = backend.tables.unwrap().of(Name::Products);
        let txn = backend.env.read_txn().unwrap();
        products.stat(&txn).unwrap().leaf_pages
    };
    let (without, with) = (n_pages(false), n_pages(true));
    assert!(
        with <= without + without / 50,
        "{with} pages, and {without}"
    );
}
