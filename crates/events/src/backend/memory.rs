//! `memory:`: sorted maps, shared by the threads of one process.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use crate::batch::{Items, Products};
use crate::{
    ABSENT, Backend, Batch, DataSetEntry, DataSetPath, Descriptor, EventsError, NameCount,
    Overwrite, Parent, Popped, ProductId, ProductName, Queues, Scan, Uuid, Visit, Wanted, Written,
};

/// Number of locks over which containers are distributed.
const SHARDS: usize = 32;

/// Containers and products in memory; they are lost when the store is dropped.
#[derive(Debug)]
pub struct MemoryBackend {
    url: String,
    datasets: RwLock<BTreeMap<Vec<u8>, DataSetEntry>>,
    shards: Vec<RwLock<Shard>>,
    hasher: RandomState,
    notes: Mutex<BTreeMap<String, Vec<u8>>>,
    queues: MemoryQueues,
}

/// The products of one name by event.
type Values = BTreeMap<u64, Box<[u8]>>;

#[derive(Debug, Default)]
struct Shard {
    children: HashMap<Parent, BTreeSet<u64>>,
    products: HashMap<Parent, BTreeMap<ProductName, Values>>,
}

impl MemoryBackend {
    /// Creates an empty store.
    pub fn new(url: &str) -> Self {
        Self {
            url: url.into(),
            datasets: RwLock::default(),
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            hasher: RandomState::new(),
            notes: Mutex::default(),
            queues: MemoryQueues::new(url),
        }
    }

    fn shard(&self, parent: &Parent) -> Result<&RwLock<Shard>, EventsError> {
        let hash = self.hasher.hash_one(parent);
        let at = usize::try_from(hash % SHARDS as u64).unwrap_or_default();
        self.shards.get(at).ok_or_else(|| self.poisoned())
    }

    fn read(&self, parent: &Parent) -> Result<RwLockReadGuard<'_, Shard>, EventsError> {
        self.shard(parent)?.read().map_err(|_| self.poisoned())
    }

    fn change(&self, parent: &Parent) -> Result<RwLockWriteGuard<'_, Shard>, EventsError> {
        self.shard(parent)?.write().map_err(|_| self.poisoned())
    }

    fn poisoned(&self) -> EventsError {
        EventsError::Poisoned {
            url: self.url.clone(),
        }
    }

    fn store(
        &self,
        batch: &Batch,
        group: &Products,
        written: &mut Written,
    ) -> Result<(), EventsError> {
        let mut shard = self.change(&group.parent)?;
        let names = shard.products.entry(group.parent).or_default();
        let values = names.entry(group.name.clone()).or_default();
        for (event, range) in &group.entries {
            let value = || batch.stored(range).into();
            match batch.overwrite() {
                Overwrite::Replace => {
                    values.insert(*event, value());
                }
                Overwrite::Keep if values.contains_key(event) => written.kept.push(ProductId {
                    container: group.parent.member(*event),
                    name: group.name.clone(),
                }),
                Overwrite::Keep => {
                    values.insert(*event, value());
                }
            }
        }
        Ok(())
    }

    fn create(&self, items: &Items) -> Result<(), EventsError> {
        let mut shard = self.change(&items.parent)?;
        let children = shard.children.entry(items.parent).or_default();
        children.extend(&items.numbers);
        Ok(())
    }
}

impl Backend for MemoryBackend {
    fn url(&self) -> &str {
        &self.url
    }

    fn is_durable(&self) -> bool {
        false
    }

    fn is_kept(&self) -> bool {
        false
    }

    fn compresses(&self) -> bool {
        false
    }

    fn write(&self, batch: &Batch) -> Result<Written, EventsError> {
        let mut written = Written::default();
        for group in batch.products() {
            self.store(batch, group, &mut written)?;
        }
        batch
            .items()
            .iter()
            .try_for_each(|items| self.create(items))?;
        Ok(written)
    }

    fn flush(&self) -> Result<(), EventsError> {
        Ok(())
    }

