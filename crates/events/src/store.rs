//! The event store, for any backend.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::connect::{self, StoreUrl, read_config, would_make};
use crate::objects::{LargeObjects, check_free, visit_inline};
use crate::{
    Backend, Batch, DataSet, DataSetPath, Descriptor, EventsError, Mode, ObjectOptions, Overwrite,
    Parent, ProductId, ProductName, Session, Swept, Uuid, Wanted, Written,
};

/// An event store. Clones are the same store.
#[derive(Clone)]
pub struct DataStore {
    session: Arc<Session>,
    beside: Arc<Objects>,
}

/// The objects of a store, if it has a location for them.
#[derive(Debug, Default)]
struct Objects {
    options: ObjectOptions,
    beside: OnceLock<LargeObjects>,
}

/// Called for each requested product with the index of the request, the index of the event, and the bytes, or `None`.
pub type VisitProduct<'a> = dyn FnMut(usize, usize, Option<&[u8]>) -> Result<(), EventsError> + 'a;

impl DataStore {
    /// The store in a backend. New products are never stored as objects; existing objects are loaded.
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self {
            session: Arc::new(Session::new(backend)),
            beside: Arc::default(),
        }
    }

    /// Connects to a store like [`connect`](crate::connect), with large products at the given or recorded location.
    ///
    /// # Errors
    ///
    /// Errors of [`connect`](crate::connect), and if another location is recorded.
    pub fn connect(store: &str, options: ObjectOptions) -> Result<Self, EventsError> {
        Self::open(store, options, None)
    }

    /// Connects to an existing store like [`connect_to_read`](crate::connect_to_read).
    ///
    /// # Errors
    ///
    /// Errors of [`connect_to_read`](crate::connect_to_read).
    pub fn connect_to_read(store: &str, options: ObjectOptions) -> Result<Self, EventsError> {
        Self::open(store, options, Some(Mode::Read))
    }

    /// Connects like [`connect`](Self::connect), for reading and writing, but does not create a store.
    ///
    /// # Errors
    ///
    /// Errors of [`connect`](Self::connect); [`EventsError::NotFound`] if the store does not exist.
    pub fn connect_existing(store: &str, options: ObjectOptions) -> Result<Self, EventsError> {
        connect::check_there(store)?;
        Self::connect(store, options)
    }

    fn open(store: &str, options: ObjectOptions, mode: Option<Mode>) -> Result<Self, EventsError> {
        if StoreUrl::parse(store) != Some(StoreUrl::Config) {
            if mode.is_none() && options.is_given() && would_make(store)? {
                check_free(store, &options)?;
            }
            return Self::with_objects(connect::open(store, mode)?, options);
        }
        let config = read_config(store)?;
        let options = ObjectOptions {
            base: options.base.or_else(|| config.objects().map(str::to_owned)),
            over: options.over.or_else(|| config.objects_over()),
            ..options
        };
        if mode.is_none() && options.is_given() && config.would_make()? {
            check_free(config.url(), &options)?;
        }
        Self::with_objects(config.connect(mode)?, options)
    }

    /// The store of a backend, with large products at the given or recorded location.
    ///
    /// # Errors
    ///
    /// If another location is recorded, or the location is invalid.
    pub fn with_objects(
        backend: Arc<dyn Backend>,
        options: ObjectOptions,
    ) -> Result<Self, EventsError> {
        let session = Session::new(backend);
        let beside = OnceLock::new();
        if let Some(found) = LargeObjects::open(&session, &options)? {
            let _ = beside.set(found); // no other object uses it yet
        }
        Ok(Self {
            session: Arc::new(session),
            beside: Arc::new(Objects { options, beside }),
        })
    }

    /// Closes the store when running calls have ended; then other processes can write to a directory. Later uses of the
    /// store, its clones, and everything created from them fail. Closing a closed store does nothing.
    pub fn close(&self) {
        self.session.close();
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.session.is_closed()
    }

    /// The location of large products, for messages; `None` if they are in the store.
    pub fn objects(&self) -> Option<&str> {
        self.beside.beside.get().map(LargeObjects::place)
    }

    /// Products with more bytes become objects; `None` if all products are in the store.
    pub fn objects_over(&self) -> Option<u64> {
        self.beside.beside.get().map(LargeObjects::over)
    }

    /// Deletes orphans: objects without a product that crashes and lost servers have left. Objects younger than `age` are
    /// kept, because a reference to them may follow.
    ///
    /// # Errors
    ///
    /// If the store or its objects cannot be read, or objects cannot be deleted.
    pub fn sweep(&self, age: Duration) -> Result<Swept, EventsError> {
        match self.beside.beside.get() {
            Some(beside) => beside.sweep(self.backend(), age),
            None => Ok(Swept::default()),
        }
    }

    /// Removes data that was written to datasets during their deletion, which nobody can find; returns the number of
    /// these datasets. If servers of a Redis cluster have lost data, the names of datasets may be lost: restore the data
    /// first.
    ///
    /// # Errors
    ///
    /// If the store cannot be read or written, or if objects cannot be deleted; then a sweep deletes them.
    pub fn sweep_nameless(&self) -> Result<u64, EventsError> {
        let removed = self.session.remove_nameless()?;
        for dataset in &removed {
            self.delete_objects(&Parent::dataset(*dataset).descriptor())?;
        }
        Ok(removed.len() as u64)
    }

    /// The backend.
    pub fn backend(&self) -> &dyn Backend {
        &*self.session
    }

    /// The URL of the store, for messages.
    pub fn url(&self) -> &str {
        self.session.url()
    }

    /// The root dataset. It contains only datasets.
    pub fn root(&self) -> DataSet {
        DataSet::new(self.clone(), DataSetPath::default(), Uuid::NIL)
    }

    /// Writes a batch.
    ///
    /// # Errors
    ///
    /// Errors of [`Backend::write`]: then some products may be written, each completely, and the batch may be written
    /// again. [`EventsError::NotFound`], with nothing written, if a dataset was deleted through this store.
    pub fn write(&self, batch: &Batch) -> Result<Written, EventsError> {
        self.session.check_batch(batch)?;
        self.put(batch)
    }

    /// Writes a batch without the data of datasets that were deleted through this store; also returns an error if there
    /// were any.
    ///
    /// # Errors
    ///
    /// Errors of [`Backend::write`].
    pub(crate) fn write_rest(
        &self,
        batch: &mut Batch,
    ) -> Result<(Written, Option<EventsError>), EventsError> {
        let gone = self.session.leave_out_gone(batch);
        self.compress(batch);
        Ok((self.put(batch)?, gone))
    }

    /// Compresses the products of a batch if the backend supports it. Objects are not compressed.
    fn compress(&self, batch: &mut Batch) {
        if self.backend().compresses() {
            batch.compress(self.objects_over().unwrap_or(u64::MAX));
        }
    }

    fn put(&self, batch: &Batch) -> Result<Written, EventsError> {
        match self.beside.beside.get() {
            Some(beside) => beside.write(self.backend(), batch),
            None => self.session.write(batch),
        }
    }

    /// Waits until all writes are as durable as the backend allows.
    pub fn flush(&self) -> Result<(), EventsError> {
        self.session.flush()
    }

    /// Stores one product.
    ///
    /// # Errors
    ///
    /// [`EventsError::Exists`] if the product exists and is kept.
    pub fn store(
        &self,
        container: Descriptor,
        name: &ProductName,
        value: &[u8],
        overwrite: Overwrite,
    ) -> Result<ProductId, EventsError> {
        let mut batch = Batch::new(overwrite);
        batch.store(container.placed_by(), container.event, name, value);
        self.compress(&mut batch);
        match self.write(&batch)?.kept.pop() {
            Some(id) => Err(EventsError::Exists {
                url: self.url().into(),
                what: id.to_string(),
            }),
            None => Ok(ProductId {
                container,
                name: name.clone(),
            }),
        }
    }

    /// Loads one product; `None` if it does not exist.
    pub fn load(
        &self,
        container: Descriptor,
        name: &ProductName,
    ) -> Result<Option<Vec<u8>>, EventsError> {
        let wanted = [Wanted {
            parent: container.placed_by(),
            name,
            events: &[container.event],
        }];
        let mut found = None;
        self.load_many(&wanted, &mut |_, _, value| {
            found = value.map(<[u8]>::to_vec);
            Ok(())
        })?;
        Ok(found)
    }

    /// Loads products, in any order; each is visited once.
    ///
    /// # Errors
    ///
    /// [`EventsError::Damaged`] or [`EventsError::Object`] if one is damaged, [`EventsError::NotFound`] if its dataset
    /// was deleted through this store, and errors of `visit`.
    pub fn load_many(
        &self,
        wanted: &[Wanted<'_>],
        visit: &mut VisitProduct<'_>,
    ) -> Result<(), EventsError> {
        self.check_not_deleted(wanted.iter().map(|wanted| wanted.parent.dataset))?;
        let late = visit_inline(self.backend(), wanted, visit)?;
        if late.is_empty() {
            return Ok(());
        }
        self.noted()?.visit(self.backend(), wanted, late, visit)
    }

    /// The objects of a store, also if their location was recorded after the store was opened.
    fn noted(&self) -> Result<&LargeObjects, EventsError> {
        if self.beside.beside.get().is_none()
            && let Some(found) = LargeObjects::open(self.backend(), &self.beside.options)?
        {
            let _ = self.beside.beside.set(found); // another thread was faster
        }
        self.beside.beside.get().ok_or_else(|| EventsError::Layout {
            url: self.url().into(),
            expected: "an entry for the location of large products".into(),
            found: "none".into(),
        })
    }

    /// The objects of the store with their sizes.
    pub(crate) fn object_sizes(&self) -> Result<HashMap<String, u64>, EventsError> {
        self.noted()?.sizes()
    }

    /// Removes products of one event, or of the parent itself: all, or the product with a name.
    ///
    /// # Errors
    ///
    /// Errors of the backend; an error if objects could not be deleted, which leaves orphans.
    pub fn remove_products(
        &self,
        parent: &Parent,
        event: u64,
        name: Option<&ProductName>,
    ) -> Result<(), EventsError> {
        match self.beside.beside.get() {
            Some(beside) => beside.remove_products(self.backend(), parent, event, name),
            None => self.session.remove_products(parent, event, name),
        }
    }

    /// Removes the products with a name from all events of a subrun; returns their number.
    ///
    /// # Errors
    ///
    /// As [`remove_products`](Self::remove_products).
    pub fn remove_named(&self, parent: &Parent, name: &ProductName) -> Result<u64, EventsError> {
        match self.beside.beside.get() {
            Some(beside) => beside.remove_named(self.backend(), parent, name),
            None => self.session.remove_named(parent, name),
        }
    }

    /// Fails if one of these datasets was deleted through this store.
    pub(crate) fn check_not_deleted(
        &self,
        datasets: impl IntoIterator<Item = Uuid>,
    ) -> Result<(), EventsError> {
        self.session.check_not_deleted(datasets)
    }

    pub(crate) fn note_path(&self, dataset: Uuid, path: &DataSetPath) {
        self.session.note_path(dataset, path);
    }

    pub(crate) fn path_of(&self, dataset: Uuid) -> Option<DataSetPath> {
        self.session.path_of(dataset)
    }

    /// Makes later uses of a deleted dataset fail.
    pub(crate) fn note_deleted(&self, dataset: Uuid, path: &DataSetPath) {
        self.session.note_deleted(dataset, path);
    }

    /// Deletes the objects of an emptied container and of everything in it.
    pub(crate) fn delete_objects(&self, container: &Descriptor) -> Result<(), EventsError> {
        match self.beside.beside.get() {
            Some(beside) => beside.delete_below(self.backend(), container),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for DataStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DataStore").field(&self.url()).finish()
    }
}

impl PartialEq for DataStore {
    fn eq(&self, other: &Self) -> bool {
        self.session.identity() == other.session.identity()
    }
}

impl Eq for DataStore {}
