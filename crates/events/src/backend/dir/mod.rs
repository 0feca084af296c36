//! `dir:PATH`: a store in a directory, with LMDB.
//!
//! `docs/design/009-event-store.md` compares engines. LMDB writes as fast as fjall and reads two to ten times as fast,
//! and any number of processes can read while one writes. Its file is mapped into memory, so the directory must be on a
//! local disk.

#![expect(
    unsafe_code,
    reason = "LMDB maps a file that other processes may write to; heed requires its callers to guarantee that they \
              write only through LMDB"
)]

mod check;
mod compact;
mod file;
mod full;
mod open;
mod pages;
mod put;
mod queues;
mod snapshot;
mod tables;
#[cfg(test)]
mod tests;
mod together;
mod walk;
mod writing;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use heed::{Env, MdbError, WithoutTls};

use crate::forked::{Forked, Process};
use crate::{
    ABSENT, Backend, Batch, DataSetEntry, DataSetPath, EventsError, NameCount, Parent, ProductName,
    Queues, Scan, Uuid, Visit, Wanted, Written,
};
pub use compact::{Compacted, compact};
use file::{DataFile, WriterLock};
pub use file::{Mode, check_there};
pub use open::open;
use pages::{Damage, Found, Tree};
use queues::DirQueues;
use snapshot::{Map, Snapshot};
use tables::{Name, Tables, children, hex};
use together::{Outcome, SMALL, Together};
use walk::{Alike, Walk};
use writing::Writing;

/// A store in a directory, opened for writing or reading.
pub struct DirBackend {
    shared: Arc<Shared>,
    /// Held while this backend may write; `None` if it was opened for reading.
    writer: Option<WriterLock>,
}

impl Deref for DirBackend {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

/// The state of a directory; one per process, even if the process opens the store several times.
pub struct Shared {
    url: String,
    env: Env<WithoutTls>,
    /// `None` if it was opened for reading.
    tables: Option<Tables>,
    map: Map,
    /// Whether it stores key counts and compresses products, as stores of the second layout do.
    is_second: bool,
    queues: DirQueues,
    together: Together,
    /// Distinguishes the file from a copy of it.
    seat: Option<String>,
    file: DataFile,
    /// The process that opened it: LMDB's files must not be used after a fork.
    process: Process,
    /// Whether a crash of the machine may undo committed data.
    is_dirty: AtomicBool,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Closing the parent's files would release the locks of files that this process has opened again.
        if !self.process.is_this() {
            std::mem::forget(self.env.clone());
        }
    }
}

