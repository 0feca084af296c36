//! All objects of a set as one source.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use femtobarn_fork::PerProcess;
use futures_util::future::try_join_all;
use object_store::GetOptions;

use super::place::{Bucket, Place, Placement};
use super::{ANCHOR, LARGEST_ANCHOR, located};
use crate::layer::find_held;
use crate::meter::{Opening, Traffic, TrafficCounters};
use crate::object::{self, Counted, Kind, Store};
use crate::pace::within;
use crate::runtime::wait_for;
use crate::source::{Ranged, of_object};
use crate::url::{RemoteEntry, public};
use crate::{ByteSource, IoError, ObjectSource, Settings, SourceCost, SourceInfo, SourceMeta};

/// The objects of a set, as one sparse source: see [`object_address`](super::object_address). It is opened by one request
/// for the anchor, whose state is that of the source, and which is the source's end. A vector read sends one request for
/// each range, concurrently. Objects never change, so nothing is required of their states.
pub struct ObjectSetSource {
    place: Place,
    placement: Placement,
    /// The other bases.
    bases: Vec<Place>,
    stores: PerProcess<Arc<Vec<Arc<Store>>>>,
    meta: SourceMeta,
    anchor: Bytes,
    opening: Opening,
    traffic: Arc<TrafficCounters>,
}

/// The bytes of a range.
enum Wanted {
    /// They are in memory.
    Held(Bytes),
    /// They are a range of an object with a name, at one of the other bases or at the own one.
    Stored {
        id: u64,
        base: Option<usize>,
        name: String,
        range: Range<u64>,
    },
}

impl fmt::Debug for ObjectSetSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ObjectSetSource");
        shown.field("place", &self.place);
        shown.field("meta", &self.meta).finish_non_exhaustive()
    }
}

impl ObjectSetSource {
    /// Opens the objects below a base.
    ///
    /// # Errors
    /// If the URL is invalid, the anchor is missing or cannot be read, or no server answers.
    pub fn open(url: &str, settings: &Settings) -> Result<Arc<Self>, IoError> {
        let opened = Self::at(Place::parse(url, settings)?);
        opened.map_err(|error| match error {
            IoError::NotFound { url } => missing(url, settings),
            error => error,
        })
    }

    fn at(place: Place) -> Result<Arc<Self>, IoError> {
        let traffic = Arc::default();
        let start = Instant::now();
        let (state, anchor) = anchor_of(&place, &traffic)?;
        let size = ANCHOR + anchor.len() as u64;
        let placement = Placement::of(place.url(), &anchor)?;
        let bases = placement.bases().map(|base| place.relative(base));
        Ok(Arc::new(Self {
            bases: bases.collect::<Result<_, _>>()?,
            placement,
            stores: PerProcess::new(),
            meta: SourceMeta { size, ..state },
            opening: Opening::since(start, vec![ANCHOR..size]),
            place,
            anchor,
            traffic,
        }))
    }

    /// How requests are cut.
    pub(crate) fn cost(url: &str) -> SourceCost {
        match crate::url::protocol(url) {
            Some(crate::url::Protocol::Objects(Some(_))) => ObjectSource::cost(),
            _ => SourceCost::default(),
        }
    }

    /// The stores of all bases that are buckets.
    fn stores(&self) -> Result<Arc<Vec<Arc<Store>>>, IoError> {
        self.stores.get(|| {
            let all = std::iter::once(&self.place).chain(&self.bases);
            let stores = all.filter_map(|place| match place {
                Place::Bucket(bucket) => Some(bucket.store()),
                Place::Folder { .. } => None,
            });
            stores.collect::<Result<_, _>>().map(Arc::new)
        })
    }

