//! `redis://` and `rediss://`: Redis Cluster, a single Redis, and Valkey.
//!
//! The crate `femtobarn-redis` sends commands and returns replies; this module defines the commands of the store.
//! `settings` parses URLs, and `keys` defines the layout. `write`, `read`, `datasets`, `queues`, `nameless` and `flush`
//! define the commands. `guard` refuses servers that evict products (`eviction`) or have lost them (`emptied`). `failure`
//! translates errors of the client to errors of the store, with advice.
//!
//! # Invariants
//!
//! - No command has two keys, and every command can be repeated, as the client requires.
//! - No call waits for a server longer than the settings allow.

mod datasets;
mod emptied;
mod eviction;
mod failure;
mod flush;
mod guard;
mod keys;
mod nameless;
mod queues;
mod read;
pub(crate) mod settings;
#[cfg(test)]
mod tests;
mod write;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use femtobarn_redis::{Client, Commands, Reply};

use crate::{
    ABSENT, Backend, Batch, DataSetEntry, DataSetPath, EventsError, Mode, NameCount, Parent,
    ProductName, Queues, Scan, Uuid, Visit, Wanted, Written,
};
use emptied::{Known, Mark};
use failure::refused;
use guard::StoreGuard;
use keys::{FIRST_LAYOUT, ID_FIELD, LAYOUT, LAYOUT_FIELD, ParentKeys, Tagged};
use queues::Lane;
use settings::Settings;

/// Commands in flight, with the errors of a store.
type Flow<'a> = femtobarn_redis::Flow<'a, EventsError>;

/// A store in a Redis.
#[derive(Debug)]
pub struct RedisBackend {
    client: Client,
    guard: Arc<StoreGuard>,
    /// Common prefix of all keys.
    prefix: String,
    /// Number of replicas that must confirm a write.
    replicas: usize,
    mode: Mode,
    is_durable: bool,
    /// Whether products are compressed, as in stores of the second layout.
    compresses: bool,
    /// The size of products by name, to choose the number of products per answer.
    sizes: Mutex<HashMap<ProductName, usize>>,
    /// The ID of this client as a producer of queues.
    producer: Uuid,
    /// The process that uses the lanes, the number of lanes, and the unused ones.
    lanes: Mutex<(u32, u64, Vec<Lane>)>,
}

impl RedisBackend {
    /// Connects to the store of a URL. Creates it if it does not exist and may be written.
    ///
    /// # Errors
    ///
    /// If the URL has unknown settings, no server answers, or the server has no store.
    pub fn connect(url: &str) -> Result<Arc<Self>, EventsError> {
        Self::connect_with(Settings::parse(url)?)
    }

    pub(crate) fn connect_with(settings: Settings) -> Result<Arc<Self>, EventsError> {
        let url = settings.options.url.clone();
        let producer = Uuid::random()
            .map_err(|error| EventsError::engine(&url, "draw a number", error.to_string()))?;
        let guard = Arc::new(StoreGuard {
            url,
            mode: settings.mode,
            known: Known::default(),
        });
        let mut backend = Self {
            client: Client::connect(settings.options, guard.clone())?,
            guard,
            prefix: settings.prefix,
            replicas: settings.replicas,
            mode: settings.mode,
            is_durable: false,
            compresses: false,
            sizes: Mutex::default(),
            producer,
            lanes: Mutex::default(),
        };
        // Checked first: a store is only created if all servers can be written.
        let found = backend.has_logs();
        let found = found.and_then(|logs| backend.check_layout().map(|layout| (logs, layout)));
        let (is_durable, layout) = found.map_err(|error| match error {
            // whatever it was asked first
            EventsError::Unreachable { url, said, .. } => EventsError::Unreachable {
                url,
                doing: "connect".into(),
                said,
            },
            error => error,
        })?;
        (backend.is_durable, backend.compresses) = (is_durable, layout != FIRST_LAYOUT);
        Ok(Arc::new(backend))
    }

