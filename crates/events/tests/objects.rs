//! Large products as objects beside a store, for each backend, in a directory and in a bucket.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "these are tests"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use femtobarn_events::{
    ABSENT, Backend, Batch, BatchOptions, Container, DataSetEntry, DataSetPath, DataStore,
    EventsError, LoadOptions, Loader, MemoryBackend, Mode, NameCount, ObjectOptions, Overwrite,
    Parent, ProductId, ProductName, Queues, Scan, Uuid, Visit, Wanted, WriteBatch, Written,
    connect, objects_moved, open_dir,
};
use femtobarn_testkit::{Servers, can_start_redis, can_store, content};

const OVER: u64 = 1000;

fn name(label: &str) -> ProductName {
    ProductName::new(label, "bytes").unwrap()
}

fn options(base: &str) -> ObjectOptions {
    ObjectOptions {
        base: Some(base.to_owned()),
        over: Some(OVER),
        settings: BTreeMap::new(),
    }
}

const MARKER: &str = "femtobarn-store.json";

/// The objects in a directory, sorted.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            // the marker names the owner of the directory
            false if path.ends_with(MARKER) => {}
            false => found.push(path),
        }
    }
    found.sort_unstable();
    found
}

/// The location of a store's objects.
fn own(store: &DataStore, base: &Path) -> PathBuf {
    let id = store.backend().noted("id").unwrap().unwrap();
    match store.backend().is_kept() {
        true => base.into(),
        false => base.join(format!("memory-{}", String::from_utf8(id).unwrap())),
    }
}

/// Receives a new store with its objects in a directory, and a function that connects to it again without naming the
/// directory.
type Test = fn(&DataStore, &Path, &dyn Fn() -> DataStore);

const TESTS: [(&str, Test); 8] = [
    ("round trip", large_products_come_back_from_whoever_connects),
    ("batches", batches_and_loaders_have_large_products),
    ("overwriting", what_is_written_over_is_deleted),
    ("keeping", what_is_kept_leaves_nothing),
    ("removing", what_is_removed_leaves_nothing),
    ("damage", damaged_and_missing_objects_are_errors),
    ("sweeping", orphans_are_swept_and_nothing_else),
    ("moving", objects_that_were_moved_are_found),
];

/// A new store, and a function that opens it again.
type Made = (Arc<dyn Backend>, Box<dyn Fn() -> Arc<dyn Backend>>);

fn all(make: &dyn Fn() -> Made) {
    for (what, test) in TESTS {
        let place = tempfile::tempdir().unwrap();
        let base = place.path().join("objects");
        let (backend, again) = make();
        eprintln!("objects of {}: {what}", backend.url());
        let store = DataStore::with_objects(backend, options(base.to_str().unwrap())).unwrap();
        test(&store, &base, &|| {
            DataStore::with_objects(again(), ObjectOptions::default()).unwrap()
        });
    }
}

#[test]
fn a_store_in_memory_has_objects() {
    all(&|| {
        let backend: Arc<dyn Backend> = Arc::new(MemoryBackend::new("memory:"));
        (backend.clone(), Box::new(move || backend.clone()))
    });
}

#[test]
fn a_store_in_a_folder_has_objects() {
    let folder = tempfile::tempdir().unwrap();
    let n = AtomicUsize::new(0);
    all(&|| {
        let path = folder
            .path()
            .join(n.fetch_add(1, Ordering::Relaxed).to_string());
        let open = move || open_dir(&path, Mode::Append).unwrap() as Arc<dyn Backend>;
        (open(), Box::new(open))
    });
}

#[test]
fn a_store_in_redis_has_objects() {
    if !can_start_redis() {
        return;
    }
    let servers = Servers::start("redis-cluster");
    let n = AtomicUsize::new(0);
    all(&|| {
        let n = n.fetch_add(1, Ordering::Relaxed);
        let url = format!("redis://127.0.0.1:{}/?prefix=s{n}:", servers.port);
        let open = move || connect(&url).unwrap();
        (open(), Box::new(open))
    });
}

fn run(store: &DataStore) -> Container {
    let dataset = store.root().create_dataset("a/b").unwrap();
    dataset.create(1).unwrap()
}

fn large_products_come_back_from_whoever_connects(
    store: &DataStore,
    base: &Path,
    again: &dyn Fn() -> DataStore,
) {
    let dataset = store.root().create_dataset("a/b").unwrap();
    let run = run(store);
    let subrun = run.create(2).unwrap();
    let event = subrun.create(3).unwrap();
    let sizes = [0, 1, 1000, 1001, 100_000, 3_000_000];
    for item in [&dataset, &run, &subrun, &event] {
        for size in sizes {
            let stored = item.store(&name(&size.to_string()), &content(size), Overwrite::Keep);
            stored.unwrap();
        }
    }
    assert_eq!(files(base).len(), 4 * 3);
    let other = again();
    assert_eq!(other.objects_over(), Some(OVER));
    assert_eq!(other.objects(), store.objects());
    // one that was opened before the location was set
    let late = DataStore::new(Arc::new(Delegate(again(), Flush::Works)));
    for store in [store, &other, &late] {
        for item in [&*dataset, &run, &subrun, &event] {
            let item = Container::new(store.clone(), item.descriptor());
            for size in sizes {
                let found = item.load(&name(&size.to_string())).unwrap();
                assert!(found.unwrap() == content(size));
            }
            assert_eq!(item.load(&name("none")).unwrap(), None);
        }
    }
    // another location is an error, the same is not
    let base = base.to_str().unwrap();
    let backend = || Arc::new(Delegate(again(), Flush::Works));
    DataStore::with_objects(backend(), options(&format!("{base}/"))).unwrap();
    let error = DataStore::with_objects(backend(), options("/tmp/elsewhere")).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains(base) && text.contains("fb store moved"),
        "{text}"
    );
    let error = DataStore::with_objects(backend(), options("root://h//f")).unwrap_err();
    assert_eq!(error.kind(), "usage", "{error}");
    // other clients may use other size limits
    let more = ObjectOptions {
        base: None,
        over: Some(1 << 20),
        ..ObjectOptions::default()
    };
    let more = DataStore::with_objects(backend(), more).unwrap();
    assert_eq!(more.objects_over(), Some(1 << 20));
}

