//! A layer that keeps ranges that were read in a directory, and reads them from there.

use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

use bytes::Bytes;
use femtobarn_fork::PerProcess;
use femtobarn_xrootd::notice;

use crate::cache::{CacheKey, CachedFile, Counts};
use crate::coalesce::coalesce;
use crate::meter::Traffic;
use crate::remote::{state_of, usual_cost};
use crate::{
    ByteSource, CacheUse, IoError, Settings, SourceCost, SourceInfo, SourceMeta, open_remote,
};

/// Without an entity tag, a file that was changed within this time may be changed again with the same time.
const RECENTLY: std::time::Duration = std::time::Duration::from_secs(2);

/// A vector read is many pages, which become few requests. None of it is decoded before all of it is there, so that it must
/// not be too large.
const MOST_RANGES: usize = 1 << 16;
const LARGEST_VECTOR: u64 = 8 << 20;

/// A source with a cache: it reads cached ranges from there, and adds all others to it. It gets pages and other ranges as
/// they are wanted, and merges only missing ones.
#[derive(Debug)]
pub struct CachedSource {
    url: String,
    meta: SourceMeta,
    /// How requests to the inner source are cut.
    own_cost: SourceCost,
    cache: CachedFile,
    counts: Counts,
    /// Requests for the state of the file, instead of opening it.
    asked: u64,
    inner: OnceLock<Arc<dyn ByteSource>>,
    /// What the inner source is opened by when something is missing, if it was not before.
    opening: Option<Opening>,
    /// Held by the thread that opens it.
    turn: PerProcess<Arc<Mutex<()>>>,
}

/// A source that is not opened yet.
#[derive(Debug)]
struct Opening {
    url: String,
    settings: Settings,
    key: CacheKey,
}

impl CachedSource {
    /// Opens a file of a server, with the cache that its settings name, if any.
    ///
    /// # Errors
    /// As [`open_remote`].
    pub fn open(url: &str, settings: &Settings) -> Result<Arc<dyn ByteSource>, IoError> {
        let Some(key) = CacheKey::of(url, settings)? else {
            return open_remote(url, settings);
        };
        if let Some(state) = key.trusted() {
            return Self::unopened(url, settings, key, state, 0);
        }
        let known = key.states();
        // a short answer tells whether the cached state is still that of the file
        if !known.is_empty()
            && let Some(state) = state_of(url, settings)?
            && known.iter().any(|known| key.is_same(known, &state))
        {
            key.note_seen(&state);
            return Self::unopened(url, settings, key, state, 1);
        }
        Self::over(open_remote(url, settings)?, settings, &key)
    }

    /// A layer over an open source; the source itself if nothing tells the state of its file.
    pub(crate) fn over(
        inner: Arc<dyn ByteSource>,
        settings: &Settings,
        key: &CacheKey,
    ) -> Result<Arc<dyn ByteSource>, IoError> {
        let meta = inner.state();
        key.note_seen(&meta);
        let Some(cache) = key.file(&meta).filter(|_| !may_change(&meta)) else {
            if meta.etag.is_none() && meta.modified.is_none() {
                let url = inner.url();
                let text = format!(
                    "{url} is not cached: its server reports neither a modification time nor an entity tag; set \
                     immutable=true if the file never changes"
                );
                notice(&format!("cache {url}"), &text);
            }
            return Ok(inner);
        };
        Ok(Arc::new(Self {
            url: inner.url().to_owned(),
            meta: inner.meta().clone(),
            own_cost: settings.cost(inner.cost())?,
            cache,
            counts: Counts::default(),
            asked: 0,
            inner: OnceLock::from(inner),
            opening: None,
            turn: PerProcess::new(),
        }))
    }

