//! What an ntuple costs in an object store.

use std::collections::BTreeMap;

use femtobarn::cost::{CostOptions, Prices, cost as cost_of};
use femtobarn::replay::Trace;
use femtobarn::{Error, Target};
use pyo3::prelude::*;

use crate::error::to_python;

/// Computes the costs of an ntuple; returns them as JSON.
#[pyfunction]
#[pyo3(signature = (file, name, *, columns, trace, prices, settings))]
pub fn cost(
    py: Python<'_>,
    file: String,
    name: Option<String>,
    columns: Vec<String>,
    trace: Option<&str>,
    prices: Option<&str>,
    settings: BTreeMap<String, String>,
) -> PyResult<String> {
    let compute = || {
        let options = CostOptions {
            columns,
            trace: trace.map(Trace::open).transpose()?,
            prices: prices.map_or_else(Prices::usual, Prices::read)?,
            settings,
        };
        Ok::<_, Error>(cost_of(&Target { file, name }, &options)?.to_json())
    };
    let costs = py.detach(compute).map_err(to_python)?;
    Ok(costs.to_string())
}
