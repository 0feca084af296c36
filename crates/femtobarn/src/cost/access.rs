//! What a pass reads: columns, or the pages that a trace has recorded.

use std::collections::BTreeMap;
use std::ops::Range;

use femtobarn_io::{Operation, is_daos, object_address, public};
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::Reader;
use femtobarn_rntuple::read::storage::cost_of;
use femtobarn_rntuple::spec::{PageAddress, StoredRange};

use super::layout::Opened;
use crate::open::{HEAD, TAIL};
use crate::pattern::{is_pattern, matches};
use crate::replay::Trace;

/// A page, by the first entry of its cluster, its column, and its number among the pages of the column there.
type PageNumber = (u64, u32, usize);

/// What is read in a pass.
#[derive(Debug)]
pub(super) enum Access {
    /// All entries of these columns; of all columns without names.
    Columns(Option<Vec<String>>),
    /// For each time that the file was opened, the pages that were read then.
    Pages(Vec<Vec<PageNumber>>),
}

/// The requests of a pass, and the bytes that they fetch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pass {
    /// Requests to open the ntuple, and for page lists.
    pub metadata_requests: u64,
    /// Bytes of these, without the anchor of objects.
    pub metadata_bytes: u64,
    /// Requests for pages.
    pub requests: u64,
    /// Bytes of these, with gaps.
    pub bytes: u64,
    /// The pages, without gaps.
    pub bytes_needed: u64,
}

impl Pass {
    /// All requests.
    #[must_use]
    pub fn all_requests(&self) -> u64 {
        self.metadata_requests + self.requests
    }

    /// All bytes.
    #[must_use]
    pub fn all_bytes(&self) -> u64 {
        self.metadata_bytes + self.bytes
    }
}

impl Access {
    /// The requests of a pass. `open` opens the ntuple, each time anew.
    pub fn pass(
        &self,
        open: &dyn Fn() -> Result<Opened, RNTupleError>,
    ) -> Result<Pass, RNTupleError> {
        let mut out = Pass::default();
        let mut add = |opened: &Opened, requests: u64, bytes: u64, needed: u64| {
            let metadata = opened.requested();
            out.metadata_requests += metadata.0;
            out.metadata_bytes += metadata.1;
            out.requests += requests;
            out.bytes += bytes;
            out.bytes_needed += needed;
        };
        match self {
            Self::Columns(paths) => {
                let opened = open()?;
                let selection = opened.ntuple.select(paths.as_deref())?;
                let entries = 0..opened.ntuple.n_entries();
                let plan = opened.ntuple.explain(&selection, entries)?;
                add(&opened, plan.requests, plan.bytes_read, plan.bytes_needed);
            }
            Self::Pages(sessions) => {
                for pages in sessions {
                    let opened = open()?;
                    let wanted = stored(&opened.reader, pages)?;
                    let needed = wanted.iter().map(|stored| stored.size).sum();
                    let cost = cost_of(opened.reader.store(), &wanted);
                    add(&opened, cost.requests, cost.bytes, needed);
                }
            }
        }
        Ok(out)
    }
}

/// The fields that match names and patterns; none for all.
///
/// # Errors
/// The first pattern that matches none.
pub fn matching(reader: &Reader, given: &[String]) -> Result<Option<Vec<String>>, String> {
    if given.is_empty() {
        return Ok(None);
    }
    let mut paths: Vec<String> = Vec::new();
    for name in given {
        if !is_pattern(name) {
            paths.push(name.clone());
            continue;
        }
        let named = reader.paths().iter().flatten();
        let before = paths.len();
        paths.extend(named.filter(|path| matches(name, path)).cloned());
        if paths.len() == before {
            return Err(name.clone());
        }
    }
    Ok(Some(paths))
}

