//! The client over bad connections to real servers: writing, and abandoned requests.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::time::Duration;

use bytes::Bytes;
use femtobarn_testkit::{Servers, Ways, can_start, content};
use femtobarn_xrootd::{Client, File, OpenOptions, Options, XrootdError, XrootdUrl};

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

fn at(way: u16, name: &str) -> XrootdUrl {
    XrootdUrl::parse(&format!("root://127.0.0.1:{way}//{name}")).unwrap()
}

fn hasty() -> Options {
    Options {
        connect_timeout: Duration::from_secs(2),
        request_timeout: Duration::from_secs(2),
        ..Options::default()
    }
}

fn start() -> Option<(Servers, Ways)> {
    if !can_start() {
        return None;
    }
    let ways = Ways::start()?;
    Some((Servers::start("xrootd"), ways))
}

/// Reads that are abandoned at any time (before they are sent, while they wait, while their answer arrives) do not
/// disturb others of the same connection.
#[test]
fn what_is_given_up_disturbs_nobody() {
    let Some((server, mut ways)) = start() else {
        return;
    };
    let whole = content(4 << 20);
    server.put("f", &whole);
    let way = ways.before(server.port);
    ways.poison(way, "latency", &[("latency", 3), ("jitter", 3)]);
    ways.poison(way, "bandwidth", &[("rate", 30_000)]);
    runtime().block_on(async {
        let client = Client::new(Options::default());
        let file = File::open(&client, at(way, "f"), OpenOptions::Read)
            .await
            .unwrap();
        let reads = (0_u64..600).map(|i| {
            let (file, whole) = (&file, &whole);
            async move {
                // at different times, so that some still wait to be sent
                tokio::time::sleep(Duration::from_micros(i * 700)).await;
                let start = i * 7919 % 4_000_000;
                let ranges = [start..start + 40_000, start..start + 1 + i, 0..i];
                let read = file.read_ranges(&ranges);
                if i % 3 > 0 {
                    let patience = Duration::from_micros(i * 104_729 % 30_000);
                    let _ = tokio::time::timeout(patience, read).await;
                    return;
                }
                let found = read.await.unwrap();
                for (range, found) in ranges.iter().zip(found) {
                    let place = |place: u64| usize::try_from(place).unwrap();
                    assert!(found == whole[place(range.start)..place(range.end)]);
                }
            }
        });
        futures_util::future::join_all(reads).await;
        assert_eq!(file.asked().1, 0, "nothing had to be asked again");
    });
}

/// Sending data is not silence, however long it takes. A read that waits behind other answers is not late: each of these
/// reads waits for longer than the timeout.
#[test]
fn a_slow_way_is_no_silence() {
    let Some((server, mut ways)) = start() else {
        return;
    };
    let whole = content(4 << 20);
    server.put("f", &whole);
    let way = ways.before(server.port);
    runtime().block_on(async {
        let client = Client::new(Options {
            request_timeout: Duration::from_secs(1),
            most_retries: 0,
            ..Options::default()
        });
        let file = File::open(&client, at(way, "f"), OpenOptions::Read)
            .await
            .unwrap();
        ways.poison(way, "bandwidth", &[("rate", 1300)]);
        let reads = (0..4u64).map(|i| {
            let file = &file;
            async move {
                let range = i << 20..(i + 1) << 20;
                file.read_ranges(std::slice::from_ref(&range)).await
            }
        });
        let found = futures_util::future::try_join_all(reads).await.unwrap();
        assert!(found.concat().concat() == whole);
    });
}

#[test]
fn a_slow_way_up_is_no_failure() {
    let Some((server, mut ways)) = start() else {
        return;
    };
    let way = ways.before(server.port);
    ways.poison_stream(way, "bandwidth", "upstream", &[("rate", 10_000)]);
    let whole = content(40 << 20);
    runtime().block_on(async {
        let client = Client::new(hasty());
        let file = File::open(&client, at(way, "new"), OpenOptions::CreateNew)
            .await
            .unwrap();
        file.write(0, Bytes::from(whole.clone())).await.unwrap();
        file.close().await.unwrap();
    });
    assert!(std::fs::read(server.data[0].join("new")).unwrap() == whole);
}

/// Requests that could not be repeated were counted as repeated.
#[test]
fn only_what_is_asked_again_is_counted_so() {
    let Some((server, mut ways)) = start() else {
        return;
    };
    server.put("f", &content(1000));
    let way = ways.before(server.port);
    runtime().block_on(async {
        let client = Client::new(hasty());
        let file = File::open(&client, at(way, "f"), OpenOptions::Read);
        let file = file.await.unwrap();
        ways.close(way);
        let range = 0..1000;
        file.read_ranges(std::slice::from_ref(&range))
            .await
            .unwrap_err();
        assert_eq!(file.asked(), (1, 0));
        ways.open(way);
        file.read_ranges(std::slice::from_ref(&range))
            .await
            .unwrap();
        let (asked, again) = file.asked();
        assert!(asked == again + 2 && again > 0, "{asked}, {again}");
    });
}

/// If nothing arrives at the server any more, writing ends in time.
#[test]
fn a_way_up_that_is_dead_is_told() {
    let Some((server, mut ways)) = start() else {
        return;
    };
    let way = ways.before(server.port);
    runtime().block_on(async {
        let client = Client::new(hasty());
        let file = File::open(&client, at(way, "new"), OpenOptions::CreateNew)
            .await
            .unwrap();
        ways.poison_stream(way, "timeout", "upstream", &[("timeout", 0)]);
        let bytes = Bytes::from(vec![1; 8 << 20]);
        for _ in 0..2 {
            let start = std::time::Instant::now();
            let error = file.write(0, bytes.clone()).await.unwrap_err();
            assert!(matches!(error, XrootdError::Exhausted { .. }), "{error}");
            // a server that does not answer is not connected to again and again
            assert!(start.elapsed() < Duration::from_secs(8), "{error}");
        }
    });
}
