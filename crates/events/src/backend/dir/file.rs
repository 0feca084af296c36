//! The files of a store in a directory: LMDB's files, locks, and how to open them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use heed::{Env, EnvFlags, EnvOpenOptions, WithoutTls};
use rustix::fs::{FlockOperation, flock};

use crate::EventsError;
use crate::forked::Process;

/// The current version of the layout, as stored.
pub const LAYOUT: &str = "2";

/// The key of the layout version.
pub const LAYOUT_NOTE: &[u8] = b"femtobarn event store";
/// Maximum size of the file: address space that is mapped, not memory that is used.
const MAP_SIZE: usize = 1 << 40;
/// Maximum number of concurrent reading threads of all processes.
const READERS: u32 = 2048;

/// LMDB's file.
pub const DATA: &str = "data.mdb";

/// How a store is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// For reading and writing; creates the store if it does not exist.
    #[default]
    Append,
    /// For reading, while other processes may write.
    Read,
}

impl Mode {
    /// A crash of the machine may undo unflushed writes, but leaves a valid file. A crash of the process undoes nothing.
    pub fn flags(self) -> EnvFlags {
        match self {
            Self::Append => EnvFlags::NO_META_SYNC,
            Self::Read => EnvFlags::NO_META_SYNC | EnvFlags::READ_ONLY,
        }
    }
}

/// Fails if a directory does not contain a store.
pub fn check_there(path: &Path) -> Result<(), EventsError> {
    let url = || format!("dir:{}", path.display());
    let data = fs::metadata(path.join(DATA));
    data.map(drop).map_err(|error| not_there(&url(), error))
}

pub fn not_there(url: &str, error: std::io::Error) -> EventsError {
    match error.kind() {
        std::io::ErrorKind::NotFound => EventsError::NotFound {
            url: url.into(),
            what: "event store".into(),
            hint: String::new(),
        },
        _ => EventsError::engine(url, "open it", error),
    }
}

/// A lock on a directory: shared by processes that open the store, exclusive for replacing its file.
pub struct FolderLock {
    _folder: File,
}

impl FolderLock {
    pub fn take(path: &Path, url: &str, how: FlockOperation) -> Result<Self, EventsError> {
        let failed = |error: io::Error| EventsError::engine(url, "open it", error);
        let folder = File::open(path).map_err(failed)?;
        match flock(&folder, how) {
            Ok(()) => Ok(Self { _folder: folder }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(in_use(url, "is being opened or compacted")),
            Err(error) => Err(failed(error.into())),
        }
    }
}

pub fn in_use(url: &str, why: &str) -> EventsError {
    EventsError::engine(
        url,
        "compact or open it",
        format!("it {why}; try again later"),
    )
}

/// LMDB's file, to check whether it still has a name.
pub struct DataFile(File);

impl DataFile {
    pub fn of(folder: &Path) -> io::Result<Self> {
        File::open(folder.join(DATA)).map(Self)
    }

    pub fn file(&self) -> &File {
        &self.0
    }

    /// Fails if the directory was removed: nobody can find data in a file without a name.
    pub fn check(&self, url: &str, doing: &'static str) -> Result<(), EventsError> {
        match self.0.metadata() {
            Ok(about) if about.nlink() == 0 => Err(EventsError::engine(
                url,
                doing,
                "its directory was removed while it was open: close the store, and connect again to create a new one",
            )),
            _ => Ok(()), // if this cannot be checked, writing is allowed
        }
    }
}

/// Size of LMDB's lock file: 64 bytes per reader after its header.
const LOCK_FILE: u64 = 64 * READERS as u64 + 4096;

/// Allocates the disk blocks of the lock file. LMDB maps the file; on a full disk, a missing block would end the process
/// with SIGBUS.
fn allocate_lock(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false);
    let Ok(file) = options.open(path.join("lock.mdb")) else {
        return Ok(()); // a read-only directory has no lock
    };
    // processes that have it mapped know only the size that it has
    let size = match file.metadata()?.len() {
        0 => LOCK_FILE,
        size => size,
    };
    match rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, size) {
        Err(rustix::io::Errno::NOSPC | rustix::io::Errno::DQUOT) => {
            Err(io::Error::from(io::ErrorKind::StorageFull))
        }
        _ => Ok(()), // not every file system can
    }
}

