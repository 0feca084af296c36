//! The extension module `femtobarn._core`. Its Python interface is typed in `python/femtobarn/_core.pyi`.

mod arrow;
mod batch;
mod batches;
mod buffer;
mod callback;
mod convert;
mod error;
mod fields;
mod input;
mod merge;
mod metadata;
mod ntuple;
mod proof;
mod steps;
mod usage;
mod write;

/// The extension module.
#[pyo3::pymodule]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::batch::Batch;
    #[pymodule_export]
    use crate::batches::Batches;
    #[pymodule_export]
    use crate::buffer::Buffer;
    #[pymodule_export]
    use crate::convert::{convert, convert_many};
    #[pymodule_export]
    use crate::fields::Fields;
    #[pymodule_export]
    use crate::merge::{join_columns, merge};
    #[pymodule_export]
    use crate::metadata::list_objects;
    #[pymodule_export]
    use crate::ntuple::NTuple;
    #[pymodule_export]
    use crate::proof::prove;
    #[pymodule_export]
    use crate::steps::BatchIterator;
    #[pymodule_export]
    use crate::write::{AttributeSet, FileWriter, NTupleWriter, compression_settings};

    /// Whether a file is on a server whose files can be read.
    #[pyfunction]
    fn is_remote(url: &str) -> bool {
        femtobarn::url::is_remote(url)
    }

    /// The files that a URL of a server stands for: itself, or those that fit its pattern.
    #[pyfunction]
    #[pyo3(signature = (url, settings = crate::convert::Settings::new()))]
    fn expand_url(
        py: Python<'_>,
        url: &str,
        settings: crate::convert::Settings,
    ) -> PyResult<Vec<String>> {
        py.detach(|| femtobarn::url::expand_with(url, settings))
            .map_err(crate::error::to_python)
    }

    /// Runs the program `fb` with these arguments (without the program's name); gives its exit code.
    #[pyfunction]
    fn cli_main(py: Python<'_>, args: Vec<String>) -> i32 {
        py.detach(|| femtobarn_cli::run(args))
    }

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        femtobarn::io::while_waiting(crate::error::goes_on);
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
