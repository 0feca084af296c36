//! Opening a store in a folder: who may write, and what it must look like.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::SystemTime;

use heed::{Env, EnvFlags, EnvOpenOptions, WithoutTls};
use rustix::fs::{FlockOperation, flock};

use super::compact::FolderLock;
use super::pages::Damage;
use super::queues::DirQueues;
use super::snapshot::{HEAD, Map, Meta, Snapshot};
use super::tables::{Name, Tables};
use super::together::Together;
use super::writing::Writing;
use super::{DirBackend, Shared};
use crate::EventsError;
use crate::forked::Process;

/// The version of the layout, as the store notes it.
pub const LAYOUT: &str = "2";
/// Those that are read and written. The first has no counts, and nothing is compressed.
const LAYOUTS: [&str; 2] = ["1", LAYOUT];
/// Where it is noted.
pub const LAYOUT_NOTE: &[u8] = b"femtobarn event store";
/// As much as the file may grow to: memory that is mapped, not used.
const MAP_SIZE: usize = 1 << 40;
/// How many threads of all processes may read at once.
const READERS: u32 = 2048;

/// LMDB's file.
pub const DATA: &str = "data.mdb";

/// How a store is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// To be read and written, and made if it is not there.
    #[default]
    Append,
    /// To be read, beside processes that write.
    Read,
}

impl Mode {
    /// A crash of the machine may undo what was not flushed, but leaves the file whole; one of the process undoes nothing.
    pub fn flags(self) -> EnvFlags {
        match self {
            Self::Append => EnvFlags::NO_META_SYNC,
            Self::Read => EnvFlags::NO_META_SYNC | EnvFlags::READ_ONLY,
        }
    }
}

/// The stores that this process has open: LMDB's file must be opened once.
static OPEN: Mutex<Option<Stores>> = Mutex::new(None);

/// By their files, not by the names of these: a folder may be moved or removed, and another made under its name.
type Stores = HashMap<FileId, Opened>;

/// The device of a file and its number there, which no other has as long as it is open.
type FileId = (u64, u64);

struct Opened {
    shared: Weak<Shared>,
    /// Whether LMDB has opened it so that it may be written.
    is_writable: bool,
    writer: Weak<DirBackend>,
}

/// Opens a store in a folder. It may be opened several times by a process, to be written and to be read.
///
/// # Errors
///
/// If there is none and it is to be read, if another process writes to it and this one would, if the folder holds
/// something else, and what the system says.
pub fn open(path: &Path, mode: Mode) -> Result<Arc<DirBackend>, EventsError> {
    let url = format!("dir:{}", path.display());
    if mode == Mode::Append {
        fs::create_dir_all(path)
            .map_err(|error| EventsError::engine(&url, "make the folder", error))?;
    }
    let whole = path
        .canonicalize()
        .map_err(|error| not_there(&url, error))?;
    let mut all = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let all = all.get_or_insert_default();
    all.retain(|_, opened| opened.shared.strong_count() > 0);
    let known = file_id(&whole.join(DATA)).and_then(|id| all.get_mut(&id));
    let known = known.and_then(|opened| {
        let shared = opened.shared.upgrade()?;
        shared.process.is_this().then_some((opened, shared))
    });
    let Some((opened, shared)) = known else {
        let store = Arc::new(open_new(&whole, url, mode)?);
        let is_writable = mode == Mode::Append;
        let opened = Opened {
            shared: Arc::downgrade(&store.shared),
            is_writable,
            writer: if is_writable {
                Arc::downgrade(&store)
            } else {
                Weak::new()
            },
        };
        if let Some(id) = file_id(&whole.join(DATA)) {
            all.insert(id, opened);
        }
        return Ok(store);
    };
    if mode == Mode::Read {
        let writer = None;
        return Ok(Arc::new(DirBackend { shared, writer }));
    }
    if !opened.is_writable {
        return Err(EventsError::OpenToRead { url });
    }
    if let Some(store) = opened.writer.upgrade() {
        return Ok(store);
    }
    let writer = Some(WriterLock::take(&whole, &url)?);
    let store = Arc::new(DirBackend { shared, writer });
    opened.writer = Arc::downgrade(&store);
    Ok(store)
}

/// Whether this process has the store in a folder open.
pub fn is_open(path: &Path) -> bool {
    let all = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let opened = file_id(&path.join(DATA)).and_then(|id| all.as_ref()?.get(&id));
    let shared = opened.and_then(|opened| opened.shared.upgrade());
    shared.is_some_and(|shared| shared.process.is_this())
}

/// Fails if a folder has no store.
pub fn check_there(path: &Path) -> Result<(), EventsError> {
    let url = || format!("dir:{}", path.display());
    let data = fs::metadata(path.join(DATA));
    data.map(drop).map_err(|error| not_there(&url(), error))
}

