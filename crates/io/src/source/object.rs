//! Objects of object stores (`s3://`, `gs://`, `az://`).

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use femtobarn_fork::PerProcess;
use femtobarn_xrootd::backoff;
use futures_util::StreamExt;
use futures_util::future::{join, try_join_all};
use object_store::{GetOptions, GetRange, GetResult, ObjectMeta};

use crate::layer::{Held, find_held, joined_ends};
use crate::meter::{Opening, Traffic, TrafficCounters};
use crate::object::{self, Address, Counted, Kind, Options, Store};
use crate::object_set::is_made_by;
use crate::pace::within;
use crate::runtime::wait_for;
use crate::sink::MAKER;
use crate::{ByteSource, IoError, RemoteEntry, Settings, SourceCost, SourceInfo, SourceMeta};

/// Size of each end that is fetched at opening, in one round trip.
const HEAD: u64 = 64 << 10;
const TAIL: u64 = 256 << 10;

/// Maximum number of attempts to open an object that is being replaced.
const MOST_TRIES: usize = 3;

/// An object in an object store. It is opened by two concurrent requests for its two ends, whose bytes are kept. A
/// vector read sends one request per range, concurrently. Every request requires the entity tag and size of the opened
/// object.
pub struct ObjectSource {
    address: Address,
    options: Options,
    store: PerProcess<Arc<Store>>,
    meta: SourceMeta,
    /// The bytes of the two ends, or of the whole object.
    held: Vec<Held>,
    opening: Opening,
    traffic: Arc<TrafficCounters>,
}

/// Options are not printed, because they may be secrets.
impl fmt::Debug for ObjectSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ObjectSource");
        shown.field("address", &self.address);
        shown.field("meta", &self.meta).finish_non_exhaustive()
    }
}

impl ObjectSource {
    /// Opens an object.
    ///
    /// # Errors
    /// If the URL is invalid, the object does not exist or is not readable, or no server answers.
    pub fn open(url: &str, settings: &Settings) -> Result<Arc<Self>, IoError> {
        let address = Address::parse(url)?;
        if address.is_folder {
            let (url, found) = (address.url, "a directory");
            return Err(IoError::NotAFile { url, found });
        }
        let options = Options::of(&address, settings)?;
        let store = object::store(&address, &options)?;
        let traffic = Arc::default();
        let start = Instant::now();
        let (meta, held, read) = {
            let work = opened(&store, &address, &traffic, settings.skips_ends());
            let longest = options.limits.total_timeout;
            wait_for(&address.url, within(&address.url, longest, work))???
        };
        let known = PerProcess::new();
        known.get(|| Ok::<_, IoError>(store))?;
        Ok(Arc::new(Self {
            address,
            options,
            store: known,
            meta,
            held,
            opening: Opening::since(start, read),
            traffic,
        }))
    }

    /// The ranges of the two ends of an object of this size.
    pub(crate) fn ends(size: u64) -> [Range<u64>; 2] {
        [0..size.min(HEAD), size.saturating_sub(TAIL)..size]
    }

    /// How requests are cut.
    pub(crate) fn cost() -> SourceCost {
        SourceCost {
            // Pages of a column have 48 kB on average: with such gaps between all of them, 1.04 times the needed bytes
            // are read. Larger gaps would save time: a request costs 150 ms / 32, in which 32 × 85 MB/s transfer 13 MB.
            largest_gap: 2 << 10,
            // After 150 ms, a request has 85 MB/s. 8 MiB take 250 ms, or 34 MB/s per request; 8 of them fill the
            // read-ahead (64 MiB) with 270 MB/s. With 16 MiB, only 4 fit: 190 MB/s. With 2 MiB, 32 fit: 380 MB/s, at
            // four times the price of requests.
            largest_request: 8 << 20,
            // a vector read waits for all its ranges before any is decoded
            most_ranges: 16,
            concurrency: 8,
            largest_vector: 64 << 20,
            ..SourceCost::default()
        }
    }

    fn store(&self) -> Result<Arc<Store>, IoError> {
        self.store
            .get(|| object::store(&self.address, &self.options))
    }

    /// The bytes of a range, if they are held.
    fn held(&self, range: &Range<u64>) -> Option<Bytes> {
        if range.is_empty() {
            return Some(Bytes::new());
        }
        let (_, bytes) = find_held(&self.held, range)?;
        Some(bytes)
    }
}

