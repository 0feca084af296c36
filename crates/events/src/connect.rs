//! Connects to a store, by its URL or the path of a configuration.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use femtobarn_io::{expand_home, nearest};

use crate::backend::redis_settings::{Settings, has_tls, shown};
use crate::backend::{check_dir, compact_dir};
use crate::config::is_of_local_cluster;
use crate::forked::{Process, lock};
use crate::objects::{objects_moved, own_place};
use crate::{Backend, Compacted, Config, EventsError, MemoryBackend, Mode, RedisBackend, open_dir};

/// The schemes of store URLs.
const SCHEMES: [&str; 6] = ["memory", "dir", "redis", "rediss", "valkey", "valkeys"];

/// The kind of an event store URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreUrl<'a> {
    /// `memory:` or `memory:NAME`.
    Memory,
    /// `dir:PATH`, with an optional mode; the value is the part after the colon.
    Dir(&'a str),
    /// A Redis or a cluster of it: `redis://` or `valkey://`, or with TLS `rediss://` or `valkeys://`.
    Redis,
    /// The path of a configuration, ending in `.json`.
    Config,
}

impl<'a> StoreUrl<'a> {
    /// The kind of a URL; `None` if it is not the URL of a store.
    #[must_use]
    pub fn parse(text: &'a str) -> Option<Self> {
        let (scheme, rest) = text.split_once(':').unwrap_or(("", text));
        let is_network = rest.starts_with("//");
        match scheme {
            "memory" if !is_network => Some(Self::Memory),
            "dir" => Some(Self::Dir(rest)),
            scheme if is_network && has_tls(scheme).is_some() => Some(Self::Redis),
            _ if !is_network && text.ends_with(".json") => Some(Self::Config),
            _ => None,
        }
    }
}

/// Checks that a string names a store, without connecting to it.
///
/// # Errors
///
/// If it does not, with the reason.
pub fn check_url(store: &str) -> Result<(), EventsError> {
    StoreUrl::parse(store).map_or(Err(not_a_store(store)), |_| Ok(()))
}

/// The same URL with an absolute path, for programs in other directories.
#[must_use]
pub fn absolute(store: &str) -> String {
    let absolute = |path: &str| {
        let path = expand_home(path);
        let absolute = std::path::absolute(Path::new(&*path));
        absolute.map_or(path.to_string(), |path| path.display().to_string())
    };
    match StoreUrl::parse(store) {
        Some(StoreUrl::Dir(rest)) if !rest.is_empty() => format!("dir:{}", absolute(rest)),
        Some(StoreUrl::Config) => absolute(store),
        _ => store.to_owned(),
    }
}

/// Ways to name a store, for messages.
const WAYS: &str = "use memory:, dir:PATH, redis://HOST:PORT, rediss://HOST:PORT, or the path of a configuration (.json)";

/// The error for the path of a file.
const IS_FILE: &str = "this is a file, but a store needs a directory of its own";

/// The named stores in memory, which end with the process.
static NAMED: Mutex<Option<(Process, Named)>> = Mutex::new(None);

type Named = BTreeMap<String, Arc<MemoryBackend>>;

/// Connects to a backend. Objects of large products are not available (for these, see
/// [`DataStore::connect`](crate::DataStore::connect)):
///
/// - `memory:` is a new store in memory, `memory:NAME` the named store of this process;
/// - `dir:PATH` is a store in a directory; `dir:PATH?mode=r` opens it for reading while another process may write;
/// - `redis://…` and `rediss://…` are stores in a Redis or a Redis cluster (see [`RedisBackend`]);
/// - a path that ends in `.json` is a configuration (see [`Config`]).
///
/// # Errors
///
/// If the URL is invalid, or the store does not exist and cannot be created.
pub fn connect(store: &str) -> Result<Arc<dyn Backend>, EventsError> {
    open(store, None)
}

/// Connects to an existing store for reading only; overrides the mode in its URL.
///
/// # Errors
///
/// The errors of [`connect`], and an error for a store in memory, which no other program can write.
pub fn connect_to_read(store: &str) -> Result<Arc<dyn Backend>, EventsError> {
    open(store, Some(Mode::Read))
}

