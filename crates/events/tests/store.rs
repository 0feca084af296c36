//! Guarantees for users of a store, for each embedded backend.

#![expect(clippy::unwrap_used, reason = "these are tests")]

use std::path::Path;
use std::sync::Arc;

use femtobarn_events::{
    ABSENT, BatchOptions, Container, DataStore, Descriptor, EventChunks, EventsError, ItemType,
    LoadOptions, Loader, MemoryBackend, Mode, Overwrite, Parent, ProductName, QueueMode, Wanted,
    WriteBatch, open_dir,
};

fn dir(path: &Path) -> DataStore {
    DataStore::new(open_dir(path, Mode::Append).unwrap())
}

fn over_each(test: impl Fn(DataStore)) {
    test(DataStore::new(Arc::new(MemoryBackend::new("memory:"))));
    let folder = tempfile::tempdir().unwrap();
    test(dir(folder.path()));
}

fn name(label: &str) -> ProductName {
    ProductName::new(label, "T").unwrap()
}

/// Creates a dataset with some runs, subruns and events; returns what `events` must return.
fn fill(store: &DataStore, dataset: &str, sizes: &[(u64, u64, u64)]) -> Vec<(u64, u64, u64)> {
    let dataset = store.root().create_dataset(dataset).unwrap();
    let mut batch = WriteBatch::new(store, BatchOptions::default());
    let mut all = Vec::new();
    for &(run, subrun, n) in sizes {
        let run = dataset.child(run).unwrap();
        let subrun = run.child(subrun).unwrap();
        batch.create(run.descriptor()).unwrap();
        batch.create(subrun.descriptor()).unwrap();
        for event in 0..n {
            let event = subrun.child(event * 2).unwrap().descriptor();
            batch.create(event).unwrap();
            batch.store(event, &name("x"), &event.to_bytes()).unwrap();
            all.push((event.run, event.subrun, event.event));
        }
    }
    batch.finish().unwrap();
    all.sort_unstable();
    all
}

fn numbers(chunks: EventChunks) -> Vec<(u64, u64, u64)> {
    let flat = chunks.map(Result::unwrap).flat_map(|chunk| {
        let Parent { run, subrun, .. } = chunk.parent;
        chunk
            .events
            .into_iter()
            .map(move |event| (run, subrun, event))
    });
    flat.collect()
}

#[test]
fn the_first_session_of_the_readme_works() {
    over_each(|store| {
        let dataset = store.root().create_dataset("fermilab/nova").unwrap();
        let event = dataset
            .create(43)
            .unwrap()
            .create(56)
            .unwrap()
            .create(25)
            .unwrap();
        event
            .store(&name("tracks"), b"three", Overwrite::Keep)
            .unwrap();
        let again = store.root().dataset("fermilab/nova").unwrap();
        assert_eq!(again, dataset);
        let event = again.get(43).unwrap().get(56).unwrap().get(25).unwrap();
        assert_eq!(event.load(&name("tracks")).unwrap().unwrap(), b"three");
        assert_eq!(event.names(None).unwrap(), [name("tracks")]);
        let subruns: Vec<_> = dataset
            .get(43)
            .unwrap()
            .children(..)
            .map(Result::unwrap)
            .collect();
        assert_eq!(subruns, [event.above().unwrap()]);
        assert_eq!(event.above().unwrap().above().unwrap().number(), Some(43));
        assert_eq!(event.item_type(), ItemType::Event);
        assert!(
            event.exists().unwrap() && subruns[0].exists().unwrap() && dataset.exists().unwrap()
        );
        assert!(!subruns[0].child(7).unwrap().exists().unwrap());
        // nothing is created twice
        assert_eq!(
            store.root().create_dataset("/fermilab/nova/").unwrap(),
            dataset
        );
        dataset.create(43).unwrap();
        assert_eq!(dataset.numbers(.., 9).unwrap(), [43]);
    });
}

