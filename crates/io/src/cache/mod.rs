//! A cache of remote files in a directory, which any number of processes and threads read and fill at once.
//!
//! Processes share only the directory. They need no server and no lock.
//! docs/specs/cache.md draws its files, docs/design/012-shared-cache.md gives the reasons.
//!
//! | module | |
//! |---|---|
//! | `format` | the records of an index |
//! | `index` | which ranges are held |
//! | `segment`, `writer`, `writer_id` | the files with the bytes: reading and writing them, and who writes |
//! | `room` | the limit, and eviction |
//! | `about` | names and contents of directories |
//! | `file` | what a process knows of one file |
//! | `reading` | a vector read through the cache |
//! | `lists` | lists of servers' directories |
//! | `manage` | what `fb cache` does |

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use femtobarn_fork::PerProcess;
use xxhash_rust::xxh3::xxh3_128;

use crate::at_exit::at_exit;
use crate::settings::comparable;
use crate::units::parse_bytes;
use crate::url::{Protocol, protocol, public, split_sources};
use crate::{ByteSource, IoError, Settings, SourceCost, SourceMeta};

mod about;
mod file;
mod format;
mod index;
mod lists;
mod manage;
mod reading;
mod room;
mod segment;
mod unwritten;
mod writer;
mod writer_id;

#[cfg(test)]
mod tests;

pub(crate) use lists::listed;
pub use manage::{CacheEntry, CachePruned, CacheStatus, CacheVerified};
pub(crate) use reading::Counts;

use about::About;
use file::FileCache;
use reading::{Fetch, Reading};
use room::Room;

/// The limit of a directory for which none is given.
pub(crate) const USUAL_LIMIT: u64 = 20 << 30;

/// The smallest limit.
const LEAST_LIMIT: u64 = 1 << 20;

/// A cache directory as settings name it: `DIR` or `DIR:SIZE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheFolder {
    /// The directory.
    pub path: PathBuf,
    /// The most bytes in it.
    pub limit: u64,
}

impl CacheFolder {
    /// The directory that settings name; none if they name none, or `off`.
    ///
    /// # Errors
    /// If it has no name, or its limit is too small.
    pub fn of(settings: &Settings) -> Result<Option<Self>, IoError> {
        let Some(text) = settings.text("cache")? else {
            return Ok(None);
        };
        if ["", "off", "none", "false", "0"].contains(&text.to_lowercase().as_str()) {
            return Ok(None);
        }
        let sized = text
            .rsplit_once(':')
            .filter(|(_, size)| !size.contains('/'));
        let (path, limit) = match sized {
            Some((path, size)) => (path, parse_bytes(size)),
            None => (text.as_str(), Some(USUAL_LIMIT)),
        };
        // a size alone lacks its directory
        let is_size = sized.is_none() && !path.contains('/') && parse_bytes(path).is_some();
        let is_path = !path.is_empty() && !path.contains("://") && !is_size;
        let limit = limit.filter(|limit| is_path && *limit >= LEAST_LIMIT);
        let Some(limit) = limit else {
            let what = format!(
                "invalid cache {text:?}: expected DIR or DIR:SIZE with at least 1 MiB, e.g. /scratch/fb-cache:50GB"
            );
            return Err(settings.invalid(what));
        };
        let path = match path.strip_prefix("~/").zip(std::env::home_dir()) {
            Some((rest, home)) => home.join(rest),
            None => PathBuf::from(path),
        };
        // a process may change its directory
        let path = std::path::absolute(&path).unwrap_or(path);
        Ok(Some(Self { path, limit }))
    }
}

/// What a file is called in a cache.
#[derive(Debug, Clone)]
pub(crate) struct CacheKey {
    folder: CacheFolder,
    key: String,
    url: String,
    is_logical: bool,
    /// Whether the file never changes.
    pub is_immutable: bool,
    /// For so long after it was looked at, a state counts as that of the file.
    lasts: Duration,
}

/// What all files of a process share.
#[derive(Default)]
struct Shared {
    rooms: BTreeMap<PathBuf, (u64, Arc<Room>)>,
    files: BTreeMap<PathBuf, Weak<FileCache>>,
}

static SHARED: PerProcess<Arc<Mutex<Shared>>> = PerProcess::new();

/// The cache of a file in one state.
pub(crate) struct CachedFile {
    folder: CacheFolder,
    place: PathBuf,
    about: About,
    /// A process that was forked has its own segments.
    file: PerProcess<Arc<FileCache>>,
}

impl std::fmt::Debug for CachedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("CachedFile").field(&self.place).finish()
    }
}

/// Whether a cache knows a file by its logical name, so that replicas on any servers are the same file.
///
/// # Errors
/// If a setting is invalid.
pub fn has_logical_name(url: &str, settings: &Settings) -> Result<bool, IoError> {
    Ok(CacheKey::of(url, settings)?.is_some_and(|key| key.is_logical))
}

/// Whether files are known by their logical names.
fn is_logical(settings: &Settings) -> Result<bool, IoError> {
    match settings.text("cache_key")?.as_deref() {
        None | Some("url") => Ok(false),
        Some("logical") => Ok(true),
        Some(other) => {
            let what = format!("invalid cache_key {other:?}: expected url or logical");
            Err(settings.invalid(what))
        }
    }
}