impl std::fmt::Debug for DirBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DirBackend")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl DirBackend {
    fn engine(&self, doing: &'static str) -> impl FnOnce(heed::Error) -> EventsError {
        move |error| match error {
            heed::Error::Mdb(MdbError::MapFull) => EventsError::engine(
                &self.url,
                doing,
                "the store has reached its maximum size: set FEMTOBARN_STORE_MAP_SIZE to more bytes",
            ),
            error => full::failed(&self.url, doing, self.env.path(), error),
        }
    }

    fn check_process(&self) -> Result<(), EventsError> {
        let what = || format!("{}: this store was opened", self.url);
        self.process.check(what, "open it again")
    }

    fn reading(&self) -> Result<Snapshot<'_>, EventsError> {
        self.check_process()?;
        let txn = self.env.read_txn().map_err(self.engine("begin to read"))?;
        let snapshot = Snapshot::new(txn, self.file.file(), &self.map);
        let snapshot = snapshot.map_err(|error| self.engine("read its file")(error.into()))?;
        snapshot.ok_or_else(|| self.damaged()(Damage::of_metadata()))
    }

    /// The error for a damaged page.
    fn damaged(&self) -> impl Fn(Damage) -> EventsError {
        |damage| damage.error(&self.url)
    }

    /// Runs a function in a transaction, and commits it.
    fn change<T>(
        &self,
        doing: &'static str,
        change: impl FnOnce(&mut Writing<'_>) -> Result<T, heed::Error>,
    ) -> Result<T, EventsError> {
        self.check_process()?;
        self.check_writes(doing)?;
        self.file.check(&self.url, doing)?;
        let tables = self.tables.ok_or_else(|| EventsError::ReadOnly {
            url: self.url.clone(),
            doing,
        })?;
        let mut writing = Writing::new(&self.env, tables).map_err(self.engine(doing))?;
        let result = change(&mut writing).map_err(self.engine(doing))?;
        writing.commit().map_err(self.engine(doing))?;
        self.is_dirty.store(true, Ordering::Release);
        Ok(result)
    }

    /// Writes batches in one transaction. If that fails, writes each separately, so that one batch cannot make another
    /// fail.
    fn write_all(&self, batches: &[&Batch]) -> Vec<Outcome> {
        let put = |writing: &mut Writing<'_>| {
            let each = batches.iter().map(|batch| put::put(writing, batch));
            each.collect::<Result<Vec<_>, _>>()
        };
        match self.change("write", put) {
            Ok(written) => written.into_iter().map(Ok).collect(),
            Err(error) if batches.len() == 1 => vec![Err(error)],
            Err(_) => {
                let alone =
                    |batch: &&Batch| self.change("write", |writing| put::put(writing, batch));
                batches.iter().map(alone).collect()
            }
        }
    }

    fn entry(&self, key: &[u8], value: &[u8]) -> Result<DataSetEntry, EventsError> {
        DataSetEntry::from_bytes(value).ok_or_else(|| self.bad_key("datasets", key))
    }

    fn bad_key(&self, table: &'static str, key: &[u8]) -> EventsError {
        EventsError::Key {
            url: self.url.clone(),
            table,
            key: hex(key),
        }
    }
}

/// The datasets with data but without a name; `None` if the entry of a name is damaged.
fn nameless(snapshot: &Snapshot<'_>) -> Result<Option<BTreeSet<Uuid>>, Damage> {
    let mut named = HashSet::new();
    for entry in snapshot.table(Name::DataSets)?.from(&[])? {
        let Some(entry) = DataSetEntry::from_bytes(entry?.1) else {
            return Ok(None);
        };
        named.insert(entry.uuid);
    }
    let mut found = BTreeSet::new();
    for table in Name::BY_DATASET {
        let table = snapshot.table(table)?;
        let mut from = Some([0; 16]);
        while let Some(start) = from {
            let key = table.from(&start)?.next().transpose()?;
            let Some(uuid) = key.and_then(|(key, _)| key.first_chunk::<16>()) else {
                break;
            };
            if !named.contains(&Uuid(*uuid)) {
                found.insert(Uuid(*uuid));
            }
            // to the next dataset
            from = u128::from_be_bytes(*uuid)
                .checked_add(1)
                .map(u128::to_be_bytes);
        }
    }
    Ok(Some(found))
}

/// The entries whose keys have a prefix.
fn below<'a>(tree: Tree<'a>, prefix: &'a [u8]) -> Result<impl Iterator<Item = Found<'a>>, Damage> {
    let is_below = |entry: &Found<'_>| {
        let key = entry.as_ref().map(|(key, _)| key);
        key.map_or(true, |key| key.starts_with(prefix))
    };
    Ok(tree.from(prefix)?.take_while(is_below))
}

impl Backend for DirBackend {
    fn url(&self) -> &str {
        &self.url
    }

    fn identity(&self) -> usize {
        Arc::as_ptr(&self.shared).addr()
    }

    fn check_writes(&self, doing: &'static str) -> Result<(), EventsError> {
        match self.writer {
            Some(_) => Ok(()),
            None => Err(EventsError::ReadOnly {
                url: self.url.clone(),
                doing,
            }),
        }
    }

    fn is_durable(&self) -> bool {
        true
    }

    fn compresses(&self) -> bool {
        self.shared.is_second
    }

    fn seat(&self) -> Option<String> {
        self.seat.clone()
    }