#[test]
fn errors_say_what_there_is() {
    over_each(|store| {
        let says = |error: EventsError, what: &str| {
            let error = error.to_string();
            assert!(error.contains(what), "{error}");
        };
        let nova = store.root().create_dataset("fermilab/nova").unwrap();
        let root = store.root();
        says(
            root.dataset("fermilab/novo").unwrap_err(),
            "there is no dataset \"fermilab/novo\"; \"fermilab\" has nova",
        );
        says(root.dataset("cern").unwrap_err(), "the store has fermilab");
        says(
            nova.dataset("x/y").unwrap_err(),
            "\"fermilab/nova\" has no datasets",
        );
        says(
            nova.get(1).unwrap_err(),
            "there is no run 1; the dataset has no runs",
        );
        let run = nova.create(43).unwrap();
        nova.create(40).unwrap();
        says(
            nova.get(41).unwrap_err(),
            "the first is 40, the next after 41 is 43",
        );
        says(nova.get(44).unwrap_err(), "the first is 40");
        says(
            run.get(1).unwrap_err(),
            "there is no run 43, subrun 1; the run is empty",
        );
        let event = run.create(1).unwrap().create(2).unwrap();
        says(
            event.create(1).unwrap_err(),
            "an event cannot hold containers",
        );
        says(
            root.create(1).unwrap_err(),
            "the root of a store cannot hold containers",
        );
        says(
            root.store(&name("x"), b"", Overwrite::Replace).unwrap_err(),
            "the root of a store cannot hold products",
        );
        says(nova.create(ABSENT).unwrap_err(), "is reserved");
        says(root.create_dataset("").unwrap_err(), "it is empty");
        event.store(&name("x"), b"old", Overwrite::Keep).unwrap();
        let error = event
            .store(&name("x"), b"new", Overwrite::Keep)
            .unwrap_err();
        assert_eq!(error.kind(), "product-exists");
        says(
            error,
            "product \"x#T\" of run 43, subrun 1, event 2 already exists",
        );
        assert_eq!(event.load(&name("x")).unwrap().unwrap(), b"old");
    });
}

#[test]
fn a_product_of_an_event_is_loaded_by_its_numbers() {
    over_each(|store| {
        fill(&store, "a", &[(1, 2, 1)]);
        let dataset = store.root().dataset("a").unwrap();
        let event = dataset.get(1).unwrap().get(2).unwrap().get(0).unwrap();
        let overwrite = Overwrite::default();
        event.store(&name("own"), b"value", overwrite).unwrap();
        let load = |numbers, label| dataset.load_of_event(numbers, &name(label));
        assert_eq!(load([1, 2, 0], "own").unwrap().unwrap(), b"value");
        assert_eq!(load([1, 2, 0], "other").unwrap(), None);
        for (numbers, missing) in [
            ([7, 2, 0], "run 7; the first is 1"),
            ([1, 7, 0], "run 1, subrun 7; the first is 2"),
            ([1, 2, 7], "run 1, subrun 2, event 7; the first is 0"),
        ] {
            let error = load(numbers, "own").unwrap_err();
            assert_eq!(error.kind(), "not-in-store", "{error}");
            assert!(error.to_string().contains(missing), "{error}");
        }
    });
}

#[test]
fn all_events_come_in_their_order_from_anywhere() {
    over_each(|store| {
        let mut sizes = vec![
            (3, 1, 5),
            (3, 9, 10_000),
            (1, 2, 4096),
            (1, 3, 1),
            (2, 0, 0),
        ];
        sizes.extend((0..40).map(|n| (5 + n % 3, n, n % 4)));
        let all = fill(&store, "a", &sizes);
        fill(&store, "b", &[(1, 2, 10)]);
        let dataset = store.root().dataset("a").unwrap();
        assert_eq!(numbers(dataset.events()), all);
        let run = dataset.get(3).unwrap();
        let of_run: Vec<_> = all.iter().copied().filter(|event| event.0 == 3).collect();
        assert_eq!(numbers(run.events()), of_run);
        let event = run.get(1).unwrap().get(4).unwrap();
        assert_eq!(numbers(event.events()), [(3, 1, 4)]);
        // iteration can continue after any event
        for &(r, s, e) in all.iter().step_by(997) {
            let seen = Parent::subrun(dataset.uuid(), r, s).child(e);
            let rest =
                |item: &Container| EventChunks::after(store.clone(), item.descriptor(), seen);
            let behind: Vec<_> = all
                .iter()
                .copied()
                .filter(|event| *event > (r, s, e))
                .collect();
            assert_eq!(numbers(rest(&dataset)), behind);
            let run = dataset.get(r).unwrap();
            let of_run: Vec<_> = behind
                .iter()
                .copied()
                .filter(|event| event.0 == r)
                .collect();
            assert_eq!(numbers(rest(&run)), of_run);
        }
        let children: Vec<_> = dataset
            .children(2..=5)
            .map(|run| run.unwrap().number().unwrap())
            .collect();
        assert_eq!(children, [2, 3, 5]);
        let subrun = dataset.get(3).unwrap().get(9).unwrap();
        assert_eq!(subrun.children(..).count(), 10_000);
        assert_eq!(subrun.children(19_990..).count(), 5);
    });
}

