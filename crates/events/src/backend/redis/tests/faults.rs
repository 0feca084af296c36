//! Failures are reported, in time, and without secrets.

use std::net::TcpListener;
use std::sync::atomic::AtomicBool;
use std::thread;

use super::*;
use crate::seal::unseal;
use crate::{ABSENT, DataStore, ObjectOptions, Overwrite, ProductId, QueueMode};

pub fn parent() -> Parent {
    Parent::subrun(Uuid([1; 16]), 1, 2)
}

fn name() -> ProductName {
    ProductName::new("x", "T").unwrap()
}

pub fn batch(events: std::ops::Range<u64>, value: &[u8]) -> Batch {
    let mut batch = Batch::default();
    for event in events {
        batch.create(parent(), event);
        batch.store(parent(), event, &name(), value);
    }
    batch
}

pub fn load(store: &RedisBackend, event: u64) -> Result<Option<Vec<u8>>, EventsError> {
    let name = name();
    let wanted = [Wanted {
        parent: parent(),
        name: &name,
        events: &[event],
    }];
    let mut found = None;
    store.load(&wanted, &mut |_, _, stored| {
        found = stored.map(<[u8]>::to_vec);
        Ok(())
    })?;
    Ok(found)
}

/// Checks that connecting fails with this error kind, and that the message has these words.
pub fn refuses(url: &str, kind: &str, words: &[&str]) {
    let started = Instant::now();
    let error = RedisBackend::connect(url).unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "{error} has no {word:?}");
    }
    for text in [error.to_string(), format!("{error:?}")] {
        assert!(!text.contains("hidden"), "{text}");
    }
    assert!(started.elapsed() < Duration::from_secs(8));
}

#[test]
fn passwords_that_are_wrong_or_missing_are_named_and_not_shown() {
    let Some(servers) = start("redis") else {
        return;
    };
    let port = servers.port;
    let node = format!("127.0.0.1:{port}");
    refuses(
        &format!("redis://:hidden@{node}"),
        "store-denied",
        &[&node, "without any password"],
    );
    tell(port, &["CONFIG", "SET", "requirepass", "right"]);
    refuses(
        &url(port),
        "store-denied",
        &[&node, "NOAUTH", "FEMTOBARN_STORE_PASSWORD"],
    );
    refuses(
        &format!("redis://:hidden@{node}"),
        "store-denied",
        &[&node, "WRONGPASS"],
    );
    refuses(
        &format!("redis://me:hidden@{node}"),
        "store-denied",
        &[&node, "wrong"],
    );
    refuses(
        &format!("redis://me@{node}"),
        "store-denied",
        &["has no password"],
    );
    let file = servers.folder.join("password");
    std::fs::write(&file, "right\n").unwrap();
    let store = RedisBackend::connect(&format!("redis://{node}?password_file={}", file.display()));
    let shown = format!("{:?}", store.unwrap());
    assert!(!shown.contains("right"), "{shown}");
}

#[test]
fn a_server_that_stops_answering_is_an_error_in_time() {
    let Some(mut servers) = start("redis") else {
        return;
    };
    let url = format!(
        "{}?timeout=2&failover=1&connect_timeout=2",
        url(servers.port)
    );
    let store = RedisBackend::connect(&url).unwrap();
    store.write(&batch(0..10, b"x")).unwrap();
    servers.stop_one(0);
    let started = Instant::now();
    for error in [
        store.write(&batch(10..20, b"x")).unwrap_err(),
        load(&store, 3).unwrap_err(),
        store
            .queues()
            .pop("q", Duration::from_millis(1))
            .unwrap_err(),
        store.flush().unwrap_err(),
    ] {
        assert_eq!(error.kind(), "store-unreachable");
        let text = error.to_string();
        assert!(
            text.contains(&format!("127.0.0.1:{}: no answer", servers.port)),
            "{text}"
        );
        assert!(text.contains("no answer"), "{text}");
    }
    assert!(
        started.elapsed() < Duration::from_secs(4 * 8),
        "{:?}",
        started.elapsed()
    );
    servers.continue_one(0);
    assert!(load(&store, 3).unwrap().is_some());
}

