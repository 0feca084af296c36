//! Events to a ROOT file.

use femtobarn::export::{self, ExportOptions, Exported, Wanted};
use pyo3::types::PyDict;

use femtobarn::events::ItemType;

use super::*;
use crate::callback::Callback;
use crate::error::transfer_to_python;
use crate::merge::chosen;

/// The options from keyword arguments.
fn options(given: &Bound<'_, PyDict>) -> PyResult<ExportOptions> {
    let mut options = ExportOptions::default();
    for (key, value) in given {
        match key.extract::<String>()?.as_str() {
            "products" => {
                let wanted = |(label, type_name)| Wanted { label, type_name };
                let products: Option<Vec<(String, Option<String>)>> = value.extract()?;
                options.products = products.map(|all| all.into_iter().map(wanted).collect());
            }
            "runs" => options.runs = value.extract()?,
            "name" => options.name = value.extract()?,
            "numbers" => options.numbers = value.extract()?,
            "missing" => options.missing = chosen("missing", &value)?,
            "compression" => options.write.compression = value.extract()?,
            "cluster_size" => options.write.cluster_bytes = value.extract()?,
            "threads" => options.write.threads = value.extract()?,
            "overwrite" => options.overwrite = value.extract()?,
            "settings" => options.settings = value.extract()?,
            other => return Err(usage(format!("unknown option {other:?}"))),
        }
    }
    Ok(options)
}

/// Writes the events of a dataset, run or subrun to a ROOT file; returns the report as JSON, and as texts
/// of one line and of several.
#[pyfunction]
pub fn export_events(
    py: Python<'_>,
    container: &Container,
    output: &str,
    given: &Bound<'_, PyDict>,
    tick: Option<Py<PyAny>>,
) -> PyResult<(String, String, String)> {
    let (options, part) = (options(given)?, container.item());
    let is_whole = part.item_type() == ItemType::DataSet;
    let dataset = container.dataset().filter(|_| is_whole);
    let types = &container.origin.types;
    let callback = Callback::new(tick);
    let done = py.detach(|| {
        let exported = match &dataset {
            Some(dataset) => Exported::DataSet(dataset),
            None => Exported::Part(&part),
        };
        let tick = |done, total| callback.call((done, total));
        export::export(exported, types, output, &options, &tick)
    });
    if let Some(error) = callback.raised() {
        return Err(error);
    }
    let report = done.map_err(transfer_to_python)?;
    Ok((
        report.to_json().to_string(),
        report.words(),
        report.to_string(),
    ))
}

/// Returns a hint for a missing product: other types, or similar labels.
#[pyfunction]
pub fn product_hint(
    who: &str,
    label: &str,
    type_name: Option<&str>,
    names: BTreeSet<(String, String)>,
) -> String {
    products::hint(who, label, type_name, &names)
}

/// Whether hepnos.hpp may store values of a type with Boost.
#[pyfunction]
pub fn may_be_of_boost(type_name: &str) -> bool {
    products::may_be_of_boost(type_name)
}
