//! Opens files for writing.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use femtobarn_io::{
    ByteSink, ByteSource, IoError, LocalSink, Settings, TempSibling, create_remote, is_daos,
    is_foreign, is_object_set, is_remote, local_path, open_remote, public,
};
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::PageStore;
use femtobarn_rntuple::spec::{Anchor, PageAddress};
use femtobarn_rntuple::write::{
    ObjectSink, ObjectsWritten, PageSink, Preview, Renumbered, SinkPlace, WriteOptions,
};
use femtobarn_rootfile::{FileWriter, RootFile, Uuid};

use crate::daos::{DaosPreview, DaosSink};
use crate::open::open_source;
use crate::url::split_remote;

/// Creates a ROOT file. It gets its name, or replaces an existing file, when it is finished.
///
/// `compression` (algorithm times 100 plus level) is recorded in its header.
///
/// # Errors
/// If the file cannot be created.
pub fn create_file(url: &str, compression: u32) -> Result<FileWriter, RNTupleError> {
    let sink = create_sink(url, true, &Settings::of(url))?;
    write_into(sink, compression, Uuid::random())
}

/// Creates a ROOT file with a free name. If several are created at the same time, the first finished one gets the name.
///
/// # Errors
/// If the file exists, or cannot be created.
pub fn create_new_file(url: &str, compression: u32) -> Result<FileWriter, RNTupleError> {
    let sink = create_sink(url, false, &Settings::of(url))?;
    write_into(sink, compression, Uuid::random())
}

/// Creates a ROOT file with settings for its server; `replaces` tells whether it may replace an existing file.
///
/// # Errors
/// If a setting is invalid, the file exists, or it cannot be created.
pub fn create_file_with(
    url: &str,
    compression: u32,
    replaces: bool,
    settings: BTreeMap<String, String>,
) -> Result<FileWriter, RNTupleError> {
    let settings = Settings::new(url, settings)?;
    let sink = create_sink(url, replaces, &settings)?;
    write_into(sink, compression, Uuid::random())
}

/// Where ntuples are written.
#[derive(Debug)]
pub enum Output {
    /// A ROOT file.
    File(Box<FileWriter>),
    /// Objects or values of ntuples.
    Objects(Box<dyn ObjectOutput>),
}

/// Objects of ntuples that are being written. They are deleted when it is dropped before it is finished.
pub trait ObjectOutput: PageSink {
    /// Their URL.
    fn url(&self) -> &str;

    /// Their size.
    fn n_bytes(&self) -> u64;

    /// What is written from now on belongs to the ntuple with this name, if several are written at the same time.
    fn turn_to(&mut self, _name: &str) {}

    /// Waits until all objects exist. Only anchors are missing then.
    ///
    /// # Errors
    /// If an object cannot be written.
    fn complete(&mut self) -> Result<(), RNTupleError>;

    /// Has the [complete](Self::complete) ntuple appear under another name, so that it can be read before it is visible.
    ///
    /// # Errors
    /// If its anchor cannot be written.
    fn preview(&mut self) -> Result<Box<dyn ObjectPreview>, RNTupleError>;

    /// Ends a step: returns the URL where what was written so far can be read.
    ///
    /// # Errors
    /// If it cannot be written, or was not begun [in steps](create_objects_in_steps).
    fn checkpoint(&mut self) -> Result<String, RNTupleError>;

    /// Makes the ntuples visible.
    ///
    /// # Errors
    /// If that fails; they are not visible then.
    fn finish(self: Box<Self>) -> Result<ObjectsWritten, RNTupleError>;
}

/// An ntuple that can be read until this is dropped, but is not visible yet.
pub trait ObjectPreview {
    /// The URL where it can be read.
    fn url(&self) -> &str;
}

impl ObjectPreview for Preview {
    fn url(&self) -> &str {
        self.url()
    }
}

impl ObjectPreview for DaosPreview {
    fn url(&self) -> &str {
        self.url()
    }
}

impl ObjectOutput for ObjectSink {
    fn url(&self) -> &str {
        self.url()
    }

