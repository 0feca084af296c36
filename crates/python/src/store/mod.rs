//! Event stores. Containers are identified by their keys of 40 bytes (`docs/specs/event-store.md`); users see the
//classes in ! `python/femtobarn/_store`.

mod codec;
mod events;
mod export;
mod ingest;
mod queue;
mod write_batch;

pub use codec::{Codec, Encoded};
pub use events::{Events, Loader};
pub use export::{export_events, may_be_of_boost, product_hint};
pub use ingest::{Ingest, check_ingest, file_kind, plain_namespace};
pub use queue::Queue;
pub use write_batch::WriteBatch;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow_array::Array;
use femtobarn::events::{
    BatchOptions, Container, DataSet, DataSetPath, DataStore, Descriptor, EventChunks, EventsError,
    LoadOptions, Loaded, ObjectOptions, Overwrite, ProductId, ProductName, QueueMode, Taken,
};
use femtobarn::products::{self, ClassNote, Member, Types};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::batch::Batch;
use crate::batches::Batches;
use crate::callback::locked;
use crate::error::{events_to_python, goes_on, to_python, usage};
use codec::damaged;

/// A label and a type.
type Name = (String, String);

/// A label, a type, how many events have a product of that name, and whether the container itself has one.
type NameCount = (String, String, u64, bool);

/// The name of a class, and names and types of its members.
pub type Class = (String, Vec<(String, String)>);

/// A class in the form for Python.
pub fn class(note: ClassNote) -> Class {
    let members = note.members.into_iter();
    let members = members.map(|member| (member.name, member.type_name));
    (note.name, members.collect())
}

fn product_name((label, type_name): &Name) -> PyResult<ProductName> {
    ProductName::new(label, type_name).map_err(events_to_python)
}

fn product_names(names: &[Name]) -> PyResult<Vec<ProductName>> {
    names.iter().map(product_name).collect()
}

fn pairs(names: Vec<ProductName>) -> Vec<Name> {
    let pair = |name: ProductName| (name.label().to_owned(), name.type_name().to_owned());
    names.into_iter().map(pair).collect()
}

fn descriptor(key: &[u8]) -> PyResult<Descriptor> {
    Descriptor::from_bytes(key)
        .ok_or_else(|| usage("not a container key: expected the 40 bytes of a descriptor"))
}

fn key(py: Python<'_>, item: &Container) -> Py<PyBytes> {
    PyBytes::new(py, &item.descriptor().to_bytes()).unbind()
}

fn overwrite(may: bool) -> Overwrite {
    match may {
        true => Overwrite::Replace,
        false => Overwrite::Keep,
    }
}

/// Products that were kept, as keys and names.
fn kept(py: Python<'_>, ids: Vec<ProductId>) -> Vec<(Py<PyBytes>, String, String)> {
    let one = |id: ProductId| {
        let key = PyBytes::new(py, &id.container.to_bytes()).unbind();
        (
            key,
            id.name.label().to_owned(),
            id.name.type_name().to_owned(),
        )
    };
    ids.into_iter().map(one).collect()
}

/// An event store.
#[pyclass(frozen, module = "femtobarn._core")]
pub struct Store {
    store: DataStore,
    types: Arc<Types>,
    codec: Py<Codec>,
}

/// The name and the UUID of a dataset.
type Named = (String, Py<PyBytes>);

impl Store {
    fn item(&self, key: &[u8]) -> PyResult<Container> {
        Ok(Container::new(self.store.clone(), descriptor(key)?))
    }

    fn named_dataset(&self, path: &str, key: &[u8]) -> PyResult<DataSet> {
        let path = DataSetPath::new(path).map_err(events_to_python)?;
        let uuid = descriptor(key)?.dataset;
        Ok(DataSet::new(self.store.clone(), path, uuid))
    }