    fn create_dataset(&self, path: &DataSetPath, uuid: Uuid) -> Result<DataSetEntry, EventsError> {
        let mut datasets = self.datasets.write().map_err(|_| self.poisoned())?;
        let entry = datasets.entry(path.to_bytes());
        Ok(*entry.or_insert(DataSetEntry::live(uuid)))
    }

    fn find_datasets(
        &self,
        paths: &[DataSetPath],
    ) -> Result<Vec<Option<DataSetEntry>>, EventsError> {
        let datasets = self.datasets.read().map_err(|_| self.poisoned())?;
        let paths = paths.iter();
        Ok(paths
            .map(|path| datasets.get(&path.to_bytes()).copied())
            .collect())
    }

    fn datasets(
        &self,
        parent: &DataSetPath,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, DataSetEntry)>, EventsError> {
        let datasets = self.datasets.read().map_err(|_| self.poisoned())?;
        let prefix = parent.prefix();
        let from = [&prefix, after.unwrap_or_default().as_bytes()].concat();
        let name = |key: &Vec<u8>| {
            let name = key.strip_prefix(&*prefix)?;
            Some(String::from_utf8_lossy(name).into_owned())
        };
        Ok(datasets
            .range(from..)
            .map_while(|(key, entry)| Some((name(key)?, *entry)))
            .filter(|(name, _)| Some(name.as_str()) != after)
            .take(limit)
            .collect())
    }

    fn replace_dataset(
        &self,
        path: &DataSetPath,
        from: DataSetEntry,
        to: Option<DataSetEntry>,
    ) -> Result<(), EventsError> {
        let mut datasets = self.datasets.write().map_err(|_| self.poisoned())?;
        let key = path.to_bytes();
        if datasets.get(&key) == Some(&from) {
            match to {
                Some(to) => datasets.insert(key, to),
                None => datasets.remove(&key),
            };
        }
        Ok(())
    }

    fn numbers(&self, scans: &[Scan]) -> Result<Vec<Vec<u64>>, EventsError> {
        let one = |scan: &Scan| {
            let shard = self.read(&scan.parent)?;
            let children = shard.children.get(&scan.parent);
            Ok(children.map_or_else(Vec::new, |children| {
                children
                    .range(scan.from..)
                    .take(scan.limit)
                    .copied()
                    .collect()
            }))
        };
        scans.iter().map(one).collect()
    }

    fn contains(&self, children: &[(Parent, &[u64])]) -> Result<Vec<Vec<bool>>, EventsError> {
        let one = |(parent, numbers): &(Parent, &[u64])| {
            let shard = self.read(parent)?;
            let children = shard.children.get(parent);
            let is_there = |number| children.is_some_and(|children| children.contains(number));
            Ok(numbers.iter().map(is_there).collect())
        };
        children.iter().map(one).collect()
    }

    fn remove(&self, parent: &Parent, numbers: &[u64]) -> Result<(), EventsError> {
        let mut shard = self.change(parent)?;
        if let Some(children) = shard.children.get_mut(parent) {
            for number in numbers {
                children.remove(number);
            }
            if children.is_empty() {
                shard.children.remove(parent);
            }
        }
        Ok(())
    }

