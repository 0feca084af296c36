//! A cache of files of real servers.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use femtobarn_testkit::{content, relay};

use super::kinds::Place;
use crate::{ByteSource, CacheUse, CachedSource, Settings};

const SIZE: usize = 3 << 20;

/// A server behind a relay that counts the bytes it sends, and a cache directory.
struct Trial {
    place: Place,
    port: u16,
    sent: Arc<AtomicU64>,
    folder: tempfile::TempDir,
}

impl Trial {
    fn start(kind: &'static str) -> Option<Self> {
        let place = Place::start(kind)?;
        let sent = Arc::new(AtomicU64::new(0));
        let count = sent.clone();
        let port = relay(place.server.port, move |passing| {
            if passing.is_answer {
                count.fetch_add(passing.bytes.len() as u64, Relaxed);
            }
            ControlFlow::Continue(())
        });
        Some(Self {
            place,
            port,
            sent,
            folder: tempfile::tempdir().unwrap(),
        })
    }

    /// Creates or replaces a file that was last changed so many seconds ago.
    fn put(&mut self, name: &str, content: &[u8], age: u64) {
        self.place.put(name, content);
        let data = self.place.server.data.first();
        let path = data
            .map(|data| data.join(name))
            .filter(|path| path.is_file());
        if let Some(file) =
            path.and_then(|path| std::fs::File::options().write(true).open(path).ok())
        {
            let time = SystemTime::now() - Duration::from_secs(age);
            file.set_modified(time).unwrap();
        }
    }

    fn settings(&self, more: &[(&str, &str)]) -> Settings {
        let cache = self
            .folder
            .path()
            .join("cache")
            .to_string_lossy()
            .into_owned();
        let all = [&[("cache", cache.as_str())], more].concat();
        self.place.settings(self.port, &all)
    }

    fn open(&self, name: &str, more: &[(&str, &str)]) -> Arc<dyn ByteSource> {
        CachedSource::open(&self.place.url(self.port, name), &self.settings(more)).unwrap()
    }

    /// Reads all shapes of ranges; returns what the cache was asked, and how many bytes the server sent.
    fn read(&self, name: &str, content: &[u8], more: &[(&str, &str)]) -> (CacheUse, u64) {
        let before = self.sent.load(Relaxed);
        let source = self.open(name, more);
        super::check_reads(&*source, content).unwrap();
        let used = source.cached().unwrap();
        drop(source);
        (used, self.sent.load(Relaxed) - before)
    }
}

fn is_read_once(kind: &'static str) {
    let Some(mut trial) = Trial::start(kind) else {
        return;
    };
    let old = content(SIZE);
    trial.put("f", &old, 1000);
    let (used, sent) = trial.read("f", &old, &[]);
    assert!(
        used.fetched_bytes > 0 && sent >= SIZE as u64,
        "{kind}: {used:?}, {sent}"
    );
    let (used, sent) = trial.read("f", &old, &[]);
    assert_eq!(
        (used.misses, used.fetched_bytes, used.bad),
        (0, 0, 0),
        "{kind}"
    );
    assert!(sent < 20_000, "{kind}: {sent} bytes");
    // another file of this size takes its place
    let new: Vec<u8> = old.iter().map(|byte| !byte).collect();
    trial.put("f", &new, 500);
    let (used, _) = trial.read("f", &new, &[]);
    assert!(used.fetched_bytes > 0, "{kind}");
    assert_eq!(trial.read("f", &new, &[]).0.fetched_bytes, 0, "{kind}");
    // without the server
    trial.place.server.kill();
    let (used, sent) = trial.read("f", &new, &[("immutable", "true")]);
    assert_eq!((used.fetched_bytes, sent), (0, 0), "{kind}");
    let (used, sent) = trial.read("f", &new, &[("cache_list_ttl", "3600")]);
    assert_eq!((used.fetched_bytes, sent), (0, 0), "{kind}");
}

#[test]
fn files_of_xrootd_are_read_once() {
    is_read_once("xrootd");
}

#[test]
fn files_of_nginx_are_read_once() {
    is_read_once("nginx");
}

#[test]
fn objects_are_read_once() {
    is_read_once("minio");
}

#[test]
fn a_file_that_was_just_changed_is_not_cached_if_only_its_time_tells() {
    let Some(mut trial) = Trial::start("xrootd") else {
        return;
    };
    let content = content(SIZE);
    trial.put("f", &content, 0);
    let source = trial.open("f", &[]);
    assert!(source.cached().is_none());
    super::check_reads(&*source, &content).unwrap();
}

#[test]
fn replicas_share_what_is_held_by_their_logical_name() {
    let (Some(mut one), Some(mut other)) = (Trial::start("xrootd"), Trial::start("nginx")) else {
        return;
    };
    let content = content(SIZE);
    let logical = [("cache_key", "logical"), ("cache_prefix", "/f")];
    one.put("f", &content, 1000);
    other.put("f", &content, 77);
    let (used, _) = one.read("f", &content, &logical);
    assert!(used.fetched_bytes > 0);
    let path = one.folder.path().to_string_lossy().into_owned() + "/cache";
    let more = [&logical[..], &[("cache", path.as_str())]].concat();
    let (used, sent) = other.read("f", &content, &more);
    assert_eq!(used.fetched_bytes, 0);
    assert!(sent < 20_000, "{sent} bytes");
}

#[test]
fn opening_for_what_is_missing_does_not_read_the_ends_again() {
    for kind in ["xrootd", "nginx", "minio"] {
        let Some(mut trial) = Trial::start(kind) else {
            continue;
        };
        let content = content(SIZE);
        trial.put("f", &content, 1000);
        let end = SIZE as u64;
        trial
            .open("f", &[])
            .read_ranges(&[0..100, end - 100..end])
            .unwrap();
        for (more, part) in [(&[][..], 0), (&[("immutable", "true")][..], 1)] {
            let first = (1 << 20) + part * 1000;
            let range = first as u64..first as u64 + 1000;
            let before = trial.sent.load(Relaxed);
            let found = trial
                .open("f", more)
                .read_ranges(std::slice::from_ref(&range))
                .unwrap();
            assert!(found[0] == content[first..first + 1000]);
            let sent = trial.sent.load(Relaxed) - before;
            assert!(sent < 20_000, "{kind}: {sent} bytes");
        }
    }
}
