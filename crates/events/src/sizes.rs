//! Sizes of datasets.

use crate::{Container, DataSet, EventsError, ItemType};

impl DataSet {
    /// Size of a dataset in the store, without nested datasets and without objects of large products. For Redis, the
    /// memory of its keys, as estimated by the server; for other stores, the keys and stored values of the products.
    ///
    /// # Errors
    ///
    /// Errors of reading.
    pub fn stored_bytes(&self) -> Result<u64, EventsError> {
        bytes_of(self)
    }
}

fn bytes_of(item: &Container) -> Result<u64, EventsError> {
    let backend = item.datastore().backend();
    let mut n_bytes = backend.stored_bytes(&item.descriptor().placed_by())?;
    // The products of events are placed by their subrun.
    if item.item_type() != ItemType::SubRun {
        for child in item.children(..) {
            n_bytes += bytes_of(&child?)?;
        }
    }
    Ok(n_bytes)
}

#[cfg(test)]
mod tests {
    use crate::{Batch, DataStore, ObjectOptions, Parent, ProductName};

    #[test]
    fn a_dataset_is_as_large_as_its_products_and_not_those_in_it() {
        let folder = tempfile::tempdir().unwrap();
        for url in [
            "memory:".to_owned(),
            format!("dir:{}", folder.path().join("store").display()),
        ] {
            let store = DataStore::connect(&url, ObjectOptions::default()).unwrap();
            let dataset = store.root().create_dataset("a").unwrap();
            let inner = dataset.create_dataset("b").unwrap();
            let name = ProductName::new("x", "T").unwrap();
            let fill = |uuid, n_events| {
                let mut batch = Batch::default();
                let (all, run) = (Parent::dataset(uuid), Parent::run(uuid, 1));
                let subrun = Parent::subrun(uuid, 1, 2);
                batch.create(all, 1);
                batch.create(run, 2);
                batch.store(run, crate::ABSENT, &name, &[1; 500]);
                for event in 0..n_events {
                    batch.create(subrun, event);
                    batch.store(subrun, event, &name, &[1; 100]);
                }
                store.write(&batch).unwrap();
            };
            fill(dataset.uuid(), 2000);
            fill(inner.uuid(), 10);
            // each has its key and a checksum
            let n = dataset.stored_bytes().unwrap();
            assert!((200_500..200_500 + 2001 * 64).contains(&n), "{url} {n}");
            let n = inner.stored_bytes().unwrap();
            assert!((1500..1500 + 11 * 64).contains(&n), "{url} {n}");
        }
    }
}
