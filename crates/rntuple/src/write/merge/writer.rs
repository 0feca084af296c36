//! The ntuple that others are merged into.

use std::collections::HashMap;
use std::ops::Range;

use femtobarn_io::{Transferred, coalesce, on_threads};
use femtobarn_rootfile::FileWriter;

use super::super::catalog::Catalog;
use super::super::column::SealedPage;
use super::super::options::WriteOptions;
use super::super::payload::append_pages;
use super::clusters::{PlannedCluster, PlannedColumn, plan};
use super::pages::{Remaker, Source};
use super::regions::{Moved, bring};
use super::schema::{MergedSchema, Mode};
use crate::RNTupleError;
use crate::read::Reader;
use crate::schema::FieldId;
use crate::spec::{Locator, Page, WrittenColumn};

/// Stored bytes of pages that are made anew at a time.
const BATCH: u64 = 64 << 20;

/// How ntuples are merged.
#[derive(Debug, Clone)]
pub struct MergeOptions {
    /// Which fields the inputs must have.
    pub mode: Mode,
    /// Pages may share their blocks with the input's file (L0).
    pub share: bool,
    /// Pages of other settings are recompressed (L2); none: all stay as they are.
    pub compression: Option<u32>,
    /// Only what ROOT 6.40 and uproot 5.7 read is written: columns get no further representations.
    pub compatible: bool,
    /// How metadata and new pages are written.
    pub write: WriteOptions,
}

impl Default for MergeOptions {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            share: true,
            compression: None,
            compatible: true,
            write: WriteOptions::default(),
        }
    }
}

/// Bytes of the output's pages, by the level that brought them there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Levels {
    /// L0: in blocks that were asked to be shared with the input, and the file system did not refuse.
    pub shared: u64,
    /// L1: copied.
    pub copied: u64,
    /// L2: decompressed and compressed.
    pub recompressed: u64,
    /// L3: decoded and encoded.
    pub reencoded: u64,
    /// Zeros of fields that an input does not have.
    pub zeros: u64,
    /// Bytes that were to be shared, and were copied as the file system refused.
    pub refused: u64,
}

impl Levels {
    /// What both are.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            shared: self.shared + other.shared,
            copied: self.copied + other.copied,
            recompressed: self.recompressed + other.recompressed,
            reencoded: self.reencoded + other.reencoded,
            zeros: self.zeros + other.zeros,
            refused: self.refused + other.refused,
        }
    }
}

/// What came of an input.
#[derive(Debug, Clone, Default)]
#[expect(missing_docs, reason = "named by their types")]
pub struct Merged {
    pub n_entries: u64,
    pub n_clusters: u64,
    pub n_pages: u64,
    pub levels: Levels,
    /// Top-level fields of the input that the output does not have.
    pub left_out: Vec<String>,
    /// Top-level fields of the output that the input does not have.
    pub missing: Vec<String>,
    /// Where in the output its regions are.
    pub places: Vec<Range<u64>>,
}

/// An ntuple that others are merged into.
#[derive(Debug)]
pub struct NTupleMerger {
    schema: MergedSchema,
    catalog: Catalog,
    options: MergeOptions,
    /// Elements of each column so far.
    n_elements: Vec<u64>,
    /// One for each thread that makes pages anew.
    workers: Vec<Remaker>,
    failed: bool,
}

impl NTupleMerger {
    /// Begins an ntuple with these top-level fields of its first input, which is then to be added as all others.
    ///
    /// # Errors
    /// If writing the header fails.
    pub fn new(
        file: &mut FileWriter,
        (directory, name): (usize, &str),
        first: &Reader,
        top_level: &[FieldId],
        options: MergeOptions,
    ) -> Result<Self, RNTupleError> {
        let schema = MergedSchema::new(first, top_level)?;
        let (header, _) = schema.schema.split_at(schema.in_header);
        let catalog = Catalog::new(file, (directory, name), &header, &options.write)?;
        let threads = options.write.threads.max(1);
        Ok(Self {
            n_elements: Vec::new(),
            workers: (0..threads).map(|_| Remaker::default()).collect(),
            schema,
            catalog,
            options,
            failed: false,
        })
    }