#[test]
fn what_is_removed_takes_everything_in_it_along() {
    over_each(|store| {
        fill(&store, "a", &[(1, 1, 10), (1, 2, 10), (2, 1, 10)]);
        fill(&store, "a/b", &[(1, 1, 10)]);
        let kept = fill(&store, "ab", &[(1, 1, 10)]);
        let a = store.root().dataset("a").unwrap();
        let uuid = a.uuid();
        let subrun = a.get(1).unwrap().get(1).unwrap();
        subrun
            .store(&name("of the subrun"), b"x", Overwrite::Replace)
            .unwrap();
        subrun.get(4).unwrap().remove().unwrap();
        assert_eq!(numbers(subrun.events()).len(), 9);
        assert_eq!(subrun.child(4).unwrap().load(&name("x")).unwrap(), None);
        subrun.remove().unwrap();
        subrun.remove().unwrap();
        assert!(!subrun.exists().unwrap());
        assert!(subrun.names(None).unwrap().is_empty());
        assert_eq!(numbers(a.events()).len(), 20);
        a.get(1).unwrap().remove().unwrap();
        assert_eq!(numbers(a.events()).len(), 10);
        a.remove().unwrap();
        assert!(store.root().find_dataset("a").unwrap().is_none());
        assert!(store.root().find_dataset("a/b").unwrap().is_none());
        // a new dataset has nothing of the old one
        let a = store.root().create_dataset("a/b").unwrap();
        assert_ne!(a.uuid(), uuid);
        assert_eq!(numbers(a.events()), []);
        let ab = store.root().dataset("ab").unwrap();
        assert_eq!(numbers(ab.events()), kept);
        assert_eq!(store.root().datasets(None).count(), 2);
        assert_eq!(store.root().datasets(Some("a")).count(), 1);
    });
}

#[test]
fn whoever_deletes_and_creates_at_once_loses_nothing_that_is_new() {
    over_each(|store| {
        let root = store.root();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        if let Some(old) = root.find_dataset("a").unwrap() {
                            old.remove().unwrap();
                        }
                    }
                });
            }
            for _ in 0..400 {
                if let Err(error) = root.create_dataset("a/b/c") {
                    let was_deleted = ["dataset-deleting", "not-in-store"];
                    assert!(was_deleted.contains(&error.kind()), "{error}");
                }
            }
        });
        // existing datasets can be reached
        if root.find_dataset("a/b/c").unwrap().is_some() {
            assert!(root.find_dataset("a/b").unwrap().is_some());
            root.delete_dataset("a").unwrap();
        }
        for name in ["a", "a/b", "a/b/c"] {
            assert!(root.find_dataset(name).unwrap().is_none(), "{name}");
        }
        assert_eq!(root.datasets(None).count(), 0);
        root.create_dataset("a/b/c").unwrap();
    });
}

#[test]
fn what_is_removed_takes_the_notes_of_files_along() {
    over_each(|store| {
        fill(&store, "a", &[(1, 2, 3), (4, 5, 6)]);
        let dataset = store.root().dataset("a").unwrap();
        let run = dataset.get(1).unwrap();
        let event = run.get(2).unwrap().get(0).unwrap();
        let note = ProductName::new("ingested/a.h5/0", "std::string").unwrap();
        let removals: [&dyn Fn(); 4] = [
            &|| event.remove_products(Some(&name("x"))).unwrap(),
            &|| event.remove().unwrap(),
            &|| run.get(2).unwrap().remove().unwrap(),
            &|| run.remove().unwrap(),
        ];
        for remove in removals {
            for label in [&note, &name("kept")] {
                dataset.store(label, b"1", Overwrite::Replace).unwrap();
            }
            remove();
            assert_eq!(dataset.names(None).unwrap(), [name("kept")]);
        }
    });
}