/// Fails if a store does not exist, without creating or changing anything.
pub(crate) fn check_there(store: &str) -> Result<(), EventsError> {
    match StoreUrl::parse(store) {
        Some(StoreUrl::Config) => read_config(store)?.check_there(),
        Some(StoreUrl::Memory) => match with_named(|named| named.contains_key(store)) {
            true => Ok(()),
            false => Err(EventsError::NotFound {
                url: store.into(),
                what: "event store".into(),
                hint: " of this name in this process".into(),
            }),
        },
        Some(StoreUrl::Dir(rest)) => check_dir(&folder(store, rest)?.0),
        _ => open(store, Some(Mode::Read)).map(drop),
    }
}

/// Compacts a store in a directory: rewrites its file without the space of deleted data and with full leaves. After a
/// crash, the directory has the old file or the new one. The disk must have room for both.
///
/// # Errors
///
/// If the URL is not a store in a directory, if a process has the store open, if the store is damaged, or if another
/// store owns the location of its large products. If only claiming that location again fails, the store is compacted,
/// and `fb store moved` claims the location.
pub fn compact(store: &str) -> Result<Compacted, EventsError> {
    let rest = match StoreUrl::parse(store) {
        Some(StoreUrl::Config) => return compact(read_config(store)?.url()),
        Some(StoreUrl::Dir(rest)) => rest,
        _ => {
            let url = shown(store);
            let what = format!("{url}: only a store in a directory (dir:PATH) can be compacted");
            return Err(EventsError::Usage { what });
        }
    };
    let path = &*folder(store, rest)?.0;
    check_dir(path)?;
    let objects = own_place(&*open_dir(path, Mode::Append)?)?;
    let compacted = compact_dir(path)?;
    if let Some(base) = objects {
        // The file has a new identity, like a copy.
        let backend = open_dir(path, Mode::Append)?;
        objects_moved(&*backend, &base)?;
        backend.flush()?;
    }
    Ok(compacted)
}

/// Connects, in the given mode if there is one.
pub(crate) fn open(store: &str, wanted: Option<Mode>) -> Result<Arc<dyn Backend>, EventsError> {
    match StoreUrl::parse(store) {
        Some(StoreUrl::Config) => read_config(store)?.connect(wanted),
        Some(StoreUrl::Memory) if wanted.is_some() => Err(EventsError::Usage {
            what: format!("{store}: a store in memory cannot be opened read-only"),
        }),
        Some(StoreUrl::Memory) if store == "memory:" => Ok(Arc::new(MemoryBackend::new(store))),
        Some(StoreUrl::Memory) => Ok(named(store)),
        Some(StoreUrl::Dir(rest)) => {
            let (path, mode) = folder(store, rest)?;
            Ok(open_dir(&path, wanted.unwrap_or(mode))?)
        }
        Some(StoreUrl::Redis) => {
            let mut settings = Settings::parse(store)?;
            settings.mode = wanted.unwrap_or(settings.mode);
            Ok(RedisBackend::connect_with(settings)?)
        }
        None => Err(not_a_store(store)),
    }
}

/// Reads a configuration file.
pub(crate) fn read_config(path: &str) -> Result<Config, EventsError> {
    Config::read(Path::new(&*expand_home(path)))
}

/// Whether connecting to a URL, which is not a configuration, would create a persistent store.
///
/// # Errors
///
/// Errors of connecting to an existing store.
pub(crate) fn would_make(store: &str) -> Result<bool, EventsError> {
    match StoreUrl::parse(store) {
        Some(StoreUrl::Dir(rest)) => match folder(store, rest)? {
            (path, Mode::Append) => is_absent(check_dir(&path)),
            (_, Mode::Read) => Ok(false),
        },
        Some(StoreUrl::Redis) => would_make_in(Settings::parse(store)?),
        _ => Ok(false),
    }
}

/// Whether connecting with these settings would create a store.
pub(crate) fn would_make_in(mut settings: Settings) -> Result<bool, EventsError> {
    if settings.mode == Mode::Read {
        return Ok(false);
    }
    settings.mode = Mode::Read;
    is_absent(RedisBackend::connect_with(settings).map(drop))
}

fn is_absent(looked: Result<(), EventsError>) -> Result<bool, EventsError> {
    match looked {
        Ok(()) => Ok(false),
        Err(EventsError::NotFound { .. }) => Ok(true),
        Err(error) => Err(error),
    }
}

