//! A dataset, run, subrun or event, as Python holds it.

use super::*;

/// What all containers of a dataset share.
pub struct Origin {
    pub(super) store: DataStore,
    pub(super) types: Arc<Types>,
    /// The name of the dataset, if it is known.
    pub(super) path: Option<DataSetPath>,
}

/// A dataset, run, subrun or event of a store.
#[pyclass(frozen, subclass, module = "femtobarn._core")]
pub struct Container {
    pub(super) origin: Arc<Origin>,
    pub(super) descriptor: Descriptor,
}

impl Container {
    pub(super) fn item(&self) -> femtobarn::events::Container {
        femtobarn::events::Container::new(self.origin.store.clone(), self.descriptor)
    }

    /// Its dataset, if the name is known.
    pub(super) fn dataset(&self) -> Option<DataSet> {
        let Origin { store, path, .. } = &*self.origin;
        let path = path.clone()?;
        Some(DataSet::new(store.clone(), path, self.descriptor.dataset))
    }

    /// Another container of the same dataset.
    fn beside(&self, descriptor: Descriptor) -> Self {
        let origin = self.origin.clone();
        Self { origin, descriptor }
    }
}

#[pymethods]
impl Container {
    /// The full name of its dataset; None if it is unknown.
    #[getter]
    fn path(&self) -> Option<&str> {
        self.origin.path.as_ref().map(DataSetPath::as_str)
    }

    /// Its dataset, if the name is known.
    #[getter]
    fn named(&self, py: Python<'_>) -> PyResult<Option<Py<NamedDataSet>>> {
        let named = |dataset| NamedDataSet::of(py, &self.origin.types, dataset);
        self.dataset().map(named).transpose()
    }

    /// The UUID of its dataset.
    #[getter]
    fn uuid<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.descriptor.dataset.0)
    }

    /// Its key of 40 bytes (`docs/specs/event-store.md`).
    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.descriptor.to_bytes())
    }

    /// How many containers it is in: 0 for a dataset, 3 for an event.
    #[getter]
    fn level(&self) -> usize {
        self.descriptor.item_type() as usize
    }

    /// The number of a run, subrun or event.
    #[getter]
    fn number(&self) -> PyResult<u64> {
        let number = self.item().number();
        number.ok_or_else(|| usage("a dataset has a name instead of a number"))
    }

    /// The container of a lower level that it is in: its dataset, run or subrun.
    fn above(&self, level: usize) -> Self {
        let own = self.descriptor;
        let above = match level {
            0 => Parent::dataset(own.dataset),
            1 => Parent::run(own.dataset, own.run),
            _ => own.placed_by(),
        };
        self.beside(above.descriptor())
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| {
            let other = other.get();
            self.descriptor == other.descriptor
                && is_same_store(&self.origin.store, &other.origin.store)
        })
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = std::hash::DefaultHasher::new();
        std::hash::Hash::hash(&self.descriptor, &mut hasher);
        std::hash::Hasher::finish(&hasher)
    }

    fn __str__(&self) -> String {
        self.descriptor.to_string()
    }

    fn create(&self, py: Python<'_>, number: u64) -> PyResult<Self> {
        let made = detached(py, || self.item().create(number))?;
        Ok(self.beside(made.descriptor()))
    }

    /// The container of a number in it, which need not exist.
    fn child(&self, number: u64) -> PyResult<Self> {
        let child = self.item().child(number).map_err(events_to_python)?;
        Ok(self.beside(child.descriptor()))
    }

    fn get(&self, py: Python<'_>, number: u64) -> PyResult<Self> {
        let found = detached(py, || self.item().get(number))?;
        Ok(self.beside(found.descriptor()))
    }

    fn exists(&self, py: Python<'_>) -> PyResult<bool> {
        detached(py, || self.item().exists())
    }

    /// Fails if its dataset was deleted, if the name of that is known.
    fn check_dataset(&self, py: Python<'_>) -> PyResult<()> {
        match self.dataset() {
            Some(dataset) => detached(py, || dataset.check_there()),
            None => Ok(()),
        }
    }

    /// The numbers of the containers in it, from `start` up to `stop`, at most `limit`.
    fn numbers(&self, py: Python<'_>, start: u64, stop: u64, limit: usize) -> PyResult<Vec<u64>> {
        detached(py, || self.item().page(start..stop, limit))
    }

    fn remove(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.item().remove())
    }

    fn store(&self, py: Python<'_>, name: Name, value: &[u8], replaces: bool) -> PyResult<()> {
        let (item, name) = (self.item(), product_name(&name)?);
        detached(py, || {
            item.store(&name, value, overwrite(replaces)).map(drop)
        })
    }

    fn load<'py>(&self, py: Python<'py>, name: Name) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let (item, name) = (self.item(), product_name(&name)?);
        let found = detached(py, || item.load(&name))?;
        Ok(found.map(|value| PyBytes::new(py, &value)))
    }

    /// The labels and types of its products: of all, or of those with one label.
    #[pyo3(signature = (label = None))]
    fn names(&self, py: Python<'_>, label: Option<&str>) -> PyResult<Vec<Name>> {
        detached(py, || self.item().names(label)).map(pairs)
    }

    fn remove_product(&self, py: Python<'_>, name: Name) -> PyResult<()> {
        let (item, name) = (self.item(), product_name(&name)?);
        detached(py, || item.remove_products(Some(&name)))
    }

    /// For each product name that is stored with it: label, type, how many events have one, and whether it has one itself.
    fn name_counts(&self, py: Python<'_>) -> PyResult<Vec<NameCount>> {
        let parent = self.descriptor.placed_by();
        let counts = detached(py, || self.origin.store.backend().name_counts(&parent))?;
        let count = |count: femtobarn::events::NameCount| {
            let (label, type_name) = (count.name.label(), count.name.type_name());
            let (label, type_name) = (label.to_owned(), type_name.to_owned());
            (label, type_name, count.n_events, count.is_own)
        };
        Ok(counts.into_iter().map(count).collect())
    }

    /// Iterates over its events and some of their products; from the one after the event of a key, if it is given.
    #[pyo3(signature = (names, n_events, ahead, after = None))]
    fn loader(
        &self,
        names: Vec<Name>,
        n_events: usize,
        ahead: usize,
        after: Option<&[u8]>,
    ) -> PyResult<Loader> {
        let Self { origin, descriptor } = self;
        let store = &origin.store;
        let events = match after {
            Some(seen) => EventChunks::after(store.clone(), *descriptor, to_descriptor(seen)?),
            None => EventChunks::new(store.clone(), *descriptor),
        };
        let options = LoadOptions {
            names: product_names(&names)?,
            n_events,
            ahead,
        };
        let names = options.names.clone();
        let loader = femtobarn::events::Loader::start(store, events, options);
        Ok(Loader {
            passed: loader.passed().clone(),
            loader: Mutex::new(Some(loader)),
            origin: origin.clone(),
            names,
        })
    }
}

