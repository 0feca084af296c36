//! Opens a store in a directory: checks for writers, and the layout.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, Weak};
use std::time::SystemTime;

use heed::{Env, WithoutTls};
use rustix::fs::FlockOperation;

use super::file::{
    DATA, DataFile, FolderLock, LAYOUT, LAYOUT_NOTE, Mode, WriterLock, environment, not_there,
};
use super::pages::Damage;
use super::queues::DirQueues;
use super::snapshot::{HEAD, Map, Meta, Snapshot};
use super::tables::{Name, Tables};
use super::together::Together;
use super::writing::Writing;
use super::{DirBackend, Shared};
use crate::EventsError;
use crate::forked::{Process, lock};

/// The supported layouts. The first has no counts and no compression.
const LAYOUTS: [&str; 2] = ["1", LAYOUT];
/// The open stores of this process: LMDB's file must be opened only once.
static OPEN: Mutex<Option<Stores>> = Mutex::new(None);

/// Stores by file, not by name: a directory may be moved or removed, and another created with its name.
type Stores = HashMap<FileId, Opened>;

/// The device and inode of a file; unique while the file is open.
type FileId = (u64, u64);

struct Opened {
    shared: Weak<Shared>,
    /// Whether LMDB has opened it for writing.
    is_writable: bool,
    writer: Weak<DirBackend>,
}

/// Opens a store in a directory. A process may open it several times, for writing and for reading.
///
/// # Errors
///
/// If it does not exist and is opened for reading, if another process has it open for writing, or if the directory
/// has other contents; errors of the system.
pub fn open(path: &Path, mode: Mode) -> Result<Arc<DirBackend>, EventsError> {
    let url = format!("dir:{}", path.display());
    if mode == Mode::Append {
        fs::create_dir_all(path)
            .map_err(|error| EventsError::engine(&url, "create the directory", error))?;
    }
    let whole = path
        .canonicalize()
        .map_err(|error| not_there(&url, error))?;
    let mut all = lock(&OPEN);
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

/// Whether this process has the store of a directory open.
pub fn is_open(path: &Path) -> bool {
    let all = lock(&OPEN);
    let opened = file_id(&path.join(DATA)).and_then(|id| all.as_ref()?.get(&id));
    let shared = opened.and_then(|opened| opened.shared.upgrade());
    shared.is_some_and(|shared| shared.process.is_this())
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
                || "another LMDB database".into(),
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

/// The tables for writing; created in a new store.
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

/// The layout version of a file. Also checks the data that LMDB reads before it writes.
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

/// The inode of a file and its creation time, which stay the same when it is moved within its file system. The device
/// number is not included, because it may change when the machine restarts.
fn seat(data: &Path) -> Option<String> {
    let about = fs::metadata(data).ok()?;
    let made = about.created().ok();
    let made = made.and_then(|made| made.duration_since(SystemTime::UNIX_EPOCH).ok());
    let made = made.map_or_else(String::new, |made| format!("-{}", made.as_nanos()));
    Some(format!("{}{made}", about.ino()))
}

/// Checks that a new store is only created in an empty directory.
fn check_empty(path: &Path, url: &str, mode: Mode) -> Result<(), EventsError> {
    let entries = fs::read_dir(path).map_err(|error| not_there(url, error))?;
    let other = entries
        .filter_map(Result::ok)
        .map(|entry| entry.file_name())
        .find(|name| name != "lock.mdb" && name != "writer");
    match (other, mode) {
        (Some(other), _) => Err(EventsError::Layout {
            url: url.into(),
            expected: "an event store, or an empty directory".into(),
            found: format!("a directory with {}", other.display()),
        }),
        (None, Mode::Read) => Err(EventsError::NotFound {
            url: url.into(),
            what: "event store".into(),
            hint: String::new(),
        }),
        (None, Mode::Append) => Ok(()),
    }
}

/// LMDB trusts the size in its metadata, and would read a truncated file beyond its end.
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
        return Err(layout(
            "a file that is not an LMDB database, or is damaged".into(),
        ));
    };
    let expected = meta.file_size();
    if size < expected {
        return Err(layout(format!(
            "a truncated file of {size} bytes instead of {expected}"
        )));
    }
    Ok(())
}
