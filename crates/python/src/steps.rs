//! Reading in steps: as a Python iterator, and as an Arrow stream.

use std::sync::{Arc, Mutex};

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use femtobarn::Steps;
use pyo3::prelude::*;

use crate::batch::Batch;
use crate::callback::locked;
use crate::error::to_python;
use crate::fsspec;

/// The steps of an iteration.
#[pyclass(frozen, module = "femtobarn._core")]
pub struct BatchIterator {
    steps: Mutex<Steps>,
    ntuple: Arc<femtobarn::NTuple>,
}

impl BatchIterator {
    pub fn new(steps: Steps, ntuple: Arc<femtobarn::NTuple>) -> Self {
        Self {
            steps: Mutex::new(steps),
            ntuple,
        }
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
            locked(&self.steps).next_or(&mut waiting)
        });
        if let Some(error) = raised {
            return Err(error);
        }
        let Some((entries, arrays)) = step.transpose().map_err(to_python)? else {
            return Ok(None);
        };
        Ok(Some(Batch::of(&self.ntuple, entries, arrays)))
    }
}

/// The steps as a stream of record batches.
pub struct BatchReader {
    schema: SchemaRef,
    /// Starts reading at the first batch, so that unreadable fields are not reported before.
    begin: Option<Box<dyn FnOnce() -> Steps + Send>>,
    steps: Option<Steps>,
}

impl BatchReader {
    pub fn new(schema: SchemaRef, begin: impl FnOnce() -> Steps + Send + 'static) -> Self {
        Self {
            schema,
            begin: Some(Box::new(begin)),
            steps: None,
        }
    }
}

impl Iterator for BatchReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let external =
            |error: Box<dyn std::error::Error + Send + Sync>| ArrowError::ExternalError(error);
        if let Some(begin) = self.begin.take() {
            self.steps = Some(begin());
        }
        let steps = self.steps.as_mut()?;
        Some(match fsspec::without_gil(|| steps.next())? {
            Ok((_, arrays)) => arrays.to_arrow().map_err(|error| external(error.into())),
            Err(error) => Err(external(error.into())),
        })
    }
}

impl arrow_array::RecordBatchReader for BatchReader {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
