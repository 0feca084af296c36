//! Consistency checks of metadata, which every user relies on. Pure: no data are read.
//!
//! Every page list that a reader returns, for reading, verifying, copying or rebuilding, has passed these checks. The
//! pages of a column are checked before memory is planned for their elements.

use std::ops::Range;

use super::store::{NotStored, PageStore};
use crate::encoding::{LARGEST_RATIO, PageError, packed_size};
use crate::spec::{
    ClusterGroup, ClusterSummary, ColumnRecord, ColumnType, Page, PageAddress, PageList,
    StoredRange,
};

/// Number of entries that any file may have: entries of ntuples without fields take no bytes.
pub const ENTRIES_OF_ANY_FILE: u64 = 1 << 24;

/// The most entries that a file of this size can have.
pub fn most_entries(file_size: u64) -> u64 {
    // an element takes at least one bit of a page, and no codec has a larger ratio
    file_size
        .saturating_mul(8 * LARGEST_RATIO)
        .max(ENTRIES_OF_ANY_FILE)
}

/// Number of zeros that a column may have in any cluster without storing them.
pub(crate) const MOST_ZEROS: u64 = 1 << 26;

/// Number of further zeros per element stored in the cluster.
const ZEROS_AN_ELEMENT: u64 = 1 << 10;

/// Two contradicting statements of the metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Contradiction {
    pub what: &'static str,
    pub expected: String,
    pub found: String,
}

/// An error in a page.
#[derive(Debug)]
pub(crate) enum PageFault {
    /// The address belongs to another kind of store.
    Elsewhere(PageAddress),
    /// The page is not within the store.
    Range(Contradiction),
    /// The page cannot contain its elements.
    Elements(PageError),
}

/// Checks that clusters, in the order of their entries, contain each entry of a range exactly once.
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

/// Checks that the clusters of a page list are those of its group, and fit a file of this size.
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
            expected: format!("at most {most} in a file of {file_size} bytes"),
            found: group.entry_span.to_string(),
        });
    }
    Ok(())
}

/// Checks that the number of zeros that metadata require of a column, and no page stores, is proportionate to the stored
/// elements of the cluster.
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
        expected: format!("at most {most}, as pages of the cluster have {stored} elements"),
        found: n.to_string(),
    })
}

/// Checks that the elements of a column in a cluster begin where those of the preceding clusters end, or at the column's
/// first element if it was added later. ROOT finds elements by this number.
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

/// Checks that a page is within its store and can contain its elements.
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
            packed_size(record, u64::from(page.n_elements), page.body.size)
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