/// Opens LMDB in a directory.
pub fn environment(
    path: &Path,
    flags: EnvFlags,
    n_tables: usize,
) -> Result<Env<WithoutTls>, heed::Error> {
    let wanted = std::env::var("FEMTOBARN_STORE_MAP_SIZE").ok();
    let mut size = wanted
        .and_then(|text| text.parse().ok())
        .unwrap_or(MAP_SIZE);
    allocate_lock(path)?;
    loop {
        let mut options = EnvOpenOptions::new().read_txn_without_tls();
        options
            .map_size(size)
            .max_dbs(u32::try_from(n_tables).unwrap_or(u32::MAX))
            .max_readers(READERS);
        // SAFETY: with the flags of a mode, the file stays consistent; files with other flags have no final name yet.
        // Only LMDB writes the file, and all processes respect its locks (the layout of the directory is checked).
        let opened = unsafe {
            options.flags(flags);
            options.open(path)
        };
        match opened {
            // There is not enough address space, for example with a limit of virtual memory.
            Err(heed::Error::Io(error))
                if error.kind() == std::io::ErrorKind::OutOfMemory && size > 1 << 30 =>
            {
                size /= 2;
            }
            Err(heed::Error::EnvAlreadyOpened) => {
                let alias = Alias::of(path)?;
                // SAFETY: as above. The open environment belongs to the parent process, before a fork. This process never
                // uses it (`check_process`), and its locks are not ours.
                return unsafe { options.open(&alias.folder) };
            }
            opened => return opened,
        }
    }
}

/// Another name for the same files, because heed opens each name only once. A forked child has the environment of its
/// parent, which it must not use. Also, a removed directory may be created again while the old one is open.
struct Alias {
    folder: PathBuf,
}

impl Alias {
    fn of(path: &Path) -> io::Result<Self> {
        static N: AtomicUsize = AtomicUsize::new(0);
        let n = N.fetch_add(1, Ordering::Relaxed);
        let folder = path.join(format!(".process-{}-{n}", std::process::id()));
        fs::create_dir(&folder)?;
        let alias = Self { folder };
        for name in [DATA, "lock.mdb"] {
            let mut options = OpenOptions::new();
            options.append(true).create(true).open(path.join(name))?; // LMDB takes empty ones as new
            fs::hard_link(path.join(name), alias.folder.join(name))?;
        }
        Ok(alias)
    }
}

impl Drop for Alias {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder); // an open file stays open without a name
    }
}

/// Marks this process as the writer of a store: a file lock, which ends with the process.
pub struct WriterLock {
    file: File,
    process: Process,
}

impl Drop for WriterLock {
    fn drop(&mut self) {
        // A forked process has the file open as well and would keep the lock, so the lock is released explicitly, and
        // only by the process that took it.
        if self.process.is_this() {
            let _ = flock(&self.file, FlockOperation::Unlock);
        }
    }
}

impl WriterLock {
    pub fn take(path: &Path, url: &str) -> Result<Self, EventsError> {
        let failed = |error: std::io::Error| EventsError::engine(url, "open it for writing", error);
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(path.join("writer")).map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut holder = String::new();
                file.read_to_string(&mut holder).map_err(failed)?;
                return Err(EventsError::Locked {
                    url: url.into(),
                    holder: holder.trim().into(),
                });
            }
            Err(error) => return Err(failed(error.into())),
        }
        file.set_len(0).map_err(failed)?;
        write!(file, "{}", std::process::id()).map_err(failed)?;
        Ok(Self {
            file,
            process: Process::this(),
        })
    }
}
