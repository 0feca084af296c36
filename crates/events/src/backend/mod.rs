//! The trait of the engines that store containers and products, and its implementations.

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

/// The result of writing a batch.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// The existing products that were kept ([`Overwrite::Keep`](crate::Overwrite::Keep)).
    pub kept: Vec<ProductId>,
}

/// A request for the children of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    /// The container.
    pub parent: Parent,
    /// The lowest number to return.
    pub from: u64,
    /// Maximum number of children.
    pub limit: usize,
}

/// A request for products of one name and one parent.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The parent that places them.
    pub parent: Parent,
    /// The name of the products.
    pub name: &'a ProductName,
    /// The events, or [`ABSENT`](crate::ABSENT) for the product of the parent itself; in any order.
    pub events: &'a [u64],
}

/// Called for each requested product with the index of the request, the index of the event, and the stored bytes, or
/// `None`.
pub type Visit<'a> = dyn FnMut(usize, usize, Option<&[u8]>) -> Result<(), EventsError> + 'a;

/// A name of products that are stored with a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameCount {
    /// The name.
    pub name: ProductName,
    /// How many events have a product of this name.
    pub n_events: u64,
    /// Whether the container itself has a product of this name.
    pub is_own: bool,
}

/// An engine that stores the containers and products of one store.
///
/// Values are sealed by [`Batch`], and engines do not interpret them. All operations take many items at once, so one
/// request carries as much as possible.
///
/// Every backend guarantees, and `tests/conformance` tests:
///
/// - Every later call of any client sees the data of `write`. A product of a batch is visible no later than its event,
///   so a reader that finds an event finds all products written with it.
/// - After `flush`, data survive the end of the process, even a crash, if `is_durable`.
/// - Containers of one parent are sorted by number, and datasets of one dataset by name.
/// - Every operation can be repeated: existing entries are not created twice, and missing entries are not an error.
pub trait Backend: Send + Sync + Debug {
    /// The URL of the store for messages, without secrets.
    fn url(&self) -> &str;

    /// Identity of the store among all open stores: equal for all backends that access the same store.
    fn identity(&self) -> usize {
        std::ptr::from_ref(self).cast::<()>().addr()
    }

    /// Fails if the store cannot be written.
    ///
    /// # Errors
    ///
    /// [`EventsError::ReadOnly`] if it was opened for reading; an error if it was closed.
    fn check_writes(&self, _doing: &'static str) -> Result<(), EventsError> {
        Ok(())
    }

    /// Whether flushed data survive the end of the process.
    fn is_durable(&self) -> bool;

    /// Whether data survive the end of the process, possibly without the last writes.
    fn is_kept(&self) -> bool {
        true
    }

    /// Whether products are compressed; false for stores in memory, and for stores that older versions must be able to
    /// read.
    fn compresses(&self) -> bool {
        true
    }

    /// Distinguishes the store from its copies, and stays the same when the store is moved; `None` if unknown.
    fn seat(&self) -> Option<String> {
        None
    }

    /// Number of shards (HEPnOS's targets) over which products and containers are distributed; each is best queried
    /// separately.
    fn n_targets(&self) -> usize {
        1
    }

    /// The shard with the children and products of a container.
    fn target(&self, _parent: &Parent) -> usize {
        0
    }

    /// Writes the products of a batch, then its containers.
    ///
    /// # Errors
    ///
    /// After an error, some products and containers may exist, each of them complete. The batch may be written again.
    fn write(&self, batch: &Batch) -> Result<Written, EventsError>;

    /// Waits until all writes are as durable as the backend allows.
    fn flush(&self) -> Result<(), EventsError>;

    /// Creates a dataset if its name is free; returns the current entry of the name, which may belong to a dataset that
    /// is being deleted.
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

    /// Replaces or removes the entry of a dataset's name if it equals `from`; otherwise does nothing.
    fn replace_dataset(
        &self,
        path: &DataSetPath,
        from: DataSetEntry,
        to: Option<DataSetEntry>,
    ) -> Result<(), EventsError>;

    /// The numbers of children of each requested container, in order.
    fn numbers(&self, scans: &[Scan]) -> Result<Vec<Vec<u64>>, EventsError>;

    /// Whether containers have children with these numbers, one answer per number.
    fn contains(&self, children: &[(Parent, &[u64])]) -> Result<Vec<Vec<bool>>, EventsError>;

