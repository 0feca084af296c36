//! Page lists of cluster groups, read when they are needed.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

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
    list: OnceLock<Arc<PageList>>,
}

impl Group {
    pub fn new(metadata: &dyn ByteSource, link: &EnvelopeLink, max_key_size: u64) -> Self {
        let whole = max_key_size == 0 || link.locator.size <= max_key_size;
        // copied, so that what was fetched around it can go
        let stored = metadata.peek(&link_range(link)).filter(|_| whole);
        Self {
            stored: stored.map(|bytes| Bytes::copy_from_slice(&bytes)),
            list: OnceLock::new(),
        }
    }

    /// Of a page list that is known.
    pub fn known(list: Arc<PageList>) -> Self {
        Self {
            stored: None,
            list: OnceLock::from(list),
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
        self.load_groups(wanted.iter().map(|&(index, _)| index))?;
        let loaded = wanted.into_iter().filter_map(|(index, first)| {
            Some((first, self.groups.get(index)?.list.get()?.clone()))
        });
        Ok(loaded.collect())
    }

    /// The page list of one cluster group.
    pub fn page_list(&self, group: usize) -> Result<Option<Arc<PageList>>, RNTupleError> {
        self.load_groups(std::iter::once(group))?;
        Ok(self
            .groups
            .get(group)
            .and_then(|group| group.list.get().cloned()))
    }

    fn load_groups(&self, groups: impl Iterator<Item = usize>) -> Result<(), RNTupleError> {
        let missing: Vec<usize> = groups
            .filter(|&i| self.groups.get(i).is_some_and(|g| g.list.get().is_none()))
            .collect();
        let links: Vec<EnvelopeLink> = missing
            .iter()
            .filter_map(|&i| self.descriptor().cluster_groups.get(i))
            .map(|g| g.page_list)
            .collect();
        if links.is_empty() {
            return Ok(());
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
        for ((index, bytes), link) in missing.into_iter().zip(envelopes).zip(&links) {
            let list = PageList::parse(&bytes, header_checksum);
            let list =
                list.map_err(|error| context.malformed("page list", link.locator.offset, error))?;
            if let Some(group) = self.descriptor().cluster_groups.get(index) {
                check_group(group, list.clusters(), self.source().meta().size)
                    .map_err(|contradiction| self.contradicted(contradiction))?;
            }
            if let Some(Group { list: slot, .. }) = self.groups.get(index) {
                // another thread may have been first, with the same list
                let _ = slot.set(Arc::new(list));
            }
        }
        Ok(())
    }
}
