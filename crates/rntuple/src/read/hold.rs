//! Fetching stored bytes before it is known whether they will be decoded.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

use bytes::Bytes;
use femtobarn_fork::lock;

use super::ahead::Needed;
use super::fetch::{Decode, requests, run};
use super::held::Held;
use super::options::{Progress, ReadOptions};
use super::plan::{Part, segments, slot_source};
use super::selection::ReadSchema;
use super::stats::Stats;
use crate::RNTupleError;
use crate::spec::{PageAddress, StoredRange};

/// Reads these, together.
///
/// # Errors
/// If any of them cannot be read; then none is kept.
pub(super) fn hold(
    held: &mut Held,
    parts: &[Part],
    wanted: Vec<Needed>,
    options: &ReadOptions<'_>,
) -> Result<(), RNTupleError> {
    let mut known = HashSet::new();
    let is_new = |one: &Needed| {
        held.get(one.part, &one.stored).is_none() && known.insert((one.part, one.stored.address))
    };
    let wanted = wanted.into_iter().filter(is_new).collect();
    let work = requests(parts, wanted, None);
    let found = Mutex::default();
    let keeper = || Keeper {
        found: &found,
        stats: Stats::default(),
    };
    run(parts, work, None, options, &Progress::new(), keeper)?;
    held.found.extend(std::mem::take(&mut *lock(&found)));
    Ok(())
}

/// Keeps the bytes instead of decoding them.
struct Keeper<'a> {
    found: &'a Mutex<HashMap<(usize, PageAddress), Bytes>>,
    stats: Stats,
}

impl Decode<Needed> for Keeper<'_> {
    fn decode(&mut self, job: &mut Needed, stored: &[u8]) -> Result<(), RNTupleError> {
        let key = (job.part, job.stored.address);
        lock(self.found).insert(key, Bytes::copy_from_slice(stored));
        Ok(())
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }

    fn into_stats(self) -> Stats {
        self.stats
    }
}

/// The pages or baskets of each slot. Of a cluster that is read in part, there may be one too many at each side.
pub(super) fn stored_of(
    schema: &ReadSchema,
    parts: &[Part],
) -> Result<Vec<Vec<Needed>>, RNTupleError> {
    let mut out: Vec<Vec<Needed>> = schema.slots.as_slice().iter().map(|_| Vec::new()).collect();
    for (id, part) in parts.iter().enumerate() {
        if let Some(storage) = part.reader.storage() {
            for (out, cost) in out.iter_mut().zip(storage.costs(schema, part)?) {
                let stored = cost.ranges.into_iter().map(StoredRange::of_file);
                out.extend(stored.map(|stored| Needed { part: id, stored }));
            }
        }
    }
    // columns in another format have no segments
    let first = parts.first().and_then(|first| first.reader.storage());
    let segments = match first {
        Some(_) => Vec::new(),
        None => segments(parts)?,
    };
    for segment in segments {
        let Some(part) = parts.get(segment.part) else {
            continue;
        };
        let n_entries = u128::from(segment.summary.n_entries.max(1));
        let slots = schema.slots.as_slice().iter().enumerate();
        for ((index, slot), out) in slots.zip(&mut out) {
            let source = slot_source(part, &segment, index, slot)?;
            let n_elements = u128::from(source.n_elements());
            // where they are if entries have equally many elements
            let low = n_elements * u128::from(segment.low) / n_entries;
            let high = (n_elements * u128::from(segment.high)).div_ceil(n_entries);
            let mut end = 0;
            let ends = source.pages.iter().map(|page| {
                end += u128::from(page.n_elements);
                end
            });
            let ends: Vec<u128> = ends.collect();
            let mut from = ends.partition_point(|&end| end <= low);
            let mut to = ends.partition_point(|&end| end < high).saturating_add(1);
            if !segment.is_whole() {
                (from, to) = (from.saturating_sub(1), to.saturating_add(1));
            }
            let pages = source.pages.iter().take(to).skip(from);
            out.extend(pages.map(|page| Needed {
                part: segment.part,
                stored: page.stored(),
            }));
        }
    }
    Ok(out)
}

/// Number of bytes of pages or baskets.
pub(super) fn n_bytes(needed: &[Needed]) -> u64 {
    let sizes = needed.iter().map(|needed| needed.stored.size);
    sizes.fold(0, u64::saturating_add)
}
