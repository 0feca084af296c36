//! The limit of a cache directory, and which segments make room for new ones.
//!
//! A process that writes takes a grant of some bytes before: a file in `writers` that is so long. Then it adds up all
//! files of the directory, and removes segments until these and all grants are within the limit. So the limit holds
//! with any number of writers: each process has seen the grants that were taken before its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use super::about;
use super::format::{Header, Hits, RECORD, WriterId};
use super::segment::{make_folder, name, new_file, number_of};
use super::writer_id::{now, random};
use crate::runtime::process;
use crate::units;

/// Of so many segments, the one that was of least use is removed.
const SAMPLES: usize = 8;

/// Grants of writers on other machines count for so long after they were taken.
const GRANT_LASTS: Duration = Duration::from_secs(3600);

/// The name of the directory with the grants.
const WRITERS: &str = "writers";

/// The name of the directory with lists of servers' directories.
pub(super) const LISTS: &str = "lists";

/// The name of a file that keeps the segments beside it, or one level below, from being removed.
pub(super) const PINNED: &str = "pinned";

/// The two files of a segment may take a block more each: when something is appended, or when the blocks of what was
/// just written are allocated.
const ENDS: u64 = 8 << 10;

/// Lists are removed when they are so old, whatever their time to live.
const LISTS_LAST: Duration = Duration::from_secs(86_400);

/// What a process may still write to a cache directory.
#[derive(Debug)]
pub(super) struct Room {
    folder: PathBuf,
    limit: u64,
    grant: Mutex<Grant>,
}

#[derive(Debug)]
struct Grant {
    file: PathBuf,
    owner: u32,
    left: u64,
}

/// A segment of a directory.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// The directory of the state of its file.
    pub folder: PathBuf,
    pub number: u64,
    /// Bytes that it takes on disk.
    pub bytes: u64,
    pub is_pinned: bool,
}

/// What is in a cache directory.
#[derive(Debug, Default)]
pub(super) struct Scan {
    pub segments: Vec<Found>,
    /// Bytes that all files and directories take on disk, grants included.
    pub bytes: u64,
    /// Bytes of the grants.
    pub granted: u64,
}

impl Scan {
    /// Removes the segments of a state; returns the bytes that are free now.
    pub fn remove(&self, folder: &Path) -> u64 {
        let own = self.segments.iter().filter(|one| one.folder == folder);
        own.map(Found::remove).sum()
    }
}

impl Found {
    /// The paths of its index and its data.
    pub fn files(&self) -> [PathBuf; 2] {
        let place = |end: &str| self.folder.join(format!("{}.{end}", name(self.number)));
        [place("index"), place("data")]
    }

    /// Removes it, and returns the bytes that are free now. Processes that have its bytes in memory keep them.
    pub fn remove(&self) -> u64 {
        for file in self.files() {
            let _ = fs::remove_file(file);
        }
        self.bytes + remove_empty(&self.folder)
    }

    /// Bytes that came from it.
    fn hits(&self) -> Hits {
        let [index, _] = self.files();
        let mut start = [0; 2 * RECORD];
        let read = File::open(index).and_then(|mut file| file.read_exact(&mut start));
        match read.ok().and_then(|()| Header::parse(&start)) {
            Some(_) => Hits::parse(&start),
            // a file that is not a segment has no hits
            None => Hits::default(),
        }
    }

    /// The hits for each of its bytes, in 1024ths.
    fn worth(&self, now: u64) -> u128 {
        u128::from(self.hits().aged(now)) * 1024 / u128::from(self.bytes.max(1))
    }

    /// Lets its hits count for less: it was not removed this time.
    fn fade(&self, now: u64) {
        let bytes = self.hits().aged(now) / 4 * 3;
        let [index, _] = self.files();
        if bytes > 0
            && let Ok(file) = File::options().write(true).open(index)
        {
            let _ = file.write_all_at(&Hits { bytes, time: now }.bytes(), RECORD as u64);
        }
    }
}

