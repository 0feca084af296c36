//! Files on HTTP servers, including WebDAV (RFC 9110, RFC 4918).

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use bytes::Bytes;
use femtobarn_fork::lock;

use crate::layer::{Held, find_held};
use crate::meter::{Opening, Traffic, TrafficCounters};
use crate::pace::within;
use crate::runtime::wait_for;
use crate::{ByteSource, IoError, RemoteEntry, Settings, SourceCost, SourceInfo, SourceMeta};

mod answer;
mod body;
mod client;
mod failure;
mod list;
mod multipart;
mod open;
mod plan;
mod probe;
mod propfind;
mod read;
mod request;
mod target;
#[cfg(test)]
mod tests;
mod upload;

pub use failure::HttpError;
pub(crate) use probe::{HttpProbe, probe, start};
pub(crate) use upload::HttpUpload;

use answer::Version;
use client::{Client, Limits};
use open::{Ends, Opened};
use read::Reading;
use request::Call;
use target::Target;

/// The ranges that readers of ROOT files need first, so that they cost no extra request.
const ENDS: Ends = Ends {
    head: 64 << 10,
    tail: 256 << 10,
};

/// A file on an HTTP server (`http://`, `https://`, `dav://`, `davs://`). The ranges of a vector read are requested
/// concurrently. If there are many and the server supports it, requests have many ranges each.
#[derive(Debug)]
pub struct HttpSource {
    target: Target,
    limits: Limits,
    version: Version,
    meta: SourceMeta,
    /// Bytes received at opening, until they are used.
    held: Mutex<Vec<Held>>,
    opening: Opening,
    traffic: TrafficCounters,
}

impl HttpSource {
    /// Opens a file, with one round trip for servers that send the end of a file of unknown size.
    ///
    /// # Errors
    /// If the URL is invalid, the file does not exist or is not readable, no server answers, or a large file is on a
    /// server without ranges.
    pub fn open(url: &str, settings: &Settings) -> Result<Arc<Self>, IoError> {
        let none = Ends { head: 1, tail: 0 };
        Self::open_ends(
            url,
            settings,
            if settings.skips_ends() { none } else { ENDS },
        )
    }

    /// How requests are cut.
    pub(crate) fn cost() -> SourceCost {
        SourceCost {
            // A request takes about 300 bytes and 400 for its answer, and many share a round trip. Larger gaps would
            // save requests, but read too much. For 26 columns of a NanoAOD with 1000 events: 38 requests and 1.6 %
            // excess with 2 KiB, 35 and 5 % with 4 KiB, 27 and 25 % with 8 KiB.
            largest_gap: 2 << 10,
            // larger reads are split over several connections
            largest_request: plan::LARGEST,
            most_ranges: 1024,
            // each vector read sends many requests
            concurrency: 4,
            ..SourceCost::default()
        }
    }

    fn open_ends(url: &str, settings: &Settings, ends: Ends) -> Result<Arc<Self>, IoError> {
        let limits = Limits::of(settings, target::is_dav(url))?;
        let target = Target::parse(url, settings)?;
        if target.is_folder() {
            let (url, found) = (target.url, "a directory");
            return Err(IoError::NotAFile { url, found });
        }
        let client = Client::shared(&limits, &target.url)?;
        let traffic = TrafficCounters::default();
        let call = Call {
            client: &client,
            target: &target,
            traffic: &traffic,
        };
        let start = Instant::now();
        let opening = within(&target.url, limits.total_timeout, open::open(call, ends));
        let opened = wait_for(&target.url, opening)??;
        let Opened {
            version,
            held,
            read,
        } = opened.map_err(|error| error.of(&target))?;
        Ok(Arc::new(Self {
            meta: meta_of(&version),
            held: Mutex::new(held),
            opening: Opening::since(start, read),
            traffic,
            target,
            limits,
            version,
        }))
    }

    /// The bytes of a range, if they are held. An end is released with its last reader, because the answer itself is
    /// kept.
    fn held(&self, range: &Range<u64>) -> Option<Bytes> {
        let mut held = lock(&self.held);
        let (number, found) = find_held(&held, range)?;
        let is_whole = held.get(number).is_some_and(|(at, _)| at == range);
        let is_end = is_whole && range.end - range.start < self.meta.size;
        if is_end {
            held.swap_remove(number);
        }
        Some(found)
    }