fn batches_and_loaders_have_large_products(
    store: &DataStore,
    base: &Path,
    again: &dyn Fn() -> DataStore,
) {
    let run = run(store);
    for threads in [0, 2] {
        let options = BatchOptions {
            max_items: 100,
            threads,
            ..BatchOptions::default()
        };
        let mut batch = WriteBatch::new(store, options);
        for subrun in 0..3 {
            let subrun = run.child(subrun + 10 * threads as u64).unwrap();
            batch.create(subrun.descriptor()).unwrap();
            for event in 0..50u64 {
                let event = subrun.child(event).unwrap().descriptor();
                batch.create(event).unwrap();
                // some products with the name are large
                let size = usize::try_from(event.event * 50).unwrap();
                batch.store(event, &name("x"), &content(size)).unwrap();
                batch.store(event, &name("y"), b"small").unwrap();
            }
        }
        batch.finish().unwrap();
    }
    let n_large = (0..50).filter(|n| n * 50 > 1000).count();
    assert_eq!(files(base).len(), 6 * n_large);
    let other = again();
    for ahead in [0, 2] {
        let options = LoadOptions {
            names: vec![name("x"), name("y"), name("z")],
            n_events: 70,
            ahead,
        };
        let events = Container::new(other.clone(), run.descriptor()).events();
        let mut n = 0;
        for loaded in Loader::start(&other, events, options) {
            let loaded = loaded.unwrap();
            for (at, event) in loaded.descriptors().enumerate() {
                let size = usize::try_from(event.event * 50).unwrap();
                assert!(loaded.products[0].get(at).unwrap() == content(size));
                assert_eq!(loaded.products[1].get(at), Some(&b"small"[..]));
                assert_eq!(loaded.products[2].get(at), None);
                n += 1;
            }
        }
        assert_eq!(n, 300);
    }
}

fn what_is_written_over_is_deleted(store: &DataStore, base: &Path, again: &dyn Fn() -> DataStore) {
    let run = run(store);
    let put = |store: &DataStore, size| {
        let run = Container::new(store.clone(), run.descriptor());
        run.store(&name("x"), &content(size), Overwrite::Replace)
            .unwrap();
        assert!(run.load(&name("x")).unwrap().unwrap() == content(size));
        files(base)
    };
    let first = put(store, 5000);
    let second = put(store, 6000);
    assert!(first.len() == 1 && second.len() == 1 && first != second);
    // a writer that does not know yet that it was large
    assert!(put(&again(), 10).is_empty());
    assert_eq!(put(store, 5000).len(), 1);
    let kept = run.store(&name("x"), &content(2000), Overwrite::Keep);
    assert!(matches!(kept.unwrap_err(), EventsError::Exists { .. }));
    assert!(run.load(&name("x")).unwrap().unwrap() == content(5000));
    // of several values in one batch, the last counts
    let mut batch = Batch::default();
    for size in [1500, 10, 2500] {
        batch.store(
            run.descriptor().placed_by(),
            ABSENT,
            &name("x"),
            &content(size),
        );
    }
    store.write(&batch).unwrap();
    assert!(run.load(&name("x")).unwrap().unwrap() == content(2500));
    assert_eq!(files(base).len(), 1);
    // while a crash could restore the old value, its object is kept
    let careful = Arc::new(Delegate(again(), Flush::Fails));
    let careful = DataStore::with_objects(careful, ObjectOptions::default()).unwrap();
    assert_eq!(put(&careful, 3000).len(), 2);
    assert_eq!(store.sweep(Duration::ZERO).unwrap().n_deleted, 1);
    let item = Container::new(careful, run.descriptor());
    assert!(item.remove_products(None).is_err());
    assert_eq!(files(base).len(), 1);
    put(store, 2500);
    store.sweep(Duration::ZERO).unwrap();
    // readers get one of the values while others overwrite it
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for n in 0..100 {
                put(store, 2000 + n);
            }
        });
        let reader = again();
        while !writer.is_finished() {
            let found = Container::new(reader.clone(), run.descriptor()).load(&name("x"));
            let found = found.unwrap().unwrap();
            assert!(found == content(found.len()));
        }
    });
    assert_eq!(files(base).len(), 1);
}

