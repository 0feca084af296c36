//! What the metadata of an ntuple must agree on before anybody relies on them. Pure: no bytes of data are looked at.
//!
//! Whoever takes a page list from a reader, to read, verify, copy or rebuild, has one that was checked here, and checks
//! the pages of a column before memory is planned for their elements.

use std::ops::Range;

use super::store::{NotStored, PageStore};
use crate::encoding::{LARGEST_RATIO, PageError, packed_size};
use crate::spec::{
    ClusterGroup, ClusterSummary, ColumnRecord, ColumnType, Page, PageAddress, PageList,
    StoredRange,
};

/// Entries that a file may have whatever its size: those of ntuples without fields take no bytes.
pub const ENTRIES_OF_ANY_FILE: u64 = 1 << 24;

/// The most entries that a file of this size can hold.
pub fn most_entries(file_size: u64) -> u64 {
    // a bit of a page is an element, and no codec makes more of a byte
    file_size
        .saturating_mul(8 * LARGEST_RATIO)
        .max(ENTRIES_OF_ANY_FILE)
}

/// Zeros that a column may have in any cluster, none of them stored.
pub(crate) const MOST_ZEROS: u64 = 1 << 26;

/// Zeros that it may have for each element that the cluster stores.
const ZEROS_AN_ELEMENT: u64 = 1 << 10;

/// Two statements of the metadata that contradict each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Contradiction {
    pub what: &'static str,
    pub expected: String,
    pub found: String,
}

/// What is wrong with a page.
#[derive(Debug)]
pub(crate) enum PageFault {
    /// Its address is of another kind of store.
    Elsewhere(PageAddress),
    /// It is not within the store.
    Range(Contradiction),
    /// It cannot hold its elements.
    Elements(PageError),
}

/// Insists that clusters, in the order of their entries, hold each entry of a range just once.
pub(crate) fn cover(
    entries: Range<u64>,
    clusters: impl IntoIterator<Item = Range<u64>>,
) -> Result<(), Contradiction> {
    let mut next = entries.start;
    for cluster in clusters.into_iter().filter(|cluster| !cluster.is_empty()) {
        if cluster.start != next {
            let what = if cluster.start > next {
                "clusters (entries are missing)"
            } else {
                "clusters (they overlap)"
            };
            return Err(Contradiction {
                what,
                expected: format!("a cluster from entry {next}"),
                found: format!("one from {}", cluster.start),
            });
        }
        next = cluster.end;
    }
    if next == entries.end {
        return Ok(());
    }
    let what = if next < entries.end {
        "clusters (entries are missing)"
    } else {
        "clusters (they are beyond the last entry)"
    };
    Err(Contradiction {
        what,
        expected: format!("entries up to {}", entries.end),
        found: format!("the last ends at {next}"),
    })
}

/// Insists that the clusters of a page list are those of its group, and no more than a file of this size can hold.
pub(super) fn check_group(
    group: &ClusterGroup,
    clusters: &[ClusterSummary],
    file_size: u64,
) -> Result<(), Contradiction> {
    if clusters.len() != group.n_clusters as usize {
        return Err(Contradiction {
            what: "number of clusters in a page list",
            expected: group.n_clusters.to_string(),
            found: clusters.len().to_string(),
        });
    }
    let mut ranges: Vec<Range<u64>> = clusters
        .iter()
        .map(|cluster| cluster.first_entry..cluster.end())
        .collect();
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    let end = group.min_entry.saturating_add(group.entry_span);
    cover(group.min_entry..end, ranges)?;
    let most = most_entries(file_size);
    if group.entry_span > most {
        return Err(Contradiction {
            what: "number of entries in a cluster group",
            expected: format!("at most {most}, which a file of {file_size} bytes can hold"),
            found: group.entry_span.to_string(),
        });
    }
    Ok(())
}

/// Insists that zeros of a column in a cluster, which no page holds and metadata ask for, are in some proportion to what the
/// pages of the cluster hold.
pub(crate) fn check_zeros(n: u64, list: &PageList, cluster: usize) -> Result<(), Contradiction> {
    if n <= MOST_ZEROS {
        return Ok(());
    }
    let stored = list.n_elements(cluster);
    let most = stored.saturating_mul(ZEROS_AN_ELEMENT).max(MOST_ZEROS);
    if n <= most {
        return Ok(());
    }
    Err(Contradiction {
        what: "number of zeros that are not stored",
        expected: format!("at most {most}, as pages of the cluster hold {stored} elements"),
        found: n.to_string(),
    })
}

/// Insists that the elements of a column in a cluster begin where those of the clusters before it end, or at the column's
/// first element, if it was added later. ROOT finds elements by this number.
pub(super) fn check_offset(offset: u64, before: u64, begin: u64) -> Result<(), Contradiction> {
    if (before..=before.max(begin)).contains(&offset) {
        return Ok(());
    }
    Err(Contradiction {
        what: "first element in a cluster",
        expected: before.to_string(),
        found: offset.to_string(),
    })
}

/// Insists that a page is within its store and can hold its elements.
pub(super) fn check_page(
    page: &Page,
    record: Option<&ColumnRecord>,
    store: &dyn PageStore,
) -> Result<(), PageFault> {
    let StoredRange { address, size } = page.stored();
    match store.check(&page.stored()) {
        Ok(()) => {}
        Err(NotStored::Elsewhere) => return Err(PageFault::Elsewhere(address)),
        Err(NotStored::Beyond { expected }) => {
            let found = format!("{size} bytes at {address}");
            let what = "page";
            return Err(PageFault::Range(Contradiction {
                what,
                expected,
                found,
            }));
        }
    }
    match record {
        Some(record) if !matches!(record.column_type, ColumnType::Unknown(_)) => {
            packed_size(record, u64::from(page.n_elements), page.locator.size)
                .map(drop)
                .map_err(PageFault::Elements)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_cover_each_entry_once() {
        let at = |clusters: &[Range<u64>]| cover(0..6, clusters.to_vec()).map_err(|c| c.what);
        assert_eq!(at(&[0..3, 3..3, 3..6]), Ok(()));
        for (clusters, problem) in [
            (vec![0..3, 4..6], "clusters (entries are missing)"),
            (vec![0..3, 2..6], "clusters (they overlap)"),
            (vec![0..3, 3..3], "clusters (entries are missing)"),
            (
                vec![0..3, 3..7],
                "clusters (they are beyond the last entry)",
            ),
            (
                vec![0..3, 1 << 61..5 << 60],
                "clusters (entries are missing)",
            ),
        ] {
            assert_eq!(at(&clusters), Err(problem), "{clusters:?}");
        }
    }
}
