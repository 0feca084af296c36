//! The page lists of cluster groups, which are read when needed.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, Weak};

use bytes::Bytes;
use femtobarn_fork::lock;
use femtobarn_io::Stage;

use super::Reader;
use super::invariants::check_group;
use super::store::{PageStore, soundly};
use crate::RNTupleError;
use crate::spec::{EnvelopeLink, PageList};

/// The page list of a cluster group.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// The stored bytes, if they came with the opening.
    stored: Option<Bytes>,
    list: Arc<Held>,
}

/// A page list in memory; none if it was not read yet, or was dropped.
type Held = Mutex<Option<Arc<PageList>>>;

/// The most memory for page lists, of all files together.
const BUDGET: u64 = 256 << 20;

/// The page lists in memory.
static READ: Mutex<Kept> = Mutex::new(Kept::new(BUDGET));

/// Page lists and their sizes within a budget, oldest first. The oldest are dropped to make room: in a dataset of
/// thousands of files, a file is rarely read again, and its list is then read and parsed once more.
#[derive(Debug)]
struct Kept {
    budget: u64,
    lists: VecDeque<(Weak<Held>, u64)>,
    n_bytes: u64,
}

impl Kept {
    const fn new(budget: u64) -> Self {
        Self {
            budget,
            lists: VecDeque::new(),
            n_bytes: 0,
        }
    }

    /// Adds a page list; returns those to drop. The last one is kept, however large it is.
    #[must_use]
    fn add(&mut self, held: &Arc<Held>, n_bytes: u64) -> Vec<Arc<Held>> {
        let mut oldest = Vec::new();
        self.lists.push_back((Arc::downgrade(held), n_bytes));
        self.n_bytes = self.n_bytes.saturating_add(n_bytes);
        if self.n_bytes <= self.budget {
            return oldest;
        }
        // lists of closed files are gone
        self.lists.retain(|(held, _)| held.strong_count() > 0);
        self.n_bytes = self.lists.iter().map(|(_, n)| n).sum();
        // make more room than necessary, so that the next calls need not scan the list
        while self.n_bytes > self.budget / 4 * 3
            && self.lists.len() > 1
            && let Some((held, n_bytes)) = self.lists.pop_front()
        {
            self.n_bytes -= n_bytes;
            oldest.extend(held.upgrade());
        }
        oldest
    }
}

/// Keeps a page list, and drops the oldest ones if necessary.
fn keep(list: &Arc<Held>, n_bytes: u64) {
    let oldest = lock(&READ).add(list, n_bytes);
    for held in oldest {
        lock(&held).take();
    }
}

impl Group {
    pub fn new(metadata: &dyn PageStore, link: &EnvelopeLink) -> Self {
        // copied, so that the bytes around it can be freed
        let stored = metadata.peek(&link.stored);
        Self {
            stored: stored.map(|bytes| Bytes::copy_from_slice(&bytes)),
            list: Arc::default(),
        }
    }
}

impl Reader {
    /// Memory of the page lists that were read and are still kept.
    pub fn page_list_bytes(&self) -> u64 {
        let held = self.groups.iter().map(|group| lock(&group.list).clone());
        held.flatten().map(|list| list.n_bytes()).sum()
    }

    /// The page lists of the cluster groups that overlap the range, each with the ID of its first cluster. Missing ones
    /// are fetched in one vector read.
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

    /// The page list of a cluster group.
    pub fn page_list(&self, group: usize) -> Result<Option<Arc<PageList>>, RNTupleError> {
        Ok(self.load_groups(&[group])?.pop().flatten())
    }

    /// Keeps a page list, as far as the budget allows.
    fn keep(&self, group: usize, list: &Arc<PageList>) {
        if let Some(group) = self.groups.get(group) {
            // another thread may have read the same list first
            let was_held = lock(&group.list).replace(list.clone()).is_some();
            if !was_held {
                keep(&group.list, list.n_bytes());
            }
        }
    }

