//! Writes ROOT files: new ones, and additions to existing ones.
//!
//! Records are only appended. The header and the records of directories, which make them part of the file, are written
//! last. Until then an existing file has its old content, and a new one is not a valid file.

pub(crate) mod encode;
mod finish;
mod folder;
mod streamer;
mod update;

use std::ops::Range;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use femtobarn_codec::Compressor;
use femtobarn_io::{ByteSink, on_threads};

use self::encode::{DIRECTORY_SIZE, Encoder, is_wide};
use self::folder::Folder;
use crate::{Datime, FileHeader, Key, RootFileError, StreamerInfo, Uuid};

/// Offset of the first record of a new file.
const BEGIN: u64 = 100;
/// The ROOT version whose format is written.
const ROOT_VERSION: u32 = 64_000;
/// Largest record: sizes in keys are signed 32-bit numbers.
const LARGEST_RECORD: usize = i32::MAX as usize;

/// A ROOT file that is being written.
#[derive(Debug)]
pub struct FileWriter {
    sink: Arc<dyn ByteSink>,
    header: FileHeader,
    /// The root directory is first; each directory follows its parent.
    folders: Vec<Folder>,
    /// The existing list of streamer infos, the length of its key, and the classes that it describes.
    old_infos: Option<(Vec<u8>, u16)>,
    described: Vec<(String, i32)>,
    new_infos: Vec<StreamerInfo>,
    end: u64,
    now: Datime,
    /// Whether a write failed: the file is incomplete.
    failed: bool,
    /// For an existing file: its size, until something refers to the new records.
    old_size: Option<u64>,
    /// For an existing file: bytes that are in no record, before all new records.
    gap: Range<u64>,
}

/// Bytes per write of a large record.
const CHUNK: usize = 8 << 20;

