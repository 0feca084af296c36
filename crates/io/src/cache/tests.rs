//! The cache over sources in memory, in one process and in several.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use femtobarn_testkit::content;

use super::*;
use crate::{ByteSource, CachedSource, MemorySource, RecordSource, SourceInfo};

mod faults;
mod limit;
mod processes;

/// A source that takes its time, and has a modification time.
#[derive(Debug)]
struct Slow {
    inner: Arc<dyn ByteSource>,
    meta: SourceMeta,
    delay: Duration,
    read: AtomicU64,
}

impl ByteSource for Slow {
    fn info(&self) -> SourceInfo<'_> {
        SourceInfo {
            meta: &self.meta,
            cost: SourceCost {
                largest_gap: 10,
                most_gaps: None,
                concurrency: 4,
                ..SourceCost::default()
            },
            ..self.inner.info()
        }
    }

    fn inner(&self) -> Option<&dyn ByteSource> {
        Some(&*self.inner)
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, IoError> {
        std::thread::sleep(self.delay);
        let n_bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        self.read.fetch_add(n_bytes, Relaxed);
        self.inner.read_ranges(ranges)
    }
}

/// A cache directory, and files that are read through it.
struct Trial {
    folder: tempfile::TempDir,
    limit: &'static str,
}

impl Trial {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            limit: "1GiB",
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    fn settings(&self, url: &str, more: &[(&str, &str)]) -> Settings {
        let cache = format!("{}:{}", self.path().display(), self.limit);
        let mut given = vec![("cache", cache.as_str())];
        given.extend(more);
        Settings::with(url, &given).unwrap()
    }

    /// A file, and what records its reads.
    fn open(&self, url: &str, content: &[u8]) -> (Arc<dyn ByteSource>, Arc<RecordSource>) {
        let settings = self.settings(url, &[]);
        let record = RecordSource::new(slow(url, content, Duration::ZERO));
        (over(record.clone(), &settings), record)
    }
}

fn slow(url: &str, content: &[u8], delay: Duration) -> Arc<Slow> {
    Arc::new(Slow {
        meta: SourceMeta {
            size: content.len() as u64,
            modified: Some(std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000)),
            etag: None,
        },
        inner: MemorySource::new(url, content.to_vec()),
        delay,
        read: AtomicU64::new(0),
    })
}

fn over(inner: Arc<dyn ByteSource>, settings: &Settings) -> Arc<dyn ByteSource> {
    let key = CacheKey::of(inner.url(), settings).unwrap().unwrap();
    CachedSource::over(inner, settings, &key).unwrap()
}

fn used(source: &dyn ByteSource) -> crate::CacheUse {
    source.cached().unwrap()
}

/// Bytes that a directory takes on disk, as `du` counts them, without grants.
fn size(folder: &Path) -> u64 {
    if folder.parent().unwrap().ends_with("writers") {
        return 0;
    }
    let own = fs::metadata(folder).map_or(0, |meta| meta.blocks() * 512);
    let below = fs::read_dir(folder).into_iter().flatten().flatten();
    own + below.map(|entry| size(&entry.path())).sum::<u64>()
}

/// What was told of a cache directory from the first call on.
fn notices_of(folder: &Path) -> String {
    static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());
    crate::tell_notices_by(|text| TOLD.lock().unwrap().push(text.to_owned()));
    let folder = folder.to_string_lossy();
    let told = TOLD.lock().unwrap();
    let own = told.iter().filter(|text| text.contains(&*folder));
    own.cloned().collect::<Vec<_>>().join("\n")
}

/// The files of a kind below a directory.
fn files(folder: &Path, end: &str) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            out.extend(files(&path, end));
        } else if path.to_string_lossy().ends_with(end) {
            out.push(path);
        }
    }
    out
}

fn cut(content: &[u8], range: &Range<u64>) -> Bytes {
    let place = |at: u64| usize::try_from(at).unwrap();
    content[place(range.start)..place(range.end)]
        .to_vec()
        .into()
}

const URL: &str = "root://h//store/f";

#[test]
fn sources_with_a_cache_conform() {
    let (trial, number) = (Trial::new(), AtomicU64::new(0));
    crate::tests::conformance::check(&|content| {
        let url = format!("root://h//{}", number.fetch_add(1, Relaxed));
        trial.open(&url, &content).0
    });
    // once more, with everything that is held
    number.store(0, Relaxed);
    crate::tests::conformance::check(&|content| {
        let url = format!("root://h//{}", number.fetch_add(1, Relaxed));
        trial.open(&url, &content).0
    });
}

