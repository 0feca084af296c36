//! `fb store`, with servers that outlive the program.

use femtobarn_testkit::can_start_redis;

use femtobarn::events::{DataSetEntry, DataStore, ObjectOptions, ProductName};
use serde_json::json;

use crate::support::{document, failure, fb, good};

/// LMDB trusts its pages: an invalid size leads out of the file, and the process that reads there gets a signal.
#[test]
fn a_store_is_verified_whatever_its_damage_does() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("dir:{}", folder.path().join("store").display());
    let store = DataStore::connect(&url, ObjectOptions::default()).unwrap();
    let run = store.root().create_dataset("a").unwrap().create(1).unwrap();
    let overwrite = femtobarn::events::Overwrite::default();
    for (label, size) in [("large", 100_000), ("small", 50)] {
        let name = ProductName::new(label, "bytes").unwrap();
        // bytes that do not compress, so that large values have their own pages
        run.store(&name, &femtobarn_testkit::content(size), overwrite)
            .unwrap();
    }
    drop((store, run));
    let said = good(&["store", "verify", &url]);
    assert_eq!(
        said,
        "2 containers, 2 products (100 kB), 0 as objects: no damage\n"
    );
    let data = folder.path().join("store/data.mdb");
    let whole = std::fs::read(&data).unwrap();
    let damaged = |key: &[u8], at: isize, bytes: &[u8]| {
        let mut file = whole.clone();
        let places = (0..file.len()).filter(|place| whole[*place..].starts_with(key));
        for place in places {
            let place = place.checked_add_signed(at).unwrap();
            file[place..place + bytes.len()].copy_from_slice(bytes);
        }
        std::fs::write(&data, file).unwrap();
    };
    damaged(b"small#bytes", 11, b"other");
    let done = fb(&["store", "verify", &url]);
    assert_eq!(done.code, 1, "{}", done.err);
    let expected = "product \"small#bytes\" of run 1 is damaged: expected checksum";
    assert!(done.out.starts_with(expected), "{}", done.out);
    assert!(done.out.contains("DAMAGED: 1"), "{}", done.out);
    let found: serde_json::Value =
        serde_json::from_str(&fb(&["store", "verify", &url, "--json"]).out).unwrap();
    assert_eq!(
        (&found["products"], &found["damaged"]),
        (&json!(2), &json!(1))
    );
    // the size of the value is in 4 bytes before the rest of the node and the key
    damaged(b"large#bytes", -48, &[0xff, 0xff, 0xff, 0x7f]);
    let done = fb(&["store", "verify", &url]);
    assert_eq!(done.code, 1, "{} {}", done.out, done.err);
    assert!(
        done.out.contains("refers to pages outside of the file")
            && done.out.contains("2 keys were stored, but 0 were found"),
        "{}",
        done.out
    );
}

#[test]
fn what_is_in_a_store_is_listed() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("dir:{}", folder.path().join("a store").display());
    let store = DataStore::connect(&url, ObjectOptions::default()).unwrap();
    let nova = store.root().create_dataset("fermilab/nova").unwrap();
    nova.create_dataset("inner").unwrap();
    let name = |label, kind| ProductName::new(label, kind).unwrap();
    let put = |descriptor, name: &ProductName| {
        let overwrite = femtobarn::events::Overwrite::default();
        store
            .store(descriptor, name, b"12345678", overwrite)
            .unwrap();
    };
    for run in [3, 70] {
        let run = nova.create(run).unwrap();
        put(run.descriptor(), &name("pot", "double"));
        for number in 0..run.number().unwrap() {
            let subrun = run.create(number).unwrap();
            for event in 0..2 {
                let event = subrun.create(event).unwrap();
                if event.number() == Some(1) {
                    put(event.descriptor(), &name("x", "double"));
                }
            }
        }
    }
    for file in ["ingested/a.h5/1", "ingested/b.h5/2"] {
        put(nova.descriptor(), &name(file, "std::string"));
    }
    // reading, while others write
    let all = good(&["store", "ls", &url]);
    assert_eq!(
        all.lines().skip(2).map(str::trim_end).collect::<Vec<_>>(),
        [
            "fermilab                0",
            "fermilab/nova           2",
            "fermilab/nova/inner     0"
        ]
    );
    let listed = good(&["store", "ls", &url, "fermilab/nova"]);
    let words: Vec<String> = listed
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    for line in [
        "2 runs, 73 subruns, 146 events",
        "fermilab/nova/inner",
        "70 70 140",
        "pot double run 2",
        "x double event 73",
        "ingested/… std::string dataset 2",
    ] {
        assert!(words.iter().any(|found| found == line), "{line}: {listed}");
    }
    let run = good(&["store", "ls", &url, "fermilab/nova", "--run", "70"]);
    assert!(
        run.starts_with("70 subruns, 140 events\n") && run.contains("and 50 more"),
        "{run}"
    );
    let told = document(&["store", "ls", &url, "fermilab/nova", "--run", "3"]);
    assert_eq!(told["subruns"][2], json!({"subrun": 2, "events": 2}));
    assert_eq!((&told["run"], &told["events"]), (&json!(3), &json!(6)));
    let at = ["--run", "3", "--subrun", "0", "--event", "1"];
    let told = document(&[&["store", "ls", &url, "fermilab/nova"][..], &at].concat());
    let product = json!({"label": "x", "type": "double", "of": "event", "number": 1});
    assert_eq!(told["products"], json!([product]));
    for args in [&["fermilab/no"][..], &["fermilab/nova", "--run", "4"]] {
        let error = failure(&[&["store", "ls", &url][..], args].concat(), 3);
        assert_eq!(error["kind"], "not-in-store");
    }
    failure(&["store", "ls", &url, "fermilab/nova", "--subrun", "4"], 2);
    drop(store);
    failure(&["store", "ls", "dir:no/such"], 3);
}

