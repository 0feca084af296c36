//! Several sources that tests make up: slow, silent, failing, of another version, damaged.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

use femtobarn_testkit::content;
use femtobarn_xrootd::tell_notices_by;

use super::*;
use crate::together::is_stopped;
use crate::{MemorySource, Together, with_causes};

/// A server that tests control.
#[derive(Debug, Default)]
struct Server {
    content: Mutex<Bytes>,
    is_away: AtomicBool,
    is_failing: AtomicBool,
    is_silent: AtomicBool,
    /// Whether opening it takes forever.
    is_shut: AtomicBool,
    n_opened: AtomicUsize,
    /// Milliseconds of each read.
    takes: AtomicUsize,
    reads: Mutex<Vec<Vec<Range<u64>>>>,
}

impl Server {
    fn bytes_read(&self) -> u64 {
        let reads = self.reads.lock().unwrap();
        reads
            .iter()
            .flatten()
            .map(|range| range.end - range.start)
            .sum()
    }

    fn set(&self, content: &[u8]) {
        *self.content.lock().unwrap() = Bytes::copy_from_slice(content);
    }
}

static SERVERS: LazyLock<Mutex<HashMap<String, Arc<Server>>>> = LazyLock::new(Mutex::default);

/// Servers with the same content, and their URLs.
fn servers(n: usize, content: &[u8]) -> (String, Vec<Arc<Server>>) {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let (mut urls, mut made) = (Vec::new(), Vec::new());
    for _ in 0..n {
        let url = format!("fake://s{}/f", NUMBER.fetch_add(1, SeqCst));
        let server = Arc::new(Server::default());
        server.set(content);
        SERVERS.lock().unwrap().insert(url.clone(), server.clone());
        urls.push(url);
        made.push(server);
    }
    (urls.join("|"), made)
}

/// Two servers that are equally fast, so that each is asked for something.
fn equal_servers(content: &[u8]) -> (String, Vec<Arc<Server>>) {
    let (url, servers) = servers(2, content);
    for server in &servers {
        server.takes.store(5, SeqCst);
    }
    (url, servers)
}

#[derive(Debug)]
struct Fake {
    server: Arc<Server>,
    memory: Arc<MemorySource>,
}

impl ByteSource for Fake {
    fn info(&self) -> SourceInfo<'_> {
        self.memory.info()
    }

    fn inner(&self) -> Option<&dyn ByteSource> {
        None
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, IoError> {
        self.server.reads.lock().unwrap().push(ranges.to_vec());
        let start = Instant::now();
        let takes = Duration::from_millis(self.server.takes.load(SeqCst) as u64);
        while self.server.is_silent.load(SeqCst) || start.elapsed() < takes {
            std::thread::sleep(Duration::from_millis(1));
            if is_stopped() {
                let url = self.url().to_owned();
                return Err(IoError::Interrupted { url });
            }
        }
        match self.server.is_failing.load(SeqCst) {
            true => Err(failed(self.url(), "its disk failed")),
            false => self.memory.read_ranges(ranges),
        }
    }
}

fn failed(url: &str, why: &str) -> IoError {
    IoError::Remote {
        url: url.to_owned(),
        source: why.into(),
    }
}

fn open_fake(
    url: &str,
    _: &Settings,
    _: Option<&[String]>,
) -> Result<Arc<dyn ByteSource>, IoError> {
    let server = SERVERS.lock().unwrap()[url].clone();
    server.n_opened.fetch_add(1, SeqCst);
    while server.is_shut.load(SeqCst) && !is_stopped() {
        std::thread::sleep(Duration::from_millis(1));
    }
    if server.is_away.load(SeqCst) {
        return Err(failed(url, "nobody answers"));
    }
    let content = server.content.lock().unwrap().clone();
    let memory = MemorySource::new(url, content);
    Ok(Arc::new(Fake { server, memory }))
}

fn open(url: &str) -> Result<Arc<dyn ByteSource>, IoError> {
    open_several(url, &Settings::of(url), open_fake)
}

/// Reads a file in vector reads of 4 MiB of ranges of many sizes, four at once, and compares all of it.
fn read_all(source: &dyn ByteSource, content: &[u8]) -> Result<(), IoError> {
    let (mut calls, mut start) = (vec![Vec::new()], 0);
    let sizes = [700, 3 << 20, 90_000, 12, 400_000, 1 << 20];
    for size in sizes.into_iter().cycle() {
        let end = content.len().min(start + size);
        if calls.last().unwrap().len() == sizes.len() {
            calls.push(Vec::new());
        }
        calls.last_mut().unwrap().push(start as u64..end as u64);
        start = end;
        if end == content.len() {
            break;
        }
    }
    let place = |at: u64| usize::try_from(at).unwrap();
    let calls = Mutex::new(calls.into_iter());
    let work = || {
        loop {
            let next = calls.lock().unwrap().next();
            let Some(call) = next else {
                return Ok(());
            };
            for (range, bytes) in call.iter().zip(source.read_ranges(&call)?) {
                assert!(
                    bytes == content[place(range.start)..place(range.end)],
                    "{range:?}"
                );
            }
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap())
    })
}

