//! The Arrow PyCapsule protocol.

use arrow_array::RecordBatchReader;
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_schema::Schema;
use femtobarn::array::ArrayError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::error;

/// Makes a capsule of a stream of record batches.
pub fn stream<'py>(
    py: Python<'py>,
    reader: Box<dyn RecordBatchReader + Send>,
) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), c"arrow_array_stream")
}

/// Makes a capsule of a schema.
pub fn schema<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    let exported = FFI_ArrowSchema::try_from(schema)
        .map_err(|error| error::new("FormatError", "arrow", error.to_string()))?;
    PyCapsule::new_with_value(py, exported, c"arrow_schema")
}

/// The Python exception for data that Arrow rejects.
pub fn to_python(error: ArrayError) -> PyErr {
    let cause = std::error::Error::source(&error)
        .map(|source| format!(": {source}"))
        .unwrap_or_default();
    error::new("FormatError", "arrow", format!("{error}{cause}"))
}
