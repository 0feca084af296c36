//! Reading in steps: as a Python iterator, and as an Arrow stream.

use std::sync::{Arc, Mutex};

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use femtobarn::{BatchStream, Error, QueryStep, Steps};
use pyo3::prelude::*;

use crate::batch::Batch;
use crate::callback::locked;
use crate::error::to_python;
use crate::fsspec;

/// The steps of an iteration.
#[pyclass(frozen, module = "femtobarn._core")]
pub struct BatchIterator {
    steps: Mutex<Source>,
    ntuple: Arc<femtobarn::NTuple>,
}

/// Steps of fields, or of a query.
enum Source {
    Fields(Steps),
    Query(Steps<QueryStep>),
}

impl BatchIterator {
    pub fn new(steps: Steps, ntuple: Arc<femtobarn::NTuple>) -> Self {
        Self {
            steps: Mutex::new(Source::Fields(steps)),
            ntuple,
        }
    }

    /// The steps of a query.
    pub fn of_query(steps: Steps<QueryStep>, ntuple: Arc<femtobarn::NTuple>) -> Self {
        Self {
            steps: Mutex::new(Source::Query(steps)),
            ntuple,
        }
    }

    fn next(&self, waiting: &mut dyn FnMut() -> bool) -> Option<Result<Batch, Error>> {
        Some(match &mut *locked(&self.steps) {
            Source::Fields(steps) => {
                let step = steps.next_or(waiting)?;
                step.map(|(entries, arrays)| Batch::of(&self.ntuple, entries, arrays))
            }
            Source::Query(steps) => {
                let step = steps.next_or(waiting)?;
                step.map(|step| Batch::of_query(&self.ntuple, step))
            }
        })
    }
}

#[pymethods]
impl BatchIterator {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        let mut raised = None;
        let step = py.detach(|| {
            let mut waiting = || {
                let result = Python::attach(|py| py.check_signals());
                result.map_err(|error| raised = Some(error)).is_ok()
            };
            self.next(&mut waiting)
        });
        if let Some(error) = raised {
            return Err(error);
        }
        step.transpose().map_err(to_python)
    }
}

/// A stream of record batches whose reads may need the GIL.
pub struct BatchReader(pub BatchStream);

impl Iterator for BatchReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        fsspec::without_gil(|| self.0.next())
    }
}

impl RecordBatchReader for BatchReader {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }
}
