//! Outputs while they are made: next to their names, or for servers in a local file, which is sent when it is complete.

use std::error::Error;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use femtobarn_io::{
    ByteSource, IoError, LocalSource, OnBytes, Settings, TempSibling, create_remote, is_remote,
    public, send,
};
use femtobarn_rntuple::RNTupleError;
use serde_json::{Value, json};

use crate::copy::compare;

/// How an output got to its server.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    /// Bytes that were sent.
    pub n_bytes: u64,
    /// The time that it took, with the comparison.
    pub seconds: f64,
    /// Method of comparing the server's copy with the sent data: the kind of a checksum of the server ("adler32"),
    /// "bytes" if everything was read back, else "size".
    pub compared: String,
}

impl Delivery {
    /// The same as JSON.
    pub fn to_json(&self) -> Value {
        json!({"bytes": self.n_bytes, "seconds": self.seconds, "compared": self.compared})
    }
}

/// An unfinished output. Dropped before it [appears](Self::appear), it is removed.
pub(crate) struct StagedOutput {
    sibling: TempSibling,
    /// Where it is to be sent; none: it only gets its name.
    server: Option<Server>,
}

struct Server {
    url: String,
    replaces: bool,
    settings: Settings,
}

impl StagedOutput {
    /// Starts an output, which replaces an existing file or not.
    ///
    /// # Errors
    /// If something has the name that is not to be replaced, or nothing can be made there: a server is contacted at
    /// once, as it is used only after all the work.
    pub fn create(
        output: &Path,
        replaces: bool,
        settings: &Settings,
    ) -> Result<Self, RNTupleError> {
        let url = output.to_string_lossy();
        if !is_remote(&url) {
            let (sibling, server) = (TempSibling::create(output, replaces)?, None);
            return Ok(Self { sibling, server });
        }
        drop(create_remote(&url, replaces, settings)?);
        let shown = shown(output);
        let name = shown.file_name().unwrap_or_default().to_string_lossy();
        let sibling = TempSibling::spool(&settings.spool_folder()?, &name)?;
        let server = Some(Server {
            url: url.into_owned(),
            replaces,
            settings: settings.clone(),
        });
        Ok(Self { sibling, server })
    }

    /// The file that is being made.
    pub fn sibling(&self) -> &TempSibling {
        &self.sibling
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.sibling.path()
    }

    /// Its size by now.
    pub fn n_bytes(&self) -> u64 {
        std::fs::metadata(self.path()).map_or(0, |found| found.len())
    }

    /// Error while writing this many bytes, with advice if there is no space.
    pub fn explain(&self, error: RNTupleError, n_bytes: u64) -> RNTupleError {
        let Some(server) = self.server.as_ref().filter(|_| is_full(&error)) else {
            return error;
        };
        let folder = self.path().parent().unwrap_or(Path::new("."));
        let free = rustix::fs::statvfs(folder);
        IoError::SpoolFull {
            url: public(&server.url),
            folder: folder.to_string_lossy().into_owned(),
            free: free.map_or(0, |found| found.f_bavail.saturating_mul(found.f_frsize)),
            needed: n_bytes,
        }
        .into()
    }

    /// Gives it its name; to a server it is sent before, and compared with what that has: by its size and, if the
    /// server provides one, a checksum; else with `verify` byte by byte. `tick` is given the bytes that are done.
    ///
    /// # Errors
    /// If it could not be, something has that name which is not to be replaced, or the server has something else.
    pub fn appear(
        &mut self,
        verify: bool,
        tick: OnBytes<'_>,
    ) -> Result<Option<Delivery>, RNTupleError> {
        let Some(server) = &self.server else {
            self.sibling.appear()?;
            return Ok(None);
        };
        let start = Instant::now();
        let source: Arc<dyn ByteSource> = LocalSource::open(self.path())?;
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
        Ok(Some(Delivery {
            n_bytes: source.meta().size,
            seconds: start.elapsed().as_secs_f64(),
            compared,
        }))
    }
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

/// An output as reports and messages name it: of a URL, without what may be secret.
pub(crate) fn shown(output: &Path) -> PathBuf {
    PathBuf::from(public(&output.to_string_lossy()))
}

/// Whether a disk is full, according to the causes of an error.
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
