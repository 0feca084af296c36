//! Checksums of pages, with a server of XRootD behind a way that damages bytes.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use bytes::Bytes;
use femtobarn_testkit::{Servers, can_start, content};
use femtobarn_xrootd::{Client, File, OpenOptions, Options, XrootdError, XrootdUrl};

/// Which bytes of each connection are damaged, counted from its beginning: of what is sent to the server and of what it sends.
#[derive(Debug, Default)]
struct Damage {
    up: Vec<u64>,
    down: Vec<u64>,
    done: AtomicU64,
}

/// A port that leads to the server's.
fn damaging(port: u16, damage: Arc<Damage>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else {
                return;
            };
            let (back, forth) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            let (one, other) = (damage.clone(), damage.clone());
            std::thread::spawn(move || relay(client, server, &one.up, &one.done));
            std::thread::spawn(move || relay(forth, back, &other.down, &other.done));
        }
    });
    own
}

fn relay(mut from: TcpStream, mut to: TcpStream, places: &[u64], done: &AtomicU64) {
    let mut buffer = vec![0; 1 << 16];
    let mut at = 0u64;
    while let Ok(n) = from.read(&mut buffer)
        && n > 0
    {
        for place in places
            .iter()
            .filter(|&&place| at <= place && place < at + n as u64)
        {
            buffer[usize::try_from(place - at).unwrap()] ^= 0x10;
            done.fetch_add(1, SeqCst);
        }
        at += n as u64;
        if to.write_all(&buffer[..n]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

fn run<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build();
    runtime.unwrap().block_on(work)
}

fn careful() -> Client {
    Client::new(Options {
        checksums: true,
        ..Options::default()
    })
}

fn url(port: u16, name: &str) -> XrootdUrl {
    XrootdUrl::parse(&format!("root://127.0.0.1:{port}//{name}")).unwrap()
}

#[test]
fn pages_that_are_damaged_on_their_way_to_the_server_are_sent_again() {
    if !can_start() {
        return;
    }
    let server = Servers::start("xrootd");
    let damage = Arc::new(Damage {
        // in the middle of pages, of the first piece and of a later one
        up: vec![50_000, 2_000_000, 6_000_000],
        ..Damage::default()
    });
    let port = damaging(server.port, damage.clone());
    let whole = content(9_000_000);
    run(async {
        let client = careful();
        let file = File::open(&client, url(port, "f"), OpenOptions::CreateNew)
            .await
            .unwrap();
        // from the middle of a page to the middle of another
        file.write(1000, Bytes::from(whole[1000..].to_vec()))
            .await
            .unwrap();
        file.write(0, Bytes::from(whole[..1000].to_vec()))
            .await
            .unwrap();
        file.close().await.unwrap();
    });
    assert_eq!(damage.done.load(SeqCst), 3);
    assert!(std::fs::read(server.data[0].join("f")).unwrap() == whole);
}

#[test]
fn pages_that_are_damaged_on_their_way_from_the_server_are_read_again() {
    if !can_start() {
        return;
    }
    let server = Servers::start("xrootd");
    let whole = content(3_000_000);
    server.put("f", &whole);
    let damage = Arc::new(Damage {
        down: vec![50_000, 2_000_000],
        ..Damage::default()
    });
    let port = damaging(server.port, damage.clone());
    run(async {
        let client = careful();
        let file = File::open(&client, url(port, "f"), OpenOptions::Read)
            .await
            .unwrap();
        let range = 1000..2_999_000;
        let found = file
            .read_ranges(std::slice::from_ref(&range))
            .await
            .unwrap();
        assert!(found[0][..] == whole[1000..2_999_000]);
    });
    assert_eq!(damage.done.load(SeqCst), 2);
}

#[test]
fn what_is_damaged_again_and_again_is_an_error() {
    if !can_start() {
        return;
    }
    let server = Servers::start("xrootd");
    let damage = Arc::new(Damage {
        // one page of the four, and that again, which comes alone
        up: (0..200).map(|i| 10_000 + i * 1000).collect(),
        ..Damage::default()
    });
    let port = damaging(server.port, damage.clone());
    let error = run(async {
        let client = careful();
        let file = File::open(&client, url(port, "f"), OpenOptions::CreateNew)
            .await
            .unwrap();
        let written = file.write(0, Bytes::from(content(16_384)));
        written.await.unwrap_err()
    });
    assert!(matches!(error, XrootdError::Checksum { .. }), "{error}");
}
