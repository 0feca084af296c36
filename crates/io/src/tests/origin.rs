//! What is recorded and told of real servers, threads and forked processes.

use std::collections::BTreeSet;
use std::fs::read_to_string;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use femtobarn_testkit::{can_run, content, in_a_fork};
use serde_json::Value;

use super::kinds::Place;
use crate::{Access, Action, ByteSource, MemorySource, Operation, OriginSource, Settings};

fn actions(trace: &Path) -> Vec<Action> {
    let text = read_to_string(trace).unwrap();
    let parse = |row| Action::parse(row).unwrap_or_else(|| panic!("{row}"));
    text.lines().map(parse).collect()
}

fn recorded_to(trace: &Path) -> Settings {
    let path = trace.to_str().unwrap();
    Settings::with("root://h//f", &[("record", path)]).unwrap()
}

fn memory(url: &str, settings: &Settings) -> Arc<dyn ByteSource> {
    let open = || Ok(MemorySource::new("mem:digits", b"0123456789".to_vec()) as _);
    OriginSource::open(url, settings, false, open).unwrap()
}

#[test]
fn a_recorded_source_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let settings = recorded_to(&folder.path().join("trace.csv"));
    crate::tests::conformance::check(&|content| {
        let open = || Ok(MemorySource::new("mem:content", content) as _);
        OriginSource::open("mem:content", &settings, false, open).unwrap()
    });
}

/// Records opening, reading, failing and closing.
fn is_recorded(kind: &'static str) {
    let Some(mut place) = Place::start(kind) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.csv");
    place.put("f", &content(3_000_000));
    let port = place.server.port;
    let more = [("record", trace.to_str().unwrap())];
    let query = if kind == "minio" { "" } else { "?authz=secret" };
    let url = format!("{}{query}", place.url(port, "f"));
    let settings = place.settings(port, &more);
    let source = crate::open_remote(&url, &settings).unwrap();
    source
        .read_ranges(&[500_000..500_100, 900_000..900_010])
        .unwrap();
    source.read_into(1_000_000, &mut [0; 7]).unwrap();
    source
        .read_ranges(&[700_000..700_001, 1_000_000..2_500_000])
        .unwrap();
    source.read_ranges(&[0..3_000_001]).unwrap_err();
    drop(source);
    place.open(port, "missing", &more).unwrap_err();

    let found = actions(&trace);
    let text = read_to_string(&trace).unwrap();
    assert!(!text.contains("secret"), "{text}");
    let of_file: Vec<_> = found.iter().filter(|a| a.file == found[0].file).collect();
    assert!(
        matches!(&of_file[0].operation, Operation::Open { url: found, .. } if url.starts_with(found))
    );
    assert_eq!(of_file[1].operation, Operation::Stat { force: false });
    assert!(of_file[1].response.starts_with("3000000;"), "{kind}");
    let vector = Operation::Read(Access::Vector, vec![500_000..500_100, 900_000..900_010]);
    let read = of_file
        .iter()
        .find(|action| action.operation == vector)
        .unwrap();
    assert_eq!(read.response, "110;500000;100;900000;10");
    let sizes: Vec<_> = of_file
        .iter()
        .rev()
        .take(5)
        .rev()
        .map(|a| (a.operation.name(), a.operation.n_bytes(), a.error.is_none()))
        .collect();
    assert_eq!(
        sizes,
        [
            ("Read", 7, true),
            ("Read", 1, true),
            ("Read", 1_500_000, true),
            ("Read", 3_000_001, false),
            ("Close", 0, true),
        ]
    );
    let missing = found.last().unwrap();
    assert_eq!(
        (missing.operation.name(), missing.error.as_deref()),
        ("Open", Some("[ERROR] file-not-found"))
    );
    assert!(found.iter().all(|action| action.start <= action.stop));

    is_read_by_xrdreplay(&found);
}

/// What `xrdreplay -p` says of these rows; none if it does not read them.
fn xrdreplay(actions: &[&Action]) -> Option<Value> {
    let rows: String = actions.iter().map(|action| format!("{action}\n")).collect();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), rows).unwrap();
    let mut program = Command::new("xrdreplay");
    let seen = program.args(["-p", "-j"]).arg(file.path()).output().ok()?;
    serde_json::from_slice(&seen.stdout).ok()
}

/// Asks XRootD's own program what it sees. It reads no rows of operations that failed. That of XRootD 5.5, which
/// Debian 12 has, crashes at any vector read, also of XRootD's recorder.
fn is_read_by_xrdreplay(actions: &[Action]) {
    let fine = |action: &&Action| action.error.is_none();
    let is_vector = |action: &&Action| action.operation.name() == "VectorRead";
    let all: Vec<_> = actions.iter().filter(fine).collect();
    let simple: Vec<_> = all.iter().copied().filter(|a| !is_vector(a)).collect();
    if !can_run("xrdreplay", "xrootd-client") {
        return;
    }
    for (seen, rows) in [(xrdreplay(&all), &all), (xrdreplay(&simple), &simple)] {
        let Some(seen) = seen else {
            assert!(rows.iter().any(is_vector), "{rows:?}");
            continue;
        };
        let n_bytes: u64 = rows.iter().map(|action| action.operation.n_bytes()).sum();
        let seen = &seen["iosummary"];
        assert_eq!(seen["volume::totalread"], n_bytes, "{seen}");
        assert_eq!(
            (&seen["files::read"], &seen["files::write"]),
            (&1.into(), &0.into())
        );
    }
}

