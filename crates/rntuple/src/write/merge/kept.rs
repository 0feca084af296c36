//! Copies clusters: keeps pages, and remakes only those that have to be.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use bytes::Bytes;
use femtobarn_io::{Transferred, on_threads};

use super::super::column::SealedPage;
use super::super::payload::{append_bytes, append_pages};
use super::super::sink::{PageSink, Renumbered};
use super::clusters::{Cluster, PlannedCluster, PlannedColumn};
use super::incoming::Incoming;
use super::options::{Levels, Merged, hull};
use super::pages::{Encoding, Remaker, Source, element_type};
use super::regions::{KeptPage, Moved, bring};
use super::writer::{Adding, NTupleMerger};
use crate::RNTupleError;
use crate::read::{Reader, check_page, soundly};
use crate::spec::{Page, PageAddress, StoredRange, WrittenColumn};

impl NTupleMerger {
    /// Copies the pages of clusters; returns their entries, and the records of their columns.
    pub(super) fn bring(
        &mut self,
        sink: &mut dyn PageSink,
        adding: &mut Adding<'_>,
        (clusters, inputs): (&[PlannedCluster<'_>], &[Cluster]),
    ) -> Result<Vec<(u64, Vec<WrittenColumn>)>, RNTupleError> {
        let shared = match self.options.refers {
            true => sink.shares(adding.reader.store()),
            false => None,
        };
        let copied = match &shared {
            Some(_) => Copied::default(),
            None => self.copy_objects(sink, adding, clusters, inputs)?,
        };
        let Adding {
            reader,
            tick,
            merged,
            ..
        } = adding;
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
        let place = match &shared {
            Some(numbers) => Place::Shared(numbers),
            None => Place::Moved(&moved, &copied),
        };
        let single = clusters.iter();
        let single = single.map(|cluster| self.single_pages(sink, reader, cluster, &place));
        let single: Vec<SinglePages> = single.collect();
        let pages = single.iter().flat_map(|single| &single.wanted);
        let pages = pages.map(|(_, page)| *page).collect();
        let out = std::thread::scope(|scope| {
            let mut incoming = Incoming::of(scope, reader, pages, self.options.sketches);
            let mut out = Vec::with_capacity(clusters.len());
            for (cluster, single) in clusters.iter().zip(single) {
                let remade = self.remake(
                    sink,
                    reader,
                    (cluster, single),
                    &mut incoming,
                    merged,
                    *tick,
                )?;
                let columns = self.cluster(sink, reader, (cluster, remade), &place, merged)?;
                sink.end_cluster()?;
                out.push((cluster.n_entries, columns));
                merged.n_entries += cluster.n_entries;
            }
            Ok::<_, RNTupleError>(out)
        })?;
        merged.place = hull(&merged.place, &moved.place);
        Ok(out)
    }

    /// Has the server copy the objects whose pages are all kept.
    fn copy_objects(
        &self,
        sink: &mut dyn PageSink,
        adding: &mut Adding<'_>,
        clusters: &[PlannedCluster<'_>],
        inputs: &[Cluster],
    ) -> Result<Copied, RNTupleError> {
        let store = adding.reader.store();
        if store.objects().is_none() || self.options.sketches {
            return Ok(Copied::default());
        }
        let columns = clusters.iter().flat_map(|cluster| &cluster.columns);
        let kept = columns.filter(|column| column.is_kept());
        let kept = kept.flat_map(|column| column.pages.iter());
        let kept: HashSet<PageAddress> = kept.map(|page| page.body.address).collect();
        let all = inputs.iter().flat_map(Cluster::columns);
        let all = all.flat_map(|(_, pages)| pages.iter());
        // by address: the columns of a cluster may share pages
        let all: BTreeMap<(u64, u64), &Page> = all
            .filter_map(|page| Some((page.body.address.object()?, page)))
            .map(|(id, page)| ((id, page.body.address.offset()), page))
            .collect();
        let mut objects: BTreeMap<u64, Option<u64>> = BTreeMap::new();
        for ((id, _), page) in all {
            let size = objects.entry(id).or_insert(Some(0));
            let is_kept = kept.contains(&page.body.address);
            *size = size
                .filter(|_| is_kept)
                .map(|size| size + page.stored_size());
        }
        let objects = objects
            .into_iter()
            .filter_map(|(id, size)| Some((id, size?)));
        let objects: BTreeMap<u64, u64> = objects.collect();
        if objects.is_empty() {
            return Ok(Copied::default());
        }
        let numbers = sink.copies(store, &objects, &self.options.write)?;
        let Some(numbers) = numbers else {
            return Ok(Copied::default());
        };
        let n_bytes = objects.values().sum();
        adding.merged.levels.copied += n_bytes;
        if !(adding.tick)(n_bytes) {
            return Err(RNTupleError::Interrupted);
        }
        let objects = objects.into_keys().collect();
        Ok(Copied(Some((objects, numbers))))
    }

    /// The pages of a cluster that are not part of a region.
    fn single_pages(
        &self,
        sink: &mut dyn PageSink,
        reader: &Reader,
        cluster: &PlannedCluster<'_>,
        place: &Place<'_>,
    ) -> SinglePages {
        let mut single = SinglePages::default();
        let mut known = HashMap::new();
        for (at, column) in cluster.columns.iter().enumerate() {
            for (number, page) in column.pages.iter().enumerate() {
                let own = (at, number);
                if !column.is_kept() {
                    single.wanted.push((own, *page));
                } else if let Place::Moved(_, copied) = place
                    && copied.find(page).is_none()
                    && self.is_copied(sink, reader, page)
                {
                    // the columns of a cluster may share pages
                    match known.entry((page.body.address, page.body.size)) {
                        Entry::Occupied(first) => single.same.push((own, *page, *first.get())),
                        Entry::Vacant(free) => {
                            free.insert(own);
                            single.wanted.push((own, *page));
                        }
                    }
                }
            }
        }
        single
    }

    /// Whether a page is copied individually, because it cannot be part of a region: it is in several records, or has to
    /// be, or input or output is not a file.
    fn is_copied(&self, sink: &mut dyn PageSink, reader: &Reader, page: &Page) -> bool {
        let most = self.options.write.max_key_size;
        let largest = reader.store().largest_piece().min(most);
        let is_whole = page.stored_size() <= largest && !self.options.sketches;
        !is_whole || reader.file().is_none() || sink.file().is_none()
    }

    /// Returns the locations of all pages of a cluster; `remade` has those of single pages.
    fn cluster(
        &mut self,
        sink: &mut dyn PageSink,
        reader: &Reader,
        (cluster, remade): (&PlannedCluster<'_>, HashMap<PageId, Page>),
        place: &Place<'_>,
        merged: &mut Merged,
    ) -> Result<Vec<WrittenColumn>, RNTupleError> {
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
        self.append(sink, &sealed, &vec![at; sealed.len()])
    }

    /// Appends pages with the column of each; returns them with their locations.
    fn append(
        &self,
        sink: &mut dyn PageSink,
        sealed: &[SealedPage],
        columns: &[usize],
    ) -> Result<Vec<Page>, RNTupleError> {
        let has_checksum = self.options.write.page_checksums;
        let pages: Vec<&SealedPage> = sealed.iter().collect();
        let addresses = append_pages(sink, &pages, columns, &self.options.write)?;
        let stored = sealed.iter().zip(addresses);
        Ok(stored
            .map(|(page, address)| page.stored_at(address, has_checksum))
            .collect())
    }

    /// Writes the single pages of a cluster: kept ones as they are, others remade with all threads.
    fn remake(
        &mut self,
        sink: &mut dyn PageSink,
        reader: &Reader,
        (cluster, single): (&PlannedCluster<'_>, SinglePages),
        incoming: &mut Incoming,
        merged: &mut Merged,
        tick: &(dyn Fn(u64) -> bool + Sync),
    ) -> Result<HashMap<PageId, Page>, RNTupleError> {
        let mut workers = std::mem::take(&mut self.workers);
        let mut out = HashMap::with_capacity(single.wanted.len() + single.same.len());
        let mut rest = single.wanted.as_slice();
        while !rest.is_empty() {
            let stored = incoming.next(rest.len())?;
            let (these, others) = rest.split_at(stored.len());
            let n_bytes = stored.iter().map(|bytes| bytes.len() as u64).sum();
            let tasks = these.iter().zip(stored).collect();
            let made = on_threads(&mut workers, tasks, |worker, (wanted, stored)| {
                self.remake_page(worker, reader, cluster, wanted, stored)
            })?;
            for (((at, _), _), page) in these.iter().zip(&made) {
                let n = page.bytes().len() as u64;
                match cluster.columns.get(*at) {
                    Some(column) if column.reencode => merged.levels.reencoded += n,
                    Some(column) if column.is_kept() => merged.levels.copied += n,
                    _ => merged.levels.recompressed += n,
                }
            }
            if !tick(n_bytes) {
                return Err(RNTupleError::Interrupted);
            }
            let bytes: Vec<Bytes> = made.iter().map(|page| page.bytes().clone()).collect();
            let columns: Vec<usize> = these.iter().map(|((at, _), _)| *at).collect();
            let addresses = append_bytes(sink, &bytes, &columns, &self.options.write)?;
            let has_checksum = self.options.write.page_checksums;
            for (((id, page), made), address) in these.iter().zip(&made).zip(addresses) {
                let written = match made {
                    MadePage::Sealed(sealed) => sealed.stored_at(address, has_checksum),
                    MadePage::Kept(_) => moved_page(page, address),
                };
                out.insert(*id, written);
            }
            rest = others;
        }
        for (id, page, first) in single.same {
            if let Some(address) = out.get(&first).map(|first| first.body.address) {
                out.insert(id, moved_page(&page, address));
            }
        }
        self.workers = workers;
        Ok(out)
    }

    fn remake_page(
        &self,
        worker: &mut Remaker,
        reader: &Reader,
        cluster: &PlannedCluster<'_>,
        ((at, _), page): &(PageId, Page),
        stored: Bytes,
    ) -> Result<MadePage, RNTupleError> {
        let column = cluster.columns.get(*at);
        let record = self.schema.schema.columns.get(*at);
        let Some((column, record)) = column.zip(record) else {
            return Err(RNTupleError::internal("a page of no column"));
        };
        if self.options.sketches {
            return Ok(MadePage::Kept(stored));
        }
        let (store, place) = (reader.store(), &page.stored());
        if column.is_kept() {
            let check = |bytes: &[u8]| {
                let from = reader.descriptor().column(column.input).unwrap_or(record);
                check_page(reader, from, (column.input, cluster.number), page, bytes).map(drop)
            };
            let (checked, again) = soundly(store, (place, place), &stored, check)?;
            checked?;
            return Ok(MadePage::Kept(again.unwrap_or(stored)));
        }
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
        let remake = |stored: &[u8]| worker.remake(&source, stored, record, encoding, how);
        let made = soundly(store, (place, place), &stored, remake)?.0?;
        Ok(MadePage::Sealed(made))
    }
}

/// A page of a cluster: the number of the column, and its number in it.
type PageId = (usize, usize);

/// The pages of a cluster that are written one by one.
#[derive(Default)]
struct SinglePages {
    wanted: Vec<(PageId, Page)>,
    /// Pages that have their place in common with another page, whose number follows. The other page may have more
    /// elements.
    same: Vec<(PageId, Page, PageId)>,
}

/// A page for the output.
enum MadePage {
    /// As it is stored in the input.
    Kept(Bytes),
    Sealed(SealedPage),
}

impl MadePage {
    fn bytes(&self) -> &Bytes {
        match self {
            Self::Kept(bytes) => bytes,
            Self::Sealed(page) => &page.bytes,
        }
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

/// Objects that the server has copied, and their numbers in the output.
#[derive(Default)]
struct Copied(Option<(BTreeSet<u64>, Renumbered)>);

impl Copied {
    /// A page in one of them, at its new address.
    fn find(&self, page: &Page) -> Option<PageAddress> {
        let (objects, numbers) = self.0.as_ref()?;
        renumbered(
            numbers,
            page.body
                .address
                .object()
                .filter(|id| objects.contains(id))?,
            page,
        )
    }
}

/// Where kept pages are.
enum Place<'a> {
    /// In the output's file, or in copies of the input's objects.
    Moved(&'a Moved, &'a Copied),
    /// In the input's objects, which have these numbers in the output.
    Shared(&'a Renumbered),
}

/// A kept page at its new location.
fn placed_page(reader: &Reader, page: &Page, place: &Place<'_>) -> Result<Page, RNTupleError> {
    let at = page.body.address;
    let address = match (place, at) {
        (Place::Moved(_, copied), PageAddress::Object { .. }) => copied.find(page),
        (Place::Moved(moved, _), _) => moved.offset(at.offset()).map(PageAddress::File),
        (Place::Shared(numbers), PageAddress::Object { id, .. }) => renumbered(numbers, id, page),
        (Place::Shared(_), _) => None,
    };
    let Some(address) = address else {
        return Err(reader.inconsistent("page", "a place in the input", at));
    };
    Ok(moved_page(page, address))
}

/// The address of a page whose object has another number.
fn renumbered(numbers: &Renumbered, id: u64, page: &Page) -> Option<PageAddress> {
    let PageAddress::Object { offset, .. } = page.body.address else {
        return None;
    };
    let id = numbers.find(id)?;
    Some(PageAddress::Object { id, offset })
}

/// A page at another address.
fn moved_page(page: &Page, address: PageAddress) -> Page {
    Page {
        body: StoredRange {
            address,
            ..page.body
        },
        ..*page
    }
}
