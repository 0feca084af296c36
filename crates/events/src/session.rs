//! A backend as opened by one user. It can be closed while others use the same backend.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::mem;
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::thread;
use std::time::{Duration, Instant};

use crate::forked::{Forked, Process};
use crate::{
    Backend, Batch, DataSetEntry, DataSetPath, EventsError, NameCount, Parent, Popped, ProductName,
    Queues, Scan, Uuid, Visit, Wanted, Written,
};

/// Time that closing waits for running calls.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(1);
/// Maximum number of datasets whose names are cached.
const MOST_PATHS: usize = 1 << 16;

/// A backend, until it is closed.
pub struct Session {
    url: String,
    /// The backend while it is open. Each call holds a reference of its own.
    open: RwLock<Option<Arc<Open>>>,
    identity: usize,
    /// While this exists, no other backend gets the same identity.
    _place: Weak<dyn Backend>,
    /// Datasets that were deleted through this session, with their names. Writes to them would be lost, so
    /// they are refused.
    deleted: RwLock<HashMap<Uuid, String>>,
    /// The names of datasets for which objects were created. A dataset never changes its name.
    paths: RwLock<HashMap<Uuid, DataSetPath>>,
    process: Process,
}

struct Open(Arc<dyn Backend>);

impl Session {
    /// Opens a session of a backend.
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self {
            url: backend.url().into(),
            identity: backend.identity(),
            _place: Arc::downgrade(&backend),
            open: RwLock::new(Some(Arc::new(Open(backend)))),
            deleted: RwLock::default(),
            paths: RwLock::default(),
            process: Process::this(),
        }
    }

    /// Makes all later uses of a deleted dataset fail.
    pub fn note_deleted(&self, dataset: Uuid, path: &DataSetPath) {
        let mut deleted = self.deleted.write().unwrap_or_else(PoisonError::into_inner);
        deleted.insert(dataset, path.as_str().into());
    }

    /// Caches the name of a dataset.
    pub fn note_path(&self, dataset: Uuid, path: &DataSetPath) {
        if self.path_of(dataset).is_none() {
            let mut paths = self.paths.write().unwrap_or_else(PoisonError::into_inner);
            if paths.len() >= MOST_PATHS {
                paths.clear();
            }
            paths.insert(dataset, path.clone());
        }
    }

    /// The name of a dataset, if it is cached.
    pub fn path_of(&self, dataset: Uuid) -> Option<DataSetPath> {
        let paths = self.paths.read().unwrap_or_else(PoisonError::into_inner);
        paths.get(&dataset).cloned()
    }

    /// Fails if a batch writes to a dataset that was deleted through this store.
    pub fn check_batch(&self, batch: &Batch) -> Result<(), EventsError> {
        self.check_not_deleted(datasets(batch))
    }

    /// Removes the data of deleted datasets from a batch; returns an error if there were any.
    pub fn leave_out_gone(&self, batch: &mut Batch) -> Option<EventsError> {
        let error = self.check_batch(batch).err()?;
        let deleted = self.deleted.read().unwrap_or_else(PoisonError::into_inner);
        *batch = batch.without(|container| deleted.contains_key(&container.dataset));
        Some(error)
    }

    /// Fails if one of these datasets was deleted.
    pub fn check_not_deleted(
        &self,
        datasets: impl IntoIterator<Item = Uuid>,
    ) -> Result<(), EventsError> {
        let deleted = self.deleted.read().unwrap_or_else(PoisonError::into_inner);
        if deleted.is_empty() {
            return Ok(());
        }
        let path = datasets.into_iter().find_map(|uuid| deleted.get(&uuid));
        path.map_or(Ok(()), |path| Err(gone(&self.url, path)))
    }

    /// Closes the backend when running calls have ended. All later calls fail.
    pub fn close(&self) {
        if !self.process.is_this() {
            // In a forked child, calls of other threads never end, and their locks stay locked.
            if let Ok(mut open) = self.open.try_write() {
                mem::forget(open.take());
            }
            return;
        }
        let taken = {
            let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
            open.take()
        };
        let Some(open) = taken else {
            return;
        };
        let end = Instant::now() + PATIENCE;
        while Arc::strong_count(&open) > 1 && Instant::now() < end {
            thread::sleep(PAUSE);
        }
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.held().is_none()
    }

    fn held(&self) -> Option<Arc<Open>> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.clone()
    }

    fn opened(&self) -> Result<Arc<Open>, EventsError> {
        let open = self.held().ok_or_else(|| EventsError::StoreClosed {
            url: self.url.clone(),
        })?;
        // After a fork, the child would write to its own copy of a store in memory, and another thread may
        // hold its lock forever.
        if !open.0.is_kept() {
            let what = || format!("{}: this store was opened", self.url);
            self.process.check(what, "open it again")?;
        }
        Ok(open)
    }
}

/// The error that a dataset was deleted, even if another dataset has its name now.
pub fn gone(url: &str, path: &str) -> EventsError {
    EventsError::NotFound {
        url: url.into(),
        what: format!("dataset {path:?} any more"),
        hint: ": it was deleted after this object was made; find or create it again".into(),
    }
}

fn datasets(batch: &Batch) -> BTreeSet<Uuid> {
    let items = batch.items().iter().map(|items| items.parent);
    let parents = items.chain(batch.products().iter().map(|products| products.parent));
    parents.map(|parent| parent.dataset).collect()
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = f.debug_struct("Session");
        said.field("url", &self.url);
        said.finish_non_exhaustive()
    }
}

impl Backend for Session {
    fn url(&self) -> &str {
        &self.url
    }

    fn identity(&self) -> usize {
        self.identity
    }

