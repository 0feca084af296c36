use std::sync::{Arc, Mutex};

use super::*;
use crate::conformance;

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

/// Leaves were cut in halves: an event with a product of 100 bytes took 272 bytes, as the keys of a second dataset came in
/// front of those of the first in every second case, and those of a second product between those of the first.
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
    let (events, _) = backend.children(&Parent::subrun(Uuid::NIL, 1, 1));
    // A node has a header of 8 bytes and a pointer of 2, and begins at an even place; a page has a header of 16.
    for (table, n, node) in [
        (events, 2 * EVENTS, 40 + 10),
        (backend.tables.products, 4 * EVENTS, 43 + 105 + 10),
    ] {
        let found = table.stat(&txn).unwrap();
        let page = found.page_size as u64 - 16;
        assert_eq!(found.entries as u64, n);
        assert_eq!(found.leaf_pages as u64, n.div_ceil(page / node));
    }
}
