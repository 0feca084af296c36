//! The requests that write an ntuple.

use std::collections::BTreeSet;

use femtobarn_daos::mapping::{LISTS, Places};
use femtobarn_daos::{ObjectClass, n_requests};

use super::writing::{BATCH, BLOCK};

/// The requests that write an ntuple with these values, given as numbers and sizes in the order of writing: the name, the
/// claims of blocks, the values, and header, footer and anchor as one. Claims that are renewed cost more.
pub(crate) fn n_updates(values: &[(u64, u64)]) -> u64 {
    // only which values have one object counts
    let class = ObjectClass::from_bits(0);
    let places = Places {
        index: 0,
        values: 0,
        anchor: class,
        metadata: class,
        pages: class,
        first_list: LISTS,
    };
    let block = |(number, _): &(u64, u64)| number % LISTS / BLOCK;
    let blocks: BTreeSet<u64> = values.iter().map(block).collect();
    let mut bytes = 0;
    let batches = values.split_inclusive(|(_, size)| {
        bytes += size;
        let is_full = bytes >= BATCH;
        bytes *= u64::from(!is_full);
        is_full
    });
    let key = |&(number, size): &(u64, u64)| Some((places.numbered(number)?, size));
    let written = batches.map(|batch| n_requests(batch.iter().filter_map(key)));
    2 + blocks.len().max(1) as u64 + written.sum::<u64>()
}
