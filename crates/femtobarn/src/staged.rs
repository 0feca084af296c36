//! Unfinished outputs: a temporary file in the same directory; for servers a local file, which is sent when it is
//! complete; or objects without their anchor.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use femtobarn_io::{
    ByteSource, IoError, LocalSink, LocalSource, OnBytes, Settings, TempSibling, create_remote,
    is_object_set, is_remote, public, send,
};
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::write::ObjectsWritten;
use femtobarn_rootfile::{FileWriter, RootFile, Uuid};
use serde_json::{Value, json};

use crate::copy::compare;
use crate::inputs::{Input, Opened};
use crate::open::open_source_with;
use crate::writable::{
    ObjectOutput, ObjectPreview, Output, create_beside, create_objects, create_objects_in_steps,
    only_an_ntuple,
};

/// The delivery of an output to its server.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    /// Number of sent bytes.
    pub n_bytes: u64,
    /// Duration, including the comparison.
    pub seconds: f64,
    /// How the server's copy was compared with the sent data: by a checksum of the server (its kind, such as "adler32"),
    /// by reading it back ("bytes"), or only by "size". Of objects, each was confirmed ("answers").
    pub compared: String,
    /// The objects, if it consists of them.
    pub objects: Option<ObjectsWritten>,
}

impl Delivery {
    /// The same as JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "bytes": self.n_bytes,
            "seconds": self.seconds,
            "compared": self.compared,
            "objects": self.objects.map(|written| written.objects),
            "requests": self.objects.map(|written| written.requests),
            "server_copies": self.objects.map(|written| written.server_copies),
        })
    }
}

/// An unfinished output. If it is dropped before it [appears](Self::appear), it is removed.
pub(crate) enum StagedOutput {
    /// A file without its final name.
    File(TempSibling),
    /// A local file that is sent to a server.
    Sent { file: TempSibling, server: Server },
    /// Objects without their anchor.
    Objects(Box<StagedObjects>),
}

pub(crate) struct Server {
    url: String,
    replaces: bool,
    settings: Settings,
}

impl Server {
    fn of(url: &str, replaces: bool, settings: &Settings) -> Self {
        Self {
            url: url.to_owned(),
            replaces,
            settings: settings.clone(),
        }
    }
}

pub(crate) struct StagedObjects {
    /// None while they are written.
    sink: Option<Box<dyn ObjectOutput>>,
    url: String,
    settings: Settings,
    /// Where the steps so far can be read.
    checkpoint: Option<String>,
    /// For reading them, after they are complete.
    preview: Option<Box<dyn ObjectPreview>>,
}

impl StagedObjects {
    fn of(sink: Box<dyn ObjectOutput>, settings: &Settings) -> Self {
        Self {
            url: sink.url().to_owned(),
            sink: Some(sink),
            settings: settings.clone(),
            checkpoint: None,
            preview: None,
        }
    }

    fn sink(&mut self) -> Result<Box<dyn ObjectOutput>, RNTupleError> {
        let sink = self.sink.take();
        sink.ok_or_else(|| RNTupleError::internal("objects are written twice"))
    }
}

impl StagedOutput {
    /// Starts an output; `replaces` tells whether it may replace an existing file.
    ///
    /// # Errors
    /// If the name exists and must not be replaced, or the output cannot be created. Servers are contacted now, because
    /// they are needed only after all the work.
    pub fn create(
        output: &Path,
        replaces: bool,
        settings: &Settings,
    ) -> Result<Self, RNTupleError> {
        let url = output.to_string_lossy();
        if is_object_set(&url) {
            let sink = create_objects(&url, replaces, settings)?;
            let objects = StagedObjects::of(sink, settings);
            return Ok(Self::Objects(Box::new(objects)));
        }
        if !is_remote(&url) {
            return Ok(Self::File(TempSibling::create(output, replaces)?));
        }
        drop(create_remote(&url, replaces, settings)?);
        let server = Server::of(&url, replaces, settings);
        let file = Self::spooled(output, settings)?;
        Ok(Self::Sent { file, server })
    }

    /// Starts an output that is written in steps, or, with `resumes`, goes on after the last step of a writer that was
    /// killed or failed; also returns whether there was one. The mark tells what the output is made from.
    ///
    /// # Errors
    /// Those of [`create`](Self::create).
    pub fn in_steps(
        output: &Path,
        (replaces, resumes): (bool, bool),
        settings: &Settings,
        mark: Uuid,
    ) -> Result<(Self, bool), RNTupleError> {
        let url = output.to_string_lossy();
        if is_object_set(&url) {
            let how = (replaces, resumes);
            let (sink, checkpoint) = create_objects_in_steps(&url, how, settings, mark)?;
            let is_begun = checkpoint.is_some();
            let objects = StagedObjects {
                checkpoint,
                ..StagedObjects::of(sink, settings)
            };
            return Ok((Self::Objects(Box::new(objects)), is_begun));
        }
        let is_own = |path: &Path| {
            let opened = LocalSource::open(path).map(|source| uuid_of(source));
            opened.is_ok_and(|uuid| uuid == Some(mark))
        };
        let resumed = match (resumes, is_remote(&url)) {
            (false, _) => None,
            (true, true) => {
                let name = Self::spool_name(output);
                TempSibling::resume_spool(&settings.spool_folder()?, &name, &is_own)?
            }
            (true, false) => TempSibling::resume(output, replaces, &is_own)?,
        };
        let is_begun = resumed.is_some();
        let mut staged = match resumed {
            Some(file) if is_remote(&url) => Self::Sent {
                file,
                server: Server::of(&url, replaces, settings),
            },
            Some(file) => Self::File(file),
            None => Self::create(output, replaces, settings)?,
        };
        if is_begun {
            staged.keep();
        }
        Ok((staged, is_begun))
    }

