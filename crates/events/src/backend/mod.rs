//! What keeps containers and products: one trait, and its engines.

mod dir;
mod memory;
mod redis;

pub use dir::{Compacted, DirBackend, Mode, open as open_dir};
pub(crate) use dir::{check_there as check_dir, compact as compact_dir};
pub use memory::MemoryBackend;
pub use redis::RedisBackend;
pub(crate) use redis::settings as redis_settings;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::Duration;

use crate::{Batch, DataSetEntry, DataSetPath, EventsError, Parent, ProductId, ProductName, Uuid};

/// What a batch has done.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// The products that were there already, and were kept ([`Overwrite::Keep`](crate::Overwrite::Keep)).
    pub kept: Vec<ProductId>,
}

/// The children of a container that are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    /// The container.
    pub parent: Parent,
    /// The lowest number that may be given.
    pub from: u64,
    /// How many are given, at most.
    pub limit: usize,
}

/// Requested products of one name and one parent.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The parent that places them.
    pub parent: Parent,
    /// Their name.
    pub name: &'a ProductName,
    /// The events, or [`ABSENT`](crate::ABSENT) for the product of the parent itself; in any order.
    pub events: &'a [u64],
}

/// Is given each product that was asked for: which of those wanted, which of its events, and the stored bytes, or none.
pub type Visit<'a> = dyn FnMut(usize, usize, Option<&[u8]>) -> Result<(), EventsError> + 'a;

/// A name of products that are placed by a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameCount {
    /// The name.
    pub name: ProductName,
    /// How many events have a product of this name.
    pub n_events: u64,
    /// Whether the container itself has one.
    pub is_own: bool,
}

/// An engine that keeps the containers and products of one store.
///
/// Values are what [`Batch`] has made of them (sealed), and go in and out as they are. All operations take many at once,
/// so that one request brings as much as it can.
///
/// What a backend promises, and `tests/conformance` tests:
///
/// - What `write` has brought is seen by every later call of any client; a product of a batch is visible no later than
///   its event, so that a reader that finds an event finds all products written with it.
/// - After `flush`, it survives the end of the process, however that comes; `is_durable` tells whether it does.
/// - Containers of one parent, and datasets of one dataset, come in the order of their numbers and names.
/// - Everything may be done again: existing entries are not created twice, missing entries are not deleted.
pub trait Backend: Send + Sync + Debug {
    /// The store, as messages name it; without secrets.
    fn url(&self) -> &str;

    /// Identity that distinguishes it from other open stores: the same for all that write to and read from the same
    /// one.
    fn identity(&self) -> usize {
        std::ptr::from_ref(self).cast::<()>().addr()
    }

    /// Fails if nothing may be written.
    ///
    /// # Errors
    ///
    /// [`EventsError::ReadOnly`] if it was opened to be read, and if it was closed.
    fn check_writes(&self, _doing: &'static str) -> Result<(), EventsError> {
        Ok(())
    }

    /// Whether flushed data survive the end of the process.
    fn is_durable(&self) -> bool;

    /// Whether data survive the end of the process, possibly without the last writes.
    fn is_kept(&self) -> bool {
        true
    }

    /// Whether products are compressed that become smaller by that; false for stores in memory, and for stores that
    /// older versions must be able to read.
    fn compresses(&self) -> bool {
        true
    }

    /// What a copy of it does not have, but itself keeps when it is moved; none if unknown.
    fn seat(&self) -> Option<String> {
        None
    }

    /// Number of shards for products and containers; each shard is best queried separately: HEPnOS's targets.
    fn n_targets(&self) -> usize {
        1
    }

    /// On which of them the children and products of a container are.
    fn target(&self, _parent: &Parent) -> usize {
        0
    }

    /// Writes the products of a batch, then its containers.
    ///
    /// # Errors
    ///
    /// Of a batch that failed, some products and containers may be there, each of them whole. It may be written again.
    fn write(&self, batch: &Batch) -> Result<Written, EventsError>;

    /// Waits until all writes are as durable as the backend allows.
    fn flush(&self) -> Result<(), EventsError>;

    /// Creates a dataset, if its name is free; returns the UUID of the name now, which may belong to a dataset that is
    /// being deleted.
    fn create_dataset(&self, path: &DataSetPath, uuid: Uuid) -> Result<DataSetEntry, EventsError>;

    /// The datasets with these names, including datasets that are being deleted.
    fn find_datasets(
        &self,
        paths: &[DataSetPath],
    ) -> Result<Vec<Option<DataSetEntry>>, EventsError>;

    /// The nested datasets whose names follow `after`, at most `limit`, sorted by the bytes of their names; includes
    /// datasets that are being deleted.
    fn datasets(
        &self,
        parent: &DataSetPath,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, DataSetEntry)>, EventsError>;

    /// Has the name of a dataset lead elsewhere, or nowhere, if it leads to `from`; else leaves it as it is.
    fn replace_dataset(
        &self,
        path: &DataSetPath,
        from: DataSetEntry,
        to: Option<DataSetEntry>,
    ) -> Result<(), EventsError>;

