//! Creating objects, several at the same time.

use std::collections::BTreeSet;
use std::mem;
use std::sync::Arc;

use bytes::Bytes;
use femtobarn_xrootd::backoff;
use object_store::{
    Attributes, Error, GetOptions, ObjectStoreExt, PutMode, PutOptions, PutPayload, UpdateVersion,
};
use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinSet};

use super::place::Place;
use super::{ObjectSet, made_by};
use crate::meter::TrafficCounters;
use crate::object::{self, Address, Counted, Reached, Store};
use crate::runtime::{clear_up, process, wait_for};
use crate::sink::MAKER;
use crate::{ByteSink, IoError, ObjectSink, Settings, UploadRequests};

/// Number of objects that are sent concurrently, if they are small.
const AT_ONCE: usize = 32;

/// Bytes that are being sent, in units of a KiB; a larger object is sent alone.
const MOST_KIB: usize = 128 << 10;

/// Objects of this size are sent in several parts at the same time.
const IN_PARTS: usize = 64 << 20;

/// Attempts to create an object while others try, too, and none succeeds.
const MOST_TRIES: usize = 8;
/// Attempts after an answer was lost and the object does not exist. The store itself repeats what servers refuse.
const MOST_LOST: usize = 2;

/// What must be there for a request to be done.
#[derive(Clone)]
pub(super) enum Conditions {
    /// No object of this name.
    New,
    /// An object in this state.
    Replaced(UpdateVersion),
}

/// A request to create an object in a bucket.
pub(super) struct Put<'a> {
    pub store: &'a Store,
    pub address: &'a Address,
    pub maker: &'a str,
    pub traffic: &'a Arc<TrafficCounters>,
}

impl<'a> Put<'a> {
    /// A request to create an object for a maker.
    pub fn of(
        store: &'a Store,
        address: &'a Address,
        maker: &'a str,
        traffic: &'a Arc<TrafficCounters>,
    ) -> Self {
        Self {
            store,
            address,
            maker,
            traffic,
        }
    }

    /// Sends it. If the answer is lost, or the store has repeated the request, the object itself tells who made it.
    pub async fn send(&self, payload: PutPayload, conditions: Conditions) -> Result<bool, IoError> {
        let failed = |error| object::created(self.address, error);
        let mut tries = 0;
        loop {
            let reached = Reached::default();
            let mut extensions = Counted::by(self.traffic);
            extensions.extend(reached.by());
            let options = PutOptions {
                mode: match &conditions {
                    Conditions::New => PutMode::Create,
                    Conditions::Replaced(known) => PutMode::Update(known.clone()),
                },
                attributes: Attributes::from_iter([(MAKER, self.maker.to_owned())]),
                extensions,
                ..PutOptions::default()
            };
            let slot = self.store.slots.acquire().await;
            let put = self
                .store
                .objects
                .put_opts(&self.address.key, payload.clone(), options);
            let error = match put.await {
                Ok(_) => return Ok(true),
                Err(error) => error,
            };
            drop(slot);
            let is_refused = matches!(
                error,
                Error::PermissionDenied { .. } | Error::Unauthenticated { .. }
            );
            if !reached.is_so() || is_refused {
                return Err(failed(error));
            }
            let is_conflict = matches!(
                error,
                Error::AlreadyExists { .. } | Error::Precondition { .. }
            );
            match (self.maker_there().await, &conditions) {
                (Ok(Some(maker)), _) if maker == self.maker => return Ok(true),
                (Ok(Some(_)), Conditions::New) => return Ok(false),
                (Ok(_), Conditions::Replaced(_)) if is_conflict => return Ok(false),
                // the connection broke, or others try to create it at the same time, and none has succeeded
                (Ok(_), _) if tries < if is_conflict { MOST_TRIES } else { MOST_LOST } => {
                    tokio::time::sleep(backoff(tries)).await;
                    tries += 1;
                }
                (Ok(_), _) => return Err(failed(error)),
                (Err(_), _) => {
                    let what = format!("unknown whether the object was written: {error}");
                    return Err(failed(Error::Generic {
                        store: "upload",
                        source: what.into(),
                    }));
                }
            }
        }
    }

