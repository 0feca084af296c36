//! Segments: the files that cached bytes are in. Each is a file of bytes and a file of records, which one process
//! appends to and any process reads.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64;

use super::format::{Header, Hits, RECORD, Record, WriterId};
use super::index::Held;
use super::writer_id::now;
use crate::source::{is_local, map_file};

/// Bytes of hits after which they are written down.
const HITS_AT_ONCE: u64 = 256 << 10;

/// The two files of a segment, and how often it was of use.
#[derive(Debug)]
pub(super) struct Segment {
    pub number: u64,
    pub writer: WriterId,
    index: PathBuf,
    data: PathBuf,
    /// The data as far as they were needed.
    map: Mutex<Option<Bytes>>,
    /// Whether the data can be mapped, as soon as it is known.
    is_mapped: OnceLock<bool>,
    /// Whether it was removed.
    is_gone: AtomicBool,
    hits: AtomicU64,
}

/// The name of a segment's files, without what follows the dot.
pub(super) fn name(number: u64) -> String {
    format!("{number:016x}")
}

/// The number of a segment by the name of its index.
pub(super) fn number_of_index(name: &str) -> Option<u64> {
    number(name.strip_suffix(".index")?)
}

/// The number of a segment by the name of its index or its data.
pub(super) fn number_of(name: &str) -> Option<u64> {
    number_of_index(name).or_else(|| number(name.strip_suffix(".data")?))
}

fn number(digits: &str) -> Option<u64> {
    let number = u64::from_str_radix(digits, 16).ok()?;
    (self::name(number) == digits).then_some(number)
}

/// Makes a directory for this user only, with those above it.
pub(super) fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// How files of the cache are made: for this user only, and only if they do not exist.
pub(super) fn new_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options
}

impl Segment {
    fn at(folder: &Path, number: u64, writer: WriterId) -> Self {
        let place = |end: &str| folder.join(format!("{}.{end}", name(number)));
        Self {
            number,
            writer,
            index: place("index"),
            data: place("data"),
            map: Mutex::new(None),
            is_mapped: OnceLock::new(),
            is_gone: AtomicBool::new(false),
            hits: AtomicU64::new(0),
        }
    }

    /// Makes the index of a new segment with this number in a directory that exists.
    pub fn create(folder: &Path, number: u64) -> io::Result<Self> {
        let header = Header {
            writer: WriterId::this(),
            segment: number,
            time: now(),
        };
        let segment = Self::at(folder, header.segment, header.writer);
        let hits = [0; RECORD];
        let start = [header.bytes(), hits].concat();
        let mut file = new_file().open(&segment.index)?;
        if let Err(error) = file.write_all(&start) {
            let _ = fs::remove_file(&segment.index);
            return Err(error);
        }
        Ok(segment)
    }

    /// A segment that exists; none if it has no complete header.
    pub fn open(folder: &Path, number: u64) -> Option<Self> {
        let index = folder.join(format!("{}.index", name(number)));
        let mut header = [0; RECORD];
        File::open(index).ok()?.read_exact(&mut header).ok()?;
        let header = Header::parse(&header)?;
        (header.segment == number).then(|| Self::at(folder, number, header.writer))
    }

    pub fn is_gone(&self) -> bool {
        self.is_gone.load(Relaxed)
    }

    /// Whether it was not removed yet.
    pub fn exists(&self) -> bool {
        self.index.exists()
    }

    /// Removes it.
    pub fn remove(&self) {
        self.is_gone.store(true, Relaxed);
        let _ = fs::remove_file(&self.index);
        let _ = fs::remove_file(&self.data);
    }