    fn fetch(&self, ranges: &[Range<u64>]) -> Result<Vec<(Range<u64>, Bytes)>, IoError> {
        let client = Client::shared(&self.limits, &self.target.url)?;
        let reading = Reading {
            call: Call {
                client: &client,
                target: &self.target,
                traffic: &self.traffic,
            },
            version: &self.version,
        };
        let work = reading.pieces(plan::pieces(ranges));
        let url = &self.target.url;
        let found = wait_for(url, within(url, self.limits.total_timeout, work))??;
        let mut found = found.map_err(|error| error.of(&self.target))?;
        found.sort_by_key(|(piece, _)| piece.start);
        Ok(found)
    }
}

/// The state of a file, without its bytes; none if the server does not report it, or fails: opening will say why.
pub(crate) fn state_of(url: &str, settings: &Settings) -> Result<Option<SourceMeta>, IoError> {
    let limits = Limits::of(settings, target::is_dav(url))?;
    let target = Target::parse(url, settings)?;
    let client = Client::shared(&limits, &target.url)?;
    let call = Call {
        client: &client,
        target: &target,
        traffic: &TrafficCounters::default(),
    };
    let asking = within(&target.url, limits.total_timeout, open::version(call));
    let version = wait_for(&target.url, asking)??;
    Ok(version.map(|version| meta_of(&version)))
}

fn meta_of(version: &Version) -> SourceMeta {
    SourceMeta {
        size: version.size,
        modified: version.modified(),
        etag: version.etag.clone(),
    }
}

/// The entries of a directory on a server.
pub(crate) fn list(url: &str, settings: &Settings) -> Result<Vec<RemoteEntry>, IoError> {
    let limits = Limits::of(settings, target::is_dav(url))?;
    let target = Target::parse(url, settings)?.into_folder();
    let client = Client::shared(&limits, &target.url)?;
    let call = Call {
        client: &client,
        target: &target,
        traffic: &TrafficCounters::default(),
    };
    let work = within(&target.url, limits.total_timeout, list::list(call));
    let found = wait_for(&target.url, work)??;
    found.map_err(|error| error.of(&target))
}

impl ByteSource for HttpSource {
    fn info(&self) -> SourceInfo<'_> {
        SourceInfo {
            opening: Some(&self.opening),
            ..SourceInfo::new(&self.target.url, &self.meta, Self::cost())
        }
    }

    fn inner(&self) -> Option<&dyn ByteSource> {
        None
    }

    fn n_requests(&self, ranges: &[Range<u64>]) -> u64 {
        let missing: Vec<Range<u64>> = {
            let held = lock(&self.held);
            let is_missing = |r: &&Range<u64>| !r.is_empty() && find_held(&held, r).is_none();
            ranges.iter().filter(is_missing).cloned().collect()
        };
        let Ok(client) = Client::shared(&self.limits, &self.target.url) else {
            return missing.len() as u64;
        };
        let host = client.host(&self.target.place());
        let pieces = plan::pieces(&missing);
        let at_once = self.limits.concurrency;
        plan::groups(pieces, at_once, host.many.get()).n_requests(at_once) as u64
    }

    fn traffic(&self) -> Option<Traffic> {
        Some(self.traffic.now())
    }

    fn progress(&self) -> Option<u64> {
        Some(self.traffic.n_received())
    }

    fn peek(&self, range: &Range<u64>) -> Option<Bytes> {
        if range.is_empty() {
            return Some(Bytes::new());
        }
        let held = lock(&self.held);
        find_held(&held, range).map(|(_, bytes)| bytes)
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, IoError> {
        for range in ranges {
            self.meta.check(self.url(), range)?;
        }
        let empty = |range: &Range<u64>| range.is_empty().then(Bytes::new);
        let known: Vec<Option<Bytes>> = ranges
            .iter()
            .map(|range| empty(range).or_else(|| self.held(range)))
            .collect();
        let pairs = ranges.iter().zip(&known);
        let missing: Vec<Range<u64>> = pairs
            .filter(|(_, known)| known.is_none())
            .map(|(range, _)| range.clone())
            .collect();
        let found = if missing.is_empty() {
            Vec::new()
        } else {
            self.fetch(&missing)?
        };
        let one = |(range, known): (&Range<u64>, Option<Bytes>)| {
            let made = known.or_else(|| plan::assembled(range, &found));
            made.ok_or_else(|| IoError::ShortRead {
                url: self.target.url.clone(),
                offset: range.start,
                expected: range.end - range.start,
                found: 0,
            })
        };
        ranges.iter().zip(known).map(one).collect()
    }
}