fn named(store: &str) -> Arc<MemoryBackend> {
    with_named(|named| {
        let there = named.entry(store.into());
        let made = there.or_insert_with(|| Arc::new(MemoryBackend::new(store)));
        made.clone()
    })
}

/// Calls a function with the named stores of this process. After a fork, the child has none of its parent's stores.
fn with_named<T>(run: impl FnOnce(&mut Named) -> T) -> T {
    let mut all = lock(&NAMED);
    let all = all.get_or_insert_with(|| (Process::this(), Named::new()));
    if !all.0.is_this() {
        *all = (Process::this(), Named::new());
    }
    run(&mut all.1)
}

fn folder(store: &str, rest: &str) -> Result<(PathBuf, Mode), EventsError> {
    let bad = |why: &str| EventsError::Url {
        url: store.into(),
        why: why.into(),
    };
    let (path, mode) = match rest.split_once("?mode=") {
        Some((path, "r")) => (path, Mode::Read),
        Some((path, "a")) => (path, Mode::Append),
        Some(_) => return Err(bad("invalid mode: expected r or a")),
        None => (rest, Mode::Append),
    };
    match path {
        "" => Err(bad("the directory is missing, e.g. dir:mystore")),
        path => {
            let path = expand_home(path);
            match of_cluster(&path) {
                Some(why) => Err(bad(&why)),
                None if Path::new(&*path).is_file() => Err(bad(IS_FILE)),
                None => Ok((path.into_owned().into(), mode)),
            }
        }
    }
}

/// Advice for the directory of a local cluster: it contains a configuration to connect with.
fn of_cluster(path: &str) -> Option<String> {
    let config = Path::new(path).join("store.json");
    is_of_local_cluster(&config).then(|| {
        format!(
            "this is the directory of a cluster: connect with {:?}",
            config.display().to_string()
        )
    })
}

fn not_a_store(store: &str) -> EventsError {
    EventsError::Url {
        url: match store {
            "" => "nothing (\"\")".into(),
            store => shown(store),
        },
        why: why_not(store),
    }
}

