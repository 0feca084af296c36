//! Bad connections to servers of every kind: successful reads are correct, and failures are reported in time with the
//! attempts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use femtobarn_testkit::{Ways, content};

use super::check_reads;
use super::kinds::Place;
use crate::{ByteSource, create_remote, with_causes};

const SIZE: usize = 3 << 20;

/// With the settings of these tests, every failure is reported within this time.
const LIMIT: Duration = Duration::from_secs(60);

type More<'a> = &'a [(&'a str, &'a str)];

/// Short timeouts.
const HASTY: More<'static> = &[
    ("request_timeout", "1"),
    ("connect_timeout", "1"),
    ("most_retries", "1"),
];

struct Trial {
    place: Place,
    ways: Ways,
    content: Vec<u8>,
    /// Settings of all sources.
    more: Vec<(&'static str, &'static str)>,
}

impl Trial {
    fn start(kind: &'static str, more: More<'static>) -> Option<Self> {
        let (mut place, ways) = (Place::start(kind)?, Ways::start()?);
        let content = content(SIZE);
        place.put("f", &content);
        let more = more.to_vec();
        Some(Self {
            place,
            ways,
            content,
            more,
        })
    }

    fn way(&mut self) -> u16 {
        self.ways.before(self.place.server.port)
    }

    fn open(&self, way: u16, more: More<'static>) -> Arc<dyn ByteSource> {
        let all = [&self.more, more].concat();
        self.place.open(way, "f", &all).unwrap()
    }

    /// Like `open`, through a proxy that can be disturbed later.
    fn open_well(&mut self, more: More<'static>) -> (u16, Arc<dyn ByteSource>) {
        let way = self.way();
        // opening once teaches the client the limits of the server
        self.open(way, more);
        self.ways.heal(way);
        (way, self.open(way, more))
    }

    /// Checks that a read fails in time, and that the error names the server; returns the message.
    fn fails(&self, source: &dyn ByteSource, way: u16) -> String {
        let start = Instant::now();
        let error = check_reads(source, &self.content).unwrap_err();
        assert!(start.elapsed() < LIMIT, "{:?}", start.elapsed());
        let text = with_causes(&error);
        assert_eq!(error.kind(), "remote-failed", "{text}");
        let server = format!("127.0.0.1:{way}");
        assert!(
            text.contains(&server) && text.contains(source.url()),
            "{text}"
        );
        text
    }

    fn slow(&mut self) {
        let way = self.way();
        self.ways
            .poison(way, "latency", &[("latency", 20), ("jitter", 15)]);
        self.ways.poison(way, "bandwidth", &[("rate", 20_000)]);
        let slices = [
            ("average_size", 1500),
            ("size_variation", 500),
            ("delay", 0),
        ];
        self.ways.poison(way, "slicer", &slices);
        let source = self.open(way, &[]);
        check_reads(&*source, &self.content).unwrap();
        assert_eq!(source.traffic().unwrap().retries, 0);
    }

    /// Each connection breaks after less than a file.
    fn cut(&mut self) {
        let way = self.way();
        self.ways.poison(way, "limit_data", &[("bytes", 700_000)]);
        let source = self.open(way, &[]);
        check_reads(&*source, &self.content).unwrap();
        let traffic = source.traffic().unwrap();
        assert!(
            0 < traffic.retries && traffic.retries < traffic.requests,
            "{traffic:?}"
        );
    }

    /// Connections are reset once while answers arrive.
    fn reset(&mut self) {
        let (way, source) = self.open_well(&[("most_retries", "12")]);
        let n_retries = || source.traffic().unwrap().retries;
        self.ways.poison(way, "bandwidth", &[("rate", 500)]);
        std::thread::scope(|scope| {
            let read = scope.spawn(|| check_reads(&*source, &self.content));
            std::thread::sleep(Duration::from_millis(200));
            self.ways.poison(way, "reset_peer", &[("timeout", 0)]);
            // until a connection was reset; the client notices at the next bytes, and object stores report it only at
            // the end
            let start = std::time::Instant::now();
            while n_retries() == 0 && !read.is_finished() && start.elapsed().as_millis() < 700 {
                std::thread::sleep(Duration::from_millis(2));
            }
            self.ways.heal(way);
            read.join().unwrap().unwrap();
        });
        assert!(n_retries() > 0);
    }

    /// All connections are reset, then none is accepted: both are errors. Then everything works again.
    fn dead(&mut self) {
        let (way, source) = self.open_well(&[("connect_timeout", "2")]);
        self.ways.poison(way, "reset_peer", &[("timeout", 0)]);
        let text = self.fails(&*source, way);
        assert!(text.contains("reset") || text.contains("lost"), "{text}");
        self.ways.close(way);
        let text = self.fails(&*source, way);
        assert!(text.contains("refused"), "{text}");
        self.ways.open(way);
        self.ways.heal(way);
        check_reads(&*source, &self.content).unwrap();
    }