#[test]
fn what_is_deleted_of_a_store_is_said_and_gone() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("dir:{}", folder.path().join("store").display());
    let store = DataStore::connect(&url, ObjectOptions::default()).unwrap();
    let nova = store.root().create_dataset("fermilab/nova").unwrap();
    let overwrite = femtobarn::events::Overwrite::default;
    for place in ["fermilab/nova", "fermilab/nova/inner"] {
        let dataset = store
            .root()
            .dataset(place)
            .or_else(|_| store.root().create_dataset(place));
        for run in [3, 70] {
            let run = dataset.as_ref().unwrap().create(run).unwrap();
            let event = run.create(1).unwrap().create(2).unwrap();
            for (label, kind) in [("x", "double"), ("x", "float"), ("y", "int")] {
                let name = ProductName::new(label, kind).unwrap();
                store
                    .store(event.descriptor(), &name, b"12345678", overwrite())
                    .unwrap();
            }
        }
    }
    drop((nova, store));
    let rm = |more: &[&str]| good(&[&["store", "rm", &url, "fermilab/nova"], more].concat());
    let at = ["--run", "3", "--subrun", "1", "--event", "2"];
    assert_eq!(
        rm(&[&at[..], &["--product", "x"]].concat()),
        "deleted x#double, x#float of fermilab/nova, run 3, subrun 1, event 2\n"
    );
    let none = [
        &["store", "rm", &url, "fermilab/nova"],
        &at[..],
        &["--product", "x"],
    ]
    .concat();
    let message = failure(&none, 3)["message"].as_str().unwrap().to_owned();
    assert!(
        message.contains(
            "no product \"x\" of fermilab/nova, run 3, subrun 1, event 2; existing products: y"
        ),
        "{message}"
    );
    // of two types of a label, one
    let inner =
        |more: &[&'static str]| [&["store", "rm", &url, "fermilab/nova/inner"], more].concat();
    let x = ["--product", "x", "--type"];
    let message = failure(&inner(&[&at[..], &x, &["int"]].concat()), 3)["message"].to_string();
    assert!(
        message.contains("existing products: x#double, x#float, y#int"),
        "{message}"
    );
    assert_eq!(
        good(&inner(&[&at[..], &x, &["float"]].concat())),
        "deleted x#float of fermilab/nova/inner, run 3, subrun 1, event 2\n"
    );
    let events = [&x[..], &["double", "--events"]].concat();
    assert_eq!(
        good(&inner(&events)),
        "deleted 2 products x#double of events of fermilab/nova/inner\n"
    );
    let message = failure(&inner(&events), 3)["message"].to_string();
    assert!(message.contains("they have x#float, y#int"), "{message}");
    failure(&inner(&["--type", "int"]), 2);
    failure(&["store", "sweep", &url, "--nameless", "--age", "3"], 2);
    let told = failure(&["store", "rm", &url, "fermilab", "--run", "1"], 3);
    let message = told["message"].as_str().unwrap();
    assert!(message.contains("the dataset has no runs"), "{message}");

    let told = failure(&["store", "rm", &url, "fermilab/nova", "--product", "x"], 3);
    assert!(
        told["message"].as_str().unwrap().contains("--events"),
        "{told}"
    );
    let of_events = ["--run", "70", "--events", "--product"];
    assert_eq!(
        rm(&[&of_events[..], &["x"]].concat()),
        "deleted 2 products x#double, x#float of events of fermilab/nova, run 70\n"
    );
    let none = [
        &["store", "rm", &url, "fermilab/nova"],
        &of_events[..],
        &["x"],
    ]
    .concat();
    let message = failure(&none, 3)["message"].as_str().unwrap().to_owned();
    assert!(message.ends_with("run 70; they have y"), "{message}");
    failure(&["store", "rm", &url, "fermilab/nova", "--events"], 2);
    let all = [
        "store",
        "rm",
        &url,
        "fermilab/nova/inner",
        "--events",
        "--product",
        "y",
    ];
    assert_eq!(
        document(&all),
        json!({"events_of": "fermilab/nova/inner", "products": 2, "names": ["y#int"]})
    );
    assert_eq!(
        rm(&["--run", "3"]),
        "deleted fermilab/nova, run 3: 1 subrun, 1 event, 1 product\n"
    );
    for slip in [&["fermilab/nova", "--run", "3"][..], &["fermilab/nov"]] {
        failure(&[&["store", "rm", &url], slip].concat(), 3);
    }
    let told = document(&["store", "ls", &url, "fermilab/nova"]);
    assert_eq!(told["runs"][0]["run"], 70);
    failure(&["store", "rm", &url, "/"], 2);
    let told = document(&["store", "rm", &url, "fermilab/nova"]);
    let all = json!({"container": "fermilab/nova", "datasets": 1, "runs": 3, "subruns": 3, "events": 3, "products": 2});
    assert_eq!(told, all);
    let left = document(&["store", "ls", &url]);
    assert_eq!(left["datasets"].as_array().unwrap().len(), 1);
    // a lookup creates nothing
    let other = format!("dir:{}", folder.path().join("other").display());
    failure(&["store", "rm", &other, "x"], 3);
    failure(&["store", "sweep", &other], 3);
    failure(&["store", "moved", &other, "/tmp"], 3);
    failure(&["store", "forget-class", &other, "X"], 3);
    assert!(!folder.path().join("other").exists());
}

