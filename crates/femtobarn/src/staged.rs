//! Unfinished outputs: a temporary file in the same directory; for servers a local file, which is sent when it is
//! complete; or objects without their anchor.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use femtobarn_io::{
    ByteSource, IoError, LocalSource, OnBytes, Settings, TempSibling, create_remote, is_object_set,
    is_remote, public, send,
};
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::write::ObjectsWritten;
use serde_json::{Value, json};

use crate::copy::compare;
use crate::inputs::Input;
use crate::writable::{
    ObjectOutput, ObjectPreview, Output, create_beside, create_objects, only_an_ntuple,
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

pub(crate) struct StagedObjects {
    /// None while they are written.
    sink: Option<Box<dyn ObjectOutput>>,
    url: String,
    /// For reading them, after they are complete.
    preview: Option<Box<dyn ObjectPreview>>,
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
            return Ok(Self::Objects(Box::new(StagedObjects {
                url: sink.url().to_owned(),
                sink: Some(sink),
                preview: None,
            })));
        }
        if !is_remote(&url) {
            return Ok(Self::File(TempSibling::create(output, replaces)?));
        }
        drop(create_remote(&url, replaces, settings)?);
        let server = Server {
            url: url.into_owned(),
            replaces,
            settings: settings.clone(),
        };
        let file = Self::spooled(output, settings)?;
        Ok(Self::Sent { file, server })
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
        let shown = shown(output);
        let name = shown.file_name().unwrap_or_default().to_string_lossy();
        Ok(TempSibling::spool(&settings.spool_folder()?, &name)?)
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
        if let Self::Objects(objects) = self {
            let sink = objects.sink.take();
            let sink = sink.ok_or_else(|| RNTupleError::internal("objects are written twice"))?;
            return Ok(Output::Objects(sink));
        }
        let file = create_beside(self.file()?, compression)?;
        Ok(Output::File(Box::new(file)))
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
                let sink = objects.sink.take();
                let sink = sink.ok_or_else(|| RNTupleError::internal("objects are incomplete"))?;
                let written = sink.finish()?;
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