#[test]
fn a_server_that_was_started_again_is_used_again() {
    let Some(mut servers) = start("redis") else {
        return;
    };
    let store = RedisBackend::connect(&url(servers.port)).unwrap();
    store.write(&batch(0..1000, b"value")).unwrap();
    // flushed data survive, even if others write all the time
    thread::scope(|scope| {
        let writers: Vec<_> = (1..4u64)
            .map(|n| {
                let store = &store;
                scope.spawn(move || {
                    for at in 0..200 {
                        let from = (n << 32) + at * 100;
                        store.write(&batch(from..from + 100, &[0; 500])).unwrap();
                    }
                })
            })
            .collect();
        let started = Instant::now();
        while !writers.iter().all(|writer| writer.is_finished()) {
            store.flush().unwrap();
        }
        assert!(started.elapsed() < Duration::from_secs(60));
    });
    store.flush().unwrap();
    servers.kill_one(0);
    let found = thread::scope(|scope| {
        let found = scope.spawn(|| load(&store, 999));
        thread::sleep(Duration::from_millis(300));
        servers.start_one(0);
        found.join().unwrap()
    });
    let found = found.unwrap().unwrap();
    assert_eq!(unseal(&found).unwrap().0, b"value");
}

/// Listens on the port of a stopped server and closes each connection; returns how often `asks` connects.
fn tries(port: u16, asks: impl FnOnce()) -> usize {
    let listen = |_| {
        let bound = TcpListener::bind(("127.0.0.1", port));
        if bound.is_err() {
            thread::sleep(Duration::from_millis(100)); // a connection from here may have the port for a moment
        }
        bound.ok()
    };
    let listener = (0..100).find_map(listen).unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let counting = scope.spawn(|| {
            let mut n = 0;
            for client in listener.incoming() {
                drop(client);
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                n += 1;
            }
            n
        });
        asks();
        is_over.store(true, Ordering::Relaxed);
        drop(std::net::TcpStream::connect(("127.0.0.1", port)));
        counting.join().unwrap()
    })
}

#[test]
fn a_server_that_was_given_up_is_not_waited_for_again() {
    let Some(mut servers) = start("redis") else {
        return;
    };
    let port = servers.port;
    let store = RedisBackend::connect(&format!("{}?failover=8", url(port))).unwrap();
    store.write(&batch(0..10, b"value")).unwrap();
    store.flush().unwrap();
    servers.kill_one(0);
    let fails = |result: Result<(), EventsError>| {
        assert_eq!(result.unwrap_err().kind(), "store-unreachable");
    };
    // pauses grow to 0.3 s: in a second, at most ten fit in between
    let first = tries(port, || fails(load(&store, 1).map(drop)));
    assert!(first > 10, "{first}");
    for at in 0..4 {
        let more = batch(at..at + 10, b"more");
        let written = tries(port, || fails(store.write(&more).map(drop)));
        let flushed = tries(port, || fails(store.flush()));
        let loaded = tries(port, || fails(load(&store, at).map(drop)));
        assert!(
            written.max(flushed).max(loaded) <= 10,
            "{written} {flushed} {loaded}"
        );
    }
    servers.start_one(0);
    assert!(load(&store, 9).unwrap().is_some());
    // from now on, it is waited for again
    servers.kill_one(0);
    let again = tries(port, || fails(load(&store, 1).map(drop)));
    assert!(again > 10, "{again}");
}

/// Sets the memory limit of a server, without evicting anything.
fn limit(port: u16, bytes: &str) {
    for (name, value) in [("maxmemory-policy", "noeviction"), ("maxmemory", bytes)] {
        assert_eq!(tell(port, &["CONFIG", "SET", name, value]), "OK");
    }
}

