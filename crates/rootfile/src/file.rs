//! An open ROOT file.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use femtobarn_codec::xxh3;
use femtobarn_io::{ByteSource, IoError};

use crate::cursor::{Cursor, Place};
use crate::directory::{Directory, DirectoryRecord, parse_key_list};
use crate::free::parse_free_segments;
use crate::object::{object_of, payload_of};
use crate::streamer::parse_streamer_infos;
use crate::{FileHeader, FreeSegment, Key, RootFileError, StreamerInfo};

/// Size of the first read: header, first key, and root directory record, if names have the usual length.
const FIRST_READ: u64 = 512;

/// An open ROOT file. It is immutable; clones share the source.
#[derive(Debug, Clone)]
pub struct RootFile {
    source: Arc<dyn ByteSource>,
    header: FileHeader,
    root: Directory,
}

impl RootFile {
    /// Opens a file: reads the header and the root directory's key list, in two reads (three if the
    /// file's name and title are very long).
    ///
    /// # Errors
    /// If the source is not a ROOT file, is truncated, was not closed by its writer, or cannot be read.
    pub fn open(source: Arc<dyn ByteSource>) -> Result<Self, RootFileError> {
        let size = source.meta().size;
        let first = read(&*source, "file header", 0..size.min(FIRST_READ))?;
        let header = FileHeader::parse(source.url(), &first)?;
        if header.end > size {
            let place = Place {
                url: source.url(),
                what: "file",
            };
            return Err(place.truncated(size, header.end, size));
        }
        let record = root_record(&*source, &header, &first)?;
        let Some(range) = record.key_list() else {
            return Err(not_closed(source.url(), &header));
        };
        let list = read(&*source, KEY_LIST, range.clone())?;
        let place = Place {
            url: source.url(),
            what: KEY_LIST,
        };
        let keys = parse_key_list(Cursor::new(&list, range.start, place))?;
        let root = Directory::new(String::new(), record, keys);
        Ok(Self {
            source,
            header,
            root,
        })
    }

    /// The source of the bytes.
    #[must_use]
    pub fn source(&self) -> &Arc<dyn ByteSource> {
        &self.source
    }

    /// The file header.
    #[must_use]
    pub fn header(&self) -> &FileHeader {
        &self.header
    }

    /// The root directory.
    #[must_use]
    pub fn root(&self) -> &Directory {
        &self.root
    }

    /// The keys of the root directory with all cycles, in the order of the file.
    #[must_use]
    pub fn keys(&self) -> &[Key] {
        self.root.keys()
    }

    /// Reads the object of `key` in one read and decompresses it. The result begins with what the class's
    /// streamer wrote, without the key.
    ///
    /// # Errors
    /// If the record lies outside the file, does not belong to the key, or cannot be decompressed to the
    /// size stated by the key.
    pub fn read_object(&self, key: &Key) -> Result<Bytes, RootFileError> {
        let record = read(&*self.source, OBJECT, key.record())?;
        object_of(self.source.url(), &record, key)
    }

