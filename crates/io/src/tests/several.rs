//! Several real servers with the same file, some of them behind connections that go bad.

use std::sync::Arc;
use std::time::Duration;

use femtobarn_testkit::{Servers, Ways, can_start, content};

use super::check_reads;
use super::kinds::Place;
use crate::{
    ByteSource, CachedSource, MeteredSource, Settings, SourceState, open_remote, with_causes,
};

const SIZE: usize = 24 << 20;

/// Servers of different protocols with the same file, each behind a proxy.
struct Mixed {
    places: Vec<Place>,
    ways: Ways,
    ports: Vec<u16>,
    content: Vec<u8>,
}

impl Mixed {
    fn start(kinds: &[&'static str]) -> Option<Self> {
        let mut places: Vec<Place> = kinds
            .iter()
            .map(|kind| Place::start(kind))
            .collect::<Option<_>>()?;
        let mut ways = Ways::start()?;
        let content = content(SIZE);
        places.iter_mut().for_each(|place| place.put("f", &content));
        let ports = places
            .iter()
            .map(|place| ways.before(place.server.port))
            .collect();
        Some(Self {
            places,
            ways,
            ports,
            content,
        })
    }

    fn open(&self, more: &[(&str, &str)]) -> Arc<dyn ByteSource> {
        let pairs = self.places.iter().zip(&self.ports);
        let urls: Vec<String> = pairs.map(|(place, port)| place.url(*port, "f")).collect();
        // those of the object store, which say nothing to the others
        let store = urls.iter().position(|url| url.starts_with("s3://"));
        let at = store.unwrap_or(0);
        let settings = self.places[at].settings(self.ports[at], more);
        let source = open_remote(&crate::join_sources(&urls, None), &settings).unwrap();
        MeteredSource::of(source, &settings).unwrap()
    }

    /// Reads all of the file some times, so that all sources are in use.
    fn read(&self, source: &dyn ByteSource) {
        check_reads(source, &self.content).unwrap();
    }
}

fn states(source: &dyn ByteSource) -> Vec<SourceState> {
    source.sources().unwrap().iter().map(|s| s.state).collect()
}

#[test]
fn servers_of_several_protocols_are_read_together() {
    let Some(mut mixed) = Mixed::start(&["xrootd", "nginx", "minio"]) else {
        return;
    };
    for (port, rate) in mixed
        .ports
        .clone()
        .into_iter()
        .zip([40_000, 40_000, 40_000])
    {
        mixed.ways.poison(port, "bandwidth", &[("rate", rate)]);
    }
    let source = mixed.open(&[("sources", "3")]);
    mixed.read(&*source);
    mixed.read(&*source);
    let sources = source.sources().unwrap();
    for one in &sources {
        assert_eq!(one.state, SourceState::Active, "{one:?}");
        assert!(one.n_bytes > 1 << 20 && one.errors.is_empty(), "{one:?}");
    }
    assert!(sources[1].url.starts_with("http://") && sources[2].url.starts_with("s3://"));
}

#[test]
fn a_server_that_goes_away_is_replaced_and_the_last_is_named_with_all() {
    let Some(mut mixed) = Mixed::start(&["nginx", "xrootd"]) else {
        return;
    };
    let more = [("most_retries", "0"), ("connect_timeout", "1")];
    let source = mixed.open(&more);
    mixed.read(&*source);
    let (first, second) = (mixed.ports[0], mixed.ports[1]);
    std::thread::scope(|scope| {
        mixed.ways.poison(first, "bandwidth", &[("rate", 10_000)]);
        let read = scope.spawn(|| check_reads(&*source, &mixed.content));
        std::thread::sleep(Duration::from_millis(300));
        mixed.ways.close(first);
        read.join().unwrap().unwrap();
    });
    assert_eq!(
        states(&*source),
        [SourceState::Disabled, SourceState::Active]
    );
    mixed.ways.close(second);
    let error = check_reads(&*source, &mixed.content).unwrap_err();
    let text = with_causes(&error);
    for port in [first, second] {
        assert!(text.contains(&format!("127.0.0.1:{port}")), "{text}");
    }
    mixed.ways.open(first);
    mixed.ways.heal(first);
    mixed.read(&*source);
}

#[test]
fn a_server_that_falls_silent_is_left_for_the_other() {
    for kinds in [
        ["xrootd", "nginx"],
        ["nginx", "xrootd"],
        ["minio", "xrootd"],
    ] {
        let Some(mut mixed) = Mixed::start(&kinds) else {
            continue;
        };
        // not so quick that the first one is left as a slow one before it is silent
        let [silent, other] = [mixed.ports[0], mixed.ports[1]];
        mixed.ways.poison(other, "bandwidth", &[("rate", 30_000)]);
        // with the usual patience of a minute
        let source = mixed.open(&[]);
        mixed.read(&*source);
        mixed.ways.poison(silent, "timeout", &[("timeout", 0)]);
        // the other is quick, so that some reads are over before this one is found silent
        let start = std::time::Instant::now();
        while states(&*source)[0] == SourceState::Active {
            mixed.read(&*source);
            let elapsed = start.elapsed();
            assert!(elapsed < Duration::from_secs(20), "{kinds:?}: {elapsed:?}");
        }
        let first = &source.sources().unwrap()[0];
        let error = first.errors.first().map(String::as_str);
        assert_eq!(error, Some("nothing arrives from it"), "{first:?}");
    }
}

/// Such a server was taken for a slow one: nothing came from it, but no error either, as requests are repeated.
#[test]
fn a_server_that_goes_away_during_a_read_is_listed_with_an_error() {
    for kinds in [["nginx", "xrootd"], ["xrootd", "nginx"]] {
        let Some(mut mixed) = Mixed::start(&kinds) else {
            return;
        };
        let source = mixed.open(&[]);
        source.read_ranges(&[0..1 << 20]).unwrap();
        mixed.ways.close(mixed.ports[0]);
        mixed.read(&*source);
        let [first, second] = source.sources().unwrap().try_into().unwrap();
        assert_ne!(first.state, SourceState::Active, "{first:?}");
        assert!(!first.errors.is_empty(), "{first:?}");
        assert_eq!(second.state, SourceState::Active);
        assert!(second.errors.is_empty(), "{second:?}");
    }
}

#[test]
fn a_slow_answer_in_which_bytes_arrive_is_not_silence() {
    let Some(mut mixed) = Mixed::start(&["xrootd", "nginx"]) else {
        return;
    };
    // the second does not exist any more
    mixed.ways.close(mixed.ports[1]);
    mixed
        .ways
        .poison(mixed.ports[0], "bandwidth", &[("rate", 3000)]);
    let source = mixed.open(&[("connect_timeout", "1"), ("most_retries", "0")]);
    let before = source.traffic().unwrap().requests;
    let whole = [0..12 << 20];
    let found = source.read_ranges(&whole).unwrap();
    assert!(found[0] == mixed.content[..12 << 20]);
    let requests = source.traffic().unwrap().requests - before;
    assert_eq!(requests, source.n_requests(&whole));
    assert_eq!(
        states(&*source),
        [SourceState::Active, SourceState::Disabled]
    );
}

#[test]
fn redirectors_are_asked_for_other_servers() {
    if !can_start() {
        return;
    }
    let mut cluster = Servers::start("cluster");
    let content = content(SIZE);
    cluster.put_on(0, "f", &content);
    cluster.put_on(1, "f", &content);
    let url = cluster.url("f");
    let settings = Settings::with(&url, &[("most_retries", "0")]).unwrap();
    let source = open_remote(&url, &settings).unwrap();
    check_reads(&*source, &content).unwrap();
    // one is enough as long as it is good
    let first = source.sources().unwrap();
    assert_eq!((first.len(), first[0].state), (1, SourceState::Active));
    let server = first[0].server.clone().unwrap();
    // damaged bytes: another server may have better ones
    assert!(source.reject(&(0..10), false));
    check_reads(&*source, &content).unwrap();
    let both = source.sources().unwrap();
    assert_eq!(
        states(&*source),
        [SourceState::Disabled, SourceState::Active]
    );
    assert_ne!(both[1].server.as_ref(), Some(&server), "{both:?}");
    // there is no third, and the second stays
    assert!(!source.reject(&(0..10), true));
    check_reads(&*source, &content).unwrap();
    cluster.kill();
}

/// A redirector whose two servers have a file with these ages in seconds.
fn cluster_with(content: &[u8], ages: [u64; 2]) -> Servers {
    let cluster = Servers::start("cluster");
    for (server, age) in ages.into_iter().enumerate() {
        cluster.put_on(server, "f", content);
        set_age(&cluster.data[server].join("f"), age);
    }
    cluster
}

fn set_age(path: &std::path::Path, seconds: u64) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    let time = std::time::SystemTime::now() - Duration::from_secs(seconds);
    file.set_modified(time).unwrap();
}