/// A repeated stage with another cut left old products of events that did not pass any more.
#[test]
fn a_product_is_removed_of_all_events() {
    over_each(|store| {
        fill(&store, "a", &[(1, 1, 3), (1, 2, 2), (2, 1, 4)]);
        let dataset = store.root().dataset("a").unwrap();
        let inner = dataset.create_dataset("inner").unwrap();
        let inner = inner
            .create(1)
            .unwrap()
            .create(1)
            .unwrap()
            .create(1)
            .unwrap();
        let note = ProductName::new("ingested/a.h5/0", "std::string").unwrap();
        let float = ProductName::new("cut", "float").unwrap();
        let refill = || {
            dataset.store(&note, b"", Overwrite::Replace).unwrap();
            for item in [&*dataset, &dataset.get(1).unwrap(), &inner] {
                item.store(&name("cut"), b"own", Overwrite::Replace)
                    .unwrap();
            }
            for chunk in dataset.events() {
                let chunk = chunk.unwrap();
                for event in &chunk.events {
                    let event = Container::new(store.clone(), chunk.parent.member(*event));
                    event.store(&name("cut"), b"1", Overwrite::Replace).unwrap();
                    event.store(&float, b"1", Overwrite::Replace).unwrap();
                    event
                        .store(&name("other"), b"1", Overwrite::Replace)
                        .unwrap();
                }
            }
        };
        refill();
        // nothing is done if no event has it
        let none = dataset.remove_event_products("cat", None).unwrap();
        assert_eq!(none.n(), 0);
        assert!(none.others.contains(&float) && none.others.contains(&name("other")));
        assert!(dataset.load(&note).unwrap().is_some());
        let removed = dataset.remove_event_products("cut", Some("float")).unwrap();
        assert_eq!(
            removed.removed.into_iter().collect::<Vec<_>>(),
            [(float.clone(), 9)]
        );
        assert!(dataset.load(&note).unwrap().is_none());
        refill();
        let run = dataset.get(1).unwrap();
        assert_eq!(
            run.get(2)
                .unwrap()
                .remove_event_products("cut", None)
                .unwrap()
                .n(),
            4
        );
        assert_eq!(run.remove_event_products("cut", None).unwrap().n(), 6);
        assert_eq!(dataset.remove_event_products("cut", None).unwrap().n(), 8);
        for item in [&*dataset, &run, &inner] {
            assert!(item.load(&name("cut")).unwrap().is_some());
        }
        assert!(inner.remove_event_products("cut", None).is_err());
        let removed = dataset.remove_event_products("other", None).unwrap();
        assert!(removed.others.iter().all(|name| name.label() != "cut"));
        assert_eq!(removed.n(), 9);
    });
}

#[test]
fn nothing_is_written_to_or_read_of_a_dataset_that_was_deleted() {
    over_each(|store| {
        fill(&store, "a/b", &[(1, 2, 3)]);
        let dataset = store.root().dataset("a/b").unwrap();
        let event = dataset.get(1).unwrap().get(2).unwrap().get(0).unwrap();
        let mut batch = WriteBatch::new(&store, BatchOptions::default());
        store.root().dataset("a").unwrap().remove().unwrap();
        store.root().create_dataset("a/b").unwrap(); // another of the same name

        batch
            .store(event.descriptor(), &name("x"), b"late")
            .unwrap();
        let x = name("x");
        let errors = [
            event.store(&x, b"late", Overwrite::Replace).err(),
            dataset.create(7).err(),
            batch.finish().err(),
            dataset.create_dataset("c").err(),
            event.load(&x).err(),
            event.names(None).err(),
            dataset.numbers(.., 9).err(),
            dataset.children(..).next().unwrap().err(),
            dataset.events().next().unwrap().err(),
            dataset.check_there().err(),
        ];
        for error in errors {
            let error = error.unwrap();
            assert_eq!(error.kind(), "not-in-store");
            let said = error.to_string();
            assert!(said.contains("\"a/b\" any more: it was deleted"), "{said}");
        }
        fill(&store, "a/b", &[(1, 2, 3)]);
        assert!(store.root().find_dataset("a/b/c").unwrap().is_none());
    });
}

/// Two connections to the same store, like two processes: neither learns of the other's deletions.
fn over_each_twice(test: impl Fn(DataStore, DataStore)) {
    let memory = Arc::new(MemoryBackend::new("memory:"));
    test(DataStore::new(memory.clone()), DataStore::new(memory));
    let folder = tempfile::tempdir().unwrap();
    test(dir(folder.path()), dir(folder.path()));
}