    /// Starts a file that never gets a name, beside an output or, if that is on a server, in the spool directory.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn unnamed(output: &Path, settings: &Settings) -> Result<Self, RNTupleError> {
        Ok(Self::File(match is_remote(&output.to_string_lossy()) {
            true => Self::spooled(output, settings)?,
            false => TempSibling::create(output, true)?,
        }))
    }

    fn spooled(output: &Path, settings: &Settings) -> Result<TempSibling, RNTupleError> {
        let name = Self::spool_name(output);
        Ok(TempSibling::spool(&settings.spool_folder()?, &name)?)
    }

    fn spool_name(output: &Path) -> String {
        let shown = shown(output);
        let name = shown.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// The file.
    ///
    /// # Errors
    /// If it consists of objects.
    pub fn file(&self) -> Result<&TempSibling, RNTupleError> {
        match self {
            Self::File(file) | Self::Sent { file, .. } => Ok(file),
            Self::Objects(objects) => Err(only_an_ntuple(&objects.url)),
        }
    }

    /// Begins to write ntuples.
    ///
    /// # Errors
    /// If writing fails.
    pub fn writer(&mut self, compression: u32) -> Result<Output, RNTupleError> {
        self.marked_writer(compression, Uuid::random())
    }

    /// Begins to write ntuples; a file gets this UUID.
    ///
    /// # Errors
    /// If writing fails.
    pub fn marked_writer(&mut self, compression: u32, uuid: Uuid) -> Result<Output, RNTupleError> {
        if let Self::Objects(objects) = self {
            return Ok(Output::Objects(objects.sink()?));
        }
        let file = create_beside(self.file()?, compression, uuid)?;
        Ok(Output::File(Box::new(file)))
    }

    /// Ends a step, so that the output can be [continued](Self::reopen), even if this process is killed.
    ///
    /// # Errors
    /// If writing fails.
    pub fn checkpoint(&mut self, output: Output) -> Result<(), RNTupleError> {
        match (self, output) {
            (Self::Objects(objects), Output::Objects(mut sink)) => {
                objects.checkpoint = Some(sink.checkpoint()?);
                objects.sink = Some(sink);
                Ok(())
            }
            (staged, output) => {
                output.finish()?;
                staged.keep();
                Ok(())
            }
        }
    }

    /// Leaves the file of earlier steps when this is dropped.
    fn keep(&mut self) {
        if let Self::File(file) | Self::Sent { file, .. } = self {
            file.keep();
        }
    }

    /// What the steps so far have made.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn so_far(&self) -> Result<Opened, RNTupleError> {
        let source = match self {
            Self::File(file) | Self::Sent { file, .. } => LocalSource::open(file.path())?,
            Self::Objects(objects) => {
                let url = objects.checkpoint.as_ref();
                let url = url.ok_or_else(|| RNTupleError::internal("no step has ended"))?;
                open_source_with(url, &objects.settings.but("cache", "off"))?
            }
        };
        Opened::of(source)
    }

    /// Continues an output after a step; also returns what it has so far.
    ///
    /// # Errors
    /// If this cannot be read.
    pub fn reopen(&mut self) -> Result<(Opened, Output), RNTupleError> {
        let opened = self.so_far()?;
        let writer = match self {
            Self::File(file) | Self::Sent { file, .. } => {
                let sink = Arc::new(LocalSink::beside(file)?);
                Output::File(Box::new(FileWriter::update(sink, &opened.file)?))
            }
            Self::Objects(objects) => Output::Objects(objects.sink()?),
        };
        Ok((opened, writer))
    }

    /// Ends writing. The output can be [read](Self::input) then, if it is a file, or its values are to be verified.
    ///
    /// # Errors
    /// If writing fails.
    pub fn complete(&mut self, output: Output, verify: bool) -> Result<(), RNTupleError> {
        match (self, output) {
            (Self::Objects(objects), Output::Objects(mut sink)) => {
                sink.complete()?;
                objects.preview = verify.then(|| sink.preview()).transpose()?;
                objects.sink = Some(sink);
                Ok(())
            }
            (_, output) => output.finish().map(drop),
        }
    }

    /// The complete output, or an ntuple of it, for reading; with the settings of its server.
    pub fn input(&self, path: Option<&str>, settings: &BTreeMap<String, String>) -> Input {
        let (url, settings) = match self {
            Self::File(file) | Self::Sent { file, .. } => {
                let url = file.path().to_string_lossy().into_owned();
                (url, BTreeMap::new())
            }
            Self::Objects(objects) => {
                let preview = objects.preview.as_ref();
                let url = preview.map_or(objects.url.as_str(), |preview| preview.url());
                (url.to_owned(), settings.clone())
            }
        };
        let path = path.map(str::to_owned);
        Input {
            url,
            path,
            settings,
        }
    }

    /// Its current size.
    pub fn n_bytes(&self) -> u64 {
        match self {
            Self::File(file) | Self::Sent { file, .. } => {
                std::fs::metadata(file.path()).map_or(0, |found| found.len())
            }
            Self::Objects(objects) => objects.sink.as_ref().map_or(0, |sink| sink.n_bytes()),
        }
    }

    /// Adds advice to an error after writing this many bytes, if the disk is full.
    pub fn explain(&self, error: RNTupleError, n_bytes: u64) -> RNTupleError {
        let Self::Sent { file, server } = self else {
            return error;
        };
        if !is_full(&error) {
            return error;
        }
        let folder = file.path().parent().unwrap_or(Path::new("."));
        let free = rustix::fs::statvfs(folder);
        IoError::SpoolFull {
            url: public(&server.url),
            folder: folder.to_string_lossy().into_owned(),
            free: free.map_or(0, |found| found.f_bavail.saturating_mul(found.f_frsize)),
            needed: n_bytes,
        }
        .into()
    }

    /// Gives the output its final name. For a server, a file is sent first, and compared with the server's copy: by size
    /// and, if the server provides one, a checksum; otherwise with `verify` byte by byte. `tick` receives the number of
    /// sent bytes.
    ///
    /// # Errors
    /// If this fails, if the name exists and must not be replaced, or if the server's copy differs.
    pub fn appear(
        &mut self,
        verify: bool,
        tick: OnBytes<'_>,
    ) -> Result<Option<Delivery>, RNTupleError> {
        let start = Instant::now();
        match self {
            Self::File(file) => {
                file.appear()?;
                Ok(None)
            }
            Self::Sent { file, server } => deliver(file, server, verify, tick).map(Some),
            Self::Objects(objects) => {
                let is_read = objects.preview.take().is_some();
                let written = objects.sink()?.finish()?;
                Ok(Some(Delivery {
                    n_bytes: written.bytes,
                    seconds: start.elapsed().as_secs_f64(),
                    compared: if is_read { "bytes" } else { "answers" }.to_owned(),
                    objects: Some(written),
                }))
            }
        }
    }
}

