//! Objects as files of a directory. Each is written to a temporary name next to its own, synced, and renamed.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::FoundObject;
use crate::{ByteSink, IoError, LocalSink};

/// The file name suffix of incomplete files.
const PART: &str = ".part";
/// Number of attempts to create a directory that another process removes while it is empty.
const TRIES: usize = 100;

#[derive(Debug)]
pub struct LocalFolder {
    base: PathBuf,
}

impl LocalFolder {
    pub fn new(base: &str) -> Self {
        Self { base: base.into() }
    }

    /// Whether the path is a directory, or can become one.
    pub fn may_be_folder(&self) -> bool {
        let there = self.base.ancestors().find(|path| path.exists());
        there.is_none_or(Path::is_dir)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.base.join(name)
    }

    pub fn put(&self, name: &str, bytes: &[u8]) -> Result<(), IoError> {
        let path = self.path(name);
        let failed = |source| IoError::Create {
            url: path.display().to_string(),
            source,
        };
        let folder = path.parent().unwrap_or(&self.base);
        for _ in 1..TRIES {
            match write(folder, &path, bytes) {
                // Another process has deleted the last object in it.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                done => return done.map_err(failed),
            }
        }
        write(folder, &path, bytes).map_err(failed)
    }

    pub fn put_new(&self, name: &str, bytes: &[u8]) -> Result<(), IoError> {
        let path = self.path(name);
        let folder = path.parent().unwrap_or(&self.base);
        make(folder).map_err(|source| IoError::Create {
            url: path.display().to_string(),
            source,
        })?;
        let made = LocalSink::create_new(&path).and_then(|sink| {
            sink.write_at(0, bytes)?;
            sink.commit()
        });
        made.map_err(|error| match error {
            // The file is complete, and its writer is about to unlock it.
            IoError::Busy { url } => IoError::Exists { url },
            error => error,
        })
    }

    pub fn get_small(&self, name: &str) -> Result<Vec<u8>, IoError> {
        let path = self.path(name);
        fs::read(&path).map_err(|error| IoError::from_open(&path.display().to_string(), error))
    }

    pub fn get(&self, name: &str, size: u64) -> Result<Bytes, IoError> {
        let path = self.path(name);
        let url = path.display().to_string();
        let mut file = File::open(&path).map_err(|error| IoError::from_open(&url, error))?;
        let failed = |source| IoError::Read {
            url: url.clone(),
            offset: 0,
            expected: size,
            source,
        };
        let found = file.metadata().map_err(failed)?.len();
        let length = usize::try_from(size).unwrap_or(usize::MAX);
        if found != size {
            return Err(IoError::ShortRead {
                url,
                offset: 0,
                expected: size,
                found,
            });
        }
        let mut bytes = vec![0; length];
        file.read_exact(&mut bytes).map_err(failed)?;
        Ok(bytes.into())
    }

    pub fn delete(&self, names: &[&str]) -> Result<(), IoError> {
        for name in names {
            let path = self.path(name);
            gone(fs::remove_file(&path)).map_err(|error| not_deleted(&path, error))?;
            self.remove_empty(&path);
        }
        Ok(())
    }

    pub fn delete_below(&self, prefix: &str) -> Result<(), IoError> {
        let path = self.path(prefix);
        let mut tries = 0;
        loop {
            match gone(fs::remove_dir_all(&path)) {
                // Another process has added an object meanwhile.
                Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty && tries < TRIES => {
                    tries += 1;
                }
                removed => {
                    removed.map_err(|error| not_deleted(&path, error))?;
                    break;
                }
            }
        }
        self.remove_empty(&path);
        Ok(())
    }

    /// Removes the empty directories of a path, innermost first.
    fn remove_empty(&self, path: &Path) {
        let above = path.ancestors().skip(1);
        for folder in above.take_while(|folder| *folder != self.base) {
            // A directory that is not empty is kept, and so are its parents.
            if fs::remove_dir(folder).is_err() {
                break;
            }
        }
    }

    pub fn list(&self) -> Result<Vec<FoundObject>, IoError> {
        let mut found = Vec::new();
        let mut folders = vec![self.base.clone()];
        while let Some(folder) = folders.pop() {
            let failed = |error| IoError::from_open(&folder.display().to_string(), error);
            let entries = match fs::read_dir(&folder) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                entries => entries.map_err(failed)?,
            };
            for entry in entries {
                let entry = entry.map_err(failed)?;
                let path = entry.path();
                if entry.file_type().map_err(failed)?.is_dir() {
                    folders.push(path);
                    continue;
                }
                let about = match entry.metadata() {
                    Err(error) if error.kind() == ErrorKind::NotFound => continue,
                    about => about.map_err(failed)?,
                };
                let name = path.strip_prefix(&self.base).ok().and_then(Path::to_str);
                // Names that are not valid UTF-8 are not ours.
                let Some(name) = name else { continue };
                found.push(FoundObject {
                    name: name.to_owned(),
                    size: about.len(),
                    modified: about.modified().map_err(failed)?,
                });
            }
        }
        Ok(found)
    }
}

fn write(folder: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    make(folder)?;
    let mut name = path.as_os_str().to_owned();
    name.push(PART);
    let beside = PathBuf::from(name);
    let written = File::create_new(&beside).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, path)
    });
    if written.is_err() {
        let _ = fs::remove_file(&beside); // the error is what matters
    }
    written?;
    sync(folder);
    Ok(())
}

/// Creates a directory and its parents, durably.
fn make(folder: &Path) -> io::Result<()> {
    match fs::create_dir(folder) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let above = folder
                .parent()
                .filter(|above| !above.as_os_str().is_empty());
            make(above.ok_or(error)?)?;
            match fs::create_dir(folder) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        Err(error) => return Err(error),
    }
    folder.parent().into_iter().for_each(sync);
    Ok(())
}

/// Syncs a directory; some file systems do not support this.
fn sync(folder: &Path) {
    let _unsupported = File::open(folder).and_then(|folder| folder.sync_all());
}

/// A missing file counts as removed.
fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn not_deleted(path: &Path, source: io::Error) -> IoError {
    IoError::Delete {
        url: path.display().to_string(),
        source: source.into(),
    }
}
