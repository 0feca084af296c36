//! Numbered objects below a base, and an anchor that makes them visible: the form in which ROOT stores an ntuple in an
//! object store. What the objects contain is not known here, except where the anchor places them.
//!
//! Objects are created once and never changed, so that a set is replaced by new objects and another anchor.

mod place;
mod send;
mod source;
#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::try_join_all;
use object_store::{Error, GetOptions, GetRange, GetResult, PutPayload, UpdateVersion};

use crate::meter::TrafficCounters;
use crate::object::{self, Counted, Kind};
use crate::runtime::wait_for;
use crate::sink::random_name;
use crate::{
    ByteSink, FoundObject, IoError, LocalSink, ObjectFolder, Settings, SourceMeta, Traffic, sweep,
};
use place::{ANCHOR_FILE, Place};
use send::{Conditions, Put};

pub(crate) use place::envelopes_of;
pub use place::{
    ANCHOR_BASES, ANCHOR_ENVELOPES, ANCHOR_MAKER, ANCHOR_MAKERS, OBJECT_TEMPLATE, embedded,
};
pub use send::Uploads;
pub use source::ObjectSetSource;
pub(crate) use source::{list_folder, state_of};

/// The address of the anchor in the source of a set: behind all objects.
const ANCHOR: u64 = (u32::MAX as u64) << 32;

/// The largest number of an object.
pub const LARGEST_OBJECT: u64 = u32::MAX as u64 - 2;

/// The largest size of an anchor. Anchors have some hundred bytes, and as many more for each base of a merged ntuple.
pub const LARGEST_ANCHOR: u64 = 16 << 20;

/// The address of a byte of an object in the source of a set: objects are 4 GiB apart, behind 4 GiB that are not used.
/// None if the number is too large.
#[must_use]
pub fn object_address(id: u64, offset: u32) -> Option<u64> {
    (id <= LARGEST_OBJECT).then(|| (id + 1) << 32 | u64::from(offset))
}

/// The object and the offset in it of an address; none for the anchor and before the objects.
#[must_use]
pub fn located(address: u64) -> Option<(u64, u64)> {
    let id = (address >> 32).checked_sub(1)?;
    (id <= LARGEST_OBJECT).then_some((id, address & u64::from(u32::MAX)))
}

/// The range of the anchor in the source of a set of this size.
#[must_use]
pub fn anchor_range(size: u64) -> Range<u64> {
    ANCHOR..size
}

/// The objects of a set, to be created and deleted.
#[derive(Debug)]
pub struct ObjectSet {
    place: Place,
    folder: ObjectFolder,
    /// Distinguishes objects of this writer from others. Writers that continue the work of others have the name of the
    /// first one, a dot, and an own one.
    maker: String,
    traffic: Arc<TrafficCounters>,
}

impl ObjectSet {
    /// Opens a base: `ntpl+s3://bucket/prefix`, also with a server as in `ntpl+s3+https://host/bucket/prefix`,
    /// `ntpl+gs://`, `ntpl+az://`, or a directory, `ntpl+file:///path`. No server is contacted yet.
    ///
    /// # Errors
    /// If the URL or a setting is invalid.
    pub fn open(url: &str, settings: &Settings) -> Result<Self, IoError> {
        Self::at(Place::parse(url, settings)?, settings)
    }

    fn at(place: Place, settings: &Settings) -> Result<Self, IoError> {
        let maker = random_name().map_err(|source| IoError::Create {
            url: place.url().to_owned(),
            source,
        })?;
        let folder = match &place {
            Place::Folder { path, .. } => ObjectFolder::open(&path.to_string_lossy(), settings)?,
            Place::Bucket(_) => ObjectFolder::open(place.url(), settings)?,
        };
        Ok(Self {
            folder,
            place,
            maker,
            traffic: Arc::default(),
        })
    }

    /// The same for a writer that continues the work of another maker.
    #[must_use]
    pub fn in_place_of(self, maker: &str) -> Self {
        let maker = format!("{}.{}", first_maker(maker), self.maker);
        Self { maker, ..self }
    }

    /// The URL of the base.
    #[must_use]
    pub fn url(&self) -> &str {
        self.place.url()
    }

    /// The URL of an object, for messages.
    #[must_use]
    pub fn url_of(&self, id: u64) -> String {
        format!("{}/{id}", self.url())
    }

    /// Who makes objects here, or whose work is continued. Each object has it in its metadata, with its own name, so that a
    /// wrong one is noticed.
    #[must_use]
    pub fn maker(&self) -> &str {
        first_maker(&self.maker)
    }

    /// The [maker](Self::maker), and which of those that continue its work this is.
    #[must_use]
    pub fn writer(&self) -> &str {
        &self.maker
    }

