//! Writing to the segments of one file, by one process.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use femtobarn_fork::lock;
use femtobarn_xrootd::notice;

use super::about::About;
use super::format::{RECORD, Record};
use super::index::Held;
use super::room::{Room, remove_empty};
use super::segment::{Segment, make_folder};
use super::writer_id::{now, random};

/// After a failure, nothing is written for so long.
const REST: Duration = Duration::from_secs(20);

/// Bytes on disk of a new segment, besides its bytes and records: a block each for its two directories, and for the
/// ends of its two files and of the one that says which file it is of.
const START: u64 = 20 << 10;

/// What becomes of bytes that were kept.
pub(super) type Kept = Arc<Held<Segment>>;

/// The numbers of the segments of this process, which knows their records.
pub(super) type Own = Arc<Mutex<HashSet<u64>>>;

/// Appends to a segment of this process, and begins another one when it is full.
#[derive(Debug)]
pub(super) struct Writer {
    room: Arc<Room>,
    cache: PathBuf,
    folder: PathBuf,
    about: About,
    segment: Option<Arc<Segment>>,
    /// The numbers of all its segments.
    own: Own,
    /// Where the bytes of the segment end.
    end: u64,
    resting: Option<Instant>,
}

impl Writer {
    pub fn new(room: Arc<Room>, cache: &Path, folder: &Path, about: About, own: Own) -> Self {
        Self {
            own,
            room,
            cache: cache.to_owned(),
            folder: folder.to_owned(),
            about,
            segment: None,
            end: 0,
            resting: None,
        }
    }

    fn may_write(&mut self) -> bool {
        if self.resting.is_some_and(|since| since.elapsed() < REST) {
            return false;
        }
        self.resting = None;
        true
    }

    /// Gives up the current segment, which others may still read, and writes nothing for a while.
    fn fail(&mut self, error: &std::io::Error) {
        self.give_up();
        self.resting = Some(Instant::now());
        let cache = self.cache.display();
        let text = format!("cannot write to the cache {cache}: {error}; data are read without it");
        notice(&format!("cache {cache}"), &text);
    }

    fn take(&mut self, bytes: u64) -> Option<()> {
        self.room
            .take(bytes)
            .map_err(|error| self.fail(&error))
            .ok()
    }

    fn give_up(&mut self) {
        if let Some(segment) = self.segment.take().filter(|_| self.end == 0) {
            segment.remove();
        }
        self.end = 0;
    }

    /// The segment to write to, made where there is none; none after a failure.
    fn segment(&mut self) -> Option<Arc<Segment>> {
        if let Some(segment) = self.segment.as_ref().filter(|segment| segment.exists()) {
            return Some(segment.clone());
        }
        self.segment = None;
        self.end = 0;
        let make = || {
            make_folder(&self.folder)?;
            self.about.write(&self.folder)?;
            let number = random();
            // before anybody can see it
            lock(&self.own).insert(number);
            Segment::create(&self.folder, number)
        };
        let made = self.room.take(START).and_then(|()| match make() {
            // another process has just removed the directory, which had no segments
            Err(error) if error.kind() == ErrorKind::NotFound => make(),
            made => made,
        });
        match made {
            Ok(made) => {
                let made = Arc::new(made);
                self.segment = Some(made.clone());
                Some(made)
            }
            Err(error) => {
                self.fail(&error);
                None
            }
        }
    }

    /// Makes a segment if there is none, which takes longer than to append to it.
    pub fn prepare(&mut self) {
        if self.may_write() {
            self.segment();
        }
    }

    /// Appends records; returns the segment.
    pub fn tell(&mut self, records: &[Record]) -> Option<Arc<Segment>> {
        let size = (records.len() * RECORD) as u64;
        if records.is_empty() || !self.may_write() {
            return None;
        }
        self.take(size)?;
        let segment = self.segment()?;
        match segment.append_records(records) {
            Ok(()) => Some(segment),
            Err(error) => {
                self.fail(&error);
                None
            }
        }
    }

    /// Writes bytes with their hashes; returns those that were written.
    pub fn keep(&mut self, mut entries: &[(Range<u64>, Bytes, u64)]) -> Vec<Kept> {
        let mut out = Vec::new();
        while !entries.is_empty() && self.may_write() {
            let most = self.room.segment();
            // a large entry has a segment of its own
            let mut size = self.end;
            let fits = |(_, bytes, _): &&(Range<u64>, Bytes, u64)| {
                let is_first = size == 0;
                size += bytes.len() as u64;
                is_first || size <= most
            };
            let n = entries.iter().take_while(fits).count();
            let (now_kept, later) = entries.split_at(n);
            if n == 0 {
                // it is full
                self.segment = None;
                self.end = 0;
                continue;
            }
            match self.keep_here(now_kept) {
                Some(kept) => out.extend(kept),
                None => break,
            }
            entries = later;
        }
        out
    }

    fn keep_here(&mut self, entries: &[(Range<u64>, Bytes, u64)]) -> Option<Vec<Kept>> {
        let size: usize = entries
            .iter()
            .map(|(_, bytes, _)| bytes.len() + RECORD)
            .sum();
        self.take(size as u64)?;
        let segment = self.segment()?;
        let pieces: Vec<&Bytes> = entries.iter().map(|(_, bytes, _)| bytes).collect();
        let (mut at, time) = (self.end, now());
        let mut records = Vec::with_capacity(entries.len());
        let mut kept = Vec::with_capacity(entries.len());
        for (range, bytes, hash) in entries {
            records.push(Record::Entry {
                range: range.clone(),
                position: at,
                hash: *hash,
                time,
            });
            kept.push(Held::new(range.clone(), segment.clone(), at, *hash));
            at += bytes.len() as u64;
        }
        let written = segment.append_data(self.end, &pieces);
        match written.and_then(|()| segment.append_records(&records)) {
            Ok(()) => {
                self.end = at;
                Some(kept)
            }
            // it was removed in the meantime, to make room
            Err(error) if error.kind() == ErrorKind::NotFound => {
                segment.remove();
                self.segment = None;
                self.end = 0;
                None
            }
            Err(error) => {
                self.fail(&error);
                None
            }
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // a segment that has claims only
        if self.end == 0
            && let Some(segment) = &self.segment
            && segment.writer == super::format::WriterId::this()
        {
            segment.remove();
            remove_empty(&self.folder);
        }
    }
}
