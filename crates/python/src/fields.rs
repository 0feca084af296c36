//! What is given to be written: record batches, and the fields of an ntuple.

use std::sync::{Mutex, MutexGuard, PoisonError};

use arrow_array::ffi_stream::RecordBatchStreamReader;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use femtobarn::Error;
use femtobarn::schema::DType;
use femtobarn::write::{FieldKind, FieldModel, StoredAs, all_or_none};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList, PyTuple};

use crate::error::{new, to_python};
use crate::input;

/// What a mutex holds, also if a thread has panicked with it.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

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
                .map_err(|error| new("UsageError", "usage", error.to_string()))?;
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
            let near =
                femtobarn::schema::did_you_mean(&other.name, names.iter().map(String::as_str));
            let message = format!(
                "types has {:?}, which is no column of the data{near}",
                other.name
            );
            return Err(new("UsageError", "usage", message));
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

/// What an ntuple is made of.
#[pyclass(module = "femtobarn._core")]
pub struct Fields {
    fields: Vec<FieldModel>,
}

#[pymethods]
impl Fields {
    /// Fields of specifications, each a tuple; see `FieldSpec` in `_core_types.py`.
    #[staticmethod]
    fn of_specs(specs: &Bound<'_, PyList>) -> PyResult<Self> {
        let fields = specs
            .iter()
            .map(|spec| field(&spec.cast_into::<PyTuple>()?));
        Ok(Self {
            fields: fields.collect::<PyResult<_>>()?,
        })
    }

    /// Fields of an Arrow schema.
    #[staticmethod]
    fn of_schema(capsule: &Bound<'_, PyCapsule>) -> PyResult<Self> {
        let schema = input::schema(capsule)?;
        let fields = schema.fields().iter();
        let fields = all_or_none(fields.map(|field| FieldModel::from_arrow(field)));
        Ok(Self {
            fields: fields.map_err(to_python)?,
        })
    }

    /// Names and C++ types of the top-level fields.
    fn types(&self) -> Vec<(String, String)> {
        let types = self
            .fields
            .iter()
            .map(|field| (field.name.clone(), field.type_name.clone()));
        types.collect()
    }

    /// Adds the fields of another.
    fn extend(&mut self, other: &Bound<'_, Fields>) {
        self.fields.extend(other.borrow().fields.iter().cloned());
    }

    /// Stores reals at and below a path in fewer bits: of a range, if that is given.
    #[pyo3(signature = (path, bits, limits = None))]
    fn store(&mut self, path: &str, bits: u16, limits: Option<(f64, f64)>) -> PyResult<()> {
        let stored = match limits {
            Some((min, max)) => StoredAs::Quantized { bits, min, max },
            None => StoredAs::Truncated(bits),
        };
        self.find(path)?.store_reals(stored).map_err(to_python)
    }

    /// Compresses the columns at and below a path in another way.
    fn compress(&mut self, path: &str, settings: u32) -> PyResult<()> {
        self.find(path)?.compress(settings);
        Ok(())
    }

    /// Describes the field at a path.
    fn describe(&mut self, path: &str, description: String) -> PyResult<()> {
        self.find(path)?.description = description;
        Ok(())
    }
}

impl Fields {
    /// The fields; views that say only what they show and as what have the views below them, too.
    pub fn models(&self) -> Vec<FieldModel> {
        let view = |field: &FieldModel| match &field.kind {
            FieldKind::Projected { source, subfields } if subfields.is_empty() => {
                self.view(field, source).unwrap_or_else(|| field.clone())
            }
            _ => field.clone(),
        };
        self.fields.iter().map(view).collect()
    }

    /// The view of what is at a path, in which `_0` may be left out: in collections, a view of each on the way.
    fn view(&self, field: &FieldModel, source: &str) -> Option<FieldModel> {
        let mut parts = source.split('.');
        let top = parts.next()?;
        let mut seen = self.fields.iter().find(|field| field.name == top)?;
        let mut path = top.to_owned();
        let mut collections = Vec::new();
        for part in parts {
            while let (FieldKind::Collection(item), true) = (&seen.kind, part != "_0") {
                collections.push(path.clone());
                path += "._0";
                seen = item;
            }
            if matches!(seen.kind, FieldKind::Collection(_)) {
                collections.push(path.clone());
            }
            seen = seen.subfields().iter().find(|below| below.name == part)?;
            path = format!("{path}.{part}");
        }
        if field.type_name.starts_with("ROOT::RNTupleCardinality") {
            return Some(FieldModel {
                kind: FieldKind::Projected {
                    source: path,
                    subfields: Vec::new(),
                },
                ..field.clone()
            });
        }
        let shown = FieldModel::from_type_name(&field.name, &field.type_name).ok()?;
        Some(FieldModel {
            description: field.description.clone(),
            ..below(&shown, &collections, &path, seen)
        })
    }

