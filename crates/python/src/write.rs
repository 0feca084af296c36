//! Writing of files and ntuples.

use std::sync::{Arc, Mutex};

use femtobarn::histogram::write_histogram;
use femtobarn::write::{self, AttributeSetWriter, FieldModel, ObjectSize, WriteOptions};
use femtobarn::{Destination, Error, Naming, Output, codec};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::batches::Batches;
use crate::callback::locked;
use crate::convert::Settings;
use crate::error::{to_python, usage};
use crate::fields::Fields;
use crate::histogram::Histogram;

const MIB: u64 = 1 << 20;

fn closed(what: &str) -> PyErr {
    usage(format!("{what} is closed"))
}

/// Parses compression settings such as "zstd:5".
#[pyfunction]
pub fn compression_settings(text: &str) -> PyResult<u32> {
    codec::parse_settings(text).map_err(|_| {
        let message = format!(
            "invalid compression {text:?}: use zstd, lz4, zlib or lzma, with a level (1 to 9) as in \"zstd:5\", or none"
        );
        usage(message)
    })
}

/// The size of objects: "page", "cluster", or a number of bytes.
fn object_size(given: &Bound<'_, PyAny>) -> PyResult<Option<ObjectSize>> {
    if given.is_none() {
        return Ok(None);
    }
    let text = given.str()?;
    ObjectSize::parse(text.to_str()?).map(Some).map_err(usage)
}

/// The options of an ntuple from keyword arguments.
pub fn options(given: &Bound<'_, PyDict>) -> PyResult<WriteOptions> {
    let mut options = WriteOptions::default();
    let mut memory = None;
    for (key, value) in given {
        match key.extract::<String>()?.as_str() {
            "compression" => options.compression = value.extract()?,
            "cluster_size" => options.cluster_bytes = value.extract()?,
            "cluster_size_uncompressed" => options.cluster_bytes_uncompressed = value.extract()?,
            "page_size" => options.page_bytes = value.extract()?,
            "memory_limit" => memory = value.extract()?,
            "max_key_size" => options.max_key_size = value.extract()?,
            "page_checksums" => options.page_checksums = value.extract()?,
            "same_page_merging" => options.same_page_merging = value.extract()?,
            "clusters_per_group" => options.clusters_per_group = value.extract()?,
            "threads" => options.threads = value.extract()?,
            "object_size" => options.object_size = object_size(&value)?,
            "new_cycle" => options.new_cycle = value.extract()?,
            "description" => options.description = value.extract()?,
            other => {
                return Err(usage(format!("unknown option {other:?}")));
            }
        }
    }
    if let Some(limit) = memory {
        let least = options.limit_memory(limit);
        if least > limit {
            // rounded so that what is recommended is enough
            let (given, needed) = (limit / MIB, least.div_ceil(MIB));
            return Err(usage(format!(
                "memory_limit is {given} MiB, but writing needs at least {needed} MiB"
            )));
        }
    }
    Ok(options)
}

/// A ROOT file, or the objects of an ntuple, being written.
#[pyclass(frozen, module = "femtobarn._core")]
pub struct FileWriter {
    url: String,
    /// The names of its ntuples.
    naming: Naming,
    file: Arc<Mutex<Option<Output>>>,
}

#[pymethods]
impl FileWriter {
    #[staticmethod]
    #[pyo3(signature = (url, compression, replaces, settings = Settings::new()))]
    fn create(
        py: Python<'_>,
        url: String,
        compression: u32,
        replaces: bool,
        settings: Settings,
    ) -> PyResult<Self> {
        let place = Destination::parse(&url).map_err(to_python)?;
        let create = || femtobarn::create_output(&place.url, compression, replaces, settings);
        let file = py.detach(create).map_err(to_python)?;
        let file = Arc::new(Mutex::new(Some(file)));
        let naming = place.naming;
        Ok(Self { url, naming, file })
    }

    #[staticmethod]
    fn update(py: Python<'_>, url: String) -> PyResult<Self> {
        let file = py
            .detach(|| femtobarn::update_file(&url))
            .map_err(to_python)?;
        let file = Output::File(Box::new(file));
        let file = Arc::new(Mutex::new(Some(file)));
        let naming = Naming::default();
        Ok(Self { url, naming, file })
    }