    /// Like [`read_object`](Self::read_object), for several objects in one vector read.
    ///
    /// # Errors
    /// As [`read_object`](Self::read_object).
    pub fn read_objects<'k>(
        &self,
        keys: impl Iterator<Item = &'k Key> + Clone,
    ) -> Result<Vec<Bytes>, RootFileError> {
        let ranges: Vec<_> = keys.clone().map(Key::record).collect();
        let records = read_all(&*self.source, OBJECT, &ranges)?;
        let objects = records.iter().zip(keys);
        objects
            .map(|(record, key)| object_of(self.source.url(), record, key))
            .collect()
    }

    /// Reads the streamer infos: descriptions of the classes in the file. None if the file has none.
    ///
    /// # Errors
    /// If the record cannot be read or parsed.
    pub fn streamer_infos(&self) -> Result<Vec<StreamerInfo>, RootFileError> {
        match self.streamer_info_payload()? {
            Some((payload, key_len)) => parse_streamer_infos(self.source.url(), &payload, key_len),
            None => Ok(Vec::new()),
        }
    }

    /// A hash of the stored streamer infos: files with equal hashes have equal streamer infos.
    ///
    /// # Errors
    /// If the record cannot be read.
    pub fn streamer_info_hash(&self) -> Result<u64, RootFileError> {
        let Some((record, key)) = self.streamer_info_record()? else {
            return Ok(0);
        };
        // skip the key, which contains the time of writing
        let stored = record.get(usize::from(key.key_len)..).unwrap_or_default();
        Ok(xxh3(stored) ^ u64::from(key.key_len))
    }

    fn streamer_info_payload(&self) -> Result<Option<(Bytes, u16)>, RootFileError> {
        let Some((record, key)) = self.streamer_info_record()? else {
            return Ok(None);
        };
        let payload = payload_of(self.source.url(), &record, &key)?;
        Ok(Some((payload, key.key_len)))
    }

    fn streamer_info_record(&self) -> Result<Option<(Bytes, Key)>, RootFileError> {
        const WHAT: &str = "streamer info record";
        let (seek, n_bytes) = (self.header.seek_info, self.header.n_bytes_info);
        if seek == 0 || n_bytes == 0 {
            return Ok(None);
        }
        let record = read(
            &*self.source,
            WHAT,
            seek..seek.saturating_add(u64::from(n_bytes)),
        )?;
        let url = self.source.url();
        let key = Key::parse(&mut Cursor::new(&record, seek, Place { url, what: WHAT }))?;
        Ok(Some((record, key)))
    }

    /// The stored list of streamer infos, decompressed, and the length of its record's key.
    pub(crate) fn streamer_info_object(&self) -> Result<Option<(Vec<u8>, u16)>, RootFileError> {
        let Some((payload, key_len)) = self.streamer_info_payload()? else {
            return Ok(None);
        };
        Ok(Some((payload.to_vec(), key_len)))
    }

    /// Reads the free segments: gaps of deleted records, and the space after the end.
    ///
    /// # Errors
    /// If the record cannot be read or parsed.
    pub fn free_segments(&self) -> Result<Vec<FreeSegment>, RootFileError> {
        const WHAT: &str = "record of free segments";
        let (seek, n_bytes) = (self.header.seek_free, self.header.n_bytes_free);
        if seek == 0 || n_bytes == 0 {
            return Ok(Vec::new());
        }
        let record = read(
            &*self.source,
            WHAT,
            seek..seek.saturating_add(u64::from(n_bytes)),
        )?;
        let place = Place {
            url: self.source.url(),
            what: WHAT,
        };
        parse_free_segments(Cursor::new(&record, seek, place), self.header.n_free)
    }

    /// Reads directories, given their keys and paths: the records in one vector read, the key lists in
    /// another. The key lists must not exceed `budget` bytes together.
    pub(crate) fn read_directories(
        &self,
        wanted: &[(String, &Key)],
        budget: &mut u64,
    ) -> Result<Vec<Directory>, RootFileError> {
        let ranges: Vec<_> = wanted.iter().map(|(_, key)| directory_range(key)).collect();
        let answers = read_all(&*self.source, RECORD, &ranges)?;
        let mut records = Vec::with_capacity(wanted.len());
        for ((path, key), bytes) in wanted.iter().zip(&answers) {
            let record = self.directory_record(key, bytes)?;
            let Some(rest) = budget.checked_sub(u64::from(record.n_bytes_keys)) else {
                let (url, path) = (self.source.url().to_owned(), path.clone());
                return Err(RootFileError::DirectoryLoop {
                    url,
                    path,
                    offset: record.seek_dir,
                });
            };
            *budget = rest;
            records.push(record);
        }
        let ranges: Vec<_> = records
            .iter()
            .filter_map(DirectoryRecord::key_list)
            .collect();
        let mut answers = read_all(&*self.source, KEY_LIST, &ranges)?.into_iter();
        let place = Place {
            url: self.source.url(),
            what: KEY_LIST,
        };
        let mut directories = Vec::with_capacity(records.len());
        for ((path, _), record) in wanted.iter().zip(records) {
            let list = record
                .key_list()
                .and_then(|range| Some((range, answers.next()?)));
            let keys = match &list {
                Some((range, bytes)) => parse_key_list(Cursor::new(bytes, range.start, place))?,
                None => Vec::new(),
            };
            directories.push(Directory::new(path.clone(), record, keys));
        }
        Ok(directories)
    }

    fn directory_record(&self, key: &Key, bytes: &Bytes) -> Result<DirectoryRecord, RootFileError> {
        let place = Place {
            url: self.source.url(),
            what: RECORD,
        };
        let offset = key.payload_offset();
        if key.is_compressed() {
            let expected = format_args!("{} bytes, uncompressed", key.payload_size());
            return Err(place.corrupt(offset, expected, key.object_len));
        }
        DirectoryRecord::parse(&mut Cursor::new(bytes, offset, place))?.check(
            place,
            offset,
            key.seek_key,
        )
    }
}