#[test]
fn a_pass_over_what_others_delete_meanwhile_ends_with_an_error() {
    over_each_twice(|store, other| {
        for what in [
            "dataset",
            "run",
            "made anew",
            "a run in it",
            "a subrun in it",
        ] {
            fill(&store, what, &[(1, 1, 9000), (1, 2, 10), (2, 1, 5000)]);
            let dataset = store.root().dataset(what).unwrap();
            let pass = match what {
                "run" => dataset.get(1).unwrap(),
                _ => Container::clone(&dataset),
            };
            let subrun = dataset.get(1).unwrap().get(1).unwrap();
            let runs: Vec<_> = dataset.children(..).map(Result::unwrap).collect();
            let (mut events, mut children) = (pass.events(), subrun.children(..));
            assert_eq!(events.next().unwrap().unwrap().events.len(), 4096);
            children.next().unwrap().unwrap();
            let after = subrun.child(4095).unwrap().descriptor();
            let after = EventChunks::after(store.clone(), pass.descriptor(), after);
            let mut loaders = Vec::new();
            for (names, ahead) in [(vec![], 0), (vec![name("x")], 0), (vec![], 2)] {
                let options = LoadOptions {
                    names,
                    ahead,
                    n_events: 100,
                };
                let mut loader = Loader::start(&store, pass.events(), options);
                assert_eq!(loader.next().unwrap().unwrap().len(), 100);
                loaders.push(loader);
            }
            let theirs = other.root().dataset(what).unwrap();
            match what {
                "run" => theirs.get(1).unwrap().remove().unwrap(),
                "a run in it" => theirs.get(2).unwrap().remove().unwrap(),
                "a subrun in it" => theirs.get(1).unwrap().get(1).unwrap().remove().unwrap(),
                _ => theirs.remove().unwrap(),
            }
            if what == "made anew" {
                fill(&other, what, &[(1, 1, 9000), (1, 2, 10), (2, 1, 5000)]);
            }

            let mut errors: Vec<_> = loaders
                .into_iter()
                .map(|loader| loader.last().unwrap().unwrap_err())
                .collect();
            errors.push(events.last().unwrap().unwrap_err());
            match what {
                "a run in it" => {
                    let last = runs.last().unwrap();
                    errors.push(last.children(..).next().unwrap().unwrap_err());
                }
                _ => errors.push(children.last().unwrap().unwrap_err()),
            }
            if what != "a run in it" {
                // a run that a later pass does not find was not deleted during that pass
                errors.push(after.last().unwrap().unwrap_err());
            }
            for error in errors {
                assert_eq!(error.kind(), "not-in-store", "{error}");
                assert!(error.to_string().contains("it was deleted"), "{error}");
            }
        }
        let unwritten = store.root().create_dataset("new").unwrap();
        let unwritten = unwritten.child(3).unwrap();
        let error = unwritten.children(..).next().unwrap().unwrap_err();
        assert_eq!(error.kind(), "not-in-store");
    });
}

#[test]
fn of_a_product_that_threads_write_twice_the_later_counts() {
    over_each(|store| {
        let run = store.root().create_dataset("a").unwrap().create(1).unwrap();
        for (max_items, overwrite, expected) in [
            (1, Overwrite::Replace, 39u8),
            (7, Overwrite::Replace, 39),
            (1, Overwrite::Keep, 0),
        ] {
            let options = BatchOptions {
                max_items,
                overwrite,
                threads: 4,
                ..BatchOptions::default()
            };
            for round in 0..50 {
                let label = name(&format!("{max_items} {overwrite:?} {round}"));
                let mut batch = WriteBatch::new(&store, options);
                for n in 0..40 {
                    for subrun in 0..3 {
                        let subrun = run.child(subrun).unwrap().descriptor();
                        batch.store(subrun, &label, &[n]).unwrap();
                    }
                }
                batch.finish().unwrap();
                for subrun in 0..3 {
                    let found = run.child(subrun).unwrap().load(&label).unwrap();
                    assert_eq!(found, Some(vec![expected]), "{label:?}");
                }
            }
        }
    });
}

