//! Limits the number of open file handles per process.

use std::collections::VecDeque;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};

use femtobarn_fork::lock;

use crate::IoError;

/// Maximum number of handles of idle sources; well below the usual limit of 1024 per process.
const MOST_HANDLES: usize = 256;

/// Sources with an open handle, the oldest first.
static HELD: Mutex<VecDeque<Weak<Slot>>> = Mutex::new(VecDeque::new());

type Slot = Mutex<Option<Arc<File>>>;

/// A file that is opened again if its handle was closed.
#[derive(Debug)]
pub(super) struct Handle {
    slot: Arc<Slot>,
    identity: Identity,
}

/// Identity of a file, which distinguishes it from a replacement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    modified: (i64, i64),
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

impl Handle {
    pub fn new(file: File, metadata: &Metadata) -> Self {
        let slot = Arc::new(Mutex::new(Some(Arc::new(file))));
        hold(&slot);
        Self {
            slot,
            identity: Identity::of(metadata),
        }
    }

    /// The open file.
    ///
    /// # Errors
    /// If it had to be opened again, and is missing or replaced.
    pub fn get(&self, path: &Path, url: &str) -> Result<Arc<File>, IoError> {
        if let Some(file) = &*lock(&self.slot) {
            return Ok(Arc::clone(file));
        }
        let failed = |source| IoError::from_open(url, source);
        let file = open(path).map_err(failed)?;
        if Identity::of(&file.metadata().map_err(failed)?) != self.identity {
            return Err(IoError::Changed {
                url: url.to_owned(),
            });
        }
        let file = Arc::new(file);
        *lock(&self.slot) = Some(Arc::clone(&file));
        hold(&self.slot);
        Ok(file)
    }
}

/// Opens a file. If the process has no free handle, closes the oldest one of another source.
pub(super) fn open(path: &Path) -> io::Result<File> {
    loop {
        match File::open(path) {
            Err(error) if is_exhausted(&error) => {
                let Some(oldest) = lock(&HELD).pop_front() else {
                    return Err(error);
                };
                if let Some(oldest) = oldest.upgrade() {
                    lock(&oldest).take();
                }
            }
            result => return result,
        }
    }
}

/// EMFILE or ENFILE: too many open files, of the process or of the system.
fn is_exhausted(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(24 | 23))
}

/// Records that a source holds a handle, and closes the oldest handles beyond the limit.
fn hold(slot: &Arc<Slot>) {
    let mut held = lock(&HELD);
    held.retain(|other| other.strong_count() > 0);
    held.push_back(Arc::downgrade(slot));
    while held.len() > most_handles() {
        // a running read keeps the file open until it ends
        if let Some(oldest) = held.pop_front().and_then(|oldest| oldest.upgrade()) {
            lock(&oldest).take();
        }
    }
}

/// At most half of the process limit; the program itself may need the other half.
fn most_handles() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let half = limit.and_then(|limit| usize::try_from(limit / 2).ok());
    MOST_HANDLES.min(half.unwrap_or(MOST_HANDLES)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ByteSource, LocalSource};

    #[test]
    fn a_thousand_open_files_need_few_handles_and_read_right() {
        let folder = tempfile::tempdir().unwrap();
        let path = |i: usize| folder.path().join(i.to_string());
        let sources: Vec<_> = (0..1500)
            .map(|i| {
                std::fs::write(path(i), i.to_string()).unwrap();
                LocalSource::open(&path(i)).unwrap()
            })
            .collect();
        for (i, source) in sources.iter().enumerate() {
            let size = source.meta().size;
            assert_eq!(
                source
                    .read_ranges(std::slice::from_ref(&(0..size)))
                    .unwrap()[0],
                i.to_string()
            );
        }
    }

    #[test]
    fn a_file_that_was_replaced_meanwhile_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "before").unwrap();
        let file = File::open(&path).unwrap();
        let handle = Handle::new(file, &std::fs::metadata(&path).unwrap());
        lock(&handle.slot).take();
        assert!(handle.get(&path, "a").is_ok(), "the same file");
        lock(&handle.slot).take();
        std::fs::write(folder.path().join("b"), "behind").unwrap();
        std::fs::rename(folder.path().join("b"), &path).unwrap();
        assert_eq!(handle.get(&path, "a").unwrap_err().kind(), "file-changed");
    }
}
