//! Comparison of an ntuple with its inputs.

use femtobarn::convert::Input;
use femtobarn::expression::Expression;
use femtobarn::merge::Entries;
use femtobarn::proof::{ProofOptions, prove as prove_file};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::callback::Callback;
use crate::convert::{Settings, inputs};
use crate::error::to_python;
use crate::merge::joining;

/// Compares an ntuple, whose fields in `damaged` may be damaged, with its inputs; returns the result as JSON.
#[pyfunction]
#[pyo3(signature = (output, files, *, values = false, entries = None, condition = None, since = 0, fields = Vec::new(), join = None, damaged = Vec::new(), settings = Settings::new(), threads = 1, tick = None))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
pub fn prove(
    py: Python<'_>,
    output: (String, Option<String>),
    files: Vec<(String, Option<String>)>,
    values: bool,
    entries: Option<(Option<i64>, Option<i64>)>,
    condition: Option<&str>,
    since: u64,
    fields: Vec<String>,
    join: Option<&Bound<'_, PyDict>>,
    damaged: Vec<String>,
    settings: Settings,
    threads: usize,
    tick: Option<Py<PyAny>>,
) -> PyResult<String> {
    let entries = match (entries, condition) {
        (Some((start, stop)), _) => Entries::Slice { start, stop },
        (None, Some(text)) => Entries::Where(Expression::parse(text).map_err(to_python)?),
        (None, None) => Entries::All,
    };
    let options = ProofOptions {
        values,
        entries,
        since,
        fields,
        join: join
            .map(|given| joining(given, &PyDict::new(py)))
            .transpose()?,
        threads,
    };
    let files = inputs(files, &settings);
    let (url, path) = output;
    let output = Input {
        url,
        path,
        settings,
    };
    let callback = Callback::new(tick);
    let result = py.detach(|| {
        let tick = |done, total| callback.call((done, total));
        prove_file(&output, &files, &options, Some(&tick))
    });
    let mut report = callback.finish(result)?;
    for proof in &mut report.ntuples {
        proof.note_damage(damaged.iter().map(String::as_str));
    }
    Ok(report.to_json().to_string())
}