    /// Where the bytes of a range are.
    fn find(&self, range: &Range<u64>) -> Result<Wanted, IoError> {
        if let Some(bytes) = self.held(range) {
            return Ok(Wanted::Held(bytes));
        }
        self.meta.check(self.place.url(), range)?;
        let (id, start) = located(range.start).unwrap_or((u64::MAX, 0));
        let end = start.saturating_add(range.end - range.start);
        if id == u64::MAX || end > 1 << 32 {
            return Err(IoError::OutOfRange {
                url: self.place.url().to_owned(),
                offset: range.start,
                expected: range.end - range.start,
                found: 0,
                size: self.meta.size,
            });
        }
        let (base, name) = self.placement.find(id);
        let range = start..end;
        Ok(Wanted::Stored {
            id,
            base,
            name,
            range,
        })
    }

    /// The error for an object of a base, if it is missing.
    fn lost(&self, error: IoError, base: Option<usize>) -> IoError {
        match (error, base) {
            (IoError::NotFound { url }, Some(_)) => IoError::NotFound {
                url: format!(
                    "{url}: {} was merged from the ntuple of this object, which was deleted or replaced since",
                    self.place.url()
                ),
            },
            (error, _) => error,
        }
    }

    fn base(&self, at: Option<usize>) -> &Place {
        at.and_then(|at| self.bases.get(at)).unwrap_or(&self.place)
    }

    /// The bytes of a range of the anchor or of an envelope in it, or of nothing.
    fn held(&self, range: &Range<u64>) -> Option<Bytes> {
        if range.is_empty() {
            return Some(Bytes::new());
        }
        if let Some((_, envelope)) = find_held(&self.placement.envelopes, range) {
            return Some(envelope);
        }
        let start = usize::try_from(range.start.checked_sub(ANCHOR)?).ok()?;
        let end = usize::try_from(range.end.checked_sub(ANCHOR)?).ok()?;
        (end <= self.anchor.len()).then(|| self.anchor.slice(start..end))
    }

    /// Reads ranges of files, and opens each file once. Only one file is open at a time.
    fn read_files(&self, wanted: &[Wanted]) -> Result<Vec<Bytes>, IoError> {
        let mut out = vec![Bytes::new(); wanted.len()];
        let mut by_file: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (wanted, bytes) in wanted.iter().zip(&mut out) {
            match wanted {
                Wanted::Held(held) => *bytes = held.clone(),
                Wanted::Stored {
                    base, name, range, ..
                } => {
                    by_file
                        .entry((*base, name))
                        .or_default()
                        .push((range, bytes));
                }
            }
        }
        for ((base, name), reads) in by_file {
            let Place::Folder { url, path } = self.base(base) else {
                continue;
            };
            let file = OpenedFile::open(&Place::file(path, name), format!("{url}/{name}"));
            let file = file.map_err(|error| self.lost(error, base))?;
            for (range, bytes) in reads {
                *bytes = file.read(range)?;
            }
        }
        Ok(out)
    }

    async fn get(&self, stores: &[Arc<Store>], wanted: Wanted) -> Result<Bytes, IoError> {
        let (id, base, name, range) = match wanted {
            Wanted::Held(bytes) => return Ok(bytes),
            Wanted::Stored {
                id,
                base,
                name,
                range,
            } => (id, base, name, range),
        };
        match (self.base(base), stores.get(base.map_or(0, |base| base + 1))) {
            (Place::Bucket(bucket), Some(store)) => {
                let address = &bucket.object(&name)?;
                let maker = self.placement.maker(id);
                let maker = maker.map(|(maker, number)| (maker, number.to_string()));
                let object = Ranged {
                    store,
                    address,
                    traffic: &self.traffic,
                    state: None,
                    maker: maker.as_ref().map(|(maker, name)| (*maker, name.as_str())),
                };
                let read = object.get(range).await;
                read.map_err(|error| self.lost(error, base))
            }
            _ => Err(IoError::NotFound {
                url: self.place.url().to_owned(),
            }),
        }
    }
}

