//! Damaged, missing and foreign files in a cache directory.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::*;

const RANGES: [Range<u64>; 3] = [0..5000, 40_000..45_000, 90_000..100_000];

/// A directory with what was read of a file.
fn filled(content: &[u8]) -> Trial {
    let trial = Trial::new();
    let (source, _) = trial.open(URL, content);
    source.read_ranges(&RANGES).unwrap();
    trial
}

/// Reads everything, which must be right; returns what had to be fetched, and how many entries were bad.
fn reads_well(trial: &Trial, content: &[u8]) -> (u64, u64) {
    let (source, _) = trial.open(URL, content);
    for (range, found) in RANGES.iter().zip(source.read_ranges(&RANGES).unwrap()) {
        assert_eq!(found, cut(content, range), "{range:?}");
    }
    let used = used(&*source);
    (used.fetched_bytes, used.bad)
}

fn flip(path: &Path, at: u64) {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    byte[0] ^= 1;
    file.write_all_at(&byte, at).unwrap();
}

#[test]
fn a_damaged_byte_is_a_miss_that_is_counted_and_replaced() {
    let content = content(100_000);
    let trial = filled(&content);
    // the second entry begins after 5000 bytes
    flip(&files(&trial.path(), ".data")[0], 7000);
    assert_eq!(reads_well(&trial, &content), (5000, 1));
    assert_eq!(reads_well(&trial, &content), (0, 0));
}

#[test]
fn damaged_and_torn_records_are_misses() {
    let content = content(100_000);
    for damage in [0, 1, 2] {
        let trial = filled(&content);
        let index = files(&trial.path(), ".index").remove(0);
        // how many claims are before depends on how long it took
        let records = fs::read(&index).unwrap();
        let mut records = records.chunks(64);
        let entry = 64 * records.position(|one| one.starts_with(b"entry")).unwrap() as u64;
        match damage {
            // the header
            0 => flip(&index, 3),
            1 => flip(&index, entry + 10),
            _ => OpenOptions::new()
                .write(true)
                .open(&index)
                .unwrap()
                .set_len(entry + 64 + 57)
                .unwrap(),
        }
        let (fetched, bad) = reads_well(&trial, &content);
        assert!(fetched > 0 && bad == 0, "{damage}: {fetched}, {bad}");
        assert_eq!(reads_well(&trial, &content), (0, 0), "{damage}");
    }
}

#[test]
fn data_that_are_too_short_or_missing_are_misses() {
    let content = content(100_000);
    for is_short in [true, false] {
        let trial = filled(&content);
        let data = files(&trial.path(), ".data").remove(0);
        match is_short {
            true => OpenOptions::new()
                .write(true)
                .open(&data)
                .unwrap()
                .set_len(6000)
                .unwrap(),
            false => fs::remove_file(&data).unwrap(),
        }
        let (fetched, bad) = reads_well(&trial, &content);
        assert_eq!(
            (fetched, bad),
            if is_short { (15_000, 2) } else { (20_000, 0) }
        );
        assert_eq!(reads_well(&trial, &content), (0, 0));
    }
}

#[test]
fn garbage_in_the_directory_does_no_harm() {
    let content = content(100_000);
    let trial = filled(&content);
    let state = files(&trial.path(), ".data")[0]
        .parent()
        .unwrap()
        .to_owned();
    for (name, text) in [
        ("0000000000000001.index", &b"garbage"[..]),
        ("0000000000000002.index", &[0; 4096]),
        ("0000000000000003.data", &[7; 100]),
        ("about.toml", b"\0\xff"),
        ("x", b"x"),
    ] {
        fs::write(state.join(name), text).unwrap();
        fs::write(state.parent().unwrap().join(name), text).unwrap();
        fs::write(trial.path().join(name), text).unwrap();
    }
    fs::create_dir(state.join("0000000000000004.index")).unwrap();
    assert_eq!(reads_well(&trial, &content), (0, 0));
}

#[test]
fn a_directory_that_is_removed_while_in_use_is_made_again() {
    let content = content(100_000);
    let trial = filled(&content);
    let (source, _) = trial.open(URL, &content);
    source.read_ranges(&RANGES[..1]).unwrap();
    fs::remove_dir_all(trial.path()).unwrap();
    for range in [&RANGES[0], &RANGES[1], &(50_000..60_000)] {
        let found = source.read_ranges(std::slice::from_ref(range)).unwrap();
        assert_eq!(found[0], cut(&content, range));
    }
    drop(source);
    reads_well(&trial, &content);
    assert_eq!(reads_well(&trial, &content), (0, 0));
}

