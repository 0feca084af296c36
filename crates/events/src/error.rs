//! Errors of the event store.

use std::error::Error;

use femtobarn_io::IoError;

use crate::ProductId;

/// An error of the event store. Each says what is wrong, where, and if possible what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "members are named by the messages")]
pub enum EventsError {
    /// A URL that is not the URL of a store.
    #[error("{url} is not an event store: {why}")]
    Url { url: String, why: String },
    /// An invalid name or number.
    #[error("invalid {what} {name:?}: {why}")]
    Name {
        what: &'static str,
        name: String,
        why: String,
    },
    /// Something does not exist.
    #[error("{url}: there is no {what}{hint}")]
    NotFound {
        url: String,
        what: String,
        hint: String,
    },
    /// Something exists and must not be overwritten.
    #[error("{url}: {what} already exists and must not be overwritten")]
    Exists { url: String, what: String },
    /// A dataset whose deletion has not finished.
    #[error(
        "{url}: dataset {path:?} is being deleted, or its deletion was interrupted: finish it by deleting the dataset \
         again (delete_dataset, `fb store rm`), before you create data with this name"
    )]
    Deleting { url: String, path: String },
    /// Another process writes to the store.
    #[error(
        "{url}: process {holder} is writing to this store, and only one process can write: close it there, or open \
         the store with mode=\"r\""
    )]
    Locked { url: String, holder: String },
    /// The store was opened for reading.
    #[error("{url}: cannot {doing}: the store was opened for reading")]
    ReadOnly { url: String, doing: &'static str },
    /// This process has opened the store for reading and now opens it for writing.
    #[error(
        "{url}: this process has already opened the store for reading: close it before you open it for writing"
    )]
    OpenToRead { url: String },
    /// The store has another version, or is not an event store.
    #[error("{url}: expected {expected}, found {found}")]
    Layout {
        url: String,
        expected: String,
        found: String,
    },
    /// A stored value that is damaged.
    #[error("{url}: {id} is damaged: expected {expected}, found {found}")]
    Damaged {
        url: String,
        id: Box<ProductId>,
        expected: String,
        found: String,
    },
    /// An invalid key in the store.
    #[error("{url}: a key of {table} is damaged: {key}")]
    Key {
        url: String,
        table: &'static str,
        key: String,
    },
    /// A type without a description.
    #[error("{url}: products of type {type_name} cannot be read as columns: {why}")]
    Type {
        url: String,
        type_name: String,
        why: String,
    },
    /// A class that is stored with other members.
    #[error(
        "{url}: class {class} is stored with other members: {difference}; rename the class of these values, or if no \
         product uses the stored class any more, remove it (forget_class, `fb store forget-class`)"
    )]
    Class {
        url: String,
        class: String,
        difference: String,
    },
    /// A value that is too large for the store.
    #[error(
        "{url}: {id} has {found} bytes, more than {most}: store large products as objects (objects=…)"
    )]
    TooLarge {
        url: String,
        id: Box<ProductId>,
        most: u64,
        found: u64,
    },
    /// The object of a large product cannot be loaded.
    #[error("{url}: cannot load {id} from its object {object}")]
    Object {
        url: String,
        id: Box<ProductId>,
        object: String,
        source: IoError,
    },
    /// An operation on all objects of the store failed.
    #[error("{url}: cannot {doing}")]
    Objects {
        url: String,
        doing: &'static str,
        source: IoError,
    },
    /// A location of objects that belongs to another store.
    #[error(
        "{url}: {place} has the large products of another store, {owner}, and each store would delete the other's: \
         use another directory or bucket (objects=…). If this is the same store, moved or restored, or a copy that \
         takes over the objects, run `fb store moved {url} {place}`; to read only, open it with mode=\"r\""
    )]
    OthersObjects {
        url: String,
        place: String,
        owner: String,
    },
    /// A location of objects whose owner record is missing.
    #[error(
        "{url}: {marker} is missing in {place}, the location of its large products: check that the disk is mounted, \
         or restore the directory. If the objects were moved, run `fb store moved {url} NEW`; if only {marker} was \
         deleted, or the objects are lost, run `fb store moved {url} {place}`; to read the other data, open it with \
         mode=\"r\""
    )]
    ObjectsGone {
        url: String,
        place: String,
        marker: &'static str,
    },
    /// An error of the engine.
    #[error("{url}: cannot {doing}")]
    Engine {
        url: String,
        doing: String,
        source: Box<dyn Error + Send + Sync>,
    },
    /// The disk is full.
    #[error(
        "{url}: cannot {doing}: no space left on the disk of {folder}: free space and repeat; earlier writes are \
         kept"
    )]
    Full {
        url: String,
        doing: String,
        folder: String,
        source: Box<dyn Error + Send + Sync>,
    },
    /// No server answered.
    #[error("{url}: cannot {doing}: no server answered: {said}")]
    Unreachable {
        url: String,
        doing: String,
        said: String,
    },
    /// A server refused a command.
    #[error("{url}: cannot {doing}: {node} answered {said:?}: {advice}")]
    Refused {
        url: String,
        node: String,
        doing: String,
        said: String,
        advice: &'static str,
        refusal: Refusal,
    },
    /// An invalid configuration.
    #[error("invalid event store configuration {path}: {why}")]
    Config { path: String, why: String },
    /// A thread panicked while it held a lock.
    #[error("{url}: a writing thread has failed: open the store again")]
    Poisoned { url: String },
    /// The store was closed, and used again.
    #[error("{url}: this store was closed: connect to it again")]
    StoreClosed {
        /// Its URL.
        url: String,
    },
    /// An invalid call.
    #[error("{what}")]
    Usage { what: String },
}