    /// The requests that were sent for objects and anchors.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.traffic.now()
    }

    /// The anchor and its state; none if there is none.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn anchor(&self) -> Result<Option<(SourceMeta, Bytes)>, IoError> {
        match source::anchor_of(&self.place, &self.traffic) {
            Ok(found) => Ok(Some(found)),
            Err(IoError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The error if it has no anchor.
    #[must_use]
    pub fn missing(&self, settings: &Settings) -> IoError {
        source::missing(self.url().to_owned(), settings)
    }

    /// A base that another set names (itself, if that is empty), as seen from this one; none if it is in another store.
    #[must_use]
    pub fn sees(&self, url: &str, base: &str, settings: &Settings) -> Option<String> {
        let other = Place::parse(url, settings).ok()?.relative(base).ok()?;
        other.seen_from(&self.place)
    }

    /// A set at a base relative to this one.
    ///
    /// # Errors
    /// If its name is invalid.
    pub fn below(&self, base: &str, settings: &Settings) -> Result<Self, IoError> {
        Self::at(self.place.relative(base)?, settings)
    }

    /// Whether the server copies objects from one base to another.
    #[must_use]
    pub fn copies(&self) -> bool {
        match &self.place {
            Place::Folder { .. } => false,
            Place::Bucket(bucket) => bucket.address.kind == Kind::S3,
        }
    }

    /// Creates an object, if there is none of its number; returns whether it was created.
    ///
    /// # Errors
    /// If it cannot be created, or it is not known whether it was.
    pub(super) fn create(&self, id: u64, payload: PutPayload) -> Result<bool, IoError> {
        let name = id.to_string();
        wait_for(self.url(), self.put(&name, payload, Conditions::New))?
    }

    /// Whether an object is there that this has created. Directories do not tell who created a file.
    ///
    /// # Errors
    /// If the server does not tell.
    pub fn has_made(&self, id: u64) -> Result<bool, IoError> {
        let name = id.to_string();
        let bucket = match &self.place {
            Place::Folder { path, .. } => return Ok(Place::file(path, &name).is_file()),
            Place::Bucket(bucket) => bucket,
        };
        let (store, address) = (bucket.store()?, bucket.object(&name)?);
        let maker = made_by(&self.maker, &name);
        let put = Put::of(&store, &address, &maker, &self.traffic);
        let found = wait_for(self.url(), put.maker_there())?;
        let found = found.map_err(|error| object::read(&address, error))?;
        Ok(found.is_some_and(|found| found == maker))
    }

    /// Creates the anchor, or replaces the one that had a state. Of several writers, one succeeds.
    ///
    /// # Errors
    /// If it cannot be written; as existing or overtaken, if another writer was faster.
    pub fn publish(&self, anchor: Bytes, replaced: Option<&SourceMeta>) -> Result<(), IoError> {
        let url = || self.url().to_owned();
        let Some(replaced) = replaced else {
            let created = wait_for(self.url(), self.put("", anchor.into(), Conditions::New))?;
            return match created? {
                true => Ok(()),
                false => Err(IoError::Exists { url: url() }),
            };
        };
        let is_written = match &self.place {
            Place::Folder { path, .. } => self.replace_file(path, &anchor, replaced)?,
            Place::Bucket(_) => {
                let known = Conditions::Replaced(UpdateVersion {
                    e_tag: replaced.etag.clone(),
                    version: replaced.etag.clone(),
                });
                wait_for(self.url(), self.put("", anchor.into(), known))??
            }
        };
        match is_written {
            true => Ok(()),
            false => Err(IoError::Overtaken { url: url() }),
        }
    }

    /// Replaces the anchor's file if it has a state; returns whether it had.
    fn replace_file(
        &self,
        folder: &Path,
        anchor: &[u8],
        replaced: &SourceMeta,
    ) -> Result<bool, IoError> {
        let path = Place::file(folder, "");
        let failed = |source| IoError::from_open(self.url(), source);
        // writers take turns by the directory
        let turn = File::open(folder).map_err(failed)?;
        turn.lock().map_err(failed)?;
        let known = File::open(&path).map_err(failed)?;
        if source::file_state(&known).map_err(failed)? != *replaced {
            return Ok(false);
        }
        let sink = LocalSink::create(&path)?;
        sink.write_at(0, anchor)?;
        sink.commit()?;
        Ok(true)
    }

    async fn put(
        &self,
        name: &str,
        payload: PutPayload,
        conditions: Conditions,
    ) -> Result<bool, IoError> {
        match &self.place {
            Place::Folder { path, .. } => {
                create_file(&Place::file(path, name), &Bytes::from(payload))
            }
            Place::Bucket(bucket) => {
                let (store, address) = (bucket.store()?, bucket.object(name)?);
                let maker = made_by(&self.maker, name);
                let put = Put::of(&store, &address, &maker, &self.traffic);
                put.send(payload, conditions).await
            }
        }
    }

    /// Deletes objects. A missing one counts as deleted.
    ///
    /// # Errors
    /// If an object may still exist.
    pub fn delete(&self, names: &[impl AsRef<str>]) -> Result<(), IoError> {
        let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        self.folder.delete(&names)?;
        if let Place::Folder { path, .. } = &self.place {
            remove_empty(path);
        }
        Ok(())
    }

    /// Deletes the anchor.
    ///
    /// # Errors
    /// If it may still exist.
    pub fn delete_anchor(&self) -> Result<(), IoError> {
        self.delete(&[match self.place {
            Place::Folder { .. } => ANCHOR_FILE,
            Place::Bucket(_) => "",
        }])
    }

    /// All objects below the base, without its anchor, and with all that is below other bases within this one.
    ///
    /// # Errors
    /// If they cannot be listed.
    pub fn list(&self) -> Result<Vec<FoundObject>, IoError> {
        let mut found = self.folder.list()?;
        found.retain(|object| !object.name.is_empty());
        if matches!(self.place, Place::Folder { .. }) {
            // names of incomplete files begin with a dot
            found.retain(|object| object.name != ANCHOR_FILE && !object.name.starts_with('.'));
        }
        Ok(found)
    }

    /// The objects of a bucket with some numbers. Some stores, as MinIO, do not list keys that begin with the key of
    /// another object, which is here the anchor.
    ///
    /// # Errors
    /// If the server does not tell of all whether they exist.
    pub fn find(&self, numbers: Range<u64>) -> Result<Vec<FoundObject>, IoError> {
        let names: Vec<String> = numbers.map(|id| id.to_string()).collect();
        let options = GetOptions {
            head: true,
            ..GetOptions::default()
        };
        let found = self.get_all(&names, &options, async |name, found| {
            Ok(FoundObject {
                name: name.to_owned(),
                size: found.meta.size,
                modified: found.meta.last_modified.into(),
            })
        })?;
        Ok(found)
    }

    /// Of some objects of a bucket, which are not empty, the names of those that begin with a byte.
    ///
    /// # Errors
    /// If one of them cannot be read.
    pub fn beginning_with<'n>(&self, byte: u8, names: &[&'n str]) -> Result<Vec<&'n str>, IoError> {
        let options = GetOptions {
            range: Some(GetRange::Bounded(0..1)),
            ..GetOptions::default()
        };
        let found = self.get_all(names, &options, async |name, found| {
            let bytes = found.bytes().await?;
            Ok((bytes.first() == Some(&byte)).then_some(*name))
        })?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Requests objects of a bucket at the same time; those that do not exist are left out.
    fn get_all<N: AsRef<str>, T>(
        &self,
        names: &[N],
        options: &GetOptions,
        take: impl AsyncFn(&N, GetResult) -> Result<T, Error>,
    ) -> Result<Vec<T>, IoError> {
        let Place::Bucket(bucket) = &self.place else {
            return Ok(Vec::new());
        };
        let store = bucket.store()?;
        let get = async |name: &N| {
            let address = bucket.object(name.as_ref())?;
            let _slot = store.slots.acquire().await;
            let options = GetOptions {
                extensions: Counted::by(&self.traffic),
                ..options.clone()
            };
            let taken = match store.objects.get_opts(&address.key, options).await {
                Ok(found) => take(name, found).await.map(Some),
                Err(Error::NotFound { .. }) => Ok(None),
                Err(error) => Err(error),
            };
            taken.map_err(|error| object::read(&address, error))
        };
        let found: Vec<_> = wait_for(self.url(), try_join_all(names.iter().map(get)))??;
        Ok(found.into_iter().flatten().collect())
    }

    /// Removes incomplete files of killed writers from a directory.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn remove_partial(&self) -> Result<(), IoError> {
        match &self.place {
            Place::Folder { path, .. } if path.is_dir() => sweep(path, true).map(drop),
            _ => Ok(()),
        }
    }
}

