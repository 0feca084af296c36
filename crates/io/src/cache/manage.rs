//! What one asks of a cache directory as a whole: its contents, whether they are right, and to remove some.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::about::About;
use super::file::FileCache;
use super::format::{FIRST_RECORD, Record};
use super::index::Held;
use super::room::{LISTS, PINNED, Room, age, entries, is_hash, make_room, remove_empty, scan};
use super::segment::{Segment, number_of_index};
use super::{CacheFolder, segment};
use crate::settings::comparable;
use crate::url::split_sources;
use crate::{IoError, SourceMeta, public};

/// Segments of writers on other machines are merged when nobody has written to them for so long.
const LEFT_ALONE: Duration = Duration::from_secs(86_400);

/// What is in a cache directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheStatus {
    /// Bytes that it takes on disk.
    pub bytes: u64,
    /// Bytes that writers may still add.
    pub granted: u64,
    /// Number of cached states of files.
    pub files: usize,
    /// Segments that these are in.
    pub segments: usize,
    /// Bytes that are not removed to make room.
    pub pinned: u64,
}

/// A cached file, in one state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheEntry {
    /// Its URL, without secrets, by which it was first read.
    pub url: String,
    /// What it is known by: its URL in one way of writing, or its logical name.
    pub key: String,
    /// Its size, and what tells its state.
    pub meta: SourceMeta,
    /// Nanoseconds since 1970 when it was first read.
    pub since: u64,
    /// Held ranges.
    pub ranges: usize,
    /// Bytes on disk.
    pub bytes: u64,
    /// Segments that these are in.
    pub segments: usize,
    /// Whether it is not removed to make room.
    pub is_pinned: bool,
    folder: PathBuf,
}

/// What a check of a cache directory found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CacheVerified {
    /// Ranges whose bytes are those that were written.
    pub ranges: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Ranges whose bytes are not: the segment, and the range.
    pub bad: Vec<(PathBuf, std::ops::Range<u64>)>,
    /// Ranges that were found to be bad before, and are not used.
    pub voided: u64,
    /// Files that are none of the cache, or incomplete at their end because their writer was killed.
    pub torn: Vec<PathBuf>,
}

/// What was cleared away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CachePruned {
    /// Segments that became part of others.
    pub merged: usize,
    /// Bytes before.
    pub bytes_before: u64,
    /// Bytes after.
    pub bytes: u64,
}

/// The directories of all states of all files.
fn all_states(cache: &Path) -> Vec<PathBuf> {
    let below = |folder: &Path| {
        let found = entries(folder).filter(|(name, _)| is_hash(name));
        found.map(|(_, path)| path).collect::<Vec<_>>()
    };
    below(cache).iter().flat_map(|file| below(file)).collect()
}

impl CacheFolder {
    /// Adds up the directory.
    #[must_use]
    pub fn status(&self) -> CacheStatus {
        let found = scan(&self.path);
        let pinned = found.segments.iter().filter(|one| one.is_pinned);
        CacheStatus {
            bytes: found.bytes.saturating_sub(found.granted),
            granted: found.granted,
            files: found
                .segments
                .iter()
                .map(|one| &one.folder)
                .collect::<HashSet<_>>()
                .len(),
            segments: found.segments.len(),
            pinned: pinned.map(|one| one.bytes).sum(),
        }
    }

    /// The cached files, by URL.
    #[must_use]
    pub fn list(&self) -> Vec<CacheEntry> {
        let found = scan(&self.path);
        let mut out: Vec<CacheEntry> = all_states(&self.path)
            .into_iter()
            .filter_map(|folder| {
                let about = About::read(&folder)?;
                let own: Vec<_> = found
                    .segments
                    .iter()
                    .filter(|one| one.folder == folder)
                    .collect();
                let records = own
                    .iter()
                    .filter_map(|one| Segment::open(&folder, one.number));
                let records = records.flat_map(|segment| segment.records_from(FIRST_RECORD).0);
                Some(CacheEntry {
                    url: about.url,
                    key: about.key,
                    meta: about.meta,
                    since: about.since,
                    ranges: records
                        .filter(|one| matches!(one, Record::Entry { .. }))
                        .count(),
                    bytes: own.iter().map(|one| one.bytes).sum(),
                    segments: own.len(),
                    is_pinned: is_pinned(&folder),
                    folder,
                })
            })
            .collect();
        out.sort_by(|a, b| (&a.url, a.since).cmp(&(&b.url, b.since)));
        out
    }

    /// Compares all bytes with their checksums.
    #[must_use]
    pub fn verify(&self) -> CacheVerified {
        let mut out = CacheVerified::default();
        for folder in all_states(&self.path) {
            let numbers = entries(&folder).filter_map(|(name, path)| {
                let number = number_of_index(&name)?;
                Some((Segment::open(&folder, number), path))
            });
            let mut found = Vec::new();
            for (segment, path) in numbers {
                let Some(segment) = segment else {
                    out.torn.push(path);
                    continue;
                };
                let (records, end) = segment.records_from(FIRST_RECORD);
                if fs::metadata(&path).is_ok_and(|meta| meta.len() > end) {
                    out.torn.push(path.clone());
                }
                found.push((Arc::new(segment), path, records));
            }
            verify_state(&found, &mut out);
        }
        out
    }

