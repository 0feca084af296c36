//! The page list envelope: clusters, and the locations of their pages.

use super::address::StoredRange;
use super::cursor::{Cursor, SpecError};
use super::envelope::{Envelope, EnvelopeKind};
use super::locator;

/// A page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// Number of elements.
    pub n_elements: u32,
    /// Whether 8 bytes of XXH3 follow the page.
    pub has_checksum: bool,
    /// The stored bytes without the checksum.
    pub body: StoredRange,
}

impl Page {
    /// The stored bytes with the checksum.
    pub fn stored(&self) -> StoredRange {
        StoredRange {
            address: self.body.address,
            size: self.stored_size(),
        }
    }

    /// Stored size with the checksum.
    pub fn stored_size(&self) -> u64 {
        self.body
            .size
            .saturating_add(if self.has_checksum { 8 } else { 0 })
    }
}

/// The entries of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the specification's names")]
pub struct ClusterSummary {
    pub first_entry: u64,
    pub n_entries: u64,
}

impl ClusterSummary {
    /// One past the last entry.
    pub fn end(&self) -> u64 {
        self.first_entry.saturating_add(self.n_entries)
    }
}

/// The pages of one column in one cluster, as indices into the page list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnPages {
    first_page: u32,
    n_pages: u32,
    /// Index of the first element in the ntuple; negative if the column is suppressed in this
    /// cluster.
    pub element_offset: i64,
    /// Algorithm × 100 + level; 0 for no compression, and for a suppressed column.
    pub compression: u32,
}

impl ColumnPages {
    /// Whether the column belongs to a representation that this cluster does not use.
    pub fn suppressed(&self) -> bool {
        self.element_offset < 0
    }
}

/// The pages of a column in a cluster, and their compression settings.
pub type PagesOfColumn = (Vec<Page>, u32);

/// The content of a page list envelope.
#[derive(Debug, Clone, Default)]
pub struct PageList {
    clusters: Vec<ClusterSummary>,
    columns: Vec<Vec<ColumnPages>>,
    pages: Vec<Page>,
    /// The IDs of the columns in ascending order, if the list has only some.
    ids: Option<Vec<u32>>,
}

impl PageList {
    /// Parses an uncompressed page list envelope for the header with `header_checksum`.
    pub fn parse(bytes: &[u8], header_checksum: u64) -> Result<Self, SpecError> {
        let Envelope { payload: mut c, .. } = Envelope::parse(bytes, EnvelopeKind::PageList)?;
        let found = c.u64("header checksum")?;
        if found != header_checksum {
            return Err(SpecError::Checksum {
                what: "page list's copy of the header",
                expected: header_checksum,
                found,
            });
        }
        let clusters = c.items("cluster summary list", 8, cluster_summary)?;
        let mut pages = Vec::new();
        let at = c.offset();
        let columns = c.items("page locations", 12, |list| {
            list.items("columns of a cluster", 12, |column| {
                column_pages(column, &mut pages)
            })
        })?;
        if columns.len() != clusters.len() {
            return Err(SpecError::Unexpected {
                what: "page locations",
                offset: at,
                expected: format!("{} clusters", clusters.len()),
                found: columns.len().to_string(),
            });
        }
        Ok(Self {
            clusters,
            columns,
            pages,
            ids: None,
        })
    }

    /// The same clusters with only these columns.
    pub fn only(&self, mut ids: Vec<u32>) -> Self {
        ids.sort_unstable();
        ids.dedup();
        let mut pages = Vec::new();
        let mut own = |cluster: usize| {
            // columns that the list is too old for are the last ones
            let columns = ids.iter().map_while(|&id| self.column(cluster, id));
            let columns = columns.map(|&column| {
                let first_page = u32::try_from(pages.len()).unwrap_or(u32::MAX);
                pages.extend_from_slice(self.pages(&column));
                ColumnPages {
                    first_page,
                    ..column
                }
            });
            columns.collect()
        };
        Self {
            clusters: self.clusters.clone(),
            columns: (0..self.clusters.len()).map(&mut own).collect(),
            pages,
            ids: Some(ids),
        }
    }

    /// Creates a list of clusters with pages and compression settings of each column.
    pub fn new(clusters: Vec<(ClusterSummary, Vec<PagesOfColumn>)>) -> Self {
        let mut list = Self::default();
        for (summary, columns) in clusters {
            let mut own = Vec::with_capacity(columns.len());
            for (pages, compression) in columns {
                own.push(ColumnPages {
                    first_page: u32::try_from(list.pages.len()).unwrap_or(u32::MAX),
                    n_pages: u32::try_from(pages.len()).unwrap_or(u32::MAX),
                    element_offset: 0,
                    compression,
                });
                list.pages.extend(pages);
            }
            list.clusters.push(summary);
            list.columns.push(own);
        }
        list
    }

    /// Memory of the list in bytes.
    pub fn n_bytes(&self) -> u64 {
        let columns = self.columns.iter().map(|columns| size_of_val(&**columns));
        let own = columns.sum::<usize>() + size_of_val(&*self.pages);
        (own + size_of_val(&*self.clusters) + size_of_val(&*self.columns)) as u64
    }

