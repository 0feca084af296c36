//! A cluster in use, in which slots move and servers fail or stop: no acknowledged data is lost.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::thread;

use super::*;
use crate::Popped;
use crate::seal::unseal;

const EVENTS: u64 = 20;

fn name() -> ProductName {
    ProductName::new("x", "T").unwrap()
}

fn parents() -> Vec<Parent> {
    (0..12)
        .map(|n| Parent::subrun(Uuid([2; 16]), 1, n))
        .collect()
}

fn value(parent: &Parent, event: u64) -> Vec<u8> {
    format!("{} {event} ", parent.subrun)
        .repeat(20)
        .into_bytes()
}

/// Writes batches to some parents until it is told to stop or a write fails. Returns the acknowledged containers.
fn write_until(
    store: &RedisBackend,
    thread: u64,
    is_over: &AtomicBool,
    failed: &AtomicUsize,
) -> Vec<(Parent, u64)> {
    let mut acknowledged = Vec::new();
    let mut n = 0;
    while !is_over.load(Ordering::Relaxed) {
        let mut batch = Batch::default();
        let mut in_batch = Vec::new();
        for parent in parents() {
            for event in (0..EVENTS).map(|event| (n * EVENTS + event) * 8 + thread) {
                batch.create(parent, event);
                batch.store(parent, event, &name(), &value(&parent, event));
                in_batch.push((parent, event));
            }
        }
        n += 1;
        match store.write(&batch) {
            Ok(_) => acknowledged.extend(in_batch),
            Err(error) => {
                eprintln!("not acknowledged: {error}");
                failed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
    acknowledged
}

/// Checks that every container has its product; returns their number.
fn check_all(store: &RedisBackend) -> usize {
    let mut n = 0;
    for parent in parents() {
        let scan = Scan {
            parent,
            from: 0,
            limit: usize::MAX,
        };
        let events = store.numbers(&[scan]).unwrap().remove(0);
        let name = name();
        let wanted = [Wanted {
            parent,
            name: &name,
            events: &events,
        }];
        let loaded = store.load(&wanted, &mut |_, e, stored| {
            let event = events[e];
            let stored = stored.unwrap_or_else(|| panic!("{parent:?} {event} has no product"));
            assert_eq!(unseal(stored).unwrap().0, value(&parent, event));
            n += 1;
            Ok(())
        });
        loaded.unwrap();
    }
    n
}

fn check_acknowledged(store: &RedisBackend, acknowledged: &[(Parent, u64)]) {
    for parent in parents() {
        let events = acknowledged.iter().filter(|(of, _)| *of == parent);
        let events: Vec<_> = events.map(|(_, event)| *event).collect();
        let there = store.contains(&[(parent, &events)]).unwrap().concat();
        let n_lost = there.iter().filter(|there| !**there).count();
        assert_eq!(n_lost, 0, "of {} events of {parent:?}", events.len());
    }
    // some may have been written twice
    let mut acknowledged = acknowledged.to_vec();
    acknowledged.sort_unstable();
    acknowledged.dedup();
    assert!(check_all(store) >= acknowledged.len());
}

/// Moves the slot of a parent to another master, key by key.
fn move_slot(store: &RedisBackend, parent: &Parent, turn: usize) {
    let topology = store.client.topology();
    let slot = store.keys(parent).slot;
    let masters = &topology.masters;
    // the owner according to the servers: another thread may have moved the slot
    let fresh = Client::connect(store.client.options().clone(), Arc::new(())).unwrap();
    let from = fresh.topology().master(slot).unwrap().clone();
    let others: Vec<_> = masters.iter().filter(|at| **at != from).collect();
    move_slot_to(slot, &from, others[turn % others.len()]);
}

fn move_slot_to(slot: u16, from: &Address, to: &Address) {
    let id = |address: &Address| tell(address.port, &["CLUSTER", "MYID"]);
    let (slot, from_id, to_id) = (slot.to_string(), id(from), id(to));
    assert_eq!(
        tell(
            to.port,
            &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]
        ),
        "OK"
    );
    assert_eq!(
        tell(
            from.port,
            &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]
        ),
        "OK"
    );
    let (host, port) = (to.host.as_str(), to.port.to_string());
    loop {
        let keys = tell(from.port, &["CLUSTER", "GETKEYSINSLOT", &slot, "1"]);
        if keys.is_empty() {
            break;
        }
        thread::sleep(Duration::from_millis(15));
        let moved = tell(from.port, &["MIGRATE", host, &port, &keys, "0", "10000"]);
        assert!(moved == "OK" || moved == "NOKEY", "{moved}");
    }
    for at in [to, from] {
        assert_eq!(
            tell(at.port, &["CLUSTER", "SETSLOT", &slot, "NODE", &to_id]),
            "OK"
        );
    }
}

#[test]
fn slots_that_move_while_they_are_used_lose_nothing() {
    let Some(servers) = start("redis-cluster") else {
        return;
    };
    let store = RedisBackend::connect(&url(servers.port)).unwrap();
    assert!(store.queues().create("q").unwrap());
    let producer = Uuid([9; 16]);
    assert!(
        store
            .queues()
            .produce("q", producer, Duration::from_secs(600))
            .unwrap()
    );
    let (is_over, failed) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (pushed, popped) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let acknowledged = thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|thread| {
                let (store, is_over, failed) = (&store, &is_over, &failed);
                scope.spawn(move || write_until(store, thread, is_over, failed))
            })
            .collect();
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                check_all(&store);
            }
        });
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let n = pushed.fetch_add(1, Ordering::Relaxed);
                assert!(store.queues().push("q", n.to_string().as_bytes()).unwrap());
            }
            store.queues().end_producing("q", producer).unwrap();
        });
        scope.spawn(|| {
            loop {
                match store.queues().pop("q", Duration::from_secs(60)).unwrap() {
                    Popped::Value(value) => popped.lock().unwrap().push(value),
                    Popped::Ended => break,
                    other => panic!("{other:?}"),
                }
            }
        });
        for turn in 0..3 {
            for parent in parents() {
                move_slot(&store, &parent, turn);
            }
        }
        is_over.store(true, Ordering::Relaxed);
        let all = writers.into_iter().map(|writer| writer.join().unwrap());
        all.flatten().collect::<Vec<_>>()
    });
    assert_eq!(failed.into_inner(), 0);
    eprintln!(
        "{} events were acknowledged while 36 slots moved",
        acknowledged.len()
    );
    check_acknowledged(&store, &acknowledged);
    // from a client without earlier knowledge
    let fresh = RedisBackend::connect(&url(servers.servers[5])).unwrap();
    check_acknowledged(&fresh, &acknowledged);
    let all = popped.into_inner().unwrap().into_iter();
    let all: Vec<_> = all.map(|value| String::from_utf8(value).unwrap()).collect();
    let expected: Vec<_> = (0..pushed.into_inner()).map(|n| n.to_string()).collect();
    assert_eq!(all, expected);
}