/// An object that is read in ranges.
pub(crate) struct Ranged<'a> {
    pub store: &'a Store,
    pub address: &'a Address,
    pub traffic: &'a Arc<TrafficCounters>,
    /// Its required state; none if it never changes, and its size is not known.
    pub state: Option<&'a SourceMeta>,
    /// Who must have made it, and under which name, if its metadata tell.
    pub maker: Option<(&'a str, &'a str)>,
}

impl Ranged<'_> {
    /// Reads one range. If the body breaks, the rest is requested again, as long as there is progress.
    pub async fn get(&self, range: Range<u64>) -> Result<Bytes, IoError> {
        let expected = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
        let mut bytes = BytesMut::new();
        loop {
            let (before, start) = (bytes.len(), Instant::now());
            let failure = match self.get_rest(&range, &mut bytes).await {
                Ok(()) if bytes.len() == expected => return Ok(bytes.freeze()),
                Ok(()) => self.short(&range, bytes.len() as u64),
                Err(failure) => failure,
            };
            let may_pass = matches!(failure, IoError::Remote { .. } | IoError::ShortRead { .. });
            let is_beyond = bytes.len() > expected;
            // the store has already retried a request that was slow or received nothing
            let came = (bytes.len() - before) as u64;
            let is_vain = came == 0 || self.store.rate.is_missed(came, start.elapsed());
            if !may_pass || is_beyond || is_vain || self.store.most_retries == 0 {
                return Err(failure);
            }
            self.traffic.retry();
            tokio::time::sleep(backoff(0)).await;
        }
    }

    /// The error for an object with fewer bytes.
    fn short(&self, range: &Range<u64>, found: u64) -> IoError {
        IoError::ShortRead {
            url: self.address.url.clone(),
            offset: range.start,
            expected: range.end - range.start,
            found,
        }
    }

    /// Requests the missing rest of a range, and reads as much of it as arrives.
    async fn get_rest(&self, range: &Range<u64>, bytes: &mut BytesMut) -> Result<(), IoError> {
        let (store, url) = (self.store, || self.address.url.clone());
        let failed = |error| match (object::is_unsatisfiable(&error), self.state) {
            // the range is inside the opened object
            (true, Some(_)) => IoError::Changed { url: url() },
            (true, None) => self.short(range, 0),
            (false, _) => object::read(self.address, error),
        };
        let _slot = store.slots.acquire().await;
        let wanted = range.start + bytes.len() as u64..range.end;
        let options = GetOptions {
            if_match: self.state.and_then(|state| state.etag.clone()),
            range: Some(GetRange::Bounded(wanted.clone())),
            extensions: Counted::by(self.traffic),
            ..GetOptions::default()
        };
        let answer = store.objects.get_opts(&self.address.key, options).await;
        let answer = answer.map_err(failed)?;
        match self.state {
            Some(state) if *state != of_object(&answer.meta) || answer.range != wanted => {
                return Err(IoError::Changed { url: url() });
            }
            None if answer.range != wanted => {
                return Err(self.short(range, answer.meta.size.saturating_sub(range.start)));
            }
            _ => {}
        }
        if let (Some((maker, name)), Some(found)) = (self.maker, answer.attributes.get(&MAKER))
            && !is_made_by(found.as_ref(), maker, name)
        {
            return Err(IoError::Remote {
                url: url(),
                source: "this is another object, according to its metadata: it was exchanged, or is of another writer"
                    .into(),
            });
        }
        // the object has them, according to the store
        let n_wanted = wanted.end - wanted.start;
        bytes.reserve(usize::try_from(n_wanted).unwrap_or(usize::MAX));
        let most = bytes.len() as u64 + n_wanted;
        let mut body = answer.into_stream();
        let received = self.traffic.received();
        while let Some(piece) = body.next().await {
            let piece = piece.map_err(failed)?;
            received.fetch_add(piece.len() as u64, Relaxed);
            bytes.extend_from_slice(&piece);
            if bytes.len() as u64 > most {
                break;
            }
        }
        Ok(())
    }
}

/// Known properties of an object.
pub(crate) fn of_object(meta: &ObjectMeta) -> SourceMeta {
    SourceMeta {
        size: meta.size,
        modified: Some(meta.last_modified.into()),
        etag: meta.e_tag.clone(),
    }
}

