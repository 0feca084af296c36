//! Uploads objects to object stores in parts.

mod commit;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use object_store::multipart::PartId;
use object_store::{
    Attribute, Attributes, Error, MultipartId, ObjectStoreExt, PutMultipartOptions,
};
use tokio::sync::{OnceCell, Semaphore};
use tokio::task::{JoinError, JoinSet};

use super::ByteSink;
use super::parts::{Layout, Part};
use crate::object::{self, Address, Kind, Options, Store};
use crate::runtime::{clear_up, process, wait_for};
use crate::{IoError, Settings};

/// Default size of a part in bytes. Later parts are larger, so that 10,000 are enough.
const PART_SIZE: u64 = 16 << 20;

/// Valid part sizes: stores refuse smaller parts, and each incomplete part is in memory.
const PART_SIZES: std::ops::RangeInclusive<u64> = (5 << 20)..=(1 << 30);

/// Number of parts that are sent concurrently; each of them is in memory.
const UPLOADS: usize = 4;

const OF_ANOTHER: &str = "another process has started the upload";

/// The metadata key for the creator of an object.
pub(crate) const MAKER: Attribute =
    Attribute::Metadata(std::borrow::Cow::Borrowed("femtobarnmaker"));

/// An object in an object store (`s3://`, `gs://`, `az://`). It appears completely with [`ByteSink::commit`], or not at
/// all. Written data are split into parts. Complete parts are sent while others are written, a few at a time; if too
/// many are being sent, a write waits. All other parts stay in memory until the commit, where gaps become zeros.
/// Overwriting sent data is an error. An object that fits into one part is a single request.
///
/// Dropping the sink without a commit aborts the upload. The upload of a killed process remains in the store, which
/// charges for it. A rule of the bucket can remove such uploads (on S3, `AbortIncompleteMultipartUpload`).
pub struct ObjectSink {
    address: Address,
    replaces: bool,
    store: Arc<Store>,
    /// The process that may use the sink.
    owner: u32,
    layout: Layout,
    slots: Arc<Semaphore>,
    upload: OnceCell<MultipartId>,
    /// Distinguishes this object from one created by another client.
    maker: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Incomplete parts.
    held: BTreeMap<u64, Part>,
    /// Parts that were sent or are being sent.
    sent: BTreeMap<u64, Option<PartId>>,
    on_the_way: JoinSet<Result<(u64, PartId), Error>>,
    /// The end of the last written byte.
    size: u64,
    /// Whether writing has ended, and whether the object exists.
    is_closed: bool,
    is_there: bool,
    /// The reason why the object cannot be created any more.
    failure: Option<Failure>,
}

enum Failure {
    /// An error of the store that was not reported yet.
    Untold(Error),
    /// A reported error, as text.
    Told(String),
}

/// The requests that create an object, if nothing fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UploadRequests {
    /// Requests that write: PUT and POST.
    pub puts: u64,
    /// Requests that read: HEAD, before and after.
    pub gets: u64,
}

impl fmt::Debug for ObjectSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = &self.address;
        f.debug_struct("ObjectSink")
            .field("address", address)
            .finish_non_exhaustive()
    }
}

impl ObjectSink {
    /// Creates a sink; `replaces` tells whether an existing object may be replaced.
    ///
    /// # Errors
    /// If the URL is invalid, the object exists and must not be replaced, or no server answers.
    pub fn create(url: &str, replaces: bool, settings: &Settings) -> Result<Self, IoError> {
        let address = Address::parse(url)?;
        if address.is_folder {
            let (url, found) = (address.url, "a directory");
            return Err(IoError::NotAFile { url, found });
        }
        Self::at(address, replaces, settings)
    }

