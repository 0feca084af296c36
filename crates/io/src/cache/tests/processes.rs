//! Several processes with one directory: this test program is started again, to be the others.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use super::*;

const SIZE: usize = 4 << 20;
const PIECE: u64 = 20_000;

/// Does what the others do, if this process is one of them.
#[test]
#[ignore = "it is started by other tests"]
fn other() {
    let Ok(folder) = std::env::var("FB_TEST_CACHE") else {
        return;
    };
    let number = |name: &str| std::env::var(name).unwrap().parse::<u64>().unwrap();
    let content = content(SIZE);
    let inner = slow(
        URL,
        &content,
        Duration::from_millis(number("FB_TEST_DELAY")),
    );
    let given = [("cache", folder.as_str())];
    let source = over(inner.clone(), &Settings::with(URL, &given).unwrap());
    let passes = number("FB_TEST_PASSES");
    for _ in 0..passes {
        check(&*source, &content);
    }
    let used = used(&*source);
    println!("\nread {} bad {}", inner.read.load(Relaxed), used.bad);
}

/// Reads a file by several threads, in vector reads of some pieces each.
fn check(source: &dyn ByteSource, content: &[u8]) {
    let size = content.len() as u64;
    let pieces: Vec<Range<u64>> = (0..size.div_ceil(PIECE))
        .map(|i| i * PIECE..((i + 1) * PIECE - 100).min(size))
        .collect();
    let vectors: Vec<_> = pieces.chunks(16).collect();
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(vector) =
                    vectors.get(usize::try_from(next.fetch_add(1, Relaxed)).unwrap())
                {
                    for (range, found) in vector.iter().zip(source.read_ranges(vector).unwrap()) {
                        assert!(found == cut(content, range), "{range:?}");
                    }
                }
            });
        }
    });
}

fn start(trial: &Trial, delay: u64, passes: u64) -> Child {
    let cache = format!("{}:{}", trial.path().display(), trial.limit);
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--ignored",
            "--exact",
            "--nocapture",
            "cache::tests::processes::other",
        ])
        .env("FB_TEST_CACHE", cache)
        .env("FB_TEST_DELAY", delay.to_string())
        .env("FB_TEST_PASSES", passes.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// What a process has read from the source, and how many entries were bad, when it has ended well.
fn end(mut child: Child) -> (u64, u64) {
    let mut said = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert!(child.wait().unwrap().success(), "{said}");
    let line = said.lines().find(|line| line.starts_with("read ")).unwrap();
    let numbers: Vec<u64> = line
        .split(' ')
        .filter_map(|word| word.parse().ok())
        .collect();
    (numbers[0], numbers[1])
}

#[test]
fn eight_processes_fetch_what_one_would() {
    let trial = Trial::new();
    let wanted = SIZE as u64 - (SIZE as u64).div_ceil(PIECE) * 100;
    let children: Vec<Child> = (0..8).map(|_| start(&trial, 20, 1)).collect();
    let ends: Vec<(u64, u64)> = children.into_iter().map(end).collect();
    let read: u64 = ends.iter().map(|(read, _)| read).sum();
    assert!(read >= wanted - PIECE, "{read}");
    assert!(read * 10 <= wanted * 11, "{read} of {wanted}: {ends:?}");
    assert!(ends.iter().all(|(_, bad)| *bad == 0), "{ends:?}");
    assert_eq!(end(start(&trial, 20, 1)), (0, 0));
}

#[test]
fn processes_with_a_slow_server_wait_for_one_another() {
    let trial = Trial::new();
    // each of its reads takes longer than a process of another machine is waited for
    let children: Vec<Child> = (0..3).map(|_| start(&trial, 5000, 1)).collect();
    let ends: Vec<(u64, u64)> = children.into_iter().map(end).collect();
    let read: u64 = ends.iter().map(|(read, _)| read).sum();
    assert!(read * 10 <= SIZE as u64 * 11, "{ends:?}");
}

/// A process that was killed, and one that does not go on, hold up nobody for long.
#[test]
fn claims_of_processes_that_do_not_go_on_are_not_waited_for() {
    let trial = Trial::new();
    let signal = |child: &Child, signal: i32| {
        let status = Command::new("kill")
            .args([format!("-{signal}"), child.id().to_string()])
            .status();
        assert!(status.unwrap().success());
    };
    let mut stopped = start(&trial, 60_000, 1);
    let began = Instant::now();
    // it has claimed what it waits for
    while files(&trial.path(), ".index").is_empty() && began.elapsed().as_secs() < 20 {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(100));
    signal(&stopped, 19);
    let start_at = Instant::now();
    let (read, _) = end(start(&trial, 1, 1));
    let waited = start_at.elapsed();
    assert!(read > 0);
    assert!(
        waited > Duration::from_secs(3) && waited < Duration::from_secs(12),
        "{waited:?}"
    );
    stopped.kill().unwrap();
    stopped.wait().unwrap();
    // of one that is gone, no claim counts
    let trial = Trial::new();
    let mut killed = start(&trial, 60_000, 1);
    let began = Instant::now();
    while files(&trial.path(), ".index").is_empty() && began.elapsed().as_secs() < 20 {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(100));
    killed.kill().unwrap();
    killed.wait().unwrap();
    let start_at = Instant::now();
    end(start(&trial, 1, 1));
    assert!(
        start_at.elapsed() < Duration::from_secs(3),
        "{:?}",
        start_at.elapsed()
    );
}

/// Kills eight processes at any instant that fill a directory, again and again; with limits, and without.
fn is_right_after_kills(n: usize) {
    let content = content(SIZE);
    for limit in ["1GiB", "3MiB"] {
        let mut trial = Trial::new();
        trial.limit = limit;
        let mut children: Vec<Child> = (0..8).map(|_| start(&trial, 1, 1000)).collect();
        for kill in 0..n {
            std::thread::sleep(Duration::from_millis(37 * (kill as u64 % 7)));
            let child = &mut children[kill % 8];
            child.kill().unwrap();
            child.wait().unwrap();
            *child = start(&trial, 1, 1000);
        }
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        // fresh eyes: every byte is right, and no entry is bad
        let (source, _) = trial.open(URL, &content);
        check(&*source, &content);
        assert_eq!(used(&*source).bad, 0);
        let (_, bad) = end(start(&trial, 1, 1));
        assert_eq!(bad, 0);
        assert!(size(&trial.path()) <= parse_bytes(limit).unwrap());
        let folder = CacheFolder {
            path: trial.path(),
            limit: 0,
        };
        assert_eq!(folder.verify().bad, []);
    }
}

#[test]
fn kills_at_any_instant_leave_a_cache_that_works() {
    is_right_after_kills(30);
}

/// Takes a minute.
#[test]
#[ignore = "long; CI runs it by name"]
fn two_hundred_kills_leave_a_cache_that_works() {
    is_right_after_kills(100);
}
