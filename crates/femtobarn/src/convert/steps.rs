//! The entries of an ntuple in steps of some clusters.

use std::ops::Range;
use std::sync::Arc;

use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::{PageCache, ReadOptions};

use super::origins::{self, Origin};
use super::source::Batches;
use crate::inputs::share;
use crate::ntuple::{NTuple, Selection};

/// Decoded bytes per step.
const STEP: u64 = 64 << 20;
/// Bytes of the page cache for adjacent steps.
const CACHE: u64 = 256 << 20;

/// The entries of an ntuple in steps that end where clusters do. Each column must be read from the intended field.
pub(super) fn steps(
    ntuple: Arc<NTuple>,
    selection: Selection,
    meant: &[(String, Origin)],
    threads: usize,
) -> Result<Batches, RNTupleError> {
    origins::check(&ntuple, &selection, meant)?;
    let ranges = ranges(&ntuple, &selection)?;
    let cache = PageCache::new(CACHE);
    let read = move |range: Range<u64>| {
        let options = ReadOptions {
            threads,
            cache: Some(&cache),
            ..ReadOptions::default()
        };
        let arrays = ntuple.read(&selection, range, &options)?;
        ntuple.to_arrow(&arrays)
    };
    Ok(Box::new(ranges.into_iter().map(read)))
}

fn ranges(ntuple: &NTuple, selection: &Selection) -> Result<Vec<Range<u64>>, RNTupleError> {
    let n_entries = ntuple.n_entries();
    let n_bytes = ntuple.decoded_bytes(selection, 0..n_entries)?;
    let step = share(n_entries, STEP, n_bytes.max(1)).max(1);
    let mut ends = Vec::new();
    for (reader, &first) in ntuple.readers().iter().zip(ntuple.file_starts()) {
        for (_, list) in reader.page_lists(0..u64::MAX)? {
            let own = list.clusters().iter();
            ends.extend(own.map(|cluster| first.saturating_add(cluster.end()).min(n_entries)));
        }
    }
    ends.sort_unstable();
    ends.push(n_entries);
    if n_entries == 0 {
        // a table writer needs the schema
        return Ok(std::iter::once(0..0).collect());
    }
    let mut out = Vec::new();
    let mut start = 0;
    for (i, &end) in ends.iter().enumerate() {
        // the next cluster still fits
        let next = ends.get(i + 1).copied().unwrap_or(end);
        if next > end && next - start <= step {
            continue;
        }
        while start < end {
            let pieces = (end - start).div_ceil(step.saturating_mul(2)).max(1);
            let stop = start + (end - start).div_ceil(pieces);
            out.push(start..stop);
            start = stop;
        }
    }
    Ok(out)
}
