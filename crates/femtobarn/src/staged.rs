//! Unfinished outputs: a temporary file in the same directory, or for servers a local file, which is sent when it is
//! complete.

use std::error::Error;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use femtobarn_io::{
    ByteSource, IoError, LocalSource, OnBytes, Settings, TempSibling, create_remote, is_object_set,
    is_remote, public, send,
};
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::write::{MergeOptions, NTupleMerger, Rebuild, WriteOptions};
use serde_json::{Value, json};

use crate::convert::Attributes;
use crate::copy::compare;
use crate::inputs::Opened;
use crate::open::RNTUPLE_CLASS;
use crate::writable::{ObjectOutput, create_objects, only_an_ntuple};

/// The delivery of an output to its server.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    /// Number of sent bytes.
    pub n_bytes: u64,
    /// Duration, including the comparison.
    pub seconds: f64,
    /// How the server's copy was compared with the sent data: by a checksum of the server (its kind, such as "adler32"),
    /// by reading it back ("bytes"), or only by "size".
    pub compared: String,
}

impl Delivery {
    /// The same as JSON.
    pub fn to_json(&self) -> Value {
        json!({"bytes": self.n_bytes, "seconds": self.seconds, "compared": self.compared})
    }
}

/// An unfinished output. If it is dropped before it [appears](Self::appear), it is removed.
pub(crate) struct StagedOutput {
    sibling: TempSibling,
    /// The server to send it to; `None` if it only gets its final name.
    server: Option<Server>,
}

struct Server {
    url: String,
    replaces: bool,
    settings: Settings,
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
        if !is_remote(&url) {
            let (sibling, server) = (TempSibling::create(output, replaces)?, None);
            return Ok(Self { sibling, server });
        }
        match is_object_set(&url) {
            // whether it may be written
            true => drop(create_objects(&url, replaces, settings)?),
            false => drop(create_remote(&url, replaces, settings)?),
        }
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

    /// The temporary file.
    pub fn sibling(&self) -> &TempSibling {
        &self.sibling
    }

    /// The path of the temporary file.
    pub fn path(&self) -> &Path {
        self.sibling.path()
    }

    /// Its current size.
    pub fn n_bytes(&self) -> u64 {
        std::fs::metadata(self.path()).map_or(0, |found| found.len())
    }

    /// Adds advice to an error after writing this many bytes, if the disk is full.
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

    /// Gives the output its final name. For a server, it is sent first, and compared with the server's copy: by size
    /// and, if the server provides one, a checksum; otherwise with `verify` byte by byte. If it consists of objects, the
    /// pages are sent as objects of the size in `write`. `tick` receives the number of sent bytes.
    ///
    /// # Errors
    /// If this fails, if the name exists and must not be replaced, or if the server's copy differs.
    pub fn appear(
        &mut self,
        verify: bool,
        write: &WriteOptions,
        tick: OnBytes<'_>,
    ) -> Result<Option<Delivery>, RNTupleError> {
        let Some(server) = &self.server else {
            self.sibling.appear()?;
            return Ok(None);
        };
        let start = Instant::now();
        let source: Arc<dyn ByteSource> = LocalSource::open(self.path())?;
        if is_object_set(&server.url) {
            let mut sink = create_objects(&server.url, server.replaces, &server.settings)?;
            copy_ntuple(source.clone(), &mut *sink, write, tick)?;
            sink.finish()?;
            return Ok(Some(Delivery {
                n_bytes: source.meta().size,
                seconds: start.elapsed().as_secs_f64(),
                compared: "size".to_owned(),
            }));
        }
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

/// Copies the only ntuple of a file to objects, page by page as they are.
fn copy_ntuple(
    source: Arc<dyn ByteSource>,
    sink: &mut dyn ObjectOutput,
    write: &WriteOptions,
    tick: OnBytes<'_>,
) -> Result<(), RNTupleError> {
    let opened = Opened::of(source)?;
    let objects = opened.objects(None)?;
    let [(path, key)] = objects.as_slice() else {
        return Err(only_an_ntuple(sink.url()));
    };
    if key.class_name != RNTUPLE_CLASS || path.contains('/') {
        return Err(only_an_ntuple(sink.url()));
    }
    let reader = opened.reader(path, key)?;
    let descriptor = reader.descriptor();
    let options = MergeOptions {
        rebuild: Rebuild::Never,
        write: WriteOptions {
            description: descriptor.description.clone(),
            ..write.clone()
        },
        ..MergeOptions::default()
    };
    let top_level = descriptor.top_level.clone();
    let mut copy = NTupleMerger::new(sink, (0, path), &reader, &top_level, options)?;
    let sent = AtomicU64::new(0);
    let tick = |n| tick(sent.fetch_add(n, Ordering::Relaxed) + n);
    copy.add(sink, &reader, &|_| true, None, &tick)?;
    for link in &descriptor.attribute_sets {
        let set = Attributes::read(&reader, link);
        let set = set.map_err(|what| RNTupleError::Usage { what })?;
        let what = (set.name.as_str(), set.fields.as_slice());
        copy.write_attribute_set(sink, what, &set.ranges, &set.values)?;
    }
    copy.finish(sink)?;
    Ok(())
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