/// Fills a dataset until the server is out of memory; returns the number of events, and the error.
fn fill(store: &DataStore, path: &str) -> (u64, EventsError) {
    let dataset = store.root().create_dataset(path).unwrap();
    dataset.create(1).unwrap().create(2).unwrap();
    let parent = Parent::subrun(dataset.uuid(), 1, 2);
    let mut n = 0;
    loop {
        let mut batch = Batch::default();
        for event in n..n + 1000 {
            batch.create(parent, event);
            batch.store(parent, event, &name(), &[7; 1000]);
        }
        match store.write(&batch) {
            Ok(_) => n += 1000,
            Err(error) => return (n, error),
        }
        assert!(n < 100_000);
    }
}

/// Regression: clients could not connect to a full server or remove datasets, although the message advised to remove
/// datasets.
#[test]
fn a_full_server_is_read_and_emptied_and_takes_writes_again() {
    let Some(servers) = start("redis") else {
        return;
    };
    let url = url(servers.port);
    let connect = || DataStore::connect(&url, ObjectOptions::default()).unwrap();
    let store = connect();
    store.create_queue("q").unwrap();
    let queue = |mode| store.open_queue("q", mode).unwrap();
    queue(QueueMode::Producer).push(b"x").unwrap();
    store.root().create_dataset("small").unwrap();
    limit(servers.port, "20mb");
    let (n, error) = fill(&store, "large");
    assert!(n > 0);
    assert_eq!(error.kind(), "store-full", "{error}");
    let node = format!("127.0.0.1:{}", servers.port);
    let words = [
        &node,
        "OOM",
        " used, maxmemory is 20.00M",
        "fb store rm",
        "CONFIG SET maxmemory",
    ];
    for word in words {
        assert!(error.to_string().contains(word), "{error} has no {word:?}");
    }
    // commands that need memory fail from now on
    limit(servers.port, "1mb");
    let refused = store.root().create_dataset("other").unwrap_err();
    assert_eq!(refused.kind(), "store-full", "{refused}");
    for store in [
        connect(),
        DataStore::connect_to_read(&url, ObjectOptions::default()).unwrap(),
    ] {
        let dataset = store.root().dataset("large").unwrap();
        let subrun = dataset.get(1).unwrap().get(2).unwrap();
        let event = subrun.get(n - 1).unwrap();
        assert_eq!(event.load(&name()).unwrap().unwrap(), [7; 1000]);
    }
    // taking values of a queue, and putting them back
    let mut consumer = queue(QueueMode::Consumer);
    assert_eq!(consumer.pop(&|| true).unwrap().unwrap(), b"x");
    consumer.put_back(b"x").unwrap();
    assert_eq!(consumer.len().unwrap(), 1);
    let mut producer = queue(QueueMode::Producer);
    let refused = producer.push(b"y").unwrap_err();
    assert_eq!(refused.kind(), "store-full", "{refused}");
    producer.close().unwrap();
    assert_eq!(consumer.pop(&|| true).unwrap().unwrap(), b"x");
    assert_eq!(consumer.pop(&|| true).unwrap(), None);
    consumer.close().unwrap();
    assert!(store.destroy_queue("q").unwrap());
    let store = connect();
    store.root().create_dataset("small").unwrap();
    store.root().dataset("large").unwrap().remove().unwrap();
    store.flush().unwrap();
    let left = store
        .root()
        .datasets(None)
        .map(|one| one.unwrap().path().to_string());
    assert_eq!(left.collect::<Vec<_>>(), ["small"]);
    limit(servers.port, "20mb");
    // memory is freed a little later (UNLINK)
    let started = Instant::now();
    while fill(&store, "large").0 <= n / 2 {
        assert!(started.elapsed() < Duration::from_secs(20));
        thread::sleep(Duration::from_millis(100));
    }
    // or it gets more memory
    limit(servers.port, "40mb");
    let (more, _) = fill(&store, "more");
    assert!(more > n / 2, "{more} of {n}");
}

