//! Decoded pages that the next step of an iteration needs again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use femtobarn_fork::lock;

use crate::encoding::Target;
use crate::spec::PageAddress;

/// A page of one column of a reader, and its decoded form.
///
/// The address alone is not enough: pages with equal bytes are stored once, and pages with few bits per element may
/// have equal bytes but different numbers of elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PageKey {
    /// Address of the reader.
    pub reader: usize,
    /// The column.
    pub column: u32,
    /// Address of the page.
    pub address: PageAddress,
    /// Number of elements.
    pub n_elements: u32,
    /// Form of the decoded elements.
    pub target: Target,
}

#[derive(Debug)]
struct Entry {
    bytes: Arc<[u8]>,
    generation: u64,
}

#[derive(Debug, Default)]
struct Inner {
    entries: HashMap<PageKey, Entry>,
    n_bytes: u64,
    generation: u64,
}

/// Keeps decoded pages that extend beyond a step, so that the next step need not decompress them again.
///
/// Pages that no step has used for a while are dropped at the end of a step. If the budget is exhausted, pages are not kept, and are
/// decompressed again.
#[derive(Debug)]
pub struct PageCache {
    budget: u64,
    /// Steps that may end without using a page before it is dropped.
    patience: u64,
    inner: Mutex<Inner>,
}

impl PageCache {
    /// Creates a cache of at most `budget` bytes, whose pages are dropped at the end of a step that has not used them.
    pub fn new(budget: u64) -> Self {
        Self::shared(budget, 0)
    }

    /// Creates a cache of at most `budget` bytes for steps that are read at the same time: a page is dropped when more
    /// than `patience` steps have ended since it was used.
    pub fn shared(budget: u64, patience: u64) -> Self {
        Self {
            budget,
            patience,
            inner: Mutex::default(),
        }
    }

    /// The decoded elements of a page.
    pub fn get(&self, key: &PageKey) -> Option<Arc<[u8]>> {
        let mut inner = lock(&self.inner);
        let generation = inner.generation;
        let entry = inner.entries.get_mut(key)?;
        entry.generation = generation;
        Some(entry.bytes.clone())
    }

    /// The decoded elements of a page that the next step does not need. The page is dropped after this step, unless
    /// another part of the step requests it.
    pub fn get_last(&self, key: &PageKey) -> Option<Arc<[u8]>> {
        let inner = lock(&self.inner);
        inner.entries.get(key).map(|entry| entry.bytes.clone())
    }

    /// Keeps a page if the budget allows.
    pub fn insert(&self, key: PageKey, bytes: &[u8]) {
        let size = bytes.len() as u64;
        let mut inner = lock(&self.inner);
        if inner.n_bytes.saturating_add(size) > self.budget || inner.entries.contains_key(&key) {
            return;
        }
        let generation = inner.generation;
        inner.n_bytes += size;
        inner.entries.insert(
            key,
            Entry {
                bytes: bytes.into(),
                generation,
            },
        );
    }

    /// Ends a step: pages that were not used for a while are dropped.
    pub(super) fn next_generation(&self) {
        let mut inner = lock(&self.inner);
        let current = inner.generation;
        inner
            .entries
            .retain(|_, entry| entry.generation + self.patience >= current);
        inner.n_bytes = inner
            .entries
            .values()
            .map(|entry| entry.bytes.len() as u64)
            .sum();
        inner.generation = current + 1;
    }

    /// Total size of the kept pages in bytes.
    pub fn n_bytes(&self) -> u64 {
        lock(&self.inner).n_bytes
    }
}