#[test]
fn only_what_is_missing_is_fetched_with_gaps_as_the_source_has_them() {
    let (trial, content) = (Trial::new(), content(1000));
    let (source, record) = trial.open(URL, &content);
    assert!(!source.cost().merges);
    source.read_ranges(&[0..100, 105..200, 500..600]).unwrap();
    assert_eq!(record.log(), [vec![0..200, 500..600]]);
    record.clear();
    // inside of what is held, in two parts of it, and beyond
    let ranges = [10..20, 500..600, 90..110, 150..250, 700..710, 715..720];
    let found = source.read_ranges(&ranges).unwrap();
    for (range, found) in ranges.iter().zip(found) {
        assert_eq!(found, cut(&content, range), "{range:?}");
    }
    // the gap of the first read was not wanted, and is not kept
    assert_eq!(record.log(), [vec![100..105, 200..250, 700..720]]);
    let found = used(&*source);
    assert_eq!((found.hits, found.misses, found.bad), (2, 7, 0));
    assert_eq!(found.fetched_bytes, 200 + 100 + 5 + 50 + 20);
    assert!(source.holds(&(90..110)) || source.holds(&(100..105)));
    assert_eq!(source.n_requests(&[0..100, 300..310, 312..320]), 1);
}

#[test]
fn what_was_read_is_there_for_later_sources_and_not_for_another_state() {
    let (trial, content) = (Trial::new(), content(100_000));
    let ranges = [0..5000, 40_000..40_100, 99_000..100_000];
    let (source, _) = trial.open(URL, &content);
    source.read_ranges(&ranges).unwrap();
    drop(source);
    // the same file, its URL written in another way
    let (again, record) = trial.open("xroot://H:1094//store/f?authz=secret", &content);
    assert!(ranges.iter().all(|range| again.holds(range)));
    for (range, found) in ranges.iter().zip(again.read_ranges(&ranges).unwrap()) {
        assert_eq!(found, cut(&content, range));
    }
    assert!(record.log().is_empty());
    assert_eq!(used(&*again).hit_bytes, 5000 + 100 + 1000);
    let (other, record) = trial.open(URL, &content[..99_999]);
    other.read_ranges(&ranges[..1]).unwrap();
    assert_eq!(record.log(), [vec![0..5000]]);
    // no secret is in the directory, and nobody else may read it
    let mode = |path: &Path| {
        use std::os::unix::fs::PermissionsExt;
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    };
    let all = files(&trial.path(), "");
    assert!(all.len() >= 6, "{all:?}");
    for path in all {
        assert_eq!(mode(&path), 0o600);
        let found = fs::read(&path).unwrap();
        assert!(!found.windows(6).any(|part| part == b"secret"));
    }
    assert_eq!(mode(&trial.path()), 0o700);
}

#[test]
fn threads_that_want_the_same_fetch_it_once() {
    let (trial, content) = (Trial::new(), content(100_000));
    let slow = slow(URL, &content, Duration::from_millis(50));
    let sources: Vec<_> = (0..8)
        .map(|_| over(slow.clone(), &trial.settings(URL, &[])))
        .collect();
    std::thread::scope(|scope| {
        for source in &sources {
            scope.spawn(|| {
                for start in [0, 30_000, 60_000] {
                    let range = start..start + 20_000;
                    let found = source.read_ranges(std::slice::from_ref(&range)).unwrap();
                    assert_eq!(found[0], cut(&content, &range));
                }
            });
        }
    });
    assert_eq!(slow.read.load(Relaxed), 60_000);
    // a range that another thread has fetched counts as a hit
    let all = sources.iter().map(|source| used(&**source));
    let (hits, misses) = all.fold((0, 0), |sum, one| (sum.0 + one.hits, sum.1 + one.misses));
    assert_eq!((hits, misses), (21, 3));
}

#[test]
fn meters_count_what_a_thread_has_fetched_itself() {
    let (trial, content) = (Trial::new(), content(100_000));
    let slow = slow(URL, &content, Duration::from_millis(50));
    let settings = trial.settings(URL, &[]);
    let sources: Vec<_> = (0..4)
        .map(|_| crate::MeteredSource::of(over(slow.clone(), &settings), &settings).unwrap())
        .collect();
    std::thread::scope(|scope| {
        for source in &sources {
            scope.spawn(|| source.read_ranges(&[0..20_000, 50_000..60_000]).unwrap());
        }
    });
    let bytes = sources
        .iter()
        .map(|source| source.meter().unwrap().now().bytes);
    assert_eq!(bytes.sum::<u64>(), 30_000);
}

#[test]
fn a_failed_fetch_is_an_error_of_those_that_made_it() {
    #[derive(Debug)]
    struct Failing(Arc<dyn ByteSource>, AtomicU64);
    impl ByteSource for Failing {
        fn info(&self) -> SourceInfo<'_> {
            self.0.info()
        }
        fn inner(&self) -> Option<&dyn ByteSource> {
            Some(&*self.0)
        }
        fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, IoError> {
            std::thread::sleep(Duration::from_millis(30));
            match self.1.fetch_add(1, Relaxed) {
                0 => Err(IoError::Interrupted {
                    url: URL.to_owned(),
                }),
                _ => self.0.read_ranges(ranges),
            }
        }
    }
    let (trial, content) = (Trial::new(), content(1000));
    let inner = Failing(slow(URL, &content, Duration::ZERO), AtomicU64::new(0));
    let source = over(Arc::new(inner), &trial.settings(URL, &[]));
    let results: Vec<bool> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| source.read_ranges(&[0..10]).is_ok()))
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert_eq!(results.iter().filter(|is_ok| !**is_ok).count(), 1);
}