/// Removes the directory of a state that has no segments, and that of a file without states. Returns the bytes that are
/// free now.
pub(super) fn remove_empty(folder: &Path) -> u64 {
    // what a process left behind that was killed as it named the state
    let is_part = |name: &str| name.ends_with(".part");
    let found: Vec<(String, PathBuf)> = entries(folder).collect();
    if found
        .iter()
        .any(|(name, _)| name != about::FILE && !is_part(name))
    {
        return 0;
    }
    let mut freed = 0;
    for (_, path) in found {
        let bytes = disk_bytes(&path);
        freed += fs::remove_file(path).map_or(0, |()| bytes);
    }
    for folder in folder.ancestors().take(2) {
        let bytes = disk_bytes(folder);
        freed += fs::remove_dir(folder).map_or(0, |()| bytes);
    }
    freed
}

/// Bytes that a file or a directory takes on disk: all of its blocks.
fn disk_bytes(path: &Path) -> u64 {
    // blocks of a file that was just written are not always counted yet
    fs::metadata(path).map_or(0, |meta| match meta.is_dir() {
        true => meta.blocks() * 512,
        false => meta.len().max(meta.blocks() * 512),
    })
}

/// The names in a directory, and their paths; none if it does not exist.
pub(super) fn entries(folder: &Path) -> impl Iterator<Item = (String, PathBuf)> {
    let found = fs::read_dir(folder).into_iter().flatten().flatten();
    found.filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
}

/// Whether a directory of the cache was named by it: by a hash.
pub(super) fn is_hash(name: &str) -> bool {
    name.len() == 32 && name.bytes().all(|c| c.is_ascii_hexdigit())
}

/// Adds up a cache directory, and clears away what nobody needs: grants of processes that have ended, and old lists.
pub(super) fn scan(folder: &Path) -> Scan {
    let mut scan = Scan {
        bytes: disk_bytes(folder),
        ..Scan::default()
    };
    for (name, path) in entries(folder) {
        scan.bytes += disk_bytes(&path);
        match name.as_str() {
            WRITERS => scan_grants(&path, &mut scan),
            LISTS => scan_lists(&path, &mut scan),
            name if is_hash(name) => {
                let is_pinned = path.join(PINNED).exists();
                for (name, path) in entries(&path) {
                    scan.bytes += disk_bytes(&path);
                    if is_hash(&name) {
                        scan_state(&path, is_pinned, &mut scan);
                    }
                }
            }
            _ => {}
        }
    }
    scan
}

fn scan_state(folder: &Path, is_pinned: bool, scan: &mut Scan) {
    let is_pinned = is_pinned || folder.join(PINNED).exists();
    let mut segments: BTreeMap<u64, u64> = BTreeMap::new();
    for (file, path) in entries(folder) {
        let bytes = disk_bytes(&path);
        scan.bytes += bytes;
        // bytes without an index are of no use, and count as a segment
        if let Some(number) = number_of(&file) {
            *segments.entry(number).or_default() += bytes;
        }
    }
    let found = segments.into_iter().map(|(number, bytes)| Found {
        folder: folder.to_owned(),
        number,
        bytes,
        is_pinned,
    });
    scan.segments.extend(found);
}

fn scan_grants(folder: &Path, scan: &mut Scan) {
    for (_, path) in entries(folder) {
        let mut start = [0; RECORD];
        let read = File::open(&path).and_then(|mut file| file.read_exact(&mut start));
        let header = read.ok().and_then(|()| Header::parse(&start));
        let is_gone = header.is_some_and(|header| header.writer.is_gone());
        if is_gone || age(&path).is_some_and(|age| age > GRANT_LASTS) {
            let _ = fs::remove_file(&path);
        } else {
            let bytes = disk_bytes(&path);
            scan.granted += bytes;
            scan.bytes += bytes;
        }
    }
}

fn scan_lists(folder: &Path, scan: &mut Scan) {
    for (_, path) in entries(folder) {
        if age(&path).is_some_and(|age| age > LISTS_LAST) {
            let _ = fs::remove_file(&path);
        } else {
            scan.bytes += disk_bytes(&path);
        }
    }
}

