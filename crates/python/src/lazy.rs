//! Columns that are read when they are touched.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use femtobarn::codec::xxh3;
use femtobarn::read::{Accesses as Record, LazyArrays, LazyOptions};
use femtobarn::schema::SlotKind;
use femtobarn::{LazySteps, Selection, StepSize, accesses_of, schema_id};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::batch::{Nodes, Piece, Pieces, url_of};
use crate::buffer::Buffer;
use crate::callback::{Callback, locked};
use crate::error::to_python;

/// The record of what a function touches in ntuples with the same schema.
#[pyclass(frozen, module = "femtobarn._core")]
pub struct Accesses {
    record: Arc<Record>,
    schema: u64,
}

impl Accesses {
    pub fn of(
        ntuple: &femtobarn::NTuple,
        function: &str,
        directory: Option<PathBuf>,
        learns: bool,
    ) -> Self {
        Self {
            record: match learns {
                true => accesses_of(ntuple, function, directory.as_deref()),
                false => Arc::new(Record::off()),
            },
            schema: schema_id(ntuple),
        }
    }

    pub fn record(&self) -> Arc<Record> {
        self.record.clone()
    }
}

#[pymethods]
impl Accesses {
    /// What was learned and what it has cost.
    fn log<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        let columns = self.record.columns().into_iter();
        let columns: Vec<_> = columns
            .map(|column| (column.name, column.is_main))
            .collect();
        let counts = self.record.counts();
        dict.set_item("schema", format!("{:016x}", self.schema))?;
        dict.set_item("columns", columns)?;
        dict.set_item("learned_steps", self.record.steps())?;
        dict.set_item("steps", counts.steps)?;
        dict.set_item("fetches", counts.fetches)?;
        dict.set_item("bytes_fetched", counts.bytes_fetched)?;
        dict.set_item("bytes_unused", counts.bytes_unused)?;
        Ok(dict)
    }
}

/// Reads columns of an ntuple when they are touched.
#[derive(Clone)]
#[pyclass(frozen, module = "femtobarn._core")]
pub struct LazyReader {
    reader: Arc<femtobarn::LazyReader>,
    /// A hash of everything that the form of arrays follows from.
    form_id: u64,
}

impl LazyReader {
    pub fn new(
        ntuple: &Arc<femtobarn::NTuple>,
        selection: Selection,
        accesses: &Accesses,
        options: LazyOptions,
    ) -> PyResult<Self> {
        let record = accesses.record();
        let schema = selection.schema();
        let kinds = schema.slots.as_slice().iter().map(|slot| slot.kind);
        let form = format!("{:?} {:?}", schema.columns, kinds.collect::<Vec<_>>());
        let reader = femtobarn::LazyReader::new(ntuple.clone(), selection, record, options);
        Ok(Self {
            reader: Arc::new(reader.map_err(to_python)?),
            form_id: xxh3(form.as_bytes()),
        })
    }
}

impl LazyReader {
    fn batch(&self, entries: Range<u64>, arrays: Arc<LazyArrays>) -> LazyBatch {
        LazyBatch {
            url: url_of(self.reader.ntuple(), entries.start),
            arrays,
            entries,
            form_id: self.form_id,
        }
    }
}

/// The size of a step: entries, or bytes of memory.
fn size(entries: Option<u64>, n_bytes: u64) -> StepSize {
    entries.map_or(StepSize::Bytes(n_bytes), StepSize::Entries)
}

#[pymethods]
impl LazyReader {
    /// A range of entries. With `prefetch`, a thread begins to read what earlier ranges touched.
    #[pyo3(signature = (entry_start, entry_stop, *, prefetch = false))]
    fn read(&self, entry_start: u64, entry_stop: u64, prefetch: bool) -> PyResult<LazyBatch> {
        let entries = entry_start..entry_stop;
        let arrays = match prefetch {
            true => self.reader.read_ahead(entries.clone()),
            false => self.reader.read(entries.clone()).map(Arc::new),
        };
        Ok(self.batch(entries, arrays.map_err(to_python)?))
    }

    /// Steps of `step` entries, or else of whole clusters that take `n_bytes` in the columns that steps touch.
    #[pyo3(signature = (entry_start, entry_stop, step, n_bytes, *, prefetch = true))]
    fn steps(
        &self,
        py: Python<'_>,
        entry_start: u64,
        entry_stop: u64,
        step: Option<u64>,
        n_bytes: u64,
        prefetch: bool,
    ) -> LazyBatchIterator {
        let (reader, entries) = (self.reader.clone(), entry_start..entry_stop);
        let steps = py.detach(|| LazySteps::new(reader, entries, size(step, n_bytes), prefetch));
        LazyBatchIterator {
            reader: self.clone(),
            steps: Mutex::new(steps),
        }
    }