/// A dataset of a store, found by its name.
#[pyclass(frozen, extends = Container, name = "DataSet", module = "femtobarn._core")]
pub struct NamedDataSet {
    dataset: DataSet,
    types: Arc<Types>,
}

impl NamedDataSet {
    pub(super) fn of(py: Python<'_>, types: &Arc<Types>, dataset: DataSet) -> PyResult<Py<Self>> {
        let types = types.clone();
        let origin = Arc::new(Origin {
            store: dataset.datastore().clone(),
            types: types.clone(),
            path: Some(dataset.path().clone()),
        });
        let descriptor = dataset.descriptor();
        let container = PyClassInitializer::from(Container { origin, descriptor });
        Py::new(py, container.add_subclass(Self { dataset, types }))
    }
}

#[pymethods]
impl NamedDataSet {
    /// Its full name.
    #[getter]
    fn path(&self) -> &str {
        self.dataset.path().as_str()
    }

    /// Creates a dataset in it, including the datasets between.
    fn create_dataset(&self, py: Python<'_>, name: &str) -> PyResult<Py<Self>> {
        let made = detached(py, || self.dataset.create_dataset(name))?;
        Self::of(py, &self.types, made)
    }

    fn dataset(&self, py: Python<'_>, name: &str) -> PyResult<Py<Self>> {
        let found = detached(py, || self.dataset.dataset(name))?;
        Self::of(py, &self.types, found)
    }

    /// Whether there is a dataset of this name in it.
    fn has_dataset(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        Ok(detached(py, || self.dataset.find_dataset(name))?.is_some())
    }

    /// The datasets in the dataset that has its name now.
    fn datasets(&self, py: Python<'_>) -> PyResult<Vec<Py<Self>>> {
        let all = detached(py, || {
            let root = self.dataset.datastore().root();
            let named = root.dataset(self.dataset.path().as_str())?;
            named.datasets(None).collect::<Result<Vec<_>, _>>()
        })?;
        all.into_iter()
            .map(|dataset| Self::of(py, &self.types, dataset))
            .collect()
    }

    fn delete_dataset(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        detached(py, || self.dataset.delete_dataset(name))
    }

    /// Whether it exists: a deleted one does not, even if a new dataset has its name.
    fn exists(&self, py: Python<'_>) -> PyResult<bool> {
        detached(py, || match self.dataset.check_there() {
            Ok(()) => Ok(true),
            Err(EventsError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        })
    }

    /// Deletes it, or what an interrupted deletion has left of it; fails if neither is in the store.
    fn remove(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || match self.dataset.is_left()? {
            true => self.dataset.remove(),
            false => self.dataset.check_there(),
        })
    }
}