fn what_is_kept_leaves_nothing(store: &DataStore, base: &Path, _: &dyn Fn() -> DataStore) {
    let run = run(store);
    let parent = run.descriptor().placed_by();
    run.store(&name("x"), &content(5000), Overwrite::Keep)
        .unwrap();
    let before = files(base);
    let id = |label: &str| ProductId {
        container: run.descriptor(),
        name: name(label),
    };
    let mut batch = Batch::new(Overwrite::Keep);
    batch.store(parent, ABSENT, &name("x"), &content(2000));
    batch.store(parent, ABSENT, &name("x"), &content(3000));
    assert_eq!(store.write(&batch).unwrap().kept, [id("x"), id("x")]);
    assert_eq!(files(base), before);
    // the first of two values counts, and the second is reported
    for (label, sizes) in [("y", [4000, 10]), ("z", [10, 4000]), ("w", [4000, 5000])] {
        let mut batch = Batch::new(Overwrite::Keep);
        for size in sizes {
            batch.store(parent, ABSENT, &name(label), &content(size));
        }
        assert_eq!(store.write(&batch).unwrap().kept, [id(label)]);
        assert!(run.load(&name(label)).unwrap().unwrap() == content(sizes[0]));
    }
    assert_eq!(files(base).len(), before.len() + 2);
}

fn what_is_removed_leaves_nothing(store: &DataStore, base: &Path, _: &dyn Fn() -> DataStore) {
    let fill = || {
        let dataset = store.root().create_dataset("a/b").unwrap();
        let within = dataset.create_dataset("within").unwrap();
        for dataset in [&dataset, &within] {
            for subrun in [1, 2, 12] {
                let run = dataset.create(1).unwrap();
                let subrun = run.create(subrun).unwrap();
                let event = subrun.create(1).unwrap();
                for item in [&**dataset, &run, &subrun, &event] {
                    for label in ["x", "y"] {
                        item.store(&name(label), &content(2000), Overwrite::Replace)
                            .unwrap();
                    }
                }
            }
        }
        dataset
    };
    let dataset = fill();
    let all = 2 * (2 + 2 + 3 * (2 + 2));
    assert_eq!(files(base).len(), all);
    let run = dataset.get(1).unwrap();
    let subrun = run.get(1).unwrap();
    subrun.remove_products(Some(&name("x"))).unwrap();
    assert_eq!(files(base).len(), all - 1);
    subrun.remove_products(None).unwrap();
    assert_eq!(files(base).len(), all - 2);
    subrun.get(1).unwrap().remove().unwrap();
    assert_eq!(files(base).len(), all - 4);
    // one product of the remaining events; products of runs and subruns have the same name
    let removed = dataset.remove_event_products("x", None).unwrap();
    assert_eq!(removed.n(), 2);
    assert_eq!(files(base).len(), all - 6);
    assert!(run.get(2).unwrap().load(&name("x")).unwrap().is_some());
    // a file that a crash has left is removed as well
    let left = own(store, base)
        .join(dataset.uuid().to_string())
        .join("1/2/1");
    fs::write(left.join(format!("{}.part", "0".repeat(32))), "half").unwrap();
    run.remove().unwrap();
    // those of the dataset, and all of the nested one
    assert_eq!(files(base).len(), 2 + all / 2);
    assert!(dataset.load(&name("x")).unwrap().is_some());
    dataset.remove().unwrap();
    assert!(files(base).is_empty());
    fill();
    store.root().remove().unwrap();
    assert!(files(base).is_empty());
    let mut left = fs::read_dir(own(store, base)).unwrap();
    assert!(left.all(|entry| !entry.unwrap().path().is_dir()));
}

fn damaged_and_missing_objects_are_errors(
    store: &DataStore,
    base: &Path,
    _: &dyn Fn() -> DataStore,
) {
    let run = run(store);
    run.store(&name("x"), &content(5000), Overwrite::Replace)
        .unwrap();
    run.store(&name("y"), &content(10), Overwrite::Replace)
        .unwrap();
    let file = files(base).pop().unwrap();
    let mut bytes = fs::read(&file).unwrap();
    assert!(bytes == content(5000));
    let fails = || {
        let error = run.load(&name("x")).unwrap_err();
        let text = error.to_string();
        assert_eq!(error.kind(), "product-damaged", "{text}");
        for word in ["\"x#bytes\" of run 1", file.to_str().unwrap()] {
            assert!(text.contains(word), "{text}");
        }
        assert!(run.load(&name("y")).unwrap().unwrap() == content(10));
    };
    bytes[4321] ^= 1;
    fs::write(&file, &bytes).unwrap();
    fails();
    bytes.pop();
    fs::write(&file, &bytes).unwrap();
    fails();
    fs::remove_file(&file).unwrap();
    fails();
    // it can be replaced and removed
    run.store(&name("x"), &content(6000), Overwrite::Replace)
        .unwrap();
    assert!(run.load(&name("x")).unwrap().unwrap() == content(6000));
    // a missing directory is a write error, and the product stays
    let away = base.with_file_name("away");
    fs::rename(base, &away).unwrap();
    fs::write(base, "in the way").unwrap();
    let error = run.store(&name("x"), &content(7000), Overwrite::Replace);
    assert_eq!(error.unwrap_err().kind(), "create-failed");
    fs::remove_file(base).unwrap();
    fs::rename(&away, base).unwrap();
    assert!(run.load(&name("x")).unwrap().unwrap() == content(6000));
    run.remove().unwrap();
    assert!(files(base).is_empty());
}