    fn check_writes(&self, doing: &'static str) -> Result<(), EventsError> {
        self.opened()?.0.check_writes(doing)
    }

    fn is_durable(&self) -> bool {
        self.held().is_some_and(|open| open.0.is_durable())
    }

    fn is_kept(&self) -> bool {
        self.held().is_none_or(|open| open.0.is_kept())
    }

    fn compresses(&self) -> bool {
        self.held().is_some_and(|open| open.0.compresses())
    }

    fn seat(&self) -> Option<String> {
        self.held()?.0.seat()
    }

    fn n_targets(&self) -> usize {
        self.held().map_or(1, |open| open.0.n_targets())
    }

    fn target(&self, parent: &Parent) -> usize {
        self.held().map_or(0, |open| open.0.target(parent))
    }

    fn write(&self, batch: &Batch) -> Result<Written, EventsError> {
        self.opened()?.0.write(batch)
    }

    fn flush(&self) -> Result<(), EventsError> {
        self.opened()?.0.flush()
    }

    fn create_dataset(&self, path: &DataSetPath, uuid: Uuid) -> Result<DataSetEntry, EventsError> {
        let open = self.opened()?;
        open.0.create_dataset(path, uuid)
    }

    fn find_datasets(
        &self,
        paths: &[DataSetPath],
    ) -> Result<Vec<Option<DataSetEntry>>, EventsError> {
        self.opened()?.0.find_datasets(paths)
    }

    fn datasets(
        &self,
        parent: &DataSetPath,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, DataSetEntry)>, EventsError> {
        self.opened()?.0.datasets(parent, after, limit)
    }

    fn replace_dataset(
        &self,
        path: &DataSetPath,
        from: DataSetEntry,
        to: Option<DataSetEntry>,
    ) -> Result<(), EventsError> {
        self.opened()?.0.replace_dataset(path, from, to)
    }

    fn numbers(&self, scans: &[Scan]) -> Result<Vec<Vec<u64>>, EventsError> {
        self.opened()?.0.numbers(scans)
    }

    fn contains(&self, children: &[(Parent, &[u64])]) -> Result<Vec<Vec<bool>>, EventsError> {
        self.opened()?.0.contains(children)
    }

    fn remove(&self, parent: &Parent, numbers: &[u64]) -> Result<(), EventsError> {
        self.opened()?.0.remove(parent, numbers)
    }

    fn load(&self, wanted: &[Wanted<'_>], visit: &mut Visit<'_>) -> Result<(), EventsError> {
        self.opened()?.0.load(wanted, visit)
    }

    fn names(
        &self,
        parent: &Parent,
        event: u64,
        label: Option<&str>,
    ) -> Result<Vec<ProductName>, EventsError> {
        self.opened()?.0.names(parent, event, label)
    }

    fn name_counts(&self, parent: &Parent) -> Result<Vec<NameCount>, EventsError> {
        self.opened()?.0.name_counts(parent)
    }

    fn stored_bytes(&self, parent: &Parent) -> Result<u64, EventsError> {
        self.opened()?.0.stored_bytes(parent)
    }

    fn remove_products(
        &self,
        parent: &Parent,
        event: u64,
        name: Option<&ProductName>,
    ) -> Result<(), EventsError> {
        let open = self.opened()?;
        open.0.remove_products(parent, event, name)
    }

    fn remove_named(&self, parent: &Parent, name: &ProductName) -> Result<u64, EventsError> {
        self.opened()?.0.remove_named(parent, name)
    }

    fn clear(&self, parent: &Parent) -> Result<(), EventsError> {
        self.opened()?.0.clear(parent)
    }

    fn remove_nameless(&self) -> Result<BTreeSet<Uuid>, EventsError> {
        self.opened()?.0.remove_nameless()
    }

    fn note(&self, key: &str, value: &[u8]) -> Result<Vec<u8>, EventsError> {
        self.opened()?.0.note(key, value)
    }

    fn noted(&self, key: &str) -> Result<Option<Vec<u8>>, EventsError> {
        self.opened()?.0.noted(key)
    }

    fn replace_note(&self, key: &str, value: &[u8]) -> Result<(), EventsError> {
        self.opened()?.0.replace_note(key, value)
    }

    fn remove_note(&self, key: &str) -> Result<(), EventsError> {
        self.opened()?.0.remove_note(key)
    }

    fn check(&self) -> Result<Vec<String>, EventsError> {
        self.opened()?.0.check()
    }

    fn queues(&self) -> &dyn Queues {
        self
    }
}

impl Queues for Session {
    fn create(&self, queue: &str) -> Result<bool, EventsError> {
        self.opened()?.0.queues().create(queue)
    }

    fn destroy(&self, queue: &str) -> Result<bool, EventsError> {
        self.opened()?.0.queues().destroy(queue)
    }

    fn produce(&self, queue: &str, producer: Uuid, lease: Duration) -> Result<bool, EventsError> {
        self.opened()?.0.queues().produce(queue, producer, lease)
    }

    fn end_producing(&self, queue: &str, producer: Uuid) -> Result<(), EventsError> {
        self.opened()?.0.queues().end_producing(queue, producer)
    }

    fn push(&self, queue: &str, value: &[u8]) -> Result<bool, EventsError> {
        self.opened()?.0.queues().push(queue, value)
    }

    fn pop(&self, queue: &str, patience: Duration) -> Result<Popped, EventsError> {
        self.opened()?.0.queues().pop(queue, patience)
    }

    fn put_back(&self, queue: &str, value: &[u8]) -> Result<bool, EventsError> {
        self.opened()?.0.queues().put_back(queue, value)
    }

    fn n_values(&self, queue: &str) -> Result<Option<u64>, EventsError> {
        self.opened()?.0.queues().n_values(queue)
    }
}