    #[getter]
    fn url(&self) -> &str {
        &self.url
    }

    #[getter]
    fn closed(&self) -> bool {
        locked(&self.file).is_none()
    }

    /// The compression settings in the file header.
    #[getter]
    fn compression(&self) -> PyResult<u32> {
        let mut file = locked(&self.file);
        let file = file.as_mut().ok_or_else(|| closed(&self.url))?;
        Ok(file.root_file().map_err(to_python)?.compression())
    }

    /// Creates a directory.
    fn directory(&self, py: Python<'_>, path: &str) -> PyResult<()> {
        self.with(py, |file| file.directory(path).map(drop))
    }

    /// The names in a directory; None if it does not exist.
    fn names(&self, py: Python<'_>, path: &str) -> PyResult<Option<Vec<String>>> {
        self.with(py, |file| {
            let Output::File(file) = file else {
                return Ok(path.is_empty().then(Vec::new));
            };
            let names = |directory| {
                file.names(directory)
                    .into_iter()
                    .map(str::to_owned)
                    .collect()
            };
            Ok(file.find_directory(path).map(names))
        })
    }

    /// Creates an ntuple in a directory.
    fn ntuple(
        &self,
        py: Python<'_>,
        directory: &str,
        name: &str,
        fields: &Bound<'_, Fields>,
        given: &Bound<'_, PyDict>,
    ) -> PyResult<NTupleWriter> {
        let path = match directory {
            "" => name.to_owned(),
            directory => format!("{directory}/{name}"),
        };
        self.naming.check_given(&path).map_err(to_python)?;
        let options = options(given)?;
        let fields = fields.borrow().models(&[])?;
        let writer = self.with(py, |file| {
            let directory = file.directory(directory)?;
            write::NTupleWriter::new(file, directory, name, &fields, options)
        })?;
        Ok(NTupleWriter {
            file: self.file.clone(),
            url: self.url.clone(),
            name: name.to_owned(),
            writer: Arc::new(Mutex::new(Some(writer))),
            fields: Mutex::new(fields),
        })
    }

    /// Writes a histogram into a directory.
    fn histogram(
        &self,
        py: Python<'_>,
        directory: &str,
        name: &str,
        histogram: &Bound<'_, Histogram>,
        compression: u32,
    ) -> PyResult<()> {
        let histogram = &histogram.get().0;
        self.with(py, |file| {
            let file = file.root_file()?;
            let directory = file.directory(directory)?;
            write_histogram(file, directory, name, histogram, compression)
        })
    }

    /// Completes the file.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        let finish = || match locked(&self.file).take() {
            Some(file) => file.finish().map(drop),
            None => Ok(()),
        };
        py.detach(finish).map_err(to_python)
    }

    /// Abandons the file: it does not appear.
    fn abort(&self, py: Python<'_>) {
        py.detach(|| drop(locked(&self.file).take()));
    }
}

impl FileWriter {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Output) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        with_file(py, &self.file, &self.url, work)
    }
}

fn with_file<T: Send>(
    py: Python<'_>,
    file: &Mutex<Option<Output>>,
    url: &str,
    work: impl FnOnce(&mut Output) -> Result<T, Error> + Send,
) -> PyResult<T> {
    let done = py.detach(|| locked(file).as_mut().map(work));
    done.ok_or_else(|| closed(url))?.map_err(to_python)
}

/// An ntuple that is being written.
#[pyclass(frozen, module = "femtobarn._core")]
pub struct NTupleWriter {
    file: Arc<Mutex<Option<Output>>>,
    url: String,
    name: String,
    writer: Arc<Mutex<Option<write::NTupleWriter>>>,
    /// The possible sources of projected fields that are added later.
    fields: Mutex<Vec<FieldModel>>,
}

#[pymethods]
impl NTupleWriter {
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    #[getter]
    fn closed(&self) -> bool {
        locked(&self.writer).is_none()
    }

