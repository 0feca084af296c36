//! Writing ROOT files: new ones, and more into those that are there.
//!
//! Records are only ever appended. What makes them part of the file, the header and the directories' records, is written
//! last: until then an old file is what it was, and a new one nothing.

pub(crate) mod encode;
mod streamer;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use femtobarn_codec::Compressor;
use femtobarn_io::ByteSink;

use self::encode::{BIG, DIRECTORY_SIZE, Encoder, NARROW_RECORD, WIDE_RECORD, is_wide};
use crate::{
    Datime, Directory, DirectoryRecord, FileHeader, FreeSegment, Key, RootFile, RootFileError,
    StreamerInfo, Uuid,
};

/// Where the first record of a new file is.
const BEGIN: u64 = 100;
/// The version of ROOT whose format is written.
const ROOT_VERSION: u32 = 64_000;
/// Largest record: sizes in keys are signed 32-bit numbers.
const LARGEST_RECORD: usize = i32::MAX as usize;

/// A directory of the file that is written.
#[derive(Debug)]
struct Folder {
    path: String,
    name: String,
    title: String,
    record: DirectoryRecord,
    uuid: Uuid,
    keys: Vec<Key>,
    /// Where the record's bytes are.
    offset: u64,
    /// Version of the class and whether positions have 64 bits, of a record that is in the file already.
    old: Option<(u16, bool)>,
    changed: bool,
}

/// A ROOT file that is being written.
#[derive(Debug)]
pub struct FileWriter {
    sink: Arc<dyn ByteSink>,
    header: FileHeader,
    /// The root directory first; a directory stands behind its parent.
    folders: Vec<Folder>,
    /// The list of streamer infos that is there, its key's length, and the classes that it describes.
    old_infos: Option<(Vec<u8>, u16)>,
    described: Vec<(String, i32)>,
    new_infos: Vec<StreamerInfo>,
    end: u64,
    now: Datime,
    /// A write failed: the file is not what it should be.
    failed: bool,
    /// Of a file that was there: its size, until something points at what is new.
    old_size: Option<u64>,
}

/// Bytes that the last records of a file may take: lists of keys, streamer infos, free segments.
const MARGIN: u64 = 100_000_000;

/// The class of directories' keys in files: as ROOT writes them, which calls them TDirectoryFile only in memory.
const DIRECTORY: &str = "TDirectory";

/// Bytes of a record that are written at a time.
const CHUNK: usize = 8 << 20;

