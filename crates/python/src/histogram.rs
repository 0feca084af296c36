//! Histograms.

use femtobarn::Error;
use femtobarn::histogram::{AxisParts, Bins, HistogramFile, Moments, Parts};
use femtobarn::io;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::convert::Settings;
use crate::error::{to_python, usage};

/// Title, edges, whether they are regular, and labels by bin.
type Axis = (String, Vec<f64>, bool, Vec<(u32, String)>);

/// Title, edges, and labels by bin.
type GivenAxis = (String, Vec<f64>, Vec<(u32, String)>);

/// A histogram in its stored form.
#[pyclass(frozen, module = "femtobarn._core")]
pub struct Histogram(pub femtobarn::histogram::Histogram);

fn failed(error: impl std::fmt::Display) -> PyErr {
    usage(error.to_string())
}

fn real_bytes<'py>(py: Python<'py>, numbers: &[f64]) -> Bound<'py, PyBytes> {
    let bytes: Vec<u8> = numbers.iter().flat_map(|it| it.to_be_bytes()).collect();
    PyBytes::new(py, &bytes)
}

/// Numbers of big-endian doubles.
fn reals(bytes: &[u8]) -> Vec<f64> {
    let (numbers, _) = bytes.as_chunks::<8>();
    numbers.iter().map(|it| f64::from_be_bytes(*it)).collect()
}

#[pymethods]
impl Histogram {
    /// Makes a histogram: axes with titles, edges and labels; the type of the contents and their big-endian bytes, the bins
    /// of the first axis fastest; sums of squared weights as big-endian doubles.
    #[staticmethod]
    fn counts(
        name: String,
        title: String,
        axes: Vec<GivenAxis>,
        contents: (String, &[u8]),
        squares: Option<&[u8]>,
    ) -> PyResult<Self> {
        let (dtype, contents) = contents;
        let bins = Bins::Counts {
            dtype,
            contents: contents.to_vec(),
            squares: squares.map(reals),
        };
        build(name, title, axes, bins)
    }

    /// Makes a profile of the sums of weights, of their squares, means, and sums of squared differences,
    /// all as big-endian doubles.
    #[staticmethod]
    fn means(
        name: String,
        title: String,
        axes: Vec<GivenAxis>,
        moments: (&[u8], &[u8], &[u8], &[u8]),
    ) -> PyResult<Self> {
        let (weights, weight_squares, means, deltas) = moments;
        let moments = Moments {
            weights: reals(weights),
            weight_squares: reals(weight_squares),
            means: reals(means),
            deltas: reals(deltas),
        };
        build(name, title, axes, Bins::Means(moments))
    }

    #[getter]
    fn class_name(&self) -> &str {
        self.0.class()
    }

    #[getter]
    fn name(&self) -> String {
        self.0.name()
    }

    #[getter]
    fn title(&self) -> String {
        self.0.title()
    }

    #[getter]
    fn is_profile(&self) -> bool {
        self.0.is_profile()
    }

    #[getter]
    fn is_weighted(&self) -> bool {
        self.0.is_weighted()
    }

    fn axes(&self) -> PyResult<Vec<Axis>> {
        let axes = self.0.axis_parts().map_err(failed)?.into_iter();
        Ok(axes
            .map(|axis| (axis.title, axis.edges, axis.is_regular, axis.labels))
            .collect())
    }

    /// The type and the big-endian bytes of the contents.
    fn contents<'py>(&self, py: Python<'py>) -> PyResult<(&'static str, Bound<'py, PyBytes>)> {
        let (dtype, bytes) = self.0.contents().map_err(failed)?;
        Ok((dtype, PyBytes::new(py, bytes)))
    }

    /// Squared errors as big-endian doubles.
    fn variances<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(real_bytes(py, &self.0.variances().map_err(failed)?))
    }

    /// Sums of the weights of a profile, of their squares, means, and sums of squared differences, as big-endian doubles.
    fn moments<'py>(&self, py: Python<'py>) -> PyResult<Option<[Bound<'py, PyBytes>; 4]>> {
        let moments = self.0.moments().map_err(failed)?;
        Ok(moments.map(|it| {
            [it.weights, it.weight_squares, it.means, it.deltas].map(|it| real_bytes(py, &it))
        }))
    }

    fn entries(&self) -> PyResult<f64> {
        self.0.entries().map_err(failed)
    }

    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let out = PyDict::new(py);
        for (name, value) in self.0.statistics().map_err(failed)? {
            out.set_item(name, value)?;
        }
        Ok(out)
    }

    /// A drawing as text.
    fn text(&self, width: usize, log: bool) -> PyResult<String> {
        femtobarn::histogram::text(&self.0, width, log).map_err(to_python)
    }

    /// A drawing as SVG.
    fn svg(&self, log: bool) -> PyResult<String> {
        femtobarn::histogram::svg(&self.0, log).map_err(to_python)
    }

    /// Returns the bytes that `of_bytes` takes.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = femtobarn::histogram::to_bytes(&self.0).map_err(to_python)?;
        Ok(PyBytes::new(py, &bytes))
    }

    #[staticmethod]
    fn of_bytes(stored: &[u8], name: &str) -> PyResult<Self> {
        let histogram = femtobarn::histogram::of_bytes(stored.to_vec(), name);
        histogram.map(Self).map_err(to_python)
    }

    /// Returns the sum with another histogram.
    fn plus(&self, other: &Bound<'_, Self>) -> PyResult<Self> {
        let mut sum = self.0.clone();
        sum.add(&other.get().0).map_err(failed)?;
        Ok(Self(sum))
    }
}

fn build(name: String, title: String, axes: Vec<GivenAxis>, bins: Bins) -> PyResult<Histogram> {
    let axes = axes.into_iter();
    let axes = axes.map(|(title, edges, labels)| AxisParts::new(title, edges, labels));
    let parts = Parts {
        name,
        title,
        axes: axes.collect(),
        bins,
        sums: None,
    };
    let built = femtobarn::histogram::Histogram::build(&parts);
    built.map(Histogram).map_err(failed)
}

/// The histograms of a file.
#[pyclass(frozen, module = "femtobarn._core")]
pub struct Histograms(HistogramFile);

#[pymethods]
impl Histograms {
    #[staticmethod]
    #[pyo3(signature = (url, settings = Settings::new()))]
    fn open(py: Python<'_>, url: &str, settings: Settings) -> PyResult<Self> {
        let open = || {
            let settings = io::Settings::new(url, settings)?;
            HistogramFile::open(url, &settings)
        };
        py.detach(open).map(Self).map_err(to_python)
    }

    /// Paths and classes.
    fn paths(&self) -> Vec<(&str, &str)> {
        self.0.paths().collect()
    }

    /// Reads histograms by name; None is the only one of the file. Returns their paths and them.
    fn read(
        &self,
        py: Python<'_>,
        names: Vec<Option<String>>,
    ) -> PyResult<Vec<(String, Histogram)>> {
        let read = || -> Result<_, Error> { self.0.read(&names) };
        let found = py.detach(read).map_err(to_python)?.into_iter();
        Ok(found.map(|(path, it)| (path, Histogram(it))).collect())
    }
}
