//! Forgetting a class that no product of a store has any more.

use std::collections::HashMap;

use femtobarn_events::{DataSet, EventsError, Item, ItemType, ProductName};

use super::{ClassNote, Types};

/// How many datasets, runs or subruns one request brings.
const PAGE: usize = 4096;

impl Types {
    /// Forgets the members of a class, so that it can be noted with others. Reads the names of all products of the store.
    /// What is stored meanwhile, and what is in queues, is not looked at; other programs that are connected still know it.
    ///
    /// # Errors
    ///
    /// [`EventsError::NotFound`] if the store has no such class, and [`EventsError::Usage`] if a product has it, which is
    /// named.
    pub fn forget(&self, class: &str) -> Result<(), EventsError> {
        let backend = self.store.backend();
        let key = ClassNote::key(class);
        if backend.noted(&key)?.is_none() {
            return Err(EventsError::NotFound {
                url: self.store.url().into(),
                what: format!("class {class:?}"),
                hint: String::new(),
            });
        }
        let mut search = Search {
            types: self,
            class,
            has: HashMap::new(),
        };
        search.datasets(&self.store.root())?;
        backend.remove_note(&key)?;
        self.clear();
        Ok(())
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

    fn item(&mut self, item: &Item, dataset: &str) -> Result<(), EventsError> {
        let backend = item.datastore().backend();
        for count in backend.name_counts(&item.descriptor().placed_by())? {
            if self.has(&count.name)? {
                return Err(EventsError::Usage {
                    what: format!(
                        "{}: class {:?} cannot be forgotten: in dataset {dataset:?}, {}, there are products {:?} of the type \
                         {}; delete all that have it, first",
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
            return Ok(()); // what is stored for events was among these
        }
        let mut from = 0;
        loop {
            let numbers = item.numbers(from.., PAGE)?;
            for &number in &numbers {
                self.item(&item.child(number)?, dataset)?;
            }
            match numbers.last() {
                Some(last) if numbers.len() == PAGE => from = last.saturating_add(1),
                _ => return Ok(()),
            }
        }
    }

    fn has(&mut self, name: &ProductName) -> Result<bool, EventsError> {
        if let Some(known) = self.has.get(name.type_name()) {
            return Ok(*known);
        }
        let notes = self.types.notes(name.type_name())?;
        let found = notes.iter().any(|note| note.name == self.class);
        self.has.insert(name.type_name().into(), found);
        Ok(found)
    }
}

/// Which container of its dataset an item is, in words.
fn place(item: &Item) -> String {
    let container = item.descriptor();
    match item.item_type() {
        ItemType::DataSet => "in itself".into(),
        ItemType::Run => format!("run {}", container.run),
        _ => format!("run {}, subrun {}", container.run, container.subrun),
    }
}