/// How long ago a file was written; none if it does not exist, or its time is that of a clock which is ahead.
pub(super) fn age(path: &Path) -> Option<Duration> {
    let time = fs::metadata(path).ok()?.modified().ok()?;
    SystemTime::now().duration_since(time).ok()
}

/// Removes segments until a directory has no more than `limit` bytes. Returns whether it does.
pub(super) fn make_room(mut scan: Scan, limit: u64) -> bool {
    scan.bytes += ENDS * scan.segments.len() as u64;
    scan.segments.retain(|found| !found.is_pinned);
    let (mut state, now) = (random(), now());
    while scan.bytes > limit {
        let n = scan.segments.len();
        let Ok(count) = u64::try_from(n) else {
            return false;
        };
        let mut draw = || {
            // any generator does; this one is splitmix64
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            let drawn = (mixed ^ (mixed >> 31)).checked_rem(count)?;
            let at = usize::try_from(drawn).ok()?;
            Some((scan.segments.get(at)?.worth(now), at))
        };
        let sampled: Vec<(u128, usize)> = (0..SAMPLES).map_while(|_| draw()).collect();
        let Some((_, at)) = sampled.iter().copied().min_by_key(|(worth, _)| *worth) else {
            return false;
        };
        // segments that are not used any more lose their rank to others
        let others: BTreeSet<usize> = sampled.iter().map(|(_, other)| *other).collect();
        for other in others.iter().filter(|other| **other != at) {
            if let Some(other) = scan.segments.get(*other) {
                other.fade(now);
            }
        }
        let freed = scan.segments.swap_remove(at).remove();
        scan.bytes = scan.bytes.saturating_sub(freed + ENDS);
    }
    true
}

impl Room {
    pub fn new(folder: &Path, limit: u64) -> Self {
        Self {
            folder: folder.to_owned(),
            limit,
            grant: Mutex::new(Grant {
                file: folder.join(WRITERS).join(name(random())),
                owner: process(),
                left: 0,
            }),
        }
    }

    /// The largest size of a segment: so that removing one is not much.
    pub fn segment(&self) -> u64 {
        (self.limit / 64).clamp(64 << 10, 64 << 20)
    }

    /// The most bytes of one entry.
    pub fn largest(&self) -> u64 {
        self.limit / 8
    }

    /// Takes room for so many bytes.
    ///
    /// # Errors
    /// If there is none, or the directory may not be written to.
    pub fn take(&self, bytes: u64) -> io::Result<()> {
        let mut grant = self.grant.lock().unwrap_or_else(PoisonError::into_inner);
        if grant.left < bytes {
            self.renew(&mut grant, bytes)?;
        }
        grant.left -= bytes;
        Ok(())
    }

    fn renew(&self, grant: &mut Grant, bytes: u64) -> io::Result<()> {
        let size = bytes.max((self.limit / 256).clamp(64 << 10, 64 << 20));
        if size <= self.limit / 2 {
            announce(&grant.file, size)?;
            if make_room(scan(&self.folder), self.limit) {
                grant.left = size;
                return Ok(());
            }
            grant.left = 0;
            let _ = fs::remove_file(&grant.file);
        }
        let limit = units::bytes(self.limit);
        let why = format!("pinned files and other writers take all of its {limit}");
        Err(io::Error::new(io::ErrorKind::QuotaExceeded, why))
    }
}

/// Makes the file of a grant so long.
fn announce(grant: &Path, size: u64) -> io::Result<()> {
    if !grant.exists() {
        make_folder(grant.parent().unwrap_or(grant))?;
        let header = Header {
            writer: WriterId::this(),
            segment: 0,
            time: now(),
        };
        new_file().open(grant)?.write_all(&header.bytes())?;
    }
    let file = File::options().write(true).open(grant)?;
    file.set_len(size.max(RECORD as u64))?;
    let _ = file.set_modified(SystemTime::now());
    Ok(())
}

impl Drop for Room {
    fn drop(&mut self) {
        let grant = self.grant.get_mut().unwrap_or_else(PoisonError::into_inner);
        if grant.owner == process() {
            let _ = fs::remove_file(&grant.file);
        }
    }
}
