//! Sizes of columns and clusters, from metadata.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::Reader;
use femtobarn_rntuple::schema::Descriptor;
use femtobarn_rntuple::spec::{Page, PageAddress, PageList};

use crate::ntuple::NTuple;

/// Sizes of a physical column.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "named by their types")]
pub struct ColumnSizes {
    /// A page that is referenced several times counts only at its first reference.
    pub bytes_on_disk: u64,
    pub bytes_uncompressed: u64,
    pub pages: u64,
    pub elements: u64,
    pub compressions: Vec<u32>,
}

/// Sizes of a cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "named by their types")]
pub struct ClusterSizes {
    /// A page that is referenced several times counts only at its first reference.
    pub bytes_on_disk: u64,
    pub bytes_uncompressed: u64,
    pub pages: u64,
}

/// Counts the pages of an ntuple. Pages with equal contents may be stored only once (ROOT does this); they are
/// counted once.
#[derive(Debug)]
pub struct PageCounter<'a> {
    descriptor: &'a Descriptor,
    seen: HashSet<PageAddress>,
}

impl<'a> PageCounter<'a> {
    /// A counter for one ntuple.
    pub fn new(reader: &'a Reader) -> Self {
        Self {
            descriptor: reader.descriptor(),
            seen: HashSet::new(),
        }
    }

    /// Additional stored bytes of a page of `column`, and the bytes of its elements.
    pub(crate) fn page(&mut self, column: u32, page: &Page) -> (u64, u64) {
        let is_new = self.seen.insert(page.body.address);
        let record = self.descriptor.column(column);
        let unpacked = record.and_then(|record| record.packed_bytes(page.n_elements.into()));
        (
            if is_new { page.stored_size() } else { 0 },
            unpacked.unwrap_or(0),
        )
    }

    /// Sizes of the cluster at `index` of a page list.
    pub fn cluster(&mut self, list: &PageList, index: usize) -> ClusterSizes {
        let columns = 0..u32::try_from(list.n_columns(index)).unwrap_or(u32::MAX);
        self.columns(list, index, &columns.collect::<Vec<_>>())
    }

    /// Sizes of some columns in the cluster at `index` of a page list.
    pub fn columns(&mut self, list: &PageList, index: usize, columns: &[u32]) -> ClusterSizes {
        let mut sizes = ClusterSizes::default();
        for &column in columns {
            let pages = list.column(index, column);
            for page in pages.map_or(&[][..], |pages| list.pages(pages)) {
                let (on_disk, uncompressed) = self.page(column, page);
                sizes.pages += 1;
                sizes.bytes_on_disk = sizes.bytes_on_disk.saturating_add(on_disk);
                sizes.bytes_uncompressed = sizes.bytes_uncompressed.saturating_add(uncompressed);
            }
        }
        sizes
    }
}

impl NTuple {
    /// Sizes of the columns by their id in the first file, over all files.
    pub fn column_sizes(&self) -> Result<BTreeMap<u32, ColumnSizes>, RNTupleError> {
        let mut out: BTreeMap<u32, ColumnSizes> = BTreeMap::new();
        let Some(first) = self.readers().first() else {
            return Ok(out);
        };
        for reader in self.readers() {
            let same = |column: u32| same_column(first, reader, column);
            let mut counter = PageCounter::new(reader);
            for (_, list) in reader.page_lists(0..u64::MAX)? {
                for (cluster, _) in list.clusters().iter().enumerate() {
                    for column in 0..u32::try_from(list.n_columns(cluster)).unwrap_or(u32::MAX) {
                        let (Some(id), Some(pages)) = (same(column), list.column(cluster, column))
                        else {
                            continue;
                        };
                        let sizes = out.entry(id).or_default();
                        for page in list.pages(pages) {
                            let (on_disk, uncompressed) = counter.page(column, page);
                            sizes.pages += 1;
                            sizes.elements += u64::from(page.n_elements);
                            sizes.bytes_on_disk = sizes.bytes_on_disk.saturating_add(on_disk);
                            sizes.bytes_uncompressed =
                                sizes.bytes_uncompressed.saturating_add(uncompressed);
                        }
                        if !pages.suppressed() && !sizes.compressions.contains(&pages.compression) {
                            sizes.compressions.push(pages.compression);
                        }
                    }
                }
            }
        }
        Ok(out)
    }
}

/// The column of `first` that corresponds to a column of `reader`, by the path of its field.
fn same_column(first: &Arc<Reader>, reader: &Arc<Reader>, column: u32) -> Option<u32> {
    if Arc::ptr_eq(first, reader) {
        return Some(column);
    }
    let field = reader.descriptor().column(column)?.field_id;
    let position = reader
        .descriptor()
        .field(field)?
        .columns
        .iter()
        .position(|&c| c == column)?;
    let other = first
        .descriptor()
        .column(column)
        .filter(|c| c.field_id == field);
    let same_name = other.is_some()
        && first.descriptor().field_name(field) == reader.descriptor().field_name(field);
    let own = if same_name {
        field
    } else {
        first.find_field(reader.paths().get(field as usize)?.as_deref()?)?
    };
    first
        .descriptor()
        .field(own)?
        .columns
        .get(position)
        .copied()
}
