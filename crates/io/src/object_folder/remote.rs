//! Objects in a bucket with a key prefix.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use femtobarn_xrootd::backoff;
use futures_util::future::try_join_all;
use futures_util::stream::{self, StreamExt};
use object_store::path::Path;
use object_store::{Error, GetOptions, GetRange};

use super::{AT_ONCE, FoundObject};
use crate::object::{self, Address, Options, Store};
use crate::runtime::wait_for;
use crate::{ByteSink, IoError, ObjectSink, Settings};

/// Bytes per request: larger objects are fetched with several concurrent requests.
const PIECE: u64 = 8 << 20;

/// Settings are not printed, because they may be secrets.
pub struct Bucket {
    base: String,
    address: Address,
    settings: Settings,
    options: Options,
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bucket").field(&self.address).finish()
    }
}

impl Bucket {
    pub fn open(base: &str, settings: &Settings) -> Result<Self, IoError> {
        let address = Address::parse(base)?;
        let options = Options::of(&address, settings)?;
        Ok(Self {
            base: base.to_owned(),
            address,
            settings: settings.clone(),
            options,
        })
    }

    /// The store of this process: a child cannot use its parent's.
    fn store(&self) -> Result<Arc<Store>, IoError> {
        object::store(&self.address, &self.options)
    }

    /// The key of an object, or of a name prefix.
    fn key(&self, name: &str) -> Path {
        let parts = self.address.key.parts();
        let of_name = name.split('/').filter(|part| !part.is_empty());
        parts.chain(of_name.map(Into::into)).collect()
    }

    fn of(&self, name: &str) -> Address {
        let base = self.address.url.trim_end_matches('/');
        Address {
            url: format!("{base}/{name}"),
            key: self.key(name),
            ..self.address.clone()
        }
    }

    pub fn put(&self, name: &str, bytes: &[u8]) -> Result<(), IoError> {
        // Names are unique, so the request that checks for an existing object is not needed.
        self.send(name, bytes, true)
    }

    pub fn put_new(&self, name: &str, bytes: &[u8]) -> Result<(), IoError> {
        self.send(name, bytes, false)
    }

    fn send(&self, name: &str, bytes: &[u8], replaces: bool) -> Result<(), IoError> {
        let url = format!("{}/{name}", self.base);
        let sink = ObjectSink::create(&url, replaces, &self.settings)?;
        sink.write_at(0, bytes)?;
        sink.commit()
    }

    pub fn get_small(&self, name: &str) -> Result<Vec<u8>, IoError> {
        let (store, address) = (self.store()?, self.of(name));
        wait_for(&self.address.url, async {
            let failed = |error| object::read(&address, error);
            let found = store.objects.get_opts(&address.key, GetOptions::default());
            let found = found.await.map_err(failed)?;
            Ok(found.bytes().await.map_err(failed)?.to_vec())
        })?
    }

    pub fn get(&self, objects: &[(&str, u64)]) -> Result<Vec<Result<Bytes, IoError>>, IoError> {
        let store = self.store()?;
        let all = objects.iter().map(|(name, size)| {
            let (store, address) = (&store, self.of(name));
            async move { fetch(store, &address, *size).await }
        });
        let all: Vec<_> = all.collect();
        let all = stream::iter(all).buffered(AT_ONCE).collect();
        wait_for(&self.address.url, all)
    }

    pub fn delete(&self, names: &[&str]) -> Result<(), IoError> {
        self.delete_keys(names.iter().map(|name| self.key(name)).collect())
    }

    /// Deletes objects with few requests, if the store supports it. Keys are unique, because some servers send
    /// invalid answers for duplicates.
    fn delete_keys(&self, keys: BTreeSet<Path>) -> Result<(), IoError> {
        if keys.is_empty() {
            return Ok(());
        }
        let keys: Vec<_> = keys.into_iter().map(Ok).collect();
        let store = self.store()?;
        wait_for(&self.address.url, async {
            let mut deleted = store.objects.delete_stream(stream::iter(keys).boxed());
            let mut first = Ok(());
            while let Some(done) = deleted.next().await {
                match done {
                    Ok(_) | Err(Error::NotFound { .. }) => {}
                    Err(error) => first = first.and(Err(object::read(&self.address, error))),
                }
            }
            first
        })?
        .map_err(|error| IoError::Delete {
            url: self.address.url.clone(),
            source: error.into(),
        })
    }