    /// A layer over a source that is opened when it is needed.
    fn unopened(
        url: &str,
        settings: &Settings,
        key: CacheKey,
        meta: SourceMeta,
        asked: u64,
    ) -> Result<Arc<dyn ByteSource>, IoError> {
        let Some(cache) = key.file(&meta) else {
            return open_remote(url, settings);
        };
        Ok(Arc::new(Self {
            url: crate::public(url),
            meta,
            own_cost: settings.cost(usual_cost(url))?,
            cache,
            counts: Counts::default(),
            asked,
            inner: OnceLock::new(),
            opening: Some(Opening {
                url: url.to_owned(),
                settings: settings.clone(),
                key,
            }),
            turn: PerProcess::new(),
        }))
    }

    fn opened(&self) -> Result<&Arc<dyn ByteSource>, IoError> {
        if let Some(inner) = self.inner.get() {
            return Ok(inner);
        }
        let changed = || IoError::Changed {
            url: self.url.clone(),
        };
        let turn = self.turn.get(|| Ok::<_, IoError>(Arc::default()))?;
        let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(inner) = self.inner.get() {
            return Ok(inner);
        }
        let Opening { url, settings, key } = self.opening.as_ref().ok_or_else(changed)?;
        // the ends of the file are in the cache
        let inner = open_remote(url, &settings.without_ends())?;
        if !key.is_state_of(&self.meta, &*inner) {
            key.forget(&self.meta);
            return Err(changed());
        }
        Ok(self.inner.get_or_init(|| inner))
    }
}

/// Whether a file may change without its state saying so.
fn may_change(meta: &SourceMeta) -> bool {
    let age = meta
        .modified
        .map(|time| SystemTime::now().duration_since(time));
    meta.etag.is_none() && age.and_then(Result::ok).is_some_and(|age| age < RECENTLY)
}

impl ByteSource for CachedSource {
    fn info(&self) -> SourceInfo<'_> {
        let cost = SourceCost {
            merges: false,
            most_ranges: MOST_RANGES,
            largest_vector: self.own_cost.largest_vector.min(LARGEST_VECTOR),
            ..self.own_cost
        };
        // what opening has read is counted as it is asked for
        SourceInfo::new(&self.url, &self.meta, cost)
    }

    fn inner(&self) -> Option<&dyn ByteSource> {
        self.inner.get().map(|inner| &**inner)
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, IoError> {
        self.read_noting(ranges, &mut Vec::new())
    }

    fn read_noting(
        &self,
        ranges: &[Range<u64>],
        read: &mut Vec<Range<u64>>,
    ) -> Result<Vec<Bytes>, IoError> {
        for range in ranges {
            self.meta.check(&self.url, range)?;
        }
        let fetch = |missing: &[Range<u64>]| self.opened()?.read_ranges(missing);
        let with = (self.url.as_str(), &self.own_cost, &self.counts);
        self.cache.read(ranges, with, &fetch, read)
    }

    fn will_need(&self, ranges: &[Range<u64>]) {
        if let Some(inner) = self.inner.get() {
            inner.will_need(&self.cache.missing(ranges));
        }
    }

    fn reject(&self, range: &Range<u64>, again: bool) -> bool {
        let bad = self.cache.reject(range);
        self.counts.note_bad(bad);
        let has_other = self.inner().is_some_and(|inner| inner.reject(range, again));
        bad > 0 || has_other
    }

    fn holds(&self, range: &Range<u64>) -> bool {
        self.cache.holds(range)
    }

    fn n_requests(&self, ranges: &[Range<u64>]) -> u64 {
        let requests = coalesce(&self.cache.missing(ranges), &self.own_cost);
        let ranges: Vec<Range<u64>> = requests.into_iter().map(|request| request.range).collect();
        match self.inner() {
            Some(inner) => inner.n_requests(&ranges),
            None => ranges.len() as u64,
        }
    }

    fn traffic(&self) -> Option<Traffic> {
        let inner = self.inner().and_then(ByteSource::traffic);
        let mut traffic = inner.unwrap_or_default();
        traffic.requests += self.asked;
        Some(traffic)
    }

    fn cached(&self) -> Option<CacheUse> {
        Some(self.counts.now())
    }
}