/// Where these pages are stored, in the order of the store and without duplicates.
fn stored(reader: &Reader, pages: &[PageNumber]) -> Result<Vec<StoredRange>, RNTupleError> {
    let mut clusters: BTreeMap<u64, Vec<(u32, usize)>> = BTreeMap::new();
    for &(first, column, number) in pages {
        clusters.entry(first).or_default().push((column, number));
    }
    let mut out = Vec::with_capacity(pages.len());
    for (first, wanted) in clusters {
        for (_, list) in reader.page_lists(first..first + 1)? {
            let mut at = list.clusters().iter();
            let Some(index) = at.position(|cluster| cluster.first_entry == first) else {
                continue;
            };
            for &(column, number) in &wanted {
                let own = list.column(index, column).map(|own| list.pages(own));
                out.extend(
                    own.and_then(|own| own.get(number))
                        .map(|page| page.stored()),
                );
            }
        }
    }
    out.sort_unstable();
    out.dedup();
    Ok(out)
}

/// The pages of an ntuple that a trace has read, for each time that its file was opened. Ranges that are only read to open
/// a file are left out.
pub(super) fn recorded(trace: &Trace, reader: &Reader) -> Result<Access, RNTupleError> {
    let mut url = public(reader.url());
    if is_daos(&url) {
        url = format!("{url}:{}", reader.path());
    }
    let files = trace.files();
    let name = |url: &str| url.rsplit('/').next().unwrap_or_default().to_owned();
    let is_same = |shown: &str| shown == url || shown.ends_with(&format!("/{url}"));
    let is_exact = files.iter().any(|file| is_same(&file.shown()));
    // the same file at another place
    let own = files.iter().filter(|file| match is_exact {
        true => is_same(&file.shown()),
        false => name(&file.shown()) == name(&url),
    });
    let size = reader.store().info().meta.size;
    let ends = [0..size.min(HEAD), size.saturating_sub(TAIL)..size, 0..size];
    let mut sessions = Vec::new();
    for file in own {
        let reads = file.done();
        let reads = reads.filter(|action| matches!(action.operation, Operation::Read(..)));
        let ranges = reads.flat_map(|action| action.ranges());
        let ranges = ranges.filter(|range| !ends.contains(range));
        let read = touched(reader, ranges.collect())?;
        if !read.is_empty() {
            sessions.push(read);
        }
    }
    if sessions.is_empty() {
        let shown: Vec<String> = files.iter().map(|file| file.shown()).collect();
        let others = match shown.as_slice() {
            [] => "it has no files".to_owned(),
            [only] => format!("it has only {only}"),
            [first, rest @ ..] => format!("it has {first} and {} more", rest.len()),
        };
        return Err(RNTupleError::Usage {
            what: format!(
                "the trace has no reads of pages of {url}: {others}; record one with fb.record or --record"
            ),
        });
    }
    Ok(Access::Pages(sessions))
}

/// The pages that are completely in some ranges of a source.
fn touched(reader: &Reader, mut ranges: Vec<Range<u64>>) -> Result<Vec<PageNumber>, RNTupleError> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    let is_read = |stored: &StoredRange| {
        let start = match stored.address {
            PageAddress::File(offset) => Some(offset),
            PageAddress::Object { id, offset } => object_address(id, offset),
            PageAddress::Unknown(_) => None,
        };
        start.is_some_and(|start| {
            let before = joined.partition_point(|range| range.start <= start);
            let around = before.checked_sub(1).and_then(|at| joined.get(at));
            around.is_some_and(|range| start + stored.size <= range.end)
        })
    };
    let mut out = Vec::new();
    for (_, list) in reader.page_lists(0..u64::MAX)? {
        for (index, cluster) in list.clusters().iter().enumerate() {
            let n_columns = u32::try_from(list.n_columns(index)).unwrap_or(u32::MAX);
            for column in 0..n_columns {
                let pages = list.column(index, column).map(|own| list.pages(own));
                let pages = pages.unwrap_or_default().iter().enumerate();
                let read = pages.filter(|(_, page)| is_read(&page.stored()));
                out.extend(read.map(|(number, _)| (cluster.first_entry, column, number)));
            }
        }
    }
    Ok(out)
}
