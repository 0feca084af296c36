//! Record batches to be written.

use std::sync::Mutex;

use arrow_array::ffi_stream::RecordBatchStreamReader;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use femtobarn::Error;
use femtobarn::write::{FieldKind, FieldModel, all_or_none};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList, PyTuple};

use crate::callback::locked;
use crate::error::{to_python, usage};
use crate::fields::Fields;
use crate::input;

/// Record batches to be written.
#[pyclass(frozen, module = "femtobarn._core")]
pub struct Batches {
    schema: SchemaRef,
    /// The fields of nodes, which have more information than their Arrow types.
    fields: Option<Vec<FieldModel>>,
    held: Vec<RecordBatch>,
    stream: Mutex<Option<RecordBatchStreamReader>>,
}

#[pymethods]
impl Batches {
    /// One batch of columns, given by names and nodes.
    #[staticmethod]
    fn of_nodes(columns: &Bound<'_, PyList>, length: usize) -> PyResult<Self> {
        let mut made = Vec::new();
        for column in columns {
            let (name, node): (String, Bound<'_, PyTuple>) = column.extract()?;
            made.push(input::column(&name, &node)?);
        }
        let batch = input::batch(&made, length)?;
        Ok(Self {
            schema: batch.schema(),
            held: vec![batch],
            fields: Some(made.into_iter().map(|column| column.field).collect()),
            stream: Mutex::new(None),
        })
    }

    /// The batches of a stream: read completely if `whole`, otherwise when they are needed.
    #[staticmethod]
    fn of_stream(py: Python<'_>, capsule: &Bound<'_, PyCapsule>, whole: bool) -> PyResult<Self> {
        let mut reader = input::stream(capsule)?;
        let schema = reader.schema();
        let mut held = Vec::new();
        let mut stream = None;
        if whole {
            held = py
                .detach(|| reader.by_ref().collect::<Result<Vec<_>, _>>())
                .map_err(|error| usage(error.to_string()))?;
        } else {
            stream = Some(reader);
        }
        Ok(Self {
            fields: None,
            schema,
            held,
            stream: Mutex::new(stream),
        })
    }

    /// Number of entries in memory; None for a stream.
    #[getter]
    fn num_entries(&self) -> Option<usize> {
        let held = || self.held.iter().map(RecordBatch::num_rows).sum();
        locked(&self.stream).is_none().then(held)
    }

    /// Names of the columns.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.schema
            .fields()
            .iter()
            .map(|field| field.name().clone())
            .collect()
    }

    /// The fields for these batches. Columns named in `types` get those fields.
    #[pyo3(signature = (types = None))]
    fn fields(&self, types: Option<&Bound<'_, Fields>>) -> PyResult<Fields> {
        let types = types.map(|types| types.borrow().fields.clone());
        let types = types.unwrap_or_default();
        let names = self.names();
        if let Some(other) = types.iter().find(|field| !names.contains(&field.name)) {
            let near = femtobarn::io::did_you_mean(&other.name, names.iter().map(String::as_str));
            let message = format!(
                "types has {:?}, which is not a column of the data{near}",
                other.name
            );
            return Err(usage(message));
        }
        let each = names.iter().enumerate().map(|(at, name)| {
            match types.iter().find(|field| field.name == *name) {
                Some(known) => Ok(known.clone()),
                None => check_known(self.field(at)?),
            }
        });
        let fields = all_or_none(each).map_err(to_python)?;
        Ok(Fields { fields })
    }
}

impl Batches {
    /// The only column of the only batch, and its field.
    pub fn single(&self) -> PyResult<(ArrayRef, FieldModel)> {
        let [batch] = self.held.as_slice() else {
            return Err(usage("a product must be a single batch of values"));
        };
        match batch.columns() {
            [column] => Ok((column.clone(), self.field(0).map_err(to_python)?)),
            _ => Err(usage("a product must be a single column")),
        }
    }
}

fn missing(at: usize) -> Error {
    Error::Internal {
        what: format!("column {at} has no field"),
    }
}

/// Checks that the type of a field is known; arrays without values may have no type.
fn check_known(field: FieldModel) -> Result<FieldModel, Error> {
    if is_known(&field) {
        return Ok(field);
    }
    let (what, like) = match &field.kind {
        _ if field.type_name == "?" => ("its type is unknown, as it has no values", "float32"),
        FieldKind::Optional(item) if item.type_name == "?" => (
            "its type is unknown, as all of its values are missing",
            "?float32",
        ),
        FieldKind::Collection(item) if item.type_name == "?" => (
            "the type of its items is unknown, as it has none",
            "var * float32",
        ),
        _ => (
            "the type of a nested value is unknown, as there are no values",
            "var * var * float32",
        ),
    };
    let name = field.name;
    let reason = format!("{what}; give the type, as in types={{{name:?}: {like:?}}}");
    Err(Error::Unwritable { name, reason })
}

fn is_known(field: &FieldModel) -> bool {
    field.type_name != "?" && field.subfields().iter().all(is_known)
}

impl Batches {
    /// The field of a column.
    fn field(&self, at: usize) -> Result<FieldModel, Error> {
        if let Some(field) = self.fields.as_ref().and_then(|fields| fields.get(at)) {
            return Ok(field.clone());
        }
        let refused = |error: ArrowError| Error::Usage {
            what: error.to_string(),
        };
        let schema = self.schema.project(&[at]).map_err(refused)?;
        if locked(&self.stream).is_some() {
            let model = schema
                .fields()
                .first()
                .map(|field| FieldModel::from_arrow(field));
            return model.transpose()?.ok_or_else(|| missing(at));
        }
        let own = self.held.iter().map(|batch| batch.project(&[at]));
        let own = own.collect::<Result<Vec<_>, _>>().map_err(refused)?;
        let mut models = FieldModel::from_batches(&schema, &own)?;
        models.pop().ok_or_else(|| missing(at))
    }

    /// The first batch in memory.
    pub fn first(&self) -> Option<&RecordBatch> {
        self.held.first()
    }

    /// Writes all batches; returns the error that ended a stream early.
    pub fn each(
        &self,
        mut write: impl FnMut(&RecordBatch) -> Result<(), Error>,
    ) -> Result<Result<(), String>, Error> {
        for batch in &self.held {
            write(batch)?;
        }
        if let Some(stream) = locked(&self.stream).as_mut() {
            for batch in stream {
                match batch {
                    Ok(batch) => write(&batch)?,
                    Err(error) => return Ok(Err(of_producer(&error.to_string()).to_owned())),
                }
            }
        }
        Ok(Ok(()))
    }
}

/// The message of the producer of a stream, without the prefixes that intermediate libraries add.
fn of_producer(message: &str) -> &str {
    let (_, own) = message
        .split_once("Producer error: ")
        .unwrap_or(("", message));
    own.strip_prefix("External error: ").unwrap_or(own)
}