#[test]
fn a_directory_that_cannot_be_made_leaves_reading_as_it_is() {
    let content = content(100_000);
    let trial = Trial::new();
    fs::write(trial.path(), "a file").unwrap();
    let all = RANGES.iter().map(|range| range.end - range.start).sum();
    notices_of(&trial.path());
    assert_eq!(reads_well(&trial, &content), (all, 0));
    assert_eq!(reads_well(&trial, &content), (all, 0));
    let told = notices_of(&trial.path());
    assert!(told.contains("cannot write to the cache"), "{told}");
}

#[test]
fn rejected_bytes_are_read_again_and_the_same_ones_are_not_kept() {
    let content = content(100_000);
    let trial = Trial::new();
    let (source, record) = trial.open(URL, &content);
    source.read_ranges(&RANGES).unwrap();
    record.clear();
    // a part of an entry, which came from the server as it is
    assert!(source.reject(&(41_000..41_010), false));
    assert_eq!(used(&*source).bad, 1);
    assert!(!source.holds(&RANGES[1]) && source.holds(&RANGES[0]));
    source.read_ranges(&RANGES).unwrap();
    source.read_ranges(&RANGES).unwrap();
    assert_eq!(
        record.log(),
        [vec![RANGES[1].clone()], vec![RANGES[1].clone()]]
    );
    assert!(
        !source.reject(&RANGES[1], true),
        "there is nothing else to read"
    );
    // as long as a thread writes, the file knows what was rejected
    crate::cache::settle_all();
    drop(source);
    // the server has recovered, or another process trusts it
    assert_eq!(reads_well(&trial, &content), (5000, 0));
    assert_eq!(reads_well(&trial, &content), (0, 0));
}

#[test]
fn clocks_and_times_of_files_do_not_matter() {
    let content = content(100_000);
    let trial = filled(&content);
    let times = [Duration::ZERO, Duration::from_secs(1 << 33)];
    for (number, path) in files(&trial.path(), "").iter().enumerate() {
        let time = std::time::UNIX_EPOCH + times[number % 2];
        OpenOptions::new()
            .write(true)
            .open(path)
            .unwrap()
            .set_modified(time)
            .unwrap();
    }
    assert_eq!(reads_well(&trial, &content), (0, 0));
}

/// A file system of this size, which ends with it; none if this user may not mount any.
struct Mounted(PathBuf);

impl Mounted {
    fn new(path: PathBuf, size: &str) -> Option<Self> {
        fs::create_dir(&path).unwrap();
        let options = format!("size={size}");
        let done = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(&path)
            .output();
        let is_done = done.is_ok_and(|done| done.status.success());
        if !is_done {
            eprintln!("skipped: no right to mount a file system (be root)");
        }
        is_done.then_some(Self(path))
    }

    fn forbid_writing(&self) {
        let mut mount = std::process::Command::new("mount");
        let done = mount.args(["-o", "remount,ro"]).arg(&self.0).status();
        assert!(done.unwrap().success());
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_and_one_that_is_read_only_leave_a_cache_that_works() {
    let content = content(3 << 20);
    let trial = Trial::new();
    let Some(disk) = Mounted::new(trial.path(), "1m") else {
        return;
    };
    let read = || {
        let (source, _) = trial.open(URL, &content);
        for start in (0..content.len() as u64).step_by(50_000) {
            let range = start..(start + 50_000).min(content.len() as u64);
            let found = source.read_ranges(std::slice::from_ref(&range)).unwrap();
            assert_eq!(found[0], cut(&content, &range));
        }
        used(&*source)
    };
    read();
    let second = read();
    assert!(second.hits > 5 && second.misses > 5, "{second:?}");
    disk.forbid_writing();
    let third = read();
    assert_eq!((third.hits, third.bad), (second.hits, 0));
    let folder = CacheFolder {
        path: trial.path(),
        limit: 0,
    };
    assert_eq!(folder.verify().bad, []);
}