    #[getter]
    fn num_entries(&self) -> PyResult<u64> {
        let writer = locked(&self.writer);
        Ok(writer
            .as_ref()
            .ok_or_else(|| closed(&self.name))?
            .n_entries())
    }

    fn extend(&self, py: Python<'_>, batches: &Bound<'_, Batches>) -> PyResult<()> {
        let batches = batches.get();
        let done = self.with(py, |writer, file| {
            batches.each(|batch| writer.extend(file, batch))
        })?;
        done.map_err(|reason| {
            let message = format!("the stream of record batches failed: {reason}");
            usage(message)
        })
    }

    fn add_fields(&self, py: Python<'_>, fields: &Bound<'_, Fields>) -> PyResult<()> {
        // not locked during writing: other threads would wait with the GIL
        let there = locked(&self.fields).clone();
        let fields = fields.borrow().models(&there)?;
        self.with(py, |writer, file| writer.add_fields(file, &fields))?;
        locked(&self.fields).extend(fields);
        Ok(())
    }

    #[pyo3(signature = (group = false))]
    fn commit_cluster(&self, py: Python<'_>, group: bool) -> PyResult<()> {
        self.with(py, |writer, file| {
            writer.commit_cluster(file)?;
            if group {
                writer.commit_cluster_group(file)?;
            }
            Ok(())
        })
    }

    /// Creates an attribute set.
    fn attribute_set(
        &self,
        py: Python<'_>,
        name: &str,
        fields: &Bound<'_, Fields>,
    ) -> PyResult<AttributeSet> {
        let fields = fields.borrow().models(&[])?;
        let set = self.with(py, |writer, file| {
            AttributeSetWriter::new(file, writer, name, &fields)
        })?;
        Ok(AttributeSet {
            file: self.file.clone(),
            url: self.url.clone(),
            ntuple: self.name.clone(),
            name: name.to_owned(),
            writer: self.writer.clone(),
            set: Mutex::new(Some(set)),
        })
    }

    /// Completes the ntuple; returns its number of entries.
    fn finish(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        with_file(py, &self.file, &self.url, |file| {
            file.turn_to(&self.name);
            match locked(&self.writer).take() {
                Some(writer) => writer.finish(file).map(Some),
                None => Ok(None),
            }
        })
    }
}

impl NTupleWriter {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut write::NTupleWriter, &mut Output) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        let done = with_file(py, &self.file, &self.url, |file| {
            file.turn_to(&self.name);
            locked(&self.writer)
                .as_mut()
                .map(|writer| work(writer, file))
                .transpose()
        })?;
        done.ok_or_else(|| closed(&self.name))
    }
}

/// An attribute set that is being written.
#[pyclass(frozen, module = "femtobarn._core")]
pub struct AttributeSet {
    file: Arc<Mutex<Option<Output>>>,
    url: String,
    ntuple: String,
    name: String,
    writer: Arc<Mutex<Option<write::NTupleWriter>>>,
    set: Mutex<Option<AttributeSetWriter>>,
}

#[pymethods]
impl AttributeSet {
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Adds one row of values for a range of entries.
    fn append(
        &self,
        py: Python<'_>,
        entry_start: u64,
        entry_stop: u64,
        batches: &Bound<'_, Batches>,
    ) -> PyResult<()> {
        let batch = batches.get().first().cloned();
        let batch = batch.ok_or_else(|| usage("no values are given"))?;
        let done = with_file(py, &self.file, &self.url, |file| {
            file.turn_to(&self.ntuple);
            let mut set = locked(&self.set);
            set.as_mut()
                .map(|set| set.append(file, entry_start..entry_stop, &batch))
                .transpose()
        })?;
        done.ok_or_else(|| closed(&self.name))
    }

    /// Completes the attribute set.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        with_file(py, &self.file, &self.url, |file| {
            file.turn_to(&self.ntuple);
            match (locked(&self.set).take(), locked(&self.writer).as_mut()) {
                (Some(set), Some(writer)) => set.finish(file, writer),
                _ => Ok(()),
            }
        })
    }
}
