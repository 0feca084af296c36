//! The fields of an ntuple to be written.

use femtobarn::Error;
use femtobarn::schema::DType;
use femtobarn::write::{FieldKind, FieldModel, StoredAs, all_or_none};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList, PyTuple};

use crate::error::{new, to_python, usage};
use crate::input;

/// The fields of an ntuple to be written.
#[pyclass(module = "femtobarn._core")]
pub struct Fields {
    pub fields: Vec<FieldModel>,
}

#[pymethods]
impl Fields {
    /// Fields from specifications, each a tuple; see `FieldSpec` in `_core_types.py`.
    #[staticmethod]
    fn of_specs(specs: &Bound<'_, PyList>) -> PyResult<Self> {
        let fields = specs
            .iter()
            .map(|spec| field(&spec.cast_into::<PyTuple>()?));
        Ok(Self {
            fields: fields.collect::<PyResult<_>>()?,
        })
    }

    /// Fields from an Arrow schema.
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

    /// Stores floats at and below a path with fewer bits, relative to a range if it is given.
    #[pyo3(signature = (path, bits, limits = None))]
    fn store(&mut self, path: &str, bits: u16, limits: Option<(f64, f64)>) -> PyResult<()> {
        let stored = match limits {
            Some((min, max)) => StoredAs::Quantized { bits, min, max },
            None => StoredAs::Truncated(bits),
        };
        self.find(path)?.store_reals(stored).map_err(to_python)
    }

    /// Sets the compression of the columns at and below a path.
    fn compress(&mut self, path: &str, settings: u32) -> PyResult<()> {
        self.find(path)?.compress(settings);
        Ok(())
    }

    /// Sets the description of the field at a path.
    fn describe(&mut self, path: &str, description: String) -> PyResult<()> {
        self.find(path)?.description = description;
        Ok(())
    }
}

impl Fields {
    /// The fields. Projected fields that have only a source and a type get their subfields. Their sources can be these
    /// fields and the existing fields `there`.
    pub fn models(&self, there: &[FieldModel]) -> PyResult<Vec<FieldModel>> {
        let all: Vec<&FieldModel> = there.iter().chain(&self.fields).collect();
        let mut classes = [false, true]
            .map(|wide| FieldModel::cardinality("", "", wide))
            .into();
        all.iter()
            .for_each(|field| add_classes(field, &mut classes));
        let completed = |field: &FieldModel| match &field.kind {
            FieldKind::Projected { source, subfields } if subfields.is_empty() => {
                Ok(shown(&all, &classes, field, source)?.unwrap_or_else(|| field.clone()))
            }
            _ => Ok(field.clone()),
        };
        let models = self.fields.iter().map(completed);
        models.collect::<Result<_, Error>>().map_err(to_python)
    }

    fn find(&mut self, path: &str) -> PyResult<&mut FieldModel> {
        let names: Vec<String> = self.fields.iter().map(|field| field.name.clone()).collect();
        let parts: Vec<&str> = path.split('.').collect();
        let found = parts.split_first().and_then(|(first, rest)| {
            let top = self.fields.iter_mut().find(|field| field.name == *first)?;
            top.find_mut(rest)
        });
        found.ok_or_else(|| {
            let hint = femtobarn::io::did_you_mean(path, names.iter().map(String::as_str));
            new(
                "KeyNotFoundError",
                "no-such-field",
                format!("no field {path:?} to be written{hint}"),
            )
        })
    }
}

/// Adds the classes and enums used as types of a field and its subfields.
fn add_classes(field: &FieldModel, classes: &mut Vec<FieldModel>) {
    let name = field.type_name.as_str();
    let is_own = !name.is_empty() && !name.starts_with("std::");
    let is_class = matches!(field.kind, FieldKind::Record(_) | FieldKind::Wrapper(_));
    if is_own && is_class && classes.iter().all(|class| class.type_name != name) {
        classes.push(field.clone());
    }
    let below = field.subfields().iter();
    below.for_each(|field| add_classes(field, classes));
}

/// An ancestor of a projected field's source with a variable number of values per entry, by its path.
enum Layer {
    Collection(String),
    Optional(String),
}

impl Layer {
    fn of(field: &FieldModel, path: &str) -> Option<Self> {
        match field.kind {
            FieldKind::Collection(_) => Some(Self::Collection(path.to_owned())),
            FieldKind::Optional(_) => Some(Self::Optional(path.to_owned())),
            _ => None,
        }
    }
}

