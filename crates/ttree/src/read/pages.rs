//! Lists baskets as pages; a basket belongs to the cluster in which it begins.

use femtobarn_rntuple::spec::{ClusterSummary, Page, PageAddress, PageList, StoredRange};

use super::tree::TreeStorage;
use crate::descriptor::{Data, Described, Owner};
use crate::interp::Content;
use crate::model::{Basket, Branch, BranchId, Contents, Place};

/// The clusters of a tree, with baskets as pages of the last column of each branch.
pub(crate) fn list(tree: &TreeStorage) -> PageList {
    let (model, filling) = (tree.model(), tree.filling());
    let Described { owners, schema, .. } = &tree.common().described;
    let mut last: Vec<Option<usize>> = vec![None; model.branches.len()];
    for (column, owner) in owners.iter().enumerate() {
        if let Owner::Branch { branch, .. } = owner
            && let Some(last) = last.get_mut(*branch)
        {
            *last = Some(column);
        }
    }
    let mut shown: Vec<Option<(BranchId, Contents)>> = vec![None; owners.len()];
    for (branch, column) in last.into_iter().enumerate() {
        if let Some(place) = column.and_then(|column| shown.get_mut(column)) {
            *place = Some((branch, filling.contents(branch)));
        }
    }
    let mut clusters = Vec::new();
    let ends = filling.clusters.iter().skip(1);
    for (&first_entry, &end) in filling.clusters.iter().zip(ends) {
        let columns = shown.iter().zip(owners).zip(&schema.columns);
        let columns = columns.map(|((shown, owner), column)| {
            let (Owner::Branch { branch, .. } | Owner::Counter(branch)) = *owner;
            let settings = match model.branch(branch).map_or(0, compression) {
                // copied branches may keep the setting of none, though their baskets are compressed
                0 if filling.contents(branch).is_compressed() => tree.file_compression(),
                settings => settings,
            };
            let Some((branch, contents)) = shown else {
                return (Vec::new(), settings);
            };
            let size = u64::from(column.bits / 8).max(1);
            let baskets = &contents.baskets;
            let from = baskets.partition_point(|basket| basket.first_entry < first_entry);
            let own = baskets.iter().skip(from);
            let own = own.take_while(|basket| basket.first_entry < end);
            let pages = own
                .filter_map(|basket| page(contents, basket, tree.data(*branch), size))
                .collect();
            (pages, settings)
        });
        let summary = ClusterSummary {
            first_entry,
            n_entries: end - first_entry,
        };
        clusters.push((summary, columns.collect()));
    }
    PageList::new(clusters)
}

fn compression(branch: &Branch) -> u32 {
    u32::try_from(branch.compression).unwrap_or(0)
}

/// A basket as a page. If the number of elements per entry varies, it is estimated from the size.
fn page(branch: &Contents, basket: &Basket, data: Option<&Data>, size: u64) -> Option<Page> {
    let Place::File { offset, n_bytes } = basket.place else {
        return None;
    };
    let n_elements = match data.map(|data| &data.content) {
        Some(Content::Fixed { size: entry }) => {
            basket.n_entries.saturating_mul(*entry as u64) / size
        }
        _ => {
            let share = u128::from(branch.total_bytes) * u128::from(basket.n_entries)
                / u128::from(branch.n_entries.max(1));
            u64::try_from(share).unwrap_or(u64::MAX) / size
        }
    };
    Some(Page {
        n_elements: u32::try_from(n_elements).unwrap_or(u32::MAX),
        has_checksum: false,
        body: StoredRange {
            address: PageAddress::File(offset),
            size: n_bytes,
        },
    })
}
