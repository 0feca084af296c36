//! Deleting ntuples, and what killed writers have left.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use femtobarn::io::{Settings, is_object_set, sweep as sweep_folder};
use femtobarn::write::{delete_ntuple, sweep_objects};
use femtobarn::{Error, Target};
use pyo3::prelude::*;

use crate::error::to_python;

/// Deletes an ntuple as objects or in DAOS; returns the number of its objects.
#[pyfunction]
pub fn delete(py: Python<'_>, url: &str, settings: BTreeMap<String, String>) -> PyResult<u64> {
    let delete = || {
        let target = Target::parse(url)?;
        delete_ntuple(&target, &settings)
    };
    py.detach(delete).map_err(to_python)
}

/// Deletes what killed writers have left, of objects if it has this age in seconds; returns the names.
#[pyfunction]
#[pyo3(signature = (url, *, age, deletes, settings))]
pub fn sweep(
    py: Python<'_>,
    url: &str,
    age: f64,
    deletes: bool,
    settings: BTreeMap<String, String>,
) -> PyResult<Vec<String>> {
    let sweep = || {
        if !is_object_set(url) {
            let found = sweep_folder(Path::new(url), deletes)?.into_iter();
            let names = found.map(|path| path.to_string_lossy().into_owned());
            return Ok(names.collect());
        }
        let age = Duration::try_from_secs_f64(age).unwrap_or(Duration::MAX);
        let settings = Settings::new(url, settings)?;
        Ok::<_, Error>(sweep_objects(url, &settings, age, deletes)?.names)
    };
    py.detach(sweep).map_err(to_python)
}