    fn write(&self, batch: &Batch) -> Result<Written, EventsError> {
        if batch.is_empty() {
            return Ok(Written::default());
        }
        self.check_process()?;
        self.check_writes("write")?; // a reader has no unwritten batches
        if batch.n_bytes() > SMALL {
            return self.change("write", |writing| put::put(writing, batch));
        }
        let poisoned = || EventsError::Poisoned {
            url: self.url.clone(),
        };
        let write = |batches: &[&Batch]| self.write_all(batches);
        self.together.write(batch, write, poisoned)
    }

    fn flush(&self) -> Result<(), EventsError> {
        self.check_process()?;
        self.file.check(&self.url, "flush")?;
        if self.is_dirty.swap(false, Ordering::AcqRel) {
            self.env.force_sync().map_err(self.engine("flush"))?;
        }
        Ok(())
    }

    fn create_dataset(&self, path: &DataSetPath, uuid: Uuid) -> Result<DataSetEntry, EventsError> {
        let found = self.find_datasets(std::slice::from_ref(path))?;
        if let Some(there) = found.into_iter().flatten().next() {
            return Ok(there);
        }
        let key = path.to_bytes();
        let there = self.change("create a dataset", |writing| {
            let is_new = writing.put_new(Name::DataSets, &key, &uuid.0)?;
            let there = writing.get(Name::DataSets, &key)?.map(<[u8]>::to_vec);
            Ok(there.filter(|_| !is_new))
        })?;
        match there {
            None => Ok(DataSetEntry::live(uuid)),
            Some(bytes) => self.entry(&key, &bytes),
        }
    }

    fn find_datasets(
        &self,
        paths: &[DataSetPath],
    ) -> Result<Vec<Option<DataSetEntry>>, EventsError> {
        self.file.check(&self.url, "find a dataset")?;
        let snapshot = self.reading()?;
        let datasets = snapshot.table(Name::DataSets);
        let datasets = datasets.map_err(self.damaged())?;
        let one = |path: &DataSetPath| {
            let key = path.to_bytes();
            let found = datasets.get(&key).map_err(self.damaged())?;
            found.map(|bytes| self.entry(&key, bytes)).transpose()
        };
        paths.iter().map(one).collect()
    }

    fn datasets(
        &self,
        parent: &DataSetPath,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, DataSetEntry)>, EventsError> {
        const DOING: &str = "list datasets";
        self.file.check(&self.url, DOING)?;
        let snapshot = self.reading()?;
        let prefix = parent.prefix();
        let from = [&prefix, after.unwrap_or_default().as_bytes()].concat();
        let datasets = snapshot.table(Name::DataSets).map_err(self.damaged())?;
        let mut found = Vec::new();
        for entry in datasets.from(&from).map_err(self.damaged())? {
            let (key, value) = entry.map_err(self.damaged())?;
            let Some(name) = key.strip_prefix(prefix.as_slice()) else {
                break;
            };
            let name = std::str::from_utf8(name).map_err(|_| self.bad_key("datasets", key))?;
            if after != Some(name) {
                found.push((name.to_owned(), self.entry(key, value)?));
            }
            if found.len() == limit {
                break;
            }
        }
        Ok(found)
    }

    fn replace_dataset(
        &self,
        path: &DataSetPath,
        from: DataSetEntry,
        to: Option<DataSetEntry>,
    ) -> Result<(), EventsError> {
        let key = path.to_bytes();
        self.change("remove a dataset", |writing| {
            if writing.get(Name::DataSets, &key)? != Some(&from.to_bytes()) {
                return Ok(());
            }
            match to {
                Some(to) => writing.put(Name::DataSets, &key, &to.to_bytes()),
                None => writing.delete(Name::DataSets, &key).map(drop),
            }
        })
    }

    fn numbers(&self, scans: &[Scan]) -> Result<Vec<Vec<u64>>, EventsError> {
        let snapshot = self.reading()?;
        let one = |scan: &Scan| {
            let (table, prefix) = children(&scan.parent);
            let from = [&prefix, scan.from.to_be_bytes().as_slice()].concat();
            let table = snapshot.table(table).map_err(self.damaged())?;
            let keys = table.from(&from).map_err(self.damaged())?;
            let mut numbers = Vec::new();
            for entry in keys.take(scan.limit) {
                let (key, _) = entry.map_err(self.damaged())?;
                let Some(number) = key.strip_prefix(prefix.as_slice()) else {
                    break;
                };
                let number = number.try_into();
                let number = number.map_err(|_| self.bad_key("containers", key))?;
                match u64::from_be_bytes(number) {
                    ABSENT => break,
                    number => numbers.push(number),
                }
            }
            Ok(numbers)
        };
        scans.iter().map(one).collect()
    }