    /// The layout of the store. Creates the store if it does not exist and may be written.
    fn check_layout(&self) -> Result<Vec<u8>, EventsError> {
        let key = Tagged::store(&self.prefix);
        let url = || self.url().into();
        // Existing data is only read: a full server and a read-only user refuse writes.
        let found = match (self.field(&key, "h", LAYOUT_FIELD)?, self.mode) {
            (None, Mode::Append) => {
                self.check_can_make(&key)?;
                Some(self.first_of(&key, "h", LAYOUT_FIELD, LAYOUT)?)
            }
            (Some(found), Mode::Append) => {
                self.check_is_master(&key)?;
                Some(found)
            }
            (found, Mode::Read) => found,
        };
        match found {
            Some(found) if found == LAYOUT || found == FIRST_LAYOUT => {
                let id = self.store_id(&key)?;
                self.guard.known.expect(Mark {
                    key: key.key("h"),
                    layout: found.clone(),
                    id,
                });
                Ok(found)
            }
            Some(found) => Err(EventsError::Layout {
                url: url(),
                expected: format!(
                    "an event store of layout {} or {}",
                    String::from_utf8_lossy(FIRST_LAYOUT),
                    String::from_utf8_lossy(LAYOUT)
                ),
                found: format!("layout {:?}", String::from_utf8_lossy(&found)),
            }),
            None => Err(EventsError::NotFound {
                url: url(),
                what: "event store".into(),
                hint: String::new(),
            }),
        }
    }

    /// Fails if the server is a replica, which refuses writes; a server that does not report its role passes.
    fn check_is_master(&self, key: &Tagged) -> Result<(), EventsError> {
        let mut commands = Commands::default();
        commands.command(key.slot, &[b"INFO", b"replication"]);
        let mut is_replica = false;
        let asked = Flow::new(&self.client).run("connect", &commands, false, &mut |_, reply| {
            is_replica = reply.text().lines().any(|line| line == "role:slave");
            Ok(())
        });
        match self.client.topology().master(key.slot) {
            Some(node) if asked.is_ok() && is_replica => {
                let said = "READONLY it is a replica";
                Err(refused(self.url(), node, "connect", said))
            }
            _ => Ok(()),
        }
    }

    /// Fails if a new store could not be created completely because replicas do not answer. Then nothing is left.
    fn check_can_make(&self, key: &Tagged) -> Result<(), EventsError> {
        let wanted = self.replicas;
        if wanted == 0 {
            return Ok(());
        }
        let mut commands = Commands::default();
        commands.command(key.slot, &[b"HGET", &key.key("h"), LAYOUT_FIELD]);
        let mut flow = Flow::new(&self.client);
        flow.run("look something up", &commands, false, &mut |_, _| Ok(()))?;
        match flow.wait_for_replicas(wanted)? {
            Some(n) if n < wanted => Err(self.too_few_to_make(wanted, n, &flow.lacking)),
            _ => Ok(()),
        }
    }

    /// The store ID, which distinguishes the store from a later one in the same place. Created if it is missing and the
    /// store may be written.
    fn store_id(&self, key: &Tagged) -> Result<Option<Vec<u8>>, EventsError> {
        let found = self.field(key, "h", ID_FIELD)?;
        if found.is_some() || self.mode == Mode::Read {
            return Ok(found);
        }
        let url = self.url();
        let drawn = Uuid::random()
            .map_err(|error| EventsError::engine(url, "create random bytes", error.to_string()))?;
        let drawn = drawn.to_string();
        self.first_of(key, "h", ID_FIELD, drawn.as_bytes())
            .map(Some)
    }

    fn keys(&self, parent: &Parent) -> ParentKeys {
        ParentKeys::new(&self.prefix, parent)
    }