    fn n_bytes(&self) -> u64 {
        self.n_bytes()
    }

    fn complete(&mut self) -> Result<(), RNTupleError> {
        self.complete()
    }

    fn preview(&mut self) -> Result<Box<dyn ObjectPreview>, RNTupleError> {
        Ok(Box::new(Self::preview(self)?))
    }

    fn checkpoint(&mut self) -> Result<String, RNTupleError> {
        self.checkpoint()
    }

    fn finish(self: Box<Self>) -> Result<ObjectsWritten, RNTupleError> {
        Self::finish(*self)
    }
}

impl ObjectOutput for DaosSink {
    fn url(&self) -> &str {
        self.url()
    }

    fn n_bytes(&self) -> u64 {
        self.n_bytes()
    }

    fn complete(&mut self) -> Result<(), RNTupleError> {
        self.complete()
    }

    fn preview(&mut self) -> Result<Box<dyn ObjectPreview>, RNTupleError> {
        Ok(Box::new(Self::preview(self)?))
    }

    fn turn_to(&mut self, name: &str) {
        self.turn_to(name);
    }

    fn checkpoint(&mut self) -> Result<String, RNTupleError> {
        self.checkpoint()
    }

    fn finish(self: Box<Self>) -> Result<ObjectsWritten, RNTupleError> {
        Self::finish(*self)
    }
}

/// Begins to write the objects of ntuples: at a base such as `ntpl+s3://bucket/prefix`, or in a container of DAOS.
///
/// # Errors
/// If a setting is invalid, it exists and must not be replaced, or it cannot be created.
pub(crate) fn create_objects(
    url: &str,
    replaces: bool,
    settings: &Settings,
) -> Result<Box<dyn ObjectOutput>, RNTupleError> {
    check_base(url)?;
    Ok(match is_daos(url) {
        true => Box::new(DaosSink::create(url, replaces, settings)?),
        false => Box::new(ObjectSink::create(url, replaces, settings)?),
    })
}

/// Checks that no name follows a URL, which would become a part of it.
fn check_base(url: &str) -> Result<(), RNTupleError> {
    match split_remote(url) {
        (_, None) => Ok(()),
        (base, Some(name)) => Err(RNTupleError::Usage {
            what: format!(
                "{} is the URL of the output: leave out the name {name:?} at its end",
                public(&base)
            ),
        }),
    }
}

/// Begins to write objects in steps, or with `resumes` goes on after the last step of a writer that was killed; returns the
/// URL where that can be read. The mark tells what they are made from.
///
/// # Errors
/// Those of [`create_objects`].
pub(crate) fn create_objects_in_steps(
    url: &str,
    (replaces, resumes): (bool, bool),
    settings: &Settings,
    mark: Uuid,
) -> Result<(Box<dyn ObjectOutput>, Option<String>), RNTupleError> {
    let marked = mark.to_string();
    if resumes {
        let resumed: Option<(Box<dyn ObjectOutput>, String)> = match is_daos(url) {
            true => {
                let found = DaosSink::resume(url, replaces, settings, mark)?;
                found.map(|(sink, url)| (Box::new(sink) as _, url))
            }
            false => {
                let found = ObjectSink::resume(url, replaces, settings, &marked)?;
                found.map(|(sink, url)| (Box::new(sink) as _, url))
            }
        };
        if let Some((sink, url)) = resumed {
            return Ok((sink, Some(url)));
        }
    }
    Ok(match is_daos(url) {
        true => (
            Box::new(DaosSink::in_steps(url, replaces, settings, mark)?),
            None,
        ),
        false => (
            Box::new(ObjectSink::in_steps(url, replaces, settings, &marked)?),
            None,
        ),
    })
}