    pub fn delete_below(&self, prefix: &str) -> Result<(), IoError> {
        let found = self.keys_below(prefix)?;
        self.delete_keys(found.into_iter().map(|(key, ..)| key).collect())
    }

    pub fn list(&self) -> Result<Vec<FoundObject>, IoError> {
        let n_parts = self.address.key.parts().count();
        let found = self.keys_below("")?.into_iter();
        let object = |(key, size, modified): Found| {
            let name: Path = key.parts().skip(n_parts).collect();
            FoundObject {
                name: name.to_string(),
                size,
                modified,
            }
        };
        Ok(found.map(object).collect())
    }

    fn keys_below(&self, prefix: &str) -> Result<Vec<Found>, IoError> {
        let store = self.store()?;
        let prefix = self.key(prefix);
        let prefix = (!prefix.is_root()).then_some(prefix);
        wait_for(&self.address.url, async {
            let mut listed = store.objects.list(prefix.as_ref());
            let mut found = Vec::new();
            while let Some(object) = listed.next().await {
                match object {
                    Ok(object) => {
                        found.push((object.location, object.size, object.last_modified.into()))
                    }
                    Err(Error::NotFound { .. }) => break,
                    Err(error) => return Err(object::read(&self.address, error)),
                }
            }
            Ok(found)
        })?
    }
}

type Found = (Path, u64, std::time::SystemTime);

/// Fetches a whole object in concurrent pieces.
async fn fetch(store: &Store, address: &Address, size: u64) -> Result<Bytes, IoError> {
    let starts = (0..size.max(1)).step_by(usize::try_from(PIECE).unwrap_or(usize::MAX));
    let pieces = starts.map(|start| piece(store, address, size, start..size.min(start + PIECE)));
    let mut pieces = try_join_all(pieces).await?;
    if pieces.len() == 1 {
        return Ok(pieces.pop().unwrap_or_default());
    }
    let length = usize::try_from(size).unwrap_or(usize::MAX);
    let mut whole = BytesMut::with_capacity(length);
    pieces
        .iter()
        .for_each(|piece| whole.extend_from_slice(piece));
    Ok(whole.freeze())
}

/// Fetches a piece of an object; repeats this if the body breaks, as the store does not retry then.
async fn piece(
    store: &Store,
    address: &Address,
    size: u64,
    range: Range<u64>,
) -> Result<Bytes, IoError> {
    let mut tries = 0;
    loop {
        let _slot = store.slots.acquire().await;
        match piece_once(store, address, size, range.clone()).await {
            Err(IoError::ShortRead { .. } | IoError::Remote { .. })
                if tries < store.most_retries =>
            {
                tries += 1;
                tokio::time::sleep(backoff(0)).await;
            }
            done => return done,
        }
    }
}

async fn piece_once(
    store: &Store,
    address: &Address,
    size: u64,
    range: Range<u64>,
) -> Result<Bytes, IoError> {
    let options = GetOptions {
        range: (!range.is_empty()).then(|| GetRange::Bounded(range.clone())),
        ..GetOptions::default()
    };
    let answer = store.objects.get_opts(&address.key, options).await;
    let answer = match answer {
        // The object has become shorter.
        Err(error) if object::is_unsatisfiable(&error) => {
            let url = address.url.clone();
            return Err(IoError::Changed { url });
        }
        answer => answer.map_err(|error| object::read(address, error))?,
    };
    if answer.meta.size != size || answer.range != range {
        let url = address.url.clone();
        return Err(IoError::Changed { url });
    }
    let expected = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
    let mut bytes = BytesMut::with_capacity(expected);
    let mut body = answer.into_stream();
    while let Some(more) = body.next().await {
        bytes.extend_from_slice(&more.map_err(|error| object::read(address, error))?);
        if bytes.len() > expected {
            break;
        }
    }
    match bytes.len() == expected {
        true => Ok(bytes.freeze()),
        false => Err(IoError::ShortRead {
            url: address.url.clone(),
            offset: range.start,
            expected: expected as u64,
            found: bytes.len() as u64,
        }),
    }
}