#[test]
fn batches_write_all_there_is_at_once_or_in_the_background() {
    over_each(|store| {
        let dataset = store.root().create_dataset("a").unwrap();
        for (run, threads) in [(1, 0), (2, 1), (3, 4)] {
            let options = BatchOptions {
                max_items: 7,
                threads,
                ..BatchOptions::default()
            };
            let mut batch = WriteBatch::new(&store, options);
            let subrun = dataset.child(run).unwrap().child(1).unwrap();
            batch.create(subrun.above().unwrap().descriptor()).unwrap();
            batch.create(subrun.descriptor()).unwrap();
            for n in 0..500 {
                let event = subrun.child(n).unwrap().descriptor();
                batch.create(event).unwrap();
                batch.store(event, &name("x"), &n.to_le_bytes()).unwrap();
            }
            batch.flush().unwrap();
            assert!(batch.is_empty());
            assert_eq!(numbers(subrun.events()).len(), 500);
            batch
                .store(subrun.descriptor(), &name("late"), b"")
                .unwrap();
            assert_eq!(batch.len(), 1);
            drop(batch);
            assert_eq!(subrun.load(&name("late")).unwrap().unwrap(), b"");
        }
        let options = BatchOptions {
            overwrite: Overwrite::Keep,
            threads: 2,
            ..BatchOptions::default()
        };
        let mut batch = WriteBatch::new(&store, options);
        assert!(batch.create(dataset.descriptor()).is_err());
        for n in 490..510 {
            let event = dataset
                .child(1)
                .unwrap()
                .child(1)
                .unwrap()
                .child(n)
                .unwrap();
            batch
                .store(event.descriptor(), &name("x"), b"other")
                .unwrap();
        }
        let written = batch.finish().unwrap();
        let mut kept: Vec<_> = written.kept.iter().map(|id| id.container.event).collect();
        kept.sort_unstable();
        assert_eq!(kept, (490..500).collect::<Vec<_>>());
    });
}

/// Values that compress well, values that do not, and short ones.
fn values_of(event: u64) -> [(ProductName, Vec<u8>); 3] {
    let mut state = event + 1;
    let noise = (0..300).map(|_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state.to_be_bytes()[0]
    });
    [
        (name("image"), vec![event.to_le_bytes()[0]; 1000]),
        (name("noise"), noise.collect()),
        (name("short"), vec![7; 100]),
    ]
}

#[test]
fn products_that_become_smaller_are_compressed_and_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let store = dir(folder.path());
    let dataset = store.root().create_dataset("x").unwrap();
    let parent = Parent::subrun(dataset.uuid(), 1, 1);
    let stored = || store.backend().stored_bytes(&parent).unwrap();
    for threads in [0, 2] {
        let options = BatchOptions {
            threads,
            max_items: 64,
            ..BatchOptions::default()
        };
        let mut batch = WriteBatch::new(&store, options);
        let run = Parent::dataset(dataset.uuid()).child(1);
        batch.create(run).unwrap();
        batch.create(parent.descriptor()).unwrap();
        for event in 0..200 {
            batch.create(parent.child(event)).unwrap();
            for (name, value) in values_of(event) {
                batch.store(parent.child(event), &name, &value).unwrap();
            }
        }
        batch.finish().unwrap();
        // 1000 of the 1400 bytes of an event compress well; its keys are added
        let bytes = stored();
        assert!((200 * 550..200 * 650).contains(&bytes), "{bytes} bytes");
    }
    let events: Vec<u64> = (0..200).collect();
    for at in 0..3 {
        let name = &values_of(0)[at].0;
        let wanted = [Wanted {
            parent,
            name,
            events: &events,
        }];
        let mut n = 0;
        let mut visit = |_, e: usize, value: Option<&[u8]>| {
            n += 1;
            assert_eq!(value.unwrap(), values_of(events[e])[at].1);
            Ok(())
        };
        store.load_many(&wanted, &mut visit).unwrap();
        assert_eq!(n, 200);
    }
    let verified = store.verify().unwrap();
    assert_eq!((verified.n_damaged, verified.n_bytes), (0, 200 * 1400));
    let before = stored();
    let event = parent.child(7);
    let (image, value) = (name("image"), vec![3; 100_000]);
    store
        .store(event, &image, &value, Overwrite::Replace)
        .unwrap();
    assert!(stored() < before + 100, "one that is stored by itself, too");
    assert_eq!(store.load(event, &image).unwrap(), Some(value));
}

#[test]
fn a_store_in_a_folder_is_there_when_it_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/er");
    let all = fill(&dir(&path), "a", &[(1, 1, 100), (2, 2, 50)]);
    let store = dir(&path);
    let dataset = store.root().dataset("a").unwrap();
    assert_eq!(numbers(dataset.events()), all);
    // if a process opens it twice, both are one store
    let other = dir(&path);
    other.root().create_dataset("b").unwrap();
    assert!(store.root().find_dataset("b").unwrap().is_some());
    let reader = DataStore::new(open_dir(&path, Mode::Read).unwrap());
    assert_eq!(reader.root().datasets(None).count(), 2);
    drop((store, other, reader, dataset));
    let reader = DataStore::new(open_dir(&path, Mode::Read).unwrap());
    let error = reader.root().create_dataset("c").unwrap_err();
    assert_eq!(error.kind(), "read-only");
    assert_eq!(
        open_dir(&path, Mode::Append).unwrap_err().kind(),
        "read-only"
    );
}