    /// Number of entries of the first step of whole clusters that take `n_bytes`.
    fn step(
        &self,
        py: Python<'_>,
        entry_start: u64,
        entry_stop: u64,
        n_bytes: u64,
    ) -> PyResult<u64> {
        let entries = entry_start..entry_stop;
        py.detach(|| self.reader.step(entries, StepSize::Bytes(n_bytes)))
            .map_err(to_python)
    }

    /// The memory that the first of these steps takes in the columns that steps touch.
    fn step_bytes(
        &self,
        py: Python<'_>,
        entry_start: u64,
        entry_stop: u64,
        step: Option<u64>,
        n_bytes: u64,
    ) -> PyResult<u64> {
        let compute = || {
            let entries = entry_start..entry_stop;
            let n = self.reader.step(entries, size(step, n_bytes))?;
            let stop = entry_start.saturating_add(n).min(entry_stop);
            self.reader.decoded_bytes(entry_start..stop)
        };
        py.detach(compute).map_err(to_python)
    }
}

/// The steps of an iteration over columns that are read when they are touched.
#[pyclass(frozen, module = "femtobarn._core")]
pub struct LazyBatchIterator {
    reader: LazyReader,
    steps: Mutex<LazySteps>,
}

#[pymethods]
impl LazyBatchIterator {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<LazyBatch>> {
        let step = py.detach(|| locked(&self.steps).next().transpose());
        let step = step.map_err(to_python)?;
        Ok(step.map(|(entries, arrays)| self.reader.batch(entries, arrays)))
    }
}

/// A range of entries whose columns are read when they are touched.
#[pyclass(frozen, module = "femtobarn._core")]
pub struct LazyBatch {
    arrays: Arc<LazyArrays>,
    entries: Range<u64>,
    url: String,
    form_id: u64,
}

#[pymethods]
impl LazyBatch {
    #[getter]
    fn num_entries(&self) -> u64 {
        self.arrays.n_entries()
    }

    #[getter]
    fn entry_start(&self) -> u64 {
        self.entries.start
    }

    #[getter]
    fn entry_stop(&self) -> u64 {
        self.entries.end
    }

    #[getter]
    fn file(&self) -> &str {
        &self.url
    }

    /// Equal for batches whose arrays have the same form.
    #[getter]
    fn form_id(&self) -> String {
        format!("{:016x}", self.form_id)
    }

    /// Names of the top-level columns.
    fn names(&self) -> Vec<&str> {
        let columns = self.arrays.columns().schema().columns.iter();
        columns.map(|(name, _)| name.as_str()).collect()
    }

    /// The name and the node of a top-level column, with lazy buffers.
    fn column<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyAny>> {
        let columns = &self.arrays.columns().schema().columns;
        let own = columns.get(index..=index).unwrap_or_default();
        let n_entries = self.arrays.n_entries();
        Nodes::list(py, &Touches(&self.arrays), own, n_entries)?.get_item(0)
    }
}

/// Buffers that touch a slot when they are called.
struct Touches<'a>(&'a Arc<LazyArrays>);

impl Pieces for Touches<'_> {
    fn dtype(&self, slot: usize) -> &'static str {
        let schema = self.0.columns().schema();
        match schema.slots.get(slot).map(|slot| slot.kind) {
            Some(SlotKind::Leaf(dtype)) => dtype.name(),
            _ => "uint8",
        }
    }

    fn n_items(&self, _index: usize) -> Option<u64> {
        None
    }

    fn lengths(&self, _switch: usize, n: usize) -> Vec<Option<u64>> {
        vec![None; n]
    }

    fn buffer<'py>(&self, py: Python<'py>, piece: Piece) -> PyResult<Bound<'py, PyAny>> {
        let arrays = self.0.clone();
        Ok(Bound::new(py, LazyBuffer { arrays, piece })?.into_any())
    }
}

/// A part of a column, which is not read yet.
#[pyclass(frozen, module = "femtobarn._core")]
pub struct LazyBuffer {
    arrays: Arc<LazyArrays>,
    piece: Piece,
}

#[pymethods]
impl LazyBuffer {
    fn read(&self, py: Python<'_>) -> PyResult<Buffer> {
        let callback = Callback::new(None);
        let result = py.detach(|| {
            let tick = |_, _| callback.call(());
            let data = self.arrays.touch(self.piece.slot(), Some(&tick))?;
            self.piece.bytes(&data)
        });
        callback.finish(result).map(Buffer)
    }
}