    fn load(&self, wanted: &[Wanted<'_>], visit: &mut Visit<'_>) -> Result<(), EventsError> {
        for (w, wanted) in wanted.iter().enumerate() {
            let shard = self.read(&wanted.parent)?;
            let names = shard.products.get(&wanted.parent);
            let values = names.and_then(|names| names.get(wanted.name));
            let mut next = None;
            for (e, event) in wanted.events.iter().enumerate() {
                // Requests mostly ask for events in order, so the next value is usually the requested
                // one.
                let following = next.as_mut().and_then(Iterator::next);
                let found = match following {
                    Some((at, value)) if at == event => Some(value),
                    _ => {
                        next = values.map(|values| values.range(event..));
                        let first = next.as_mut().and_then(Iterator::next);
                        first.filter(|(at, _)| *at == event).map(|(_, value)| value)
                    }
                };
                visit(w, e, found.map(|value| &**value))?;
            }
        }
        Ok(())
    }

    fn names(
        &self,
        parent: &Parent,
        event: u64,
        label: Option<&str>,
    ) -> Result<Vec<ProductName>, EventsError> {
        let shard = self.read(parent)?;
        let names = shard.products.get(parent).into_iter().flatten();
        let names = names.filter(|(name, _)| label.is_none_or(|label| name.label() == label));
        let has_event = names.filter(|(_, values)| values.contains_key(&event));
        Ok(has_event.map(|(name, _)| name.clone()).collect())
    }

    fn name_counts(&self, parent: &Parent) -> Result<Vec<NameCount>, EventsError> {
        let shard = self.read(parent)?;
        let names = shard.products.get(parent).into_iter().flatten();
        let count = |(name, values): (&ProductName, &Values)| {
            let is_own = values.contains_key(&ABSENT);
            NameCount {
                name: name.clone(),
                n_events: values.len() as u64 - u64::from(is_own),
                is_own,
            }
        };
        Ok(names.map(count).collect())
    }

    fn stored_bytes(&self, parent: &Parent) -> Result<u64, EventsError> {
        let shard = self.read(parent)?;
        let names = shard.products.get(parent).into_iter().flatten();
        let of_name = |(name, values): (&ProductName, &Values)| {
            let key = Descriptor::LENGTH + name.as_str().len();
            let n_bytes: usize = values.values().map(|value| key + value.len()).sum();
            n_bytes as u64
        };
        Ok(names.map(of_name).sum())
    }

    fn remove_products(
        &self,
        parent: &Parent,
        event: u64,
        name: Option<&ProductName>,
    ) -> Result<(), EventsError> {
        let mut shard = self.change(parent)?;
        if let Some(names) = shard.products.get_mut(parent) {
            names.retain(|this, values| {
                if name.is_none_or(|name| name == this) {
                    values.remove(&event);
                }
                !values.is_empty()
            });
        }
        Ok(())
    }

    fn remove_named(&self, parent: &Parent, name: &ProductName) -> Result<u64, EventsError> {
        let mut shard = self.change(parent)?;
        let Some(names) = shard.products.get_mut(parent) else {
            return Ok(0);
        };
        let Some(mut values) = names.remove(name) else {
            return Ok(0);
        };
        let own = values.remove(&ABSENT);
        if let Some(own) = own {
            names.insert(name.clone(), Values::from([(ABSENT, own)]));
        }
        Ok(values.len() as u64)
    }

    fn clear(&self, parent: &Parent) -> Result<(), EventsError> {
        let mut shard = self.change(parent)?;
        shard.products.remove(parent);
        shard.children.remove(parent);
        Ok(())
    }

    fn remove_nameless(&self) -> Result<BTreeSet<Uuid>, EventsError> {
        // While this lock is held, no dataset can get a name.
        let datasets = self.datasets.read().map_err(|_| self.poisoned())?;
        let named: HashSet<Uuid> = datasets.values().map(|entry| entry.uuid).collect();
        let mut removed = BTreeSet::new();
        let mut stays = |parent: &Parent| {
            let is_named = named.contains(&parent.dataset);
            removed.extend((!is_named).then_some(parent.dataset));
            is_named
        };
        for shard in &self.shards {
            let mut shard = shard.write().map_err(|_| self.poisoned())?;
            shard.children.retain(|parent, _| stays(parent));
            shard.products.retain(|parent, _| stays(parent));
        }
        Ok(removed)
    }

    fn note(&self, key: &str, value: &[u8]) -> Result<Vec<u8>, EventsError> {
        let mut notes = self.notes.lock().map_err(|_| self.poisoned())?;
        let noted = notes.entry(key.into()).or_insert_with(|| value.into());
        Ok(noted.clone())
    }

    fn noted(&self, key: &str) -> Result<Option<Vec<u8>>, EventsError> {
        let notes = self.notes.lock().map_err(|_| self.poisoned())?;
        Ok(notes.get(key).cloned())
    }

    fn replace_note(&self, key: &str, value: &[u8]) -> Result<(), EventsError> {
        let mut notes = self.notes.lock().map_err(|_| self.poisoned())?;
        notes.insert(key.into(), value.into());
        Ok(())
    }

    fn remove_note(&self, key: &str) -> Result<(), EventsError> {
        let mut notes = self.notes.lock().map_err(|_| self.poisoned())?;
        notes.remove(key);
        Ok(())
    }

    fn queues(&self) -> &dyn Queues {
        &self.queues
    }
}

/// Queues between the threads of a process.
#[derive(Debug)]
struct MemoryQueues {
    url: String,
    all: Mutex<HashMap<String, Queue>>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    values: VecDeque<Vec<u8>>,
    producers: HashMap<Uuid, Instant>,
}

impl MemoryQueues {
    fn new(url: &str) -> Self {
        Self {
            url: url.into(),
            all: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> Result<MutexGuard<'_, HashMap<String, Queue>>, EventsError> {
        self.all.lock().map_err(|_| self.poisoned())
    }

    fn poisoned(&self) -> EventsError {
        EventsError::Poisoned {
            url: self.url.clone(),
        }
    }
}

impl Queues for MemoryQueues {
    fn create(&self, queue: &str) -> Result<bool, EventsError> {
        let mut all = self.lock()?;
        let is_new = !all.contains_key(queue);
        all.entry(queue.into()).or_default();
        Ok(is_new)
    }