    /// Keeps the files whose URLs or names a function chooses from being removed to make room, or lets them be removed;
    /// returns their URLs.
    ///
    /// # Errors
    /// If the directory may not be written to.
    pub fn pin(
        &self,
        chooses: &dyn Fn(&CacheEntry) -> bool,
        on: bool,
    ) -> Result<Vec<String>, IoError> {
        let chosen = self.list().into_iter().filter(chooses);
        let pin = |entry: CacheEntry| {
            let mark = entry.folder.join(PINNED);
            let done = match on {
                _ if on == entry.is_pinned => Ok(()),
                true => fs::write(&mark, ""),
                false => fs::remove_file(&mark),
            };
            let failed = |source| IoError::Create {
                url: mark.to_string_lossy().into_owned(),
                source,
            };
            done.map_err(failed).map(|()| entry.url)
        };
        chosen.map(pin).collect()
    }

    /// Removes the files that a function chooses, pinned ones too; returns the removed bytes, and their URLs.
    #[must_use]
    pub fn clear(&self, chooses: &dyn Fn(&CacheEntry) -> bool) -> (u64, Vec<String>) {
        let all = self.list();
        let n_all = all.len();
        let chosen: Vec<CacheEntry> = all.into_iter().filter(chooses).collect();
        let found = scan(&self.path);
        let mut freed = 0;
        for entry in &chosen {
            let _ = fs::remove_file(entry.folder.join(PINNED));
            freed += found.remove(&entry.folder);
        }
        if chosen.len() == n_all {
            let _ = fs::remove_dir_all(self.path.join(LISTS));
        }
        (freed, chosen.into_iter().map(|entry| entry.url).collect())
    }

    /// Merges small segments of processes that have ended, removes segments that no reader finds, and makes room down to the
    /// limit.
    #[must_use]
    pub fn prune(&self) -> CachePruned {
        let bytes_before = scan(&self.path).bytes;
        let room = Arc::new(Room::new(&self.path, self.limit));
        let mut merged = 0;
        for folder in all_states(&self.path) {
            match About::read(&folder) {
                Some(about) => merged += self.merge(&room, &folder, about),
                // nobody finds it
                None => {
                    scan(&self.path).remove(&folder);
                }
            }
            remove_empty(&folder);
        }
        drop(room);
        make_room(scan(&self.path), self.limit);
        CachePruned {
            merged,
            bytes_before,
            bytes: scan(&self.path).bytes,
        }
    }

    /// Merges the small segments of a file; returns how many.
    fn merge(&self, room: &Arc<Room>, folder: &Path, about: About) -> usize {
        let is_left = |segment: &Segment| {
            let age = age(&folder.join(format!("{}.index", segment::name(segment.number))));
            segment.writer.is_gone() || age.is_some_and(|age| age > LEFT_ALONE)
        };
        let small: HashSet<u64> = scan(&self.path)
            .segments
            .iter()
            .filter(|one| one.folder == folder && one.bytes < room.segment() / 2)
            .filter_map(|one| Segment::open(folder, one.number))
            .filter(is_left)
            .map(|segment| segment.number)
            .collect();
        if small.len() < 2 {
            return 0;
        }
        let file = FileCache::new(room.clone(), &self.path, folder, about);
        match file.move_from(&small) {
            true => small.len(),
            false => 0,
        }
    }
}

fn is_pinned(folder: &Path) -> bool {
    let above = folder
        .parent()
        .is_some_and(|above| above.join(PINNED).exists());
    above || folder.join(PINNED).exists()
}

/// Checks the segments of one file.
fn verify_state(found: &[(Arc<Segment>, PathBuf, Vec<Record>)], out: &mut CacheVerified) {
    let all = found.iter().flat_map(|(_, _, records)| records);
    let voided: HashSet<(u64, u64)> = all
        .filter_map(|record| match record {
            Record::Void {
                segment, position, ..
            } => Some((*segment, *position)),
            _ => None,
        })
        .collect();
    for (segment, path, records) in found {
        for record in records {
            let Record::Entry {
                range,
                position,
                hash,
                ..
            } = record
            else {
                continue;
            };
            if voided.contains(&(segment.number, *position)) {
                out.voided += 1;
                continue;
            }
            let held = Held::new(range.clone(), segment.clone(), *position, *hash);
            match segment.bytes(&held) {
                Some(bytes) => {
                    out.ranges += 1;
                    out.bytes += bytes.len() as u64;
                }
                // another process may have removed it
                None if segment.is_gone() => {}
                None => out.bad.push((path.clone(), range.clone())),
            }
        }
    }
}

impl CacheEntry {
    /// Whether a string is its URL, also in another way of writing or with another server if it has a logical name, is
    /// this name, or is a directory that it is in.
    #[must_use]
    pub fn fits(&self, text: &str) -> bool {
        let is_below = |name: &str| {
            let rest = name.strip_prefix(text.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let shown = public(text);
        let is_logical = self.key.starts_with('/');
        let is_replica = is_logical && shown.contains("://") && shown.ends_with(&self.key);
        let urls = split_sources(&self.url).0;
        let is_one = urls
            .iter()
            .any(|url| comparable(&shown) == comparable(url) || is_below(url));
        is_replica || is_one || is_below(&self.key)
    }
}