fn orphans_are_swept_and_nothing_else(
    store: &DataStore,
    base: &Path,
    again: &dyn Fn() -> DataStore,
) {
    let run = run(store);
    let event = run.create(1).unwrap().create(2).unwrap();
    for item in [&run, &event] {
        for label in ["x", "y"] {
            item.store(&name(label), &content(5000), Overwrite::Replace)
                .unwrap();
        }
    }
    let used = files(base);
    let beside = |file: &str| {
        let orphan = used[0].with_file_name(file);
        fs::write(&orphan, content(100)).unwrap();
        orphan
    };
    let orphan = beside(&"f".repeat(32));
    beside(&format!("{}.part", "e".repeat(32)));
    let strange = beside("notes.txt");
    let nowhere = own(store, base)
        .join(Uuid([7; 16]).to_string())
        .join("1")
        .join("0".repeat(32));
    fs::create_dir_all(nowhere.parent().unwrap()).unwrap();
    fs::write(&nowhere, content(100)).unwrap();
    let store = again();
    let young = store.sweep(Duration::from_secs(3600)).unwrap();
    assert_eq!((young.n_used, young.n_young, young.n_deleted), (4, 3, 0));
    assert!(orphan.exists());
    let swept = store.sweep(Duration::ZERO).unwrap();
    assert_eq!((swept.n_used, swept.n_deleted, swept.n_bytes), (4, 3, 300));
    assert_eq!(swept.n_strange, 1);
    let mut left = used.clone();
    left.push(strange);
    left.sort_unstable();
    assert_eq!(files(base), left);
    assert!(event.load(&name("x")).unwrap().unwrap() == content(5000));
}

fn objects_that_were_moved_are_found(
    store: &DataStore,
    base: &Path,
    again: &dyn Fn() -> DataStore,
) {
    let run = run(store);
    run.store(&name("x"), &content(5000), Overwrite::Replace)
        .unwrap();
    let moved = base.with_file_name("moved");
    fs::rename(base, &moved).unwrap();
    assert!(run.load(&name("x")).is_err());
    let before = objects_moved(store.backend(), moved.to_str().unwrap()).unwrap();
    assert_eq!(Path::new(&before), base);
    let store = again();
    assert_eq!(Path::new(store.objects().unwrap()), moved);
    let run = Container::new(store.clone(), run.descriptor());
    assert!(run.load(&name("x")).unwrap().unwrap() == content(5000));
    let none = MemoryBackend::new("memory:");
    let error = objects_moved(&none, "/tmp").unwrap_err();
    assert_eq!(error.kind(), "not-in-store", "{error}");
}

#[test]
fn what_is_damaged_in_a_store_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let base = folder.path().join("objects");
    let backend = open_dir(&path, Mode::Append).unwrap();
    let store = DataStore::with_objects(backend.clone(), options(base.to_str().unwrap())).unwrap();
    let run = run(&store);
    let subrun = run.create(2).unwrap();
    for n in 0..3 {
        let event = subrun.create(n).unwrap();
        event
            .store(&name("small"), b"12345", Overwrite::Keep)
            .unwrap();
        event
            .store(&name("large"), &content(2000), Overwrite::Keep)
            .unwrap();
    }
    run.store(&name("own"), b"1", Overwrite::Keep).unwrap();
    let whole = store.verify().unwrap();
    let counts = (
        whole.n_containers,
        whole.n_products,
        whole.n_objects,
        whole.n_bytes,
    );
    assert_eq!(counts, (7, 7, 3, 3 * 2005 + 1));
    assert_eq!((whole.n_damaged, whole.damaged.len()), (0, 0));
    // missing or truncated objects, an invalid reference, and a changed object
    let objects = files(&base);
    fs::remove_file(&objects[0]).unwrap();
    fs::write(&objects[1], b"cut").unwrap();
    drop((store, run, subrun, backend));
    let data = path.join("data.mdb");
    let mut bytes = fs::read(&data).unwrap();
    let n = bytes.len() - 5;
    let places: Vec<_> = (0..n)
        .filter(|at| bytes[*at..].starts_with(b"12345"))
        .collect();
    for at in places {
        bytes[at] = b'!';
    }
    fs::write(&data, bytes).unwrap();
    let store = DataStore::with_objects(
        open_dir(&path, Mode::Read).unwrap(),
        ObjectOptions::default(),
    );
    let found = store.unwrap().verify().unwrap();
    assert_eq!((found.n_products, found.n_damaged), (7, 5));
    let said = found.damaged.join("\n");
    for expected in [
        "event 0 is object",
        "which is missing",
        "which has 3 bytes instead of 2000",
        "\"small#bytes\" of run 1, subrun 2, event 2 is damaged: expected checksum",
    ] {
        assert!(said.contains(expected), "{said}");
    }
}

