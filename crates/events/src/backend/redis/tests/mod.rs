//! Tests with real servers, which `scripts/redis_servers.py` starts.

mod cluster;
mod emptied;
mod faults;
mod users;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use femtobarn_redis::{Address, Connection, Options};
use femtobarn_testkit::{Servers, can_start_redis};

use super::*;
use crate::tests::conformance;

fn start(kind: &str) -> Option<Servers> {
    can_start_redis().then(|| Servers::start(kind))
}

fn url(port: u16) -> String {
    format!("redis://127.0.0.1:{port}/")
}

/// The notices since the last call, one per line.
fn told() -> String {
    static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());
    femtobarn_io::tell_notices_by(|text| TOLD.lock().unwrap().push(text.to_owned()));
    TOLD.lock().unwrap().join("\n")
}

/// Sends a server one command; returns the answer, with spaces between the elements of arrays.
fn tell(port: u16, words: &[&str]) -> String {
    let address = Address::parse(&format!("127.0.0.1:{port}")).unwrap();
    let options = Options::new(url(port), Vec::new());
    let mut connection = Connection::open(&address, &options).unwrap();
    ask(&mut connection, words)
}

fn ask(connection: &mut Connection, words: &[&str]) -> String {
    let words: Vec<_> = words.iter().map(|word| word.as_bytes()).collect();
    let until = Instant::now() + Duration::from_secs(60);
    let text = |reply: Reply<'_>| match reply.elements() {
        Some(elements) => elements.map(Reply::text).collect::<Vec<_>>().join(" "),
        None => reply.text(),
    };
    connection.ask(&words, until, text).unwrap()
}

/// Runs the conformance suite with stores of one Redis, which differ in their prefix.
fn conforms(url: &str) {
    let n = AtomicUsize::new(0);
    let more = if url.contains('?') { '&' } else { '?' };
    conformance::all(&|| {
        let n = n.fetch_add(1, Ordering::Relaxed);
        RedisBackend::connect(&format!("{url}{more}prefix=store{n}:")).unwrap()
    });
}

#[test]
fn a_single_redis_does_what_backends_promise() {
    let Some(servers) = start("redis") else {
        return;
    };
    conforms(&url(servers.port));
    let store = RedisBackend::connect(&url(servers.port)).unwrap();
    assert!(store.is_durable());
    assert_eq!(store.n_targets(), 1);
}

#[test]
fn a_cluster_does_what_backends_promise() {
    let Some(servers) = start("redis-cluster") else {
        return;
    };
    conforms(&url(servers.servers[4]));
    // all of it again, with replicas that have everything
    for port in &servers.servers {
        tell(*port, &["FLUSHALL"]);
    }
    conforms(&format!("{}?write_concern=replicas:1", url(servers.port)));
    let store = RedisBackend::connect(&url(servers.port)).unwrap();
    assert_eq!(store.n_targets(), 3);
    let targets = (0..100).map(|run| store.target(&Parent::run(Uuid([1; 16]), run)));
    let mut targets: Vec<_> = targets.collect();
    targets.sort_unstable();
    targets.dedup();
    assert_eq!(targets, [0, 1, 2]);
}

#[test]
fn tls_does_what_backends_promise() {
    let Some(servers) = start("redis-tls") else {
        return;
    };
    let ca = servers.folder.join("cert.pem");
    let url = format!("rediss://localhost:{}/", servers.port);
    conforms(&format!("{url}?ca={}", ca.display()));
    let error = RedisBackend::connect(&url).unwrap_err().to_string();
    assert!(error.contains("TLS: invalid peer certificate"), "{error}");
    let plain = url.replace("rediss:", "redis:") + "?connect_timeout=1";
    let error = RedisBackend::connect(&plain).unwrap_err();
    assert_eq!(error.kind(), "store-unreachable", "{error}");
}

#[test]
fn a_cluster_with_tls_does_what_backends_promise() {
    let Some(mut servers) = start("redis-cluster-tls") else {
        return;
    };
    let ca = servers.folder.join("cert.pem");
    let url = format!(
        "rediss://127.0.0.1:{}/?ca={}&write_concern=replicas:1&failover=8&timeout=5",
        servers.servers[4],
        ca.display()
    );
    conforms(&url);
    let store = RedisBackend::connect(&format!("{url}&prefix=one:")).unwrap();
    assert_eq!(store.n_targets(), 3);
    let error = RedisBackend::connect(&format!("rediss://127.0.0.1:{}", servers.port));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("TLS: invalid peer certificate"), "{error}");
    // a server that replaces another uses TLS as well
    let parents: Vec<_> = (0..30).map(|run| Parent::run(Uuid([1; 16]), run)).collect();
    let write = |number| {
        let mut batch = Batch::default();
        parents
            .iter()
            .for_each(|parent| batch.create(*parent, number));
        store.write(&batch)
    };
    write(1).unwrap();
    let master = store
        .client
        .topology()
        .master(store.keys(&parents[0]).slot)
        .unwrap()
        .port;
    let killed = servers
        .servers
        .iter()
        .position(|port| *port == master)
        .unwrap();
    servers.kill_one(killed);
    // its replica has no replica itself: everything is written, and an error reports that it is not
    // safe
    let error = write(2).unwrap_err();
    assert_eq!(error.kind(), "too-few-replicas", "{error}");
    let topology = store.client.topology();
    let named = |at: &&Arc<Address>| error.to_string().contains(&format!("{at} answered"));
    let lacking = topology.master(store.keys(&parents[0]).slot).unwrap();
    assert!(named(&lacking), "{error}");
    let masters = topology.masters.iter();
    let n_named = masters.filter(|at| error.to_string().contains(&at.to_string()));
    assert_eq!(n_named.count(), 1, "{error}");
    servers.start_one(killed);
    let started = Instant::now();
    while write(3).is_err() {
        assert!(started.elapsed() < Duration::from_secs(60));
    }
    for parent in &parents {
        assert_eq!(
            store.contains(&[(*parent, &[1, 2, 3])]).unwrap().concat(),
            [true; 3]
        );
    }
}
