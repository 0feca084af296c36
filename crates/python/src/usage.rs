//! What was read of sources, as dictionaries.

use std::time::UNIX_EPOCH;

use femtobarn::io::{SourceStatus, Span, Usage, beginning};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// A dictionary for each source.
pub fn sources<'py>(py: Python<'py>, usages: &[Usage]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for usage in usages {
        let dict = PyDict::new(py);
        dict.set_item("url", &usage.url)?;
        dict.set_item("size", usage.size)?;
        dict.set_item("requests", usage.traffic.requests)?;
        dict.set_item("retries", usage.traffic.retries)?;
        let cache = usage.cached;
        dict.set_item("cache_hits", cache.hits)?;
        dict.set_item("cache_misses", cache.misses)?;
        dict.set_item("cache_bytes", cache.hit_bytes)?;
        dict.set_item("fetched_bytes", cache.fetched_bytes)?;
        dict.set_item("bad_entries", cache.bad)?;
        dict.set_item("vectors", usage.metered.vectors)?;
        dict.set_item("ranges", usage.metered.ranges)?;
        dict.set_item("bytes_read", usage.metered.bytes)?;
        dict.set_item("bytes_used", usage.metered.used)?;
        dict.set_item("failed", usage.metered.failed)?;
        dict.set_item("waiting_seconds", usage.metered.waiting.as_secs_f64())?;
        let spans = PyList::empty(py);
        for span in &usage.spans {
            spans.append(entry(py, span)?)?;
        }
        dict.set_item("spans", spans)?;
        list.append(dict)?;
    }
    Ok(list)
}

/// A dictionary for each server that a file is read from.
pub fn servers<'py>(py: Python<'py>, files: &[Vec<SourceStatus>]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for (file, sources) in files.iter().enumerate() {
        for source in sources {
            let dict = PyDict::new(py);
            dict.set_item("file", file)?;
            dict.set_item("url", &source.url)?;
            dict.set_item("server", &source.server)?;
            dict.set_item("state", source.state.name())?;
            dict.set_item("quality", source.quality)?;
            dict.set_item("rate", source.rate)?;
            dict.set_item("num_bytes", source.n_bytes)?;
            dict.set_item("requests", source.n_requests)?;
            dict.set_item("errors", &source.errors)?;
            list.append(dict)?;
        }
    }
    Ok(list)
}

fn entry<'py>(py: Python<'py>, span: &Span) -> PyResult<Bound<'py, PyDict>> {
    let beginning = beginning().duration_since(UNIX_EPOCH).unwrap_or_default();
    let ranges = span.ranges.iter().map(|range| (range.start, range.end));
    let dict = PyDict::new(py);
    dict.set_item("stage", span.stage.name())?;
    dict.set_item("start", (beginning + span.start).as_secs_f64())?;
    dict.set_item("seconds", span.duration.as_secs_f64())?;
    dict.set_item("ranges", ranges.collect::<Vec<_>>())?;
    dict.set_item("answered", span.is_answered)?;
    Ok(dict)
}