    /// A server that was reachable accepts no connections, and returns a moment later, as after a restart.
    fn away(&mut self) {
        let (way, source) = self.open_well(&[]);
        self.ways.close(way);
        std::thread::scope(|scope| {
            let read = scope.spawn(|| check_reads(&*source, &self.content));
            std::thread::sleep(Duration::from_millis(900));
            self.ways.open(way);
            read.join().unwrap().unwrap();
        });
    }

    /// Nothing arrives any more, and nobody closes the connection.
    fn silent(&mut self) {
        let (way, source) = self.open_well(HASTY);
        self.ways.poison(way, "timeout", &[("timeout", 0)]);
        self.fails(&*source, way);
        self.ways.heal(way);
        check_reads(&*source, &self.content).unwrap();
    }
}

/// fake-gcs-server is not among the kinds: it requires its own port, so no proxy can be used.
fn goes_bad_ways(kind: &'static str, more: More<'static>) {
    let Some(mut trial) = Trial::start(kind, more) else {
        return;
    };
    for way in [
        Trial::slow,
        Trial::cut,
        Trial::reset,
        Trial::dead,
        Trial::away,
        Trial::silent,
    ] {
        way(&mut trial);
    }
}

#[test]
fn xrootd_over_bad_ways() {
    goes_bad_ways("xrootd", &[]);
}

#[test]
fn xrootd_with_checksums_over_bad_ways() {
    goes_bad_ways("xrootd", &[("checksums", "true")]);
}

#[test]
fn a_cache_of_xrootd_over_bad_ways() {
    goes_bad_ways("cache", &[]);
}

#[test]
fn xrootds_http_over_bad_ways() {
    goes_bad_ways("xrdhttp", &[]);
}

#[test]
fn nginx_over_bad_ways() {
    goes_bad_ways("nginx", &[]);
}

/// With a slow connection and very many streams, Toxiproxy takes seconds to recover.
const FEW: More<'static> = &[("requests_at_once", "8")];

#[test]
fn s3_over_bad_ways() {
    goes_bad_ways("minio", FEW);
}

#[test]
fn azure_over_bad_ways() {
    goes_bad_ways("azurite", FEW);
}

/// A file appears completely or not at all, wherever the connection breaks while it is written. An existing file is
/// kept until then.
#[test]
fn what_is_written_over_bad_ways_appears_whole_or_not_at_all() {
    for kind in ["xrootd", "minio", "azurite"] {
        let (Some(mut place), Some(mut ways)) = (Place::start(kind), Ways::start()) else {
            continue;
        };
        let (old, new) = (content(1000), content(12 << 20));
        let mut appeared = 0;
        for bytes in [3000, 1 << 20, 11 << 20, 30 << 20] {
            let name = format!("f{bytes}");
            place.put(&name, &old);
            let way = ways.before(place.server.port);
            let cut = [("bytes", bytes)];
            ways.poison_stream(way, "limit_data", "upstream", &cut);
            let settings = place.settings(way, &[("part_size", "5 MiB"), ("most_retries", "1")]);
            let write = || {
                let sink = create_remote(&place.url(way, &name), true, &settings)?;
                for (number, part) in new.chunks(1 << 20).enumerate() {
                    sink.write_at((number as u64) << 20, part)?;
                }
                sink.commit()
            };
            let written = write();
            let source = place.open(place.server.port, &name, &[]).unwrap();
            let expected = if written.is_ok() { &new } else { &old };
            check_reads(&*source, expected).unwrap();
            appeared += usize::from(written.is_ok());
            if kind == "xrootd" {
                let names = std::fs::read_dir(&place.server.data[0]).unwrap();
                let names = names.map(|entry| entry.unwrap().file_name());
                let left = names.filter(|name| name.to_string_lossy().contains("partial"));
                assert_eq!(left.count(), 0, "{kind}, cut after {bytes} bytes");
            }
        }
        assert!((1..4).contains(&appeared), "{kind}: {appeared} of 4");
    }
}