fn not_there(url: &str, error: std::io::Error) -> EventsError {
    match error.kind() {
        std::io::ErrorKind::NotFound => EventsError::NotFound {
            url: url.into(),
            what: "event store".into(),
            hint: String::new(),
        },
        _ => EventsError::engine(url, "open it", error),
    }
}

fn open_new(path: &Path, url: String, mode: Mode) -> Result<DirBackend, EventsError> {
    let failed = |error: heed::Error| EventsError::engine(&url, "open it", error);
    let _folder = FolderLock::take(path, &url, FlockOperation::NonBlockingLockShared)?;
    let data = path.join(DATA);
    let is_new = !data.exists();
    if is_new {
        check_empty(path, &url, mode)?;
    } else {
        check_size(&data, &url)?;
    }
    let writer = match mode {
        Mode::Append => Some(WriterLock::take(path, &url)?),
        Mode::Read => None,
    };
    let env = environment(path, mode.flags(), Name::ALL.len()).map_err(failed)?;
    env.clear_stale_readers().map_err(failed)?;
    let layout = match is_new {
        true => Some(LAYOUT.into()),
        false => layout(&env, &data, mode, &url)?,
    };
    if !layout
        .as_deref()
        .is_some_and(|found| LAYOUTS.contains(&found))
    {
        return Err(EventsError::Layout {
            url,
            expected: format!("an event store of layout {}", LAYOUTS.join(" or ")),
            found: layout.map_or_else(
                || "an LMDB of something else".into(),
                |found| format!("layout {found}"),
            ),
        });
    }
    let tables = match mode {
        Mode::Read => None,
        Mode::Append => Some(tables(&env, is_new).map_err(failed)?),
    };
    let file = || DataFile::of(path).map_err(|error| failed(error.into()));
    let [file, of_queues] = [file()?, file()?];
    let shared = Shared {
        queues: DirQueues::new(&path.join("queues"), &url, of_queues),
        together: Together::default(),
        url,
        env,
        tables,
        map: Map::default(),
        is_second: layout.as_deref() == Some(LAYOUT),
        seat: seat(&data),
        file,
        process: Process::this(),
        is_dirty: AtomicBool::new(false),
    };
    Ok(DirBackend {
        shared: Arc::new(shared),
        writer,
    })
}

/// The tables to be written to; of a new store, made.
fn tables(env: &Env<WithoutTls>, is_new: bool) -> Result<Tables, heed::Error> {
    if is_new {
        let mut writing = Writing::first(env)?;
        writing.put(Name::Notes, LAYOUT_NOTE, LAYOUT.as_bytes())?;
        return writing.commit();
    }
    let mut txn = env.write_txn()?;
    let tables = Tables::create(env, &mut txn)?;
    txn.commit()?;
    Ok(tables)
}

/// The version of the layout that a file notes. What LMDB reads before it writes is looked at first.
fn layout(
    env: &Env<WithoutTls>,
    data: &Path,
    mode: Mode,
    url: &str,
) -> Result<Option<String>, EventsError> {
    let failed = |error: heed::Error| EventsError::engine(url, "open it", error);
    let txn = env.read_txn().map_err(failed)?;
    let map = Map::default();
    let file = File::open(data).map_err(|error| failed(error.into()))?;
    let snapshot = Snapshot::new(txn, &file, &map).map_err(|error| failed(error.into()))?;
    let Some(snapshot) = snapshot else {
        return Err(Damage::of_metadata().error(url));
    };
    let read = || {
        if mode == Mode::Append {
            snapshot.free()?.walk(true, |_, _| Ok(()), |_, _| Ok(()))?;
        }
        let main = snapshot.main()?;
        main.walk(false, |_, _| Ok(()), |_, _| Ok(()))?;
        if main.table(Name::Notes.text())?.is_none() {
            return Ok(None);
        }
        snapshot.table(Name::Notes)?.get(LAYOUT_NOTE)
    };
    let found = read().map_err(|damage: Damage| damage.error(url))?;
    Ok(found.map(|found| String::from_utf8_lossy(found).into_owned()))
}

fn file_id(data: &Path) -> Option<FileId> {
    let about = fs::metadata(data).ok()?;
    Some((about.dev(), about.ino()))
}

/// LMDB's file, to see whether it still has a name.
pub struct DataFile(File);

impl DataFile {
    fn of(folder: &Path) -> io::Result<Self> {
        File::open(folder.join(DATA)).map(Self)
    }

    pub fn file(&self) -> &File {
        &self.0
    }

    /// Fails if the folder was removed: nobody will find what is written to a file without a name.
    pub fn check(&self, url: &str, doing: &'static str) -> Result<(), EventsError> {
        match self.0.metadata() {
            Ok(about) if about.nlink() == 0 => Err(EventsError::engine(
                url,
                doing,
                "its folder was removed while it was open: close the store, and connect again to make it anew",
            )),
            _ => Ok(()), // what cannot be seen is no reason not to write
        }
    }
}