    /// The clusters in the order of their IDs.
    pub fn clusters(&self) -> &[ClusterSummary] {
        &self.clusters
    }

    /// The pages of a column in a cluster; none if the page list is older than the column.
    pub fn column(&self, cluster: usize, column: u32) -> Option<&ColumnPages> {
        let at = match &self.ids {
            None => column as usize,
            Some(ids) => ids.binary_search(&column).ok()?,
        };
        self.columns.get(cluster)?.get(at)
    }

    /// Number of columns listed for a cluster.
    pub fn n_columns(&self, cluster: usize) -> usize {
        self.columns.get(cluster).map_or(0, Vec::len)
    }

    /// The pages of a column.
    pub fn pages(&self, column: &ColumnPages) -> &[Page] {
        let first = column.first_page as usize;
        self.pages
            .get(first..first + column.n_pages as usize)
            .unwrap_or_default()
    }

    /// Number of elements in the pages of all columns of a cluster.
    pub fn n_elements(&self, cluster: usize) -> u64 {
        let columns = self.columns.get(cluster).into_iter().flatten();
        let pages = columns.flat_map(|column| self.pages(column));
        pages.map(|page| u64::from(page.n_elements)).sum()
    }

    /// All pages.
    pub fn all_pages(&self) -> &[Page] {
        &self.pages
    }
}

fn cluster_summary(list: &mut Cursor<'_>) -> Result<ClusterSummary, SpecError> {
    let mut c = list.record("cluster summary")?;
    let at = c.offset();
    let first_entry = c.u64("first entry number")?;
    let word = c.u64("number of entries")?;
    let (n_entries, flags) = (word & ((1 << 56) - 1), word >> 56);
    if flags & 1 != 0 {
        return Err(SpecError::Unsupported {
            what: "cluster summary",
            offset: at,
            found: "a sharded cluster, which needs a newer femtobarn or ROOT".into(),
        });
    }
    if first_entry
        .checked_add(n_entries)
        .is_none_or(|end| end > i64::MAX as u64)
    {
        return Err(SpecError::Unexpected {
            what: "cluster summary",
            offset: at,
            expected: "entries below 2^63".into(),
            found: format!("{n_entries} from {first_entry}"),
        });
    }
    Ok(ClusterSummary {
        first_entry,
        n_entries,
    })
}

fn column_pages(list: &mut Cursor<'_>, pages: &mut Vec<Page>) -> Result<ColumnPages, SpecError> {
    let at = list.offset();
    let (mut c, n) = list.list("page list of a column")?;
    let too_many = |found: u64| SpecError::Unexpected {
        what: "page list of a column",
        offset: at,
        expected: "as many pages as fit the frame".into(),
        found: format!("{found} pages"),
    };
    if n as usize > c.remaining() / 8 {
        return Err(too_many(u64::from(n)));
    }
    let first_page = u32::try_from(pages.len()).map_err(|_| too_many(pages.len() as u64))?;
    for _ in 0..n {
        let count = c.i32("page's number of elements")?;
        let body = locator::parse(&mut c)?;
        let end = body.address.offset().checked_add(body.size);
        if end.is_none() {
            return Err(SpecError::Unexpected {
                what: "page locator",
                offset: c.offset(),
                expected: "a range below 2^64".into(),
                found: format!("{} bytes at {}", body.size, body.address),
            });
        }
        pages.push(Page {
            n_elements: count.unsigned_abs(),
            has_checksum: count < 0,
            body,
        });
    }
    let element_offset = c.i64("element offset")?;
    let compression = if element_offset < 0 {
        0
    } else {
        c.u32("compression settings")?
    };
    if element_offset < 0 && n != 0 {
        return Err(too_many(u64::from(n)));
    }
    Ok(ColumnPages {
        first_page,
        n_pages: n,
        element_offset,
        compression,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::PageAddress;

    fn page(offset: u64) -> Page {
        Page {
            n_elements: 1,
            has_checksum: false,
            body: StoredRange {
                address: PageAddress::File(offset),
                size: 8,
            },
        }
    }

    #[test]
    fn some_columns_of_a_list_have_the_pages_that_they_have_in_all_of_it() {
        let cluster = |first_entry: u64, n_columns: u64| {
            let n_entries = 10;
            let of = |column: u64| {
                let pages = (0..column % 3).map(|n| page(100 * first_entry + 10 * column + n));
                (pages.collect(), 505)
            };
            let summary = ClusterSummary {
                first_entry,
                n_entries,
            };
            (summary, (0..n_columns).map(of).collect())
        };
        // columns 6 and 7 were added after the first cluster
        let whole = PageList::new(vec![cluster(0, 6), cluster(10, 8)]);
        let some = whole.only(vec![7, 2, 5, 2, 0]);
        assert_eq!(some.clusters(), whole.clusters());
        for cluster in 0..2 {
            for column in 0..9 {
                let pages = |list: &PageList| {
                    let found = list.column(cluster, column);
                    found.map(|found| (list.pages(found).to_vec(), found.compression))
                };
                let expected = [0, 2, 5, 7].contains(&column).then(|| pages(&whole));
                assert_eq!(pages(&some), expected.flatten(), "{cluster} {column}");
            }
        }
        assert!(some.n_bytes() < whole.n_bytes());
    }
}