const SIZE: usize = 48 << 20;

#[test]
fn several_sources_conform() {
    crate::tests::conformance::check(&|content| open(&servers(2, &content).0).unwrap());
    // the first fails whenever it is read, or cannot be opened
    crate::tests::conformance::check(&|content| {
        let (url, servers) = servers(2, &content);
        let source = open(&url).unwrap();
        servers[0].is_failing.store(true, SeqCst);
        source
    });
    crate::tests::conformance::check(&|content| {
        let (url, servers) = servers(3, &content);
        servers[0].is_away.store(true, SeqCst);
        servers[1].is_away.store(true, SeqCst);
        open(&url).unwrap()
    });
}

#[test]
fn one_url_is_opened_as_it_is() {
    let (url, _) = servers(1, b"content");
    assert!(open(&url).unwrap().sources().is_none());
}

#[test]
fn one_good_source_gets_the_requests_of_the_caller() {
    let content = content(20 << 20);
    let (url, servers) = servers(2, &content);
    servers[1].is_away.store(true, SeqCst);
    let source = open(&url).unwrap();
    let calls: Vec<Vec<Range<u64>>> = (0..40)
        .map(|i| {
            vec![
                i * 500_000..i * 500_000 + 400_000,
                i * 500_000 + 450_000..i * 500_000 + 450_100,
            ]
        })
        .collect();
    for call in &calls {
        source.read_ranges(call).unwrap();
    }
    assert_eq!(*servers[0].reads.lock().unwrap(), calls);
    let states: Vec<_> = source.sources().unwrap().iter().map(|s| s.state).collect();
    assert_eq!(states, [SourceState::Active, SourceState::Disabled]);
    // small files are read from the first source alone
    let (url, servers) = super::tests::servers(2, &content[..1 << 20]);
    let source = open(&url).unwrap();
    source.read_ranges(&[0..1 << 20]).unwrap();
    assert_eq!(servers[1].n_opened.load(SeqCst), 0);
}

#[test]
fn sources_share_what_is_read_and_nothing_is_read_twice() {
    let content = content(SIZE);
    let (url, servers) = equal_servers(&content);
    let source = open(&url).unwrap();
    read_all(&*source, &content).unwrap();
    let read: Vec<u64> = servers.iter().map(|server| server.bytes_read()).collect();
    assert!(read.iter().all(|n| *n > 1 << 20), "{read:?}");
    // the second shows once that it has the same file
    let sum: u64 = read.iter().sum();
    assert!(sum < SIZE as u64 + HEAD + (8 << 20), "{read:?}");
    let told: u64 = source.sources().unwrap().iter().map(|s| s.n_bytes).sum();
    assert_eq!(told, SIZE as u64);
}

#[test]
fn a_source_that_fails_is_replaced_and_when_all_fail_each_is_named() {
    let content = content(SIZE);
    let (url, servers) = equal_servers(&content);
    let source = open(&url).unwrap();
    read_all(&*source, &content[..4 << 20]).unwrap();
    servers[0].is_failing.store(true, SeqCst);
    read_all(&*source, &content).unwrap();
    let first = &source.sources().unwrap()[0];
    assert!(first.errors[0].contains("its disk failed"), "{first:?}");
    servers[1].is_failing.store(true, SeqCst);
    servers[1].is_away.store(true, SeqCst);
    let error = read_all(&*source, &content).unwrap_err();
    let text = with_causes(&error);
    assert_eq!(error.kind(), "remote-failed", "{text}");
    for part in url
        .split('|')
        .chain(["its disk failed", "nobody answers", "MB in", "before: "])
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    for server in &servers {
        server.is_failing.store(false, SeqCst);
        server.is_away.store(false, SeqCst);
    }
    read_all(&*source, &content).unwrap();
}

#[test]
fn a_source_that_is_silent_is_noticed_within_two_seconds() {
    let content = content(SIZE);
    for silent in [0, 1] {
        let (url, servers) = equal_servers(&content);
        let source = open(&url).unwrap();
        read_all(&*source, &content).unwrap();
        let was_read = source.sources().unwrap()[silent].state == SourceState::Active;
        servers[silent].is_silent.store(true, SeqCst);
        let start = Instant::now();
        read_all(&*source, &content).unwrap();
        let elapsed = start.elapsed();
        assert!(elapsed < Duration::from_secs(4), "{elapsed:?}");
        let status = &source.sources().unwrap()[silent];
        assert!(
            !was_read || status.errors == ["nothing arrives from it"],
            "{status:?}"
        );
    }
}