/// Regression: two stores in one directory would sweep each other's objects, and a copy of a store those of the
/// original.
#[test]
fn a_place_of_objects_belongs_to_one_store() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
    let base = folder.path().join("objects");
    let open = |path: &Path, mode: Mode, options: ObjectOptions| {
        DataStore::with_objects(open_dir(path, mode).unwrap(), options)
    };
    let write = |path: &Path| open(path, Mode::Append, ObjectOptions::default());
    let base_options = || options(base.to_str().unwrap());
    let others = |opened: Result<DataStore, EventsError>, owner: &Path| {
        let error = opened.unwrap_err();
        assert_eq!(error.kind(), "objects-of-others", "{error}");
        let expected = format!("another store, dir:{},", owner.display());
        assert!(error.to_string().contains(&expected), "{error}");
    };
    let store = open(&first, Mode::Append, base_options()).unwrap();
    run(&store)
        .store(&name("x"), &content(5000), Overwrite::Keep)
        .unwrap();
    drop(store);
    others(open(&second, Mode::Append, base_options()), &first);
    // nothing was recorded: the store may have another location
    drop(
        open(
            &second,
            Mode::Append,
            options(folder.path().join("other").to_str().unwrap()),
        )
        .unwrap(),
    );

    // a copy may be read, but nothing else until it has its own location
    let copy = folder.path().join("copy");
    copy_folder(&first, &copy);
    others(write(&copy), &first);
    let reader = open(&copy, Mode::Read, ObjectOptions::default()).unwrap();
    assert!(run_of(&reader).load(&name("x")).unwrap().unwrap() == content(5000));
    drop(reader);
    let copied = folder.path().join("copied");
    copy_folder(&base, &copied);
    let backend = open_dir(&copy, Mode::Append).unwrap();
    objects_moved(&*backend, copied.to_str().unwrap()).unwrap();
    drop(backend);
    let store = write(&copy).unwrap();
    store.root().remove().unwrap();
    assert_eq!((files(&base).len(), files(&copied).len()), (1, 0));
    drop(store);

    // the original stays the same if it is moved; for a backup the user must say so
    let moved = folder.path().join("moved");
    fs::rename(&first, &moved).unwrap();
    drop(write(&moved).unwrap());
    copy_folder(&moved, &first);
    others(write(&first), &first);
    let backend = open_dir(&first, Mode::Append).unwrap();
    objects_moved(&*backend, base.to_str().unwrap()).unwrap();
    drop(backend);
    let store = write(&first).unwrap();
    assert_eq!(store.sweep(Duration::ZERO).unwrap().n_used, 1);
    drop(store);
    others(write(&moved), &first);

    // a location without a marker may be another disk
    fs::remove_file(base.join(MARKER)).unwrap();
    assert_eq!(write(&moved).unwrap_err().kind(), "objects-gone");
    let backend = open_dir(&moved, Mode::Append).unwrap();
    objects_moved(&*backend, base.to_str().unwrap()).unwrap();
    drop(backend);
    drop(write(&moved).unwrap());
    others(write(&first), &moved);
    fs::write(base.join(MARKER), "{").unwrap();
    let error = write(&first).unwrap_err().to_string();
    assert!(error.contains("which is unknown"), "{error}");
}

fn run_of(store: &DataStore) -> Container {
    store.root().dataset("a/b").unwrap().get(1).unwrap()
}

fn copy_folder(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-r").args([from, to]).status();
    assert!(status.unwrap().success());
}

#[test]
fn a_configuration_says_where_large_products_are() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.json");
    let text = r#"{"url": "dir:store", "objects": "large", "objects_over": "1kB"}"#;
    fs::write(&config, text).unwrap();
    let config = config.to_str().unwrap();
    let store = DataStore::connect(config, ObjectOptions::default()).unwrap();
    assert_eq!(store.objects_over(), Some(1000));
    run(&store)
        .store(&name("x"), &content(1001), Overwrite::Keep)
        .unwrap();
    assert_eq!(files(&folder.path().join("large")).len(), 1);
    let error = DataStore::connect(config, options("/tmp/elsewhere")).unwrap_err();
    assert!(error.to_string().contains("large"), "{error}");
    let over = ObjectOptions {
        over: Some(5),
        ..ObjectOptions::default()
    };
    let error = DataStore::connect("memory:", over).unwrap_err();
    assert!(error.to_string().contains("needs a location"), "{error}");
}