#[test]
fn folders_that_are_no_stores_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let fails = |path: &Path, mode, kind: &str| {
        let error = open_dir(path, mode).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    };
    fails(&path.join("nothing"), Mode::Read, "not-in-store");
    fails(path, Mode::Read, "not-in-store");
    std::fs::write(path.join("notes.txt"), "mine").unwrap();
    fails(path, Mode::Append, "store-layout");
    fails(path, Mode::Read, "store-layout");
    let store = path.join("store");
    fill(&dir(&store), "a", &[(1, 1, 1000)]);
    let data = std::fs::read(store.join("data.mdb")).unwrap();
    for size in [0, 100, 4096, 10_000, data.len() / 2] {
        std::fs::write(store.join("data.mdb"), &data[..size]).unwrap();
        fails(&store, Mode::Append, "store-layout");
    }
    std::fs::write(store.join("data.mdb"), vec![0x55; 100_000]).unwrap();
    fails(&store, Mode::Read, "store-layout");
    std::fs::write(store.join("data.mdb"), &data).unwrap();
    assert_eq!(dir(&store).root().datasets(None).count(), 1);
}

#[test]
fn a_product_that_is_damaged_is_an_error() {
    let store = DataStore::new(Arc::new(MemoryBackend::new("memory:")));
    fill(&store, "a", &[(1, 1, 2)]);
    let uuid = store.root().dataset("a").unwrap().uuid();
    let parent = Parent::subrun(uuid, 1, 1);
    let wanted = [Wanted {
        parent,
        name: &name("x"),
        events: &[0, 2],
    }];
    let mut n = 0;
    let visited = store.load_many(&wanted, &mut |_, e, value| {
        let event = Descriptor::from_bytes(value.unwrap()).unwrap();
        assert_eq!(event.event, [0, 2][e]);
        n += 1;
        Ok(())
    });
    visited.unwrap();
    assert_eq!(n, 2);
}

#[test]
fn events_come_with_their_products_in_pieces_of_the_size_asked_for() {
    over_each(|store| {
        let sizes: Vec<_> = (0..50).map(|n| (n / 7, n, (n * 13) % 40)).collect();
        let all = fill(&store, "a", &sizes);
        let dataset = store.root().dataset("a").unwrap();
        for (n_events, ahead) in [(1, 0), (7, 0), (64, 3), (100_000, 1)] {
            let options = LoadOptions {
                names: vec![name("x"), name("y")],
                n_events,
                ahead,
            };
            let loader = Loader::start(&store, dataset.events(), options);
            let mut seen = Vec::new();
            let pieces: Vec<_> = loader.map(Result::unwrap).collect();
            for (p, piece) in pieces.iter().enumerate() {
                assert!(piece.len() == n_events || p + 1 == pieces.len());
                assert!(piece.products[1].iter().all(|value| value.is_none()));
                let values = piece.products[0].iter();
                for (i, (event, value)) in piece.descriptors().zip(values).enumerate() {
                    assert_eq!(value.unwrap(), event.to_bytes());
                    assert_eq!(piece.products[0].get(i), value);
                    seen.push((event.run, event.subrun, event.event));
                }
            }
            assert_eq!(seen, all);
        }
        // an abandoned loader does not continue
        let mut loader = Loader::start(&store, dataset.events(), LoadOptions::default());
        loader.next();
        drop(loader);
        let targets = 0..store.backend().n_targets();
        let mut by_target: Vec<_> = targets
            .flat_map(|target| numbers(dataset.events().of_target(target)))
            .collect();
        by_target.sort_unstable();
        assert_eq!(by_target, all);
        assert_eq!(numbers(dataset.events().of_target(77)), []);
    });
}

#[test]
fn queues_bring_values_from_program_to_program() {
    over_each(|store| {
        assert!(store.open_queue("work", QueueMode::Producer).is_err());
        let error = store.open_queue("work", QueueMode::Consumer).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("there is no queue \"work\"; create it first")
        );
        assert!(store.create_queue("work").unwrap());
        let mut producer = store.open_queue("work", QueueMode::Producer).unwrap();
        let mut consumer = store.open_queue("work", QueueMode::Consumer).unwrap();
        assert!(consumer.push(b"x").is_err());
        std::thread::scope(|scope| {
            let taken = scope.spawn(|| {
                let mut taken = Vec::new();
                while let Some(value) = consumer.pop(&|| true).unwrap() {
                    taken.push(value);
                }
                taken
            });
            for n in 0..100u8 {
                producer.push(&[n]).unwrap();
            }
            producer.close().unwrap();
            assert!(producer.push(b"x").is_err());
            let expected: Vec<_> = (0..100u8).map(|n| vec![n]).collect();
            assert_eq!(taken.join().unwrap(), expected);
        });
        consumer.close().unwrap();
        assert!(consumer.is_empty().unwrap());
        let producer = store.open_queue("work", QueueMode::Producer).unwrap();
        assert_eq!(consumer.pop(&|| false).unwrap(), None);
        assert!(store.destroy_queue("work").unwrap());
        assert_eq!(producer.push(b"x").unwrap_err().kind(), "not-in-store");
        assert_eq!(consumer.pop(&|| true).unwrap_err().kind(), "not-in-store");
    });
}

