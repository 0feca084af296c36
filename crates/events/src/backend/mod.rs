//! What keeps containers and products: one trait, and the engines behind it.

mod dir;
mod memory;
mod redis;

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;

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

/// Products of one name and one place that are asked for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// By what they are placed.
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
/// What a backend promises, and `conformance` tests:
///
/// - What `write` has brought is seen by every later call of any client; a product of a batch is seen no later than its
///   event, so that who finds an event finds what was written with it.
/// - After `flush`, it survives the end of the process, however that comes; `is_durable` says whether it does.
/// - Containers of one parent, and datasets of one dataset, come in the order of their numbers and names.
/// - Everything may be done again: what is there is not made twice, what is not there is not deleted.
pub trait Backend: Send + Sync + Debug {
    /// The store, as messages name it; without secrets.
    fn url(&self) -> &str;

    /// What tells it from others that are open: the same for all that write to and read from the same one.
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

    /// Whether what was flushed is there after the process has ended.
    fn is_durable(&self) -> bool;

    /// Whether it is there when the process has ended, perhaps without what was written last.
    fn is_kept(&self) -> bool {
        true
    }

    /// Whether products are compressed that become smaller by that; not if those that keep the store in memory only, or are
    /// to be read by versions that do not know it.
    fn compresses(&self) -> bool {
        true
    }

    /// What a copy of it does not have, but itself keeps when it is moved; none if nobody can tell.
    fn seat(&self) -> Option<String> {
        None
    }

    /// Over how many shards products and containers are spread, each of which is best asked for itself: HEPnOS's targets.
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

    /// Returns when what was written is as durable as the backend makes it.
    fn flush(&self) -> Result<(), EventsError>;

    /// Creates a dataset, if its name is free; gives the one that it leads to now, which may be one that is being deleted.
    fn create_dataset(&self, path: &DataSetPath, uuid: Uuid) -> Result<DataSetEntry, EventsError>;

    /// The datasets of names, also those that are being deleted.
    fn find_datasets(
        &self,
        paths: &[DataSetPath],
    ) -> Result<Vec<Option<DataSetEntry>>, EventsError>;

    /// The datasets in another, whose names follow `after`, `limit` at most, in the order of their names' bytes; also those
    /// that are being deleted.
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

    /// The numbers of children, of each container that is asked for, in their order.
    fn numbers(&self, scans: &[Scan]) -> Result<Vec<Vec<u64>>, EventsError>;

    /// Whether a container has these children.
    fn contains(&self, parent: &Parent, numbers: &[u64]) -> Result<Vec<bool>, EventsError>;

    /// Removes children from a container. What they hold must have been removed before.
    fn remove(&self, parent: &Parent, numbers: &[u64]) -> Result<(), EventsError>;

    /// Loads products, in any order; each is visited once.
    fn load(&self, wanted: &[Wanted<'_>], visit: &mut Visit<'_>) -> Result<(), EventsError>;

    /// The names of the products of a container's event, or of itself (`event` is [`ABSENT`](crate::ABSENT)), in their
    /// order: all, or those of a label.
    fn names(
        &self,
        parent: &Parent,
        event: u64,
        label: Option<&str>,
    ) -> Result<Vec<ProductName>, EventsError>;

    /// The names of all products that are placed by a container, in their order, and how many there are.
    fn name_counts(&self, parent: &Parent) -> Result<Vec<NameCount>, EventsError>;

    /// How many bytes the products that are placed by a container take: their keys and stored values. Redis counts the memory
    /// of its keys, as it estimates it, and those of the containers as well.
    fn stored_bytes(&self, parent: &Parent) -> Result<u64, EventsError>;

    /// Removes products of one event, or of the parent itself: that of a name, or all.
    fn remove_products(
        &self,
        parent: &Parent,
        event: u64,
        name: Option<&ProductName>,
    ) -> Result<(), EventsError>;

    /// Removes the products of a name of all events of a subrun, but not that of the subrun itself; gives how many there
    /// were. If that is broken off, some are left, each of them whole.
    fn remove_named(&self, parent: &Parent, name: &ProductName) -> Result<u64, EventsError>;

    /// Removes all products that are placed by a container, and all its children.
    fn clear(&self, parent: &Parent) -> Result<(), EventsError>;

    /// Removes containers and products of all datasets to which no name leads, not even that of one that is being deleted;
    /// gives which these were. Datasets have names before anything is in them.
    fn remove_nameless(&self) -> Result<BTreeSet<Uuid>, EventsError>;

    /// Notes something about the store as a whole, such as how a type is stored; says what is noted now, which is what was
    /// there before, if there was something.
    fn note(&self, key: &str, value: &[u8]) -> Result<Vec<u8>, EventsError>;

    /// What was noted.
    fn noted(&self, key: &str) -> Result<Option<Vec<u8>>, EventsError>;

    /// The same, in the place of what was noted.
    fn replace_note(&self, key: &str, value: &[u8]) -> Result<(), EventsError>;

    /// Forgets what was noted, if something was.
    fn remove_note(&self, key: &str) -> Result<(), EventsError>;

    /// Looks whether what finds products and containers is as it was written; says what is not. Errors are those of not being
    /// able to look.
    fn check(&self) -> Result<Vec<String>, EventsError> {
        Ok(Vec::new())
    }

    /// What keeps its queues.
    fn queues(&self) -> &dyn Queues;
}

/// The queues of a store, by their names.
pub trait Queues: Send + Sync + Debug {
    /// Creates a queue; says whether there was none.
    fn create(&self, queue: &str) -> Result<bool, EventsError>;

    /// Removes a queue with what is in it; says whether there was one.
    fn destroy(&self, queue: &str) -> Result<bool, EventsError>;

    /// Notes that somebody will push to a queue, for `lease` unless it is said again; says whether there is such a queue.
    fn produce(&self, queue: &str, producer: Uuid, lease: Duration) -> Result<bool, EventsError>;

    /// Notes that a producer will push no more.
    fn end_producing(&self, queue: &str, producer: Uuid) -> Result<(), EventsError>;

    /// Adds to the end of a queue; says whether there is such a queue.
    fn push(&self, queue: &str, value: &[u8]) -> Result<bool, EventsError>;

    /// Takes from the front of a queue; waits for `patience` at most if there is nothing while somebody may push.
    fn pop(&self, queue: &str, patience: Duration) -> Result<Popped, EventsError>;

    /// Puts a value that was taken back to the front of a queue; says whether the queue is there from which it was taken.
    fn put_back(&self, queue: &str, value: &[u8]) -> Result<bool, EventsError>;

    /// How many values are in a queue; none if there is no such queue.
    fn n_values(&self, queue: &str) -> Result<Option<u64>, EventsError>;
}

/// What came of taking from a queue.
#[derive(Debug, PartialEq, Eq)]
pub enum Popped {
    /// A value.
    Value(Vec<u8>),
    /// Nothing yet: somebody may still push.
    Nothing,
    /// Nothing, and nobody will push any more.
    Ended,
    /// There is no such queue.
    NoQueue,
}
