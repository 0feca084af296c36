//! Reads everything in a store and checks it.

use std::collections::HashMap;

use crate::objects::{BESIDE, Reference};
use crate::seal::open;
use crate::{
    ABSENT, Container, DataSet, DataStore, EventsError, ItemType, NameCount, ProductId, Wanted,
};

/// Number of events per request.
const AT_ONCE: usize = 1024;
/// Maximum number of described damages; further ones are only counted.
const DESCRIBED: usize = 100;

/// The result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Datasets, runs, subruns and events.
    pub n_containers: u64,
    /// Products, and the number of objects among them.
    pub n_products: u64,
    /// Products that are objects.
    pub n_objects: u64,
    /// The bytes of all products.
    pub n_bytes: u64,
    /// Number of damages.
    pub n_damaged: u64,
    /// Descriptions of the first damages.
    pub damaged: Vec<String>,
}

/// The state of a verification.
struct Reading<'s> {
    store: &'s DataStore,
    /// The existing objects with their sizes; listed when the first product with an object is found.
    objects: Option<HashMap<String, u64>>,
    found: Verified,
}

impl DataStore {
    /// Checks the pages and the stored counts of a store in a directory, reads all containers and products, verifies
    /// the checksums of products, and checks that their objects exist and have the right sizes.
    ///
    /// # Errors
    ///
    /// If the store cannot be read at all. Damage is reported in the result.
    pub fn verify(&self) -> Result<Verified, EventsError> {
        let mut reading = Reading {
            store: self,
            objects: None,
            found: Verified::default(),
        };
        for damage in self.backend().check()? {
            reading.damaged(&damage);
        }
        reading.datasets(&self.root())?;
        Ok(reading.found)
    }
}

impl Reading<'_> {
    fn datasets(&mut self, above: &DataSet) -> Result<(), EventsError> {
        for dataset in above.datasets(None) {
            let Some(dataset) = self.whole(dataset)? else {
                return Ok(()); // later data cannot be found
            };
            self.item(&dataset)?;
            self.datasets(&dataset)?;
        }
        Ok(())
    }

    /// Returns read data; `None` if it is damaged, which is recorded.
    fn whole<T>(&mut self, read: Result<T, EventsError>) -> Result<Option<T>, EventsError> {
        match read {
            Ok(read) => Ok(Some(read)),
            Err(error) => match error {
                EventsError::Key { .. }
                | EventsError::Damaged { .. }
                | EventsError::Layout { .. }
                | EventsError::Engine { .. } => {
                    self.damaged(&femtobarn_io::with_causes(&error));
                    Ok(None)
                }
                error => Err(error),
            },
        }
    }

    fn damaged(&mut self, what: &str) {
        self.found.n_damaged += 1;
        if self.found.damaged.len() < DESCRIBED {
            self.found.damaged.push(what.to_owned());
        }
    }

    /// Verifies a dataset, run or subrun.
    fn item(&mut self, item: &Container) -> Result<(), EventsError> {
        self.found.n_containers += 1;
        let parent = item.descriptor().placed_by();
        let mut events = vec![ABSENT];
        for child in item.children(..) {
            let Some(child) = self.whole(child)? else {
                break;
            };
            match child.item_type() {
                ItemType::Event => events.push(child.descriptor().event),
                _ => self.item(&child)?,
            }
        }
        self.found.n_containers += events.len() as u64 - 1;
        let names = self.store.backend().name_counts(&parent);
        for NameCount { name, .. } in self.whole(names)?.unwrap_or_default() {
            for events in events.chunks(AT_ONCE) {
                let wanted = Wanted {
                    parent,
                    name: &name,
                    events,
                };
                self.products(&wanted)?;
            }
        }
        Ok(())
    }

    fn products(&mut self, wanted: &Wanted<'_>) -> Result<(), EventsError> {
        let (mut late, mut room) = (Vec::new(), Vec::new());
        let store = self.store;
        let loaded = store.backend().load(&[*wanted], &mut |_, e, stored| {
            let (Some(stored), Some(event)) = (stored, wanted.events.get(e)) else {
                return Ok(());
            };
            self.found.n_products += 1;
            let id = ProductId {
                container: wanted.parent.member(*event),
                name: wanted.name.clone(),
            };
            let reference = match open(stored, &mut room) {
                Ok((bytes, BESIDE)) => Reference::of(bytes, &id.container),
                Ok((value, _)) => {
                    self.found.n_bytes += value.len() as u64;
                    return Ok(());
                }
                Err(damage) => Err(damage),
            };
            match reference {
                Ok(reference) => late.push((id, reference)),
                Err((expected, found)) => {
                    self.damaged(&format!(
                        "{id} is damaged: expected {expected}, found {found}"
                    ));
                }
            }
            Ok(())
        });
        self.whole(loaded)?;
        for (id, reference) in late {
            self.object(&id, &reference)?;
        }
        Ok(())
    }

    fn object(&mut self, id: &ProductId, reference: &Reference) -> Result<(), EventsError> {
        let Reference { size, name, .. } = reference;
        self.found.n_objects += 1;
        self.found.n_bytes += size;
        if self.objects.is_none() {
            self.objects = Some(self.store.object_sizes()?);
        }
        let found = self.objects.as_ref().and_then(|all| all.get(name)).copied();
        match found {
            Some(found) if found == *size => {}
            Some(found) => {
                self.damaged(&format!(
                    "{id} is object {name}, which has {found} bytes instead of {size}"
                ));
            }
            None => self.damaged(&format!("{id} is object {name}, which is missing")),
        }
        Ok(())
    }
}