    /// Number of entries so far.
    pub fn n_entries(&self) -> u64 {
        self.catalog.n_entries()
    }

    /// Adds the entries of an input. `takes` says of fields that no input had so far whether they are wanted; `tick` is told
    /// the bytes that were brought, and its `false` stops it.
    ///
    /// # Errors
    /// If its fields do not fit: nothing was added then. If reading or writing fails.
    pub fn add(
        &mut self,
        file: &mut FileWriter,
        reader: &Reader,
        takes: &dyn Fn(&str) -> bool,
        tick: &(dyn Fn(u64) -> bool + Sync),
    ) -> Result<Merged, RNTupleError> {
        let so_far = (self.catalog.n_entries(), self.n_elements.as_slice());
        let how = (self.options.mode, self.options.compatible);
        let mapping = self.schema.map(reader, how, takes, so_far)?;
        self.grow();
        self.add_type_infos(reader);
        let settings = (self.options.compression, self.options.write.compression);
        let planned = plan(
            reader,
            &self.schema,
            &mapping,
            &mut self.n_elements,
            settings,
        );
        let written = planned.and_then(|clusters| self.write(file, reader, &clusters, tick));
        self.failed |= written.is_err();
        let mut merged = written?;
        merged.left_out = mapping.left_out;
        merged.missing = mapping.missing;
        Ok(merged)
    }

    /// Counts for the columns that are new: they begin where their fields do.
    fn grow(&mut self) {
        let new = self
            .schema
            .schema
            .columns
            .iter()
            .skip(self.n_elements.len());
        let begin: Vec<u64> = new
            .map(|column| column.first_element.unsigned_abs())
            .collect();
        // the first input's columns begin with it, whatever they leave out
        let is_first = self.n_elements.is_empty();
        self.n_elements
            .extend(begin.iter().map(|&n| if is_first { 0 } else { n }));
    }

    fn add_type_infos(&mut self, reader: &Reader) {
        let known = &mut self.catalog.extra_type_infos;
        for info in &reader.descriptor().extra_type_infos {
            if !known.contains(info) {
                known.push(info.clone());
            }
        }
    }

    fn write(
        &mut self,
        file: &mut FileWriter,
        reader: &Reader,
        clusters: &[PlannedCluster],
        tick: &(dyn Fn(u64) -> bool + Sync),
    ) -> Result<Merged, RNTupleError> {
        let columns = clusters.iter().flat_map(|cluster| &cluster.columns);
        let kept: Vec<Range<u64>> = columns
            .filter(|column| column.is_kept())
            .flat_map(|column| &column.pages)
            .filter(|page| !reader.is_split(page.stored_size()))
            .map(Page::range)
            .collect();
        let (moved, done) = bring(file, &**reader.source(), &kept, &self.options, tick)?;
        // a file system that has refused once is not asked again
        self.options.share &= done.refused == 0;
        let mut merged = Merged {
            n_clusters: clusters.len() as u64,
            levels: levels_of(done),
            ..Merged::default()
        };
        for cluster in clusters {
            let columns = self.cluster(file, reader, cluster, &moved, &mut merged, tick)?;
            self.catalog.add_cluster(file, cluster.n_entries, columns)?;
            merged.n_entries += cluster.n_entries;
        }
        merged.places = moved.places;
        Ok(merged)
    }