/// What the metadata of an object say of its maker.
fn made_by(maker: &str, name: &str) -> String {
    match name {
        "" => maker.to_owned(),
        name => format!("{maker}-{name}"),
    }
}

/// The writer whose work others have continued.
fn first_maker(maker: &str) -> &str {
    maker.split('.').next().unwrap_or_default()
}

/// Whether an object of this name is one of a maker, or of one that continued its work, as its metadata tell.
pub(crate) fn is_made_by(metadata: &str, maker: &str, name: &str) -> bool {
    let found = metadata
        .strip_suffix(name)
        .and_then(|rest| rest.strip_suffix('-'));
    found.is_some_and(|found| first_maker(found) == maker)
}

/// Removes the directory of a set if it is empty, and those above it up to the one of the set that it belongs to.
fn remove_empty(mut folder: &Path) {
    let is_inner = |folder: &Path| {
        let mut parts = folder.components().map(|part| part.as_os_str());
        parts.any(|part| part == "_clone" || part == "_preview")
    };
    while fs::remove_dir(folder).is_ok() && is_inner(folder) {
        match folder.parent() {
            Some(above) => folder = above,
            None => break,
        }
    }
}

/// Creates a file if its name is free; returns whether it was created.
fn create_file(path: &Path, bytes: &[u8]) -> Result<bool, IoError> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|source| IoError::Create {
            url: path.display().to_string(),
            source,
        })?;
    }
    let created = LocalSink::create_new(path).and_then(|sink| {
        sink.write_at(0, bytes)?;
        sink.commit()
    });
    match created {
        Ok(()) => Ok(true),
        Err(IoError::Exists { .. } | IoError::Busy { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
