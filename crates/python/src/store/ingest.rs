//! Files into an event store.

use femtobarn::ingest::{self, Chunk, Done, IngestFile, IngestOptions, Product, Warning};
use femtobarn::transfer::TransferError;
use pyo3::types::PyDict;

use super::*;
use crate::callback::Callback;
use crate::error::transfer_to_python;
use crate::merge::chosen;
use crate::ntuple::Files;

/// Path, name of the ntuple, format and size of a file, and whether it is to be read.
type FileState = (String, Option<String>, &'static str, u64, bool);

/// Label, type, classes and form of products, and their values.
type ProductSpec<'py> = (String, String, Vec<Class>, String, Bound<'py, Batches>);

/// The options from keyword arguments.
fn options(given: &Bound<'_, PyDict>) -> PyResult<IngestOptions> {
    let mut options = IngestOptions::default();
    for (key, value) in given {
        match key.extract::<String>()?.as_str() {
            "groups" => options.groups = value.extract()?,
            "fields" => options.fields = value.extract()?,
            "drop" => options.drop = value.extract()?,
            "namespace" => options.namespace = value.extract()?,
            "tree" => options.tree = value.extract()?,
            "numbers" => options.numbers = value.extract()?,
            "collections" => options.collections = value.extract()?,
            "on_conflict" => options.on_conflict = chosen("on_conflict", &value)?,
            "again" => options.again = value.extract()?,
            "workers" => options.workers = value.extract()?,
            "threads" => options.threads = value.extract()?,
            "settings" => options.settings = value.extract()?,
            other => return Err(usage(format!("unknown option {other:?}"))),
        }
    }
    Ok(options)
}

/// The format of a file: "hdf5" or "root".
#[pyfunction]
pub fn file_kind(path: &str) -> PyResult<&'static str> {
    let kind = ingest::FileKind::of(path).map_err(transfer_to_python)?;
    Ok(kind.name())
}

/// Returns a namespace of C++ without colons around it; raises if it is not one.
#[pyfunction]
pub fn plain_namespace(text: &str) -> PyResult<String> {
    ingest::plain_namespace(text).map_err(transfer_to_python)
}

/// Checks that files exist, and that the first can be ingested if it is a ROOT file; returns the formats.
#[pyfunction]
pub fn check_ingest(
    py: Python<'_>,
    files: Files,
    given: &Bound<'_, PyDict>,
) -> PyResult<Vec<&'static str>> {
    let options = options(given)?;
    let kinds = py.detach(|| ingest::check(&files, options));
    let kinds = kinds.map_err(transfer_to_python)?;
    Ok(kinds.into_iter().map(ingest::FileKind::name).collect())
}

/// Files that are brought into a dataset.
#[pyclass(frozen, module = "femtobarn._core")]
pub struct Ingest {
    inner: Mutex<ingest::Ingest>,
}

#[pymethods]
impl Ingest {
    #[new]
    fn new(
        py: Python<'_>,
        container: &Container,
        files: Files,
        given: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let dataset = container.dataset();
        let dataset = dataset.ok_or_else(|| usage("the name of this dataset is not known"))?;
        let (types, options) = (&container.origin.types, options(given)?);
        let own = py.detach(|| ingest::Ingest::new(&dataset, types, &files, options));
        let inner = Mutex::new(own.map_err(transfer_to_python)?);
        Ok(Self { inner })
    }

    /// All files.
    fn files(&self) -> Vec<FileState> {
        let own = locked(&self.inner);
        let (files, todo) = own.files();
        let state = |(at, file): (usize, &IngestFile)| {
            let (path, name) = (file.path.clone(), file.name.clone());
            (path, name, file.kind.name(), file.size, todo.contains(&at))
        };
        files.iter().enumerate().map(state).collect()
    }

    /// How many files are read at the same time.
    #[getter]
    fn workers(&self) -> usize {
        locked(&self.inner).workers()
    }

    /// Bytes of complete files, and of all files to read.
    #[getter]
    fn progress(&self) -> (u64, u64) {
        locked(&self.inner).progress()
    }