    /// The requests that an object of this size takes: one, or one for each part and two around them.
    ///
    /// # Errors
    /// If a setting is invalid.
    pub fn upload_requests(size: u64, settings: &Settings) -> Result<UploadRequests, IoError> {
        let layout = Layout::new(part_size("", settings)?);
        if size < layout.range(0).end {
            return Ok(UploadRequests { puts: 1, gets: 2 });
        }
        let last = layout.index(size - 1).unwrap_or(u64::MAX - 3);
        Ok(UploadRequests {
            puts: last + 3,
            gets: 3,
        })
    }

    /// As [`create`](Self::create), for a parsed URL.
    pub(crate) fn at(
        address: Address,
        replaces: bool,
        settings: &Settings,
    ) -> Result<Self, IoError> {
        let first = part_size(&address.url, settings)?;
        let options = Options::of(&address, settings)?;
        let at_once = settings.number("requests_at_once")?.unwrap_or(UPLOADS);
        let maker = random_name().map_err(|source| IoError::Create {
            url: address.url.clone(),
            source,
        })?;
        let sink = Self {
            store: object::store(&address, &options)?,
            replaces,
            owner: process(),
            layout: Layout::new(first),
            slots: Arc::new(Semaphore::new(at_once.min(Semaphore::MAX_PERMITS))),
            upload: OnceCell::new(),
            maker,
            state: Mutex::default(),
            address,
        };
        sink.wait(sink.check_free())?;
        Ok(sink)
    }

    /// The same with another maker in its metadata, which no other object has.
    pub(crate) fn made_by(mut self, maker: String) -> Self {
        self.maker = maker;
        self
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, IoError> {
        let done = wait_for(&self.address.url, work)?;
        done.map_err(|error| object::created(&self.address, error))
    }

    fn refused(&self, offset: u64, expected: usize, why: &str) -> IoError {
        IoError::Write {
            url: self.address.url.clone(),
            offset,
            expected: expected as u64,
            source: io::Error::other(why.to_owned()),
        }
    }

    /// Checks that the name is free, unless it may be replaced.
    async fn check_free(&self) -> Result<(), Error> {
        if self.replaces {
            return Ok(());
        }
        match self.store.objects.head(&self.address.key).await {
            Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Err(Error::AlreadyExists {
                path: self.address.key.to_string(),
                source: "it already exists".into(),
            }),
        }
    }

    /// Starts the upload when its first part is complete.
    async fn begin(&self) -> Result<MultipartId, Error> {
        let (parts, key) = (&self.store.parts, &self.address.key);
        if self.address.kind == Kind::Azure {
            // Azure takes metadata only at the end, and in another way
            return parts.create_multipart(key).await;
        }
        let options = PutMultipartOptions {
            attributes: self.made_here(),
            ..PutMultipartOptions::default()
        };
        parts.create_multipart_opts(key, options).await
    }

    fn made_here(&self) -> Attributes {
        Attributes::from_iter([(MAKER, self.maker.clone())])
    }

    /// Sends a part; waits first if too many are being sent.
    fn send(&self, index: u64, bytes: Vec<u8>) -> Result<(), IoError> {
        let started = self.wait(async {
            let slot = self.slots.clone().acquire_owned().await;
            let id = self.upload.get_or_try_init(|| self.begin()).await?.clone();
            let (store, key) = (self.store.clone(), self.address.key.clone());
            let number = usize::try_from(index).unwrap_or(usize::MAX);
            self.lock().on_the_way.spawn(async move {
                let sent = store.parts.put_part(&key, &id, number, bytes.into());
                let part = sent.await?;
                drop(slot);
                Ok((index, part))
            });
            Ok(())
        });
        if let Err(error) = &started {
            let failure = Failure::Told(error.to_string());
            self.lock().failure.get_or_insert(failure);
        }
        started
    }

    /// Writes the bytes that belong to a part; returns the part if it is complete now.
    fn write_part(&self, index: u64, at: u64, bytes: &[u8]) -> Result<Option<Part>, IoError> {
        let refused = |why| Err(self.refused(at, bytes.len(), why));
        let range = self.layout.range(index);
        let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let start = usize::try_from(at - range.start).unwrap_or(usize::MAX);
        let mut state = self.lock();
        if state.is_closed {
            return refused("the object was committed");
        }
        state.note_sent();
        if let Some(error) = state.failure() {
            return Err(object::created(&self.address, error));
        }
        if state.sent.contains_key(&index) {
            return refused("this part of the upload is complete and was sent");
        }
        let part = state.held.entry(index).or_insert_with(|| Part::new(length));
        if !part.write(start, bytes) {
            return refused("it is outside of this part of the upload");
        }
        let is_complete = part.is_complete();
        state.size = state.size.max(at + bytes.len() as u64);
        if !is_complete {
            return Ok(None);
        }
        state.sent.insert(index, None);
        Ok(state.held.remove(&index))
    }
}

/// The size of the first parts, from settings.
fn part_size(url: &str, settings: &Settings) -> Result<u64, IoError> {
    let first = settings.bytes("part_size")?.unwrap_or(PART_SIZE);
    match PART_SIZES.contains(&first) {
        true => Ok(first),
        false => Err(IoError::Setting {
            url: url.to_owned(),
            what: format!("invalid part_size {first}: expected a size from 5 MiB to 1 GiB"),
        }),
    }
}

/// A name that nothing else has.
pub(crate) fn random_name() -> io::Result<String> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

impl State {
    /// Collects finished uploads.
    fn note_sent(&mut self) {
        while let Some(done) = self.on_the_way.try_join_next() {
            self.note(done);
        }
    }