/// Regression: a Redis with eviction, as for caches, deleted products without a message when it was full.
#[test]
fn a_server_that_deletes_products_when_it_is_full_is_not_written() {
    let Some(servers) = start("redis") else {
        return;
    };
    let url = url(servers.port);
    let store = RedisBackend::connect(&url).unwrap();
    let set = |policy: &str, limit: &str| {
        for (name, value) in [("maxmemory-policy", policy), ("maxmemory", limit)] {
            assert_eq!(tell(servers.port, &["CONFIG", "SET", name, value]), "OK");
        }
    };
    for (policy, limit) in [
        ("allkeys-lru", "0"),
        ("volatile-ttl", "100mb"),
        ("noeviction", "100mb"),
    ] {
        set(policy, limit);
        RedisBackend::connect(&url).unwrap();
    }
    set("allkeys-random", "100mb");
    let words = [
        &format!("127.0.0.1:{}", servers.port),
        "maxmemory_policy:allkeys-random",
        "CONFIG SET maxmemory-policy noeviction",
        "mode=r",
    ];
    refuses(&url, "store-evicts", &words);
    // existing clients notice it with their next connection
    tell(servers.port, &["CLIENT", "KILL", "TYPE", "normal"]);
    let error = store.write(&batch(0..1, b"x")).unwrap_err();
    assert_eq!(error.kind(), "store-evicts", "{error}");
    // reading is allowed, with a notice; so are servers that do not report their policy
    told();
    RedisBackend::connect(&format!("{url}?mode=r")).unwrap();
    let told = told();
    assert!(told.contains(words[0]) && told.contains(words[1]), "{told}");
    let rights = ["ACL", "SETUSER", "me", "on", ">x", "~*", "+@all", "-info"];
    assert_eq!(tell(servers.port, &rights), "OK");
    RedisBackend::connect(&url.replace("127.", "me:x@127.")).unwrap();
}