    /// The records from a position of the index on, and the position behind them. Notes if the segment was removed.
    pub fn records_from(&self, at: u64) -> (Vec<Record>, u64) {
        let Ok(meta) = fs::metadata(&self.index) else {
            self.is_gone.store(true, Relaxed);
            return (Vec::new(), at);
        };
        // a file of a network is opened to see what others have appended
        if meta.len() < at + RECORD as u64 && self.is_mapped.get() != Some(&false) {
            return (Vec::new(), at);
        }
        let read = || {
            let mut file = File::open(&self.index)?;
            file.seek(SeekFrom::Start(at))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).map(|_| bytes)
        };
        let records = Record::parse_all(&read().unwrap_or_default());
        let end = at + (records.len() * RECORD) as u64;
        (records, end)
    }

    /// Appends bytes, of which the first `end` bytes of the data know nothing yet, and nobody else writes any.
    pub fn append_data(&self, end: u64, pieces: &[&Bytes]) -> io::Result<()> {
        let file = match end {
            0 => new_file().open(&self.data),
            _ => OpenOptions::new().write(true).open(&self.data),
        }?;
        let mut at = end;
        for piece in pieces {
            file.write_all_at(piece, at)?;
            at += piece.len() as u64;
        }
        // closed before the records are written, so that machines which see these see the bytes, too
        drop(file);
        Ok(())
    }

    /// Appends records.
    pub fn append_records(&self, records: &[Record]) -> io::Result<()> {
        let bytes: Vec<u8> = records.iter().flat_map(Record::bytes).collect();
        let mut file = OpenOptions::new().append(true).open(&self.index)?;
        file.write_all(&bytes)
    }

    /// Held bytes; none if they are not there any more, or are not those that were written.
    pub fn bytes(&self, held: &Held<Self>) -> Option<Bytes> {
        let length = held.range.end - held.range.start;
        let end = held.position.checked_add(length)?;
        let whole = match self.mapped(end) {
            Some(map) => {
                map.slice(usize::try_from(held.position).ok()?..usize::try_from(end).ok()?)
            }
            None => self.read(held.position, length)?,
        };
        if !held.is_proven() {
            if xxh3_64(&whole) != held.hash {
                return None;
            }
            // bytes of a map stay, others are read each time
            if self.is_mapped.get() == Some(&true) {
                held.prove();
            }
        }
        Some(whole)
    }

    /// The data as memory, at least up to `end`, where they can be mapped.
    fn mapped(&self, end: u64) -> Option<Bytes> {
        if self.is_mapped.get() == Some(&false) {
            return None;
        }
        let mut known = self.map.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(map) = known.as_ref().filter(|map| map.len() as u64 >= end) {
            return Some(map.clone());
        }
        let file = self.opened()?;
        if !*self.is_mapped.get_or_init(|| is_local(&file)) {
            return None;
        }
        // one that is only appended to, and never becomes shorter
        let size = file.metadata().ok()?.len();
        let made = map_file(&file, size).filter(|_| size >= end)?;
        *known = Some(made.clone());
        Some(made)
    }

    fn read(&self, at: u64, length: u64) -> Option<Bytes> {
        let file = self.opened()?;
        let size = file.metadata().ok()?.len();
        if at.checked_add(length)? > size {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(length).ok()?];
        file.read_exact_at(&mut bytes, at).ok()?;
        Some(bytes.into())
    }

    fn opened(&self) -> Option<File> {
        let opened = File::open(&self.data);
        let is_missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        if opened.as_ref().is_err_and(is_missing) {
            self.is_gone.store(true, Relaxed);
        }
        opened.ok()
    }

    /// Notes that so many bytes were of use.
    pub fn note_hits(&self, bytes: u64) {
        let all = self.hits.fetch_add(bytes, Relaxed).saturating_add(bytes);
        if all >= HITS_AT_ONCE {
            self.write_hits();
        }
    }

    /// Writes them down, for whoever needs room. A directory that is read-only has no use for them.
    fn write_hits(&self) {
        let more = self.hits.swap(0, Relaxed);
        if more == 0 || self.is_gone() {
            return;
        }
        let file = OpenOptions::new().read(true).write(true).open(&self.index);
        let Ok(file) = file else { return };
        let mut start = [0; 2 * RECORD];
        if file.read_exact_at(&mut start, 0).is_ok() {
            let time = now();
            let bytes = Hits::parse(&start).aged(time).saturating_add(more);
            let _ = file.write_all_at(&Hits { bytes, time }.bytes(), RECORD as u64);
        }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        self.write_hits();
    }
}