const OBJECT: &str = "record of an object";
const RECORD: &str = "directory record";
const KEY_LIST: &str = "key list";

/// The root directory's record, which is usually within `first`, the beginning of the file.
fn root_record(
    source: &dyn ByteSource,
    header: &FileHeader,
    first: &Bytes,
) -> Result<DirectoryRecord, RootFileError> {
    let place = Place {
        url: source.url(),
        what: RECORD,
    };
    let offset = header.begin.saturating_add(u64::from(header.n_bytes_name));
    let end = offset
        .saturating_add(DirectoryRecord::LARGEST)
        .min(source.meta().size);
    let held = usize::try_from(offset)
        .ok()
        .filter(|_| end <= first.len() as u64);
    let bytes = match held.and_then(|start| first.get(start..)) {
        Some(_) if offset > end => Bytes::new(),
        Some(bytes) => first.slice_ref(bytes),
        None => read(source, RECORD, offset..end.max(offset))?,
    };
    DirectoryRecord::parse(&mut Cursor::new(&bytes, offset, place))?.check(
        place,
        offset,
        header.begin,
    )
}

/// The range to read of a subdirectory's payload.
fn directory_range(key: &Key) -> Range<u64> {
    let length = u64::from(key.payload_size()).min(DirectoryRecord::LARGEST);
    key.payload_offset()..key.payload_offset().saturating_add(length)
}

fn not_closed(url: &str, header: &FileHeader) -> RootFileError {
    let offset = header.begin.saturating_add(u64::from(header.n_bytes_name));
    RootFileError::NotClosed {
        url: url.to_owned(),
        offset,
    }
}

/// Reads one range, which must lie within the source.
fn read(
    source: &dyn ByteSource,
    what: &'static str,
    range: Range<u64>,
) -> Result<Bytes, RootFileError> {
    let (offset, expected) = (range.start, range.end - range.start);
    match read_all(source, what, std::slice::from_ref(&range))?.pop() {
        Some(bytes) => Ok(bytes),
        None => Err(Place {
            url: source.url(),
            what,
        }
        .truncated(offset, expected, 0)),
    }
}

/// Reads ranges, which must lie within the source, in one vector read; no read if there are none.
fn read_all(
    source: &dyn ByteSource,
    what: &'static str,
    ranges: &[Range<u64>],
) -> Result<Vec<Bytes>, RootFileError> {
    if ranges.is_empty() {
        return Ok(Vec::new());
    }
    let place = Place {
        url: source.url(),
        what,
    };
    for range in ranges {
        if range.end > source.meta().size {
            let found = source.meta().size.saturating_sub(range.start);
            let expected = range.end.saturating_sub(range.start);
            return Err(place.truncated(range.start, expected, found));
        }
    }
    let answers = source.read_ranges(ranges)?;
    if answers.len() != ranges.len() {
        let offset = ranges.first().map_or(0, |range| range.start);
        let (expected, found) = (ranges.len() as u64, answers.len() as u64);
        let url = source.url().to_owned();
        return Err(IoError::WrongAnswer {
            url,
            offset,
            expected,
            found,
        }
        .into());
    }
    Ok(answers)
}