#[test]
fn reads_of_xrootd_are_recorded() {
    is_recorded("xrootd");
}

#[test]
fn reads_of_http_are_recorded() {
    is_recorded("nginx");
}

#[test]
fn reads_of_s3_are_recorded() {
    is_recorded("minio");
}

#[test]
fn rows_of_threads_do_not_mix() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.csv");
    let settings = recorded_to(&trace);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let source = memory("mem:digits", &settings);
                    source.read_ranges(&[0..2, 5..9]).unwrap();
                }
            });
        }
    });
    let found = actions(&trace);
    assert_eq!(found.len(), 8 * 50 * 4);
    let files: BTreeSet<u64> = found.iter().map(|action| action.file).collect();
    assert_eq!(files.len(), 8 * 50);
}

#[test]
fn a_forked_process_records_its_own_file() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.csv");
    let mut of_both = Some(memory("mem:digits", &recorded_to(&trace)));
    let read = |source: &Arc<dyn ByteSource>, end| source.read_ranges(&[0..end]).is_ok();
    assert!(read(of_both.as_ref().unwrap(), 1));
    // the child drops its own one
    assert!(in_a_fork(|| read(&of_both.take().unwrap(), 2)));
    let source = of_both.unwrap();
    assert!(read(&source, 3));
    drop(source);
    let found = actions(&trace);
    let own = found[0].file;
    let names = |is_own: bool| {
        let actions = found.iter().filter(|action| (action.file == own) == is_own);
        actions
            .map(|action| (action.operation.name(), action.operation.n_bytes()))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        names(true),
        [
            ("Open", 0),
            ("Stat", 0),
            ("Read", 1),
            ("Read", 3),
            ("Close", 0)
        ]
    );
    assert_eq!(names(false), [("Open", 0), ("Read", 2), ("Close", 0)]);
}

#[test]
fn a_datagram_says_what_was_read_of_a_file() {
    let Some(mut place) = Place::start("cluster") else {
        return;
    };
    let collector = UdpSocket::bind("127.0.0.1:0").unwrap();
    collector
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let address = format!("udp://{}", collector.local_addr().unwrap());
    place.put("f", &content(2_000_000));
    let port = place.server.port;
    let url = format!("{}?authz=secret", place.url(port, "f"));
    let settings = place.settings(port, &[("monitor", &address), ("site", "T2_XX_Test")]);
    let source = crate::open_remote(&url, &settings).unwrap();
    source
        .read_ranges(&[0..100, 500_000..500_010, 900_000..900_010])
        .unwrap();
    source.read_ranges(&[0..100, 500_000..500_020]).unwrap();
    source.read_into(1_000_000, &mut [0; 1000]).unwrap();
    drop(source);
    let mut buffer = [0; 4096];
    let length = collector.recv(&mut buffer).unwrap();
    let text = std::str::from_utf8(&buffer[..length]).unwrap();
    assert!(!text.contains("secret"), "{text}");
    let found: Value = serde_json::from_str(text).unwrap();
    for (name, expected) in [
        ("site_name", Value::from("T2_XX_Test")),
        ("fallback", false.into()),
        ("file_lfn", "/f".into()),
        ("file_size", 2_000_000.into()),
        ("read_bytes", 1240.into()),
        ("read_bytes_at_close", 1240.into()),
        ("read_single_operations", 1.into()),
        ("read_single_bytes", 1000.into()),
        ("read_single_average", 1000.0.into()),
        ("read_single_sigma", 0.0.into()),
        ("read_vector_operations", 2.into()),
        ("read_vector_bytes", 240.into()),
        ("read_vector_average", 120.0.into()),
        ("read_vector_sigma", 0.0.into()),
        ("read_vector_count_average", 2.5.into()),
        ("read_vector_count_sigma", 0.5.into()),
    ] {
        assert_eq!(found[name], expected, "{name} in {text}");
    }
    for name in [
        "client_host",
        "client_domain",
        "server_host",
        "server_domain",
        "unique_id",
        "user_dn",
    ] {
        assert!(found[name].is_string(), "{name} in {text}");
    }
    assert!(found["start_time"].as_u64() <= found["end_time"].as_u64());
    let both = crate::join_sources(&["root://127.0.0.1:1//f", &url], None);
    let settings = place.settings(port, &[("monitor", &address), ("connect_timeout", "1")]);
    let source = crate::open_remote(&both, &settings).unwrap();
    source.read_ranges(&[0..100]).unwrap();
    drop(source);
    let length = collector.recv(&mut buffer).unwrap();
    let found: Value = serde_json::from_slice(&buffer[..length]).unwrap();
    assert_eq!(found["fallback"], true);
    let invalid = place.settings(port, &[("monitor", "http://h")]);
    let error = crate::open_remote(&url, &invalid).unwrap_err().to_string();
    assert!(error.contains("udp://HOST:PORT"), "{error}");
}
