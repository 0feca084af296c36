//! The extension module `femtobarn._core`. Its Python interface is typed in `python/femtobarn/_core.pyi`.

mod arrow;
mod batch;
mod batches;
mod buffer;
mod callback;
// its symbols are exported for C++ code that ROOT compiles in this process
#[path = "../../capi/src/lib.rs"]
mod capi;
mod convert;
mod cost;
mod delete;
mod error;
mod fields;
mod fsspec;
mod histogram;
mod input;
mod lazy;
mod merge;
mod metadata;
mod ntuple;
mod opening;
mod proof;
mod query;
mod steps;
mod store;
mod tracing;
mod usage;
mod write;

/// The extension module.
#[pyo3::pymodule]
mod _core {
    use std::collections::BTreeMap;
    use std::os::fd::{IntoRawFd as _, RawFd};
    use std::path::PathBuf;

    use femtobarn::Target;
    use femtobarn::convert::Format;
    use femtobarn::inspect::Listed;
    use femtobarn::io::Settings;
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
    use crate::cost::{advise, cost};
    #[pymodule_export]
    use crate::delete::{delete, sweep};
    #[pymodule_export]
    use crate::fields::Fields;
    #[pymodule_export]
    use crate::histogram::{Histogram, Histograms};
    #[pymodule_export]
    use crate::lazy::{Accesses, LazyBatch, LazyBatchIterator, LazyBuffer, LazyReader};
    #[pymodule_export]
    use crate::merge::{join_columns, merge, migrate};
    #[pymodule_export]
    use crate::ntuple::{NTuple, SharedPages};
    #[pymodule_export]
    use crate::opening::Opening;
    #[pymodule_export]
    use crate::proof::prove;
    #[pymodule_export]
    use crate::query::{Aliases, Expression, LumiMask, QueryReader};
    #[pymodule_export]
    use crate::steps::BatchIterator;
    #[pymodule_export]
    use crate::store::{
        Codec, Container, Encoded, Events, Ingest, Loader, NamedDataSet, Queue, Store, WriteBatch,
        check_ingest, export_events, file_kind, may_be_of_boost, plain_namespace, product_hint,
    };
    #[pymodule_export]
    use crate::tracing::{end_record, record, replay, report};
    #[pymodule_export]
    use crate::write::{AttributeSet, FileWriter, NTupleWriter, compression_settings};

    /// Returns a name or path in a file without the cycle number at its end.
    #[pyfunction]
    fn without_cycle(name: &str) -> &str {
        femtobarn::rootfile::without_cycle(name)
    }

    /// Lists a file or a directory, as a JSON document.
    #[pyfunction]
    fn listing(py: Python<'_>, url: &str, settings: BTreeMap<String, String>) -> PyResult<String> {
        let read = || {
            Ok(match femtobarn::inspect::list(url, false, &settings)? {
                Listed::File(file) => file.document(),
                Listed::Folder(folder) => folder.document(),
            })
        };
        let document = py.detach(read).map_err(crate::error::to_python)?;
        Ok(document.to_string())
    }

    /// Whether a file is on a server with a supported protocol.
    #[pyfunction]
    fn is_remote(url: &str) -> bool {
        femtobarn::url::is_remote(url)
    }

    /// The path or URL of an output, and the name of an ntuple at its end.
    #[pyfunction]
    fn destination(url: &str) -> PyResult<(String, Option<String>)> {
        let found = femtobarn::Destination::parse(url).map_err(crate::error::to_python)?;
        let name = found.name().map(str::to_owned);
        Ok((found.url, name))
    }

    /// Whether a URL is the base of an ntuple's objects.
    #[pyfunction]
    fn is_object_set(url: &str) -> bool {
        femtobarn::io::is_object_set(url)
    }

    /// Returns the URL of an event store as a program in another directory gives it.
    #[pyfunction]
    fn absolute_store(url: &str) -> String {
        femtobarn::events::absolute(url)
    }

    /// Returns the path of a local file, also from a `file:` URL, with its home directory instead of `~`.
    #[pyfunction]
    fn local_path(text: &str) -> String {
        femtobarn::io::local_path(text).into_owned()
    }

    /// Returns the path of an object in a file without empty parts; None if nothing is left.
    #[pyfunction]
    fn plain_name(name: &str) -> Option<String> {
        femtobarn::plain_name(name)
    }

    /// The exit code of `fb` for a kind of error.
    #[pyfunction]
    fn exit_code(kind: &str) -> i32 {
        femtobarn::kinds::kind(kind).exit
    }

    /// Whether errors of a kind concern a whole event store.
    #[pyfunction]
    fn is_of_store(kind: &str) -> bool {
        femtobarn::kinds::is_of_store(kind)
    }

    /// Converts a name to a valid name of a C++ class.
    #[pyfunction]
    fn identifier(name: &str) -> String {
        femtobarn::products::identifier(name)
    }

    /// Returns the name of a C++ type in the keys of products.
    #[pyfunction]
    fn type_name(name: &str) -> PyResult<String> {
        femtobarn::products::type_name(name).map_err(crate::error::to_python)
    }

    /// Whether a string has wildcards.
    #[pyfunction]
    fn is_pattern(text: &str) -> bool {
        femtobarn::is_pattern(text)
    }