    /// Writes the pages of a cluster that are made anew, and says where all of them are.
    fn cluster(
        &mut self,
        file: &mut FileWriter,
        reader: &Reader,
        cluster: &PlannedCluster,
        moved: &Moved,
        merged: &mut Merged,
        tick: &(dyn Fn(u64) -> bool + Sync),
    ) -> Result<Vec<WrittenColumn>, RNTupleError> {
        let remade = self.remake(file, reader, cluster, merged, tick)?;
        let mut out = Vec::with_capacity(cluster.columns.len());
        for (at, column) in cluster.columns.iter().enumerate() {
            let mut pages = self.zeros(file, at, column, merged)?;
            for (number, page) in column.pages.iter().enumerate() {
                pages.push(match remade.get(&(at, number)) {
                    Some(page) => *page,
                    None => moved_page(reader, page, moved)?,
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
        file: &mut FileWriter,
        at: usize,
        column: &PlannedColumn,
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
        self.append(file, &sealed)
    }

    /// Appends pages; gives them with their places.
    fn append(
        &self,
        file: &mut FileWriter,
        sealed: &[SealedPage],
    ) -> Result<Vec<Page>, RNTupleError> {
        let has_checksum = self.options.write.page_checksums;
        let pages: Vec<&SealedPage> = sealed.iter().collect();
        let offsets = append_pages(file, &pages, &self.options.write)?;
        let stored = sealed.iter().zip(offsets);
        Ok(stored
            .map(|(page, offset)| page.stored_at(offset, has_checksum))
            .collect())
    }

    /// Makes the pages of a cluster anew that cannot stay as they are, on all threads; gives them by column and number.
    fn remake(
        &mut self,
        file: &mut FileWriter,
        reader: &Reader,
        cluster: &PlannedCluster,
        merged: &mut Merged,
        tick: &(dyn Fn(u64) -> bool + Sync),
    ) -> Result<HashMap<(usize, usize), Page>, RNTupleError> {
        let mut wanted: Vec<(usize, usize, Page)> = Vec::new();
        for (at, column) in cluster.columns.iter().enumerate() {
            let is_whole = |page: &Page| reader.is_split(page.stored_size());
            let pages = column.pages.iter().enumerate();
            let pages = pages.filter(|(_, page)| !column.is_kept() || is_whole(page));
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
            let stored = read_pages(reader, these)?;
            let tasks = these.iter().zip(&stored).collect();
            let remade = on_threads(&mut workers, tasks, |worker, (wanted, stored)| {
                self.remake_page(worker, reader, cluster, wanted, stored)
            })?;
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
            let pages = self.append(file, &remade)?;
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
        cluster: &PlannedCluster,
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
        worker.remake(&source, stored, record, column.reencode, how)
    }

    /// Writes what is left, and the anchor. Gives the number of entries.
    ///
    /// # Errors
    /// If writing fails, or has failed.
    pub fn finish(mut self, file: &mut FileWriter) -> Result<u64, RNTupleError> {
        if self.failed {
            let reason = "an input could not be added in full, so it cannot be finished";
            return Err(super::super::model::unwritable(self.catalog.name(), reason));
        }
        self.catalog.feature_flags = u64::from(self.schema.has_nested_deferred);
        let (_, extension) = self.schema.schema.split_at(self.schema.in_header);
        let anchor = self.catalog.close(file, extension)?;
        self.catalog.finish(file, &anchor)
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

/// A page that is as it was, at its new place.
fn moved_page(reader: &Reader, page: &Page, moved: &Moved) -> Result<Page, RNTupleError> {
    let Some(offset) = moved.offset(page.locator.offset) else {
        return Err(reader.inconsistent("page", "a place in the file", page.locator.offset));
    };
    Ok(Page {
        locator: Locator {
            offset,
            ..page.locator
        },
        ..*page
    })
}

/// The stored bytes of pages, in as few reads as possible.
fn read_pages(
    reader: &Reader,
    pages: &[(usize, usize, Page)],
) -> Result<Vec<bytes::Bytes>, RNTupleError> {
    let split = |page: &Page| reader.is_split(page.stored_size());
    let whole: Vec<Range<u64>> = pages
        .iter()
        .map(|(_, _, page)| if split(page) { 0..0 } else { page.range() })
        .collect();
    let source = reader.source();
    let requests = coalesce(&whole, &source.cost());
    let ranges: Vec<Range<u64>> = requests
        .iter()
        .map(|request| request.range.clone())
        .collect();
    let answers = source.read_ranges(&ranges)?;
    let mut out = vec![bytes::Bytes::new(); pages.len()];
    for (request, answer) in requests.iter().zip(&answers) {
        for &at in &request.members {
            if let (Some(slot), Some(range)) = (out.get_mut(at), whole.get(at)) {
                *slot = request.slice(answer, range).unwrap_or_default();
            }
        }
    }
    for ((_, _, page), slot) in pages.iter().zip(&mut out) {
        if split(page) {
            *slot = reader.read_blob(page.locator.offset, page.stored_size())?;
        }
    }
    Ok(out)
}