    /// The maker of the existing object, according to its metadata. The text is empty if the metadata have no maker. `None` if
    /// there is no object.
    pub async fn maker_there(&self) -> Result<Option<String>, Error> {
        let options = GetOptions {
            head: true,
            extensions: Counted::by(self.traffic),
            ..GetOptions::default()
        };
        match self
            .store
            .objects
            .get_opts(&self.address.key, options)
            .await
        {
            Ok(found) => {
                let maker = found.attributes.get(&MAKER);
                Ok(Some(maker.map_or_else(String::new, |maker| {
                    maker.as_ref().to_owned()
                })))
            }
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Creates objects of a set, a bounded number and size at the same time. An error is returned by the next call. Objects
/// are deleted when this is dropped, unless they are [kept](Self::keep).
#[derive(Debug)]
pub struct Uploads {
    set: Arc<ObjectSet>,
    settings: Settings,
    slots: Arc<Semaphore>,
    memory: Arc<Semaphore>,
    on_the_way: JoinSet<(u64, Result<bool, IoError>)>,
    /// Numbers of objects that this may have created.
    sent: BTreeSet<u64>,
    /// Those of them that it has.
    created: BTreeSet<u64>,
    failure: Option<IoError>,
    has_failed: bool,
    /// The process that may use it.
    owner: u32,
}

impl Uploads {
    /// Begins to create objects.
    ///
    /// # Errors
    /// If a setting is invalid.
    pub fn new(set: Arc<ObjectSet>, settings: &Settings) -> Result<Self, IoError> {
        let at_once = settings.number("requests_at_once")?.unwrap_or(AT_ONCE);
        Ok(Self {
            set,
            settings: settings.clone(),
            slots: Arc::new(Semaphore::new(at_once.clamp(1, Semaphore::MAX_PERMITS))),
            memory: Arc::new(Semaphore::new(MOST_KIB)),
            on_the_way: JoinSet::new(),
            sent: BTreeSet::new(),
            created: BTreeSet::new(),
            failure: None,
            has_failed: false,
            owner: process(),
        })
    }

    /// The requests that an object of this size takes.
    ///
    /// # Errors
    /// If a setting is invalid.
    pub fn requests(size: u64, settings: &Settings) -> Result<UploadRequests, IoError> {
        match size < IN_PARTS as u64 {
            true => Ok(UploadRequests { puts: 1, gets: 0 }),
            false => ObjectSink::upload_requests(size, settings),
        }
    }

    /// The objects.
    #[must_use]
    pub fn set(&self) -> &Arc<ObjectSet> {
        &self.set
    }

    /// Creates an object now, if there is none of its number; returns whether it was created.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn claim(&mut self, id: u64, bytes: Bytes) -> Result<bool, IoError> {
        self.check()?;
        let created = self.set.create(id, bytes.into())?;
        if created {
            self.sent.insert(id);
            self.created.insert(id);
        }
        Ok(created)
    }

    /// Begins to create an object, of these parts, whose number belongs to this writer. Waits first if too many are being
    /// sent.
    ///
    /// # Errors
    /// If this or an earlier object cannot be created.
    pub fn send(&mut self, id: u64, parts: Vec<Bytes>) -> Result<(), IoError> {
        self.check()?;
        let Self {
            set,
            settings,
            slots,
            memory,
            on_the_way,
            ..
        } = self;
        let payload: PutPayload = parts.into_iter().collect();
        let n_bytes = payload.content_length();
        let n_kib = (n_bytes >> 10).clamp(1, MOST_KIB);
        let n_kib = u32::try_from(n_kib).unwrap_or(u32::MAX);
        wait_for(set.url(), async {
            let slot = slots.clone().acquire_owned().await;
            let room = memory.clone().acquire_many_owned(n_kib).await;
            let (own, name) = (set.clone(), id.to_string());
            let held = (slot.ok(), room.ok());
            match &set.place {
                Place::Folder { .. } => {
                    on_the_way.spawn_blocking(move || {
                        let _held = held;
                        (id, own.create(id, payload))
                    });
                }
                Place::Bucket(bucket) if n_bytes >= IN_PARTS => {
                    let (address, settings) = (bucket.object(&name), settings.clone());
                    let maker = made_by(&set.maker, &name);
                    // no other writer has this number
                    let send = move || {
                        let sink = ObjectSink::at(address?, false, &settings)?.made_by(maker);
                        let mut at = 0;
                        for part in payload {
                            sink.write_at(at, &part)?;
                            at += part.len() as u64;
                        }
                        sink.commit()
                    };
                    on_the_way.spawn_blocking(move || {
                        let _held = held;
                        (id, created(send()))
                    });
                }
                Place::Bucket(_) => {
                    on_the_way.spawn(async move {
                        let _held = held;
                        (id, own.put(&name, payload, Conditions::New).await)
                    });
                }
            }
        })?;
        self.sent.insert(id);
        Ok(())
    }

    /// Begins to have the server copy an object of another base, as this one sees it, to a number that belongs to this
    /// writer. Its metadata are copied, too.
    ///
    /// # Errors
    /// If this or an earlier object cannot be created, or the store does not [copy](ObjectSet::copies).
    pub fn copy(&mut self, id: u64, base: &str, from: u64) -> Result<(), IoError> {
        self.check()?;
        let (Place::Bucket(own), Place::Bucket(other)) =
            (&self.set.place, self.set.place.relative(base)?)
        else {
            return Err(self.refused("this store does not copy objects"));
        };
        let store = own.store()?;
        let (to, from) = (
            own.object(&id.to_string())?,
            other.object(&from.to_string())?,
        );
        let (slots, set) = (self.slots.clone(), self.set.clone());
        wait_for(self.set.url(), async {
            let slot = slots.acquire_owned().await;
            let copy = async move || {
                let _slots = (slot, store.slots.acquire().await);
                // no other writer has this number, but another ntuple may have it as its name
                let there = Put::of(&store, &to, "", &set.traffic).maker_there().await;
                if there
                    .map_err(|error| object::created(&to, error))?
                    .is_some()
                {
                    return Ok(false);
                }
                set.traffic.ask();
                // the store repeats the request if its answer is lost
                let copied = store.objects.copy(&from.key, &to.key).await;
                copied.map_err(|error| match error {
                    Error::NotFound { .. } => object::read(&from, error),
                    error => object::created(&to, error),
                })?;
                Ok(true)
            };
            self.on_the_way.spawn(async move { (id, copy().await) });
        })?;
        self.sent.insert(id);
        Ok(())
    }

    /// Waits until all objects exist.
    ///
    /// # Errors
    /// If one of them cannot be created.
    pub fn wait(&mut self) -> Result<(), IoError> {
        self.check()?;
        let mut on_the_way = mem::take(&mut self.on_the_way);
        let url = self.set.url().to_owned();
        wait_for(&url, async {
            while let Some(done) = on_the_way.join_next().await {
                self.note(done);
            }
        })?;
        self.check()
    }

    /// The numbers of the objects.
    #[must_use]
    pub fn numbers(&self) -> &BTreeSet<u64> {
        &self.sent
    }

    /// Keeps the objects when this is dropped.
    pub fn keep(&mut self) {
        self.sent.clear();
        self.created.clear();
    }

    /// Collects finished objects; the first error is returned, and later a note of it.
    fn check(&mut self) -> Result<(), IoError> {
        if self.owner != process() {
            return Err(self.refused("another process has started to write these objects"));
        }
        while let Some(done) = self.on_the_way.try_join_next() {
            self.note(done);
        }
        match (self.failure.take(), self.has_failed) {
            (Some(failure), _) => Err(failure),
            (None, true) => Err(self.refused("an earlier object could not be written")),
            (None, false) => Ok(()),
        }
    }

    fn note(&mut self, done: Result<(u64, Result<bool, IoError>), JoinError>) {
        let failure = match done {
            Ok((id, Ok(true))) => {
                self.created.insert(id);
                return;
            }
            Ok((id, Ok(false))) => {
                self.sent.remove(&id);
                IoError::NotWritten {
                    url: self.set.url_of(id),
                    why: "another ntuple, or another object, has this name. Choose a URL below which no name is a number",
                }
            }
            Ok((_, Err(error))) => error,
            Err(error) => IoError::Create {
                url: self.set.url().to_owned(),
                source: error.into(),
            },
        };
        self.has_failed = true;
        self.failure.get_or_insert(failure);
    }

    fn refused(&self, why: &'static str) -> IoError {
        let url = self.set.url().to_owned();
        IoError::NotWritten { url, why }
    }
}

/// Whether an object was created, rather than that it existed.
fn created(sent: Result<(), IoError>) -> Result<bool, IoError> {
    match sent {
        Ok(()) => Ok(true),
        Err(IoError::Exists { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

impl Drop for Uploads {
    fn drop(&mut self) {
        let mut on_the_way = mem::take(&mut self.on_the_way);
        if self.owner != process() {
            // a forked child must not stop its parent's requests
            mem::forget(on_the_way);
            return;
        }
        // a server may create an object after it was deleted, although nobody waits for the answer
        clear_up(async {
            while let Some(done) = on_the_way.join_next().await {
                self.note(done);
            }
        });
        clear_up(async { on_the_way.shutdown().await });
        // others are not deleted: of those whose answers were lost, the objects tell who made them
        for id in &self.sent - &self.created {
            match self.set.has_made(id) {
                Ok(true) => drop(self.created.insert(id)),
                Ok(false) => {}
                Err(_) => break,
            }
        }
        if !self.created.is_empty() {
            // the first object of a block is the last one: then the block is free for other writers
            let names = self.created.iter().rev().map(u64::to_string);
            let names: Vec<String> = names.collect();
            // what remains is not visible, and is found by a sweep
            let _ = self.set.delete(&names);
        }
    }
}
