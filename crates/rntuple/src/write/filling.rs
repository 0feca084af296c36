//! Columns of a cluster being filled: waiting elements, completed pages, and when the cluster has its size.

use std::collections::HashMap;
use std::ops::Range;

use femtobarn_io::on_threads;

use super::column::{ColumnBuffer, SealedPage, Sealer};
use super::options::{SLICE, WriteOptions};
use super::waiting::Blocks;
use crate::RNTupleError;

/// The compression ratio expected before any data were compressed.
const EXPECTED_RATIO: f64 = 0.5;

/// The fraction of its size at which a cluster counts as full.
const NEARLY: f64 = 0.98;

/// The smallest slice in bytes, unless a single entry is larger.
const LEAST_SLICE: usize = 4096;

/// A cluster ready to be written.
#[derive(Debug)]
pub(super) struct FilledCluster {
    pub n_entries: u64,
    pub columns: Vec<FilledColumn>,
}

/// A column of such a cluster.
#[derive(Debug)]
pub(super) struct FilledColumn {
    pub n_elements: u64,
    pub settings: u32,
    pub pages: Vec<SealedPage>,
}

/// The columns of a cluster being filled.
#[derive(Debug, Default)]
pub(super) struct Filling {
    pub options: WriteOptions,
    pub columns: Vec<ColumnBuffer>,
    pub blocks: Blocks,
    sealers: Vec<Sealer>,
    pub n_entries: u64,
    /// Size of all elements of this cluster.
    n_bytes: u64,
    /// Size of elements that became pages, and of these pages, in all clusters so far.
    sealed: (u64, u64),
    /// Size of the pages of this cluster.
    n_sealed: u64,
}

impl Filling {
    /// An empty cluster without columns.
    pub fn new(options: &WriteOptions) -> Self {
        let threads = options.threads.max(1);
        Self {
            options: options.clone(),
            sealers: (0..threads).map(|_| Sealer::default()).collect(),
            ..Self::default()
        }
    }

    /// Counts entries whose elements were added to the columns, where `before` bytes waited until then, and makes pages
    /// of elements that fill one.
    pub fn added(&mut self, n_entries: u64, before: u64) -> Result<(), RNTupleError> {
        self.n_bytes += self.n_waiting().saturating_sub(before);
        self.n_entries += n_entries;
        self.seal(&|_| false)?;
        self.make_room()
    }

    /// Size of the waiting elements.
    pub fn n_waiting(&self) -> u64 {
        self.columns
            .iter()
            .map(|column| column.n_waiting() as u64)
            .sum()
    }

    /// If too much memory waits, makes incomplete pages of the columns with the most of it.
    fn make_room(&mut self) -> Result<(), RNTupleError> {
        let mut sizes: Vec<usize> = self.columns.iter().map(ColumnBuffer::n_held).collect();
        let mut held: u64 = sizes.iter().map(|&size| size as u64).sum();
        if held <= self.options.page_buffer {
            return Ok(());
        }
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        let mut least = usize::MAX;
        for size in sizes {
            if held <= self.options.page_buffer / 2 {
                break;
            }
            held -= size as u64;
            least = size.max(1);
        }
        self.seal(&|column| column.n_held() >= least)
    }

    /// Encodes and compresses full pages, and all elements of the columns selected by `all`, with all threads.
    fn seal(&mut self, all: &dyn Fn(&ColumnBuffer) -> bool) -> Result<(), RNTupleError> {
        let page_bytes = self.options.page_bytes;
        let pages = |(at, column): (usize, &ColumnBuffer)| {
            let pages = column.pages(page_bytes, all(column));
            pages.map(move |page| (at, page)).collect::<Vec<_>>()
        };
        let mut tasks: Vec<(usize, Range<usize>)> =
            self.columns.iter().enumerate().flat_map(pages).collect();
        if tasks.is_empty() {
            return Ok(());
        }
        // the largest first, so that all threads end at about the same time
        tasks.sort_by_key(|(_, page)| std::cmp::Reverse(page.len()));
        let sealed = self.seal_pages(&tasks)?;
        let mut by_column: HashMap<usize, Vec<(usize, SealedPage)>> = HashMap::new();
        for ((at, page), sealed) in tasks.into_iter().zip(sealed) {
            by_column.entry(at).or_default().push((page.start, sealed));
        }
        for (at, mut pages) in by_column {
            let Some(column) = self.columns.get_mut(at) else {
                continue;
            };
            pages.sort_by_key(|(start, _)| *start);
            let before = column.n_waiting();
            let n_elements = pages.iter().map(|(_, page)| page.n_elements as usize).sum();
            column.drop_first(&self.blocks, n_elements);
            let n_bytes: usize = pages.iter().map(|(_, page)| page.bytes.len()).sum();
            self.n_sealed += n_bytes as u64;
            self.sealed.0 += (before - column.n_waiting()) as u64;
            self.sealed.1 += n_bytes as u64;
            column
                .sealed
                .extend(pages.into_iter().map(|(_, page)| page));
        }
        Ok(())
    }

    /// Seals pages with one thread per sealer; returns them in the order of the tasks.
    fn seal_pages(
        &mut self,
        tasks: &[(usize, Range<usize>)],
    ) -> Result<Vec<SealedPage>, RNTupleError> {
        let (columns, checksums) = (&self.columns, self.options.page_checksums);
        let seal = |sealer: &mut Sealer, (column, page): &(usize, Range<usize>)| {
            let column = columns.get(*column);
            let column = column.ok_or_else(|| RNTupleError::internal("no such column"))?;
            sealer.seal(column, page, checksums)
        };
        on_threads(&mut self.sealers, tasks.iter().collect(), seal)
    }

    /// Whether the cluster has approximately its size.
    pub fn is_full(&self) -> bool {
        let left = self
            .options
            .cluster_bytes_uncompressed
            .saturating_sub(self.n_bytes);
        self.left().min(left) == 0
    }

    /// Size of the next slice: not more than the cluster lacks, but at least a minimum.
    pub fn room(&self) -> usize {
        let left = self
            .options
            .cluster_bytes_uncompressed
            .saturating_sub(self.n_bytes);
        usize::try_from(self.left().min(left)).map_or(SLICE, |room| room.clamp(LEAST_SLICE, SLICE))
    }

    /// Size of the elements that the cluster lacks, estimated by the compression ratio so far.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate"
    )]
    pub fn left(&self) -> u64 {
        let ratio = match self.sealed {
            (0, _) => EXPECTED_RATIO,
            (before, after) => after as f64 / before as f64,
        };
        let expected = self.n_sealed as f64 + ratio * self.n_waiting() as f64;
        let wanted = self.options.cluster_bytes as f64;
        // a nearly full cluster is not worth another slice
        if expected > NEARLY * wanted {
            return 0;
        }
        ((wanted - expected) / ratio.max(0.001)) as u64
    }

    /// Takes the cluster; none if it has no entries.
    pub fn take(&mut self) -> Result<Option<FilledCluster>, RNTupleError> {
        if self.n_entries == 0 {
            return Ok(None);
        }
        self.seal(&|_| true)?;
        let columns = self.columns.iter_mut().map(|column| {
            let settings = column.settings;
            let (n_elements, pages) = column.finish();
            FilledColumn {
                n_elements,
                settings,
                pages,
            }
        });
        let columns = columns.collect();
        let n_entries = std::mem::take(&mut self.n_entries);
        (self.n_bytes, self.n_sealed) = (0, 0);
        Ok(Some(FilledCluster { n_entries, columns }))
    }
}
