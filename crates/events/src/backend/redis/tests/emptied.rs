//! Servers that come back without their data.

use super::faults::{batch, load, parent};
use super::*;

/// Kills servers, removes their files, and starts them again.
fn restart_empty(servers: &mut Servers, numbers: &[usize]) {
    for number in numbers {
        servers.kill_one(*number);
        let data = &servers.data[*number];
        let _ = std::fs::remove_file(data.join("appendonly.aof")); // before version 7
        let _ = std::fs::remove_dir_all(data.join("appendonlydir"));
    }
    numbers.iter().for_each(|number| servers.start_one(*number));
}

/// Regression: a batch to a Redis that was restarted without its data reported success, in a
/// dataset that did not exist any more.
#[test]
fn a_redis_that_was_restarted_without_its_data_is_not_written() {
    let Some(mut servers) = start("redis") else {
        return;
    };
    let url = url(servers.port);
    let store = RedisBackend::connect(&url).unwrap();
    let reader = RedisBackend::connect(&format!("{url}?mode=r")).unwrap();
    store.write(&batch(0..10, b"x")).unwrap();
    // Redis may answer before it has written its log
    store.flush().unwrap();
    // with its data it is the same store
    servers.kill_one(0);
    servers.start_one(0);
    store.write(&batch(10..20, b"x")).unwrap();
    assert!(load(&reader, 19).unwrap().is_some());

    restart_empty(&mut servers, &[0]);
    let is_told = || {
        for error in [
            store.flush().unwrap_err(),
            store.write(&batch(20..30, b"x")).unwrap_err(),
            store.note("a", b"b").unwrap_err(),
            store.queues().create("q").unwrap_err(),
            load(&store, 3).unwrap_err(),
            load(&reader, 3).unwrap_err(),
        ] {
            assert_eq!(error.kind(), "store-emptied", "{error}");
            assert!(error.to_string().contains("without its data"), "{error}");
        }
    };
    is_told();
    assert_eq!(tell(servers.port, &["DBSIZE"]), "0");
    // a store that others create there is a different one
    let other = RedisBackend::connect(&url).unwrap();
    other.write(&batch(0..1, b"y")).unwrap();
    is_told();
    let found = other.contains(&[(parent(), &[0, 20])]).unwrap().concat();
    assert_eq!(found, [true, false]);
}

/// Regression: without a log, flushing asked no server, and reported success after data were lost.
#[test]
fn flushing_asks_servers_without_a_log_whether_they_have_their_data() {
    let Some(mut servers) = start("redis-no-log") else {
        return;
    };
    let store = RedisBackend::connect(&url(servers.port)).unwrap();
    assert!(!store.is_durable());
    let other = RedisBackend::connect(&url(servers.port)).unwrap();
    let restart = |servers: &mut Servers| {
        servers.kill_one(0);
        servers.start_one(0);
    };
    store.write(&batch(0..10, b"x")).unwrap();
    store.flush().unwrap();
    tell(servers.port, &["SAVE"]);
    // the data in the snapshot survive; later data are lost, and the store reports that loss once
    restart(&mut servers);
    store.flush().unwrap();
    store.write(&batch(10..20, b"x")).unwrap();
    restart(&mut servers);
    let error = store.flush().unwrap_err();
    assert_eq!(error.kind(), "store-emptied", "{error}");
    assert!(error.to_string().contains("last snapshot"), "{error}");
    assert!(load(&store, 5).unwrap().is_some() && load(&store, 15).unwrap().is_none());
    store.flush().unwrap();
    other.flush().unwrap();
    // while connections stay open
    tell(servers.port, &["FLUSHALL"]);
    assert_eq!(store.flush().unwrap_err().kind(), "store-emptied");
    std::fs::remove_file(servers.data[0].join("dump.rdb")).unwrap();
    restart(&mut servers);
    assert_eq!(store.flush().unwrap_err().kind(), "store-emptied");
}

/// Stores without an ID get one when they are written, and are read without one.
#[test]
fn a_store_without_a_number_gets_one() {
    let Some(servers) = start("redis") else {
        return;
    };
    let url = url(servers.port);
    tell(servers.port, &["HSET", "{store}h", "layout", "1"]);
    let reader = RedisBackend::connect(&format!("{url}?mode=r")).unwrap();
    assert_eq!(tell(servers.port, &["HEXISTS", "{store}h", "id"]), "0");
    let store = RedisBackend::connect(&url).unwrap();
    assert_eq!(tell(servers.port, &["HGET", "{store}h", "id"]).len(), 36);
    tell(servers.port, &["CLIENT", "KILL", "TYPE", "normal"]);
    store.write(&batch(0..1, b"x")).unwrap();
    assert!(load(&reader, 0).unwrap().is_some());
}

#[test]
fn servers_of_a_cluster_that_come_back_empty_are_told() {
    let Some(mut servers) = start("redis-cluster") else {
        return;
    };
    let url = format!("{}?failover=8&prefix=", url(servers.port));
    let open = |prefix: &str| RedisBackend::connect(&format!("{url}{prefix}")).unwrap();
    let slot = Tagged::store("").slot;
    for has_mark in [false, true] {
        let store = open(if has_mark { "a:" } else { "b:" });
        let topology = store.client.topology();
        let first = topology.master(slot).unwrap().clone();
        let is_wanted = |run: &u64| {
            let at = topology.master(store.keys(&Parent::run(Uuid([1; 16]), *run)).slot);
            (at == Some(&first)) == has_mark
        };
        let run = (0..).find(is_wanted).unwrap();
        let write = |number| {
            let mut batch = Batch::default();
            batch.create(Parent::run(Uuid([1; 16]), run), number);
            store.write(&batch)
        };
        write(1).unwrap();
        let parent = Parent::run(Uuid([1; 16]), run);
        let master = topology.master(store.keys(&parent).slot).unwrap();
        // its replica would replace it
        let replicas = tell(master.port, &["INFO", "replication"]);
        let replica = replicas.split("port=").nth(1).unwrap();
        let replica: u16 = replica.split(',').next().unwrap().parse().unwrap();
        let number = |port| servers.servers.iter().position(|at| *at == port).unwrap();
        let both = [number(replica), number(master.port)];
        restart_empty(&mut servers, &both);
        let error = write(2).unwrap_err();
        let kind = if has_mark {
            "store-emptied"
        } else {
            "store-unreachable"
        };
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains("without its data"), "{error}");
        // a new connection continues without the lost data
        let mut batch = Batch::default();
        batch.create(parent, 3);
        open("c:").write(&batch).unwrap();
    }
}
