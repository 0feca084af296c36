//! Queues between processes on one machine: a separate LMDB file, which every process may write.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use heed::{Env, RwTxn, WithoutTls};

use super::file::{DataFile, Mode, environment};
use super::full;
use super::tables::{Database, remove_those};
use crate::{EventsError, Popped, Queues, Uuid};

/// Interval for polling an empty queue.
const FIRST_PAUSE: Duration = Duration::from_micros(200);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// All queues of a store. The file is created with the first queue.
pub struct DirQueues {
    folder: PathBuf,
    url: String,
    store: DataFile,
    opened: OnceLock<Opened>,
    opening: Mutex<()>,
}

struct Opened {
    env: Env<WithoutTls>,
    /// Maps a name to the number of the next value.
    queues: Database,
    /// Maps name, 0 and number to a value. The name's length comes first, so the separator is
    /// unambiguous.
    values: Database,
    /// Maps name, 0 and producer to the end of the lease, in milliseconds since 1970.
    producers: Database,
}

impl std::fmt::Debug for DirQueues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("DirQueues").field(&self.folder).finish()
    }
}

impl DirQueues {
    pub fn new(folder: &Path, url: &str, store: DataFile) -> Self {
        Self {
            folder: folder.into(),
            url: url.into(),
            store,
            opened: OnceLock::new(),
            opening: Mutex::default(),
        }
    }

    fn failed(&self, doing: &'static str) -> impl FnOnce(heed::Error) -> EventsError {
        move |error| full::failed(&self.url, doing, &self.folder, error)
    }

    fn open(&self) -> Result<&Opened, EventsError> {
        let _guard = self.opening.lock();
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let url = &self.url;
        self.store.check(url, "open its queues")?;
        std::fs::create_dir_all(&self.folder)
            .map_err(|error| EventsError::engine(url, "create the directory of queues", error))?;
        let open = || {
            let env = environment(&self.folder, Mode::Append.flags(), 3)?;
            env.clear_stale_readers()?;
            let mut txn = env.write_txn()?;
            let [queues, values, producers] = [
                env.create_database(&mut txn, Some("queues"))?,
                env.create_database(&mut txn, Some("values"))?,
                env.create_database(&mut txn, Some("producers"))?,
            ];
            txn.commit()?;
            Ok(Opened {
                env,
                queues,
                values,
                producers,
            })
        };
        let opened = open().map_err(self.failed("open its queues"))?;
        Ok(self.opened.get_or_init(|| opened))
    }

    fn change<T>(
        &self,
        doing: &'static str,
        change: impl FnOnce(&Opened, &mut RwTxn<'_>) -> Result<T, heed::Error>,
    ) -> Result<T, EventsError> {
        let opened = self.open()?;
        self.store.check(&self.url, doing)?;
        let mut txn = opened.env.write_txn().map_err(self.failed(doing))?;
        let result = change(opened, &mut txn).map_err(self.failed(doing))?;
        txn.commit().map_err(self.failed(doing))?;
        Ok(result)
    }

    fn take(&self, queue: &str) -> Result<Popped, EventsError> {
        // Checked first without the write lock.
        if !self.has_values(queue)? && self.n_values(queue)?.is_some() {
            return self.ended(queue);
        }
        self.change("pop from a queue", |opened, txn| {
            if opened.queues.get(txn, &key(queue))?.is_none() {
                return Ok(Popped::NoQueue);
            }
            let mut values = opened.values.prefix_iter_mut(txn, &key(queue))?;
            let Some((_, value)) = values.next().transpose()? else {
                return Ok(Popped::Nothing);
            };
            let value = value.to_vec();
            // SAFETY: the key and the value were dropped or copied: nothing borrows from the database.
            unsafe { values.del_current()? };
            Ok(Popped::Value(value))
        })
    }

    fn ended(&self, queue: &str) -> Result<Popped, EventsError> {
        const DOING: &str = "list the producers of a queue";
        let opened = self.open()?;
        let txn = opened.env.read_txn().map_err(self.failed(DOING))?;
        let prefix = key(queue);
        let producers = opened.producers.prefix_iter(&txn, &prefix);
        for entry in producers.map_err(self.failed(DOING))? {
            let (_, until) = entry.map_err(self.failed(DOING))?;
            if number(until).is_some_and(|until| until > now()) {
                return Ok(Popped::Nothing);
            }
        }
        // Another producer may have pushed just before the last one left.
        Ok(match self.has_values(queue)? {
            true => Popped::Nothing,
            false => Popped::Ended,
        })
    }

    fn has_values(&self, queue: &str) -> Result<bool, EventsError> {
        const DOING: &str = "read a queue";
        let opened = self.open()?;
        self.store.check(&self.url, DOING)?;
        let txn = opened.env.read_txn().map_err(self.failed(DOING))?;
        let prefix = key(queue);
        let values = opened.values.prefix_iter(&txn, &prefix);
        Ok(values.map_err(self.failed(DOING))?.next().is_some())
    }
}

impl Queues for DirQueues {
    fn create(&self, queue: &str) -> Result<bool, EventsError> {
        self.change("create a queue", |opened, txn| {
            let (key, first) = (key(queue), 0u64.to_be_bytes());
            let there = opened.queues.get_or_put(txn, &key, &first)?;
            Ok(there.is_none())
        })
    }

