//! Recording operations on files, replaying them, and the report of the process.

use femtobarn::Error;
use femtobarn::io::Report;
use femtobarn::replay::{ReplayOptions, Summary, Trace, figure, play};
use pyo3::prelude::*;

use crate::error::to_python;

/// Records operations on files that are opened from now on in a new trace.
#[pyfunction]
pub fn record(path: &str) -> PyResult<()> {
    femtobarn::io::record(path).map_err(|error| to_python(error.into()))
}

/// Ends the trace of this path.
#[pyfunction]
pub fn end_record(path: &str) {
    femtobarn::io::end_record(path);
}

/// The report of this process: as "text", "json" or "prometheus"; None for another form.
#[pyfunction]
pub fn report(py: Python<'_>, form: &str) -> Option<String> {
    py.detach(|| {
        let report = Report::now();
        match form {
            "text" => Some(report.text()),
            "json" => Some(report.json().to_string()),
            "prometheus" => Some(report.prometheus()),
            _ => None,
        }
    })
}

/// Replays a trace, or only looks at it; returns a summary as JSON and as text, and a drawing as SVG if `draw`.
#[pyfunction]
#[pyo3(signature = (path, replace, *, play_it, speed, draw, settings))]
pub fn replay(
    py: Python<'_>,
    path: &str,
    replace: Vec<(String, String)>,
    play_it: bool,
    speed: Option<f64>,
    draw: bool,
    settings: std::collections::BTreeMap<String, String>,
) -> PyResult<(String, String, Option<String>)> {
    py.detach(|| {
        let mut trace = Trace::open(path)?;
        for (old, new) in &replace {
            trace.replace(old, new)?;
        }
        let options = ReplayOptions { speed, settings };
        let played = match play_it {
            true => Some(play(&trace, &options)?),
            false => None,
        };
        let summary = Summary::of(&trace, played.as_ref());
        let drawn = draw.then(|| figure(&trace, played.as_ref()));
        Ok::<_, Error>((summary.json().to_string(), summary.text(), drawn))
    })
    .map_err(to_python)
}