/// A server that is a master according to another.
fn a_master(servers: &Servers) -> usize {
    let is_master = |port: &u16| tell(*port, &["ROLE"]).starts_with("master");
    servers.servers.iter().position(is_master).unwrap()
}

/// Writes with a write concern while something happens to a master.
fn acknowledged_while(
    servers: &mut Servers,
    store: &RedisBackend,
    happens: impl FnOnce(&mut Servers),
) -> Vec<(Parent, u64)> {
    let (is_over, failed) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|thread| {
                let (is_over, failed) = (&is_over, &failed);
                scope.spawn(move || write_until(store, thread, is_over, failed))
            })
            .collect();
        thread::sleep(Duration::from_secs(1));
        happens(servers);
        thread::sleep(Duration::from_secs(1));
        is_over.store(true, Ordering::Relaxed);
        let all = writers.into_iter().map(|writer| writer.join().unwrap());
        all.flatten().collect::<Vec<_>>()
    })
}

#[test]
fn a_master_that_is_killed_loses_nothing_that_replicas_had() {
    let Some(mut servers) = start("redis-cluster") else {
        return;
    };
    let options = "?write_concern=replicas:1&failover=20";
    let store = RedisBackend::connect(&format!("{}{options}", url(servers.port))).unwrap();
    let mut all = Vec::new();
    for _ in 0..2 {
        let killed = a_master(&servers);
        all.extend(acknowledged_while(&mut servers, &store, |servers| {
            servers.kill_one(killed);
            // its replica replaces it, and has no replica itself until the old one is back
            thread::sleep(Duration::from_secs(6));
            servers.start_one(killed);
            thread::sleep(Duration::from_secs(3));
        }));
        eprintln!("{} events were acknowledged", all.len());
        check_acknowledged(&store, &all);
    }
    store.flush().unwrap();
}