/// Creates a ROOT file; for a URL such as `ntpl+s3://bucket/prefix` the objects of one ntuple, and for `daos://pool/container`
/// those of several; the caller takes the name from the end of a URL ([`Destination`](crate::Destination)). It appears when
/// it is [finished](Output::finish), and is removed if it is dropped before.
///
/// # Errors
/// If a setting is invalid, it exists and must not be replaced, or it cannot be created.
pub fn create_output(
    url: &str,
    compression: u32,
    replaces: bool,
    settings: BTreeMap<String, String>,
) -> Result<Output, RNTupleError> {
    if is_object_set(url) {
        let settings = Settings::new(url, settings)?;
        return Ok(Output::Objects(create_objects(url, replaces, &settings)?));
    }
    let file = create_file_with(url, compression, replaces, settings)?;
    Ok(Output::File(Box::new(file)))
}

impl Output {
    /// The ROOT file, to write other objects.
    ///
    /// # Errors
    /// If it is not a file.
    pub fn root_file(&mut self) -> Result<&mut FileWriter, RNTupleError> {
        match self {
            Self::File(file) => Ok(file),
            Self::Objects(objects) => Err(only_an_ntuple(objects.url())),
        }
    }

    /// The number of a directory, which is created. Objects have only the first.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn directory(&mut self, path: &str) -> Result<usize, RNTupleError> {
        match self {
            Self::Objects(_) if path.is_empty() => Ok(0),
            _ => Ok(self.root_file()?.directory(path)?),
        }
    }

    /// What is written from now on belongs to the ntuple with this name. Only outputs that have several ntuples without being
    /// a file must know it.
    pub fn turn_to(&mut self, name: &str) {
        if let Self::Objects(objects) = self {
            objects.turn_to(name);
        }
    }

    /// Completes it; returns what was written of objects.
    ///
    /// # Errors
    /// If writing fails; it does not appear then.
    pub fn finish(self) -> Result<Option<ObjectsWritten>, RNTupleError> {
        match self {
            Self::File(file) => {
                file.finish()?;
                Ok(None)
            }
            Self::Objects(objects) => objects.finish().map(Some),
        }
    }

    fn sink(&mut self) -> &mut dyn PageSink {
        match self {
            Self::File(file) => &mut **file,
            Self::Objects(objects) => &mut **objects,
        }
    }
}

/// The error for other things than ntuples.
pub(crate) fn only_an_ntuple(url: &str) -> RNTupleError {
    let why = match is_daos(url) {
        true => {
            "containers hold ntuples, without directories and other things: write these to a file"
        }
        false => {
            "objects hold one ntuple, without directories and other things: write these to a file"
        }
    };
    let url = url.to_owned();
    IoError::NotWritten { url, why }.into()
}

impl PageSink for Output {
    fn check_place(&self, place: &SinkPlace<'_>) -> Result<(), RNTupleError> {
        match self {
            Self::File(file) => file.check_place(place),
            Self::Objects(objects) => objects.check_place(place),
        }
    }

    fn begin(&mut self, place: &SinkPlace<'_>) -> Result<(), RNTupleError> {
        self.sink().begin(place)
    }

    fn append_payload(
        &mut self,
        payload: &[u8],
        options: &WriteOptions,
    ) -> Result<PageAddress, RNTupleError> {
        self.sink().append_payload(payload, options)
    }

    fn append_pages(
        &mut self,
        pages: &[Bytes],
        options: &WriteOptions,
    ) -> Result<Vec<PageAddress>, RNTupleError> {
        self.sink().append_pages(pages, options)
    }

    fn end_cluster(&mut self) -> Result<(), RNTupleError> {
        self.sink().end_cluster()
    }

    fn joins_pages(&self) -> bool {
        match self {
            Self::File(file) => file.joins_pages(),
            Self::Objects(objects) => objects.joins_pages(),
        }
    }

    fn publish(&mut self, place: &SinkPlace<'_>, anchor: &Anchor) -> Result<(), RNTupleError> {
        self.sink().publish(place, anchor)
    }

    fn attribute_set(&mut self, name: &str) -> Result<&mut dyn PageSink, RNTupleError> {
        self.sink().attribute_set(name)
    }

