//! Page lists of cluster groups, read when they are needed.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use femtobarn_io::{ByteSource, HeldSource, Stage};

use super::Reader;
use super::invariants::check_group;
use crate::RNTupleError;
use crate::spec::{EnvelopeLink, PageList};

/// The page list of a cluster group.
#[derive(Debug)]
pub(super) struct Group {
    /// Its bytes as stored, if they came with the opening.
    stored: Option<Bytes>,
    list: Arc<Held>,
}

/// A page list that was read; none before, and after it had to make room.
type Held = Mutex<Option<Arc<PageList>>>;

/// What page lists that were read may take in memory, those of all files together. The oldest make room for others: a file
/// of thousands is seldom read again, and its list is then parsed once more.
const BUDGET: u64 = 64 << 20;

/// The page lists that were read, the oldest first, each with the memory that it takes.
static READ: Mutex<VecDeque<(Weak<Held>, u64)>> = Mutex::new(VecDeque::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes of the page lists of open ntuples that are held in memory now; at most those of 64 MiB, or of the last one read.
pub fn page_lists_held() -> u64 {
    let read = lock(&READ);
    let alive = read.iter().filter(|(held, _)| held.strong_count() > 0);
    alive.map(|(_, n_bytes)| n_bytes).sum()
}

/// Notes that a page list was read; older ones make room for it.
fn note_read(held: &Arc<Held>, n_bytes: u64) {
    let mut read = lock(&READ);
    read.push_back((Arc::downgrade(held), n_bytes));
    let total = |read: &VecDeque<(Weak<Held>, u64)>| read.iter().map(|(_, n)| n).sum::<u64>();
    if total(&read) <= BUDGET {
        return;
    }
    read.retain(|(held, _)| held.strong_count() > 0);
    let mut taken = total(&read);
    while taken > BUDGET
        && read.len() > 1
        && let Some((oldest, n_bytes)) = read.pop_front()
    {
        taken -= n_bytes;
        if let Some(oldest) = oldest.upgrade() {
            lock(&oldest).take();
        }
    }
}

impl Group {
    pub fn new(metadata: &dyn ByteSource, link: &EnvelopeLink, max_key_size: u64) -> Self {
        let whole = max_key_size == 0 || link.locator.size <= max_key_size;
        // copied, so that what was fetched around it can go
        let stored = metadata.peek(&link_range(link)).filter(|_| whole);
        Self {
            stored: stored.map(|bytes| Bytes::copy_from_slice(&bytes)),
            list: Arc::default(),
        }
    }

    /// Of a page list that is known.
    pub fn known(list: Arc<PageList>) -> Self {
        Self {
            stored: None,
            list: Arc::new(Mutex::new(Some(list))),
        }
    }
}

/// Where an envelope is in the file.
fn link_range(link: &EnvelopeLink) -> Range<u64> {
    link.locator.offset..link.locator.offset.saturating_add(link.locator.size)
}

impl Reader {
    /// The page lists of the cluster groups that hold entries of the range, each with the id of its first cluster;
    /// those not yet known are fetched in one vector read.
    pub fn page_lists(
        &self,
        entries: Range<u64>,
    ) -> Result<Vec<(u64, Arc<PageList>)>, RNTupleError> {
        let mut first_cluster = 0u64;
        let mut wanted = Vec::new();
        for (index, group) in self.descriptor().cluster_groups.iter().enumerate() {
            let end = group.min_entry.saturating_add(group.entry_span);
            if group.min_entry < entries.end && end > entries.start {
                wanted.push((index, first_cluster));
            }
            first_cluster = first_cluster.saturating_add(u64::from(group.n_clusters));
        }
        let groups: Vec<usize> = wanted.iter().map(|&(index, _)| index).collect();
        let lists = self.load_groups(&groups)?;
        let firsts = wanted.into_iter().map(|(_, first)| first).zip(lists);
        Ok(firsts
            .filter_map(|(first, list)| Some((first, list?)))
            .collect())
    }

    /// The page list of one cluster group.
    pub fn page_list(&self, group: usize) -> Result<Option<Arc<PageList>>, RNTupleError> {
        Ok(self.load_groups(&[group])?.pop().flatten())
    }

    /// The page lists of groups, none of one that is not there.
    fn load_groups(&self, groups: &[usize]) -> Result<Vec<Option<Arc<PageList>>>, RNTupleError> {
        let held = |&i: &usize| lock(&self.groups.get(i)?.list).clone();
        let mut lists: Vec<Option<Arc<PageList>>> = groups.iter().map(held).collect();
        let places = groups.iter().zip(&mut lists);
        let (missing, places): (Vec<usize>, Vec<&mut Option<Arc<PageList>>>) = places
            .filter(|(i, list)| list.is_none() && **i < self.groups.len())
            .map(|(&i, list)| (i, list))
            .unzip();
        let links: Vec<EnvelopeLink> = missing
            .iter()
            .filter_map(|&i| self.descriptor().cluster_groups.get(i))
            .map(|g| g.page_list)
            .collect();
        if links.is_empty() {
            return Ok(lists);
        }
        let held = missing.iter().zip(&links).filter_map(|(&i, link)| {
            let stored = self.groups.get(i)?.stored.clone()?;
            Some((link_range(link), stored))
        });
        let source = self.source().at_stage(Stage::Lists);
        let source = source.unwrap_or_else(|| self.source().clone());
        let known = HeldSource::new(source, held.collect());
        let context = self.context(&known);
        let envelopes = context.envelopes(&links, "page list")?;
        let header_checksum = self.descriptor().header_checksum;
        let read = missing.into_iter().zip(places).zip(envelopes).zip(&links);
        for (((index, place), bytes), link) in read {
            let list = PageList::parse(&bytes, header_checksum);
            let list =
                list.map_err(|error| context.malformed("page list", link.locator.offset, error))?;
            if let Some(group) = self.descriptor().cluster_groups.get(index) {
                check_group(group, list.clusters(), self.source().meta().size)
                    .map_err(|contradiction| self.contradicted(contradiction))?;
            }
            let list = Arc::new(list);
            if let Some(group) = self.groups.get(index) {
                // another thread may have been first, with the same list
                let was_held = lock(&group.list).replace(list.clone()).is_some();
                if !was_held {
                    note_read(&group.list, list.n_bytes());
                }
            }
            *place = Some(list);
        }
        Ok(lists)
    }
}
