//! Merging files.

use std::path::Path;

use femtobarn::merge::{Level, MergeOptions, Others, Pulse, merge as merge_files};
use femtobarn::write::Mode;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::callback::Callback;
use crate::convert::inputs;
use crate::error::usage;
use crate::write::options;

fn merging(given: &Bound<'_, PyDict>, write: &Bound<'_, PyDict>) -> PyResult<MergeOptions> {
    let mut out = MergeOptions {
        write: options(write)?,
        ..MergeOptions::default()
    };
    for (key, value) in given {
        let key: String = key.extract()?;
        let word = || value.extract::<String>();
        let unknown = |what: &str| usage(format!("there is no {key} {what:?}"));
        match key.as_str() {
            "level" => {
                out.level = match word()?.as_str() {
                    "auto" => Level::Auto,
                    "L0" => Level::L0,
                    "L1" => Level::L1,
                    "L2" => Level::L2,
                    other => return Err(unknown(other)),
                }
            }
            "mode" => {
                out.mode = match word()?.as_str() {
                    "filter" => Mode::Filter,
                    "union" => Mode::Union,
                    "strict" => Mode::Strict,
                    other => return Err(unknown(other)),
                }
            }
            "others" => {
                out.others = match word()?.as_str() {
                    "error" => Others::Error,
                    "first" => Others::First,
                    "drop" => Others::Drop,
                    other => return Err(unknown(other)),
                }
            }
            "fields" => out.fields = value.extract()?,
            "compression" => out.compression = value.extract()?,
            "compatible" => out.compatible = value.extract()?,
            "overwrite" => out.overwrite = value.extract()?,
            other => return Err(usage(format!("there is no option {other:?}"))),
        }
    }
    Ok(out)
}

/// Merges files into one; gives what was done, in JSON.
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
    let inputs = inputs(files);
    let callback = Callback::new(tick);
    let result = py.detach(|| {
        merge_files(&inputs, Path::new(output), &options, &|pulse: Pulse| {
            callback.call((pulse.files, pulse.n_files, pulse.bytes, pulse.n_bytes))
        })
    });
    Ok(callback.finish(result)?.to_json().to_string())
}