#[test]
fn the_place_of_a_master_that_stops_is_taken() {
    let Some(mut servers) = start("redis-cluster") else {
        return;
    };
    let ports = servers.servers[1..]
        .iter()
        .map(|port| format!("127.0.0.1:{port}"));
    let hosts = ports.collect::<Vec<_>>().join(",");
    let store = RedisBackend::connect(&format!("redis://{hosts}/?timeout=30&failover=20")).unwrap();
    let stopped = a_master(&servers);
    let started = Instant::now();
    let acknowledged = acknowledged_while(&mut servers, &store, |servers| {
        servers.stop_one(stopped);
        thread::sleep(Duration::from_secs(8));
    });
    assert!(
        started.elapsed() < Duration::from_secs(25),
        "{:?}",
        started.elapsed()
    );
    assert!(!acknowledged.is_empty());
    // it still does not answer; without a write concern, some recent data may be lost, but none of these
    let later: Vec<_> = parents().iter().map(|parent| (*parent, 1 << 40)).collect();
    let mut batch = Batch::default();
    for (parent, event) in &later {
        batch.create(*parent, *event);
        batch.store(*parent, *event, &name(), &value(parent, *event));
    }
    store.write(&batch).unwrap();
    for (parent, event) in &later {
        assert_eq!(
            store.contains(&[(*parent, &[*event])]).unwrap().concat(),
            [true]
        );
        let (name, events) = (name(), [*event]);
        let wanted = [Wanted {
            parent: *parent,
            name: &name,
            events: &events,
        }];
        let loaded = store.load(&wanted, &mut |_, _, stored| {
            assert_eq!(unseal(stored.unwrap()).unwrap().0, value(parent, *event));
            Ok(())
        });
        loaded.unwrap();
    }
    assert_eq!(store.n_targets(), 3);
    servers.continue_one(stopped);
}

