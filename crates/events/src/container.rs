//! Datasets, runs, subruns and events, for users of the store.

use std::ops::{Bound, Deref, RangeBounds};

use crate::session::gone;
use crate::{
    ABSENT, Batch, DataSetEntry, DataSetPath, DataStore, Descriptor, EventChunks, EventsError,
    ItemType, Overwrite, ProductId, ProductName, Scan, Uuid,
};

/// Maximum number of children or names per request when a whole container is read.
const PAGE: usize = 4096;

/// Prefix of the labels of products that record completely ingested files.
pub const FILE_NOTES: &str = "ingested/";

/// The error for a container that was deleted while it was read.
pub(crate) fn deleted(url: &str, container: &Descriptor) -> EventsError {
    EventsError::NotFound {
        url: url.into(),
        what: format!("{container} any more"),
        hint: ": it was deleted, or never created; data read from it may be incomplete".into(),
    }
}

/// A run, a subrun or an event of a store; a [`DataSet`] is one as well.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Container {
    store: DataStore,
    descriptor: Descriptor,
}

impl Container {
    /// The container of a descriptor. Its existence is not checked: see [`exists`](Self::exists).
    pub fn new(store: DataStore, descriptor: Descriptor) -> Self {
        Self { store, descriptor }
    }

    /// The store that contains the container.
    pub fn datastore(&self) -> &DataStore {
        &self.store
    }

    /// The descriptor of the container.
    pub fn descriptor(&self) -> Descriptor {
        self.descriptor
    }

    /// Its kind.
    pub fn item_type(&self) -> ItemType {
        self.descriptor.item_type()
    }

    /// The number of the container; `None` for a dataset.
    pub fn number(&self) -> Option<u64> {
        let Descriptor {
            run, subrun, event, ..
        } = self.descriptor;
        match self.item_type() {
            ItemType::DataSet => None,
            ItemType::Run => Some(run),
            ItemType::SubRun => Some(subrun),
            ItemType::Event => Some(event),
        }
    }

    /// The run of a subrun, or the subrun of an event; `None` for datasets and for runs, whose dataset needs a name.
    pub fn above(&self) -> Option<Self> {
        let descriptor = match self.item_type() {
            ItemType::DataSet | ItemType::Run => return None,
            ItemType::SubRun => Descriptor {
                subrun: ABSENT,
                ..self.descriptor
            },
            ItemType::Event => self.descriptor.placed_by().descriptor(),
        };
        Some(Self::new(self.store.clone(), descriptor))
    }

    /// The child with a number; its existence is not checked.
    ///
    /// # Errors
    ///
    /// If this is an event, which has no children, or the root, which holds only datasets.
    pub fn child(&self, number: u64) -> Result<Self, EventsError> {
        let number = crate::number(number)?;
        self.check_holds("containers")?;
        let descriptor = self.descriptor.placed_by().child(number);
        Ok(Self::new(self.store.clone(), descriptor))
    }

    fn check_holds(&self, what: &str) -> Result<(), EventsError> {
        let holder = match (self.item_type(), self.descriptor.dataset) {
            (ItemType::Event, _) => "an event",
            (_, Uuid::NIL) => "the root of a store",
            _ => return Ok(()),
        };
        if what == "products" && self.item_type() == ItemType::Event {
            return Ok(());
        }
        Err(EventsError::Usage {
            what: format!("{holder} cannot hold {what}"),
        })
    }

    /// Creates the child with a number if it does not exist.
    ///
    /// # Errors
    ///
    /// Errors of [`child`](Self::child) and of writing.
    pub fn create(&self, number: u64) -> Result<Self, EventsError> {
        let child = self.child(number)?;
        let mut batch = Batch::default();
        batch.create(self.descriptor.placed_by(), number);
        self.store.write(&batch)?;
        Ok(child)
    }

    /// The child with a number; `None` if it does not exist.
    pub fn find(&self, number: u64) -> Result<Option<Self>, EventsError> {
        let child = self.child(number)?;
        let parent = self.descriptor.placed_by();
        let found = self.store.backend().contains(&[(parent, &[number])])?;
        Ok((found == [[true]]).then_some(child))
    }

