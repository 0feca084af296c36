//! The record batches that are given to be written.

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
    /// Of nodes, which know more than their Arrow types.
    fields: Option<Vec<FieldModel>>,
    held: Vec<RecordBatch>,
    stream: Mutex<Option<RecordBatchStreamReader>>,
}

#[pymethods]
impl Batches {
    /// One batch of columns: names and nodes.
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

    /// The batches of a stream: all at once if `whole`, else as they are needed.
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

    /// Number of entries that are held; None of a stream.
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

    /// The fields for these batches; of columns that are in `types`, those of them.
    #[pyo3(signature = (types = None))]
    fn fields(&self, types: Option<&Bound<'_, Fields>>) -> PyResult<Fields> {
        let types = types.map(|types| types.borrow().fields.clone());
        let types = types.unwrap_or_default();
        let names = self.names();
        if let Some(other) = types.iter().find(|field| !names.contains(&field.name)) {
            let near = femtobarn::io::did_you_mean(&other.name, names.iter().map(String::as_str));
            let message = format!(
                "types has {:?}, which is no column of the data{near}",
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
    /// The one column of the one batch that is held, and its field.
    pub fn single(&self) -> PyResult<(ArrayRef, FieldModel)> {
        let [batch] = self.held.as_slice() else {
            return Err(usage("a product is one batch of values"));
        };
        match batch.columns() {
            [column] => Ok((column.clone(), self.field(0).map_err(to_python)?)),
            _ => Err(usage("a product is one column")),
        }
    }
}

fn missing(at: usize) -> Error {
    Error::Internal {
        what: format!("column {at} has no field"),
    }
}

/// An array without values may know no type; then its field has none.
fn check_known(field: FieldModel) -> Result<FieldModel, Error> {
    if is_known(&field) {
        return Ok(field);
    }
    let (what, like) = match &field.kind {
        _ if field.type_name == "?" => ("its type is unknown, for it has no values", "float32"),
        FieldKind::Optional(item) if item.type_name == "?" => (
            "its type is unknown, for all of its values are missing",
            "?float32",
        ),
        FieldKind::Collection(item) if item.type_name == "?" => (
            "the type of its items is unknown, for there are none",
            "var * float32",
        ),
        _ => (
            "the type of something in it is unknown, for there are no values",
            "var * var * float32",
        ),
    };
    let name = field.name;
    let reason = format!("{what}; say what it is, as with types={{{name:?}: {like:?}}}");
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

    /// The first batch that is held.
    pub fn first(&self) -> Option<&RecordBatch> {
        self.held.first()
    }

    /// Writes all batches; gives what broke off a stream.
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

/// What the producer of a stream says of its error, without the words of those who passed it on.
fn of_producer(message: &str) -> &str {
    let (_, own) = message
        .split_once("Producer error: ")
        .unwrap_or(("", message));
    own.strip_prefix("External error: ").unwrap_or(own)
}