    /// Removes children from a container. Their contents must have been removed before.
    fn remove(&self, parent: &Parent, numbers: &[u64]) -> Result<(), EventsError>;

    /// Loads products, in any order; each is visited once.
    fn load(&self, wanted: &[Wanted<'_>], visit: &mut Visit<'_>) -> Result<(), EventsError>;

    /// The names of the products of an event, or of the container itself (`event` is [`ABSENT`](crate::ABSENT)), in
    /// order: all names, or names with a label.
    fn names(
        &self,
        parent: &Parent,
        event: u64,
        label: Option<&str>,
    ) -> Result<Vec<ProductName>, EventsError>;

    /// The names of all products that are stored with a container, in order, with their numbers.
    fn name_counts(&self, parent: &Parent) -> Result<Vec<NameCount>, EventsError>;

    /// Bytes of the products that are stored with a container: their keys and stored values. For Redis, the estimated
    /// memory of keys, including the keys of containers.
    fn stored_bytes(&self, parent: &Parent) -> Result<u64, EventsError>;

    /// Removes products of one event, or of the parent itself: all, or the product with a name.
    fn remove_products(
        &self,
        parent: &Parent,
        event: u64,
        name: Option<&ProductName>,
    ) -> Result<(), EventsError>;

    /// Removes the products with a name from all events of a subrun, but not from the subrun itself; returns their
    /// number. If it is interrupted, some products remain, each of them complete.
    fn remove_named(&self, parent: &Parent, name: &ProductName) -> Result<u64, EventsError>;

    /// Removes all products that are stored with a container, and all its children.
    fn clear(&self, parent: &Parent) -> Result<(), EventsError>;

    /// Removes containers and products of all datasets without a name; names of datasets that are being deleted count.
    /// Returns the UUIDs of these datasets. A dataset always gets its name before it has contents.
    fn remove_nameless(&self) -> Result<BTreeSet<Uuid>, EventsError>;

    /// Stores a value for the store as a whole, such as the description of a type, unless one exists; returns the value
    /// after the call.
    fn note(&self, key: &str, value: &[u8]) -> Result<Vec<u8>, EventsError>;

    /// The stored value for the whole store.
    fn noted(&self, key: &str) -> Result<Option<Vec<u8>>, EventsError>;

    /// Stores a value for the whole store, replacing an existing one.
    fn replace_note(&self, key: &str, value: &[u8]) -> Result<(), EventsError>;

    /// Removes such a value, if it exists.
    fn remove_note(&self, key: &str) -> Result<(), EventsError>;

    /// Checks the structures that lead to products and containers; returns the damage. An error means that the check
    /// itself failed.
    fn check(&self) -> Result<Vec<String>, EventsError> {
        Ok(Vec::new())
    }

    /// The queues of the store.
    fn queues(&self) -> &dyn Queues;
}

/// The queues of a store by name.
pub trait Queues: Send + Sync + Debug {
    /// Creates a queue; returns whether it was new.
    fn create(&self, queue: &str) -> Result<bool, EventsError>;

    /// Removes a queue with its values; returns whether it existed.
    fn destroy(&self, queue: &str) -> Result<bool, EventsError>;

    /// Registers a producer of a queue for the time `lease`, which can be renewed; returns whether the queue exists.
    fn produce(&self, queue: &str, producer: Uuid, lease: Duration) -> Result<bool, EventsError>;

    /// Declares that a producer will push no more values.
    fn end_producing(&self, queue: &str, producer: Uuid) -> Result<(), EventsError>;

    /// Adds a value to the end of a queue; returns whether the queue exists.
    fn push(&self, queue: &str, value: &[u8]) -> Result<bool, EventsError>;

    /// Takes a value from the front of a queue; waits at most `patience` if the queue is empty and has producers.
    fn pop(&self, queue: &str, patience: Duration) -> Result<Popped, EventsError>;

    /// Returns a taken value to the front of a queue; returns whether the queue exists.
    fn put_back(&self, queue: &str, value: &[u8]) -> Result<bool, EventsError>;

    /// Number of values in a queue; `None` if the queue does not exist.
    fn n_values(&self, queue: &str) -> Result<Option<u64>, EventsError>;
}

/// The result of taking a value from a queue.
#[derive(Debug, PartialEq, Eq)]
pub enum Popped {
    /// A value.
    Value(Vec<u8>),
    /// No value yet: a producer may still push.
    Nothing,
    /// The queue is empty and has no producers.
    Ended,
    /// The queue does not exist.
    NoQueue,
}