    /// The page lists of groups; none for a group that does not exist.
    fn load_groups(&self, groups: &[usize]) -> Result<Vec<Option<Arc<PageList>>>, RNTupleError> {
        let held = |&i: &usize| lock(&self.groups.get(i)?.list).clone();
        let mut lists: Vec<Option<Arc<PageList>>> = groups.iter().map(held).collect();
        let places = groups.iter().zip(&mut lists);
        let (missing, places): (Vec<usize>, Vec<&mut Option<Arc<PageList>>>) = places
            .filter(|(i, list)| list.is_none() && **i < self.groups.len())
            .map(|(&i, list)| (i, list))
            .unzip();
        if let Some(storage) = self.storage() {
            for (index, place) in missing.into_iter().zip(places) {
                let list = storage.page_list();
                self.keep(index, &list);
                *place = Some(list);
            }
            return Ok(lists);
        }
        let links: Vec<EnvelopeLink> = missing
            .iter()
            .filter_map(|&i| self.descriptor().cluster_groups.get(i))
            .map(|g| g.page_list)
            .collect();
        if links.is_empty() {
            return Ok(lists);
        }
        let lists_stage = self.store().at_stage(Stage::Lists);
        let context = self.context(lists_stage.as_deref().unwrap_or_else(|| self.store()));
        let stored = |i: usize| self.groups.get(i)?.stored.clone();
        let held: Vec<Option<Bytes>> = missing.iter().map(|&i| stored(i)).collect();
        let unread = links.iter().zip(&held).filter(|(_, held)| held.is_none());
        let unread: Vec<EnvelopeLink> = unread.map(|(link, _)| *link).collect();
        let mut read = match unread.as_slice() {
            [] => Vec::new(),
            unread => context.stored(unread, "page list")?,
        }
        .into_iter();
        let header_checksum = self.descriptor().header_checksum;
        let found = missing.into_iter().zip(places).zip(held).zip(&links);
        for (((index, place), held), link) in found {
            if let Some(held) = &held {
                self.note_metadata(held.len() as u64);
            }
            let Some(stored) = held.or_else(|| read.next()) else {
                return Err(RNTupleError::internal("a page list that was not read"));
            };
            let parse = |stored: &[u8]| {
                let stored = Bytes::copy_from_slice(stored);
                let bytes = context.decompress(stored, link, "page list")?;
                let list = PageList::parse(&bytes, header_checksum);
                list.map_err(|error| context.malformed("page list", link.stored.address, error))
            };
            let (list, _) = soundly(context.store, (&link.stored, &link.stored), &stored, parse)?;
            let list = list?;
            if let Some(group) = self.descriptor().cluster_groups.get(index) {
                check_group(group, list.clusters(), self.store().info().meta.size)
                    .map_err(|contradiction| self.contradicted(contradiction))?;
            }
            let list = Arc::new(list);
            self.keep(index, &list);
            *place = Some(list);
        }
        Ok(lists)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(kept: &mut Kept, n_bytes: u64) -> Arc<Held> {
        let held: Arc<Held> = Arc::new(Mutex::new(Some(Arc::default())));
        for oldest in kept.add(&held, n_bytes) {
            lock(&oldest).take();
        }
        held
    }

    #[test]
    fn the_oldest_page_lists_make_room_and_the_last_one_stays() {
        let mut kept = Kept::new(100);
        let lists: Vec<_> = (0..1000).map(|_| held(&mut kept, 10)).collect();
        let there: Vec<bool> = lists.iter().map(|list| lock(list).is_some()).collect();
        let first = there.iter().position(|&there| there).unwrap();
        assert!((990..=995).contains(&first), "{first}");
        assert!(there[first..].iter().all(|&there| there));
        assert_eq!(kept.n_bytes, 10 * (1000 - first) as u64);
        let large = held(&mut kept, 1000);
        assert!(lock(&large).is_some());
        assert!(lists.iter().all(|list| lock(list).is_none()));
    }

    #[test]
    fn page_lists_of_files_that_were_closed_take_no_room() {
        let mut kept = Kept::new(100);
        let first = held(&mut kept, 10);
        for _ in 0..1000 {
            drop(held(&mut kept, 10));
        }
        assert!(lock(&first).is_some());
        assert!(kept.lists.len() <= 10);
    }
}