impl FileWriter {
    /// Creates a file named `name`, with default compression settings for its header.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn create(
        sink: Arc<dyn ByteSink>,
        name: &str,
        compression: u32,
        uuid: Uuid,
    ) -> Result<Self, RootFileError> {
        let mut writer = Self {
            sink,
            header: FileHeader {
                version: ROOT_VERSION,
                begin: BEGIN,
                end: BEGIN,
                seek_free: 0,
                n_bytes_free: 0,
                n_free: 1,
                n_bytes_name: 0,
                units: 4,
                compression,
                seek_info: 0,
                n_bytes_info: 0,
                uuid,
            },
            folders: Vec::new(),
            old_infos: None,
            described: Vec::new(),
            new_infos: Vec::new(),
            end: BEGIN,
            now: now(),
            failed: false,
            old_size: None,
            gap: 0..0,
        };
        let mut names = Encoder::default();
        names.string(name).string("");
        let size = names.0.len() + DIRECTORY_SIZE;
        let key = writer.key(("TFile", name, ""), 0, (size, size), 1)?;
        let n_bytes_name =
            u32::from(key.key_len) + u32::try_from(names.0.len()).unwrap_or(u32::MAX);
        // the directory's record, which follows its names, is written last
        writer.append(&key, &names.0)?;
        writer.header.n_bytes_name = n_bytes_name;
        let place = (BEGIN, n_bytes_name);
        let root = Folder::new(String::new(), (name, ""), writer.now, place, 0);
        writer.folders.push(root);
        Ok(writer)
    }

    /// Writes bytes, unless a write has failed before.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<(), RootFileError> {
        self.check()?;
        let written = self.sink.write_at(offset, bytes);
        self.failed = written.is_err();
        Ok(written?)
    }

    fn check(&self) -> Result<(), RootFileError> {
        if self.failed {
            return Err(RootFileError::Unfinished {
                url: self.sink.url().to_owned(),
            });
        }
        Ok(())
    }

    /// Appends a record of class RBlob, which no directory lists, in few writes. Returns the offset of its payload.
    ///
    /// # Errors
    /// If the payload is too large for a record, or the sink fails.
    pub fn append_blob(&mut self, parts: &[&[u8]]) -> Result<u64, RootFileError> {
        self.append_parts(parts, 1)
    }

    /// Like [`append_blob`](Self::append_blob), for many parts, which several threads write.
    ///
    /// # Errors
    /// As [`append_blob`](Self::append_blob).
    pub fn append_parts(&mut self, parts: &[&[u8]], threads: usize) -> Result<u64, RootFileError> {
        let length = parts.iter().map(|part| part.len()).sum();
        let begin = self.header.begin;
        let key = self.key(("RBlob", "", ""), begin, (length, length), 1)?;
        let head = encode::key(&key);
        let parts: Vec<&[u8]> = std::iter::once(head.as_slice())
            .chain(parts.iter().copied())
            .collect();
        let mut chunks = Vec::new();
        let mut at = self.end;
        let mut rest = parts.as_slice();
        while !rest.is_empty() {
            let mut n_bytes = 0;
            let fits = |part: &&&[u8]| {
                n_bytes += part.len();
                n_bytes <= CHUNK
            };
            let n = rest.iter().take_while(fits).count().max(1);
            let (chunk, others) = rest.split_at(n);
            chunks.push((at, chunk));
            at += chunk.iter().map(|part| part.len() as u64).sum::<u64>();
            rest = others;
        }
        self.check()?;
        let mut buffers = vec![Vec::new(); threads.max(1)];
        let sink = &self.sink;
        let written = on_threads(&mut buffers, chunks, |buffer, (at, chunk)| {
            if let [part] = chunk {
                return sink.write_at(at, part);
            }
            buffer.clear();
            chunk.iter().for_each(|part| buffer.extend_from_slice(part));
            sink.write_at(at, buffer)
        });
        self.failed |= written.is_err();
        written?;
        self.end += u64::from(key.n_bytes);
        Ok(key.payload_offset())
    }

    /// Offset of the next record's payload, if the record has class RBlob.
    ///
    /// # Errors
    /// If no more records are possible.
    pub fn next_blob(&self) -> Result<u64, RootFileError> {
        let key = self.key(("RBlob", "", ""), self.header.begin, (0, 0), 1)?;
        Ok(key.payload_offset())
    }

    /// Appends a record of class RBlob with a payload of `length` bytes that `fill` writes to the sink, given the offset
    /// of the payload. Bytes that `fill` does not write are zero.
    ///
    /// # Errors
    /// As [`append_blob`](Self::append_blob), and errors of `fill`.
    pub fn append_filled<T, E: From<RootFileError>>(
        &mut self,
        length: u64,
        fill: impl FnOnce(&dyn ByteSink, u64) -> Result<T, E>,
    ) -> Result<T, E> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let key = self.key(("RBlob", "", ""), self.header.begin, (length, length), 1)?;
        self.write_at(self.end, &encode::key(&key))?;
        let filled = fill(&*self.sink, key.payload_offset());
        self.failed |= filled.is_err();
        let filled = filled?;
        self.end += u64::from(key.n_bytes);
        Ok(filled)
    }

    /// Checks that a name in a directory is free or, with `new_cycle`, that of objects of the same class.
    ///
    /// # Errors
    /// If an object of another class has the name, or an object of this class would be hidden without `new_cycle`.
    pub fn check_name(
        &self,
        directory: usize,
        class: &str,
        name: &str,
        new_cycle: bool,
    ) -> Result<(), RootFileError> {
        let same = || self.keys(directory).iter().filter(|key| key.name == name);
        if let Some(other) = same().find(|key| key.class_name != class) {
            return Err(RootFileError::NameTaken {
                url: self.sink.url().to_owned(),
                name: name.to_owned(),
                found: other.class_name.clone(),
                class_name: class.to_owned(),
            });
        }
        match same().map(|key| key.cycle).max() {
            Some(cycle) if !new_cycle => Err(RootFileError::WouldHide {
                url: self.sink.url().to_owned(),
                name: name.to_owned(),
                cycle,
            }),
            _ => Ok(()),
        }
    }

    /// Writes an object into a directory, compressed by `settings` if that makes it smaller. An object of an existing
    /// name gets the next cycle.
    ///
    /// # Errors
    /// If the object is too large for a record, or the sink fails.
    pub fn write_object(
        &mut self,
        directory: usize,
        names: (&str, &str, &str),
        object: &[u8],
        settings: u32,
    ) -> Result<Key, RootFileError> {
        self.add_object(directory, names, object, settings, false)
    }

    /// Like [`write_object`](Self::write_object), but with a wide key, as beyond 2 GB, wherever the record is. So objects
    /// that had such a key can be copied unchanged.
    ///
    /// # Errors
    /// As [`write_object`](Self::write_object).
    pub fn write_object_wide(
        &mut self,
        directory: usize,
        names: (&str, &str, &str),
        object: &[u8],
        settings: u32,
    ) -> Result<Key, RootFileError> {
        self.add_object(directory, names, object, settings, true)
    }

    fn add_object(
        &mut self,
        directory: usize,
        names: (&str, &str, &str),
        object: &[u8],
        settings: u32,
        wide: bool,
    ) -> Result<Key, RootFileError> {
        let known = self.keys(directory).iter();
        let cycles = known.filter(|key| key.name == names.1).map(|key| key.cycle);
        let cycle = cycles.max().unwrap_or(0).saturating_add(1);
        let key = self.append_listed(directory, names, object, settings, (cycle, wide))?;
        if let Some(folder) = self.folders.get_mut(directory) {
            // newest cycle first: ROOT takes the first key of a name
            let older = folder.keys.iter().position(|known| known.name == key.name);
            folder
                .keys
                .insert(older.unwrap_or(folder.keys.len()), key.clone());
            folder.changed = true;
        }
        Ok(key)
    }

    /// Like [`write_object`](Self::write_object), but replaces the newest object of the name and takes its cycle. The
    /// bytes of the old object stay in the file, listed by no directory.
    ///
    /// # Errors
    /// As [`write_object`](Self::write_object).
    pub fn replace_object(
        &mut self,
        directory: usize,
        names: (&str, &str, &str),
        object: &[u8],
        settings: u32,
    ) -> Result<Key, RootFileError> {
        let known = self.keys(directory).iter().enumerate();
        let same = known.filter(|(_, key)| key.name == names.1 && key.class_name == names.0);
        let Some((at, cycle)) = same
            .map(|(at, key)| (at, key.cycle))
            .max_by_key(|(_, cycle)| *cycle)
        else {
            return self.write_object(directory, names, object, settings);
        };
        let key = self.append_listed(directory, names, object, settings, (cycle, false))?;
        if let Some(folder) = self.folders.get_mut(directory) {
            if let Some(place) = folder.keys.get_mut(at) {
                *place = key.clone();
            }
            folder.changed = true;
        }
        Ok(key)
    }

    /// Appends an object for the key list of a directory.
    fn append_listed(
        &mut self,
        directory: usize,
        names: (&str, &str, &str),
        object: &[u8],
        settings: u32,
        cycle: (u16, bool),
    ) -> Result<Key, RootFileError> {
        let Some(folder) = self.folders.get(directory) else {
            return Err(RootFileError::KeyNotFound {
                url: self.sink.url().to_owned(),
                path: names.1.to_owned(),
                nearest: Vec::new(),
            });
        };
        let seek_parent = folder.record.seek_dir;
        self.append_object(names, seek_parent, object, settings, cycle)
    }

    /// Length of the key of the next object, which is `wide` as beyond 2 GB if requested or necessary. Positions in an
    /// object that has references count from its key.
    ///
    /// # Errors
    /// If the names are too long for a key.
    pub fn next_key_len(
        &self,
        directory: usize,
        names: (&str, &str, &str),
        wide: bool,
    ) -> Result<u16, RootFileError> {
        let folder = self.folders.get(directory);
        let seek_parent = folder.map_or(0, |folder| folder.record.seek_dir);
        self.key_of(names, seek_parent, (0, 0), (1, wide))
            .map(|key| key.key_len)
    }

    /// The compression settings in the file's header.
    pub fn compression(&self) -> u32 {
        self.header.compression
    }

    /// The URL of the file.
    pub fn url(&self) -> &str {
        self.sink.url()
    }

    /// The sink of the file.
    pub fn sink(&self) -> &dyn ByteSink {
        &*self.sink
    }

    /// The names in a directory, without duplicates.
    pub fn names(&self, directory: usize) -> Vec<&str> {
        let mut names = Vec::new();
        for key in self.keys(directory) {
            if !names.contains(&key.name.as_str()) {
                names.push(&key.name);
            }
        }
        names
    }

    /// Adds the description of a class, unless there is one.
    pub fn add_streamer_info(&mut self, info: StreamerInfo) {
        let described = (info.name.clone(), info.version);
        if !self.described.contains(&described) {
            self.described.push(described);
            self.new_infos.push(info);
        }
    }

    /// The key of the next record, whose payload has `stored` bytes.
    fn key(
        &self,
        names: (&str, &str, &str),
        seek_parent: u64,
        sizes: (usize, usize),
        cycle: u16,
    ) -> Result<Key, RootFileError> {
        self.key_of(names, seek_parent, sizes, (cycle, false))
    }

    fn key_of(
        &self,
        (class_name, name, title): (&str, &str, &str),
        seek_parent: u64,
        (stored, object_len): (usize, usize),
        (cycle, wide): (u16, bool),
    ) -> Result<Key, RootFileError> {
        let seek_key = self.end;
        let is_wide = wide || is_wide(&[seek_key, seek_parent]);
        let mut key = Key {
            n_bytes: 0,
            version: if is_wide { 1004 } else { 4 },
            object_len: 0,
            datetime: self.now,
            key_len: 0,
            cycle,
            seek_key,
            seek_parent,
            class_name: class_name.to_owned(),
            name: name.to_owned(),
            title: title.to_owned(),
        };
        let key_len = encode::key(&key).len();
        let too_large = || RootFileError::TooLarge {
            url: self.sink.url().to_owned(),
            name: name.to_owned(),
            expected: LARGEST_RECORD as u64,
            found: stored.max(object_len) as u64,
        };
        let fits = |size: usize| {
            let fitting = u32::try_from(size).ok();
            let fitting = fitting.filter(|_| size <= LARGEST_RECORD);
            fitting.ok_or_else(too_large)
        };
        key.key_len = u16::try_from(key_len).map_err(|_| too_large())?;
        key.n_bytes = fits(key_len.saturating_add(stored))?;
        key.object_len = fits(object_len)?;
        Ok(key)
    }

    /// Appends a record: key and payload.
    fn append(&mut self, key: &Key, payload: &[u8]) -> Result<(), RootFileError> {
        let mut record = encode::key(key);
        record.extend(payload);
        self.write_at(self.end, &record)?;
        self.end += u64::from(key.n_bytes);
        Ok(())
    }

    /// Appends an object, compressed by `settings` if that makes it smaller.
    fn append_object(
        &mut self,
        names: (&str, &str, &str),
        seek_parent: u64,
        object: &[u8],
        settings: u32,
        cycle: (u16, bool),
    ) -> Result<Key, RootFileError> {
        let mut compressed = Vec::new();
        let shrunk = Compressor::new().compress(settings, object, &mut compressed);
        let shrunk = shrunk.map_err(|source| RootFileError::Compression {
            url: self.sink.url().to_owned(),
            name: names.1.to_owned(),
            source,
        })?;
        let payload = if shrunk {
            compressed.as_slice()
        } else {
            object
        };
        let key = self.key_of(names, seek_parent, (payload.len(), object.len()), cycle)?;
        self.append(&key, payload)?;
        Ok(key)
    }
}

fn now() -> Datime {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    encode::datime(since.as_secs())
}