impl EventsError {
    /// The kind of the error; stable across versions.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Url { .. } => "store-url",
            Self::Name { .. } => "bad-name",
            Self::NotFound { .. } => "not-in-store",
            Self::Exists { .. } => "product-exists",
            Self::Deleting { .. } => "dataset-deleting",
            Self::Locked { .. } => "store-locked",
            Self::ReadOnly { .. } | Self::OpenToRead { .. } => "read-only",
            Self::Layout { .. } => "store-layout",
            Self::Damaged { .. } => "product-damaged",
            Self::Key { .. } => "key-damaged",
            Self::Type { .. } => "product-type",
            Self::Class { .. } => "class-differs",
            Self::TooLarge { .. } => "product-too-large",
            // The object does not exist, or has changed.
            Self::Object { source, .. } => match source {
                IoError::NotFound { .. } | IoError::ShortRead { .. } | IoError::Changed { .. } => {
                    "product-damaged"
                }
                source => source.kind(),
            },
            Self::Objects { source, .. } => source.kind(),
            Self::OthersObjects { .. } => "objects-of-others",
            Self::ObjectsGone { .. } => "objects-gone",
            Self::Engine { .. } => "store-engine",
            Self::Full { .. } => "store-full",
            Self::Unreachable { .. } => "store-unreachable",
            Self::Refused { refusal, .. } => refusal.kind(),
            Self::Config { .. } => "store-config",
            Self::Poisoned { .. } => "store-poisoned",
            Self::StoreClosed { .. } => "store-closed",
            Self::Usage { .. } => "usage",
        }
    }

    /// Whether the error is a checksum mismatch.
    pub fn is_checksum(&self) -> bool {
        matches!(self, Self::Damaged { expected, .. } if expected.starts_with("checksum"))
    }

    /// An error of the engine, with the operation.
    #[doc(hidden)]
    pub fn engine(
        url: &str,
        doing: impl Into<String>,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        Self::Engine {
            url: url.into(),
            doing: doing.into(),
            source: source.into(),
        }
    }
}

/// The kind of a refusal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The server is out of memory.
    Full,
    /// The server does not accept writes.
    ReadOnly,
    /// Authentication or permission failed.
    Denied,
    /// A key is of another type.
    WrongType,
    /// The value exceeds the limit of the server.
    TooLarge,
    /// The server evicts products when its memory is full.
    Evicts,
    /// The server has lost its data.
    Emptied,
    /// Too few replicas have confirmed the write.
    Replicas,
    /// Anything else.
    Other,
}

impl Refusal {
    /// The stable name of the kind.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Full => "store-full",
            Self::ReadOnly => "read-only",
            Self::Denied => "store-denied",
            Self::WrongType => "key-damaged",
            Self::TooLarge => "product-too-large",
            Self::Evicts => "store-evicts",
            Self::Emptied => "store-emptied",
            Self::Replicas => "too-few-replicas",
            Self::Other => "store-engine",
        }
    }
}