/// The error for an ntuple that does not exist: there may be others below its URL.
pub(super) fn missing(url: String, settings: &Settings) -> IoError {
    let folder = format!("{url}/");
    let below = crate::list_folder(&folder, &settings.but("partial_lists", "true"));
    // numbers are the objects of a writer that was killed
    let is_number = |name: &str| name.parse::<u64>().is_ok();
    let is_other = |entry: &RemoteEntry| {
        !entry.name.starts_with('_') && (entry.is_folder || !is_number(&entry.name))
    };
    let url = match below.is_ok_and(|below| below.iter().any(is_other)) {
        true => format!("{url} is a directory of ntuples: `fb ls {folder}` lists them"),
        false => url,
    };
    IoError::NotFound { url }
}

/// The file of an object or an anchor.
struct OpenedFile {
    file: File,
    url: String,
    state: SourceMeta,
}

impl OpenedFile {
    fn open(path: &Path, url: String) -> Result<Self, IoError> {
        let failed = |error| IoError::from_open(&url, error);
        let file = File::open(path).map_err(failed)?;
        let state = file_state(&file).map_err(failed)?;
        Ok(Self { file, url, state })
    }

    fn read(&self, range: &Range<u64>) -> Result<Bytes, IoError> {
        let (offset, expected) = (range.start, range.end - range.start);
        if range.end > self.state.size {
            return Err(IoError::ShortRead {
                url: self.url.clone(),
                offset,
                expected,
                found: self.state.size.saturating_sub(offset),
            });
        }
        let mut bytes = vec![0; usize::try_from(expected).unwrap_or(usize::MAX)];
        let read = self.file.read_exact_at(&mut bytes, offset);
        read.map_err(|source| IoError::Read {
            url: self.url.clone(),
            offset,
            expected,
            source,
        })?;
        Ok(bytes.into())
    }
}

/// The anchor of a set, and its state.
pub(super) fn anchor_of(
    place: &Place,
    traffic: &Arc<TrafficCounters>,
) -> Result<(SourceMeta, Bytes), IoError> {
    match place {
        Place::Folder { url, path } => {
            let file = OpenedFile::open(&Place::file(path, ""), url.clone())?;
            check_size(url, file.state.size)?;
            let bytes = file.read(&(0..file.state.size))?;
            Ok((file.state, bytes))
        }
        Place::Bucket(bucket) => {
            let (store, url) = (bucket.store()?, place.url());
            let longest = bucket.options.limits.total_timeout;
            wait_for(
                url,
                within(url, longest, get_anchor(bucket, &store, traffic)),
            )??
        }
    }
}

pub(super) fn file_state(file: &File) -> io::Result<SourceMeta> {
    let found = file.metadata()?;
    Ok(SourceMeta {
        size: found.len(),
        modified: found.modified().ok(),
        etag: None,
    })
}

fn check_size(url: &str, size: u64) -> Result<(), IoError> {
    match size <= LARGEST_ANCHOR {
        true => Ok(()),
        false => Err(IoError::Unsupported {
            url: url.to_owned(),
            why: format!(
                "not the anchor of an ntuple: it has {size} bytes, and anchors have at most {LARGEST_ANCHOR}"
            ),
            is_missing: false,
        }),
    }
}

async fn get_anchor(
    bucket: &Bucket,
    store: &Store,
    traffic: &Arc<TrafficCounters>,
) -> Result<(SourceMeta, Bytes), IoError> {
    let address = &bucket.address;
    let failed = |error| object::read(address, error);
    let mut tries = 0;
    loop {
        let options = GetOptions {
            extensions: Counted::by(traffic),
            ..GetOptions::default()
        };
        let answer = store.objects.get_opts(&address.key, options).await;
        let answer = answer.map_err(failed)?;
        let mut state = of_object(&answer.meta);
        // by which Google replaces objects
        if address.kind == Kind::Google && answer.meta.version.is_some() {
            state.etag.clone_from(&answer.meta.version);
        }
        check_size(&address.url, state.size)?;
        // the store does not retry if the body breaks
        match answer.bytes().await {
            Ok(bytes) if bytes.len() as u64 == state.size => return Ok((state, bytes)),
            Ok(_) | Err(_) if tries < store.most_retries => tries += 1,
            Ok(bytes) => {
                return Err(IoError::ShortRead {
                    url: address.url.clone(),
                    offset: 0,
                    expected: state.size,
                    found: bytes.len() as u64,
                });
            }
            Err(error) => return Err(failed(error)),
        }
    }
}

