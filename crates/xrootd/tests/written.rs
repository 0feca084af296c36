//! Files that are written over breaking connections, and to servers that restart.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests"
)]

use std::time::Duration;

use bytes::Bytes;
use femtobarn_testkit::{Servers, Ways, can_start, content};
use femtobarn_xrootd::{Client, File, OpenOptions, Options, XrootdError, XrootdUrl};

fn run<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build();
    runtime.unwrap().block_on(work)
}

fn client(checksums: bool) -> Client {
    Client::new(Options {
        connect_timeout: Duration::from_secs(5),
        request_timeout: Duration::from_secs(5),
        checksums,
        ..Options::default()
    })
}

async fn create(client: &Client, port: u16) -> File {
    let url = XrootdUrl::parse(&format!("root://127.0.0.1:{port}//new")).unwrap();
    File::open(client, url, OpenOptions::CreateNew)
        .await
        .unwrap()
}

fn written(server: &Servers) -> Vec<u8> {
    std::fs::read(server.data[0].join("new")).unwrap()
}

/// Each connection ends after a part of the data, in the middle of a request.
#[test]
fn a_file_is_written_to_its_end_over_connections_that_break() {
    if !can_start() {
        return;
    }
    let Some(mut ways) = Ways::start() else {
        return;
    };
    let whole = content(20 << 20);
    for checksums in [false, true] {
        let server = Servers::start("xrootd");
        let way = ways.before(server.port);
        let cut = [("bytes", 3_000_000)];
        ways.poison_stream(way, "limit_data", "upstream", &cut);
        run(async {
            let file = create(&client(checksums), way).await;
            // the end first: positions may come in any order
            let (start, end) = whole.split_at(13 << 20);
            let offset = start.len() as u64;
            file.write(offset, Bytes::copy_from_slice(end))
                .await
                .unwrap();
            file.write(0, Bytes::copy_from_slice(start)).await.unwrap();
            file.sync().await.unwrap();
            assert!(file.asked().1 > 0);
        });
        assert!(written(&server) == whole, "checksums: {checksums}");
    }
}

#[test]
fn a_file_is_written_on_when_its_server_was_away() {
    if !can_start() {
        return;
    }
    let whole = content(12 << 20);
    for checksums in [false, true] {
        let mut server = Servers::start("xrootd");
        let server = run(async {
            let file = create(&client(checksums), server.port).await;
            let (start, end) = whole.split_at(5 << 20);
            file.write(0, Bytes::copy_from_slice(start)).await.unwrap();
            server.kill();
            let away = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(300));
                server.restart();
                server
            });
            let offset = start.len() as u64;
            file.write(offset, Bytes::copy_from_slice(end))
                .await
                .unwrap();
            server = away.join().unwrap();
            file.sync().await.unwrap();
            // the same with no other request in progress
            server.restart();
            file.sync().await.unwrap();
            server
        });
        assert!(written(&server) == whole, "checksums: {checksums}");
    }
}

#[test]
fn what_a_server_has_lost_of_a_file_is_told() {
    if !can_start() {
        return;
    }
    for (left, found) in [(None, "no such file"), (Some(4096), "4096 bytes")] {
        let mut server = Servers::start("xrootd");
        let path = server.data[0].join("new");
        run(async {
            let file = create(&client(false), server.port).await;
            let bytes = Bytes::from(content(1 << 20));
            file.write(0, bytes.clone()).await.unwrap();
            server.kill();
            match left {
                None => std::fs::remove_file(path).unwrap(),
                Some(left) => {
                    let file = std::fs::File::options().write(true).open(path);
                    file.unwrap().set_len(left).unwrap();
                }
            }
            server.restart();
            let error = file.write(1 << 20, bytes).await.unwrap_err();
            let text = error.to_string();
            assert!(matches!(error, XrootdError::Gone { .. }), "{text}");
            assert!(
                text.contains("has lost data that were written") && text.contains(found),
                "{text}"
            );
        });
    }
}