fn why_not(store: &str) -> String {
    if let Some(why) = of_cluster(store) {
        return why;
    }
    if Path::new(store).is_file() {
        return IS_FILE.into();
    }
    let Some((scheme, _)) = store.split_once(':').filter(|_| !Path::new(store).exists()) else {
        return match store {
            "" => WAYS.into(),
            store => format!("did you mean \"dir:{store}\"?"),
        };
    };
    match nearest(scheme, SCHEMES).first() {
        Some(near) if near != scheme => format!("did you mean {near:?}?"),
        _ => WAYS.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DataSetPath, Uuid};

    fn is_there(store: &dyn Backend, path: &DataSetPath) -> bool {
        let found = store.find_datasets(std::slice::from_ref(path)).unwrap();
        found != [None]
    }

    #[test]
    fn stores_in_memory_are_known_by_their_names() {
        let path = DataSetPath::new("x").unwrap();
        let store = connect("memory:connect-a").unwrap();
        store.create_dataset(&path, Uuid([1; 16])).unwrap();
        let has = |url: &str| is_there(&*connect(url).unwrap(), &path);
        assert!(has("memory:connect-a"));
        assert!(!has("memory:connect-b"));
        assert!(!has("memory:"));
    }

    #[test]
    fn a_store_that_must_be_there_is_not_made() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| format!("dir:{}", folder.path().join(name).display());
        let connect_existing = |store: &str| {
            crate::DataStore::connect_existing(store, crate::ObjectOptions::default())
        };
        let config = folder.path().join("config.json");
        std::fs::write(&config, r#"{"url": "dir:store"}"#).unwrap();
        let config = config.to_str().unwrap();
        let empty = folder.path().join("empty");
        std::fs::create_dir(&empty).unwrap();
        for absent in [
            &at("store"),
            &at("empty"),
            config,
            "memory:",
            "memory:connect-c",
        ] {
            let error = connect_existing(absent).unwrap_err();
            assert_eq!(error.kind(), "not-in-store", "{error}");
        }
        assert!(!folder.path().join("store").exists());
        assert_eq!(std::fs::read_dir(empty).unwrap().count(), 0);
        drop([
            connect(&at("store")).unwrap(),
            connect("memory:connect-c").unwrap(),
        ]);
        for there in [&at("store"), config, "memory:connect-c"] {
            let store = connect_existing(there).unwrap();
            store.root().create_dataset("x").unwrap();
        }
    }

    #[test]
    fn a_configuration_is_found_beside_what_it_names() {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("config.json");
        std::fs::write(&config, r#"{"url": "dir:store"}"#).unwrap();
        let store = connect(config.to_str().unwrap()).unwrap();
        assert!(store.is_durable() && folder.path().join("store").exists());
        drop(store);
        let url = format!("dir:{}/store?mode=r", folder.path().display());
        connect(&url).unwrap();
    }

    #[test]
    fn who_reads_a_folder_beside_its_own_writer_may_not_write() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("dir:{}", folder.path().display());
        let path = DataSetPath::new("x").unwrap();
        let writer = connect(&url).unwrap();
        let reader = connect(&format!("{url}?mode=r")).unwrap();
        assert_eq!(writer.identity(), reader.identity());
        let refused = reader.create_dataset(&path, Uuid([1; 16])).unwrap_err();
        assert_eq!(refused.kind(), "read-only");
        writer.create_dataset(&path, Uuid([1; 16])).unwrap();
        assert!(is_there(&*reader, &path));
        // The last writer releases the lock, which can be taken again.
        drop(writer);
        assert!(is_there(&*reader, &path));
        let held = std::fs::File::open(folder.path().join("writer")).unwrap();
        rustix::fs::flock(&held, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
        assert_eq!(connect(&url).unwrap_err().kind(), "store-locked");
        drop(held);
        let writer = connect(&url).unwrap();
        assert!(writer.check_writes("write").is_ok() && reader.check_writes("write").is_err());
    }

    #[test]
    fn a_store_that_was_closed_says_so_and_others_of_the_same_folder_go_on() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("dir:{}", folder.path().display());
        let open = || crate::DataStore::connect(&url, crate::ObjectOptions::default()).unwrap();
        let (store, other) = (open(), open());
        assert_eq!(store, other);
        let run = store.root().create_dataset("x").unwrap().create(1).unwrap();
        let mut batch = crate::WriteBatch::new(&store, crate::BatchOptions::default());
        batch.create(run.child(2).unwrap().descriptor()).unwrap();
        store.close();
        store.close();
        assert!(store.is_closed() && !other.is_closed());
        for error in [run.exists().unwrap_err(), batch.flush().unwrap_err()] {
            assert!(error.to_string().contains("was closed"), "{error}");
        }
        assert_eq!(
            other.root().dataset("x").unwrap().numbers(.., 9).unwrap(),
            [1]
        );
        other.close();
        let held = std::fs::File::open(folder.path().join("writer")).unwrap();
        rustix::fs::flock(&held, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    }

    #[test]
    fn what_is_no_store_is_said_with_what_may_be_meant() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("store.json"), "{}").unwrap();
        std::fs::create_dir(folder.path().join("node-0")).unwrap();
        let cluster = folder.path().display().to_string();
        let file = format!("{cluster}/run101.root");
        std::fs::write(&file, "root").unwrap();
        for (store, why) in [
            ("./mystore", "did you mean \"dir:./mystore\"?"),
            ("redi://u:hidden@a", "did you mean \"redis\"?"),
            ("mystore", "did you mean \"dir:mystore\"?"),
            ("gopher:mystore", "use memory:, dir:PATH"),
            ("memory://a.root", "use memory:, dir:PATH"),
            ("dir:", "directory is missing, e.g. dir:mystore"),
            ("", "nothing (\"\") is not an event store: use memory:"),
            (&cluster, "store.json\""),
            (&format!("dir:{cluster}"), "store.json\""),
            (&format!("dir:{cluster}?mode=r"), "directory of a cluster"),
            ("dir:x?mode=w", "expected r or a"),
            (&file, "this is a file"),
            (&format!("dir:{file}"), "this is a file"),
            (&format!("dir:{file}?mode=r"), "this is a file"),
            ("none.json", "there is no configuration"),
        ] {
            let error = connect(store).unwrap_err().to_string();
            assert!(error.contains(why) && !error.contains("hidden"), "{error}");
        }
    }
}