    fn find(&mut self, path: &str) -> PyResult<&mut FieldModel> {
        let names: Vec<String> = self.fields.iter().map(|field| field.name.clone()).collect();
        let parts: Vec<&str> = path.split('.').collect();
        let found = parts.split_first().and_then(|(first, rest)| {
            let top = self.fields.iter_mut().find(|field| field.name == *first)?;
            top.find_mut(rest)
        });
        found.ok_or_else(|| {
            let hint = femtobarn::schema::did_you_mean(path, names.iter().map(String::as_str));
            new(
                "KeyNotFoundError",
                "no-such-field",
                format!("there is no field {path:?} to be written{hint}"),
            )
        })
    }
}

/// The view with the type of `shown` of what is at `path`, behind these collections.
fn below(shown: &FieldModel, collections: &[String], path: &str, seen: &FieldModel) -> FieldModel {
    let view = |source: &str, subfields| {
        FieldModel::projected(
            shown.name.clone(),
            shown.type_name.clone(),
            source,
            subfields,
        )
    };
    match (&shown.kind, collections.split_first(), &seen.kind) {
        (FieldKind::Collection(item), Some((first, rest)), _) => {
            view(first, vec![below(item, rest, path, seen)])
        }
        (FieldKind::Collection(item), None, FieldKind::Collection(of)) => {
            view(path, vec![below(item, &[], &format!("{path}._0"), of)])
        }
        _ => view(path, Vec::new()),
    }
}

/// The field of a specification.
fn field(spec: &Bound<'_, PyTuple>) -> PyResult<FieldModel> {
    let kind: String = spec.get_item(0)?.extract()?;
    let name: String = spec.get_item(1)?.extract()?;
    let text = |at: usize| spec.get_item(at)?.extract::<String>();
    let below = |at: usize| -> PyResult<Vec<FieldModel>> {
        let list = spec.get_item(at)?.cast_into::<PyList>()?;
        list.iter()
            .map(|item| field(&item.cast_into::<PyTuple>()?))
            .collect()
    };
    let one = |at: usize| field(&spec.get_item(at)?.cast_into::<PyTuple>()?);
    Ok(match kind.as_str() {
        "type" => {
            let classes = if spec.len() > 3 {
                below(3)?
            } else {
                Vec::new()
            };
            FieldModel::from_type_name_with(&name, &text(2)?, &classes).map_err(to_python)?
        }
        "number" => number(&name, &text(2)?)?,
        "list" => FieldModel::vector(name, one(2)?),
        "optional" => FieldModel::optional(name, one(2)?),
        "array" => FieldModel::array(name, spec.get_item(2)?.extract()?, one(3)?),
        "variant" => FieldModel::variant(name, below(2)?),
        "record" => {
            let mut record = FieldModel::record(name, text(2)?, below(3)?);
            record.type_version = spec.get_item(4)?.extract()?;
            record.type_checksum = spec.get_item(5)?.extract()?;
            record
        }
        "tuple" => FieldModel::tuple(name, below(2)?),
        "enum" => {
            let kind = FieldKind::Wrapper(Box::new(one(3)?.named("_0")));
            FieldModel::new(name, text(2)?, kind)
        }
        "cardinality" => FieldModel::cardinality(name, text(2)?, spec.get_item(3)?.extract()?),
        "projected" => FieldModel::projected(name, text(2)?, text(3)?, below(4)?),
        other => {
            return Err(new(
                "UsageError",
                "usage",
                format!("no field is a {other:?}"),
            ));
        }
    })
}

fn number(name: &str, dtype: &str) -> PyResult<FieldModel> {
    use DType as D;
    let all = [
        D::Bool,
        D::Int8,
        D::UInt8,
        D::Int16,
        D::UInt16,
        D::Int32,
        D::UInt32,
        D::Int64,
        D::UInt64,
        D::Float16,
        D::Float32,
        D::Float64,
    ];
    let found = all.into_iter().find(|known| known.name() == dtype);
    let found = found.ok_or_else(|| {
        let message = format!(
            "field {name:?} cannot be written: NumPy's {dtype} has no counterpart in RNTuple"
        );
        new("UsageError", "unwritable-field", message)
    })?;
    Ok(FieldModel::number(name, found))
}