/// The projected field for the field at a path, in which `_0` may be left out, with a projected field for each
/// collection and optional value in between; None if there is no such field.
fn shown(
    all: &[&FieldModel],
    classes: &[FieldModel],
    field: &FieldModel,
    source: &str,
) -> Result<Option<FieldModel>, Error> {
    let Some((path, layers, seen)) = find_shown(all, source) else {
        return Ok(None);
    };
    if field.type_name.starts_with("ROOT::RNTupleCardinality") {
        return Ok(Some(FieldModel {
            kind: FieldKind::Projected {
                source: path,
                subfields: Vec::new(),
            },
            ..field.clone()
        }));
    }
    let model = FieldModel::from_type_name_with(&field.name, &field.type_name, classes)?;
    Ok(Some(FieldModel {
        description: field.description.clone(),
        compression: field.compression,
        ..below(&model, &layers, &path, seen)
    }))
}

/// The field at a path, with its full path and the layers in between.
fn find_shown<'a>(
    all: &[&'a FieldModel],
    source: &str,
) -> Option<(String, Vec<Layer>, &'a FieldModel)> {
    let mut parts = source.split('.');
    let top = parts.next()?;
    let mut seen = *all.iter().find(|field| field.name == top)?;
    let mut path = top.to_owned();
    let mut layers = Vec::new();
    for part in parts {
        while let (
            FieldKind::Collection(item)
            | FieldKind::Optional(item)
            | FieldKind::Array(_, item)
            | FieldKind::Wrapper(item),
            true,
        ) = (&seen.kind, part != "_0")
        {
            layers.extend(Layer::of(seen, &path));
            path += "._0";
            seen = item;
        }
        layers.extend(Layer::of(seen, &path));
        seen = seen.subfields().iter().find(|below| below.name == part)?;
        path = format!("{path}.{part}");
    }
    Some((path, layers, seen))
}

/// The projected field for the field at `path`, with the type of `shown`, inside these layers.
fn below(shown: &FieldModel, layers: &[Layer], path: &str, seen: &FieldModel) -> FieldModel {
    use FieldKind as K;
    let projected = |source: &str, subfields| FieldModel {
        type_version: shown.type_version,
        type_checksum: shown.type_checksum,
        ..FieldModel::projected(
            shown.name.clone(),
            shown.type_name.clone(),
            source,
            subfields,
        )
    };
    let member = |name: &str| format!("{path}.{name}");
    match (&shown.kind, layers.split_first(), &seen.kind) {
        (K::Collection(item), Some((Layer::Collection(first), rest)), _)
        | (K::Optional(item), Some((Layer::Optional(first), rest)), _) => {
            projected(first, vec![below(item, rest, path, seen)])
        }
        (K::Collection(item), None, K::Collection(of))
        | (K::Optional(item), None, K::Optional(of))
        | (K::Wrapper(item), None, K::Wrapper(of)) => {
            projected(path, vec![below(item, &[], &member("_0"), of)])
        }
        // the subfields of the projected field have the columns
        (K::Leaf(_), None, K::Wrapper(of)) => below(shown, &[], &member("_0"), of),
        (K::Record(wanted), None, K::Record(members)) => {
            let pairs = wanted.iter().filter_map(|wanted| {
                let found = members.iter().find(|found| found.name == wanted.name)?;
                Some(below(wanted, &[], &member(&found.name), found))
            });
            projected(path, pairs.collect())
        }
        _ => projected(path, Vec::new()),
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
        "projected" => {
            let (type_name, subfields) = (text(2)?, below(4)?);
            let known = FieldModel::from_type_name(&name, &type_name);
            let type_name = known.map_or(type_name, |known| known.type_name);
            FieldModel::projected(name, type_name, text(3)?, subfields)
        }
        other => {
            return Err(usage(format!("unknown kind of field {other:?}")));
        }
    })
}

fn number(name: &str, dtype: &str) -> PyResult<FieldModel> {
    let found = DType::ALL.into_iter().find(|known| known.name() == dtype);
    let found = found.ok_or_else(|| {
        let message = format!(
            "field {name:?} cannot be written: NumPy's {dtype} has no counterpart in RNTuple"
        );
        new("UsageError", "unwritable-field", message)
    })?;
    Ok(FieldModel::number(name, found))
}