#[test]
fn a_folder_that_was_removed_is_not_taken_for_the_one_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let old = dir(&path);
    let dataset = old.root().create_dataset("old").unwrap();
    assert!(old.create_queue("tasks").unwrap());
    std::fs::remove_dir_all(&path).unwrap();
    let lost = [
        old.flush().unwrap_err(),
        old.root().create_dataset("more").unwrap_err(),
        old.root().dataset("old").unwrap_err(),
        dataset.create(1).unwrap_err(),
        old.create_queue("more").unwrap_err(),
    ];
    for error in lost {
        assert_eq!(error.kind(), "store-engine");
        let shown = format!("{error:?}");
        assert!(shown.contains("was removed"), "{shown}");
    }
    // a new store while the old one is open, twice
    for label in ["b", "c"] {
        let new = dir(&path);
        assert!(new.root().datasets(None).next().is_none());
        let made = new.root().create_dataset(label).unwrap();
        fill(&new, label, &[(1, 2, 3)]);
        new.flush().unwrap();
        assert_eq!(dir(&path), new);
        assert_ne!(old, new);
        assert_eq!(numbers(made.events()).len(), 3);
        new.close();
        let again = dir(&path);
        assert_eq!(again.root().datasets(None).count(), 1);
        std::fs::remove_dir_all(&path).unwrap();
    }
}

#[test]
fn a_folder_that_was_moved_is_the_same_store_under_its_new_name() {
    let folder = tempfile::tempdir().unwrap();
    let [here, there] = ["here", "there"].map(|name| folder.path().join(name));
    let old = dir(&here);
    fill(&old, "old", &[(1, 2, 3)]);
    std::fs::rename(&here, &there).unwrap();
    // data written to the old store are lost with it, even from other connections
    fill(&old, "more", &[(1, 2, 3)]);
    let moved = dir(&there);
    assert_eq!(moved, old);
    assert_eq!(moved.root().datasets(None).count(), 2);
    let new = dir(&here);
    assert_ne!(new, old);
    fill(&new, "new", &[(1, 2, 5)]);
    assert_eq!(new.root().datasets(None).count(), 1);
    assert_eq!(dir(&here), new);
    let read = DataStore::new(open_dir(&here, Mode::Read).unwrap());
    assert_eq!(
        numbers(read.root().dataset("new").unwrap().events()).len(),
        5
    );
    old.close();
    moved.close();
    assert_eq!(dir(&there).root().datasets(None).count(), 2);
}

#[test]
fn a_batch_loses_only_what_belongs_to_deleted_datasets() {
    for threads in [0, 1] {
        over_each(|store| {
            fill(&store, "a", &[(1, 2, 100), (2, 2, 1)]);
            fill(&store, "b", &[(1, 2, 1)]);
            let [a, b] = ["a", "b"].map(|name| store.root().dataset(name).unwrap());
            let subrun = a.get(1).unwrap().get(2).unwrap();
            let event = |n: u64| subrun.child(2 * n).unwrap();
            let options = BatchOptions {
                threads,
                ..BatchOptions::default()
            };
            let mut batch = WriteBatch::new(&store, options);
            for n in 0..100 {
                batch
                    .store(event(n).descriptor(), &name("late"), b"x")
                    .unwrap();
            }
            let in_b = b.child(1).unwrap().child(2).unwrap().descriptor();
            batch.store(in_b, &name("late"), b"x").unwrap();
            store.root().delete_dataset("b").unwrap();

            assert_eq!(batch.flush().unwrap_err().kind(), "not-in-store");
            assert_eq!(batch.finish().unwrap().kept, []);
            let there = |n: u64| event(n).load(&name("late")).unwrap().is_some();
            assert_eq!((0..100).filter(|n| there(*n)).count(), 100);
        });
    }
}