/// A server receives data and does not answer, or stops receiving. This is reported after `request_timeout`, not after
/// a multiple of it.
#[test]
fn uploads_to_a_server_that_falls_silent_end_in_time() {
    const SOON: Duration = Duration::from_secs(8);
    let patience = [
        ("request_timeout", "1"),
        ("connect_timeout", "3"),
        ("most_retries", "0"),
    ];
    for (kind, name) in [("nginx", "dav/new"), ("minio", "new"), ("azurite", "new")] {
        let (Some(place), Some(mut ways)) = (Place::start(kind), Ways::start()) else {
            continue;
        };
        for (toxic, how) in [("timeout", ("timeout", 0)), ("bandwidth", ("rate", 0))] {
            let way = ways.before(place.server.port);
            let settings = place.settings(way, &patience);
            let sink = create_remote(&place.url(way, name), true, &settings).unwrap();
            sink.write_at(0, &content(12 << 20)).unwrap();
            ways.poison_stream(way, toxic, "upstream", &[how]);
            let start = Instant::now();
            let error = sink.commit().unwrap_err();
            let elapsed = start.elapsed();
            assert!(
                elapsed < SOON,
                "{kind}, {toxic}: {elapsed:?}: {}",
                with_causes(&error)
            );
            ways.close(way);
        }
    }
}

/// Regression: the client asked such a server for the directory until it gave up, and then tried to send the file
/// equally often. The error did not mention the first part.
#[test]
fn an_upload_is_given_up_with_the_first_request_that_nobody_answers() {
    let (Some(place), Some(mut ways)) = (Place::start("nginx"), Ways::start()) else {
        return;
    };
    let way = ways.before(place.server.port);
    let settings = place.settings(way, HASTY);
    let sink = create_remote(&place.url(way, "dav/new"), true, &settings).unwrap();
    sink.write_at(0, &content(1 << 20)).unwrap();
    ways.poison_stream(way, "timeout", "upstream", &[("timeout", 0)]);
    let start = Instant::now();
    let text = with_causes(&sink.commit().unwrap_err());
    drop(sink);
    // two attempts for the answer and one for the connection; nothing needs removing
    assert!(
        start.elapsed() < Duration::from_secs(6),
        "{:?}",
        start.elapsed()
    );
    assert!(text.contains("HEAD") && !text.contains("PUT"), "{text}");
}

/// A connection that is so slow that sending takes many times `request_timeout` does not count as silent.
#[test]
fn uploads_by_slow_ways_are_not_given_up() {
    for (kind, name) in [("nginx", "dav/new"), ("minio", "new")] {
        let (Some(place), Some(mut ways)) = (Place::start(kind), Ways::start()) else {
            continue;
        };
        let way = ways.before(place.server.port);
        let patience = [("request_timeout", "1"), ("most_retries", "0")];
        let settings = place.settings(way, &patience);
        let sink = create_remote(&place.url(way, name), true, &settings).unwrap();
        let bytes = content(12 << 20);
        sink.write_at(0, &bytes).unwrap();
        ways.poison_stream(way, "bandwidth", "upstream", &[("rate", 4000)]);
        let sent = sink.commit();
        assert!(sent.is_ok(), "{kind}: {}", with_causes(&sent.unwrap_err()));
    }
}

/// Data that may remain on an unreachable server are named.
#[test]
fn what_may_stay_on_a_server_that_went_away_is_told() {
    let (Some(place), Some(mut ways)) = (Place::start("xrootd"), Ways::start()) else {
        return;
    };
    let way = ways.before(place.server.port);
    let settings = place.settings(way, HASTY);
    let sink = create_remote(&place.url(way, "new"), true, &settings).unwrap();
    sink.write_at(0, &content(1 << 20)).unwrap();
    ways.close(way);
    let text = with_causes(&sink.commit().unwrap_err());
    drop(sink);
    let names = std::fs::read_dir(&place.server.data[0]).unwrap();
    let mut names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let left = names.find(|name| name.contains("partial")).unwrap();
    assert!(text.contains(&left), "{left}: {text}");
}

/// Regression: the error claimed that it was unknown whether the object exists.
#[test]
fn an_object_that_nobody_was_sent_is_not_there() {
    let (Some(place), Some(mut ways)) = (Place::start("minio"), Ways::start()) else {
        return;
    };
    let way = ways.before(place.server.port);
    let settings = place.settings(way, HASTY);
    let sink = create_remote(&place.url(way, "new"), true, &settings).unwrap();
    sink.write_at(0, b"all of it").unwrap();
    ways.close(way);
    let text = with_causes(&sink.commit().unwrap_err());
    assert!(text.contains("refused"), "{text}");
    assert!(!text.contains("unknown whether"), "{text}");
}

#[test]
fn a_store_without_tls_is_told() {
    let Some(place) = Place::start("minio") else {
        return;
    };
    let endpoint = place.server.endpoint.replace("http://", "https://");
    let more = [("endpoint", endpoint.as_str()), ("most_retries", "0")];
    let error = place.open(place.server.port, "f", &more).unwrap_err();
    let text = with_causes(&error);
    assert!(text.contains("use http:// instead of https://"), "{text}");
}