#[test]
fn files_of_a_redirector_are_cached() {
    if !can_start() {
        return;
    }
    let content = content(SIZE);
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = cluster_with(&content, [1000, 1000]);
    let url = cluster.url("f");
    let cache = folder.path().to_string_lossy();
    let settings = Settings::with(&url, &[("cache", &cache)]).unwrap();
    for is_held in [false, true] {
        let source = CachedSource::open(&url, &settings).unwrap();
        assert_eq!(source.holds(&(1 << 20..2 << 20)), is_held);
        check_reads(&*source, &content).unwrap();
    }
    cluster.kill();
}

#[test]
fn replicas_with_other_times_are_the_same_file_of_a_cache() {
    if !can_start() {
        return;
    }
    let content = content(SIZE);
    let mut cluster = cluster_with(&content, [1000, 5000]);
    let piece = |n: u64| n * 100_000..n * 100_000 + 50_000;
    let is_right = |found: &[u8], n: u64| {
        let start = usize::try_from(piece(n).start).unwrap();
        found == &content[start..start + 50_000]
    };
    for option in [("immutable", "true"), ("cache_list_ttl", "60")] {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().to_string_lossy();
        let url = cluster.url("f");
        let settings = Settings::with(&url, &[("cache", &cache), option]).unwrap();
        // the redirector chooses one server or the other
        for n in 0..8 {
            let source = CachedSource::open(&url, &settings).unwrap();
            let found = source.read_ranges(&[piece(0), piece(n)]).unwrap();
            assert!(is_right(&found[1], n));
            assert_eq!(source.cached().unwrap().hits > 0, n > 0, "{option:?}");
        }
    }
    // of several URLs, the first may be gone
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().to_string_lossy();
    let mut both = [(); 2].map(|()| Servers::start("xrootd"));
    let urls = both.each_ref().map(|server| server.url("f"));
    for (server, age) in both.iter().zip([1000, 5000]) {
        server.put("f", &content);
        set_age(&server.data[0].join("f"), age);
    }
    let name = crate::join_sources(&urls, None);
    let given = [
        ("cache", &*cache),
        ("immutable", "true"),
        ("most_retries", "0"),
    ];
    let settings = Settings::with(&name, &given).unwrap();
    let open = || CachedSource::open(&name, &settings).unwrap();
    open().read_ranges(&[piece(0)]).unwrap();
    both[0].kill();
    let source = open();
    let found = source.read_ranges(&[piece(0), piece(5)]).unwrap();
    assert!(is_right(&found[1], 5));
    assert_eq!(source.cached().unwrap().hits, 1);
    both[1].kill();
    cluster.kill();
}

#[test]
fn sources_of_this_machine_and_of_servers_mix() {
    let Some(mut place) = Place::start("nginx") else {
        return;
    };
    let content = content(SIZE);
    place.put("f", &content);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a b.root");
    std::fs::write(&path, &content).unwrap();
    let url = place.url(place.server.port, "f");
    let local = path.to_str().unwrap();
    for both in [[local, url.as_str()], [url.as_str(), local]] {
        let name = crate::join_sources(&both, None);
        let source = open_remote(&name, &Settings::of(&name)).unwrap();
        check_reads(&*source, &content).unwrap();
        check_reads(&*source, &content).unwrap();
        let sources = source.sources().unwrap();
        assert!(
            sources.iter().all(|one| one.errors.is_empty()),
            "{sources:?}"
        );
    }
}
