//! What an ntuple costs in an object store, and which shape suits a destination.

use std::collections::BTreeMap;
use std::time::Duration;

use femtobarn::cost::{
    AdviceOptions, CostOptions, Destination, Prices, advise as advice_on, cost as cost_of,
};
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
        let options = cost_options(columns, trace, prices, settings)?;
        Ok::<_, Error>(cost_of(&Target { file, name }, &options)?.to_json())
    };
    let costs = py.detach(compute).map_err(to_python)?;
    Ok(costs.to_string())
}

fn cost_options(
    columns: Vec<String>,
    trace: Option<&str>,
    prices: Option<&str>,
    settings: BTreeMap<String, String>,
) -> Result<CostOptions, Error> {
    Ok(CostOptions {
        columns,
        trace: trace.map(Trace::open).transpose()?,
        prices: prices.map_or_else(Prices::usual, Prices::read)?,
        settings,
    })
}

/// What is known of a destination.
#[derive(FromPyObject)]
pub struct Passes {
    #[pyo3(item)]
    destination: String,
    #[pyo3(item)]
    fields: Vec<String>,
    #[pyo3(item)]
    round_trip: Option<f64>,
    #[pyo3(item)]
    bandwidth: Option<f64>,
    #[pyo3(item)]
    workers: Option<u64>,
    #[pyo3(item)]
    threads: usize,
}

/// Computes which shape suits a destination; returns it as JSON, and as text.
#[pyfunction]
#[pyo3(signature = (file, name, passes, *, columns, trace, prices, settings))]
#[expect(
    clippy::too_many_arguments,
    reason = "they are options of a Python function"
)]
pub fn advise(
    py: Python<'_>,
    file: String,
    name: Option<String>,
    passes: Passes,
    columns: Vec<String>,
    trace: Option<&str>,
    prices: Option<&str>,
    settings: BTreeMap<String, String>,
) -> PyResult<(String, String)> {
    let compute = || {
        let cost = cost_options(columns, trace, prices, settings)?;
        let destination = Destination::of_url(&passes.destination);
        let usual = AdviceOptions::new(cost, destination);
        let options = AdviceOptions {
            fields: passes.fields,
            round_trip: passes
                .round_trip
                .map_or(usual.round_trip, Duration::from_secs_f64),
            bandwidth: passes.bandwidth.unwrap_or(usual.bandwidth),
            workers: passes.workers.unwrap_or(usual.workers),
            threads: passes.threads,
            ..usual
        };
        advice_on(&Target { file, name }, &options)
    };
    let advice = py.detach(compute).map_err(to_python)?;
    Ok((advice.to_json().to_string(), advice.text()))
}