#[test]
fn an_orphaned_slot_is_an_error_that_says_so() {
    let Some(mut servers) = start("redis-cluster") else {
        return;
    };
    let url = format!("{}?failover=2&timeout=5", url(servers.servers[1]));
    let store = RedisBackend::connect(&url).unwrap();
    // a master and its replica: the others cannot serve its slots
    let master = a_master(&servers);
    let port = servers.servers[master];
    let ports = servers.servers.clone();
    let replica = ports.iter().position(|at| {
        let role = tell(*at, &["ROLE"]);
        role.starts_with("slave") && role.contains(&format!(" {port} "))
    });
    servers.kill_one(replica.unwrap());
    servers.kill_one(master);
    thread::sleep(Duration::from_secs(4));
    let mut batch = Batch::default();
    for parent in parents() {
        batch.create(parent, 1);
    }
    let started = Instant::now();
    let error = store.write(&batch).unwrap_err();
    assert_eq!(error.kind(), "store-unreachable", "{error}");
    assert!(error.to_string().contains("CLUSTERDOWN"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(15));
}

/// A master is cut off from all other servers, while its clients still reach it. It accepts writes until it notices,
/// and discards them when it returns as a replica. With a write concern, none of these writes were acknowledged.
/// Without one, this test fails: half of some subruns is lost.
#[test]
fn a_master_that_is_cut_off_from_the_others_loses_nothing_that_was_acknowledged() {
    if !can_start_redis() || !femtobarn_testkit::can_cut() {
        return;
    }
    let mut servers = Servers::start("redis-cluster-net");
    let seeds = servers.endpoint.clone();
    let address = |n: usize| Address::parse(seeds.split(',').nth(n).unwrap()).unwrap();
    let ask_at = |at: &Address, words: &[&str]| {
        let options = Options::new("redis://", vec![at.clone()]);
        let mut connection = Connection::open(at, &options).unwrap();
        ask(&mut connection, words)
    };
    let options = "write_concern=replicas:1&failover=20&timeout=10";
    let store = RedisBackend::connect(&format!("redis://{seeds}/?{options}")).unwrap();
    let mut all = Vec::new();
    for round in 0..2 {
        let cut = (0..6).find(|n| {
            let role = ask_at(&address(*n), &["ROLE"]);
            role.starts_with("master") && *n >= round
        });
        let cut = cut.unwrap();
        all.extend(acknowledged_while(&mut servers, &store, |servers| {
            servers.cut_one(cut);
            thread::sleep(Duration::from_secs(8));
            // the others have continued without it
            let role = ask_at(&address(cut), &["ROLE"]);
            assert!(role.starts_with("master"), "{role}");
            let started = Instant::now();
            servers.heal_one(cut);
            while !ask_at(&address(cut), &["ROLE"]).contains("connected") {
                assert!(started.elapsed() < Duration::from_secs(60));
                thread::sleep(Duration::from_millis(100));
            }
        }));
        eprintln!("round {round}: {} events were acknowledged", all.len());
        check_acknowledged(&store, &all);
    }
    let fresh = RedisBackend::connect(&format!("redis://{}/", address(5))).unwrap();
    check_acknowledged(&fresh, &all);
    assert!(!all.is_empty());
}

/// Regression: writers waited for a minute or two without a message.
#[test]
fn a_new_master_without_a_replica_is_told_at_once() {
    let Some(servers) = start("redis-cluster") else {
        return;
    };
    let url = format!(
        "{}?write_concern=replicas:1&timeout=8&failover=8",
        url(servers.port)
    );
    let store = RedisBackend::connect(&url).unwrap();
    let parent = parents()[0];
    let write = |event| {
        let mut batch = Batch::default();
        batch.create(parent, event);
        let started = Instant::now();
        (store.write(&batch), started.elapsed())
    };
    write(0).0.unwrap();
    // a former replica becomes a master without slots and replicas, and gets a slot
    let slot = store.keys(&parent).slot;
    let topology = store.client.topology();
    let from = topology.master(slot).unwrap();
    let replica = |is_right: fn(bool) -> bool| {
        let is_one = |port: &&u16| {
            let role = tell(**port, &["ROLE"]);
            let is_of_it = role.contains(&format!(" {} ", from.port));
            role.starts_with("slave") && is_right(is_of_it)
        };
        let port = servers.servers.iter().find(is_one).unwrap();
        Address::parse(&format!("127.0.0.1:{port}")).unwrap()
    };
    // the former owner of the slot has no replica any more, and is not waited for, as it only redirects
    let (new, other) = (
        &replica(|is_of_it| is_of_it),
        &replica(|is_of_it| !is_of_it),
    );
    assert_eq!(tell(new.port, &["CLUSTER", "RESET"]), "OK");
    let meet = ["CLUSTER", "MEET", "127.0.0.1", &from.port.to_string()];
    assert_eq!(tell(new.port, &meet), "OK");
    let id = tell(new.port, &["CLUSTER", "MYID"]);
    let is_known = |port: u16| {
        let nodes = tell(port, &["CLUSTER", "NODES"]);
        let mut own = nodes.lines().filter(|line| line.starts_with(&id));
        own.any(|line| line.contains("master") && line.contains(" connected"))
    };
    let started = Instant::now();
    let is_ok = || tell(new.port, &["CLUSTER", "INFO"]).contains("cluster_state:ok");
    while !(is_ok() && servers.servers.iter().all(|port| is_known(*port))) {
        assert!(started.elapsed() < Duration::from_secs(60));
        thread::sleep(Duration::from_millis(50));
    }
    move_slot_to(slot, from, new);
    told();
    thread::scope(|scope| {
        let writer = scope.spawn(|| write(1));
        let words = format!("for replicas of {new}: write_concern=replicas:1");
        let started = Instant::now();
        while !told().contains(&words) {
            assert!(started.elapsed() < Duration::from_secs(7), "{}", told());
            thread::sleep(Duration::from_millis(50));
        }
        assert!(!writer.is_finished());
        let error = writer.join().unwrap().0.unwrap_err();
        assert_eq!(error.kind(), "too-few-replicas", "{error}");
        let words = ["the data are written", "gets its replica before its slots"];
        assert!(
            words.iter().all(|word| error.to_string().contains(word)),
            "{error}"
        );
    });
    // it is not waited for again each time
    let (again, took) = write(2);
    assert_eq!(again.unwrap_err().kind(), "too-few-replicas");
    assert!(took < Duration::from_secs(5), "{took:?}");
    // when it has a replica, writing continues
    assert_eq!(tell(other.port, &["CLUSTER", "REPLICATE", &id]), "OK");
    let started = Instant::now();
    while write(3).0.is_err() {
        assert!(started.elapsed() < Duration::from_secs(60));
    }
    let there = store.contains(&[(parent, &[0, 1, 2, 3])]).unwrap().concat();
    assert_eq!(there, [true; 4]);
}
