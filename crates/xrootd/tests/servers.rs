//! The client against real servers.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::time::Duration;

use bytes::Bytes;
use femtobarn_testkit::{Servers, can_start, content, free_port};
use femtobarn_xrootd::{Client, Code, File, OpenOptions, Options, XrootdError, XrootdUrl};
use futures_util::future::join_all;

fn at(server: &Servers, path: &str) -> XrootdUrl {
    XrootdUrl::parse(&server.url(path)).unwrap()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

fn hasty() -> Options {
    Options {
        connect_timeout: Duration::from_secs(2),
        request_timeout: Duration::from_secs(5),
        ..Options::default()
    }
}

#[test]
fn ranges_of_all_shapes_are_read() {
    if !can_start() {
        return;
    }
    let server = Servers::start("xrootd");
    let whole = content(20 << 20);
    server.put("f", &whole);
    runtime().block_on(async {
        for checksums in [false, true] {
            let client = Client::new(Options {
                checksums,
                ..hasty()
            });
            let file = File::open(&client, at(&server, "f"), OpenOptions::Read)
                .await
                .unwrap();
            assert_eq!(file.stat().size, whole.len() as u64);
            let limits = file.limits().await.unwrap();
            assert_eq!(
                (limits.most_elements, limits.largest_element),
                (1024, 2_097_136)
            );
            let size = whole.len() as u64;
            let mut ranges: Vec<_> = (0..3000)
                .map(|i| i * 6000..i * 6000 + 1 + i % 900)
                .collect();
            ranges.extend([
                0..0,
                size..size,
                5..5,
                100..200,
                150..250,
                0..size,
                7..3_000_007,
                size - 1..size,
            ]);
            let found = file.read_ranges(&ranges).await.unwrap();
            assert_eq!(found.len(), ranges.len());
            for (range, bytes) in ranges.iter().zip(&found) {
                let expected =
                    usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
                assert!(bytes[..] == whole[expected], "{range:?}");
            }
            // reading past the end is an error
            let beyond = std::iter::once(size - 5..size + 5).collect::<Vec<_>>();
            assert!(file.read_ranges(&beyond).await.is_err());
            file.close().await.unwrap();
        }
    });
}

#[test]
fn many_tasks_share_a_connection_and_some_give_up() {
    if !can_start() {
        return;
    }
    let server = Servers::start("xrootd");
    let whole = content(4 << 20);
    server.put("f", &whole);
    runtime().block_on(async {
        let client = Client::new(hasty());
        let file = File::open(&client, at(&server, "f"), OpenOptions::Read)
            .await
            .unwrap();
        let reads = (0_u64..200).map(|i| {
            let (file, whole) = (&file, &whole);
            async move {
                let range = i * 20_000..i * 20_000 + 20_000;
                let ranges = [range.clone()];
                if i % 3 == 0 {
                    // dropped while in progress
                    let read = file.read_ranges(&ranges);
                    let _ = tokio::time::timeout(Duration::from_micros(i), read).await;
                    return;
                }
                let found = file.read_ranges(&ranges).await.unwrap();
                let start = usize::try_from(range.start).unwrap();
                assert!(found[0][..] == whole[start..start + 20_000]);
            }
        });
        futures_util::future::join_all(reads).await;
    });
}

#[test]
fn what_is_not_there_is_told() {
    if !can_start() {
        return;
    }
    let server = Servers::start("xrootd");
    runtime().block_on(async {
        let client = Client::new(hasty());
        let error = File::open(&client, at(&server, "none"), OpenOptions::Read)
            .await
            .unwrap_err();
        let XrootdError::Server { code, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!(*code, Code::NOT_FOUND);
        assert!(error.to_string().contains("open /none"), "{error}");
        assert!(client.stat(&at(&server, "none")).await.is_err());
        assert!(client.list(&at(&server, "none"), false).await.is_err());
        // no server listens there
        let nobody = XrootdUrl::parse(&format!("root://127.0.0.1:{}//f", free_port())).unwrap();
        let error = client.stat(&nobody).await.unwrap_err();
        assert!(matches!(error, XrootdError::Connect { .. }), "{error}");
    });
}

#[test]
fn files_are_written_listed_and_removed() {
    if !can_start() {
        return;
    }
    let server = Servers::start("xrootd");
    runtime().block_on(async {
        let client = Client::new(hasty());
        let url = at(&server, "deep/folder/f");
        let whole = content(9_000_000);
        let file = File::open(&client, url.clone(), OpenOptions::CreateNew)
            .await
            .unwrap();
        file.write(0, Bytes::from(whole.clone())).await.unwrap();
        file.write(5, Bytes::from_static(b"hello")).await.unwrap();
        file.sync().await.unwrap();
        file.close().await.unwrap();
        let written = std::fs::read(server.data[0].join("deep/folder/f")).unwrap();
        assert_eq!(
            (written.len(), &written[5..10]),
            (whole.len(), &b"hello"[..])
        );
        assert!(written[10..] == whole[10..]);
        // fails because the file exists
        let error = File::open(&client, url.clone(), OpenOptions::CreateNew)
            .await
            .unwrap_err();
        assert!(
            matches!(
                error,
                XrootdError::Server {
                    code: Code::EXISTS,
                    ..
                }
            ),
            "{error}"
        );
        assert_eq!(client.stat(&url).await.unwrap().size, whole.len() as u64);
        let (kind, digits) = client.checksum(&url).await.unwrap();
        assert_eq!((kind.as_str(), digits.len()), ("adler32", 8));
        client.rename(&url, "/deep/g").await.unwrap();
        std::fs::create_dir(server.data[0].join("deep/empty")).unwrap();
        let found = client.list(&at(&server, "deep"), false).await.unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|e| (e.name.as_str(), e.stat.as_ref().unwrap().is_folder()))
            .collect();
        assert_eq!(found, [("empty", true), ("folder", true), ("g", false)]);
        client.remove(&at(&server, "deep/g")).await.unwrap();
        for folder in ["deep/empty", "deep/folder"] {
            std::fs::remove_dir(server.data[0].join(folder)).unwrap();
        }
        assert!(
            client
                .list(&at(&server, "deep"), false)
                .await
                .unwrap()
                .is_empty()
        );
    });
}

#[test]
fn a_file_is_opened_again_after_its_server_was_away() {
    if !can_start() {
        return;
    }
    let mut server = Servers::start("xrootd");
    let whole = content(100_000);
    server.put("f", &whole);
    let runtime = runtime();
    let client = Client::new(hasty());
    let file = runtime
        .block_on(File::open(&client, at(&server, "f"), OpenOptions::Read))
        .unwrap();
    server.restart();
    let ranges = [10..20, 50_000..60_000];
    let found = runtime.block_on(file.read_ranges(&ranges)).unwrap();
    assert!(found[1][..] == whole[50_000..60_000]);
    // another file of the same name cannot be continued
    std::thread::sleep(Duration::from_millis(1100));
    server.put("f", &content(100_000));
    server.restart();
    let error = runtime.block_on(file.read_ranges(&ranges)).unwrap_err();
    assert!(matches!(error, XrootdError::Changed { .. }), "{error}");
    server.kill();
    let error = runtime.block_on(file.read_ranges(&ranges)).unwrap_err();
    assert!(error.to_string().contains("127.0.0.1"), "{error}");
}

/// Reads that waited for a server that does not come back tried it one after another.
#[test]
fn reads_of_a_dead_server_fail_together() {
    if !can_start() {
        return;
    }
    let mut server = Servers::start("xrootd");
    server.put("f", &content(1000));
    let runtime = runtime();
    let client = Client::new(Options::default());
    let file = runtime
        .block_on(File::open(&client, at(&server, "f"), OpenOptions::Read))
        .unwrap();
    server.kill();
    let range = 5..10;
    let reads = (0..8).map(|_| file.read_ranges(std::slice::from_ref(&range)));
    let found = runtime.block_on(join_all(reads));
    let errors: Vec<String> = found
        .into_iter()
        .map(|found| found.unwrap_err().to_string())
        .collect();
    let tried = |error: &&String| !error.contains("was lost during open /");
    // another one may have asked later
    assert!(errors.iter().filter(tried).count() <= 2, "{errors:#?}");
    assert!(errors.iter().all(|error| error.contains("127.0.0.1")));
}

#[test]
fn who_asks_is_proven_by_a_shared_key() {
    if !can_start() {
        return;
    }
    let server = Servers::start("sss");
    server.put("f", b"content");
    runtime().block_on(async {
        let with = |name: &str| {
            Client::new(Options {
                sss_keytab: Some(server.folder.join(name)),
                user: Some("somebody".to_owned()),
                ..hasty()
            })
        };
        let file = File::open(&with("keytab"), at(&server, "f"), OpenOptions::Read).await;
        let found = file.unwrap().read_ranges(&[3..7, 0..1]).await.unwrap();
        assert_eq!(found, ["tent", "c"]);
        let error = File::open(&with("none"), at(&server, "f"), OpenOptions::Read)
            .await
            .unwrap_err();
        let message = error.to_string();
        assert!(
            message.contains("sss: no readable key table found"),
            "{message}"
        );
        // another key is not accepted
        std::fs::write(
            server.folder.join("wrong"),
            "0 u:a g:b n:test N:6912345 k:ff00\n",
        )
        .unwrap();
        let error = File::open(&with("wrong"), at(&server, "f"), OpenOptions::Read)
            .await
            .unwrap_err();
        assert!(
            matches!(error, XrootdError::Authentication { .. }),
            "{error}"
        );
    });
}

#[test]
fn connections_change_to_tls_where_server_or_url_wants_it() {
    if !can_start() {
        return;
    }
    for (kind, scheme) in [
        ("tls", "root"),
        ("tls-capable", "roots"),
        ("tls-capable", "root"),
    ] {
        let server = Servers::start(kind);
        server.put("f", b"content");
        runtime().block_on(async {
            let client = Client::new(Options {
                authorities: Some(server.folder.join("cert.pem")),
                ..hasty()
            });
            let url = server.url("f").replace("root://", &format!("{scheme}://"));
            let url = XrootdUrl::parse(&url).unwrap();
            let file = File::open(&client, url.clone(), OpenOptions::Read)
                .await
                .unwrap();
            assert_eq!(
                file.read_ranges(&[3..7, 0..1]).await.unwrap(),
                ["tent", "c"]
            );
            if (kind, scheme) != ("tls-capable", "root") {
                // a certificate of an unknown authority
                let stranger = Client::new(hasty());
                let error = File::open(&stranger, url, OpenOptions::Read)
                    .await
                    .unwrap_err();
                assert!(matches!(error, XrootdError::Tls { .. }), "{error}");
            }
        });
    }
    let plain = Servers::start("xrootd");
    plain.put("f", b"content");
    let url = XrootdUrl::parse(&plain.url("f").replace("root://", "roots://")).unwrap();
    let error = runtime()
        .block_on(Client::new(hasty()).stat(&url))
        .unwrap_err();
    assert!(matches!(error, XrootdError::Tls { .. }), "{error}");
}

#[test]
fn redirectors_send_to_the_server_that_has_the_file() {
    if !can_start() {
        return;
    }
    let cluster = Servers::start("cluster");
    let whole = content(300_000);
    cluster.put_on(0, "a", &whole[..1000]);
    cluster.put_on(1, "b", &whole);
    cluster.put_on(1, "c", b"other");
    runtime().block_on(async {
        let client = Client::new(hasty());
        let file = File::open(&client, at(&cluster, "b"), OpenOptions::Read)
            .await
            .unwrap();
        assert!(
            file.read_ranges(std::slice::from_ref(&(100..300_000)))
                .await
                .unwrap()[0][..]
                == whole[100..]
        );
        assert!(
            file.server()
                .await
                .ends_with(&format!(":{}", cluster.servers[1]))
        );
        let names = client.list(&at(&cluster, ""), false).await.unwrap();
        let names: Vec<&str> = names.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert_eq!(client.stat(&at(&cluster, "a")).await.unwrap().size, 1000);
        assert_eq!(
            client
                .locate(&at(&cluster, "b"), false)
                .await
                .unwrap()
                .len(),
            1
        );
        let error = File::open(&client, at(&cluster, "none"), OpenOptions::Read)
            .await
            .unwrap_err();
        assert!(error.to_string().contains("none"), "{error}");
    });
}

#[test]
fn a_proxy_that_caches_gives_what_its_server_has() {
    if !can_start() {
        return;
    }
    let cache = Servers::start("cache");
    let whole = content(3_000_000);
    cache.put("f", &whole);
    runtime().block_on(async {
        let client = Client::new(hasty());
        // once from the server, once from the cache
        for _ in 0..2 {
            let file = File::open(&client, at(&cache, "f"), OpenOptions::Read)
                .await
                .unwrap();
            let ranges: Vec<_> = (0..500).map(|i| i * 5000..i * 5000 + 700).collect();
            let found = file.read_ranges(&ranges).await.unwrap();
            for (range, bytes) in ranges.iter().zip(&found) {
                let start = usize::try_from(range.start).unwrap();
                assert!(bytes[..] == whole[start..start + 700]);
            }
            assert!(
                file.read_ranges(std::slice::from_ref(&(0..3_000_000)))
                    .await
                    .unwrap()[0][..]
                    == whole[..]
            );
            file.close().await.unwrap();
        }
        let error = File::open(&client, at(&cache, "none"), OpenOptions::Read)
            .await
            .unwrap_err();
        assert!(error.to_string().contains("none"), "{error}");
    });
}

#[test]
fn the_official_client_reads_what_was_written_and_the_reverse() {
    if !can_start() {
        return;
    }
    let server = Servers::start("xrootd");
    let folder = tempfile::tempdir().unwrap();
    let [from, to] = ["from", "to"].map(|name| folder.path().join(name));
    let xrdcp = |from: &std::ffi::OsStr, to: &std::ffi::OsStr| {
        let done = std::process::Command::new("xrdcp")
            .args(["--nopbar", "--cksum", "adler32"])
            .args([from, to])
            .output()
            .unwrap();
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
    };
    let whole = content(10_000_001);
    runtime().block_on(async {
        let client = Client::new(hasty());
        let url = at(&server, "ours");
        let file = File::open(&client, url, OpenOptions::CreateNew)
            .await
            .unwrap();
        file.write(0, Bytes::from(whole.clone())).await.unwrap();
        file.close().await.unwrap();
    });
    xrdcp(server.url("ours").as_ref(), to.as_ref());
    assert!(std::fs::read(&to).unwrap() == whole);
    std::fs::write(&from, &whole).unwrap();
    xrdcp(from.as_ref(), server.url("theirs").as_ref());
    runtime().block_on(async {
        let client = Client::new(hasty());
        let file = File::open(&client, at(&server, "theirs"), OpenOptions::Read)
            .await
            .unwrap();
        let size = whole.len() as u64;
        assert!(
            file.read_ranges(std::slice::from_ref(&(0..size)))
                .await
                .unwrap()[0][..]
                == whole[..]
        );
        let sums = [
            client.checksum(&at(&server, "ours")).await.unwrap(),
            client.checksum(&at(&server, "theirs")).await.unwrap(),
        ];
        assert_eq!(sums[0], sums[1]);
    });
}

#[test]
fn only_so_many_files_are_open_at_once() {
    if !can_start() {
        return;
    }
    let server = Servers::start("xrootd");
    let name = |i: usize| format!("many-{i}");
    for i in 0..40 {
        server.put(&name(i), &content(1000 + i));
    }
    // files of the directory that the server's process has open
    let n_open = || {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let handles = processes.filter_map(|one| std::fs::read_dir(one.path().join("fd")).ok());
        let links = handles
            .flatten()
            .flatten()
            .filter_map(|fd| std::fs::read_link(fd.path()).ok());
        links
            .filter(|link| link.starts_with(&server.data[0]))
            .count()
    };
    runtime().block_on(async {
        let client = Client::new(Options {
            most_open: 5,
            ..hasty()
        });
        let mut files = Vec::new();
        for i in 0..40 {
            files.push(
                File::open(&client, at(&server, &name(i)), OpenOptions::Read)
                    .await
                    .unwrap(),
            );
        }
        for round in 0..2 {
            for (i, file) in files.iter().enumerate() {
                let range = 0..1000 + i as u64;
                let found = file
                    .read_ranges(std::slice::from_ref(&range))
                    .await
                    .unwrap();
                assert!(found[0][..] == content(1000 + i), "{round}, {i}");
            }
        }
        // all at once: reads in progress keep their files open
        let whole = 0..1000;
        let reads = files
            .iter()
            .map(|file| file.read_ranges(std::slice::from_ref(&whole)));
        let found = futures_util::future::try_join_all(reads).await.unwrap();
        assert!(found.iter().all(|found| found[0].len() == 1000));
        // the server receives the last closes a little later
        for _ in 0..200 {
            if n_open() <= 5 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!((1..=5).contains(&n_open()), "{}", n_open());
        // a file that was replaced while it was closed has changed
        std::fs::write(server.data[0].join(name(0)), "other").unwrap();
        let error = files[0]
            .read_ranges(std::slice::from_ref(&whole))
            .await
            .unwrap_err();
        assert!(matches!(error, XrootdError::Changed { .. }), "{error}");
    });
}
