//! Clusters: entries at which all of a tree's baskets were flushed to the file.

use super::Contents;
use crate::object::Ints;

/// More clusters are treated as damage.
const MOST: u64 = 1 << 20;

/// The tree's record of its clusters.
#[derive(Debug, Default)]
pub(super) struct Recorded<'a> {
    /// Last entry of each range of clusters of equal size, and that size.
    pub range_ends: Ints<'a>,
    pub range_sizes: Ints<'a>,
    /// Size in entries of the clusters after those ranges, if positive.
    pub auto_flush: i64,
}

/// First entry of each cluster, and the number of entries after the last.
pub(super) fn clusters(n_entries: u64, branches: &[Contents], recorded: &Recorded<'_>) -> Vec<u64> {
    let found = from_record(n_entries, recorded).unwrap_or_else(|| from_baskets(branches));
    let mut out = vec![0];
    out.extend(found.into_iter().filter(|&at| at > 0 && at < n_entries));
    if n_entries > 0 {
        out.push(n_entries);
    }
    out.dedup();
    out
}

fn from_record(n_entries: u64, recorded: &Recorded<'_>) -> Option<Vec<u64>> {
    let ranges = recorded.range_ends.iter().zip(recorded.range_sizes.iter());
    let ranges = ranges.map(|(end, size)| (end.saturating_add(1), size));
    let rest = i64::try_from(n_entries).unwrap_or(i64::MAX);
    let mut out = Vec::new();
    let mut from = 0u64;
    for (end, size) in ranges.chain([(rest, recorded.auto_flush)]) {
        let end = u64::try_from(end).ok()?.min(n_entries);
        if end <= from {
            continue;
        }
        let size = u64::try_from(size).ok().filter(|&size| size > 0)?;
        // clusters of all ranges are counted together
        if ((end - from) / size).saturating_add(out.len() as u64) > MOST {
            return None;
        }
        while from < end {
            out.push(from);
            from = from.saturating_add(size).min(end);
        }
    }
    Some(out)
}

/// The entries at which a basket begins in every branch.
fn from_baskets(branches: &[Contents]) -> Vec<u64> {
    let starts = |branch: &Contents| -> Vec<u64> {
        branch
            .baskets
            .iter()
            .map(|basket| basket.first_entry)
            .collect()
    };
    let with_data = branches.iter().filter(|branch| !branch.baskets.is_empty());
    let common = with_data.map(starts).reduce(|known, other| {
        known
            .into_iter()
            .filter(|start| other.binary_search(start).is_ok())
            .collect()
    });
    common.unwrap_or_default()
}