    fn contains(&self, wanted: &[(Parent, &[u64])]) -> Result<Vec<Vec<bool>>, EventsError> {
        let snapshot = self.reading()?;
        let one = |(parent, numbers): &(Parent, &[u64])| {
            let (table, prefix) = children(parent);
            let table = snapshot.table(table).map_err(self.damaged())?;
            let is_there = |number: &u64| {
                let key = [&prefix, number.to_be_bytes().as_slice()].concat();
                let found = table.get(&key).map_err(self.damaged())?;
                Ok(found.is_some())
            };
            numbers.iter().map(is_there).collect()
        };
        wanted.iter().map(one).collect()
    }

    fn remove(&self, parent: &Parent, numbers: &[u64]) -> Result<(), EventsError> {
        let (table, prefix) = children(parent);
        self.change("remove containers", |writing| {
            for number in numbers {
                let key = [&prefix, number.to_be_bytes().as_slice()].concat();
                writing.delete(table, &key)?;
            }
            Ok(())
        })
    }

    fn load(&self, wanted: &[Wanted<'_>], visit: &mut Visit<'_>) -> Result<(), EventsError> {
        let snapshot = self.reading()?;
        let products = snapshot.table(Name::Products).map_err(self.damaged())?;
        for mut alike in Alike::of(wanted) {
            let mut walk = alike.is_sorted().then(|| Walk::new(products));
            alike.each(|w, e, key| {
                let stored = match &mut walk {
                    Some(walk) => walk.find(key),
                    None => products.get(key),
                };
                visit(w, e, stored.map_err(self.damaged())?)
            })?;
        }
        Ok(())
    }

    fn names(
        &self,
        parent: &Parent,
        event: u64,
        label: Option<&str>,
    ) -> Result<Vec<ProductName>, EventsError> {
        let snapshot = self.reading()?;
        let prefix = parent.member(event).to_bytes();
        let wanted = match label {
            Some(label) => [prefix.as_slice(), label.as_bytes(), b"#"].concat(),
            None => prefix.to_vec(),
        };
        let products = snapshot.table(Name::Products).map_err(self.damaged())?;
        let mut names = Vec::new();
        for entry in below(products, &wanted).map_err(self.damaged())? {
            let (key, _) = entry.map_err(self.damaged())?;
            let name = key.get(prefix.len()..).and_then(ProductName::from_bytes);
            names.push(name.ok_or_else(|| self.bad_key("products", key))?);
        }
        // a name may contain the label's key as a prefix without having this label
        names.retain(|name| label.is_none_or(|label| name.label() == label));
        Ok(names)
    }

    fn name_counts(&self, parent: &Parent) -> Result<Vec<NameCount>, EventsError> {
        let snapshot = self.reading()?;
        let products = snapshot.table(Name::Products).map_err(self.damaged())?;
        let mut counts: BTreeMap<Vec<u8>, (u64, bool)> = BTreeMap::new();
        let prefix = parent.to_bytes();
        for entry in below(products, &prefix).map_err(self.damaged())? {
            let (key, _) = entry.map_err(self.damaged())?;
            let own = ABSENT.to_be_bytes();
            let (event, name) = key
                .get(Parent::LENGTH..)
                .and_then(|rest| rest.split_at_checked(own.len()))
                .ok_or_else(|| self.bad_key("products", key))?;
            if !counts.contains_key(name) {
                counts.insert(name.to_vec(), (0, false));
            }
            if let Some((n_events, is_own)) = counts.get_mut(name) {
                match event == own {
                    true => *is_own = true,
                    false => *n_events += 1,
                }
            }
        }
        let count = |(name, (n_events, is_own)): (Vec<u8>, (u64, bool))| {
            let known = ProductName::from_bytes(&name);
            Ok(NameCount {
                name: known.ok_or_else(|| self.bad_key("products", &name))?,
                n_events,
                is_own,
            })
        };
        counts.into_iter().map(count).collect()
    }

    fn stored_bytes(&self, parent: &Parent) -> Result<u64, EventsError> {
        let snapshot = self.reading()?;
        let products = snapshot.table(Name::Products).map_err(self.damaged())?;
        let mut n_bytes = 0;
        for entry in below(products, &parent.to_bytes()).map_err(self.damaged())? {
            let (key, value) = entry.map_err(self.damaged())?;
            n_bytes += (key.len() + value.len()) as u64;
        }
        Ok(n_bytes)
    }

    fn remove_products(
        &self,
        parent: &Parent,
        event: u64,
        name: Option<&ProductName>,
    ) -> Result<(), EventsError> {
        let mut key = parent.member(event).to_bytes().to_vec();
        self.change("remove products", |writing| {
            let Some(name) = name else {
                return writing.remove_below(Name::Products, &key);
            };
            key.extend_from_slice(name.as_str().as_bytes());
            writing.delete(Name::Products, &key).map(drop)
        })
    }

    fn remove_named(&self, parent: &Parent, name: &ProductName) -> Result<u64, EventsError> {
        let is_wanted = |rest: &[u8]| {
            rest.split_at_checked(8).is_some_and(|(event, this)| {
                this == name.as_str().as_bytes() && event != ABSENT.to_be_bytes()
            })
        };
        self.change("remove products", |writing| {
            writing.remove_those(Name::Products, &parent.to_bytes(), is_wanted)
        })
    }

    fn clear(&self, parent: &Parent) -> Result<(), EventsError> {
        let (table, prefix) = children(parent);
        self.change("empty a container", |writing| {
            writing.remove_below(Name::Products, &parent.to_bytes())?;
            writing.remove_below(table, &prefix)
        })
    }

    fn remove_nameless(&self) -> Result<BTreeSet<Uuid>, EventsError> {
        let removed = self.change("remove remaining data of deleted datasets", |writing| {
            // Nobody else writes in this transaction, and nothing was written yet.
            let found = self.reading().map(|snapshot| nameless(&snapshot));
            let Ok(Ok(Some(removed))) = &found else {
                return Ok(found.map(|found| found.map(|_| None)));
            };
            for uuid in removed {
                for table in Name::BY_DATASET {
                    writing.remove_below(table, &uuid.0)?;
                }
            }
            Ok(found)
        })?;
        let removed = removed?.map_err(self.damaged())?;
        removed.ok_or_else(|| self.bad_key("datasets", b"of a value that is not a UUID"))
    }

    fn note(&self, key: &str, value: &[u8]) -> Result<Vec<u8>, EventsError> {
        if let Some(noted) = self.noted(key)? {
            return Ok(noted);
        }
        self.change("write metadata", |writing| {
            writing.put_new(Name::Notes, key.as_bytes(), value)?;
            let there = writing.get(Name::Notes, key.as_bytes())?;
            Ok(there.unwrap_or(value).to_vec())
        })
    }

    fn noted(&self, key: &str) -> Result<Option<Vec<u8>>, EventsError> {
        let snapshot = self.reading()?;
        let notes = snapshot.table(Name::Notes).map_err(self.damaged())?;
        let noted = notes.get(key.as_bytes()).map_err(self.damaged())?;
        Ok(noted.map(<[u8]>::to_vec))
    }

    fn replace_note(&self, key: &str, value: &[u8]) -> Result<(), EventsError> {
        self.change("write metadata", |writing| {
            writing.put(Name::Notes, key.as_bytes(), value)
        })
    }

    fn remove_note(&self, key: &str) -> Result<(), EventsError> {
        self.change("remove metadata", |writing| {
            writing.delete(Name::Notes, key.as_bytes()).map(drop)
        })
    }

    fn check(&self) -> Result<Vec<String>, EventsError> {
        Ok(check::check(&self.reading()?, self.is_second))
    }

    fn queues(&self) -> &dyn Queues {
        &self.queues
    }
}