    /// The child with a number.
    ///
    /// # Errors
    ///
    /// [`EventsError::NotFound`], with the nearest existing numbers, if it does not exist.
    pub fn get(&self, number: u64) -> Result<Self, EventsError> {
        match self.find(number)? {
            Some(child) => Ok(child),
            None => Err(EventsError::NotFound {
                url: self.store.url().into(),
                what: self.descriptor.placed_by().child(number).to_string(),
                hint: self.near(number)?,
            }),
        }
    }

    fn near(&self, number: u64) -> Result<String, EventsError> {
        let next = self.numbers(number.., 1)?;
        let first = self.numbers(.., 1)?;
        Ok(match (first.first(), next.first()) {
            (None, _) => match self.item_type() {
                ItemType::DataSet => "; the dataset has no runs".into(), // but perhaps datasets
                kind => format!("; the {kind} is empty"),
            },
            (Some(first), Some(next)) if first != next => {
                format!("; the first is {first}, the next after {number} is {next}")
            }
            (Some(first), _) => format!("; the first is {first}"),
        })
    }

    /// Whether the container exists.
    pub fn exists(&self) -> Result<bool, EventsError> {
        let Some((parent, number)) = self.descriptor.place() else {
            return Ok(true); // a dataset was found by its name
        };
        let found = self.store.backend().contains(&[(parent, &[number])])?;
        Ok(found == [[true]])
    }

    /// Checks that the container still exists; a dataset must be the same one, not a new one with the same name. Call
    /// this at the end of an iteration: if the container was deleted meanwhile, the result is incomplete.
    ///
    /// # Errors
    ///
    /// [`EventsError::NotFound`] if it does not exist; errors of reading.
    pub fn check_left(&self) -> Result<(), EventsError> {
        if !self.exists()? {
            return Err(deleted(self.store.url(), &self.descriptor));
        }
        // Checked last: the name of a dataset is marked before anything in it is deleted.
        self.store.check_left(self.descriptor.dataset)
    }

    /// The numbers of the children in order, at most `limit`.
    ///
    /// # Errors
    ///
    /// [`EventsError::NotFound`] if its dataset was deleted through this store, and errors of reading.
    pub fn numbers(
        &self,
        range: impl RangeBounds<u64>,
        limit: usize,
    ) -> Result<Vec<u64>, EventsError> {
        self.store.check_not_deleted([self.descriptor.dataset])?;
        self.numbers_left(range, limit)
    }

    /// Like [`numbers`](Self::numbers), for iterations over all contents. At the last page, checks that neither the
    /// container nor its dataset was deleted meanwhile, which would make the result incomplete. If the container was not
    /// created yet, only its dataset must exist.
    ///
    /// # Errors
    ///
    /// Errors of [`numbers`](Self::numbers) and [`check_left`](Self::check_left).
    pub fn page(
        &self,
        range: impl RangeBounds<u64> + Clone,
        limit: usize,
    ) -> Result<Vec<u64>, EventsError> {
        let found = self.numbers(range.clone(), limit)?;
        if found.len() < limit {
            self.check_left()?;
        }
        Ok(found)
    }