/// Regression: the ID and the layout of a store that could not be created stayed on the server. The next attempt,
/// without a location for objects, took them for an existing store.
#[test]
fn nothing_is_left_of_a_store_that_is_not_made() {
    let Some(servers) = start("redis") else {
        return;
    };
    let url = url(servers.port);
    let fails = |url: &str, options: ObjectOptions, kind: &str| {
        let error = DataStore::connect(url, options).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert_eq!(tell(servers.port, &["DBSIZE"]), "0", "{error}");
    };
    let folder = tempfile::tempdir().unwrap();
    let beside = |base: &str| ObjectOptions {
        base: Some(base.into()),
        ..ObjectOptions::default()
    };
    let place = folder.path().join("objects").display().to_string();
    let other = format!("dir:{}", folder.path().join("other").display());
    drop(DataStore::connect(&other, beside(&place)).unwrap());
    fails(&url, beside(&place), "objects-of-others");
    let nowhere = ObjectOptions {
        over: Some(9),
        ..ObjectOptions::default()
    };
    fails(&url, nowhere.clone(), "usage");
    let config = folder.path().join("store.json");
    let text = format!(r#"{{"url": "{url}", "objects": "{place}"}}"#);
    std::fs::write(&config, text).unwrap();
    let config = config.display().to_string();
    fails(&config, ObjectOptions::default(), "objects-of-others");
    let replicas = format!("{url}?write_concern=replicas:1&timeout=0.2");
    fails(&replicas, ObjectOptions::default(), "too-few-replicas");
    for missing in ["-hget", "-hsetnx"] {
        let rights = ["ACL", "SETUSER", "me", "reset", "on", ">x", "~*", "+@all"];
        let words: Vec<_> = rights.into_iter().chain([missing]).collect();
        assert_eq!(tell(servers.port, &words), "OK");
        let url = url.replace("127.", "me:x@127.");
        fails(&url, ObjectOptions::default(), "store-denied");
    }
    // with its own location it is created
    let place = folder.path().join("own").display().to_string();
    let store = DataStore::connect(&url, beside(&place)).unwrap();
    store.root().create_dataset("a").unwrap();
}

#[test]
fn each_server_of_a_cluster_is_asked_whether_it_deletes_products() {
    let Some(servers) = start("redis-cluster") else {
        return;
    };
    let store = RedisBackend::connect(&url(servers.port)).unwrap();
    let masters = store.client.topology().masters.clone();
    let last = masters.iter().find(|at| at.port != servers.port).unwrap();
    for (name, value) in [("maxmemory-policy", "allkeys-lfu"), ("maxmemory", "1gb")] {
        assert_eq!(tell(last.port, &["CONFIG", "SET", name, value]), "OK");
    }
    let words = [last.to_string(), "allkeys-lfu".into()];
    refuses(
        &url(servers.port),
        "store-evicts",
        &words.each_ref().map(String::as_str),
    );
    // an existing store stays; another one is not created
    let another = format!("{}?prefix=new:", url(servers.port));
    refuses(&another, "store-evicts", &[]);
    let set = ["CONFIG", "SET", "maxmemory", "0"];
    assert_eq!(tell(last.port, &set), "OK");
    let error = RedisBackend::connect(&format!("{another}&mode=r")).unwrap_err();
    assert_eq!(error.kind(), "not-in-store", "{error}");
}

#[test]
fn a_replica_can_be_read_and_not_written() {
    let Some(servers) = start("redis") else {
        return;
    };
    let Some(replica) = start("redis") else {
        return;
    };
    let store = RedisBackend::connect(&url(servers.port)).unwrap();
    store.write(&batch(0..10, b"x")).unwrap();
    tell(
        servers.port,
        &["CONFIG", "SET", "repl-diskless-sync-delay", "0"],
    );
    tell(
        replica.port,
        &["REPLICAOF", "127.0.0.1", &servers.port.to_string()],
    );
    let safe = RedisBackend::connect(&format!(
        "{}?write_concern=replicas:1&timeout=20",
        url(servers.port)
    ));
    safe.unwrap().write(&batch(10..20, b"x")).unwrap();
    refuses(
        &url(replica.port),
        "read-only",
        &["READONLY", "connect to its master"],
    );
    let reader = RedisBackend::connect(&format!("{}?mode=r", url(replica.port))).unwrap();
    assert!(load(&reader, 19).unwrap().is_some());
    let error = reader.write(&batch(0..1, b"x")).unwrap_err();
    assert_eq!(error.kind(), "read-only");
    let few = RedisBackend::connect(&format!(
        "{}?write_concern=replicas:2&timeout=1",
        url(servers.port)
    ));
    // reading does not wait for replicas
    let few = few.unwrap();
    assert!(load(&few, 19).unwrap().is_some());
    let error = few.write(&batch(20..30, b"x")).unwrap_err();
    assert_eq!(error.kind(), "too-few-replicas");
    assert!(error.to_string().contains("1 of 2 replicas"), "{error}");
}

#[test]
fn what_others_have_left_in_the_store_is_an_error() {
    let Some(servers) = start("redis") else {
        return;
    };
    let store = RedisBackend::connect(&url(servers.port)).unwrap();
    store.write(&batch(0..3, b"a value")).unwrap();
    let text = |key: Vec<u8>| String::from_utf8(key).unwrap();
    let keys = store.keys(&parent());
    let event = String::from_utf8(1u64.to_be_bytes().to_vec()).unwrap();
    tell(
        servers.port,
        &["HSET", &text(keys.products(&name())), &event, "cut"],
    );
    let stored = load(&store, 1).unwrap().unwrap();
    assert!(unseal(&stored).is_err());
    tell(
        servers.port,
        &["ZADD", &text(keys.children()), "0", "no number"],
    );
    let scan = Scan {
        parent: parent(),
        from: 0,
        limit: 10,
    };
    let error = store.numbers(&[scan]).unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string().contains("no number")),
        ("key-damaged", true)
    );
    tell(servers.port, &["SADD", &text(keys.names()), "no name"]);
    assert_eq!(
        store.names(&parent(), 1, None).unwrap_err().kind(),
        "key-damaged"
    );
    // deleting does not require that the value can be parsed
    store.remove_products(&parent(), 1, None).unwrap();
    for key in [keys.children(), keys.products(&name())] {
        tell(servers.port, &["SET", &text(key), "something else"]);
    }
    let errors = [
        store.numbers(&[scan]).unwrap_err(),
        store.contains(&[(parent(), &[1])]).unwrap_err(),
        load(&store, 1).unwrap_err(),
        store.write(&batch(0..1, b"x")).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), "key-damaged", "{error}");
        assert!(error.to_string().contains("another prefix"), "{error}");
    }
    tell(servers.port, &["HSET", "{store}h", "layout", "99"]);
    refuses(&url(servers.port), "store-layout", &["layout 1 or 2", "99"]);
    let error = RedisBackend::connect(&format!("{}?mode=r&prefix=none", url(servers.port)));
    assert_eq!(error.unwrap_err().kind(), "not-in-store");
}

