//! Local files.

use std::collections::HashSet;
use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::reflink::shared_bytes;
use super::transfer::{Transferred, between_files, through_memory};
use super::whole::{OnBytes, PIECE, in_pieces};
use super::{ByteSink, TempSibling};
use crate::{ByteSource, IoError};

/// A local file: a new file, or an existing one for appending.
#[derive(Debug)]
pub struct LocalSink {
    url: String,
    file: File,
    /// For a new file: gives it its final name.
    sibling: Mutex<Option<TempSibling>>,
    /// For an existing file: the path, which must still be this file at the end.
    updated: Option<PathBuf>,
    behind: Behind,
    /// Devices of sources that cannot share blocks with this file; they are not tried again.
    unable: Mutex<HashSet<u64>>,
}

/// Written bytes that are not being synced yet. A background thread syncs them during the work, so that the final sync
/// is short.
#[derive(Debug, Default)]
struct Behind {
    n_bytes: AtomicU64,
    running: Mutex<Option<JoinHandle<io::Result<()>>>>,
}

impl Behind {
    /// Number of bytes from which a sync is worth a thread.
    const MANY: u64 = 32 << 20;

    /// Counts written bytes, and starts a sync if there are many.
    fn wrote(&self, file: &File, n_bytes: usize) -> io::Result<()> {
        let n_bytes = n_bytes as u64;
        if self.n_bytes.fetch_add(n_bytes, Ordering::Relaxed) + n_bytes < Self::MANY {
            return Ok(());
        }
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        match running.take() {
            Some(thread) if !thread.is_finished() => {
                *running = Some(thread);
                return Ok(());
            }
            Some(thread) => joined(thread)?,
            None => {}
        }
        self.n_bytes.store(0, Ordering::Relaxed);
        let file = file.try_clone()?;
        *running = Some(std::thread::spawn(move || file.sync_data()));
        Ok(())
    }

    /// Waits for running syncs. A later sync would not report their errors again.
    fn wait(&self) -> io::Result<()> {
        let running = self
            .running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        running.map_or(Ok(()), joined)
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        // an abandoned file is not synced
        let _ = self.wait();
    }
}

fn joined(thread: JoinHandle<io::Result<()>>) -> io::Result<()> {
    let result = thread.join();
    result.unwrap_or_else(|_| Err(io::Error::other("the sync thread has ended")))
}

impl LocalSink {
    /// Creates a file. It has a temporary name (see [`TempSibling`]) until the commit, which may replace an existing
    /// file. A sink that is dropped before removes the file.
    ///
    /// # Errors
    /// Errors of [`TempSibling::create`].
    pub fn create(path: &Path) -> Result<Self, IoError> {
        Self::named_later(TempSibling::create(path, true)?)
    }

    /// Creates a file whose name must not exist, neither now nor at the commit.
    ///
    /// # Errors
    /// Errors of [`TempSibling::create`].
    pub fn create_new(path: &Path) -> Result<Self, IoError> {
        Self::named_later(TempSibling::create(path, false)?)
    }

    fn named_later(sibling: TempSibling) -> Result<Self, IoError> {
        let sink = Self::beside(&sibling)?;
        *sink.sibling.lock().unwrap_or_else(PoisonError::into_inner) = Some(sibling);
        Ok(sink)
    }

    /// A file that gets its final name from the caller: a commit only syncs it.
    ///
    /// # Errors
    /// If the process has too many open files.
    pub fn beside(sibling: &TempSibling) -> Result<Self, IoError> {
        Ok(Self {
            url: sibling.url().to_owned(),
            file: sibling.file()?,
            sibling: Mutex::new(None),
            updated: None,
            behind: Behind::default(),
            unable: Mutex::default(),
        })
    }

    /// Opens an existing file; written data appear in it at once. While the sink lives, no other can be opened for the
    /// file (by an advisory lock, if the file system has locks).
    ///
    /// # Errors
    /// If the file does not exist, is not writable, or another writer has it open.
    pub fn update(path: &Path) -> Result<Self, IoError> {
        let url = path.to_string_lossy().into_owned();
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.map_err(|source| match source.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                IoError::ReadOnly { url: url.clone() }
            }
            _ => IoError::from_open(&url, source),
        })?;
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            return Err(IoError::Busy { url });
        }
        Ok(Self {
            url,
            file,
            sibling: Mutex::new(None),
            updated: Some(std::path::absolute(path).unwrap_or_else(|_| path.to_owned())),
            behind: Behind::default(),
            unable: Mutex::default(),
        })
    }

    fn write_error(&self, offset: u64, expected: usize, source: io::Error) -> IoError {
        IoError::Write {
            url: self.url.clone(),
            offset,
            expected: expected as u64,
            source,
        }
    }
}

impl ByteSink for LocalSink {
    fn url(&self) -> &str {
        &self.url
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
        let written = self.file.write_all_at(bytes, offset);
        let written = written.and_then(|()| self.behind.wrote(&self.file, bytes.len()));
        written.map_err(|source| self.write_error(offset, bytes.len(), source))
    }