impl FileWriter {
    /// A new file called `name`, with default compression settings for its header.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn create(
        sink: Arc<dyn ByteSink>,
        name: &str,
        compression: u32,
        uuid: Uuid,
    ) -> Result<Self, RootFileError> {
        let now = now();
        let mut names = Encoder::default();
        names.string(name).string("");
        let object_len = names.0.len() + DIRECTORY_SIZE;
        let key = record_key(
            sink.url(),
            ("TFile", name, ""),
            (BEGIN, 0),
            (object_len, object_len),
            1,
            now,
        )?;
        let n_bytes_name =
            u32::from(key.key_len) + u32::try_from(names.0.len()).unwrap_or(u32::MAX);
        let mut head = encode::key(&key);
        head.extend(names.0);
        sink.write_at(BEGIN, &head)?;
        let record = DirectoryRecord {
            version: 5,
            created: now,
            modified: now,
            n_bytes_keys: 0,
            n_bytes_name,
            seek_dir: BEGIN,
            seek_parent: 0,
            seek_keys: 0,
        };
        let root = Folder {
            path: String::new(),
            name: name.to_owned(),
            title: String::new(),
            record,
            uuid,
            keys: Vec::new(),
            offset: BEGIN + u64::from(n_bytes_name),
            old: None,
            changed: true,
        };
        let end = BEGIN + u64::from(key.n_bytes);
        let header = FileHeader {
            version: ROOT_VERSION,
            begin: BEGIN,
            end,
            seek_free: 0,
            n_bytes_free: 0,
            n_free: 1,
            n_bytes_name,
            units: 4,
            compression,
            seek_info: 0,
            n_bytes_info: 0,
            uuid,
        };
        Ok(Self {
            sink,
            header,
            folders: vec![root],
            old_infos: None,
            described: Vec::new(),
            new_infos: Vec::new(),
            end,
            now,
            failed: false,
            old_size: None,
        })
    }

    /// More for a file that is there, which `file` has opened and `sink` can write to.
    ///
    /// # Errors
    /// If its directories cannot be read.
    pub fn update(sink: Arc<dyn ByteSink>, file: &RootFile) -> Result<Self, RootFileError> {
        let header = file.header().clone();
        let mut folders = Vec::new();
        for directory in file.directories()? {
            folders.push(Folder::existing(&header, &directory, &folders));
        }
        let infos = file.streamer_infos()?.into_iter();
        let size = file.source().meta().size;
        Ok(Self {
            sink,
            folders,
            old_infos: file.streamer_info_object()?,
            described: infos.map(|info| (info.name, info.version)).collect(),
            new_infos: Vec::new(),
            // behind everything that is there, known to the header or not
            end: header.end.max(size),
            header,
            now: now(),
            failed: false,
            old_size: Some(size),
        })
    }

    /// Writes bytes, unless a write failed before.
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

    /// Appends a record of class RBlob, which no directory lists, in few writes. Gives the offset of its first byte behind
    /// the key.
    ///
    /// # Errors
    /// If the payload is larger than a record can be, or the sink fails.
    pub fn append_blob(&mut self, parts: &[&[u8]]) -> Result<u64, RootFileError> {
        let length = parts.iter().map(|part| part.len()).sum();
        let begin = self.header.begin;
        let key = self.key(("RBlob", "", ""), self.end, begin, length, length, 1)?;
        let mut chunk = encode::key(&key);
        let mut at = self.end;
        for part in parts {
            if chunk.len() + part.len() > CHUNK {
                self.write_at(at, &chunk)?;
                at += chunk.len() as u64;
                chunk.clear();
            }
            if part.len() > CHUNK {
                self.write_at(at, part)?;
                at += part.len() as u64;
            } else {
                chunk.extend_from_slice(part);
            }
        }
        self.write_at(at, &chunk)?;
        self.end += u64::from(key.n_bytes);
        Ok(key.payload_offset())
    }

    /// The directory at a path, made with all above it if it is not there; the root directory's path is empty.
    ///
    /// # Errors
    /// If something else has that name, or the sink fails.
    pub fn directory(&mut self, path: &str) -> Result<usize, RootFileError> {
        let mut at = 0;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            at = self.subdirectory(at, name)?;
        }
        Ok(at)
    }

    fn subdirectory(&mut self, parent: usize, name: &str) -> Result<usize, RootFileError> {
        let Some(above) = self.folders.get(parent) else {
            return Ok(0);
        };
        let path = if above.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}/{name}", above.path)
        };
        if let Some(known) = self.folders.iter().position(|folder| folder.path == path) {
            return Ok(known);
        }
        if let Some(bad) = name.chars().find(|c| *c == ';' || c.is_ascii_control()) {
            return Err(RootFileError::InvalidName {
                url: self.sink.url().to_owned(),
                name: name.to_owned(),
                found: bad,
            });
        }
        if let Some(key) = above.keys.iter().find(|key| key.name == name) {
            return Err(RootFileError::NotADirectory {
                url: self.sink.url().to_owned(),
                path,
                found: key.class_name.clone(),
            });
        }
        let seek_parent = above.record.seek_dir;
        let uuid = self.header.uuid;
        let names = (DIRECTORY, name, "");
        let size = DIRECTORY_SIZE;
        let key = self.key(names, self.end, seek_parent, size, size, 1)?;
        let record = DirectoryRecord {
            version: 5,
            created: self.now,
            modified: self.now,
            n_bytes_keys: 0,
            n_bytes_name: u32::from(key.key_len),
            seek_dir: self.end,
            seek_parent,
            seek_keys: 0,
        };
        let mut bytes = encode::key(&key);
        bytes.extend(encode::directory(&record, uuid));
        self.write_at(self.end, &bytes)?;
        self.end += u64::from(key.n_bytes);
        let offset = key.payload_offset();
        if let Some(above) = self.folders.get_mut(parent) {
            above.keys.push(key);
            above.changed = true;
        }
        self.folders.push(Folder {
            path,
            name: name.to_owned(),
            title: String::new(),
            record,
            uuid,
            keys: Vec::new(),
            offset,
            old: None,
            changed: true,
        });
        Ok(self.folders.len() - 1)
    }

    /// The directory at a path, if it is there.
    pub fn find_directory(&self, path: &str) -> Option<usize> {
        let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
        let path = names.join("/");
        self.folders.iter().position(|folder| folder.path == path)
    }

    /// Insists that a name in a directory is free, or that of an older cycle of the same class.
    ///
    /// # Errors
    /// If something of another class has it.
    pub fn check_name(
        &self,
        directory: usize,
        class: &str,
        name: &str,
    ) -> Result<(), RootFileError> {
        let keys = self
            .folders
            .get(directory)
            .map_or(&[][..], |folder| &folder.keys);
        let other = keys
            .iter()
            .find(|key| key.name == name && key.class_name != class);
        match other {
            None => Ok(()),
            Some(other) => Err(RootFileError::NameTaken {
                url: self.sink.url().to_owned(),
                name: name.to_owned(),
                found: other.class_name.clone(),
                class_name: class.to_owned(),
            }),
        }
    }

    /// Writes an object into a directory, compressed by `settings` where it shrinks. An object of the same name gets the
    /// next cycle.
    ///
    /// # Errors
    /// If the object is larger than a record can be, or the sink fails.
    pub fn write_object(
        &mut self,
        directory: usize,
        names: (&str, &str, &str),
        object: &[u8],
        settings: u32,
    ) -> Result<Key, RootFileError> {
        let Some(folder) = self.folders.get(directory) else {
            return Err(RootFileError::KeyNotFound {
                url: self.sink.url().to_owned(),
                path: names.1.to_owned(),
                nearest: Vec::new(),
            });
        };
        let seek_parent = folder.record.seek_dir;
        let cycles = folder
            .keys
            .iter()
            .filter(|key| key.name == names.1)
            .map(|key| key.cycle);
        let cycle = cycles.max().unwrap_or(0).saturating_add(1);
        let key = self.append(names, seek_parent, object, settings, cycle)?;
        if let Some(folder) = self.folders.get_mut(directory) {
            // the newest cycle first: ROOT takes the first of a name
            let older = folder.keys.iter().position(|known| known.name == key.name);
            folder
                .keys
                .insert(older.unwrap_or(folder.keys.len()), key.clone());
            folder.changed = true;
        }
        Ok(key)
    }

    /// The compression settings that the file's header has.
    pub fn compression(&self) -> u32 {
        self.header.compression
    }

    /// The file.
    pub fn url(&self) -> &str {
        self.sink.url()
    }

    /// The names in a directory, each once.
    pub fn names(&self, directory: usize) -> Vec<&str> {
        let mut names = Vec::new();
        for key in self
            .folders
            .get(directory)
            .map_or(&[][..], |folder| &folder.keys)
        {
            if !names.contains(&key.name.as_str()) {
                names.push(&key.name);
            }
        }
        names
    }

    /// Describes a class, if it is not described yet.
    pub fn add_streamer_info(&mut self, info: StreamerInfo) {
        let described = (info.name.clone(), info.version);
        if !self.described.contains(&described) {
            self.described.push(described);
            self.new_infos.push(info);
        }
    }

    /// The key of a record.
    fn key(
        &self,
        names: (&str, &str, &str),
        seek_key: u64,
        seek_parent: u64,
        stored: usize,
        object_len: usize,
        cycle: u16,
    ) -> Result<Key, RootFileError> {
        record_key(
            self.sink.url(),
            names,
            (seek_key, seek_parent),
            (stored, object_len),
            cycle,
            self.now,
        )
    }

    /// Appends a record.
    fn append(
        &mut self,
        names: (&str, &str, &str),
        seek_parent: u64,
        object: &[u8],
        settings: u32,
        cycle: u16,
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
        let key = self.key(
            names,
            self.end,
            seek_parent,
            payload.len(),
            object.len(),
            cycle,
        )?;
        let mut record = encode::key(&key);
        record.extend(payload);
        self.write_at(self.end, &record)?;
        self.end += u64::from(key.n_bytes);
        Ok(key)
    }

    /// Writes the streamer infos, the lists of keys and the header, and makes the file appear.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn finish(mut self) -> Result<u64, RootFileError> {
        self.check()?;
        self.check_folders()?;
        self.write_infos()?;
        for at in (0..self.folders.len()).rev() {
            self.write_keys(at)?;
        }
        self.write_free()?;
        // all that is new must be there before anything points at it
        self.sink.sync()?;
        self.old_size = None;
        for folder in self.folders.iter().skip(1).filter(|folder| folder.changed) {
            self.sink.write_at(folder.offset, &folder.bytes())?;
        }
        self.write_head()?;
        self.sink.commit()?;
        Ok(self.end)
    }

    /// Insists that all records that are written again have room for positions of 64 bits, if they need it: files of
    /// before ROOT 4 have none.
    fn check_folders(&self) -> Result<(), RootFileError> {
        let is_old = self.header.version % 1_000_000 < 40_000;
        let is_full = |folder: &&Folder| {
            is_old && matches!(folder.old, Some((_, false))) && self.end + MARGIN > BIG
        };
        match self.folders.iter().filter(|f| f.changed).find(is_full) {
            Some(folder) => Err(RootFileError::TooLarge {
                url: self.sink.url().to_owned(),
                name: folder.name.clone(),
                expected: BIG,
                found: self.end,
            }),
            None => Ok(()),
        }
    }

    fn write_infos(&mut self) -> Result<(), RootFileError> {
        let title = "Doubly linked list";
        let names = ("TList", "StreamerInfo", title);
        let key_len = self
            .key(names, self.end, self.header.begin, 0, 0, 1)?
            .key_len;
        let (title, object) = match self.old_infos.take() {
            Some(_) if self.new_infos.is_empty() => return Ok(()),
            // the tags of classes count from the record's beginning: the key must remain as long as it was, so its title,
            // which nobody reads, is cut or filled up
            Some((old, old_len)) => {
                let room = usize::from(old_len) + title.len();
                let wanted = room.checked_sub(usize::from(key_len));
                let Some(wanted) = wanted.filter(|&n| n < 255) else {
                    return Ok(());
                };
                let title: String = title
                    .chars()
                    .chain(std::iter::repeat(' '))
                    .take(wanted)
                    .collect();
                (title, streamer::extended(old, &self.new_infos, old_len))
            }
            None => (
                title.to_owned(),
                Some(streamer::list(&self.new_infos, key_len)),
            ),
        };
        let Some(object) = object else { return Ok(()) };
        let names = ("TList", "StreamerInfo", title.as_str());
        let key = self.append(names, self.header.begin, &object, 101, 1)?;
        (self.header.seek_info, self.header.n_bytes_info) = (key.seek_key, key.n_bytes);
        Ok(())
    }

    fn write_keys(&mut self, at: usize) -> Result<(), RootFileError> {
        let Some(folder) = self.folders.get(at).filter(|folder| folder.changed) else {
            return Ok(());
        };
        let mut list = Encoder::default();
        list.u32(u32::try_from(folder.keys.len()).unwrap_or(u32::MAX));
        folder
            .keys
            .iter()
            .for_each(|key| list.0.extend(encode::key(key)));
        let class = if at == 0 { "TFile" } else { DIRECTORY };
        let (name, title) = (folder.name.clone(), folder.title.clone());
        let seek_dir = folder.record.seek_dir;
        let key = self.append((class, &name, &title), seek_dir, &list.0, 0, 1)?;
        let now = self.now;
        if let Some(folder) = self.folders.get_mut(at) {
            folder.record.seek_keys = key.seek_key;
            folder.record.n_bytes_keys = key.n_bytes;
            folder.record.modified = now;
        }
        Ok(())
    }

    /// The one free segment: what is behind the file's end. It is the last record, so its size says where the end is.
    fn write_free(&mut self) -> Result<(), RootFileError> {
        let Some(root) = self.folders.first() else {
            return Ok(());
        };
        let (name, title) = (root.name.clone(), root.title.clone());
        let segment = |end: u64| {
            let last = if end < BIG { BIG } else { end + 1_000_000_000 };
            encode::free_segment(FreeSegment { first: end, last })
        };
        let names = ("TFile", name.as_str(), title.as_str());
        let mut bytes = segment(self.end);
        loop {
            let key = self.key(
                names,
                self.end,
                self.header.begin,
                bytes.len(),
                bytes.len(),
                1,
            )?;
            let next = segment(self.end + u64::from(key.n_bytes));
            if next.len() == bytes.len() {
                bytes = next;
                break;
            }
            bytes = next;
        }
        let key = self.append(names, self.header.begin, &bytes, 0, 1)?;
        (self.header.seek_free, self.header.n_bytes_free) = (key.seek_key, key.n_bytes);
        self.header.n_free = 1;
        Ok(())
    }

    /// The header, then the root directory's record, which makes everything new part of the file. Between the two the
    /// header already knows of the new end, and the keys are still the old ones.
    fn write_head(&mut self) -> Result<(), RootFileError> {
        let Some(root) = self.folders.first() else {
            return Ok(());
        };
        let wide = is_wide(&[self.end, self.header.seek_free, self.header.seek_info]);
        let version = ROOT_VERSION.max(self.header.version % 1_000_000);
        self.header.version = version + if wide { 1_000_000 } else { 0 };
        self.header.units = if wide { 8 } else { 4 };
        self.header.end = self.end;
        let mut header = encode::header(&self.header);
        // files of early versions have no room for the identifier, which is last
        header.truncate(usize::try_from(self.header.begin).unwrap_or(usize::MAX));
        let root = root.changed.then(|| (root.offset, root.bytes()));
        self.write_at(0, &header)?;
        match root {
            Some((offset, record)) => self.write_at(offset, &record),
            None => Ok(()),
        }
    }
}

