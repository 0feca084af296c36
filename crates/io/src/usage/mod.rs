//! What files were asked for, as people want to know it: of one source, of some, or of all of a process.

mod ledger;
mod rates;
mod text;

use std::collections::BTreeMap;
use std::time::Duration;

pub(crate) use ledger::{File, Origin, note_open, note_rate, process_totals};
pub use ledger::{Process, ServerTotals};
pub use rates::Rates;
pub(crate) use text::{BINS, mean, peak, percent, rate_lines, three};
pub use text::{plot, summary};

use crate::meter::{CacheUse, Meter, Metered, Span, Traffic};
use crate::{ByteSource, SourceInfo, SourceState, SourceStatus};

/// The reads of one source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    /// Its URL, without secrets.
    pub url: String,
    /// Its size in bytes.
    pub size: u64,
    /// Counters of its reads.
    pub metered: Metered,
    /// What its server was asked; for sources without counters, each range is a request.
    pub traffic: Traffic,
    /// What a cache served in place of its server.
    pub cached: CacheUse,
    /// The reads, the first ones of very many.
    pub spans: Vec<Span>,
}

impl Usage {
    /// That of a source or a store, with the requests that its server got, and what a cache served; none if its reads are
    /// not counted.
    pub fn of(
        info: SourceInfo<'_>,
        traffic: Option<Traffic>,
        cached: Option<CacheUse>,
    ) -> Option<Self> {
        let meter: &Meter = info.meter?;
        let metered = meter.now();
        Some(Self {
            url: info.url.to_owned(),
            size: info.meta.size,
            metered,
            traffic: traffic.unwrap_or_else(|| metered.as_traffic()),
            cached: cached.unwrap_or_default(),
            spans: meter.spans(),
        })
    }
}

impl Usage {
    /// The file as its only source.
    #[must_use]
    pub fn as_source(&self) -> SourceStatus {
        SourceStatus {
            url: self.url.clone(),
            server: None,
            state: SourceState::Active,
            quality: None,
            rate: None,
            n_bytes: self.metered.bytes,
            n_requests: self.metered.vectors,
            errors: Vec::new(),
        }
    }
}

/// Notes that so many of the bytes that were read of a source were wanted, if its reads are counted.
pub fn note_used(source: &dyn ByteSource, bytes: u64) {
    if let Some(meter) = source.meter() {
        meter.note_used(bytes);
    }
}

/// The reads of several sources.
#[derive(Debug, Clone)]
pub struct Totals {
    /// How often a file was opened.
    pub opened: u64,
    /// Number of different files.
    pub files: u64,
    /// Size of all different files.
    pub size: u64,
    /// Sums of the counters.
    pub metered: Metered,
    /// Sums of the requests.
    pub traffic: Traffic,
    /// Sums of what caches served.
    pub cached: CacheUse,
    /// Bytes over time.
    pub rates: Rates,
}

impl Totals {
    /// The sums of these.
    #[must_use]
    pub fn of(usages: &[Usage]) -> Self {
        // one that was opened several times is one file
        let sizes: BTreeMap<&str, u64> = usages.iter().map(|u| (u.url.as_str(), u.size)).collect();
        let spans = || usages.iter().flat_map(|usage| &usage.spans);
        let origin = spans().map(|span| span.start).min();
        let mut totals = Self {
            opened: usages.len() as u64,
            files: sizes.len() as u64,
            size: sizes.values().sum(),
            ..Self::since(origin.unwrap_or_default())
        };
        for usage in usages {
            totals.metered += usage.metered;
            totals.traffic += usage.traffic;
            totals.cached += usage.cached;
        }
        for span in spans() {
            totals.rates.add(span.start, span.duration, span.n_bytes());
        }
        totals
    }

    /// None yet.
    const fn since(origin: Duration) -> Self {
        Self {
            opened: 0,
            files: 0,
            size: 0,
            metered: Metered::NONE,
            traffic: Traffic::NONE,
            cached: CacheUse::NONE,
            rates: Rates::since(origin),
        }
    }
}