    fn destroy(&self, queue: &str) -> Result<bool, EventsError> {
        let was_there = self.lock()?.remove(queue).is_some();
        self.changed.notify_all();
        Ok(was_there)
    }

    fn produce(&self, queue: &str, producer: Uuid, lease: Duration) -> Result<bool, EventsError> {
        let mut all = self.lock()?;
        let Some(queue) = all.get_mut(queue) else {
            return Ok(false);
        };
        queue.producers.insert(producer, Instant::now() + lease);
        Ok(true)
    }

    fn end_producing(&self, queue: &str, producer: Uuid) -> Result<(), EventsError> {
        if let Some(queue) = self.lock()?.get_mut(queue) {
            queue.producers.remove(&producer);
        }
        self.changed.notify_all();
        Ok(())
    }

    fn push(&self, queue: &str, value: &[u8]) -> Result<bool, EventsError> {
        let mut all = self.lock()?;
        let Some(queue) = all.get_mut(queue) else {
            return Ok(false);
        };
        queue.values.push_back(value.into());
        self.changed.notify_all();
        Ok(true)
    }

    fn pop(&self, queue: &str, patience: Duration) -> Result<Popped, EventsError> {
        let until = Instant::now() + patience;
        let mut all = self.lock()?;
        loop {
            let now = Instant::now();
            let Some(found) = all.get_mut(queue) else {
                return Ok(Popped::NoQueue);
            };
            if let Some(value) = found.values.pop_front() {
                return Ok(Popped::Value(value));
            }
            found.producers.retain(|_, until| *until > now);
            let Some(first_lapse) = found.producers.values().min() else {
                return Ok(Popped::Ended);
            };
            if now >= until {
                return Ok(Popped::Nothing);
            }
            let wait = until.min(*first_lapse).saturating_duration_since(now);
            let waited = self.changed.wait_timeout(all, wait);
            (all, _) = waited.map_err(|_| self.poisoned())?;
        }
    }

    fn put_back(&self, queue: &str, value: &[u8]) -> Result<bool, EventsError> {
        let mut all = self.lock()?;
        let Some(queue) = all.get_mut(queue) else {
            return Ok(false);
        };
        queue.values.push_front(value.into());
        self.changed.notify_all();
        Ok(true)
    }

    fn n_values(&self, queue: &str) -> Result<Option<u64>, EventsError> {
        let all = self.lock()?;
        Ok(all.get(queue).map(|queue| queue.values.len() as u64))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::tests::conformance;

    #[test]
    fn it_does_what_backends_promise() {
        conformance::all(&|| Arc::new(MemoryBackend::new("memory:")));
    }
}