/// Version 0.1 of femtobarn creates stores of the first layout, and does not support compression.
#[test]
fn only_stores_of_the_second_layout_have_compressed_products() {
    let Some(servers) = start("redis") else {
        return;
    };
    let bytes_of = |layout: &str| {
        let url = format!("{}?prefix={layout}", url(servers.port));
        drop(RedisBackend::connect(&url).unwrap());
        tell(
            servers.port,
            &["HSET", &format!("{layout}{{store}}h"), "layout", layout],
        );
        let store = DataStore::new(RedisBackend::connect(&url).unwrap());
        let dataset = store.root().create_dataset("x").unwrap();
        let value = vec![7; 10_000];
        dataset.store(&name(), &value, Overwrite::Replace).unwrap();
        assert_eq!(dataset.load(&name()).unwrap(), Some(value));
        assert_eq!(store.verify().unwrap().n_damaged, 0);
        let place = dataset.descriptor().placed_by();
        store.backend().stored_bytes(&place).unwrap()
    };
    assert!(bytes_of("1") > 10_000);
    assert!(bytes_of("2") < 1_000);
}

/// Regression: a damaged name of a product prevented the deletion of a dataset.
#[test]
fn a_dataset_with_damaged_names_is_deleted() {
    let Some(servers) = start("redis") else {
        return;
    };
    let backend = RedisBackend::connect(&url(servers.port)).unwrap();
    let store = DataStore::new(backend.clone());
    let dataset = store.root().create_dataset("a").unwrap();
    let subrun = dataset.create(1).unwrap().create(2).unwrap();
    for item in [&*dataset, &subrun] {
        let put = item.store(&name(), b"x", Overwrite::Replace);
        put.unwrap();
        let keys = backend.keys(&item.descriptor().placed_by());
        let names = String::from_utf8(keys.names()).unwrap();
        tell(servers.port, &["SADD", &names, "no name"]);
        assert_eq!(item.names(None).unwrap_err().kind(), "key-damaged");
    }
    store.root().delete_dataset("a").unwrap();
    assert!(store.root().find_dataset("a").unwrap().is_none());
    let left = tell(servers.port, &["KEYS", "*"]);
    assert!(!left.contains("}n") && !left.contains("}p"), "{left}");
}

/// A deletion removes the names of products last. So another writer may store a name before that and its product after
/// it.
#[test]
fn a_product_whose_name_is_gone_is_removed_with_what_has_no_dataset() {
    let Some(servers) = start("redis") else {
        return;
    };
    let store = RedisBackend::connect(&format!("{}?prefix=a*:", url(servers.port))).unwrap();
    let other = RedisBackend::connect(&format!("{}?prefix=aa:", url(servers.port))).unwrap();
    for store in [&store, &other] {
        store.write(&batch(0..3, b"x")).unwrap();
    }
    let names = String::from_utf8(store.keys(&parent()).names()).unwrap();
    assert_eq!(tell(servers.port, &["DEL", &names]), "1");
    let removed = store.remove_nameless().unwrap();
    assert!(removed.iter().eq([parent().dataset].iter()));
    assert_eq!(tell(servers.port, &["KEYS", "a[*]:*"]), "a*:{store}h");
    assert!(load(&other, 1).unwrap().is_some());
}

#[test]
fn what_is_there_is_kept_and_named_also_with_replicas() {
    let Some(servers) = start("redis") else {
        return;
    };
    let store = RedisBackend::connect(&url(servers.port)).unwrap();
    let mut batch = Batch::new(crate::Overwrite::Keep);
    for value in [b"1", b"2"] {
        batch.store(parent(), ABSENT, &name(), value);
    }
    let kept = store.write(&batch).unwrap().kept;
    let id = ProductId {
        container: parent().descriptor(),
        name: name(),
    };
    assert_eq!(kept, [id]);
}