    /// The numbers of children of each requested container, in order.
    fn numbers(&self, scans: &[Scan]) -> Result<Vec<Vec<u64>>, EventsError>;

    /// Whether containers have children of these numbers: as many answers for each container as it has numbers here.
    fn contains(&self, children: &[(Parent, &[u64])]) -> Result<Vec<Vec<bool>>, EventsError>;

    /// Removes children from a container. Their contents must have been removed before.
    fn remove(&self, parent: &Parent, numbers: &[u64]) -> Result<(), EventsError>;

    /// Loads products, in any order; each is visited once.
    fn load(&self, wanted: &[Wanted<'_>], visit: &mut Visit<'_>) -> Result<(), EventsError>;

    /// The names of the products of a container's event, or of itself (`event` is [`ABSENT`](crate::ABSENT)), in their
    /// order: all names, or names with a label.
    fn names(
        &self,
        parent: &Parent,
        event: u64,
        label: Option<&str>,
    ) -> Result<Vec<ProductName>, EventsError>;

    /// The names of all products that are placed by a container, in their order, and how many there are.
    fn name_counts(&self, parent: &Parent) -> Result<Vec<NameCount>, EventsError>;

    /// How many bytes the products that are placed by a container take: their keys and stored values. For Redis, the
    /// estimated memory of keys, including the keys of containers.
    fn stored_bytes(&self, parent: &Parent) -> Result<u64, EventsError>;

    /// Removes products of one event, or of the parent itself: that of a name, or all.
    fn remove_products(
        &self,
        parent: &Parent,
        event: u64,
        name: Option<&ProductName>,
    ) -> Result<(), EventsError>;

    /// Removes the products of a name of all events of a subrun, but not that of the subrun itself; returns their
    /// number. If that is broken off, some are left, each of them whole.
    fn remove_named(&self, parent: &Parent, name: &ProductName) -> Result<u64, EventsError>;

    /// Removes all products that are placed by a container, and all its children.
    fn clear(&self, parent: &Parent) -> Result<(), EventsError>;

    /// Removes containers and products of all datasets to which no name leads, not even that of one that is being
    /// deleted; returns their names. Datasets have names before anything is in them.
    fn remove_nameless(&self) -> Result<BTreeSet<Uuid>, EventsError>;

    /// Notes something about the store as a whole, such as how a type is stored; returns the value after the call: an
    /// existing value is kept.
    fn note(&self, key: &str, value: &[u8]) -> Result<Vec<u8>, EventsError>;

    /// The stored value.
    fn noted(&self, key: &str) -> Result<Option<Vec<u8>>, EventsError>;

    /// The same, but replaces an existing value.
    fn replace_note(&self, key: &str, value: &[u8]) -> Result<(), EventsError>;

    /// Removes a value, if it exists.
    fn remove_note(&self, key: &str) -> Result<(), EventsError>;

    /// Looks whether what finds products and containers is as it was written; returns the damage. Errors mean that the
    /// check itself failed.
    fn check(&self) -> Result<Vec<String>, EventsError> {
        Ok(Vec::new())
    }

    /// What keeps its queues.
    fn queues(&self) -> &dyn Queues;
}

/// The queues of a store, by their names.
pub trait Queues: Send + Sync + Debug {
    /// Creates a queue; returns whether it was new.
    fn create(&self, queue: &str) -> Result<bool, EventsError>;

    /// Removes a queue with its values; returns whether it existed.
    fn destroy(&self, queue: &str) -> Result<bool, EventsError>;

    /// Registers a producer of a queue for the time `lease`, which can be renewed; returns whether the queue exists.
    fn produce(&self, queue: &str, producer: Uuid, lease: Duration) -> Result<bool, EventsError>;

    /// Notes that a producer will push no more.
    fn end_producing(&self, queue: &str, producer: Uuid) -> Result<(), EventsError>;

    /// Adds to the end of a queue; returns whether the queue exists.
    fn push(&self, queue: &str, value: &[u8]) -> Result<bool, EventsError>;

    /// Takes from the front of a queue; waits at most for `patience` if the queue is empty and has producers.
    fn pop(&self, queue: &str, patience: Duration) -> Result<Popped, EventsError>;

    /// Puts a value that was taken back to the front of a queue; returns whether the queue exists.
    fn put_back(&self, queue: &str, value: &[u8]) -> Result<bool, EventsError>;

    /// How many values are in a queue; none if the queue does not exist.
    fn n_values(&self, queue: &str) -> Result<Option<u64>, EventsError>;
}

/// What came of taking from a queue.
#[derive(Debug, PartialEq, Eq)]
pub enum Popped {
    /// A value.
    Value(Vec<u8>),
    /// Nothing yet: a producer may still push.
    Nothing,
    /// Empty, without producers.
    Ended,
    /// The queue does not exist.
    NoQueue,
}
