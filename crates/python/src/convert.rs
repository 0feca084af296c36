//! Conversion of files.

use std::collections::BTreeMap;
use std::path::Path;

use femtobarn::choice::Choice;
use femtobarn::convert::{
    Batch, ConvertOptions, FileReport, Format, Input, Outcome, Progress, Replace,
    convert as convert_files, convert_many as convert_each,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::callback::Callback;
use crate::error::{to_python, usage};
use crate::write::options;

/// Settings for access to servers, by name.
pub(crate) type Settings = BTreeMap<String, String>;

pub(crate) fn inputs(files: Vec<(String, Option<String>)>, settings: &Settings) -> Vec<Input> {
    let input = |(url, path)| Input {
        url,
        path,
        settings: settings.clone(),
    };
    files.into_iter().map(input).collect()
}

fn conversion(given: &Bound<'_, PyDict>, write: &Bound<'_, PyDict>) -> PyResult<ConvertOptions> {
    let mut out = ConvertOptions {
        write: options(write)?,
        ..ConvertOptions::default()
    };
    for (key, value) in given {
        match key.extract::<String>()?.as_str() {
            "fields" => out.fields = value.extract()?,
            "drop" => out.drop = value.extract()?,
            "name" => out.name = value.extract()?,
            "group" => out.group = value.extract()?,
            "verify" => out.verify = value.extract()?,
            "overwrite" if value.extract()? => out.replace = Replace::Anything,
            "overwrite" => {}
            "settings" => out.settings = value.extract()?,
            other => {
                return Err(usage(format!("unknown option {other:?}")));
            }
        }
    }
    Ok(out)
}

/// Calls the callback with the number of a file and its progress.
fn tick(callback: &Callback, file: usize, progress: Progress) -> bool {
    callback.call((
        file,
        progress.entries,
        progress.n_entries,
        progress.bytes,
        progress.n_bytes,
        progress.verifying,
    ))
}

/// Converts files, which form one ntuple, to one file; returns the report as JSON.
#[pyfunction]
#[pyo3(signature = (files, output, given, write, tick = None))]
pub fn convert(
    py: Python<'_>,
    files: Vec<(String, Option<String>)>,
    output: &str,
    given: &Bound<'_, PyDict>,
    write: &Bound<'_, PyDict>,
    tick: Option<Py<PyAny>>,
) -> PyResult<String> {
    let options = conversion(given, write)?;
    let inputs = inputs(files, &options.settings);
    let callback = Callback::new(tick);
    let result = py.detach(|| {
        convert_files(&inputs, Path::new(output), &options, &|progress| {
            self::tick(&callback, 0, progress)
        })
    });
    Ok(callback.finish(result)?.to_json().to_string())
}

/// Converts files to files in a directory; returns the report of each as JSON, with the exception class of failures.
#[pyfunction]
#[pyo3(signature = (files, folder, given, write, batch, tick = None))]
pub fn convert_many(
    py: Python<'_>,
    files: Vec<(String, Option<String>)>,
    folder: &str,
    given: &Bound<'_, PyDict>,
    write: &Bound<'_, PyDict>,
    batch: (usize, bool, bool, String),
    tick: Option<Py<PyAny>>,
) -> PyResult<Vec<String>> {
    let options = conversion(given, write)?;
    let inputs = inputs(files, &options.settings);
    let (jobs, resume, skip_bad_files, format) = batch;
    let batch = Batch {
        jobs,
        resume,
        skip_bad_files,
        format: Format::parse("kind", &format).map_err(to_python)?,
    };
    let callback = Callback::new(tick);
    let result = py.detach(|| {
        convert_each(
            &inputs,
            Path::new(folder),
            &options,
            batch,
            &|file, progress| self::tick(&callback, file, progress),
        )
    });
    let reports = callback.finish(result)?;
    Ok(reports
        .iter()
        .map(|report: &FileReport| {
            let mut document = report.to_json();
            if let (Outcome::Failed { error, .. }, Some(document)) =
                (&report.outcome, document.as_object_mut())
            {
                document.insert(
                    "class".into(),
                    femtobarn::kinds::kind(error.kind()).class.into(),
                );
            }
            document.to_string()
        })
        .collect())
}