    fn links_sets(&self) -> bool {
        match self {
            Self::File(file) => file.links_sets(),
            Self::Objects(objects) => objects.links_sets(),
        }
    }

    fn shares(&mut self, store: &dyn PageStore) -> Option<Renumbered> {
        self.sink().shares(store)
    }

    fn copies(
        &mut self,
        store: &dyn PageStore,
        objects: &BTreeMap<u64, u64>,
        options: &WriteOptions,
    ) -> Result<Option<Renumbered>, RNTupleError> {
        self.sink().copies(store, objects, options)
    }

    fn file(&mut self) -> Option<&mut FileWriter> {
        self.sink().file()
    }
}

/// Creates a local or remote file.
pub(crate) fn create_sink(
    url: &str,
    replaces: bool,
    settings: &Settings,
) -> Result<Arc<dyn ByteSink>, IoError> {
    if is_remote(url) || is_foreign(url) {
        return create_remote(url, replaces, settings);
    }
    Ok(Arc::new(match replaces {
        true => LocalSink::create(&local(url))?,
        false => LocalSink::create_new(&local(url))?,
    }))
}

/// Creates a ROOT file that gets its final name from the caller.
///
/// # Errors
/// If writing fails.
pub(crate) fn create_beside(
    sibling: &TempSibling,
    compression: u32,
    uuid: Uuid,
) -> Result<FileWriter, RNTupleError> {
    let sink = LocalSink::beside(sibling)?;
    write_into(Arc::new(sink), compression, uuid)
}

/// The local path of a path or `file:` URL.
pub(crate) fn local(url: &str) -> Cow<'_, Path> {
    match local_path(url) {
        Cow::Borrowed(path) => Cow::Borrowed(Path::new(path)),
        Cow::Owned(path) => Cow::Owned(path.into()),
    }
}

/// The identity of a file; `None` if it does not exist.
pub(crate) fn file_id(path: &Path) -> Option<(u64, u64)> {
    let found = std::fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

fn write_into(
    sink: Arc<dyn ByteSink>,
    compression: u32,
    uuid: Uuid,
) -> Result<FileWriter, RNTupleError> {
    let name = local(sink.url())
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let name = name.unwrap_or_default();
    let writer = FileWriter::create(sink, &name, compression, uuid)?;
    Ok(writer)
}

/// Opens an existing ROOT file for adding to it. Until it is finished, readers see the old contents.
///
/// # Errors
/// If it does not exist, is not a ROOT file, or is not writable.
pub fn update_file(url: &str) -> Result<FileWriter, RNTupleError> {
    if is_remote(url) {
        return Err(not_added_to(url));
    }
    let (sink, source) = lock(url)?;
    let file = RootFile::open(source)?;
    Ok(FileWriter::update(sink, &file)?)
}

/// The error for adding to a remote file.
pub(crate) fn not_added_to(url: &str) -> RNTupleError {
    let why = "cannot add to files on servers: write a new file";
    let url = public(url);
    IoError::NotWritten { url, why }.into()
}

/// Whether the name of an output exists. A container of DAOS has several ntuples, whose names are checked when they are begun.
///
/// # Errors
/// If its server does not answer this.
pub(crate) fn is_there(output: &str, settings: &Settings) -> Result<bool, RNTupleError> {
    if !is_remote(output) {
        return Ok(Path::new(output).exists());
    }
    if is_daos(output) {
        return Ok(false);
    }
    match open_remote(output, settings) {
        Ok(_) | Err(IoError::NotAFile { .. }) => Ok(true),
        Err(IoError::NotFound { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Opens an existing file for writing and reading, and locks it for other writers.
///
/// # Errors
/// If it does not exist, is not writable, or another writer adds to it.
pub(crate) fn lock(url: &str) -> Result<(Arc<LocalSink>, Arc<dyn ByteSource>), RNTupleError> {
    // fails if it is not a file
    open_source(url)?;
    let sink = Arc::new(LocalSink::update(&local(url))?);
    // read after locking: another writer may have added to it before
    Ok((sink, open_source(url)?))
}
