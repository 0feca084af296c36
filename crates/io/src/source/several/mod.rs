//! A source over several sources of the same file: see design 013.
//!
//! What is read by whom is decided by [`schedule::Schedule`], which is pure; [`crew::Crew`] does it, with threads.

use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use femtobarn_fork::PerProcess;

use crate::meter::Traffic;
use crate::url::{public, split_sources};
use crate::{ByteSource, IoError, Settings, SourceCost, SourceInfo, SourceMeta};

mod assign;
mod choose;
mod crew;
mod delivered;
mod join;
mod member;
mod pieces;
mod quality;
mod report;
mod schedule;
mod share;
#[cfg(test)]
mod simulated;
mod state;
#[cfg(test)]
mod tests;

pub use member::SourceState;
pub use report::SourceStatus;

use crew::{Crew, Plan};

/// The beginning of a file that all of its sources must have in common.
const HEAD: u64 = 64 << 10;

/// Sources that are read at the same time, if no setting says another number.
const MOST_ACTIVE: usize = 2;

/// Opens one source of a file: the first, or another one, on none of these servers if a redirector of XRootD knows others.
pub(crate) type OpenSource =
    fn(&str, &Settings, Option<&[String]>) -> Result<Arc<dyn ByteSource>, IoError>;

/// Opens a file that may have several sources: several URLs, or a redirector that may know several servers. A file with one
/// source is opened as it is.
///
/// # Errors
/// If none of the sources can be opened, with what each said.
pub(crate) fn open_several(
    url: &str,
    settings: &Settings,
    open: OpenSource,
) -> Result<Arc<dyn ByteSource>, IoError> {
    let most = settings.number("sources")?.unwrap_or(MOST_ACTIVE);
    let (urls, size) = split_sources(url);
    let urls: Vec<String> = urls.into_iter().map(str::to_owned).collect();
    let first = match urls.as_slice() {
        [only] if size.is_none() => {
            let source = open(only, settings, None)?;
            if most < 2 || source.chosen_server().is_none() {
                return Ok(source);
            }
            Some(source)
        }
        _ => None,
    };
    let plan = Plan {
        shown: public(url),
        urls,
        size,
        settings: settings.clone(),
        most_active: most,
        open,
    };
    Ok(Arc::new(SeveralSource::open(plan, first)?))
}

/// A file that is read from several sources.
#[derive(Debug)]
struct SeveralSource {
    plan: Arc<Plan>,
    meta: SourceMeta,
    cost: SourceCost,
    /// The number of the source that was opened first, and itself.
    first: (usize, Arc<dyn ByteSource>),
    /// A forked process gets another one, as threads do not exist there.
    crew: PerProcess<Arc<Crew>>,
}

impl SeveralSource {
    fn open(plan: Plan, first: Option<Arc<dyn ByteSource>>) -> Result<Self, IoError> {
        let plan = Arc::new(plan);
        let crew = Crew::new(plan.clone());
        let first = match first {
            Some(source) => {
                crew.start_with(0, &source);
                (0, source)
            }
            None => crew.first()?,
        };
        let (meta, cost) = (first.1.meta(), first.1.cost());
        Ok(Self {
            // tags and times may differ between sources
            meta: SourceMeta {
                size: meta.size,
                ..SourceMeta::default()
            },
            cost: SourceCost {
                concurrency: cost
                    .concurrency
                    .saturating_mul(plan.urls.len().min(plan.most_active).min(2)),
                ..cost
            },
            plan,
            first,
            crew: PerProcess::of(crew),
        })
    }

    /// The crew that reads.
    fn crew(&self) -> Arc<Crew> {
        let started = self.crew.get(|| {
            let new = Crew::new(self.plan.clone());
            new.start_with(self.first.0, &self.first.1);
            Ok(new)
        });
        started.unwrap_or_else(|never: Infallible| match never {})
    }

    /// Reads what the first source has in memory already, if it has all of it.
    fn held(&self, ranges: &[Range<u64>], crew: &Crew) -> Option<Result<Vec<Bytes>, IoError>> {
        if ranges.iter().all(Range::is_empty) {
            return Some(Ok(vec![Bytes::new(); ranges.len()]));
        }
        let (number, first) = &self.first;
        let is_held = |range: &Range<u64>| range.is_empty() || first.peek(range).is_some();
        if !ranges.iter().all(is_held) || !crew.trusts(*number) {
            return None;
        }
        let found = first.read_ranges(ranges);
        if let Ok(found) = &found {
            crew.note_held(*number, ranges, found);
        }
        Some(found)
    }
}

impl Drop for SeveralSource {
    fn drop(&mut self) {
        if let Some(crew) = self.crew.known() {
            crew.close();
        }
    }
}

impl ByteSource for SeveralSource {
    fn info(&self) -> SourceInfo<'_> {
        SourceInfo {
            opening: self.first.1.info().opening,
            ..SourceInfo::new(&self.plan.shown, &self.meta, self.cost)
        }
    }

    fn inner(&self) -> Option<&dyn ByteSource> {
        None
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, IoError> {
        for range in ranges {
            self.meta.check(&self.plan.shown, range)?;
        }
        let crew = self.crew();
        match self.held(ranges, &crew) {
            Some(found) => found,
            None => crew.read(ranges),
        }
    }

    fn state(&self) -> SourceMeta {
        self.first.1.state()
    }

    fn reject(&self, range: &Range<u64>, again: bool) -> bool {
        self.crew().reject(range, again)
    }

    fn peek(&self, range: &Range<u64>) -> Option<Bytes> {
        let (number, first) = &self.first;
        let held = first.peek(range)?;
        self.crew().trusts(*number).then_some(held)
    }

    fn n_requests(&self, ranges: &[Range<u64>]) -> u64 {
        self.first.1.n_requests(ranges)
    }

    fn traffic(&self) -> Option<Traffic> {
        Some(self.crew().traffic())
    }

    fn sources(&self) -> Option<Vec<SourceStatus>> {
        Some(self.crew().statuses())
    }
}