/// For how long a list or a state counts as that of the server.
fn lasting(settings: &Settings) -> Result<Duration, IoError> {
    Ok(settings.seconds("cache_list_ttl")?.unwrap_or_default())
}

impl CacheKey {
    /// The cache of a URL; none if its settings name none.
    ///
    /// # Errors
    /// If a setting is invalid.
    pub fn of(url: &str, settings: &Settings) -> Result<Option<Self>, IoError> {
        // an invalid setting is an error, even if no cache is set
        let is_logical = is_logical(settings)?;
        let (is_immutable, lasts) = (settings.flag("immutable")?, lasting(settings)?);
        let Some(folder) = CacheFolder::of(settings)? else {
            return Ok(None);
        };
        let (shown, urls) = (public(url), split_sources(url).0);
        let logical = if is_logical {
            let prefix = settings.text("cache_prefix")?;
            let prefix = prefix.as_deref().unwrap_or("/store/");
            let mut names: Vec<String> = urls
                .iter()
                .filter_map(|url| Some(logical_name(&public(url), prefix)? + &query_id(url)))
                .collect();
            names.dedup();
            names.pop().filter(|_| names.is_empty())
        } else {
            None
        };
        let is_logical = logical.is_some();
        let key = match logical {
            Some(name) => name,
            None => {
                // in any order
                let own = |url: &&str| {
                    let endpoint = endpoint(url, settings)?;
                    Ok(comparable(&public(url)) + &endpoint + &query_id(url))
                };
                let mut keys: Vec<String> = urls.iter().map(own).collect::<Result<_, IoError>>()?;
                keys.sort_unstable();
                keys.join("|")
            }
        };
        Ok(Some(Self {
            folder,
            key,
            url: shown,
            is_logical,
            is_immutable,
            lasts,
        }))
    }

    /// Whether an open source has the file in this state. Replicas differ in their times and tags, and are compared by size.
    pub fn is_state_of(&self, meta: &SourceMeta, source: &dyn ByteSource) -> bool {
        let has_others = source.sources().is_some() || source.chosen_server().is_some();
        match self.is_logical || has_others {
            true => source.meta().size == meta.size,
            false => source.state().may_be(meta),
        }
    }

    /// Whether two states have the same entries: replicas of a logical name differ in their times and tags.
    pub fn is_same(&self, one: &SourceMeta, other: &SourceMeta) -> bool {
        match self.is_logical {
            true => one.size == other.size,
            false => one == other,
        }
    }

    fn file_folder(&self) -> PathBuf {
        about::folder_of(&self.folder.path, &self.key)
    }

    /// The states of the file that are held, the newest first.
    pub fn states(&self) -> Vec<SourceMeta> {
        let found = about::states(&self.file_folder(), &self.key);
        found.into_iter().map(|(about, _)| about.meta).collect()
    }

    /// A state that needs no look at the server: any one of a file that never changes, or one that was looked at lately.
    pub fn trusted(&self) -> Option<SourceMeta> {
        let mut found = about::states(&self.file_folder(), &self.key).into_iter();
        let is_young = |path: &Path| lists::is_younger(&path.join(about::FILE), self.lasts);
        let (about, _) = found.find(|(_, path)| self.is_immutable || is_young(path))?;
        Some(about.meta)
    }

    /// Notes that the file was looked at, and is in this state.
    pub fn note_seen(&self, meta: &SourceMeta) {
        if self.lasts.is_zero() {
            return;
        }
        for (about, path) in about::states(&self.file_folder(), &self.key) {
            let file = std::fs::File::options()
                .write(true)
                .open(path.join(about::FILE));
            if let (true, Ok(file)) = (self.is_same(&about.meta, meta), file) {
                let _ = file.set_modified(SystemTime::now());
            }
        }
    }

    /// The cache of the file in this state; none if nothing tells it from others.
    pub fn file(&self, meta: &SourceMeta) -> Option<CachedFile> {
        let about = About {
            key: self.key.clone(),
            url: self.url.clone(),
            meta: meta.clone(),
            since: writer_id::now(),
        };
        let is_certain = self.is_logical || self.is_immutable;
        let place = about.folder(&self.file_folder(), false);
        let place = match self.is_logical {
            true => about.folder(&self.file_folder(), true),
            false => place.or_else(|| about.folder(&self.file_folder(), is_certain)),
        };
        Some(CachedFile {
            folder: self.folder.clone(),
            place: place?,
            about,
            file: PerProcess::new(),
        })
    }

    /// Forgets a state which is not that of the file any more.
    pub fn forget(&self, meta: &SourceMeta) {
        for (about, path) in about::states(&self.file_folder(), &self.key) {
            if about.meta == *meta {
                let _ = std::fs::remove_file(path.join(about::FILE));
            }
        }
    }
}

/// The part of a URL's path from a prefix on: the name that the file has at any site.
fn logical_name(url: &str, prefix: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    let path = rest.get(rest.find('/')?..)?;
    let at = path.find(prefix)?;
    path.get(at..).map(str::to_owned)
}