    fn note(&mut self, done: Result<Result<(u64, PartId), Error>, JoinError>) {
        let failure = match done {
            Ok(Ok((index, part))) => {
                self.sent.insert(index, Some(part));
                return;
            }
            Ok(Err(error)) => Failure::Untold(error),
            Err(error) => Failure::Told(error.to_string()),
        };
        self.failure.get_or_insert(failure);
    }

    /// The reason why the object cannot be created: first the store's error, later a short one.
    fn failure(&mut self) -> Option<Error> {
        let failure = self.failure.take()?;
        let (error, text) = match failure {
            Failure::Untold(error) => {
                let text = error.to_string();
                (error, text)
            }
            Failure::Told(text) => (generic(text.clone()), text),
        };
        self.failure = Some(Failure::Told(text));
        Some(error)
    }
}

fn generic(what: String) -> Error {
    Error::Generic {
        store: "upload",
        source: what.into(),
    }
}

impl ByteSink for ObjectSink {
    fn url(&self) -> &str {
        &self.address.url
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
        if self.owner != process() {
            return Err(self.refused(offset, bytes.len(), OF_ANOTHER));
        }
        let (mut at, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let Some(index) = self.layout.index(at) else {
                return Err(self.refused(at, rest.len(), "objects are limited to 5 TiB"));
            };
            let left = usize::try_from(self.layout.range(index).end - at).unwrap_or(usize::MAX);
            let (piece, more) = rest.split_at(left.min(rest.len()));
            if let Some(part) = self.write_part(index, at, piece)? {
                self.send(index, part.into_bytes(usize::MAX))?;
            }
            at += piece.len() as u64;
            rest = more;
        }
        Ok(())
    }

    /// Nothing is durable before the commit.
    fn sync(&self) -> Result<(), IoError> {
        Ok(())
    }

    fn commit(&self) -> Result<(), IoError> {
        self.finish()
    }
}

impl Drop for ObjectSink {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut on_the_way = mem::take(&mut state.on_the_way);
        if self.owner != process() {
            // a forked child must not stop its parent's requests
            mem::forget(on_the_way);
            return;
        }
        let (false, Some(id)) = (state.is_there, self.upload.get()) else {
            return;
        };
        let (store, key) = (&self.store, &self.address.key);
        clear_up(async {
            on_the_way.shutdown().await;
            // a rule of the bucket can remove uploads that remain
            let _ = store.parts.abort_multipart(key, id).await;
        });
    }
}