    fn may_write(&self, doing: &'static str) -> Result<(), EventsError> {
        match self.mode {
            Mode::Append => Ok(()),
            Mode::Read => Err(EventsError::ReadOnly {
                url: self.url().into(),
                doing,
            }),
        }
    }

    /// The error for an unexpected answer of a server.
    fn nonsense(&self, doing: &str, reply: Reply<'_>) -> EventsError {
        let mut text = reply.text();
        text.truncate(text.floor_char_boundary(100));
        let source = format!("a server answers what makes no sense: {text:?}");
        EventsError::engine(self.url(), doing, source)
    }

    fn truth(&self, doing: &str, reply: Reply<'_>) -> Result<bool, EventsError> {
        match reply {
            Reply::Number(n) => Ok(n != 0),
            reply => Err(self.nonsense(doing, reply)),
        }
    }

    /// Executes commands and waits for replicas; repeats them if a server was lost meanwhile. Returns the answer to the
    /// last command.
    fn surely<T>(
        &self,
        doing: &str,
        commands: &Commands,
        take: &mut dyn FnMut(Reply<'_>) -> Result<T, EventsError>,
    ) -> Result<T, EventsError> {
        let wanted = self.replicas;
        let started = std::time::Instant::now();
        loop {
            let mut flow = Flow::new(&self.client);
            let mut taken = None;
            flow.run(doing, commands, true, &mut |_, reply| {
                taken = Some(take(reply)?);
                Ok(())
            })?;
            let n = match wanted {
                0 => Some(0),
                wanted => flow.wait_for_replicas(wanted)?,
            };
            match (n, taken) {
                (Some(n), Some(taken)) if n >= wanted => return Ok(taken),
                (Some(n), _) => return Err(self.too_few(wanted, n, &flow.lacking)),
                (None, _) if started.elapsed() > self.client.options().failover => {
                    return Err(self.too_few(wanted, 0, &[]));
                }
                (None, _) => {}
            }
        }
    }

    /// One field of a hash.
    fn field(
        &self,
        key: &Tagged,
        kind: &str,
        field: &[u8],
    ) -> Result<Option<Vec<u8>>, EventsError> {
        let mut commands = Commands::default();
        commands.command(key.slot, &[b"HGET", &key.key(kind), field]);
        let mut found = None;
        Flow::new(&self.client).run("look something up", &commands, false, &mut |_, reply| {
            found = reply.bytes().map(<[u8]>::to_vec);
            Ok(())
        })?;
        Ok(found)
    }

    /// One field of a hash; set to this value if it does not exist. An existing value is returned only when enough
    /// replicas have it.
    fn first_of(
        &self,
        key: &Tagged,
        kind: &str,
        field: &[u8],
        value: &[u8],
    ) -> Result<Vec<u8>, EventsError> {
        const DOING: &str = "write metadata";
        let take = &mut |reply: Reply<'_>| Ok(reply.bytes().map(<[u8]>::to_vec));
        let get = [b"HGET".as_slice(), &key.key(kind), field];
        let mut commands = Commands::default();
        commands.command(key.slot, &get);
        if let Some(found) = self.surely(DOING, &commands, take)? {
            return Ok(found);
        }
        let mut commands = Commands::default();
        commands.command(key.slot, &[b"HSETNX", &key.key(kind), field, value]);
        commands.command(key.slot, &get);
        let found = self.surely(DOING, &commands, take)?;
        found.ok_or_else(|| self.nonsense(DOING, Reply::Value(None)))
    }

    /// Executes commands whose answers are not needed.
    fn change(&self, doing: &str, commands: &Commands) -> Result<(), EventsError> {
        match commands.is_empty() {
            true => Ok(()),
            false => self.surely(doing, commands, &mut |_| Ok(())),
        }
    }

    /// The names of products that some events of a parent have or had.
    fn names_of(&self, keys: &ParentKeys) -> Result<Vec<ProductName>, EventsError> {
        let found = self.stored_names(keys)?;
        let names = found.iter().map(|bytes| {
            ProductName::from_bytes(bytes).ok_or_else(|| EventsError::Key {
                url: self.url().into(),
                table: "names of products",
                key: format!("{:?}", String::from_utf8_lossy(bytes)),
            })
        });
        let mut names = names.collect::<Result<Vec<_>, _>>()?;
        names.sort_unstable();
        Ok(names)
    }

    /// The same in stored form, so that damaged names can be deleted, too.
    fn stored_names(&self, keys: &ParentKeys) -> Result<Vec<Vec<u8>>, EventsError> {
        let mut commands = Commands::default();
        commands.command(keys.slot, &[b"SMEMBERS", &keys.names()]);
        let mut found = Vec::new();
        Flow::new(&self.client).run("list products", &commands, false, &mut |_, reply| {
            let names = reply.elements().into_iter().flatten();
            found = names
                .map(|name| name.bytes().unwrap_or_default().to_vec())
                .collect();
            Ok(())
        })?;
        Ok(found)
    }

    /// The events that have a product, from the hash of a name.
    fn events_with(&self, keys: &ParentKeys, products: &[u8]) -> Result<Vec<u64>, EventsError> {
        let mut commands = Commands::default();
        commands.command(keys.slot, &[b"HKEYS", products]);
        let mut found = Vec::new();
        Flow::new(&self.client).run("list products", &commands, false, &mut |_, reply| {
            found.clear();
            for event in reply.elements().into_iter().flatten() {
                let bytes = event.bytes().unwrap_or_default();
                found.push(keys::number(bytes).ok_or_else(|| EventsError::Key {
                    url: self.url().into(),
                    table: "products",
                    key: format!("{:?}", String::from_utf8_lossy(bytes)),
                })?);
            }
            Ok(())
        })?;
        found.retain(|event| *event != ABSENT);
        Ok(found)
    }

    fn entry(&self, path: &[u8], value: &[u8]) -> Result<DataSetEntry, EventsError> {
        DataSetEntry::from_bytes(value).ok_or_else(|| EventsError::Key {
            url: self.url().into(),
            table: "datasets",
            key: format!("{:?}", String::from_utf8_lossy(path)),
        })
    }
}

impl Backend for RedisBackend {
    fn url(&self) -> &str {
        &self.client.options().url
    }