#[test]
fn cached_files_are_found_by_any_of_their_names() {
    let (trial, content) = (Trial::new(), content(1000));
    let logical = trial.settings(URL, &[("cache_key", "logical")]);
    over(slow(URL, &content, Duration::ZERO), &logical)
        .read_ranges(&[0..10])
        .unwrap();
    trial
        .open("root://h//eos/g", &content)
        .0
        .read_ranges(&[0..10])
        .unwrap();
    let folder = CacheFolder {
        path: trial.path(),
        limit: 1 << 30,
    };
    let fit = |text: &str| -> Vec<String> {
        let found = folder.list().into_iter().filter(|entry| entry.fits(text));
        found.map(|entry| entry.url).collect()
    };
    for text in [
        URL,
        "/store/f",
        "/store/",
        "https://other:443/eos/store/f?authz=me",
        "root://h",
    ] {
        assert!(fit(text).contains(&URL.to_owned()), "{text}");
    }
    for text in ["root://h//eos/g", "xroot://H:1094//eos/g", "root://h//eos"] {
        assert_eq!(fit(text), ["root://h//eos/g"], "{text}");
    }
    for text in ["root://i//eos/g", "f", "/store/g", "/stor"] {
        assert_eq!(fit(text), [""; 0], "{text}");
    }
}

#[test]
fn a_cache_is_named_by_settings() {
    let of =
        |text: &str| CacheFolder::of(&Settings::with("root://h//f", &[("cache", text)]).unwrap());
    let found = of("/scratch/fb:50GB").unwrap().unwrap();
    assert_eq!(found.path, Path::new("/scratch/fb"));
    assert_eq!(found.limit, 50_000_000_000);
    assert_eq!(of("/a:b/c").unwrap().unwrap().path, Path::new("/a:b/c"));
    assert_eq!(of("/a").unwrap().unwrap().limit, USUAL_LIMIT);
    assert!(of("x").unwrap().unwrap().path.is_absolute());
    assert_eq!((of("off").unwrap(), of("none").unwrap()), (None, None));
    for bad in [
        ":5GB",
        "50GB",
        "/a:5kB",
        "/a:10%",
        "/a:-5GB",
        "/a:b",
        "/a:",
        "root://h//c:1GB",
    ] {
        assert!(
            of(bad).unwrap_err().to_string().contains("DIR:SIZE"),
            "{bad}"
        );
    }
    let key = |url: &str, more: &[(&str, &str)]| {
        let mut given = vec![("cache", "/c")];
        given.extend(more);
        let settings = Settings::with(url, &given).unwrap();
        CacheKey::of(url, &settings).map(|key| key.unwrap().key)
    };
    let logical = [("cache_key", "logical")];
    for url in [
        "root://a//eos/cms/store/x/f.root",
        "https://b:80/store/x/f.root?authz=me",
    ] {
        assert_eq!(key(url, &logical).unwrap(), "/store/x/f.root");
    }
    let (one, two) = ("root://a//eos/store/x/f", "https://b/store/x/f?authz=me");
    let either = [format!("{one}|{two}"), format!("{two}|{one}|size=12")];
    assert_eq!(key(&either[0], &[]).unwrap(), key(&either[1], &[]).unwrap());
    for both in &either {
        assert_eq!(key(both, &logical).unwrap(), "/store/x/f");
    }
    let asked = |query: &str| key(&format!("https://b/store/get?{query}"), &logical).unwrap();
    assert_ne!(asked("file=a"), asked("file=b"));
    let different = format!("{one}|https://b/store/x/g");
    assert!(!key(&different, &logical).unwrap().starts_with('/'));
    let other = [("cache_key", "logical"), ("cache_prefix", "/x/")];
    assert_eq!(key("root://a//store/x/f", &other).unwrap(), "/x/f");
    assert_eq!(key("root://a//y/f", &logical).unwrap(), "root://a/y/f");
    assert!(key("root://a//y/f", &[("cache_key", "name")]).is_err());
    for bad in ["cache_key", "cache_list_ttl", "immutable"] {
        let settings = Settings::with(URL, &[("cache", "off"), (bad, "-x")]);
        let told = settings.and_then(|settings| CacheKey::of(URL, &settings));
        assert!(told.unwrap_err().to_string().contains(bad));
    }
    let asked = |query: &str| key(&format!("https://h/get?{query}"), &[]).unwrap();
    assert_ne!(asked("file=a"), asked("file=b"));
    assert_eq!(asked("file=a"), asked("file=a&X-Amz-Signature=1&authz=me"));
    assert!(!asked("file=a").contains("file"));
    let at = |endpoint| key("s3://b/f", &[("endpoint", endpoint)]).unwrap();
    assert_ne!(at("http://h:1"), at("http://h:2"));
    assert!(!at("http://me:secret@h:1").contains("secret"));
}