    fn root(&self, path: &str) -> PyResult<DataSet> {
        // names are looked up from the root, which needs no UUID
        let path = DataSetPath::new(path).map_err(events_to_python)?;
        let root = self.store.root();
        match path.as_str() {
            "" => Ok(root),
            path => root.dataset(path).map_err(events_to_python),
        }
    }
}

/// Runs something without the GIL.
fn detached<T: Send>(
    py: Python<'_>,
    run: impl FnOnce() -> Result<T, EventsError> + Send,
) -> PyResult<T> {
    py.detach(run).map_err(events_to_python)
}

fn named(py: Python<'_>, dataset: &DataSet) -> Named {
    let key = key(py, dataset);
    (dataset.path().as_str().to_owned(), key)
}

#[pymethods]
impl Store {
    #[staticmethod]
    #[pyo3(signature = (url, mode, objects = None, objects_over = None, settings = BTreeMap::new()))]
    fn connect(
        py: Python<'_>,
        url: &str,
        mode: &str,
        objects: Option<String>,
        objects_over: Option<u64>,
        settings: BTreeMap<String, String>,
    ) -> PyResult<Self> {
        let options = ObjectOptions {
            base: objects,
            over: objects_over,
            settings,
        };
        let store = detached(py, || match mode {
            "r" => DataStore::connect_to_read(url, options),
            "r+" => DataStore::connect_existing(url, options),
            _ => DataStore::connect(url, options),
        })?;
        let types = Arc::new(Types::new(&store));
        let codec = Py::new(py, Codec::new(py, &store, &types))?;
        Ok(Self {
            store,
            types,
            codec,
        })
    }

    /// Compacts the file of a store in a directory; returns its size before and after, in bytes.
    #[staticmethod]
    fn compact(py: Python<'_>, url: &str) -> PyResult<(u64, u64)> {
        let done = detached(py, || femtobarn::events::compact(url))?;
        Ok((done.before, done.after))
    }

    /// What makes products of objects of Python, and these of products.
    #[getter]
    fn codec(&self, py: Python<'_>) -> Py<Codec> {
        self.codec.clone_ref(py)
    }

    #[getter]
    fn url(&self) -> &str {
        self.store.url()
    }