static NOTICES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The notices about a URL, while others may be told at the same time.
fn notices(url: &str) -> Vec<String> {
    let all = NOTICES.lock().unwrap();
    all.iter()
        .filter(|text| text.contains(url))
        .cloned()
        .collect()
}

fn note_notices() {
    tell_notices_by(|text| NOTICES.lock().unwrap().push(text.to_owned()));
}

#[test]
fn a_source_that_does_not_open_at_first_is_told_with_the_one_that_is_read() {
    note_notices();
    let content = content(1 << 20);
    let (url, servers) = servers(3, &content);
    let urls: Vec<&str> = url.split('|').collect();
    servers[0].is_away.store(true, SeqCst);
    servers[1].is_away.store(true, SeqCst);
    let source = open(&url).unwrap();
    let expected = format!(
        "{0}: nobody answers; {1}: nobody answers; reading goes on from {2}",
        urls[0], urls[1], urls[2]
    );
    let told = notices(urls[0]);
    assert_eq!(told.len(), 1, "{told:?}");
    let plain = told[0].replace("cannot read ", "");
    assert_eq!(plain, expected);
    let sources = source.sources().unwrap();
    for one in &sources[..2] {
        assert_eq!(one.state, SourceState::Disabled);
        assert!(one.errors[0].contains("nobody answers"), "{one:?}");
    }
    assert!(sources[2].errors.is_empty());
}

#[test]
fn a_source_that_takes_long_to_open_is_not_waited_for() {
    note_notices();
    let content = content(1 << 20);
    let (url, servers) = servers(2, &content);
    let urls: Vec<&str> = url.split('|').collect();
    servers[0].is_shut.store(true, SeqCst);
    let start = Instant::now();
    let source = open(&url).unwrap();
    let elapsed = start.elapsed();
    assert!(elapsed < Duration::from_secs(3), "{elapsed:?}");
    assert!(source.read_ranges(&[0..1000]).unwrap()[0] == content[..1000]);
    let expected = format!(
        "{}: nothing arrives from it; reading goes on from {}",
        urls[0], urls[1]
    );
    assert_eq!(notices(urls[0]), [expected]);
    let first = &source.sources().unwrap()[0];
    assert_eq!(first.state, SourceState::Opening);
    assert_eq!(first.errors, ["nothing arrives from it"]);
    servers[0].is_shut.store(false, SeqCst);
}

#[test]
fn a_file_that_no_source_has_is_missing_and_others_are_told() {
    let (url, servers) = servers(2, b"");
    servers
        .iter()
        .for_each(|server| server.is_away.store(true, SeqCst));
    let text = with_causes(&open(&url).unwrap_err());
    assert!(text.matches("nobody answers").count() >= 2, "{text}");
    fn missing(
        url: &str,
        _: &Settings,
        _: Option<&[String]>,
    ) -> Result<Arc<dyn ByteSource>, IoError> {
        Err(IoError::NotFound {
            url: url.to_owned(),
        })
    }
    let error = open_several(&url, &Settings::of(&url), missing).unwrap_err();
    assert_eq!(
        (error.kind(), error.url()),
        ("file-not-found", url.as_str())
    );
}

#[test]
fn another_version_is_never_read() {
    let content = content(SIZE);
    let mut longer = content.clone();
    longer.push(0);
    let mut other = content.clone();
    other[60_000] ^= 1;
    for (version, says) in [(longer, "it has"), (other, "its bytes 0 to 65536 differ")] {
        let (url, servers) = servers(2, &content);
        servers[1].set(&version);
        let source = open(&url).unwrap();
        read_all(&*source, &content).unwrap();
        let second = &source.sources().unwrap()[1];
        assert_eq!((second.state, second.n_bytes), (SourceState::Disabled, 0));
        assert!(second.errors[0].contains(says), "{second:?}");
        assert!(servers[1].bytes_read() <= HEAD);
        // not even when there is no other
        servers[0].is_failing.store(true, SeqCst);
        let error = source.read_ranges(&[0..10]).unwrap_err();
        assert!(
            with_causes(&error).contains(says),
            "{}",
            with_causes(&error)
        );
        assert_eq!(servers[1].n_opened.load(SeqCst), 1);
    }
}