#[test]
fn objects_may_be_in_a_bucket() {
    if !can_store("minio") {
        return;
    }
    let mut server = Servers::start("minio");
    let settings = [
        ("endpoint", server.endpoint.as_str()),
        ("access_key_id", &server.keys.0),
        ("secret_access_key", &server.keys.1),
        ("most_retries", "1"),
        ("part_size", "5MiB"),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let open = |base: Option<&str>| {
        let options = ObjectOptions {
            base: base.map(str::to_owned),
            over: None,
            settings: settings.clone().into(),
        };
        assert!(!format!("{options:?}").contains(&settings[2].1));
        DataStore::with_objects(open_dir(&path, Mode::Append).unwrap(), options)
    };
    let store = open(Some("s3://private/large/")).unwrap();
    assert_eq!(store.objects_over(), Some(1 << 20));
    let run = run(&store);
    let subrun = run.create(1).unwrap();
    let mut batch = WriteBatch::new(&store, BatchOptions::default());
    for event in 0..20u64 {
        let event = subrun.child(event).unwrap().descriptor();
        let size = (1 << 20) + 1 + usize::try_from(event.event).unwrap();
        batch.create(event).unwrap();
        batch.store(event, &name("x"), &content(size)).unwrap();
    }
    batch.finish().unwrap();
    // in parts, and fetched in pieces
    let large = content((20 << 20) + 1);
    run.store(&name("x"), &large, Overwrite::Keep).unwrap();
    let store = open(None).unwrap();
    let run = Container::new(store.clone(), run.descriptor());
    assert!(run.load(&name("x")).unwrap().unwrap() == large);
    let options = LoadOptions {
        names: vec![name("x")],
        ..LoadOptions::default()
    };
    for loaded in Loader::start(&store, run.events(), options) {
        let loaded = loaded.unwrap();
        for (at, event) in loaded.descriptors().enumerate() {
            let size = (1 << 20) + 1 + usize::try_from(event.event).unwrap();
            assert!(loaded.products[0].get(at).unwrap() == content(size));
        }
    }
    let swept = store.sweep(Duration::ZERO).unwrap();
    assert_eq!((swept.n_used, swept.n_deleted), (21, 0));
    run.store(&name("x"), b"small now", Overwrite::Replace)
        .unwrap();
    assert_eq!(store.sweep(Duration::ZERO).unwrap().n_used, 20);
    // changed objects are an error, and so is a lost server; the store is unchanged
    let event = subrun.get(3).unwrap();
    let event = Container::new(store.clone(), event.descriptor());
    let objects = objects_of(&server, "large");
    let name_of = |event: u64| {
        let mark = format!("/1/1/{event}/");
        objects.iter().find(|name| name.contains(&mark)).unwrap()
    };
    server.store(&format!("private/{}", name_of(3)), &content((1 << 20) + 5));
    let error = event.load(&name("x")).unwrap_err();
    assert_eq!(error.kind(), "product-damaged", "{error}");
    let mut other = content((1 << 20) + 4);
    other[0] ^= 1;
    server.store(&format!("private/{}", name_of(3)), &other);
    let error = event.load(&name("x")).unwrap_err();
    assert!(error.to_string().contains(name_of(3)), "{error}");
    server.kill();
    let error = event.load(&name("x")).unwrap_err();
    assert_eq!(error.kind(), "remote-failed", "{error}");
    let error = event.store(&name("x"), &large, Overwrite::Replace);
    assert_eq!(error.unwrap_err().kind(), "create-failed");
    let error = run.remove().unwrap_err();
    assert_eq!(error.kind(), "remote-failed", "{error}");
    server.restart();
    // objects that could not be deleted are found by repeating it
    run.remove().unwrap();
    assert!(objects_of(&server, "large").is_empty());
    assert_eq!(store.sweep(Duration::ZERO).unwrap(), Default::default());
}

/// Google's upload protocol is not tested: no server for it is available here.
#[test]
fn objects_may_be_in_a_container_of_azure() {
    if !can_store("azurite-blob") {
        return;
    }
    let server = Servers::start("azurite");
    let settings = [
        ("endpoint", server.endpoint.as_str()),
        ("access_key_id", &server.keys.0),
        ("secret_access_key", &server.keys.1),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let open = |base: Option<&str>| {
        let options = ObjectOptions {
            base: base.map(str::to_owned),
            over: None,
            settings: settings.clone().into(),
        };
        DataStore::connect("memory:azure", options)
    };
    let store = open(Some("az://private/large")).unwrap();
    let run = run(&store);
    let large = content((9 << 20) + 1);
    for label in ["x", "y"] {
        run.store(&name(label), &large, Overwrite::Keep).unwrap();
    }
    let again = open(None).unwrap();
    let found = Container::new(again.clone(), run.descriptor());
    assert!(found.load(&name("x")).unwrap().unwrap() == large);
    let error = open(Some("az://private/elsewhere")).unwrap_err();
    assert!(error.to_string().contains("large"), "{error}");
    found.remove_products(Some(&name("x"))).unwrap();
    let swept = again.sweep(Duration::ZERO).unwrap();
    assert_eq!((swept.n_used, swept.n_deleted), (1, 0));
    run.remove().unwrap();
    assert_eq!(again.sweep(Duration::ZERO).unwrap(), Default::default());
}

/// The keys of a bucket that begin with a directory name; `MinIO` has a directory for each.
fn objects_of(server: &Servers, prefix: &str) -> Vec<String> {
    let bucket = server.data[0].join("private");
    let found = files(&bucket.join(prefix)).into_iter();
    let key = |file: PathBuf| {
        if file.parent()?.ends_with(MARKER) {
            return None;
        }
        let key = file
            .strip_prefix(&bucket)
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        key.strip_suffix("/xl.meta").map(str::to_owned)
    };
    found.filter_map(key).collect()
}

/// A process is killed between object and reference: it leaves an orphan and nothing else.
#[test]
fn a_process_that_is_killed_leaves_no_reference_to_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let program = std::env::current_exe().unwrap();
    for n_writes in [0, 1, 3] {
        let path = folder.path().join(format!("store-{n_writes}"));
        let base = folder.path().join(format!("objects-{n_writes}"));
        let died = Command::new(&program)
            .args(["--exact", "dies_at_a_write", "--nocapture"])
            .env("FEMTOBARN_TEST_DIES", &path)
            .env("FEMTOBARN_TEST_DIES_AFTER", n_writes.to_string())
            .env("FEMTOBARN_TEST_OBJECTS", &base)
            .output()
            .unwrap();
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(died.status.signal(), Some(9), "{died:?}");
        let store = open_dir(&path, Mode::Append).unwrap();
        let store = DataStore::with_objects(store, ObjectOptions::default()).unwrap();
        let run = store.root().dataset("a/b").unwrap().get(1).unwrap();
        let names = run.names(None).unwrap();
        assert_eq!(names.len(), n_writes);
        for name in names {
            assert!(run.load(&name).unwrap().unwrap() == content(5000));
        }
        // the object whose reference was about to be written
        assert_eq!(files(&base).len(), n_writes + 1);
        let swept = store.sweep(Duration::ZERO).unwrap();
        assert_eq!((swept.n_used, swept.n_deleted), (n_writes as u64, 1));
        run.remove().unwrap();
        assert!(files(&base).is_empty());
    }
}

#[test]
fn dies_at_a_write() {
    let Some(path) = std::env::var_os("FEMTOBARN_TEST_DIES") else {
        return;
    };
    let base = std::env::var("FEMTOBARN_TEST_OBJECTS").unwrap();
    let n_writes: usize = std::env::var("FEMTOBARN_TEST_DIES_AFTER")
        .unwrap()
        .parse()
        .unwrap();
    let store = DataStore::with_objects(
        open_dir(Path::new(&path), Mode::Append).unwrap(),
        options(&base),
    );
    let run = run(&store.unwrap());
    for n in 0..n_writes {
        run.store(&name(&n.to_string()), &content(5000), Overwrite::Keep)
            .unwrap();
    }
    let dying = DataStore::with_objects(
        Arc::new(Delegate(run.datastore().clone(), Flush::Works)),
        ObjectOptions::default(),
    );
    let run = Container::new(dying.unwrap(), run.descriptor());
    run.store(&name("last"), &content(5000), Overwrite::Keep)
        .unwrap();
    panic!("it should have ended");
}

/// A backend that delegates to another, but ends the process in a given write if requested.
#[derive(Debug)]
struct Delegate(DataStore, Flush);

#[derive(Debug, PartialEq)]
enum Flush {
    Works,
    Fails,
}

impl Backend for Delegate {
    fn url(&self) -> &str {
        self.0.url()
    }
    fn is_durable(&self) -> bool {
        self.0.backend().is_durable()
    }
    fn is_kept(&self) -> bool {
        self.0.backend().is_kept()
    }
    fn seat(&self) -> Option<String> {
        self.0.backend().seat()
    }
    fn write(&self, batch: &Batch) -> Result<Written, EventsError> {
        if std::env::var_os("FEMTOBARN_TEST_DIES").is_some() {
            let own = std::process::id().to_string();
            Command::new("kill").args(["-9", &own]).status().unwrap();
        }
        self.0.backend().write(batch)
    }
    fn flush(&self) -> Result<(), EventsError> {
        match self.1 {
            Flush::Works => self.0.backend().flush(),
            Flush::Fails => Err(EventsError::Poisoned {
                url: "no flush".into(),
            }),
        }
    }
    fn create_dataset(&self, path: &DataSetPath, uuid: Uuid) -> Result<DataSetEntry, EventsError> {
        self.0.backend().create_dataset(path, uuid)
    }
    fn find_datasets(
        &self,
        paths: &[DataSetPath],
    ) -> Result<Vec<Option<DataSetEntry>>, EventsError> {
        self.0.backend().find_datasets(paths)
    }
    fn datasets(
        &self,
        parent: &DataSetPath,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, DataSetEntry)>, EventsError> {
        self.0.backend().datasets(parent, after, limit)
    }
    fn replace_dataset(
        &self,
        path: &DataSetPath,
        from: DataSetEntry,
        to: Option<DataSetEntry>,
    ) -> Result<(), EventsError> {
        self.0.backend().replace_dataset(path, from, to)
    }
    fn numbers(&self, scans: &[Scan]) -> Result<Vec<Vec<u64>>, EventsError> {
        self.0.backend().numbers(scans)
    }
    fn contains(&self, children: &[(Parent, &[u64])]) -> Result<Vec<Vec<bool>>, EventsError> {
        self.0.backend().contains(children)
    }
    fn remove(&self, parent: &Parent, numbers: &[u64]) -> Result<(), EventsError> {
        self.0.backend().remove(parent, numbers)
    }
    fn load(&self, wanted: &[Wanted<'_>], visit: &mut Visit<'_>) -> Result<(), EventsError> {
        self.0.backend().load(wanted, visit)
    }
    fn names(
        &self,
        parent: &Parent,
        event: u64,
        label: Option<&str>,
    ) -> Result<Vec<ProductName>, EventsError> {
        self.0.backend().names(parent, event, label)
    }
    fn name_counts(&self, parent: &Parent) -> Result<Vec<NameCount>, EventsError> {
        self.0.backend().name_counts(parent)
    }

    fn stored_bytes(&self, parent: &Parent) -> Result<u64, EventsError> {
        self.0.backend().stored_bytes(parent)
    }
    fn remove_products(
        &self,
        parent: &Parent,
        event: u64,
        name: Option<&ProductName>,
    ) -> Result<(), EventsError> {
        self.0.backend().remove_products(parent, event, name)
    }
    fn remove_named(&self, parent: &Parent, name: &ProductName) -> Result<u64, EventsError> {
        self.0.backend().remove_named(parent, name)
    }
    fn clear(&self, parent: &Parent) -> Result<(), EventsError> {
        self.0.backend().clear(parent)
    }
    fn remove_nameless(&self) -> Result<BTreeSet<Uuid>, EventsError> {
        self.0.backend().remove_nameless()
    }
    fn note(&self, key: &str, value: &[u8]) -> Result<Vec<u8>, EventsError> {
        self.0.backend().note(key, value)
    }
    fn noted(&self, key: &str) -> Result<Option<Vec<u8>>, EventsError> {
        self.0.backend().noted(key)
    }
    fn replace_note(&self, key: &str, value: &[u8]) -> Result<(), EventsError> {
        self.0.backend().replace_note(key, value)
    }

    fn remove_note(&self, key: &str) -> Result<(), EventsError> {
        self.0.backend().remove_note(key)
    }
    fn queues(&self) -> &dyn Queues {
        self.0.backend().queues()
    }
}

/// Regression: the directory of an unmounted disk was created again, claimed, and filled, while the objects were
/// elsewhere.
#[test]
fn a_place_that_is_gone_is_not_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let base = folder.path().join("objects");
    let open = |mode: Mode, options: ObjectOptions| {
        DataStore::with_objects(open_dir(&path, mode).unwrap(), options)
    };
    let write = || open(Mode::Append, ObjectOptions::default());
    // an unused directory may be created by other means
    drop(open(Mode::Append, options(base.to_str().unwrap())).unwrap());
    let store = write().unwrap();
    run(&store)
        .store(&name("x"), &content(5000), Overwrite::Keep)
        .unwrap();
    drop(store);
    let away = folder.path().join("away");
    fs::rename(&base, &away).unwrap();
    for what_is_there in ["nothing", "a folder", "a folder with a file"] {
        match what_is_there {
            "a folder" => fs::create_dir(&base).unwrap(),
            "a folder with a file" => fs::write(base.join("lost+found"), "").unwrap(),
            _ => {}
        }
        let error = write().unwrap_err();
        assert_eq!(error.kind(), "objects-gone", "{error}");
        assert!(error.to_string().contains("mounted"), "{error}");
        assert!(!base.join(MARKER).exists());
        let reader = open(Mode::Read, ObjectOptions::default()).unwrap();
        let error = run_of(&reader).load(&name("x")).unwrap_err();
        assert_eq!(error.kind(), "product-damaged", "{error}");
    }
    fs::remove_dir_all(&base).unwrap();
    fs::rename(&away, &base).unwrap();
    drop(write().unwrap());
    // lost objects are only accepted if the user says so
    fs::remove_dir_all(&base).unwrap();
    let backend = open_dir(&path, Mode::Append).unwrap();
    objects_moved(&*backend, base.to_str().unwrap()).unwrap();
    drop(backend);
    run_of(&write().unwrap())
        .store(&name("y"), &content(5000), Overwrite::Keep)
        .unwrap();
    assert_eq!(files(&base).len(), 1);
}

/// Regression: an empty store was left in a directory, and the next attempt took it for a store that keeps large
/// products itself.
#[test]
fn a_store_whose_place_is_another_s_is_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().join("objects");
    let url = |name: &str| format!("dir:{}", folder.path().join(name).display());
    let options = || options(base.to_str().unwrap());
    let first = DataStore::connect(&url("first"), options()).unwrap();
    let config = folder.path().join("config.json");
    let text = format!(r#"{{"url": "dir:second", "objects": {base:?}}}"#);
    fs::write(&config, text).unwrap();
    fs::create_dir(folder.path().join("empty")).unwrap();
    for (store, options) in [
        (url("second"), options()),
        (url("empty"), options()),
        (config.display().to_string(), ObjectOptions::default()),
    ] {
        let error = DataStore::connect(&store, options).unwrap_err();
        assert_eq!(error.kind(), "objects-of-others", "{error}");
        assert!(error.to_string().contains(&url("first")), "{error}");
        assert!(!folder.path().join("second").exists());
        assert!(files(&folder.path().join("empty")).is_empty());
    }
    drop(first);
}

/// Regression: stores in memory swept each other's objects, and those of others.
#[test]
fn stores_in_memory_have_folders_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().to_str().unwrap();
    let make = || {
        let backend = Arc::new(MemoryBackend::new("memory:"));
        DataStore::with_objects(backend, options(base)).unwrap()
    };
    let kept = open_dir(&folder.path().join("store"), Mode::Append).unwrap();
    let kept = DataStore::with_objects(kept, options(base)).unwrap();
    let stores = [make(), kept, make()];
    for store in &stores {
        assert_eq!(store.objects(), Some(base));
        run(store)
            .store(&name("x"), &content(5000), Overwrite::Keep)
            .unwrap();
    }
    for store in &stores {
        assert_eq!(store.sweep(Duration::ZERO).unwrap().n_deleted, 0);
    }
    stores[0].root().remove().unwrap();
    for store in &stores[1..] {
        assert!(run_of(store).load(&name("x")).unwrap().is_some());
        assert_eq!(store.verify().unwrap().n_damaged, 0);
    }
}

/// Regression: a file was recorded permanently as the location of large products, and storing failed from then on.
#[test]
fn a_file_is_no_place_for_large_products() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "mine").unwrap();
    let url = format!("dir:{}", folder.path().join("store").display());
    for base in [file.clone(), file.join("below")] {
        let base = || options(base.to_str().unwrap());
        let error = DataStore::connect(&url, base()).unwrap_err();
        assert!(error.to_string().contains("is a file"), "{error}");
        assert!(!folder.path().join("store").exists());
        let backend = Arc::new(MemoryBackend::new("memory:"));
        let error = DataStore::with_objects(backend.clone(), base()).unwrap_err();
        assert!(error.to_string().contains("is a file"), "{error}");
        assert_eq!(backend.noted("objects").unwrap(), None);
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    let place = folder.path().join("objects");
    drop(DataStore::connect(&url, options(place.to_str().unwrap())).unwrap());
}
