//! Reads with a cut, and with computed columns.

use std::collections::BTreeMap;
use std::sync::Arc;

use femtobarn::documents;
use femtobarn::expression::{self, Aliases as Names};
use femtobarn::lumi_mask::{LumiMask as Mask, open_mask};
use femtobarn::{Computed, Query, StepsOptions};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;

use crate::batch::Batch;
use crate::buffer::Buffer;
use crate::callback::Callback;
use crate::convert::Settings;
use crate::error::{to_python, usage};
use crate::steps::BatchIterator;

/// Names of expressions.
#[pyclass(frozen, module = "femtobarn._core")]
pub struct Aliases(Arc<Names>);

#[pymethods]
impl Aliases {
    #[new]
    fn new(py: Python<'_>, given: BTreeMap<String, String>) -> PyResult<Self> {
        let pairs = given.iter().map(|(name, text)| (&**name, &**text));
        let names = py.detach(|| Names::parse(pairs, &open_mask));
        Ok(Self(Arc::new(names.map_err(to_python)?)))
    }
}

/// A condition on entries, or values for each entry.
#[pyclass(frozen, module = "femtobarn._core")]
pub struct Expression(expression::Expression);

#[pymethods]
impl Expression {
    #[new]
    fn new(py: Python<'_>, text: &str, aliases: &Aliases) -> PyResult<Self> {
        let parse = || expression::Expression::parse_with(text, &aliases.0, &open_mask);
        py.detach(parse).map(Self).map_err(to_python)
    }

    /// The columns that it reads.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.0.columns().to_vec()
    }
}

/// Reads fields and computed columns of the entries that pass a cut.
#[pyclass(frozen, module = "femtobarn._core")]
pub struct QueryReader {
    ntuple: Arc<femtobarn::NTuple>,
    reader: femtobarn::QueryReader,
    threads: usize,
}

/// A computed column: number of paths of fields before it, its name, and its values.
pub type Column<'py> = (usize, String, Bound<'py, Expression>);

/// The query for fields, computed columns and a cut.
pub fn query(
    fields: Option<Vec<String>>,
    computed: Vec<Column<'_>>,
    cut: Option<&Expression>,
) -> Query {
    let computed = computed.into_iter().map(|(behind, name, values)| Computed {
        name,
        expression: values.get().0.clone(),
        behind,
    });
    Query {
        fields,
        computed: computed.collect(),
        cut: cut.map(|cut| cut.0.clone()),
    }
}

impl QueryReader {
    pub fn new(
        py: Python<'_>,
        ntuple: &Arc<femtobarn::NTuple>,
        query: Query,
        threads: usize,
        named: bool,
    ) -> PyResult<Self> {
        let reader = py.detach(|| femtobarn::QueryReader::new(ntuple.clone(), query, named));
        Ok(Self {
            ntuple: ntuple.clone(),
            reader: reader.map_err(to_python)?,
            threads,
        })
    }
}

#[pymethods]
impl QueryReader {
    #[pyo3(signature = (entry_start, entry_stop, *, tick = None))]
    fn read(
        &self,
        py: Python<'_>,
        entry_start: u64,
        entry_stop: u64,
        tick: Option<Py<PyAny>>,
    ) -> PyResult<Batch> {
        let callback = Callback::new(tick);
        let result = py.detach(|| {
            let tick = |done, total| callback.call((done, total));
            let entries = entry_start..entry_stop;
            self.reader.read(entries, self.threads, Some(&tick))
        });
        Ok(Batch::of_query(&self.ntuple, callback.finish(result)?))
    }

    /// Reads in steps of this number of entries before the cut. `settled`: whether steps were returned before.
    #[pyo3(signature = (entry_start, entry_stop, step, *, prefetch = true, settled = false))]
    fn steps(
        &self,
        entry_start: u64,
        entry_stop: u64,
        step: u64,
        prefetch: bool,
        settled: bool,
    ) -> BatchIterator {
        let options = StepsOptions {
            step,
            threads: self.threads,
            prefetch,
            ..StepsOptions::default()
        };
        let mut reader = self.reader.clone();
        if settled {
            reader = reader.fixed();
        }
        let steps = reader.steps(entry_start..entry_stop, options);
        BatchIterator::of_query(steps, self.ntuple.clone())
    }

    fn explain(&self, py: Python<'_>, entry_start: u64, entry_stop: u64) -> PyResult<String> {
        let plan = py.detach(|| self.reader.explain(entry_start..entry_stop));
        Ok(documents::plan(&plan.map_err(to_python)?).to_string())
    }

    fn decoded_bytes(&self, py: Python<'_>, entry_start: u64, entry_stop: u64) -> PyResult<u64> {
        let bytes = py.detach(|| self.reader.decoded_bytes(entry_start..entry_stop));
        bytes.map_err(to_python)
    }
}

/// The certified luminosity blocks of a golden JSON.
#[pyclass(frozen, eq, module = "femtobarn._core")]
#[derive(PartialEq, Eq)]
pub struct LumiMask(Mask);

#[pymethods]
impl LumiMask {
    /// Reads a path, a URL, or JSON.
    #[new]
    fn new(py: Python<'_>, place: &str, settings: Settings) -> PyResult<Self> {
        let mask = py.detach(|| Mask::open(place, settings));
        mask.map(Self).map_err(to_python)
    }

    #[getter]
    fn num_runs(&self) -> usize {
        self.0.n_runs()
    }

    #[getter]
    fn num_blocks(&self) -> u64 {
        self.0.n_blocks()
    }

    /// The JSON, sorted, with ranges joined.
    fn to_json(&self) -> String {
        self.0.to_json()
    }

    /// Whether blocks are certified, one byte each; runs and blocks are 64-bit integers.
    fn mask(&self, py: Python<'_>, runs: PyBuffer<i64>, blocks: PyBuffer<i64>) -> PyResult<Buffer> {
        let (runs, blocks) = (runs.to_vec(py)?, blocks.to_vec(py)?);
        if runs.len() != blocks.len() {
            let (n, m) = (runs.len(), blocks.len());
            return Err(usage(format!(
                "{n} runs and {m} luminosity blocks: give as many of both"
            )));
        }
        let mut certified = self.0.lookup();
        let each = runs.iter().zip(blocks);
        let each = each.map(|(run, block)| u8::from(certified(*run, block)));
        Ok(Buffer(each.collect::<Vec<u8>>().into()))
    }
}