/// Variables that say which object store is meant.
const ENDPOINTS: [&str; 4] = [
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AZURE_STORAGE_ACCOUNT_NAME",
    "AZURE_STORAGE_ENDPOINT",
];

/// What else says which file a URL of an object store means.
fn endpoint(url: &str, settings: &Settings) -> Result<String, IoError> {
    let mut out = String::new();
    if matches!(
        protocol(url),
        Some(Protocol::Object(_) | Protocol::Objects(Some(_)))
    ) {
        for name in ["endpoint", "profile"] {
            if let Some(value) = settings.text(name)? {
                out += &format!(" {name}={}", public(&value));
            }
        }
        for name in ENDPOINTS {
            if let Ok(value) = std::env::var(name) {
                out += &format!(" {name}={}", public(&value));
            }
        }
    }
    Ok(out)
}

/// Others can read from the cache what a reader has fetched as soon as it has ended.
impl Drop for CachedFile {
    fn drop(&mut self) {
        if let Some(file) = self.file.known() {
            file.settle();
        }
    }
}

/// Waits until all files are written, as the process ends.
fn settle_all() {
    let files: Vec<Arc<FileCache>> = SHARED.known().map_or_else(Vec::new, |shared| {
        let shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.files.values().filter_map(Weak::upgrade).collect()
    });
    files.iter().for_each(|file| file.settle());
}

/// What the query of a URL says of the file, as a hash: all but credentials and what XRootD's clients add.
fn query_id(url: &str) -> String {
    const CREDENTIALS: [&str; 24] = [
        "access_token",
        "authz",
        "awsaccesskeyid",
        "expires",
        "googleaccessid",
        "key-pair-id",
        "policy",
        "se",
        "sig",
        "signature",
        "sip",
        "ske",
        "skoid",
        "sks",
        "skt",
        "sktid",
        "skv",
        "sp",
        "spr",
        "sr",
        "st",
        "sv",
        "token",
        "tried",
    ];
    const BEGINNINGS: [&str; 4] = ["x-amz-", "x-goog-", "xrd.", "xrdcl."];
    let is_of_file = |pair: &&str| {
        let name = pair
            .split('=')
            .next()
            .unwrap_or_default()
            .to_ascii_lowercase();
        let is_credential = CREDENTIALS.contains(&name.as_str());
        !name.is_empty()
            && !is_credential
            && !BEGINNINGS.iter().any(|begin| name.starts_with(begin))
    };
    let query = url.split('#').next().and_then(|url| url.split_once('?'));
    let (_, query) = query.unwrap_or_default();
    let pairs: Vec<&str> = query.split('&').filter(is_of_file).collect();
    match pairs.is_empty() {
        true => String::new(),
        false => format!(" query={:032x}", xxh3_128(pairs.join("&").as_bytes())),
    }
}

impl CachedFile {
    fn open(&self) -> Arc<FileCache> {
        let opened = self.file.get(|| {
            let shared = SHARED.get(|| Ok::<_, Infallible>(Arc::default()))?;
            let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
            Ok::<_, Infallible>(shared.file(&self.folder, &self.place, &self.about))
        });
        opened.unwrap_or_else(|never| match never {})
    }

    pub fn holds(&self, range: &Range<u64>) -> bool {
        self.open().missing(range).is_empty()
    }

    /// The parts of ranges that are missing.
    pub fn missing(&self, ranges: &[Range<u64>]) -> Vec<Range<u64>> {
        let file = self.open();
        ranges
            .iter()
            .flat_map(|range| file.missing(range))
            .collect()
    }

    /// Reads ranges. Missing parts are read by `fetch`, and added to `read`.
    pub fn read(
        &self,
        ranges: &[Range<u64>],
        (url, cost, counts): (&str, &SourceCost, &Counts),
        fetch: Fetch<'_>,
        read: &mut Vec<Range<u64>>,
    ) -> Result<Vec<Bytes>, IoError> {
        let file = self.open();
        let reading = Reading {
            file: &file,
            url,
            cost,
            counts,
            fetch,
        };
        reading.read(ranges, read)
    }

    pub fn reject(&self, range: &Range<u64>) -> u64 {
        self.open().reject(range)
    }
}

impl Shared {
    fn file(&mut self, folder: &CacheFolder, place: &Path, about: &About) -> Arc<FileCache> {
        if let Some(known) = self.files.get(place).and_then(Weak::upgrade) {
            return known;
        }
        self.files.retain(|_, file| file.strong_count() > 0);
        at_exit(settle_all);
        let room = match self.rooms.get(&folder.path) {
            Some((limit, room)) if *limit == folder.limit => room.clone(),
            _ => {
                let room = Arc::new(Room::new(&folder.path, folder.limit));
                let entry = (folder.limit, room.clone());
                self.rooms.insert(folder.path.clone(), entry);
                room
            }
        };
        let file = FileCache::new(room, &folder.path, place, about.clone());
        let file = Arc::new(file);
        self.files.insert(place.to_owned(), Arc::downgrade(&file));
        file
    }
}