#[test]
fn who_gave_damaged_bytes_is_not_read_again_unless_it_is_the_last() {
    let content = content(SIZE);
    let mut damaged = content.clone();
    damaged[5 << 20..].fill(0);
    let (url, servers) = servers(2, &content);
    servers[0].set(&damaged);
    let source = open(&url).unwrap();
    let range = 6 << 20..7 << 20;
    let good = &content[6 << 20..7 << 20];
    let read = || {
        source
            .read_ranges(std::slice::from_ref(&range))
            .unwrap()
            .remove(0)
    };
    source.read_ranges(&[0..100]).unwrap();
    assert!(read() != good);
    // what it gave at the same time is damaged as well
    for part in range.clone().step_by(1 << 18) {
        assert!(source.reject(&(part..part + 1000), false));
    }
    assert!(read() == good);
    let states = || {
        source
            .sources()
            .unwrap()
            .into_iter()
            .map(|s| s.state)
            .collect::<Vec<_>>()
    };
    assert_eq!(states(), [SourceState::Disabled, SourceState::Active]);
    assert!(source.sources().unwrap()[0].errors[0].contains("damaged bytes at 6291456"));
    // the other stays, as there is none left
    assert!(!source.reject(&range, true));
    assert!(read() == good);
}

/// The good source was taken for another version.
#[test]
fn a_source_that_differs_from_damaged_bytes_is_read_once_these_are_known() {
    let content = content(SIZE);
    let mut damaged = content.clone();
    damaged[60_000] ^= 1;
    let (url, servers) = servers(2, &content);
    servers[0].set(&damaged);
    let source = open(&url).unwrap();
    read_all(&*source, &damaged).unwrap();
    let second = &source.sources().unwrap()[1];
    assert!(second.errors[0].contains("another version"), "{second:?}");
    assert!(source.reject(&(59_000..61_000), true));
    read_all(&*source, &content).unwrap();
    let states: Vec<_> = source.sources().unwrap().iter().map(|s| s.state).collect();
    assert_eq!(states, [SourceState::Disabled, SourceState::Active]);
}

/// Of bytes that two sources gave in part, the good one may be blamed.
#[test]
fn a_source_is_taken_back_that_was_blamed_for_the_bytes_of_another() {
    let content = content(1 << 20);
    let (url, _) = servers(2, &content);
    let plan = Plan {
        shown: url.clone(),
        urls: url.split('|').map(str::to_owned).collect(),
        size: None,
        settings: Settings::of(&url),
        most_active: 2,
        open: open_fake,
    };
    let source = SeveralSource::open(plan, None).unwrap();
    let gave = |number, range| source.crew().lock().delivered.add(number, vec![range]);
    let state = |number: usize| source.sources().unwrap()[number].state;
    gave(1, 0..500);
    gave(0, 500..1000);
    assert!(source.reject(&(400..600), false));
    assert_eq!(state(0), SourceState::Disabled);
    gave(1, 400..600);
    assert!(source.reject(&(400..600), true));
    assert_eq!(state(1), SourceState::Disabled);
    assert!(source.read_ranges(&[400..600]).unwrap()[0] == content[400..600]);
    assert_eq!(state(0), SourceState::Active);
    // other readers of the first bytes
    for _ in 0..2 {
        assert!(source.reject(&(400..600), false));
        assert_eq!(state(0), SourceState::Active);
    }
    let again = source.reject(&(400..600), true);
    assert!(!again, "there is no other source");
    assert_eq!(state(0), SourceState::Inactive);
}

#[test]
fn waiting_ends_when_the_caller_is_stopped() {
    let (url, servers) = servers(2, &content(1000));
    let source = open(&url).unwrap();
    servers
        .iter()
        .for_each(|server| server.is_silent.store(true, SeqCst));
    let together = Together::of_this_thread();
    std::thread::scope(|scope| {
        let read = scope.spawn(|| together.work(|| source.read_ranges(&[0..10])));
        std::thread::sleep(Duration::from_millis(50));
        together.stop();
        assert_eq!(read.join().unwrap().unwrap_err().kind(), "interrupted");
    });
    servers
        .iter()
        .for_each(|server| server.is_silent.store(false, SeqCst));
    source.read_ranges(&[0..10]).unwrap();
}

#[test]
fn with_one_active_source_others_are_read_after_failures_only() {
    let content = content(SIZE);
    let (url, servers) = servers(2, &content);
    let settings = Settings::with(&url, &[("sources", "1")]).unwrap();
    let source = open_several(&url, &settings, open_fake).unwrap();
    read_all(&*source, &content).unwrap();
    assert_eq!(servers[1].n_opened.load(SeqCst), 0);
    servers[0].is_failing.store(true, SeqCst);
    read_all(&*source, &content).unwrap();
    let error = Settings::with(&url, &[("sources", "0")]).unwrap();
    assert!(open_several(&url, &error, open_fake).is_err());
}