/// Known properties of an object, its held bytes, and received bytes including duplicates.
type Opened = (SourceMeta, Vec<Held>, Vec<Range<u64>>);

/// Opens an object; starts again if it is replaced between the requests for its ends, if they are wanted.
async fn opened(
    store: &Store,
    address: &Address,
    traffic: &Arc<TrafficCounters>,
    skips_ends: bool,
) -> Result<Opened, IoError> {
    let ends = Ends {
        store,
        address,
        traffic,
    };
    for _ in 0..MOST_TRIES {
        let found = match address.kind {
            _ if skips_ends => ends
                .head()
                .await
                .map(|meta| Some((meta, Vec::new(), Vec::new()))),
            Kind::Azure => ends.known_first().await,
            _ => ends.both().await,
        };
        match found {
            Ok(Some(found)) => return Ok(found),
            // the object was replaced
            Ok(None) | Err(object_store::Error::Precondition { .. }) => {}
            Err(error) => return Err(object::read(address, error)),
        }
    }
    let url = address.url.clone();
    Err(IoError::Changed { url })
}

/// An object that is being opened.
struct Ends<'a> {
    store: &'a Store,
    address: &'a Address,
    traffic: &'a Arc<TrafficCounters>,
}

impl Ends<'_> {
    /// Reads both ends in one round trip; `None` if they belong to different objects.
    async fn both(&self) -> object_store::Result<Option<Opened>> {
        let ranges = [GetRange::Suffix(TAIL), GetRange::Bounded(0..HEAD)];
        let [tail, head] = ranges.map(|range| self.end(range, None));
        let (tail, head) = match join(tail, head).await {
            (Ok(tail), Ok(head)) => (tail, head),
            (Err(error), _) | (_, Err(error)) if object::is_unsatisfiable(&error) => {
                let meta = self.head().await?;
                return match meta.size {
                    0 => Ok(Some((meta, Vec::new(), Vec::new()))),
                    _ => Err(error),
                };
            }
            (Err(error), _) | (_, Err(error)) => return Err(error),
        };
        let read = vec![head.1.0.clone(), tail.1.0.clone()];
        Ok((tail.0 == head.0).then(|| (tail.0, joined_ends(head.1, tail.1), read)))
    }

    /// Like [`Self::both`], for a store that cannot send the end without knowing the size.
    async fn known_first(&self) -> object_store::Result<Option<Opened>> {
        let meta = self.head().await?;
        let size = meta.size;
        let ranges = match size <= HEAD + TAIL {
            true => vec![0..size],
            false => vec![0..HEAD, size - TAIL..size],
        };
        let ranges = ranges.into_iter().filter(|range| !range.is_empty());
        let ranges: Vec<_> = ranges.collect();
        let wanted = ranges
            .iter()
            .cloned()
            .map(|range| self.end(GetRange::Bounded(range), meta.etag.clone()));
        let found = try_join_all(wanted).await?;
        let is_same = found.iter().all(|(other, _)| *other == meta);
        let held = found.into_iter().map(|(_, held)| held).collect();
        Ok(is_same.then_some((meta, held, ranges)))
    }

    /// Requests the properties of the object.
    async fn head(&self) -> object_store::Result<SourceMeta> {
        let options = GetOptions {
            head: true,
            extensions: Counted::by(self.traffic),
            ..GetOptions::default()
        };
        let answer = self.store.objects.get_opts(&self.address.key, options);
        Ok(of_object(&answer.await?.meta))
    }

    async fn end(
        &self,
        range: GetRange,
        if_match: Option<String>,
    ) -> object_store::Result<(SourceMeta, Held)> {
        let most = match &range {
            GetRange::Bounded(range) => range.end - range.start,
            GetRange::Suffix(length) => *length,
            GetRange::Offset(_) => u64::MAX,
        };
        let options = GetOptions {
            if_match,
            range: Some(range),
            extensions: Counted::by(self.traffic),
            ..GetOptions::default()
        };
        let _slot = self.store.slots.acquire().await;
        let answer = self.store.objects.get_opts(&self.address.key, options);
        let answer = answer.await?;
        let meta = of_object(&answer.meta);
        let range = answer.range.clone();
        Ok((meta, (range, whole(answer, most).await?)))
    }
}

