//! Directories of a file that is being written.

use super::FileWriter;
use super::encode::{self, DIRECTORY_SIZE, NARROW_RECORD, WIDE_RECORD};
use crate::{Datime, Directory, DirectoryRecord, Key, RootFileError, Uuid};

/// Class name in the keys of directories. ROOT writes this name, and uses TDirectoryFile only in memory.
pub(super) const DIRECTORY: &str = "TDirectory";

/// A directory of a file that is being written.
#[derive(Debug)]
pub(super) struct Folder {
    pub path: String,
    pub name: String,
    pub title: String,
    pub record: DirectoryRecord,
    pub keys: Vec<Key>,
    /// For an existing record: its class version, and whether its positions have 64 bits.
    pub old: Option<(u16, bool)>,
    pub changed: bool,
}

impl Folder {
    /// A new directory, whose record is at `seek_dir` after `n_bytes_name` bytes.
    pub fn new(
        path: String,
        (name, title): (&str, &str),
        now: Datime,
        (seek_dir, n_bytes_name): (u64, u32),
        seek_parent: u64,
    ) -> Self {
        Self {
            path,
            name: name.to_owned(),
            title: title.to_owned(),
            record: DirectoryRecord {
                version: 5,
                created: now,
                modified: now,
                n_bytes_keys: 0,
                n_bytes_name,
                seek_dir,
                seek_parent,
                seek_keys: 0,
            },
            keys: Vec::new(),
            old: None,
            changed: true,
        }
    }

    /// A directory that is in the file already; its parents are `known`.
    pub fn existing(directory: &Directory, known: &[Self]) -> Self {
        let record = directory.record().clone();
        let path = directory.path().to_owned();
        let (above, name) = path.rsplit_once('/').unwrap_or(("", &path));
        let parent = known.iter().find(|folder| folder.path == above);
        let key = parent.and_then(|folder| {
            let mut keys = folder.keys.iter();
            keys.find(|key| key.seek_key == record.seek_dir)
        });
        Self {
            name: key.map_or(name, |key| key.name.as_str()).to_owned(),
            title: key.map_or("", |key| key.title.as_str()).to_owned(),
            keys: directory.keys().to_vec(),
            old: Some((record.version, record.version > 1000)),
            changed: false,
            record,
            path,
        }
    }

    /// Offset of the record.
    pub fn offset(&self) -> u64 {
        self.record.seek_dir + u64::from(self.record.n_bytes_name)
    }

    /// The bytes of the record.
    pub fn bytes(&self, uuid: Uuid) -> Vec<u8> {
        let mut bytes = encode::directory(&self.record, uuid);
        if let Some((version, wide)) = self.old {
            let version_now = bytes.first_chunk().map_or(0, |v| u16::from_be_bytes(*v));
            if (version_now > 1000) == wide {
                // bytes after the positions, a UUID or nothing, stay
                bytes.truncate(if wide { WIDE_RECORD } else { NARROW_RECORD });
                if let Some(place) = bytes.first_chunk_mut() {
                    *place = version.to_be_bytes();
                }
            }
        }
        bytes
    }
}

fn names_in(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|name| !name.is_empty())
}

impl FileWriter {
    /// Returns the directory at a path, which is created with its parents if it does not exist. The root
    /// directory has the empty path.
    ///
    /// # Errors
    /// If an object has that name, the name is invalid (`.`, `..`, or with a `;`), or the sink fails.
    pub fn directory(&mut self, path: &str) -> Result<usize, RootFileError> {
        self.directory_titled(path, "")
    }

    /// The same; if the directory is created, it gets a title (its parents do not).
    ///
    /// # Errors
    /// As [`directory`](Self::directory).
    pub fn directory_titled(&mut self, path: &str, title: &str) -> Result<usize, RootFileError> {
        let mut at = 0;
        let mut names = names_in(path).peekable();
        while let Some(name) = names.next() {
            let title = names.peek().map_or(title, |_| "");
            at = self.subdirectory(at, name, title)?;
        }
        Ok(at)
    }

    fn subdirectory(
        &mut self,
        parent: usize,
        name: &str,
        title: &str,
    ) -> Result<usize, RootFileError> {
        let Some(above) = self.folders.get(parent) else {
            return Ok(0);
        };
        let path = if above.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}/{name}", above.path)
        };
        if let Some(known) = self.find_directory(&path) {
            return Ok(known);
        }
        if let Some(bad) = name.chars().find(|c| *c == ';' || c.is_ascii_control()) {
            return Err(RootFileError::InvalidName {
                url: self.sink.url().to_owned(),
                name: name.to_owned(),
                found: bad,
            });
        }
        if matches!(name, "." | "..") {
            return Err(RootFileError::RelativeName {
                url: self.sink.url().to_owned(),
                name: name.to_owned(),
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
        let size = (DIRECTORY_SIZE, DIRECTORY_SIZE);
        let key = self.key((DIRECTORY, name, title), seek_parent, size, 1)?;
        let place = (key.seek_key, u32::from(key.key_len));
        let folder = Folder::new(path, (name, title), self.now, place, seek_parent);
        self.append(&key, &folder.bytes(self.header.uuid))?;
        if let Some(above) = self.folders.get_mut(parent) {
            above.keys.push(key);
            above.changed = true;
        }
        self.folders.push(folder);
        Ok(self.folders.len() - 1)
    }

    /// The directory at a path, if it exists.
    pub fn find_directory(&self, path: &str) -> Option<usize> {
        let names: Vec<&str> = names_in(path).collect();
        let path = names.join("/");
        self.folders.iter().position(|folder| folder.path == path)
    }

    /// The keys of a directory.
    pub(super) fn keys(&self, directory: usize) -> &[Key] {
        let folder = self.folders.get(directory);
        folder.map_or(&[], |folder| folder.keys.as_slice())
    }
}