/// The size of an output: of objects, with attribute sets and what is written last.
pub(crate) fn bytes_of(delivery: Option<&Delivery>, staged: u64) -> u64 {
    delivery.map_or(staged, |delivery| delivery.n_bytes)
}

/// The UUID of a ROOT file; none if it is something else.
pub(crate) fn uuid_of(source: Arc<dyn ByteSource>) -> Option<Uuid> {
    let file = RootFile::open(source).ok()?;
    Some(file.header().uuid)
}

/// Sends a file to its server.
fn deliver(
    file: &TempSibling,
    server: &Server,
    verify: bool,
    tick: OnBytes<'_>,
) -> Result<Delivery, RNTupleError> {
    let start = Instant::now();
    let source: Arc<dyn ByteSource> = LocalSource::open(file.path())?;
    let sink = create_remote(&server.url, server.replaces, &server.settings)?;
    let sent = send(&source, &*sink, tick)?;
    let compared = match sent.checksum {
        Some(kind) => kind,
        None if verify => {
            let differs = compare(&*source, &server.url, &server.settings, tick)?;
            check_same(server, differs)?;
            "bytes".to_owned()
        }
        None => "size".to_owned(),
    };
    Ok(Delivery {
        n_bytes: source.meta().size,
        seconds: start.elapsed().as_secs_f64(),
        compared,
        objects: None,
    })
}

fn check_same(server: &Server, differs_at: Option<u64>) -> Result<(), RNTupleError> {
    match differs_at {
        None => Ok(()),
        Some(at) => Err(IoError::NotSent {
            url: public(&server.url),
            expected: "the sent bytes".to_owned(),
            found: format!("other bytes within 16 MiB from byte {at} on; the file has its final name: remove it"),
        }
        .into()),
    }
}

/// An output for messages: URLs without secrets.
pub(crate) fn shown(output: &Path) -> PathBuf {
    PathBuf::from(public(&output.to_string_lossy()))
}

/// Whether the causes of an error include a full disk.
fn is_full(error: &RNTupleError) -> bool {
    let mut at: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = at {
        let kind = error.downcast_ref::<std::io::Error>().map(|it| it.kind());
        if matches!(
            kind,
            Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
        ) {
            return true;
        }
        at = error.source();
    }
    false
}