    fn is_durable(&self) -> bool {
        self.is_durable
    }

    fn compresses(&self) -> bool {
        self.compresses
    }

    fn n_targets(&self) -> usize {
        self.client.topology().masters.len().max(1)
    }

    fn target(&self, parent: &Parent) -> usize {
        let slot = self.keys(parent).slot;
        self.client.topology().target(slot).unwrap_or_default()
    }

    fn write(&self, batch: &Batch) -> Result<Written, EventsError> {
        self.may_write("write")?;
        self.write_batch(batch)
    }

    fn flush(&self) -> Result<(), EventsError> {
        self.make_durable()
    }

    fn create_dataset(&self, path: &DataSetPath, uuid: Uuid) -> Result<DataSetEntry, EventsError> {
        self.may_write("create a dataset")?;
        let (key, name) = (self.datasets_key(), path.to_bytes());
        let found = self.first_of(&key, "u", &name, &uuid.0)?;
        let entry = self.entry(&name, &found)?;
        if !entry.is_deleting {
            // It is listed once it can be opened. This is repeated each time, because the program that created it may
            // have ended before listing it.
            self.list_dataset(&name)?;
        }
        Ok(entry)
    }

    fn find_datasets(
        &self,
        paths: &[DataSetPath],
    ) -> Result<Vec<Option<DataSetEntry>>, EventsError> {
        let names: Vec<_> = paths.iter().map(DataSetPath::to_bytes).collect();
        self.entries("find a dataset", &names)
    }

    fn datasets(
        &self,
        parent: &DataSetPath,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, DataSetEntry)>, EventsError> {
        self.list_datasets(parent, after, limit)
    }