    /// The state after an interruption.
    fn state(&self) -> String {
        locked(&self.inner).state()
    }

    /// Warnings since the last call, and whether something is left out.
    fn take_warnings(&self) -> Vec<(bool, String)> {
        let warnings = locked(&self.inner).take_warnings().into_iter();
        let pair = |warning| match warning {
            Warning::Unreadable(text) => (true, text),
            Warning::Note(text) => (false, text),
        };
        warnings.map(pair).collect()
    }

    /// Reads ROOT files and writes their events.
    fn read(&self, py: Python<'_>, numbers: Vec<usize>, tick: Option<Py<PyAny>>) -> PyResult<()> {
        let callback = Callback::new(tick);
        let read = py.detach(|| {
            let tick = |done, total| callback.call((done, total));
            locked(&self.inner).read(&numbers, &tick)
        });
        match callback.raised() {
            Some(error) => Err(error),
            None => read.map_err(transfer_to_python),
        }
    }

    /// Writes events of a file: their numbers as bytes, and products. `classes_of` reads the classes of a file; `check` is
    /// called between batches.
    fn write(
        &self,
        py: Python<'_>,
        at: usize,
        numbers: [PyBackedBytes; 3],
        products: Vec<ProductSpec<'_>>,
        classes_of: Py<PyAny>,
        check: Py<PyAny>,
    ) -> PyResult<()> {
        let numbers = numbers.each_ref().map(|bytes| {
            let each = bytes.as_chunks::<8>().0.iter();
            each.map(|bytes| u64::from_le_bytes(*bytes))
        });
        let products = products.iter().map(product).collect::<PyResult<Vec<_>>>()?;
        let raised = Mutex::new(None);
        let classes = |file: &IngestFile| {
            Python::attach(|py| classes(&classes_of.bind(py).call1((&file.path,))?)).map_err(
                |error| {
                    locked(&raised).get_or_insert(error);
                    TransferError::File(femtobarn::Error::Interrupted)
                },
            )
        };
        let callback = Callback::new(Some(check));
        let written = py.detach(|| {
            let mut own = locked(&self.inner);
            let dataset = own.dataset().uuid();
            let [runs, subruns, events] = numbers;
            let containers = runs.zip(subruns).zip(events);
            let containers = containers.map(|((run, subrun), event)| Descriptor {
                dataset,
                run,
                subrun,
                event,
            });
            let chunk = Chunk {
                containers: containers.collect(),
                products,
                is_created: true,
            };
            own.write(at, &chunk, &classes, &|| callback.call(()))
        });
        match callback.raised() {
            Some(error) => Err(error),
            None => written.map_err(transfer_to_python),
        }
    }

    /// Notes that a file is complete.
    fn finish_file(
        &self,
        py: Python<'_>,
        at: usize,
        left_out: Vec<(String, String)>,
        unexpected: Vec<(String, String)>,
    ) -> PyResult<()> {
        let done = Done {
            left_out,
            unexpected,
            notes: Vec::new(),
        };
        let finished = py.detach(|| locked(&self.inner).finish_file(at, done));
        finished.map_err(transfer_to_python)
    }

    /// The report, as JSON and as text.
    fn finish(&self) -> (String, String) {
        let report = locked(&self.inner).finish();
        (report.to_json().to_string(), report.to_string())
    }
}

fn product((label, type_name, classes, form, values): &ProductSpec<'_>) -> PyResult<Product> {
    Ok(Product {
        label: label.clone(),
        type_name: type_name.clone(),
        classes: classes.iter().map(note).collect(),
        form: form.parse().map_err(to_python)?,
        values: values.get().single()?.0,
    })
}

/// A class from the form for Python.
fn note((name, members): &Class) -> ClassNote {
    let member = |(name, type_name): &Name| Member {
        name: name.clone(),
        type_name: type_name.clone(),
    };
    ClassNote {
        name: name.clone(),
        members: members.iter().map(member).collect(),
    }
}

fn classes(found: &Bound<'_, PyAny>) -> PyResult<Vec<ClassNote>> {
    Ok(found.extract::<Vec<Class>>()?.iter().map(note).collect())
}