    /// Closes the store; all objects made from it fail from now on.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.store.close());
    }

    #[getter]
    fn is_closed(&self) -> bool {
        self.store.is_closed()
    }

    /// Where large products are stored, and from which size; None if they are in the store.
    #[getter]
    fn objects(&self) -> Option<(&str, u64)> {
        Some((self.store.objects()?, self.store.objects_over()?))
    }

    /// Deletes objects beside the store that no product refers to; returns how many are used, how many were deleted,
    /// their bytes, and how many are too young or unknown.
    fn sweep(&self, py: Python<'_>, age: f64) -> PyResult<(u64, u64, u64, u64, u64)> {
        let age =
            Duration::try_from_secs_f64(age).map_err(|_| usage("an age must be 0 s or more"))?;
        let swept = detached(py, || self.store.sweep(age))?;
        Ok((
            swept.n_used,
            swept.n_deleted,
            swept.n_bytes,
            swept.n_young,
            swept.n_strange,
        ))
    }

    /// Removes the remains of datasets without a name; returns how many datasets had remains.
    fn sweep_nameless(&self, py: Python<'_>) -> PyResult<u64> {
        detached(py, || self.store.sweep_nameless())
    }

    #[getter]
    fn is_durable(&self) -> bool {
        self.store.backend().is_durable()
    }

    #[getter]
    fn is_kept(&self) -> bool {
        self.store.backend().is_kept()
    }

    #[getter]
    fn n_targets(&self) -> usize {
        self.store.backend().n_targets()
    }

    /// Whether both are the same open store.
    fn is_same(&self, other: &Self) -> bool {
        self.store == other.store
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.store.flush())
    }

    /// Creates a dataset in another one.
    fn create_dataset(
        &self,
        py: Python<'_>,
        path: &str,
        key: &[u8],
        name: &str,
    ) -> PyResult<Named> {
        let parent = self.named_dataset(path, key)?;
        let made = detached(py, || parent.create_dataset(name))?;
        Ok(named(py, &made))
    }

    fn find_dataset(&self, py: Python<'_>, path: &str) -> PyResult<Option<Named>> {
        let found = detached(py, || self.store.root().find_dataset(path))?;
        Ok(found.map(|dataset| named(py, &dataset)))
    }

    fn dataset(&self, py: Python<'_>, path: &str) -> PyResult<Named> {
        let found = py.detach(|| self.root(path))?;
        Ok(named(py, &found))
    }

    fn datasets(&self, py: Python<'_>, path: &str) -> PyResult<Vec<Named>> {
        let parent = py.detach(|| self.root(path))?;
        let all = detached(py, || parent.datasets(None).collect::<Result<Vec<_>, _>>())?;
        Ok(all.iter().map(|dataset| named(py, dataset)).collect())
    }

    fn delete_dataset(&self, py: Python<'_>, path: &str) -> PyResult<()> {
        detached(py, || self.store.root().delete_dataset(path))
    }

    /// Deletes a dataset if it has this key; returns whether it has.
    fn remove_dataset(&self, py: Python<'_>, path: &str, key: &[u8]) -> PyResult<bool> {
        let dataset = self.named_dataset(path, key)?;
        detached(py, || {
            let is_left = dataset.is_left()?;
            if is_left {
                dataset.remove()?;
            }
            Ok(is_left)
        })
    }

    fn create(&self, py: Python<'_>, parent: &[u8], number: u64) -> PyResult<Py<PyBytes>> {
        let parent = self.item(parent)?;
        let made = detached(py, || parent.create(number))?;
        Ok(key(py, &made))
    }

    fn child(&self, py: Python<'_>, parent: &[u8], number: u64) -> PyResult<Py<PyBytes>> {
        let child = self.item(parent)?.child(number).map_err(events_to_python)?;
        Ok(key(py, &child))
    }

    fn get(&self, py: Python<'_>, parent: &[u8], number: u64) -> PyResult<Py<PyBytes>> {
        let parent = self.item(parent)?;
        let found = detached(py, || parent.get(number))?;
        Ok(key(py, &found))
    }

    fn exists(&self, py: Python<'_>, container: &[u8]) -> PyResult<bool> {
        let item = self.item(container)?;
        detached(py, || item.exists())
    }

    /// Fails if a container was deleted.
    fn check_left(&self, py: Python<'_>, container: &[u8]) -> PyResult<()> {
        let item = self.item(container)?;
        detached(py, || item.check_left())
    }

    /// The numbers of the children of a container, from `start` up to `stop`, at most `limit`.
    fn numbers(
        &self,
        py: Python<'_>,
        container: &[u8],
        start: u64,
        stop: u64,
        limit: usize,
    ) -> PyResult<Vec<u64>> {
        let item = self.item(container)?;
        detached(py, || item.page(start..stop, limit))
    }

    fn remove(&self, py: Python<'_>, container: &[u8]) -> PyResult<()> {
        let item = self.item(container)?;
        detached(py, || item.remove())
    }

    fn store(
        &self,
        py: Python<'_>,
        container: &[u8],
        name: Name,
        value: &[u8],
        replaces: bool,
    ) -> PyResult<()> {
        let (item, name) = (self.item(container)?, product_name(&name)?);
        detached(py, || {
            item.store(&name, value, overwrite(replaces)).map(drop)
        })
    }

    fn load<'py>(
        &self,
        py: Python<'py>,
        container: &[u8],
        name: Name,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let (item, name) = (self.item(container)?, product_name(&name)?);
        let found = detached(py, || item.load(&name))?;
        Ok(found.map(|value| PyBytes::new(py, &value)))
    }

    /// The labels and types of the products of a container: all, or those with one label.
    #[pyo3(signature = (container, label = None))]
    fn names(&self, py: Python<'_>, container: &[u8], label: Option<&str>) -> PyResult<Vec<Name>> {
        let item = self.item(container)?;
        detached(py, || item.names(label)).map(pairs)
    }

    /// Removes one product, or all.
    #[pyo3(signature = (container, name = None))]
    fn remove_products(
        &self,
        py: Python<'_>,
        container: &[u8],
        name: Option<Name>,
    ) -> PyResult<()> {
        let item = self.item(container)?;
        let name = name.as_ref().map(product_name).transpose()?;
        detached(py, || item.remove_products(name.as_ref()))
    }

    /// Removes products of all events in containers, with one label, or also with one type; returns how many, and the
    /// names of the other products.
    fn remove_event_products(
        &self,
        py: Python<'_>,
        containers: Vec<PyBackedBytes>,
        label: &str,
        type_name: Option<&str>,
    ) -> PyResult<(u64, Vec<Name>)> {
        let items = containers.iter().map(|container| self.item(container));
        let items = items.collect::<PyResult<Vec<_>>>()?;
        let (n, others) = detached(py, || {
            let (mut n, mut others) = (0, BTreeSet::new());
            for item in items {
                let done = item.remove_event_products(label, type_name)?;
                n += done.n();
                others.extend(done.others);
            }
            Ok((n, others))
        })?;
        Ok((n, pairs(others.into_iter().collect())))
    }

    /// Notes the classes in a column of batches; classes without a name are called `class_name`. Returns the type name.
    fn describe(&self, py: Python<'_>, values: &Batches, class_name: &str) -> PyResult<String> {
        let (_, model) = values.single()?;
        detached(py, || {
            let described = products::describe(&model, class_name);
            let members = described.classes.iter().flat_map(|class| &class.members);
            let types = members.map(|member| &member.type_name);
            if types
                .chain([&described.type_name])
                .any(|name| name.contains('?'))
            {
                let what = format!(
                    "product {class_name:?}: the type of its empty lists or missing values is unknown: give it as \
                     typename=, such as list[float] or \"std::vector<float>\", or pass an array with a dtype"
                );
                return Err(EventsError::Usage { what });
            }
            self.types.note(&described)?;
            Ok(described.type_name)
        })
    }

    /// The one value of a column, as it is stored.
    fn encode<'py>(
        &self,
        py: Python<'py>,
        values: &Batches,
        type_name: &str,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (array, _) = values.single()?;
        let rows = detached(py, || self.types.of(type_name, "value"))?;
        let encoded = py.detach(|| rows.encode(&array)).map_err(to_python)?;
        match encoded.ends.len() {
            1 => Ok(PyBytes::new(py, &encoded.bytes)),
            n => Err(usage(format!("expected a single value, found {n}"))),
        }
    }

    /// Stored values as a column.
    fn decode(
        &self,
        py: Python<'_>,
        values: Vec<Option<PyBackedBytes>>,
        type_name: &str,
        column: &str,
    ) -> PyResult<Batch> {
        let rows = detached(py, || self.types.of(type_name, column))?;
        let each = values.iter().map(|value| value.as_deref());
        let arrays = rows.decode(each);
        let arrays = arrays.map_err(|fault| damaged(type_name, &fault.expected, &fault.found))?;
        Ok(Batch::plain(arrays, self.store.url()))
    }

    /// Products of all events in containers, as columns.
    fn arrays(
        &self,
        py: Python<'_>,
        containers: Vec<Vec<u8>>,
        names: Vec<Name>,
        with_numbers: bool,
    ) -> PyResult<Batch> {
        let items = containers.iter().map(|container| self.item(container));
        let items = items.collect::<PyResult<Vec<_>>>()?;
        let names = product_names(&names)?;
        let arrays = || products::arrays(&self.types, &self.store, &items, &names, with_numbers);
        let arrays = detached(py, arrays)?;
        Ok(Batch::plain(arrays, self.store.url()))
    }

    /// For each product name that is stored with a container: label, type, how many events have one, and whether the
    /// container itself does.
    fn name_counts(&self, py: Python<'_>, container: &[u8]) -> PyResult<Vec<NameCount>> {
        let parent = self.item(container)?.descriptor().placed_by();
        let counts = detached(py, || self.store.backend().name_counts(&parent))?;
        let count = |count: femtobarn::events::NameCount| {
            let (label, type_name) = (count.name.label(), count.name.type_name());
            let (label, type_name) = (label.to_owned(), type_name.to_owned());
            (label, type_name, count.n_events, count.is_own)
        };
        Ok(counts.into_iter().map(count).collect())
    }

    /// The classes in the name of a type, with their members.
    fn classes(&self, py: Python<'_>, type_name: &str) -> PyResult<Vec<Class>> {
        let notes = detached(py, || self.types.notes(type_name))?;
        Ok(notes.into_iter().map(class).collect())
    }

    /// Iterates over the events of a container and some of their products; from the one after `after`, if it is given.
    #[pyo3(signature = (container, names, n_events, ahead, after = None, target = None))]
    fn loader(
        &self,
        container: &[u8],
        names: Vec<Name>,
        n_events: usize,
        ahead: usize,
        after: Option<&[u8]>,
        target: Option<usize>,
    ) -> PyResult<Loader> {
        let (store, own) = (self.store.clone(), descriptor(container)?);
        let mut events = match after {
            Some(seen) => EventChunks::after(store, own, descriptor(seen)?),
            None => EventChunks::new(store, own),
        };
        if let Some(target) = target {
            events = events.of_target(target);
        }
        let options = LoadOptions {
            names: product_names(&names)?,
            n_events,
            ahead,
        };
        let names = options.names.clone();
        let loader = femtobarn::events::Loader::start(&self.store, events, options);
        Ok(Loader {
            loader: Mutex::new(Some(loader)),
            store: self.store.clone(),
            types: self.types.clone(),
            names,
        })
    }

    /// The products of known events; `keys` are their keys, concatenated.
    fn load_events(&self, py: Python<'_>, keys: &[u8], names: Vec<Name>) -> PyResult<Events> {
        let names = product_names(&names)?;
        let mut groups: Vec<(femtobarn::events::Parent, Vec<u64>)> = Vec::new();
        for key in keys.chunks(Descriptor::LENGTH) {
            let event = descriptor(key)?;
            match groups.last_mut() {
                Some((parent, events)) if *parent == event.placed_by() => events.push(event.event),
                _ => groups.push((event.placed_by(), vec![event.event])),
            }
        }
        let loaded = detached(py, || Loaded::load(&self.store, groups, &names))?;
        Ok(Events {
            range: 0..loaded.len(),
            loaded: Arc::new(loaded),
            store: self.store.clone(),
            types: self.types.clone(),
            names,
        })
    }

    fn write_batch(
        &self,
        max_items: usize,
        max_bytes: usize,
        threads: usize,
        replaces: bool,
    ) -> PyResult<WriteBatch> {
        let checked = self.store.backend().check_writes("write");
        checked.map_err(events_to_python)?;
        let options = BatchOptions {
            max_items,
            max_bytes,
            threads,
            overwrite: overwrite(replaces),
        };
        let batch = femtobarn::events::WriteBatch::new(&self.store, options);
        Ok(WriteBatch {
            batch: Mutex::new(Some(batch)),
            types: self.types.clone(),
        })
    }

    fn create_queue(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        detached(py, || self.store.create_queue(name))
    }

    fn destroy_queue(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        detached(py, || self.store.destroy_queue(name))
    }

    fn open_queue(&self, py: Python<'_>, name: &str, produces: bool) -> PyResult<Queue> {
        let mode = match produces {
            true => QueueMode::Producer,
            false => QueueMode::Consumer,
        };
        let queue = detached(py, || self.store.open_queue(name, mode))?;
        Ok(Queue {
            queue: std::sync::RwLock::new(queue),
        })
    }
}
