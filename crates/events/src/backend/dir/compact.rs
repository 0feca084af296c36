//! Rewrites a store without unused pages, and with full leaves.
//!
//! The new file is created in a separate directory, synced, and renamed over the old one, so a crash leaves one of
//! them. No other process may have the store open meanwhile, because LMDB's lock file must match its file.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

use heed::EnvFlags;
use rustix::fs::{FlockOperation, fcntl_lock};

use super::file::{
    DATA, FolderLock, LAYOUT, LAYOUT_NOTE, WriterLock, check_there, environment, in_use,
};
use super::full;
use super::open::is_open;
use super::pages::Damage;
use super::snapshot::{Map, Snapshot};
use super::tables::Name;
use super::writing::{COUNTS, Writing};
use crate::EventsError;

/// The directory of the new file.
pub const FOLDER: &str = "compacting";
/// Approximate size of a transaction in bytes.
const AT_ONCE: usize = 32 << 20;

/// The result of compacting a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// Size of the file before, in bytes.
    pub before: u64,
    /// Size of the file afterwards, in bytes.
    pub after: u64,
}

/// Compacts the store in a directory.
///
/// # Errors
///
/// If it does not exist, is open anywhere, or is damaged; errors of the system. Then the store is unchanged.
pub fn compact(path: &Path) -> Result<Compacted, EventsError> {
    let url = format!("dir:{}", path.display());
    check_there(path)?;
    let failed = |error: io::Error| EventsError::engine(&url, "compact it", error);
    let path = path.canonicalize().map_err(failed)?;
    let _folder = FolderLock::take(&path, &url, FlockOperation::NonBlockingLockExclusive)?;
    if is_open(&path) {
        return Err(in_use(&url, "is open in this process: close it first"));
    }
    let _writer = WriterLock::take(&path, &url)?;
    check_unused(&path, &url)?;
    let data = path.join(DATA);
    let before = fs::metadata(&data).map_err(failed)?.len();
    let made = path.join(FOLDER);
    match fs::remove_dir_all(&made) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {} // one that a killed process has left
    }
    fs::create_dir(&made).map_err(failed)?;
    let put = || {
        write(&path, &made, &url)?;
        let new = made.join(DATA);
        let after = fs::metadata(&new).map_err(failed)?.len();
        fs::rename(new, &data).map_err(failed)?;
        let synced = File::open(&path).and_then(|folder| folder.sync_all());
        synced.map_err(failed)?;
        Ok(Compacted { before, after })
    };
    let put = put();
    let removed = fs::remove_dir_all(&made).map_err(failed);
    put.and_then(|compacted| removed.map(|()| compacted))
}

/// Fails if a process has LMDB's file open: each process locks the lock file.
fn check_unused(path: &Path, url: &str) -> Result<(), EventsError> {
    let failed = |error: io::Error| EventsError::engine(url, "compact it", error);
    let mut options = OpenOptions::new();
    let file = match options.read(true).write(true).open(path.join("lock.mdb")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        file => file.map_err(failed)?,
    };
    match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::ACCESS | rustix::io::Errno::AGAIN) => {
            Err(in_use(url, "is open in another process: close it there"))
        }
        Err(error) => Err(failed(error.into())),
    }
}

/// Writes the contents of a store to a new file, and syncs it.
fn write(path: &Path, made: &Path, url: &str) -> Result<(), EventsError> {
    let failed = |error: heed::Error| full::failed(url, "compact it", made, error);
    let damaged = |damage: Damage| damage.error(url);
    let old = environment(path, EnvFlags::READ_ONLY, Name::ALL.len()).map_err(failed)?;
    let file = File::open(path.join(DATA)).map_err(|error| failed(error.into()))?;
    let map = Map::default();
    let txn = old.read_txn().map_err(failed)?;
    let snapshot = Snapshot::new(txn, &file, &map).map_err(|error| failed(error.into()))?;
    let snapshot = snapshot.ok_or_else(|| damaged(Damage::of_metadata()))?;
    let has_counts = snapshot
        .table(Name::Notes)
        .and_then(|notes| notes.get(COUNTS));
    let has_counts = has_counts.map_err(damaged)?.is_some();
    if let [first, ..] = super::check::check(&snapshot, has_counts).as_slice() {
        return Err(EventsError::Layout {
            url: url.into(),
            expected: "a store without damage".into(),
            found: first.clone(),
        });
    }
    // Synced once at the end: until then the file does not have its final name.
    let flags = EnvFlags::NO_SYNC | EnvFlags::NO_META_SYNC;
    let new = environment(made, flags, Name::ALL.len()).map_err(failed)?;
    let mut writing = Writing::first(&new).map_err(failed)?;
    let mut n_bytes = 0;
    for table in Name::ALL {
        for entry in snapshot
            .table(table)
            .and_then(|table| table.from(&[]))
            .map_err(damaged)?
        {
            let (key, value) = entry.map_err(damaged)?;
            let value = match (table, key) {
                (Name::Notes, COUNTS) => continue,
                (Name::Notes, LAYOUT_NOTE) => LAYOUT.as_bytes(),
                _ => value,
            };
            writing.append(table, key, value).map_err(failed)?;
            n_bytes += key.len() + value.len();
            if n_bytes > AT_ONCE {
                let tables = writing.commit().map_err(failed)?;
                writing = Writing::new(&new, tables).map_err(failed)?;
                n_bytes = 0;
            }
        }
    }
    writing.commit().map_err(failed)?;
    new.force_sync().map_err(failed)
}