/// Loads events of 1000 bytes each; fails if an event comes twice, or differs from the stored one.
fn load_each_once(store: &RedisBackend, n: u64) -> Result<(), EventsError> {
    let (name, events) = (name(), (0..n).collect::<Vec<_>>());
    let wanted = [Wanted {
        parent: parent(),
        name: &name,
        events: &events,
    }];
    let mut visits = vec![0; events.len()];
    store.load(&wanted, &mut |_, e, stored| {
        visits[e] += 1;
        assert_eq!(unseal(stored.unwrap()).unwrap().0, [7; 1000]);
        Ok(())
    })?;
    assert!(visits.iter().all(|visits| *visits == 1));
    Ok(())
}

#[test]
fn connections_that_break_in_the_middle_are_made_anew() {
    let Some(servers) = start("redis") else {
        return;
    };
    let Some(mut ways) = femtobarn_testkit::Ways::start() else {
        return;
    };
    let way = ways.before(servers.port);
    let url = format!("{}?timeout=3&failover=2", url(way));
    let store = RedisBackend::connect(&url).unwrap();
    store.write(&batch(0..20_000, &[7; 1000])).unwrap();
    load_each_once(&store, 20_000).unwrap();
    // each connection ends after so many bytes, some of them within a reply
    ways.poison(way, "limit_data", &[("bytes", 3_300_000)]);
    load_each_once(&store, 20_000).unwrap();
    ways.heal(way);
    ways.poison_stream(way, "limit_data", "upstream", &[("bytes", 2_700_000)]);
    let keep = |value| {
        let mut batch = Batch::new(crate::Overwrite::Keep);
        for event in 0..20_000 {
            batch.store(parent(), 1 << 32 | event, &name(), &[value; 1000]);
        }
        store.write(&batch).unwrap().kept.len()
    };
    // data that were sent twice did not exist before
    assert_eq!(keep(8), 0);
    ways.heal(way);
    assert_eq!(keep(9), 20_000);
    // nothing arrives any more, while the connection stays open
    ways.poison(way, "timeout", &[("timeout", 0)]);
    let started = Instant::now();
    let error = load_each_once(&store, 20_000).unwrap_err();
    assert_eq!(error.kind(), "store-unreachable");
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[test]
fn values_that_are_too_large_are_named() {
    let Some(servers) = start("redis") else {
        return;
    };
    let store = RedisBackend::connect(&format!("{}?failover=5", url(servers.port))).unwrap();
    // values above the default limit of servers are not sent
    let large = vec![7; femtobarn_redis::LONGEST_VALUE + 1];
    let error = store.write(&batch(5..6, &large)).unwrap_err();
    drop(large);
    assert_eq!(error.kind(), "product-too-large", "{error}");
    let text = error.to_string();
    for word in ["\"x#T\" of run 1, subrun 2, event 5", "objects=", "536870"] {
        assert!(text.contains(word), "{text}");
    }
    // a lower limit of the server is an immediate error without retries
    tell(
        servers.port,
        &["CONFIG", "SET", "proto-max-bulk-len", "1mb"],
    );
    let started = Instant::now();
    for size in [(1 << 20) + 1, 100 << 20] {
        let mut all = batch(0..3, b"small");
        all.store(parent(), 9, &name(), &vec![7; size]);
        let error = store.write(&all).unwrap_err();
        assert_eq!(error.kind(), "product-too-large", "{error}");
        let text = error.to_string();
        for word in ["event 9 has", "proto-max-bulk-len", "objects="] {
            assert!(text.contains(word), "{text}");
        }
    }
    let error = store
        .queues()
        .create("q")
        .and_then(|_| store.queues().push("q", &vec![7; 2 << 20]));
    assert_eq!(error.unwrap_err().kind(), "product-too-large");
    assert!(started.elapsed() < Duration::from_secs(5));
    store.write(&batch(0..3, &[7; 1 << 19])).unwrap();
}
