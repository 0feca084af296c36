//! Forgetting a class that no product of a store has any more.

use std::collections::HashMap;
use std::thread;
use std::time::{Duration, Instant};

use femtobarn_events::{Container, DataSet, EventsError, ItemType};
use femtobarn_io::{IoError, PULSE, goes_on};

use super::types::class_names;
use super::{CLASSES_KNOWN_FOR, ClassNote, Types};

/// What stands before the note of a class that is being forgotten.
pub const FORGETTING: &[u8] = b"forgetting ";
/// How much longer than classes are known it is waited.
const MARGIN: Duration = Duration::from_secs(2);

impl Types {
    /// Forgets the members of a class, so that it can be noted with others. Reads the names of all products of the
    /// store, twice, with seconds between: for this time, connected programs may remember the old class, and none
    /// stores it. Queues are not checked, nor unwritten batches of other programs.
    ///
    /// # Errors
    ///
    /// [`EventsError::NotFound`] if the store has no such class, [`EventsError::Usage`] if a product uses it, which the
    /// message names, and a request to stop waiting.
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
        // One that was broken off is ended.
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

    /// Waits until no program remembers the old class.
    fn wait(&self) -> Result<(), EventsError> {
        if self.store.url() == "memory:" {
            return Ok(()); // no other program has it
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

/// Looks for products that have a class.
struct Search<'a> {
    types: &'a Types,
    class: &'a str,
    /// Of the types that were seen, whether they have it.
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
            return Ok(()); // products of events were among these
        }
        item.children(..)
            .try_for_each(|child| self.item(&child?, dataset))
    }

    /// Whether a type has the class, in itself or in the members of its classes.
    fn has(&mut self, type_name: &str) -> Result<bool, EventsError> {
        if let Some(known) = self.has.get(type_name) {
            return Ok(*known);
        }
        self.has.insert(type_name.into(), false); // until it is known: classes may hold one another
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

/// Which container of its dataset an item is, in words.
fn place(item: &Container) -> String {
    let container = item.descriptor();
    match item.item_type() {
        ItemType::DataSet => "in itself".into(),
        ItemType::Run => format!("run {}", container.run),
        _ => format!("run {}, subrun {}", container.run, container.subrun),
    }
}