/// The number of a file and when it was made, which it keeps wherever it is moved on its file system. Not the device's
/// number, which may be another when the machine was started anew.
fn seat(data: &Path) -> Option<String> {
    let about = fs::metadata(data).ok()?;
    let made = about.created().ok();
    let made = made.and_then(|made| made.duration_since(SystemTime::UNIX_EPOCH).ok());
    let made = made.map_or_else(String::new, |made| format!("-{}", made.as_nanos()));
    Some(format!("{}{made}", about.ino()))
}

/// A new store is made in an empty folder only.
fn check_empty(path: &Path, url: &str, mode: Mode) -> Result<(), EventsError> {
    let entries = fs::read_dir(path).map_err(|error| not_there(url, error))?;
    let other = entries
        .filter_map(Result::ok)
        .map(|entry| entry.file_name())
        .find(|name| name != "lock.mdb" && name != "writer");
    match (other, mode) {
        (Some(other), _) => Err(EventsError::Layout {
            url: url.into(),
            expected: "an event store, or an empty folder".into(),
            found: format!("a folder with {}", other.display()),
        }),
        (None, Mode::Read) => Err(EventsError::NotFound {
            url: url.into(),
            what: "event store".into(),
            hint: String::new(),
        }),
        (None, Mode::Append) => Ok(()),
    }
}

/// LMDB believes what its file says of its size; a file that was cut would be read behind its end.
fn check_size(data: &Path, url: &str) -> Result<(), EventsError> {
    let failed = |error: std::io::Error| EventsError::engine(url, "read its file", error);
    let file = File::open(data).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    let layout = |found: String| EventsError::Layout {
        url: url.into(),
        expected: "an event store".into(),
        found,
    };
    let mut head = Vec::new();
    let mut beginning = (&file).take(HEAD as u64);
    beginning.read_to_end(&mut head).map_err(failed)?;
    let Some(meta) = Meta::newest(&head) else {
        return Err(layout("a file that is none of LMDB, or is damaged".into()));
    };
    let expected = meta.file_size();
    if size < expected {
        return Err(layout(format!(
            "a file of {size} bytes that says it has {expected}: it was cut"
        )));
    }
    Ok(())
}

/// Opens LMDB in a folder.
pub fn environment(
    path: &Path,
    flags: EnvFlags,
    n_tables: usize,
) -> Result<Env<WithoutTls>, heed::Error> {
    let wanted = std::env::var("FEMTOBARN_STORE_MAP_SIZE").ok();
    let mut size = wanted
        .and_then(|text| text.parse().ok())
        .unwrap_or(MAP_SIZE);
    loop {
        let mut options = EnvOpenOptions::new().read_txn_without_tls();
        options
            .map_size(size)
            .max_dbs(u32::try_from(n_tables).unwrap_or(u32::MAX))
            .max_readers(READERS);
        // SAFETY: the flags of a mode leave the file whole, whatever happens; a store with other flags has no name yet. The
        // file is only written by LMDB, whose locks all processes respect (this folder has a layout that says so).
        let opened = unsafe {
            options.flags(flags);
            options.open(path)
        };
        match opened {
            // No room in the address space, as under a limit of virtual memory.
            Err(heed::Error::Io(error))
                if error.kind() == std::io::ErrorKind::OutOfMemory && size > 1 << 30 =>
            {
                size /= 2;
            }
            Err(heed::Error::EnvAlreadyOpened) => {
                let alias = Alias::of(path)?;
                // SAFETY: as above. The one that is open was opened before a fork, by the parent of this process, which
                // never uses it (`check_process`): its locks are not ours.
                return unsafe { options.open(&alias.folder) };
            }
            opened => return opened,
        }
    }
}

/// Another name of the same files, as heed opens a name once: a process that was forked has the environment of its parent,
/// which must not be used, and where a folder was removed another may be made while somebody has the old one open.
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
        let _ = fs::remove_dir_all(&self.folder); // what is open stays open without a name
    }
}

/// Says that this process writes to a store: a lock on a file, which ends with the process however that ends.
pub struct WriterLock {
    file: File,
    process: Process,
}

impl Drop for WriterLock {
    fn drop(&mut self) {
        // A process that was forked has the file open as well, and would keep the lock; its own end is no end of writing.
        if self.process.is_this() {
            let _ = flock(&self.file, FlockOperation::Unlock);
        }
    }
}

impl WriterLock {
    pub fn take(path: &Path, url: &str) -> Result<Self, EventsError> {
        let failed =
            |error: std::io::Error| EventsError::engine(url, "open it to be written", error);
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