#[test]
fn a_deletion_that_was_broken_off_is_ended() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("dir:{}", folder.path().join("store").display());
    let store = DataStore::connect(&url, ObjectOptions::default()).unwrap();
    let dataset = store.root().create_dataset("a/b").unwrap();
    dataset.create(1).unwrap();
    let [live, deleting] =
        [DataSetEntry::live, DataSetEntry::deleting].map(|of| of(dataset.uuid()));
    let backend = store.backend();
    backend
        .replace_dataset(dataset.path(), live, Some(deleting))
        .unwrap();
    drop((dataset, store));
    assert_eq!(document(&["store", "ls", &url, "a"])["datasets"], json!([]));
    assert_eq!(
        good(&["store", "rm", &url, "a/b"]),
        "deleted the rest of a/b\n"
    );
    failure(&["store", "rm", &url, "a/b"], 3);
    let store = DataStore::connect(&url, ObjectOptions::default()).unwrap();
    let again = store.root().create_dataset("a/b").unwrap();
    assert!(again.numbers(.., 10).unwrap().is_empty());
}

#[test]
fn a_redis_does_not_become_a_store_by_being_looked_at() {
    if !can_start_redis() {
        return;
    }
    let servers = femtobarn_testkit::Servers::start("redis");
    let url = format!("redis://127.0.0.1:{}", servers.port);
    for args in [&["store", "ls", &url][..], &["store", "rm", &url, "x"]] {
        for _ in 0..2 {
            let error = failure(args, 3);
            assert_eq!(error["kind"], "not-in-store");
            let message = error["message"].as_str().unwrap();
            assert!(message.contains("no event store"), "{message}");
        }
    }
    let url = format!("{url}/?prefix=x:");
    DataStore::connect(&url, ObjectOptions::default()).unwrap();
    assert_eq!(good(&["store", "ls", &url]), "no datasets\n");
}