    fn transfer(
        &self,
        source: &dyn ByteSource,
        range: &Range<u64>,
        offset: u64,
        share: bool,
    ) -> Result<Transferred, IoError> {
        source.meta().check(source.url(), range)?;
        let Some(from) = source.file() else {
            return through_memory(self, source, range, offset);
        };
        let block = share.then(|| self.share_block(source)).flatten();
        let n_bytes = range.end - range.start;
        let failed = |error| self.write_error(offset, usize::try_from(n_bytes).unwrap_or(0), error);
        let from = from?;
        let done = between_files(&from, &self.file, range, offset, block);
        let (mut done, left) = done.map_err(failed)?;
        if done.unable {
            let mut unable = self.unable.lock().unwrap_or_else(PoisonError::into_inner);
            unable.insert(from.metadata().map_or(0, |found| found.dev()));
        }
        let copied = usize::try_from(done.in_kernel).unwrap_or(usize::MAX);
        self.behind.wrote(&self.file, copied).map_err(failed)?;
        for (part, offset) in left {
            done = done.and(through_memory(self, source, &part, offset)?);
        }
        Ok(done)
    }

    fn bring(
        &self,
        source: &Arc<dyn ByteSource>,
        tick: OnBytes<'_>,
    ) -> Result<Transferred, IoError> {
        // the kernel copies best in one piece
        let piece = match source.file() {
            Some(_) => u64::MAX,
            None => PIECE,
        };
        in_pieces(self, &**source, piece, tick)
    }

    fn share_block(&self, source: &dyn ByteSource) -> Option<u64> {
        let from = source.file()?.ok()?;
        let unable = self.unable.lock().unwrap_or_else(PoisonError::into_inner);
        if unable.contains(&from.metadata().ok()?.dev()) {
            return None;
        }
        // files of two devices may still share blocks: btrfs subvolumes, which have the same block size
        let block = |file: &File| rustix::fs::fstatfs(file).ok().map(|found| found.f_bsize);
        let (own, other) = (block(&self.file)?, block(&from)?);
        u64::try_from(own).ok().filter(|_| own == other)
    }

    fn shared_bytes(&self, range: &Range<u64>) -> Option<u64> {
        shared_bytes(&self.file, range).ok()
    }

    fn sync(&self) -> Result<(), IoError> {
        let synced = self.behind.wait().and_then(|()| self.file.sync_all());
        synced.map_err(|source| self.write_error(0, 0, source))
    }

    fn truncate(&self, size: u64) -> Result<(), IoError> {
        let cut = self.file.set_len(size);
        cut.map_err(|source| self.write_error(size, 0, source))
    }

    fn commit(&self) -> Result<(), IoError> {
        self.sync()?;
        let mut sibling = self.sibling.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sibling) = &mut *sibling {
            sibling.appear()?;
        }
        if let Some(path) = &self.updated {
            let id = |found: Metadata| (found.dev(), found.ino());
            let (own, named) = (self.file.metadata(), std::fs::metadata(path));
            if own.ok().map(id) != named.ok().map(id) {
                return Err(IoError::Replaced {
                    url: self.url.clone(),
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{LocalSource, MemorySource};

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    #[test]
    fn a_file_appears_only_when_committed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new.root");
        let sink = LocalSink::create(&path).unwrap();
        sink.write_at(3, b"def").unwrap();
        sink.write_at(0, b"abc").unwrap();
        assert!(!path.exists());
        sink.commit().unwrap();
        drop(sink);
        assert_eq!(fs::read(&path).unwrap(), b"abcdef");
        assert_eq!(names(folder.path()), ["new.root"]);
    }

    #[test]
    fn what_is_not_committed_leaves_nothing_and_the_old_file_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("old.root");
        fs::write(&path, "old").unwrap();
        let sink = LocalSink::create(&path).unwrap();
        sink.write_at(0, b"new").unwrap();
        drop(sink);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(folder.path()), ["old.root"]);
    }

    #[test]
    fn a_folder_that_is_not_there_and_one_that_is_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(
            LocalSink::create(folder.path()).unwrap_err().kind(),
            "not-a-file"
        );
        let error = LocalSink::create(&folder.path().join("no/new.root")).unwrap_err();
        assert_eq!(error.kind(), "create-failed");
        assert!(error.to_string().contains("no/new.root"));
        assert_eq!(
            LocalSink::update(&folder.path().join("no"))
                .unwrap_err()
                .kind(),
            "file-not-found"
        );
    }

    #[test]
    fn transfers_bring_the_bytes_from_files_and_from_memory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("from.root");
        let content: Vec<u8> = (0..300_000u32).map(|i| (i / 7).to_le_bytes()[0]).collect();
        fs::write(&path, &content).unwrap();
        let file: Arc<dyn ByteSource> = LocalSource::open(&path).unwrap();
        let memory: Arc<dyn ByteSource> = MemorySource::new("memory", content.clone());
        // pages with the same offset in their blocks in both files, or with another one
        for (source, at) in [(&file, 8292), (&file, 8293), (&memory, 8292)] {
            let to = folder.path().join("to.root");
            let sink = LocalSink::create(&to).unwrap();
            for (range, share) in [
                (100..250_100, true),
                (7..7, false),
                (250_100..300_000, false),
            ] {
                let done = sink.transfer(&**source, &range, at + range.start - 100, share);
                assert_eq!(done.unwrap().n_bytes(), range.end - range.start);
            }
            let beyond = sink.transfer(&**source, &(299_999..300_001), 0, true);
            assert_eq!(beyond.unwrap_err().kind(), "read-out-of-range");
            sink.commit().unwrap();
            drop(sink);
            let found = fs::read(&to).unwrap();
            assert!(found[usize::try_from(at).unwrap()..] == content[100..]);
        }
    }

    #[test]
    fn a_full_disk_is_an_error_with_its_place() {
        let Ok(sink) = LocalSink::update(Path::new("/dev/full")) else {
            return;
        };
        let error = sink.write_at(7, b"abc").unwrap_err();
        assert_eq!(error.kind(), "write-failed");
        assert!(error.to_string().contains("/dev/full"));
    }
}