/// The subdirectories of a directory; one with an anchor is also a set.
pub(crate) fn list_folder(url: &str) -> Result<Vec<RemoteEntry>, IoError> {
    let Place::Folder { url, path } = Place::parse(url, &Settings::default())? else {
        return Err(IoError::UnknownScheme { url: public(url) });
    };
    let failed = |error| IoError::from_open(&url, error);
    let mut out = Vec::new();
    for entry in fs::read_dir(&path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let below = entry.path();
        if !below.is_dir() {
            continue;
        }
        let folder = RemoteEntry {
            name: entry.file_name().to_string_lossy().into_owned(),
            is_folder: true,
            size: None,
            modified: None,
        };
        if let Ok(anchor) = fs::metadata(Place::file(&below, "")) {
            out.push(RemoteEntry {
                is_folder: false,
                size: Some(anchor.len()),
                modified: anchor.modified().ok(),
                ..folder.clone()
            });
        }
        out.push(folder);
    }
    Ok(out)
}

/// The state of a set, with one short request; none if its store fails.
pub(crate) fn state_of(url: &str, settings: &Settings) -> Result<Option<SourceMeta>, IoError> {
    let place = Place::parse(url, settings)?;
    let found = anchor_of(&place, &Arc::default()).ok();
    Ok(found.map(|(state, anchor)| SourceMeta {
        size: ANCHOR + anchor.len() as u64,
        ..state
    }))
}

impl ByteSource for ObjectSetSource {
    fn info(&self) -> SourceInfo<'_> {
        let url = self.place.url();
        SourceInfo {
            opening: Some(&self.opening),
            ..SourceInfo::new(url, &self.meta, Self::cost(url))
        }
    }

    fn inner(&self) -> Option<&dyn ByteSource> {
        None
    }

    fn n_requests(&self, ranges: &[Range<u64>]) -> u64 {
        let asked = ranges.iter().filter(|range| self.held(range).is_none());
        asked.count() as u64
    }

    fn traffic(&self) -> Option<Traffic> {
        match self.place {
            Place::Folder { .. } => None,
            Place::Bucket(_) => Some(self.traffic.now()),
        }
    }

    fn progress(&self) -> Option<u64> {
        Some(self.traffic.n_received())
    }

    fn peek(&self, range: &Range<u64>) -> Option<Bytes> {
        self.held(range)
    }

    fn objects_below(&self, base: &str) -> Result<Option<Arc<dyn ByteSource>>, IoError> {
        Ok(Some(Self::at(self.place.relative(base)?)?))
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, IoError> {
        let wanted = ranges.iter().map(|range| self.find(range));
        let wanted: Vec<Wanted> = wanted.collect::<Result<_, _>>()?;
        let all_held = wanted.iter().map(|wanted| match wanted {
            Wanted::Held(bytes) => Some(bytes.clone()),
            Wanted::Stored { .. } => None,
        });
        if let Some(held) = all_held.collect() {
            return Ok(held);
        }
        let Place::Bucket(bucket) = &self.place else {
            return self.read_files(&wanted);
        };
        let stores = self.stores()?;
        let reads = wanted.into_iter().map(|wanted| self.get(&stores, wanted));
        let (url, longest) = (self.place.url(), bucket.options.limits.total_timeout);
        wait_for(url, within(url, longest, try_join_all(reads)))??
    }
}
