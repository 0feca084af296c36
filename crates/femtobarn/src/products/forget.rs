//! Removes the description of a class that no product of a store uses any more.

use std::collections::HashMap;
use std::thread;
use std::time::{Duration, Instant};

use femtobarn_events::{Container, DataSet, EventsError, ItemType};
use femtobarn_io::{IoError, PULSE, goes_on};

use super::types::class_names;
use super::{CLASSES_KNOWN_FOR, ClassNote, Types};

/// The prefix of the description of a class that is being forgotten.
pub const FORGETTING: &[u8] = b"forgetting ";
/// Additional waiting time, beyond the time that descriptions are cached.
const MARGIN: Duration = Duration::from_secs(2);

impl Types {
    /// Removes the description of a class, so that it can be stored with other members. Reads the names of all products
    /// of the store twice, some seconds apart. In this time, other programs may have the old class cached, but none
    /// stores it. Queues and unwritten batches of other programs are not checked.
    ///
    /// # Errors
    ///
    /// [`EventsError::NotFound`] if the store does not have the class; [`EventsError::Usage`] if a product uses it,
    /// with the name of the product; a request to stop waiting.
    pub fn forget(&self, class: &str) -> Result<(), EventsError> {
        let backend = self.store.backend();
        let key = ClassNote::key(class);
        let Some(noted) = backend.noted(&key)? else {
            return Err(EventsError::NotFound {
                url: self.store.url().into(),
                what: format!("class {class:?}"),
                hint: String::new(),
            });
        };
        // Finishes an interrupted removal.
        let noted = noted.strip_prefix(FORGETTING).unwrap_or(&noted);
        backend.replace_note(&key, noted)?;
        self.clear();
        self.check_unused(class)?;
        backend.replace_note(&key, &[FORGETTING, noted].concat())?;
        let unused = self.wait().and_then(|()| self.check_unused(class));
        if unused.is_err() {
            backend.replace_note(&key, noted)?;
        } else {
            backend.remove_note(&key)?;
        }
        self.clear();
        unused
    }

    /// Waits until no program has the old class cached.
    fn wait(&self) -> Result<(), EventsError> {
        if self.store.url() == "memory:" {
            return Ok(()); // no other program uses this store
        }
        let end = Instant::now() + CLASSES_KNOWN_FOR + MARGIN;
        while Instant::now() < end {
            if !goes_on() {
                let url = self.store.url().to_owned();
                return Err(EventsError::Objects {
                    url: url.clone(),
                    doing: "wait until other clients have forgotten a class",
                    source: IoError::Interrupted { url },
                });
            }
            thread::sleep(PULSE);
        }
        Ok(())
    }

    fn check_unused(&self, class: &str) -> Result<(), EventsError> {
        let mut search = Search {
            types: self,
            class,
            has: HashMap::new(),
        };
        search.datasets(&self.store.root())
    }
}

/// Searches for products that use a class.
struct Search<'a> {
    types: &'a Types,
    class: &'a str,
    /// For each type that was seen, whether it uses the class.
    has: HashMap<String, bool>,
}

impl Search<'_> {
    fn datasets(&mut self, dataset: &DataSet) -> Result<(), EventsError> {
        for inner in dataset.datasets(None) {
            let inner = inner?;
            self.item(&inner, inner.path().as_str())?;
            self.datasets(&inner)?;
        }
        Ok(())
    }

    fn item(&mut self, item: &Container, dataset: &str) -> Result<(), EventsError> {
        let backend = item.datastore().backend();
        for count in backend.name_counts(&item.descriptor().placed_by())? {
            if self.has(count.name.type_name())? {
                return Err(EventsError::Usage {
                    what: format!(
                        "{}: class {:?} cannot be forgotten: in dataset {dataset:?}, {}, there are products {:?} of \
                         the type {}; delete these products first",
                        self.types.store.url(),
                        self.class,
                        place(item),
                        count.name.label(),
                        count.name.type_name(),
                    ),
                });
            }
        }
        if item.item_type() == ItemType::SubRun {
            return Ok(()); // this includes the products of events
        }
        item.children(..)
            .try_for_each(|child| self.item(&child?, dataset))
    }

    /// Whether a type uses the class, directly or through members of its classes.
    fn has(&mut self, type_name: &str) -> Result<bool, EventsError> {
        if let Some(known) = self.has.get(type_name) {
            return Ok(*known);
        }
        self.has.insert(type_name.into(), false); // until the result is known: classes may contain each other
        let mut found = false;
        for name in class_names(type_name) {
            found |= name == self.class || self.members_have(name)?;
        }
        self.has.insert(type_name.into(), found);
        Ok(found)
    }

    fn members_have(&mut self, class: &str) -> Result<bool, EventsError> {
        let noted = self.types.store.backend().noted(&ClassNote::key(class))?;
        let note = noted.map(|noted| ClassNote::from_json(&noted));
        // A damaged or forgotten description has no members.
        let Some(Ok(note)) = note else {
            return Ok(false);
        };
        for member in &note.members {
            if self.has(&member.type_name)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// A description of a container within its dataset.
fn place(item: &Container) -> String {
    let container = item.descriptor();
    match item.item_type() {
        ItemType::DataSet => "in itself".into(),
        ItemType::Run => format!("run {}", container.run),
        _ => format!("run {}, subrun {}", container.run, container.subrun),
    }
}