/// The body of an answer, up to a maximum length.
async fn whole(answer: GetResult, most: u64) -> object_store::Result<Bytes> {
    let expected = answer.range.end - answer.range.start;
    let mut bytes = BytesMut::new();
    let mut body = answer.into_stream();
    while let Some(piece) = body.next().await {
        bytes.extend_from_slice(&piece?);
        if bytes.len() as u64 > most {
            break;
        }
    }
    if bytes.len() as u64 == expected {
        return Ok(bytes.freeze());
    }
    let (store, found) = ("object", bytes.len());
    Err(object_store::Error::Generic {
        store,
        source: format!("expected {expected} bytes, found {found}").into(),
    })
}

/// The state of an object, without its bytes; none if the store fails: opening will say why.
pub(crate) fn state_of(url: &str, settings: &Settings) -> Result<Option<SourceMeta>, IoError> {
    let address = Address::parse(url)?;
    let options = Options::of(&address, settings)?;
    let store = object::store(&address, &options)?;
    let ends = Ends {
        store: &store,
        address: &address,
        traffic: &Arc::default(),
    };
    let asking = within(&address.url, options.limits.total_timeout, ends.head());
    Ok(wait_for(&address.url, asking)??.ok())
}

/// The entries of a directory in a bucket: keys with its prefix, up to the next slash.
pub(crate) fn list(url: &str, settings: &Settings) -> Result<Vec<RemoteEntry>, IoError> {
    let address = Address::parse(url)?;
    let options = Options::of(&address, settings)?;
    let store = object::store(&address, &options)?;
    let prefix = (!address.key.is_root()).then_some(&address.key);
    let listing = store.objects.list_with_delimiter(prefix);
    let found = wait_for(
        &address.url,
        within(&address.url, options.limits.total_timeout, listing),
    )??;
    let found = found.map_err(|error| object::read(&address, error))?;
    let folders = found.common_prefixes.iter().map(|folder| RemoteEntry {
        name: folder.filename().unwrap_or_default().to_owned(),
        is_folder: true,
        size: None,
        modified: None,
    });
    let files = found.objects.iter().map(|object| RemoteEntry {
        name: object.location.filename().unwrap_or_default().to_owned(),
        is_folder: false,
        size: Some(object.size),
        modified: Some(object.last_modified.into()),
    });
    let entries: Vec<RemoteEntry> = folders.chain(files).collect();
    // a directory exists only if it has entries; a bucket may be empty
    if entries.is_empty() && prefix.is_some() {
        return Err(IoError::NotFound { url: address.url });
    }
    Ok(entries)
}

impl ByteSource for ObjectSource {
    fn info(&self) -> SourceInfo<'_> {
        SourceInfo {
            opening: Some(&self.opening),
            ..SourceInfo::new(&self.address.url, &self.meta, Self::cost())
        }
    }

    fn inner(&self) -> Option<&dyn ByteSource> {
        None
    }

    fn n_requests(&self, ranges: &[Range<u64>]) -> u64 {
        ranges
            .iter()
            .filter(|range| self.held(range).is_none())
            .count() as u64
    }

    fn traffic(&self) -> Option<Traffic> {
        Some(self.traffic.now())
    }

    fn progress(&self) -> Option<u64> {
        Some(self.traffic.n_received())
    }

    fn peek(&self, range: &Range<u64>) -> Option<Bytes> {
        self.held(range)
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, IoError> {
        for range in ranges {
            self.meta.check(&self.address.url, range)?;
        }
        let held: Vec<Option<Bytes>> = ranges.iter().map(|range| self.held(range)).collect();
        if held.iter().all(Option::is_some) {
            return Ok(held.into_iter().flatten().collect());
        }
        let store = self.store()?;
        let object = Ranged {
            store: &store,
            address: &self.address,
            traffic: &self.traffic,
            state: Some(&self.meta),
            maker: None,
        };
        let reads = ranges.iter().zip(held).map(|(range, held)| {
            let (object, range) = (&object, range.clone());
            async move {
                match held {
                    Some(bytes) => Ok(bytes),
                    None => object.get(range).await,
                }
            }
        });
        let url = &self.address.url;
        wait_for(
            url,
            within(url, self.options.limits.total_timeout, try_join_all(reads)),
        )??
    }
}

#[cfg(test)]
mod tests;