    fn replace_dataset(
        &self,
        path: &DataSetPath,
        from: DataSetEntry,
        to: Option<DataSetEntry>,
    ) -> Result<(), EventsError> {
        self.may_write("remove a dataset")?;
        let name = path.to_bytes();
        self.replace_entry(&name, from, to)?;
        if to.is_some() {
            return Ok(());
        }
        // Removed last, so that the dataset can be found while something is left. Another program may have created and
        // listed it again meanwhile.
        self.unlist_dataset(&name)?;
        match self
            .entries("remove a dataset", std::slice::from_ref(&name))?
            .as_slice()
        {
            [Some(_)] => self.list_dataset(&name),
            _ => Ok(()),
        }
    }

    fn numbers(&self, scans: &[Scan]) -> Result<Vec<Vec<u64>>, EventsError> {
        self.scan(scans)
    }

    fn contains(&self, children: &[(Parent, &[u64])]) -> Result<Vec<Vec<bool>>, EventsError> {
        self.contains_all(children)
    }

    fn remove(&self, parent: &Parent, numbers: &[u64]) -> Result<(), EventsError> {
        self.may_write("remove containers")?;
        let keys = self.keys(parent);
        let mut commands = Commands::default();
        for numbers in numbers.chunks(write::MOST_FIELDS) {
            commands.begin(keys.slot, 2 + numbers.len());
            commands.arg(b"ZREM").arg(&keys.children());
            for number in numbers {
                commands.arg(&number.to_be_bytes());
            }
        }
        self.change("remove containers", &commands)
    }