    /// The numbers of the children, even while the dataset is being deleted.
    fn numbers_left(
        &self,
        range: impl RangeBounds<u64>,
        limit: usize,
    ) -> Result<Vec<u64>, EventsError> {
        if self.item_type() == ItemType::Event {
            return Ok(Vec::new());
        }
        let from = match range.start_bound() {
            Bound::Included(from) => *from,
            Bound::Excluded(before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let scan = Scan {
            parent: self.descriptor.placed_by(),
            from,
            limit,
        };
        let mut found = self.store.backend().numbers(&[scan])?;
        let mut numbers = found.pop().unwrap_or_default();
        numbers.retain(|number| range.contains(number));
        Ok(numbers)
    }

    /// The number of children: events of a subrun, subruns of a run, runs of a dataset.
    ///
    /// # Errors
    ///
    /// Errors of reading.
    pub fn n_children(&self) -> Result<u64, EventsError> {
        const PAGE: usize = 65_536;
        let (mut n, mut from) = (0u64, 0);
        loop {
            let numbers = self.page(from.., PAGE)?;
            n += numbers.len() as u64;
            match numbers.last() {
                Some(last) if numbers.len() == PAGE => from = last.saturating_add(1),
                _ => return Ok(n),
            }
        }
    }

    /// The children in order, within a range of numbers.
    pub fn children(&self, range: impl RangeBounds<u64> + Clone) -> Children {
        let start = match range.start_bound() {
            Bound::Included(from) => Some(*from),
            Bound::Excluded(before) => before.checked_add(1),
            Bound::Unbounded => Some(0),
        };
        let end = match range.end_bound() {
            Bound::Included(last) => last.saturating_add(1),
            Bound::Excluded(end) => *end,
            Bound::Unbounded => ABSENT,
        };
        Children {
            item: self.clone(),
            next: start,
            end,
            page: Vec::new().into_iter(),
        }
    }

    /// All events in the container, or the event itself, in the order of run, subrun and event, in chunks.
    pub fn events(&self) -> EventChunks {
        EventChunks::new(self.store.clone(), self.descriptor)
    }

    /// Stores a product of the container.
    ///
    /// # Errors
    ///
    /// [`EventsError::Exists`] if the product exists and is kept; an error if this is the root; errors of writing.
    pub fn store(
        &self,
        name: &ProductName,
        value: &[u8],
        overwrite: Overwrite,
    ) -> Result<ProductId, EventsError> {
        self.check_holds("products")?;
        self.store.store(self.descriptor, name, value, overwrite)
    }

    /// Loads a product of the container; `None` if it does not exist.
    pub fn load(&self, name: &ProductName) -> Result<Option<Vec<u8>>, EventsError> {
        self.store.load(self.descriptor, name)
    }

    /// The names of the container's products: all, or those with a label.
    pub fn names(&self, label: Option<&str>) -> Result<Vec<ProductName>, EventsError> {
        self.store.check_not_deleted([self.descriptor.dataset])?;
        let (parent, event) = (self.descriptor.placed_by(), self.descriptor.event);
        self.store.backend().names(&parent, event, label)
    }

    /// Removes one product of the container, or all.
    pub fn remove_products(&self, name: Option<&ProductName>) -> Result<(), EventsError> {
        if self.item_type() != ItemType::DataSet {
            self.forget_files()?;
        }
        let (parent, event) = (self.descriptor.placed_by(), self.descriptor.event);
        self.store.remove_products(&parent, event, name)
    }

    /// Removes the container with its products and everything in it, from the bottom up. If it was interrupted, call it
    /// again. Products that are stored later in a removed run, subrun or event are kept, but iteration does not find them
    /// until the container is created again.
    pub fn remove(&self) -> Result<(), EventsError> {
        match self.forget_files() {
            // Names that cannot be parsed are removed with all others.
            Err(EventsError::Key { .. }) if self.item_type() == ItemType::DataSet => {}
            forgotten => forgotten?,
        }
        self.empty()?;
        // Deletes all objects at once, including orphans of crashes. The container still exists here, so a failed
        // deletion can be repeated.
        self.store.delete_objects(&self.descriptor)?;
        self.forget()
    }

    /// Removes the records of completely ingested files in its dataset. They become wrong now: ingesting a file again
    /// would skip it.
    pub(crate) fn forget_files(&self) -> Result<(), EventsError> {
        let dataset = crate::Parent::dataset(self.descriptor.dataset);
        for name in self.store.backend().names(&dataset, ABSENT, None)? {
            if name.label().starts_with(FILE_NOTES) {
                self.store.remove_products(&dataset, ABSENT, Some(&name))?;
            }
        }
        Ok(())
    }

    /// Removes the contents and the products, but not the objects of products.
    fn empty(&self) -> Result<(), EventsError> {
        let backend = self.store.backend();
        let placed_by = self.descriptor.placed_by();
        if self.item_type() == ItemType::Event {
            return backend.remove_products(&placed_by, self.descriptor.event, None);
        }
        if self.item_type() < ItemType::SubRun {
            let mut from = Some(0);
            while let Some(first) = from {
                let page = self.numbers_left(first.., PAGE)?;
                for number in &page {
                    let child = self.child(*number)?;
                    child.empty()?;
                    child.forget()?;
                }
                let last = page.last().filter(|_| page.len() == PAGE);
                from = last.and_then(|last| last.checked_add(1));
            }
        }
        // Events have no children, and their products are stored with those of the subrun.
        backend.clear(&placed_by)
    }

    /// Removes the container from its parent. A dataset is removed by its name.
    fn forget(&self) -> Result<(), EventsError> {
        match self.descriptor.place() {
            Some((parent, number)) => self.store.backend().remove(&parent, &[number]),
            None => Ok(()),
        }
    }
}

impl DataStore {
    /// Checks whether a dataset exists: by its name, or if its name is unknown, by searching all names.
    ///
    /// # Errors
    ///
    /// [`EventsError::NotFound`] if it was deleted; errors of reading.
    pub fn check_left(&self, dataset: Uuid) -> Result<(), EventsError> {
        self.check_not_deleted([dataset])?;
        if let Some(path) = self.path_of(dataset) {
            return DataSet::new(self.clone(), path, dataset).check_there();
        }
        if dataset == Uuid::NIL || self.root().has(dataset)? {
            return Ok(());
        }
        Err(gone(self.url(), &dataset.to_string()))
    }
}

/// Iterates over the children of a container, in the order of [`Container::page`]. If the container is deleted meanwhile,
/// the iteration ends with an error.
#[derive(Debug)]
pub struct Children {
    item: Container,
    next: Option<u64>,
    end: u64,
    page: std::vec::IntoIter<u64>,
}

impl Iterator for Children {
    type Item = Result<Container, EventsError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(number) = self.page.next() {
                return Some(self.item.child(number));
            }
            let from = self.next.take().filter(|from| *from < self.end)?;
            match self.item.page(from..self.end, PAGE) {
                Ok(page) => {
                    // A page that is not full is the last.
                    let last = page.last().copied().filter(|_| page.len() == PAGE);
                    self.next = last.and_then(|last| last.checked_add(1));
                    self.page = page.into_iter();
                    if self.page.len() == 0 {
                        return None;
                    }
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// A dataset of a store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DataSet {
    item: Container,
    path: DataSetPath,
}

impl Deref for DataSet {
    type Target = Container;

    fn deref(&self) -> &Container {
        &self.item
    }
}

impl DataSet {
    /// The dataset with a name and a UUID; the store is not asked.
    pub fn new(store: DataStore, path: DataSetPath, uuid: Uuid) -> Self {
        store.note_path(uuid, &path);
        let descriptor = crate::Parent::dataset(uuid).descriptor();
        Self {
            item: Container::new(store, descriptor),
            path,
        }
    }

    /// The full name.
    pub fn path(&self) -> &DataSetPath {
        &self.path
    }

    /// The UUID, which is part of the keys of its containers and products.
    pub fn uuid(&self) -> Uuid {
        self.item.descriptor.dataset
    }

    /// Creates a nested dataset, including missing datasets in between.
    ///
    /// # Errors
    ///
    /// If the name is invalid; [`EventsError::Deleting`] if a dataset of this name or a parent is being deleted;
    /// [`EventsError::NotFound`] if this dataset was deleted; errors of writing.
    pub fn create_dataset(&self, name: &str) -> Result<Self, EventsError> {
        let whole = self.path.join(name)?;
        if whole == self.path {
            return Err(EventsError::Name {
                what: "dataset name",
                name: name.into(),
                why: "it is empty".into(),
            });
        }
        self.check_not_deleting(&whole)?;
        self.check_there()?;
        let mut made = self.clone();
        for path in whole.lineage().skip(self.path.level()) {
            made = made.create_next(path)?;
        }
        Ok(made)
    }

    /// Creates a nested dataset if it does not exist.
    fn create_next(&self, path: DataSetPath) -> Result<Self, EventsError> {
        let backend = self.item.store.backend();
        let drawn = Uuid::ordered().map_err(|error| {
            EventsError::engine(self.item.store.url(), "create a UUID", error.to_string())
        })?;
        let entry = backend.create_dataset(&path, drawn)?;
        // A program that deletes the parent marks it before it lists the contents. If the parent exists and is not
        // marked, the deletion will find this dataset.
        let is_held = self.check_not_deleting(&path);
        if let Err(error) = is_held.and_then(|()| self.check_there()) {
            if entry == DataSetEntry::live(drawn) {
                backend.replace_dataset(&path, entry, None)?;
            }
            return Err(error);
        }
        Ok(Self::new(self.item.store.clone(), path, entry.uuid))
    }

    /// Checks that the dataset exists.
    ///
    /// # Errors
    ///
    /// [`EventsError::NotFound`] if it was deleted, even if another dataset has its name now.
    pub fn check_there(&self) -> Result<(), EventsError> {
        let live = DataSetEntry::live(self.uuid());
        if self.uuid() == Uuid::NIL || self.look(&self.path)? == (Some(live), None) {
            return Ok(());
        }
        Err(gone(self.item.store.url(), self.path.as_str()))
    }

    /// Whether it contains a dataset with a UUID, at any depth.
    fn has(&self, uuid: Uuid) -> Result<bool, EventsError> {
        for dataset in self.datasets(None) {
            let dataset = dataset?;
            if dataset.uuid() == uuid || dataset.has(uuid)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Fails if a dataset or one of its parents is being deleted.
    fn check_not_deleting(&self, path: &DataSetPath) -> Result<(), EventsError> {
        let (_, deleting) = self.look(path)?;
        deleting.map_or(Ok(()), |path| {
            Err(EventsError::Deleting {
                url: self.item.store.url().into(),
                path: path.as_str().into(),
            })
        })
    }

    /// Looks up a full name; also returns the first dataset of its lineage that is being deleted.
    fn look(
        &self,
        path: &DataSetPath,
    ) -> Result<(Option<DataSetEntry>, Option<DataSetPath>), EventsError> {
        let lineage: Vec<_> = path.lineage().collect();
        let entries = self.item.store.backend().find_datasets(&lineage)?;
        let found = entries.last().copied().flatten();
        let is_deleting =
            |entry: &Option<DataSetEntry>| entry.is_some_and(|entry| entry.is_deleting);
        let deleting = entries.iter().position(is_deleting);
        let deleting = deleting.and_then(|at| lineage.into_iter().nth(at));
        Ok((found, deleting))
    }

    /// The nested dataset with a name (`a/b` is in `a`); `None` if it does not exist or is being deleted.
    pub fn find_dataset(&self, name: &str) -> Result<Option<Self>, EventsError> {
        let path = self.path.join(name)?;
        if path == self.path {
            return Ok(Some(self.clone()));
        }
        let (found, deleting) = self.look(&path)?;
        let found = found.filter(|_| deleting.is_none());
        Ok(found.map(|entry| Self::new(self.item.store.clone(), path, entry.uuid)))
    }

    /// The nested dataset with a name.
    ///
    /// # Errors
    ///
    /// [`EventsError::NotFound`], with existing names, if it does not exist.
    pub fn dataset(&self, name: &str) -> Result<Self, EventsError> {
        let path = self.path.join(name)?;
        if path == self.path {
            return Ok(self.clone());
        }
        let hint = match self.look(&path)? {
            (_, Some(deleting)) => format!(
                ": its deletion was interrupted: finish it by deleting {:?} (delete_dataset or `fb store rm`)",
                deleting.as_str()
            ),
            (Some(entry), None) => {
                return Ok(Self::new(self.item.store.clone(), path, entry.uuid));
            }
            (None, None) => self.what_is_there(&path)?,
        };
        Err(EventsError::NotFound {
            url: self.item.store.url().into(),
            what: format!("dataset {:?}", path.as_str()),
            hint,
        })
    }

    /// Describes existing datasets for the error of a missing one: the datasets in its closest existing parent.
    fn what_is_there(&self, path: &DataSetPath) -> Result<String, EventsError> {
        let n_above = path.level().saturating_sub(self.path.level() + 1);
        let above = path.lineage().skip(self.path.level());
        let lineage: Vec<_> = above.take(n_above).collect();
        let entries = self.item.store.backend().find_datasets(&lineage)?;
        let mut known = self.clone();
        for (part, entry) in lineage.into_iter().zip(entries) {
            let Some(entry) = entry else { break };
            known = Self::new(self.item.store.clone(), part, entry.uuid);
        }
        const SHOWN: usize = 5;
        let mut names = Vec::new();
        for dataset in known.datasets(None).take(SHOWN + 1) {
            let found = dataset?.path;
            // The dataset may have been created meanwhile.
            names.extend((found != *path).then(|| found.split().1.to_owned()));
        }
        let and_more = if names.len() > SHOWN { ", …" } else { "" };
        names.truncate(SHOWN);
        let place = match known.path.as_str() {
            "" => "the store".to_owned(),
            path => format!("{path:?}"),
        };
        Ok(match names.is_empty() {
            true => format!("; {place} has no datasets"),
            false => format!("; {place} has {}{and_more}", names.join(", ")),
        })
    }

    /// Loads a product of an event in the dataset with one request; [`get`](Container::get) would need four. `None` if
    /// the event has no such product.
    ///
    /// # Errors
    ///
    /// [`EventsError::NotFound`] if the run, subrun or event does not exist; errors of reading.
    pub fn load_of_event(
        &self,
        [run, subrun, event]: [u64; 3],
        name: &ProductName,
    ) -> Result<Option<Vec<u8>>, EventsError> {
        let found = self.child(run)?.child(subrun)?.child(event)?.load(name)?;
        if found.is_none() {
            self.get(run)?.get(subrun)?.get(event)?;
        }
        Ok(found)
    }

    /// The nested datasets, sorted by name, after a name or from the first.
    pub fn datasets(&self, after: Option<&str>) -> DataSets {
        DataSets {
            parent: self.clone(),
            after: Some(after.map(str::to_owned)),
            page: Vec::new().into_iter(),
        }
    }

    /// Removes the nested dataset with a name and everything in it. Also finishes an interrupted deletion.
    ///
    /// # Errors
    ///
    /// [`EventsError::NotFound`], with existing names, if it does not exist; errors of [`remove`](Self::remove).
    pub fn delete_dataset(&self, name: &str) -> Result<(), EventsError> {
        let path = self.path.join(name)?;
        match self.look(&path)?.0 {
            Some(entry) => Self::new(self.item.store.clone(), path, entry.uuid).remove(),
            None => self.dataset(name)?.remove(),
        }
    }

    /// Whether the dataset, or the rest of an interrupted deletion, is in the store.
    pub fn is_left(&self) -> Result<bool, EventsError> {
        let entry = self.look(&self.path)?.0;
        Ok(self.uuid() == Uuid::NIL || entry.is_some_and(|entry| entry.uuid == self.uuid()))
    }

    /// Removes the dataset with all nested datasets, containers and products; the root is only emptied. The dataset and
    /// its contents become invisible at once. After an interrupted deletion, nothing can be created under the name until
    /// the deletion is finished by this or [`delete_dataset`](Self::delete_dataset).
    pub fn remove(&self) -> Result<(), EventsError> {
        let uuid = self.uuid();
        if uuid == Uuid::NIL {
            return self.remove_datasets();
        }
        let backend = self.item.store.backend();
        backend.check_writes("remove a dataset")?;
        self.item.store.note_deleted(uuid, &self.path);
        let [live, deleting] = [DataSetEntry::live(uuid), DataSetEntry::deleting(uuid)];
        backend.replace_dataset(&self.path, live, Some(deleting))?;
        // A crash must not restore the name without the contents.
        backend.flush()?;
        self.remove_datasets()?;
        self.item.remove()?;
        backend.replace_dataset(&self.path, deleting, None)
    }

    /// Removes the nested datasets, including those whose deletion was interrupted.
    fn remove_datasets(&self) -> Result<(), EventsError> {
        let backend = self.item.store.backend();
        let mut after = None;
        loop {
            let page = backend.datasets(&self.path, after.as_deref(), PAGE)?;
            // If others have finished the deletion, these datasets may belong to a new dataset with the same name.
            if self.uuid() != Uuid::NIL {
                let found = self.look(&self.path)?.0;
                if found != Some(DataSetEntry::deleting(self.uuid())) {
                    return Ok(());
                }
            }
            for (name, entry) in &page {
                let path = self.path.join(name)?;
                Self::new(self.item.store.clone(), path, entry.uuid).remove()?;
            }
            after = match page.last() {
                Some((last, _)) if page.len() == PAGE => Some(last.clone()),
                _ => return Ok(()),
            };
        }
    }
}

/// The nested datasets, sorted by name.
#[derive(Debug)]
pub struct DataSets {
    parent: DataSet,
    /// The name before the next page; `None` at the end.
    after: Option<Option<String>>,
    page: std::vec::IntoIter<(String, DataSetEntry)>,
}

impl Iterator for DataSets {
    type Item = Result<DataSet, EventsError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let DataSet { item, path } = &self.parent;
            if let Some((name, entry)) = self.page.find(|(_, entry)| !entry.is_deleting) {
                let dataset = path.join(&name);
                return Some(
                    dataset.map(|path| DataSet::new(item.store.clone(), path, entry.uuid)),
                );
            }
            let after = self.after.take()?;
            match item.store.backend().datasets(path, after.as_deref(), PAGE) {
                Ok(page) => {
                    let last = page.last().filter(|_| page.len() == PAGE);
                    self.after = last.map(|(name, _)| Some(name.clone()));
                    self.page = page.into_iter();
                    if self.page.len() == 0 {
                        return None;
                    }
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