/// The advice of a full server's error could not be followed, as connecting was a write.
#[test]
fn a_full_redis_is_emptied_by_rm() {
    if !can_start_redis() {
        return;
    }
    let servers = femtobarn_testkit::Servers::start("redis");
    let url = format!("redis://127.0.0.1:{}", servers.port);
    let store = DataStore::connect(&url, ObjectOptions::default()).unwrap();
    let dataset = store.root().create_dataset("a/b").unwrap();
    dataset.create(1).unwrap();
    for name in ["maxmemory-policy noeviction", "maxmemory 1mb"] {
        let port = servers.port.to_string();
        let mut command = std::process::Command::new("redis-cli");
        command.args(["-p", &port, "CONFIG", "SET"]);
        let done = command.args(name.split(' ')).output().unwrap();
        assert_eq!(done.stdout, b"OK\n");
    }
    let error = dataset.create(2).unwrap_err();
    assert_eq!(error.kind(), "store-full", "{error}");
    assert!(good(&["store", "ls", &url]).contains("a/b"));
    let sizes = document(&["store", "ls", "--sizes", &url]);
    let of_inner = sizes["datasets"][1]["bytes"].as_u64().unwrap();
    assert!((50..5000).contains(&of_inner), "{sizes}");
    let said = good(&["store", "rm", &url, "a/b"]);
    assert!(said.starts_with("deleted a/b: 1 run"), "{said}");
    assert!(!good(&["store", "ls", &url]).contains("a/b"));
    let error = failure(&["store", "rm", &format!("{url}?mode=r"), "a"], 3);
    assert_eq!(error["kind"], "read-only");
}

#[test]
fn a_store_is_no_file() {
    for url in ["dir:/tmp/no/store", "redis://user:hidden@127.0.0.1:1"] {
        for verb in ["ls", "info"] {
            let done = fb(&[verb, url]);
            assert_eq!(done.code, 2);
            assert!(
                done.err.contains("fb store ls") && !done.err.contains("hidden"),
                "{}",
                done.err
            );
        }
    }
}

#[test]
fn a_local_cluster_is_started_and_ended() {
    if !can_start_redis() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let path = path.to_str().unwrap();
    let up = document(&["store", "up", "--nodes", "1", "--replicas", "1", path]);
    let done = std::panic::catch_unwind(|| {
        assert_eq!(up["up"], true);
        let config = up["config"].as_str().unwrap();
        assert!(config.ends_with("/store/store.json"));
        let roles: Vec<_> = up["nodes"].as_array().unwrap().iter().collect();
        assert_eq!(
            (&roles[0]["role"], &roles[1]["role"]),
            (&"master".into(), &"replica".into())
        );
        let text = good(&["store", "status", path]);
        assert!(
            text.contains("replica") && text.contains("connect with"),
            "{text}"
        );
        for more in [&["--nodes", "3"][..], &["--fsync", "always"]] {
            let error = failure(&[&["store", "up", path], more].concat(), 2);
            assert_eq!(error["kind"], "usage");
        }
        let again = document(&["store", "up", path]);
        let addresses = |of: &serde_json::Value| -> Vec<_> {
            let nodes = of["nodes"].as_array().unwrap().iter();
            nodes.map(|node| node["address"].clone()).collect()
        };
        assert_eq!(addresses(&again), addresses(&up));
        for store in [path.to_owned(), format!("dir:{path}")] {
            let error = failure(&["store", "ls", &store], 2);
            let message = error["message"].as_str().unwrap();
            assert!(message.contains(config), "{message}");
        }
    });
    let ended = document(&["store", "down", path]);
    done.unwrap();
    assert_eq!(ended["ended"], 2);
    let status = fb(&["store", "status", path]);
    assert_eq!(status.code, 1);
    assert!(status.out.contains("not running") && status.out.contains("NOT up"));
}

#[test]
fn a_folder_without_a_cluster_is_said_to_have_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    for action in ["down", "status"] {
        let error = failure(&["store", action, path], 3);
        assert_eq!(error["kind"], "not-in-store");
        assert!(
            error["message"]
                .as_str()
                .unwrap()
                .contains("no local cluster")
        );
    }
    let error = failure(&["store", "up", "--server", "no-such-server", path], 3);
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("apt-get install redis-server")
    );
}
