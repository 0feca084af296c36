//! Checksums of pages, with a server behind a connection that damages bytes.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use bytes::Bytes;
use femtobarn_testkit::{Servers, can_start, content, relay};
use femtobarn_xrootd::{Client, File, OpenOptions, Options, XrootdError, XrootdUrl};

/// Which bytes of each connection are damaged, counted from its start, in both directions.
#[derive(Debug, Default)]
struct Damage {
    up: Vec<u64>,
    down: Vec<u64>,
    done: AtomicU64,
}

/// A port that forwards to the server's.
fn damaging(port: u16, damage: Arc<Damage>) -> u16 {
    relay(port, move |passing| {
        let places = if passing.is_answer {
            &damage.down
        } else {
            &damage.up
        };
        for place in places {
            let here = place.checked_sub(passing.at);
            let byte = here.and_then(|here| passing.bytes.get_mut(usize::try_from(here).unwrap()));
            if let Some(byte) = byte {
                *byte ^= 0x10;
                damage.done.fetch_add(1, SeqCst);
            }
        }
        ControlFlow::Continue(())
    })
}

fn run<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build();
    runtime.unwrap().block_on(work)
}

fn careful() -> Client {
    Client::new(Options {
        checksums: true,
        // if the length of a request is damaged, the server waits for more bytes
        request_timeout: Duration::from_secs(5),
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
        // in the middle of pages, in the first piece and in a later one
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
        // one page of the four, and again when it is sent alone
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