    fn load(&self, wanted: &[Wanted<'_>], visit: &mut Visit<'_>) -> Result<(), EventsError> {
        self.load_products(wanted, visit)
    }

    fn names(
        &self,
        parent: &Parent,
        event: u64,
        label: Option<&str>,
    ) -> Result<Vec<ProductName>, EventsError> {
        let keys = self.keys(parent);
        let mut names = self.names_of(&keys)?;
        names.retain(|name| label.is_none_or(|label| name.label() == label));
        let mut commands = Commands::default();
        for name in &names {
            let args = [
                b"HEXISTS".as_slice(),
                &keys.products(name),
                &event.to_be_bytes(),
            ];
            commands.command(keys.slot, &args);
        }
        let mut there = vec![false; names.len()];
        Flow::new(&self.client).run("list products", &commands, false, &mut |at, reply| {
            let is_there = self.truth("list products", reply)?;
            there
                .get_mut(at)
                .into_iter()
                .for_each(|there| *there = is_there);
            Ok(())
        })?;
        let found = names.into_iter().zip(there).filter(|(_, there)| *there);
        Ok(found.map(|(name, _)| name).collect())
    }

    fn name_counts(&self, parent: &Parent) -> Result<Vec<NameCount>, EventsError> {
        const DOING: &str = "count products";
        let keys = self.keys(parent);
        let names = self.names_of(&keys)?;
        let mut commands = Commands::default();
        for name in &names {
            let products = keys.products(name);
            commands.command(keys.slot, &[b"HLEN", &products]);
            commands.command(keys.slot, &[b"HEXISTS", &products, &ABSENT.to_be_bytes()]);
        }
        let mut answers = vec![0; commands.len()];
        Flow::new(&self.client).run(DOING, &commands, false, &mut |at, reply| {
            let n = match reply {
                Reply::Number(n) => n.unsigned_abs(),
                reply => return Err(self.nonsense(DOING, reply)),
            };
            answers.get_mut(at).into_iter().for_each(|place| *place = n);
            Ok(())
        })?;
        let (pairs, _) = answers.as_chunks::<2>();
        let count = |(name, [n, own]): (ProductName, &[u64; 2])| NameCount {
            name,
            n_events: n.saturating_sub(*own),
            is_own: *own > 0,
        };
        // The names of removed products remain stored.
        let counts = names.into_iter().zip(pairs).map(count);
        Ok(counts
            .filter(|count| count.n_events > 0 || count.is_own)
            .collect())
    }

    fn stored_bytes(&self, parent: &Parent) -> Result<u64, EventsError> {
        self.memory_of(&self.keys(parent))
    }

    fn remove_products(
        &self,
        parent: &Parent,
        event: u64,
        name: Option<&ProductName>,
    ) -> Result<(), EventsError> {
        self.may_write("remove products")?;
        let keys = self.keys(parent);
        let names = match name {
            Some(name) => vec![name.as_str().as_bytes().to_vec()],
            None => self.stored_names(&keys)?,
        };
        let mut commands = Commands::default();
        for name in &names {
            let args = [
                b"HDEL".as_slice(),
                &keys.products_named(name),
                &event.to_be_bytes(),
            ];
            commands.command(keys.slot, &args);
        }
        self.change("remove products", &commands)
    }

    fn remove_named(&self, parent: &Parent, name: &ProductName) -> Result<u64, EventsError> {
        const DOING: &str = "remove products";
        self.may_write(DOING)?;
        let keys = self.keys(parent);
        let products = keys.products(name);
        let events = self.events_with(&keys, &products)?;
        // Removed by event, and not as a whole hash: another client may just be storing a product of the parent itself.
        let mut commands = Commands::default();
        for events in events.chunks(write::MOST_FIELDS) {
            commands.begin(keys.slot, 2 + events.len());
            commands.arg(b"HDEL").arg(&products);
            for event in events {
                commands.arg(&event.to_be_bytes());
            }
        }
        self.change(DOING, &commands)?;
        Ok(events.len() as u64)
    }

    fn clear(&self, parent: &Parent) -> Result<(), EventsError> {
        self.may_write("remove a container's contents")?;
        let keys = self.keys(parent);
        let products = self.stored_names(&keys)?;
        let products = products.iter().map(|name| keys.products_named(name));
        // Nobody must find an event without its products, and the names go last: a repeated deletion finds the products
        // by their names.
        let all: Vec<_> = [keys.children()].into_iter().chain(products).collect();
        for keys_now in [all, vec![keys.names()]] {
            let mut commands = Commands::default();
            for key in &keys_now {
                commands.command(keys.slot, &[b"UNLINK", key]);
            }
            self.change("remove a container's contents", &commands)?;
        }
        Ok(())
    }

    fn remove_nameless(&self) -> Result<BTreeSet<Uuid>, EventsError> {
        self.may_write("remove remaining data of deleted datasets")?;
        self.remove_unnamed()
    }

    fn note(&self, key: &str, value: &[u8]) -> Result<Vec<u8>, EventsError> {
        self.may_write("note something")?;
        let notes = Tagged::notes(&self.prefix);
        self.first_of(&notes, "h", key.as_bytes(), value)
    }

    fn noted(&self, key: &str) -> Result<Option<Vec<u8>>, EventsError> {
        let notes = Tagged::notes(&self.prefix);
        self.field(&notes, "h", key.as_bytes())
    }

    fn replace_note(&self, key: &str, value: &[u8]) -> Result<(), EventsError> {
        self.may_write("note something")?;
        let notes = Tagged::notes(&self.prefix);
        let mut commands = Commands::default();
        commands.command(
            notes.slot,
            &[b"HSET", &notes.key("h"), key.as_bytes(), value],
        );
        self.change("note something", &commands)
    }

    fn remove_note(&self, key: &str) -> Result<(), EventsError> {
        self.may_write("forget a note")?;
        let notes = Tagged::notes(&self.prefix);
        let mut commands = Commands::default();
        commands.command(notes.slot, &[b"HDEL", &notes.key("h"), key.as_bytes()]);
        self.change("forget a note", &commands)
    }

    fn queues(&self) -> &dyn Queues {
        self
    }
}
