//! Event stores and their contents. Users see the classes in `python/femtobarn/_store`, which hold objects of these classes.
//! Calls for many events take their concatenated keys of 40 bytes (`docs/specs/event-store.md`).

mod codec;
mod container;
mod events;
mod export;
mod ingest;
mod queue;
mod write_batch;

pub use codec::{Codec, Encoded};
pub use container::{Container, NamedDataSet};
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
    BatchOptions, DataSet, DataSetPath, DataStore, Descriptor, EventChunks, EventsError,
    LoadOptions, Loaded, ObjectOptions, Overwrite, Parent, Passed, ProductId, ProductName,
    QueueMode, Taken,
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
use container::Origin;

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

fn to_descriptor(key: &[u8]) -> PyResult<Descriptor> {
    Descriptor::from_bytes(key)
        .ok_or_else(|| usage("not a container key: expected the 40 bytes of a descriptor"))
}

/// Whether two are the same store. Two in memory without a name are two, though their URLs are equal.
fn is_same_store(one: &DataStore, other: &DataStore) -> bool {
    one == other || (one.url() == other.url() && one.url() != "memory:")
}

fn overwrite(may: bool) -> Overwrite {
    match may {
        true => Overwrite::Replace,
        false => Overwrite::Keep,
    }
}

/// An event store.
#[pyclass(frozen, module = "femtobarn._core")]
pub struct Store {
    store: DataStore,
    types: Arc<Types>,
    codec: Py<Codec>,
}

impl Store {
    fn origin(&self, path: Option<&str>) -> PyResult<Arc<Origin>> {
        let path = path.map(DataSetPath::new).transpose();
        Ok(Arc::new(Origin {
            store: self.store.clone(),
            types: self.types.clone(),
            path: path.map_err(events_to_python)?,
        }))
    }
}

/// Runs something without the GIL.
fn detached<T: Send>(
    py: Python<'_>,
    run: impl FnOnce() -> Result<T, EventsError> + Send,
) -> PyResult<T> {
    py.detach(run).map_err(events_to_python)
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

    /// Converts between products and Python objects.
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

    fn is_same(&self, other: &Self) -> bool {
        is_same_store(&self.store, &other.store)
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.store.flush())
    }

    #[getter]
    fn root(&self, py: Python<'_>) -> PyResult<Py<NamedDataSet>> {
        NamedDataSet::of(py, &self.types, self.store.root())
    }

    /// The dataset of a name and a key, which are not compared with the store.
    fn dataset(&self, py: Python<'_>, path: &str, key: &[u8]) -> PyResult<Py<NamedDataSet>> {
        let path = DataSetPath::new(path).map_err(events_to_python)?;
        let uuid = to_descriptor(key)?.dataset;
        NamedDataSet::of(
            py,
            &self.types,
            DataSet::new(self.store.clone(), path, uuid),
        )
    }

    /// The container of a key, in the dataset of a name, if it is known.
    #[pyo3(signature = (key, path = None))]
    fn container(&self, key: &[u8], path: Option<&str>) -> PyResult<Container> {
        Ok(Container {
            origin: self.origin(path)?,
            descriptor: to_descriptor(key)?,
        })
    }

    /// Removes products of all events in containers, with one label, or also with one type; returns how many, and the
    /// names of the other products.
    fn remove_event_products(
        &self,
        py: Python<'_>,
        containers: Vec<Bound<'_, Container>>,
        label: &str,
        type_name: Option<&str>,
    ) -> PyResult<(u64, Vec<Name>)> {
        let items: Vec<_> = containers.iter().map(|one| one.get().item()).collect();
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

    /// Records the classes in a column of batches; classes without a name are called `class_name`. Returns the type
    /// name.
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

    /// The single value of a column, in its stored form.
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
        containers: Vec<Bound<'_, Container>>,
        names: Vec<Name>,
        with_numbers: bool,
    ) -> PyResult<Batch> {
        let items: Vec<_> = containers.iter().map(|one| one.get().item()).collect();
        let names = product_names(&names)?;
        let arrays = || products::arrays(&self.types, &self.store, &items, &names, with_numbers);
        let arrays = detached(py, arrays)?;
        Ok(Batch::plain(arrays, self.store.url()))
    }

    /// The classes in the name of a type, with their members.
    fn classes(&self, py: Python<'_>, type_name: &str) -> PyResult<Vec<Class>> {
        let notes = detached(py, || self.types.notes(type_name))?;
        Ok(notes.into_iter().map(class).collect())
    }

    /// The products of events with these concatenated keys. `path` is the name of their dataset, if it is known.
    #[pyo3(signature = (keys, names, path = None))]
    fn load_events(
        &self,
        py: Python<'_>,
        keys: &[u8],
        names: Vec<Name>,
        path: Option<&str>,
    ) -> PyResult<Events> {
        let names = product_names(&names)?;
        let events = keys.chunks(Descriptor::LENGTH).map(to_descriptor);
        let events = events.collect::<PyResult<Vec<_>>>()?;
        let loaded = detached(py, || Loaded::of(&self.store, events, &names))?;
        Ok(Events {
            range: 0..loaded.len(),
            loaded: Arc::new(loaded),
            origin: self.origin(path)?,
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
            origin: self.origin(None)?,
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
