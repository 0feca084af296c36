//! Merging and copying of files.

use std::path::Path;

use femtobarn::Error;
use femtobarn::choice::Choice;
use femtobarn::convert::Input;
use femtobarn::expression::Expression;
use femtobarn::merge::{
    Entries, JoinOptions, MergeOptions, MergeReport, OnProgress, Progress, join,
    merge as merge_files,
};
use femtobarn::write::StoredAs;
use femtobarn::{MigrateOptions, plan_migration};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::Value;

use crate::callback::Callback;
use crate::convert::inputs;
use crate::error::{to_python, usage};
use crate::write::options;

/// A name, a number of bits, and a range.
type Precision = (String, u16, Option<(f64, f64)>);

/// The value of an option that is given by its name.
pub fn chosen<T: Choice>(key: &str, name: &Bound<'_, PyAny>) -> PyResult<T> {
    T::parse(key, name.extract()?).map_err(to_python)
}

fn merging(given: &Bound<'_, PyDict>, write: &Bound<'_, PyDict>) -> PyResult<MergeOptions> {
    let mut out = MergeOptions {
        write: options(write)?,
        ..MergeOptions::default()
    };
    for (key, value) in given {
        let key: String = key.extract()?;
        match key.as_str() {
            "level" => out.level = chosen(&key, &value)?,
            "mode" => out.mode = chosen(&key, &value)?,
            "others" => out.others = chosen(&key, &value)?,
            "entries" => {
                let (start, stop) = value.extract()?;
                out.entries = Entries::Slice { start, stop };
            }
            "where" => {
                out.entries =
                    Entries::Where(Expression::parse(value.extract()?).map_err(to_python)?)
            }
            "keep_clusters" => out.keep_clusters = value.extract()?,
            "split" => out.split = value.extract()?,
            "precision" => {
                let given: Vec<Precision> = value.extract()?;
                let each = given.into_iter();
                out.precision = each
                    .map(|(name, bits, range)| (name, stored(bits, range)))
                    .collect();
            }
            "fields" => out.fields = value.extract()?,
            "compression" => out.compression = value.extract()?,
            "compatible" => out.compatible = value.extract()?,
            "append" => (out.append, out.takes_append) = (value.extract()?, true),
            "verify" => out.verify = value.extract()?,
            "overwrite" => out.overwrite = value.extract()?,
            "settings" => out.settings = value.extract()?,
            other => return Err(usage(format!("unknown option {other:?}"))),
        }
    }
    Ok(out)
}

/// Storage of floats with fewer bits, relative to a range if it is given.
fn stored(bits: u16, range: Option<(f64, f64)>) -> StoredAs {
    match range {
        Some((min, max)) => StoredAs::Quantized { bits, min, max },
        None => StoredAs::Truncated(bits),
    }
}

/// Merges files into one; returns the report as JSON.
#[pyfunction]
#[pyo3(signature = (files, output, given, write, tick = None))]
pub fn merge(
    py: Python<'_>,
    files: Vec<(String, Option<String>)>,
    output: &str,
    given: &Bound<'_, PyDict>,
    write: &Bound<'_, PyDict>,
    tick: Option<Py<PyAny>>,
) -> PyResult<String> {
    let options = merging(given, write)?;
    reported(
        py,
        inputs(files, &options.settings),
        tick,
        |inputs, progress| merge_files(inputs, Path::new(output), &options, progress),
    )
}

/// Moves ntuples between stores; returns the reports of all outputs as JSON.
#[pyfunction]
#[pyo3(signature = (files, destination, given, write, tick = None, *, resume = false, step_size = None))]
#[expect(clippy::too_many_arguments, reason = "those of merge, and two more")]
pub fn migrate(
    py: Python<'_>,
    files: Vec<(String, Option<String>)>,
    destination: &str,
    given: &Bound<'_, PyDict>,
    write: &Bound<'_, PyDict>,
    tick: Option<Py<PyAny>>,
    resume: bool,
    step_size: Option<u64>,
) -> PyResult<String> {
    let options = MigrateOptions {
        merge: merging(given, write)?,
        resume,
        step_bytes: step_size,
    };
    let inputs = inputs(files, &options.merge.settings);
    let callback = Callback::new(tick);
    let result = py.detach(|| {
        let migrations = plan_migration(&inputs, destination, &options)?.into_iter();
        let migrated = migrations.map(|migration| {
            let migrated = migration.run(&options, &|progress| told(&callback, progress))?;
            Ok(migrated.to_json())
        });
        migrated.collect::<Result<Value, Error>>()
    });
    Ok(callback.finish(result)?.to_string())
}

fn told(callback: &Callback, progress: Progress) -> bool {
    callback.call((
        progress.files,
        progress.n_files,
        progress.bytes,
        progress.n_bytes,
    ))
}

/// Runs a copy with progress callbacks; returns the report as JSON.
fn reported(
    py: Python<'_>,
    inputs: Vec<Input>,
    tick: Option<Py<PyAny>>,
    bring: impl FnOnce(&[Input], OnProgress<'_>) -> Result<MergeReport, Error> + Send,
) -> PyResult<String> {
    let callback = Callback::new(tick);
    let result = py.detach(|| bring(&inputs, &|progress| told(&callback, progress)));
    Ok(callback.finish(result)?.to_json().to_string())
}

pub fn joining(given: &Bound<'_, PyDict>, write: &Bound<'_, PyDict>) -> PyResult<JoinOptions> {
    let mut out = JoinOptions {
        write: options(write)?,
        ..JoinOptions::default()
    };
    for (key, value) in given {
        let key: String = key.extract()?;
        match key.as_str() {
            "name" => out.name = value.extract()?,
            "on" => out.on = value.extract()?,
            "unmatched" => out.unmatched = chosen(&key, &value)?,
            "fields" => out.fields = value.extract()?,
            "others" => out.others = chosen(&key, &value)?,
            "compression" => out.compression = value.extract()?,
            "overwrite" => out.overwrite = value.extract()?,
            "settings" => out.settings = value.extract()?,
            "verify" => out.verify = value.extract()?,
            other => return Err(usage(format!("unknown option {other:?}"))),
        }
    }
    Ok(out)
}

/// Joins the fields of ntuples side by side into one file; returns the report as JSON.
#[pyfunction]
#[pyo3(signature = (files, output, given, write, tick = None))]
pub fn join_columns(
    py: Python<'_>,
    files: Vec<(String, Option<String>)>,
    output: &str,
    given: &Bound<'_, PyDict>,
    write: &Bound<'_, PyDict>,
    tick: Option<Py<PyAny>>,
) -> PyResult<String> {
    let options = joining(given, write)?;
    reported(
        py,
        inputs(files, &options.settings),
        tick,
        |inputs, progress| join(inputs, Path::new(output), &options, progress),
    )
}