    fn destroy(&self, queue: &str) -> Result<bool, EventsError> {
        self.change("destroy a queue", |opened, txn| {
            remove_those(opened.values, txn, &key(queue), |_| true)?;
            remove_those(opened.producers, txn, &key(queue), |_| true)?;
            opened.queues.delete(txn, &key(queue))
        })
    }

    fn produce(&self, queue: &str, producer: Uuid, lease: Duration) -> Result<bool, EventsError> {
        let until = now().saturating_add(millis(lease));
        self.change("open a queue", |opened, txn| {
            if opened.queues.get(txn, &key(queue))?.is_none() {
                return Ok(false);
            }
            let key = [key(queue).as_slice(), &producer.0].concat();
            opened.producers.put(txn, &key, &until.to_be_bytes())?;
            Ok(true)
        })
    }

    fn end_producing(&self, queue: &str, producer: Uuid) -> Result<(), EventsError> {
        let key = [key(queue).as_slice(), &producer.0].concat();
        self.change("close a queue", |opened, txn| {
            opened.producers.delete(txn, &key).map(drop)
        })
    }

    fn push(&self, queue: &str, value: &[u8]) -> Result<bool, EventsError> {
        self.change("push to a queue", |opened, txn| {
            let Some(next) = opened.queues.get(txn, &key(queue))?.and_then(number) else {
                return Ok(false);
            };
            let at = [key(queue).as_slice(), &next.to_be_bytes()].concat();
            opened.values.put(txn, &at, value)?;
            let next = next.wrapping_add(1).to_be_bytes();
            opened.queues.put(txn, &key(queue), &next)?;
            Ok(true)
        })
    }

    fn pop(&self, queue: &str, patience: Duration) -> Result<Popped, EventsError> {
        let until = Instant::now() + patience;
        let mut pause = FIRST_PAUSE;
        loop {
            let popped = self.take(queue)?;
            let left = until.saturating_duration_since(Instant::now());
            if popped != Popped::Nothing || left.is_zero() {
                return Ok(popped);
            }
            thread::sleep(pause.min(left));
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn put_back(&self, queue: &str, value: &[u8]) -> Result<bool, EventsError> {
        // The value gets the number before the first existing value; that number belonged to a popped
        // value.
        self.change("return a value to a queue", |opened, txn| {
            let Some(next) = opened.queues.get(txn, &key(queue))?.and_then(number) else {
                return Ok(false);
            };
            let prefix = key(queue);
            let first = match opened
                .values
                .prefix_iter(txn, &prefix)?
                .next()
                .transpose()?
            {
                Some((at, _)) => at.get(prefix.len()..).and_then(number),
                None => Some(next),
            };
            let Some(before) = first.and_then(|first| first.checked_sub(1)) else {
                return Ok(false); // nothing was taken from it: it is another one of this name
            };
            let at = [prefix.as_slice(), &before.to_be_bytes()].concat();
            opened.values.put(txn, &at, value)?;
            Ok(true)
        })
    }

    fn n_values(&self, queue: &str) -> Result<Option<u64>, EventsError> {
        const DOING: &str = "count the values of a queue";
        let opened = self.open()?;
        let txn = opened.env.read_txn().map_err(self.failed(DOING))?;
        let is_there = opened.queues.get(&txn, &key(queue));
        if is_there.map_err(self.failed(DOING))?.is_none() {
            return Ok(None);
        }
        let prefix = key(queue);
        let values = opened.values.prefix_iter(&txn, &prefix);
        let values = values.map_err(self.failed(DOING))?;
        Ok(Some(values.count() as u64))
    }
}

/// A name after its length, so that no key is a prefix of another.
fn key(queue: &str) -> Vec<u8> {
    let length = u16::try_from(queue.len()).unwrap_or(u16::MAX);
    [&length.to_be_bytes(), queue.as_bytes()].concat()
}

fn number(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.try_into().ok()?))
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    millis(since.unwrap_or_default())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
