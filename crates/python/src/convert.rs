//! Converting files.

use std::collections::BTreeMap;
use std::path::Path;

use femtobarn::convert::{
    Batch, ConvertOptions, FileReport, Format, Input, Outcome, Progress, Replace,
    convert as convert_files, convert_many as convert_each,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::callback::Callback;
use crate::error::usage;
use crate::write::options;

/// Settings of how servers are asked, by their names.
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
                return Err(usage(format!("there is no option {other:?}")));
            }
        }
    }
    Ok(out)
}

/// What the callback gets: the number of a file, and how far it is.
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

/// Converts files, which are one ntuple, into one file; gives what was done, in JSON.
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

/// Converts files into files of a folder; gives what became of each, in JSON, with the class of the exception of what failed.
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
        format: Format::of(Path::new(&format!("x.{format}"))),
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
