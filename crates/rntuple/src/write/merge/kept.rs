//! Copies clusters: keeps pages, and remakes only those that have to be.

use std::collections::HashMap;

use femtobarn_io::{Transferred, on_threads};

use super::super::column::SealedPage;
use super::super::payload::append_pages;
use super::super::sink::{PageSink, Renumbered};
use super::clusters::{PlannedCluster, PlannedColumn};
use super::options::{Levels, Merged, hull};
use super::pages::{Encoding, Remaker, Source, element_type};
use super::regions::{KeptPage, Moved, bring};
use super::stored::read_pages;
use super::writer::{Adding, NTupleMerger};
use crate::RNTupleError;
use crate::read::{Reader, soundly};
use crate::spec::{Page, PageAddress, StoredRange, WrittenColumn};

/// Stored size of pages that are remade at a time.
const BATCH: u64 = 64 << 20;

impl NTupleMerger {
    /// Copies the pages of clusters; returns their entries, and the records of their columns.
    pub(super) fn bring(
        &mut self,
        sink: &mut dyn PageSink,
        adding: &mut Adding<'_>,
        clusters: &[PlannedCluster<'_>],
    ) -> Result<Vec<(u64, Vec<WrittenColumn>)>, RNTupleError> {
        let Adding {
            reader,
            tick,
            merged,
            ..
        } = adding;
        let shared = match self.options.refers {
            true => sink.shares(reader.store()),
            false => None,
        };
        let mut kept = Vec::new();
        for cluster in clusters {
            for column in cluster.columns.iter().filter(|column| column.is_kept()) {
                let pages = column.pages.iter();
                if shared.is_some() {
                    merged.levels.shared += pages.map(Page::stored_size).sum::<u64>();
                    continue;
                }
                let whole = pages.filter(|page| !self.is_copied(sink, reader, page));
                kept.extend(whole.map(|&page| KeptPage {
                    page,
                    column: column.input,
                    cluster: cluster.number,
                }));
            }
        }
        let (moved, done) = match (sink.file(), reader.file()) {
            (Some(file), Some(source)) => {
                bring(file, (reader, &**source), &kept, &self.options, *tick)?
            }
            _ => (Moved::default(), Transferred::default()),
        };
        merged.levels = merged.levels.and(levels_of(done));
        merged.n_clusters += clusters.len() as u64;
        let mut out = Vec::with_capacity(clusters.len());
        for cluster in clusters {
            let place = match &shared {
                Some(numbers) => Place::Shared(numbers),
                None => Place::Moved(&moved),
            };
            let columns = self.cluster(sink, reader, cluster, &place, merged, *tick)?;
            sink.end_cluster()?;
            out.push((cluster.n_entries, columns));
            merged.n_entries += cluster.n_entries;
        }
        merged.place = hull(&merged.place, &moved.place);
        Ok(out)
    }

    /// Whether a page is copied individually, because it cannot be part of a region: it is in several records, or has to
    /// be, or input or output is not a file.
    fn is_copied(&self, sink: &mut dyn PageSink, reader: &Reader, page: &Page) -> bool {
        let most = self.options.write.max_key_size;
        let largest = reader.store().largest_piece().min(most);
        let is_whole = page.stored_size() <= largest && !self.options.sketches;
        !is_whole || reader.file().is_none() || sink.file().is_none()
    }

    /// Writes the remade pages of a cluster, and returns the locations of all its pages.
    fn cluster(
        &mut self,
        sink: &mut dyn PageSink,
        reader: &Reader,
        cluster: &PlannedCluster<'_>,
        place: &Place<'_>,
        merged: &mut Merged,
        tick: &(dyn Fn(u64) -> bool + Sync),
    ) -> Result<Vec<WrittenColumn>, RNTupleError> {
        let is_shared = matches!(place, Place::Shared(_));
        let remade = self.remake(sink, reader, (cluster, is_shared), merged, tick)?;
        let mut out = Vec::with_capacity(cluster.columns.len());
        for (at, column) in cluster.columns.iter().enumerate() {
            let mut pages = self.zeros(sink, at, column, merged)?;
            pages.reserve_exact(column.pages.len());
            for (number, page) in column.pages.iter().enumerate() {
                pages.push(match remade.get(&(at, number)) {
                    Some(page) => *page,
                    None => placed_page(reader, page, place)?,
                });
            }
            merged.n_pages += pages.len() as u64;
            out.push(WrittenColumn {
                pages,
                element_offset: column.element_offset,
                compression: column.settings,
            });
        }
        Ok(out)
    }

    fn zeros(
        &mut self,
        sink: &mut dyn PageSink,
        at: usize,
        column: &PlannedColumn<'_>,
        merged: &mut Merged,
    ) -> Result<Vec<Page>, RNTupleError> {
        let record = self
            .schema
            .schema
            .columns
            .get(at)
            .filter(|_| column.zeros > 0);
        let Some(record) = record else {
            return Ok(Vec::new());
        };
        let how = (column.settings, self.options.write.page_checksums);
        let sealed = self.workers.first_mut();
        let sealed = sealed.map(|worker| worker.zeros(record, column.zeros, how));
        let Some(sealed) = sealed.transpose()?.flatten() else {
            return Err(RNTupleError::internal("zeros of a column that has none"));
        };
        merged.levels.zeros += sealed
            .iter()
            .map(|page| page.bytes.len() as u64)
            .sum::<u64>();
        self.append(sink, &sealed)
    }

    /// Appends pages; returns them with their locations.
    fn append(
        &self,
        sink: &mut dyn PageSink,
        sealed: &[SealedPage],
    ) -> Result<Vec<Page>, RNTupleError> {
        let has_checksum = self.options.write.page_checksums;
        let pages: Vec<&SealedPage> = sealed.iter().collect();
        let addresses = append_pages(sink, &pages, &self.options.write)?;
        let stored = sealed.iter().zip(addresses);
        Ok(stored
            .map(|(page, address)| page.stored_at(address, has_checksum))
            .collect())
    }

    /// Remakes the pages of a cluster that cannot be kept, with all threads; returns them by column and number.
    fn remake(
        &mut self,
        sink: &mut dyn PageSink,
        reader: &Reader,
        (cluster, is_shared): (&PlannedCluster<'_>, bool),
        merged: &mut Merged,
        tick: &(dyn Fn(u64) -> bool + Sync),
    ) -> Result<HashMap<(usize, usize), Page>, RNTupleError> {
        let mut wanted: Vec<(usize, usize, Page)> = Vec::new();
        for (at, column) in cluster.columns.iter().enumerate() {
            let pages = column.pages.iter().enumerate();
            let is_remade = |page: &Page, sink: &mut dyn PageSink| {
                !column.is_kept() || !is_shared && self.is_copied(sink, reader, page)
            };
            let pages = pages.filter(|(_, page)| is_remade(page, sink));
            wanted.extend(pages.map(|(number, page)| (at, number, *page)));
        }
        let mut workers = std::mem::take(&mut self.workers);
        let mut out = HashMap::with_capacity(wanted.len());
        let mut rest = wanted.as_slice();
        while !rest.is_empty() {
            let mut n_bytes = 0;
            let fits = |(_, _, page): &&(usize, usize, Page)| {
                n_bytes += page.stored_size();
                n_bytes <= BATCH
            };
            let (these, others) = rest.split_at(rest.iter().take_while(fits).count().max(1));
            let pages: Vec<Page> = these.iter().map(|(.., page)| *page).collect();
            let remade = if self.options.sketches {
                let has_checksum = self.options.write.page_checksums;
                let blank = |page: &Page| SealedPage::blank(page, has_checksum);
                pages.iter().map(blank).collect()
            } else {
                let stored = read_pages(reader, &pages)?;
                let tasks = these.iter().zip(&stored).collect();
                on_threads(&mut workers, tasks, |worker, (wanted, stored)| {
                    self.remake_page(worker, reader, cluster, wanted, stored)
                })?
            };
            for ((at, ..), page) in these.iter().zip(&remade) {
                let column = cluster.columns.get(*at);
                let n = page.bytes.len() as u64;
                match column {
                    Some(column) if column.reencode => merged.levels.reencoded += n,
                    Some(column) if column.is_kept() => merged.levels.copied += n,
                    _ => merged.levels.recompressed += n,
                }
            }
            if !tick(n_bytes) {
                return Err(RNTupleError::Interrupted);
            }
            let pages = self.append(sink, &remade)?;
            out.extend(
                these
                    .iter()
                    .zip(pages)
                    .map(|((at, number, _), page)| ((*at, *number), page)),
            );
            rest = others;
        }
        self.workers = workers;
        Ok(out)
    }

    fn remake_page(
        &self,
        worker: &mut Remaker,
        reader: &Reader,
        cluster: &PlannedCluster<'_>,
        (at, _, page): &(usize, usize, Page),
        stored: &[u8],
    ) -> Result<SealedPage, RNTupleError> {
        let column = cluster.columns.get(*at);
        let record = self.schema.schema.columns.get(*at);
        let Some((column, record)) = column.zip(record) else {
            return Err(RNTupleError::internal("a page of no column"));
        };
        let source = Source {
            reader,
            column: column.input,
            cluster: cluster.number,
            page: *page,
        };
        let how = (column.settings, self.options.write.page_checksums);
        let encoding = column.reencode.then(|| Encoding {
            dtype: element_type(&self.schema.schema, record),
            limits: self.schema.limits(u32::try_from(*at).unwrap_or(u32::MAX)),
        });
        let (store, place) = (reader.store(), &page.stored());
        let remake = |stored: &[u8]| worker.remake(&source, stored, record, encoding, how);
        soundly(store, (place, place), stored, remake)?.0
    }
}

fn levels_of(done: Transferred) -> Levels {
    Levels {
        shared: done.cloned,
        copied: done.in_kernel + done.through_memory,
        refused: done.refused,
        ..Levels::default()
    }
}

/// Where kept pages are.
enum Place<'a> {
    /// In the output's file.
    Moved(&'a Moved),
    /// In the input's objects, which have these numbers in the output.
    Shared(&'a Renumbered),
}

/// A kept page at its new location.
fn placed_page(reader: &Reader, page: &Page, place: &Place<'_>) -> Result<Page, RNTupleError> {
    let at = page.body.address;
    let address = match (place, at) {
        (Place::Moved(moved), _) => moved.offset(at.offset()).map(PageAddress::File),
        (Place::Shared(numbers), PageAddress::Object { id, offset }) => {
            let id = numbers.find(id);
            id.map(|id| PageAddress::Object { id, offset })
        }
        (Place::Shared(_), _) => None,
    };
    let Some(address) = address else {
        return Err(reader.inconsistent("page", "a place in the input", at));
    };
    Ok(Page {
        body: StoredRange {
            address,
            ..page.body
        },
        ..*page
    })
}
