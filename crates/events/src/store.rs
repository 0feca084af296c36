//! A store, whatever keeps it.

use std::fmt;
use std::sync::Arc;

use crate::seal::{INLINE, unseal};
use crate::{
    Backend, Batch, DataSet, DataSetPath, Descriptor, EventsError, Overwrite, ProductId,
    ProductName, Uuid, Wanted, Written,
};

/// An event store. Clones are the same store.
#[derive(Clone)]
pub struct DataStore {
    backend: Arc<dyn Backend>,
}

/// Is given each product that was asked for: which of those wanted, which of its events, and its bytes, or none.
pub type VisitProduct<'a> = dyn FnMut(usize, usize, Option<&[u8]>) -> Result<(), EventsError> + 'a;

impl DataStore {
    /// The store that a backend keeps.
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self { backend }
    }

    /// What keeps it.
    pub fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    /// Where it is, as messages name it.
    pub fn url(&self) -> &str {
        self.backend.url()
    }

    /// The dataset that all others are in. It holds datasets and nothing else.
    pub fn root(&self) -> DataSet {
        DataSet::new(self.clone(), DataSetPath::default(), Uuid::NIL)
    }

    /// Writes what was put together.
    ///
    /// # Errors
    ///
    /// Those of [`Backend::write`]: some may be written then, each whole, and all may be written again.
    pub fn write(&self, batch: &Batch) -> Result<Written, EventsError> {
        self.backend.write(batch)
    }

    /// Returns when what was written is as durable as the backend makes it.
    pub fn flush(&self) -> Result<(), EventsError> {
        self.backend.flush()
    }

    /// Stores one product.
    ///
    /// # Errors
    ///
    /// [`EventsError::Exists`] if it is there and to be kept.
    pub fn store(
        &self,
        container: Descriptor,
        name: &ProductName,
        value: &[u8],
        overwrite: Overwrite,
    ) -> Result<ProductId, EventsError> {
        let mut batch = Batch::new(overwrite);
        batch.store(container.placed_by(), container.event, name, value);
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

    /// Loads one product; none if it is not there.
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
    /// [`EventsError::Damaged`] if one is not what was stored, and what `visit` says.
    pub fn load_many(
        &self,
        wanted: &[Wanted<'_>],
        visit: &mut VisitProduct<'_>,
    ) -> Result<(), EventsError> {
        self.backend.load(wanted, &mut |w, e, stored| {
            let Some(stored) = stored else {
                return visit(w, e, None);
            };
            match unseal(stored) {
                Ok((value, INLINE)) => visit(w, e, Some(value)),
                Ok((_, tag)) => {
                    let found = format!("one of kind {tag}");
                    Err(self.damaged(
                        wanted,
                        w,
                        e,
                        "a value of a kind that is known".into(),
                        found,
                    ))
                }
                Err((expected, found)) => Err(self.damaged(wanted, w, e, expected, found)),
            }
        })
    }

    fn damaged(
        &self,
        wanted: &[Wanted<'_>],
        w: usize,
        e: usize,
        expected: String,
        found: String,
    ) -> EventsError {
        let id = wanted.get(w).and_then(|wanted| {
            Some(ProductId {
                container: wanted.parent.member(*wanted.events.get(e)?),
                name: wanted.name.clone(),
            })
        });
        let url = self.url().into();
        match id {
            Some(id) => EventsError::Damaged {
                url,
                id: Box::new(id),
                expected,
                found,
            },
            None => EventsError::engine(&url, "load products", "one came that was not asked for"),
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
        Arc::ptr_eq(&self.backend, &other.backend)
    }
}

impl Eq for DataStore {}