    /// Whether a string matches a pattern with `*`, `?` and `[a-c]`.
    #[pyfunction]
    fn matches(pattern: &str, text: &str) -> bool {
        femtobarn::matches(pattern, text)
    }

    /// Parses a size in bytes such as "1.5 MB"; None if the string is invalid.
    #[pyfunction]
    fn parse_bytes(text: &str) -> Option<u64> {
        femtobarn::io::units::parse_bytes(text)
    }

    /// Returns a URL without secrets.
    #[pyfunction]
    fn public_url(url: &str) -> String {
        femtobarn::io::public(url)
    }

    /// The name of a file with several URLs or paths.
    #[pyfunction]
    fn join_sources(urls: Vec<String>) -> String {
        femtobarn::io::join_sources(&urls, None)
    }

    /// Opens a file for reading that belongs to this user or root and is not writable by others; returns its
    /// descriptor.
    #[pyfunction]
    fn open_own(path: PathBuf) -> PyResult<RawFd> {
        let opened = femtobarn::io::open_own(&path).map_err(|error| {
            let url = path.display().to_string();
            let why = error.to_string();
            crate::error::to_python(femtobarn::io::IoError::Refused { url, why }.into())
        });
        Ok(opened?.into_raw_fd())
    }

    /// Expands `FILE:NAME` to the files, and returns the name.
    #[pyfunction]
    #[pyo3(signature = (text, settings = None))]
    fn find_files(
        py: Python<'_>,
        text: &str,
        settings: Option<BTreeMap<String, String>>,
    ) -> PyResult<Vec<(String, Option<String>)>> {
        py.detach(|| {
            let target = Target::parse(text)?;
            let settings = settings.map(|given| Settings::new(&target.file, given));
            target.expand(settings.transpose()?.as_ref())
        })
        .map(|found| found.into_iter().map(|t| (t.file, t.name)).collect())
        .map_err(crate::error::to_python)
    }

    /// Expands a path or URL without a name to the files.
    #[pyfunction]
    #[pyo3(signature = (path, settings = None))]
    fn expand_files(
        py: Python<'_>,
        path: &str,
        settings: Option<BTreeMap<String, String>>,
    ) -> PyResult<Vec<String>> {
        py.detach(|| {
            let file = femtobarn::io::local_path(path).into_owned();
            let settings = settings.map(|given| Settings::new(&file, given));
            let target = Target { file, name: None };
            target.expand(settings.transpose()?.as_ref())
        })
        .map(|found| found.into_iter().map(|target| target.file).collect())
        .map_err(crate::error::to_python)
    }

    /// Returns the names nearest to a misspelt one, best first, at most five; `limit` is the allowed number of
    /// differences.
    #[pyfunction]
    #[pyo3(signature = (name, names, limit = None))]
    fn nearest(name: &str, names: Vec<String>, limit: Option<usize>) -> Vec<String> {
        let names = names.iter().map(String::as_str);
        match limit {
            Some(limit) => femtobarn::io::nearest_within(limit, name, names),
            None => femtobarn::io::nearest(name, names),
        }
    }

    /// Whether the name of a file is that of a table (Parquet, Arrow IPC).
    #[pyfunction]
    fn is_table(path: &str) -> bool {
        Format::of(std::path::Path::new(path)) != Format::Root
    }

    /// Whether the work of this thread was cancelled, so that it must not wait any more.
    #[pyfunction]
    fn is_stopped() -> bool {
        femtobarn::io::is_stopped()
    }

    /// Ends all background work when the interpreter ends.
    #[pyfunction]
    fn end_background(py: Python<'_>) {
        py.detach(crate::fsspec::end_background);
    }

    /// Runs the program `fb` with these arguments (without the program name); returns its exit code.
    #[pyfunction]
    fn cli_main(py: Python<'_>, args: Vec<String>) -> i32 {
        py.detach(|| femtobarn_cli::run(args, Some(&run_verb)))
    }

    /// Runs a subcommand of `fb` that is written in Python.
    fn run_verb(verb: &str, arguments: &str) -> Result<String, String> {
        Python::attach(|py| {
            let module = py.import("femtobarn._cli_verbs")?;
            let answer = module.call_method1("run", (verb, arguments))?;
            answer.extract::<String>()
        })
        .map_err(|error| error.to_string())
    }

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        femtobarn::io::while_waiting(crate::error::goes_on);
        femtobarn::io::tell_notices_by(crate::error::warn);
        femtobarn::io::read_foreign_with(crate::fsspec::FOREIGN);
        let names = femtobarn::io::SETTINGS.iter().map(|(name, _)| *name);
        let known_for = femtobarn::products::CLASSES_KNOWN_FOR;
        module.add("CLASSES_KNOWN_FOR", known_for.as_secs_f64())?;
        module.add("FILE_NOTES", femtobarn::events::FILE_NOTES)?;
        let keywords = femtobarn::products::cpp_keywords();
        module.add("CPP_KEYWORDS", keywords.collect::<Vec<_>>())?;
        module.add("SETTINGS", names.collect::<Vec<_>>())?;
        module.add("SETTINGS_FOR_ALL", femtobarn::io::SETTINGS_FOR_ALL.to_vec())?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