impl Drop for FileWriter {
    /// What was added to a file that is there, and nothing points at, is taken away again.
    fn drop(&mut self) {
        if let Some(size) = self.old_size {
            // nobody is left to tell
            let _ = self.sink.truncate(size);
        }
    }
}

impl Folder {
    /// The record's bytes, as they go to its place.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = encode::directory(&self.record, self.uuid);
        if let Some((version, wide)) = self.old {
            let version_now = bytes.first_chunk().map_or(0, |v| u16::from_be_bytes(*v));
            if (version_now > 1000) == wide {
                // what is behind the positions, an identifier or nothing, stays
                bytes.truncate(if wide { WIDE_RECORD } else { NARROW_RECORD });
                if let Some(place) = bytes.first_chunk_mut() {
                    *place = version.to_be_bytes();
                }
            }
        }
        bytes
    }

    fn existing(header: &FileHeader, directory: &Directory, known: &[Self]) -> Self {
        let record = directory.record().clone();
        let path = directory.path().to_owned();
        let (above, name) = path.rsplit_once('/').unwrap_or(("", &path));
        let parent = known.iter().find(|folder| folder.path == above);
        let key = parent.and_then(|folder| {
            folder
                .keys
                .iter()
                .find(|key| key.seek_key == record.seek_dir)
        });
        let offset = record.seek_dir + u64::from(record.n_bytes_name);
        Self {
            name: key.map_or(name, |key| key.name.as_str()).to_owned(),
            title: key.map_or("", |key| key.title.as_str()).to_owned(),
            keys: directory.keys().to_vec(),
            uuid: header.uuid,
            old: Some((record.version, record.version > 1000)),
            changed: false,
            record,
            path,
            offset,
        }
    }
}

/// The key of a record with a payload of `stored` bytes.
fn record_key(
    url: &str,
    (class_name, name, title): (&str, &str, &str),
    (seek_key, seek_parent): (u64, u64),
    (stored, object_len): (usize, usize),
    cycle: u16,
    datetime: Datime,
) -> Result<Key, RootFileError> {
    let version = if is_wide(&[seek_key, seek_parent]) {
        1004
    } else {
        4
    };
    let mut key = Key {
        n_bytes: 0,
        version,
        object_len: 0,
        datetime,
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
        url: url.to_owned(),
        name: name.to_owned(),
        expected: LARGEST_RECORD as u64,
        found: stored.max(object_len) as u64,
    };
    let fits = |size: usize| {
        u32::try_from(size)
            .ok()
            .filter(|_| size <= LARGEST_RECORD)
            .ok_or_else(too_large)
    };
    key.key_len = u16::try_from(key_len).map_err(|_| too_large())?;
    key.n_bytes = fits(key_len.saturating_add(stored))?;
    key.object_len = fits(object_len)?;
    Ok(key)
}

fn now() -> Datime {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    encode::datime(since.as_secs())
}
