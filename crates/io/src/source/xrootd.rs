//! Files of XRootD servers.

use std::convert::Infallible;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use femtobarn_xrootd::{
    Client, Code, DirEntry, File, OpenOptions, Options, Stat, XrootdError, XrootdUrl,
};

use crate::runtime::{PerProcess, process, wait_for};
use crate::{ByteSource, IoError, RemoteEntry, SourceCost, SourceMeta};

/// The client that all sources of the process share.
static CLIENT: PerProcess<Client> = PerProcess::new();

fn client() -> Client {
    let made = CLIENT.get(|| Ok(Client::new(Options::from_environment())));
    made.unwrap_or_else(|never: Infallible| match never {})
}

/// A file of an XRootD server (`root://`, `roots://`). A vector read is one `readv` for each 1024 ranges; ranges of more than
/// 1 MiB are read by reads of their own, at the same time.
#[derive(Debug)]
pub struct XrootdSource {
    /// As people see it, without what may be secret.
    url: String,
    target: XrootdUrl,
    /// The file, and the process that opened it.
    file: Mutex<(u32, Arc<File>)>,
    meta: SourceMeta,
}

impl XrootdSource {
    /// Opens a file.
    ///
    /// # Errors
    /// If the URL is none, there is no such file, it may not be read, or no server answers.
    pub fn open(url: &str) -> Result<Arc<Self>, IoError> {
        let target = XrootdUrl::parse(url).map_err(|error| failed(url, error))?;
        let file = open(&target, url)?;
        let stat = file.stat();
        if stat.is_folder() || stat.is_other() {
            return Err(IoError::NotAFile {
                url: public(url),
                found: if stat.is_folder() {
                    "a folder"
                } else {
                    "something else"
                },
            });
        }
        Ok(Arc::new(Self {
            url: public(url),
            target,
            meta: SourceMeta {
                size: stat.size,
                modified: modified(stat),
                etag: None,
            },
            file: Mutex::new((process(), file)),
        }))
    }

    fn file(&self) -> Result<Arc<File>, IoError> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if file.0 != process() {
            let again = open(&self.target, &self.url)?;
            let modified = modified(again.stat());
            if again.stat().size != self.meta.size || modified != self.meta.modified {
                let url = self.url.clone();
                return Err(IoError::Changed { url });
            }
            std::mem::forget(std::mem::replace(&mut *file, (process(), again)));
        }
        Ok(file.1.clone())
    }
}

impl Drop for XrootdSource {
    fn drop(&mut self) {
        let file = self.file.get_mut();
        let (owner, file) = &*file.unwrap_or_else(PoisonError::into_inner);
        if *owner != process() {
            // closing it is for the process that has opened it
            std::mem::forget(file.clone());
        }
    }
}

fn modified(stat: &Stat) -> Option<SystemTime> {
    let seconds = u64::try_from(stat.modified).ok()?;
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

/// A URL without what may be secret in it.
fn public(url: &str) -> String {
    url.split('?').next().unwrap_or_default().to_owned()
}

/// What is in a folder of a server.
pub(crate) fn list(url: &str) -> Result<Vec<RemoteEntry>, IoError> {
    let target = XrootdUrl::parse(url).map_err(|error| failed(url, error))?;
    let client = client();
    let found = wait_for(&public(url), client.list(&target))?;
    let entry = |entry: DirEntry| RemoteEntry {
        is_folder: entry.stat.as_ref().is_some_and(Stat::is_folder),
        size: entry.stat.as_ref().map(|stat| stat.size),
        modified: entry.stat.as_ref().and_then(modified),
        name: entry.name,
    };
    let found = found.map_err(|error| failed(url, error))?;
    Ok(found.into_iter().map(entry).collect())
}

fn open(target: &XrootdUrl, url: &str) -> Result<Arc<File>, IoError> {
    let client = client();
    let opened = File::open(&client, target.clone(), OpenOptions::Read);
    let file = wait_for(&public(url), opened)?.map_err(|error| failed(url, error))?;
    Ok(Arc::new(file))
}

fn failed(url: &str, error: XrootdError) -> IoError {
    let url = public(url);
    match &error {
        XrootdError::Server { code, .. } if *code == Code::NOT_FOUND => IoError::NotFound { url },
        XrootdError::Server { code, .. } if *code == Code::NOT_AUTHORIZED => {
            IoError::PermissionDenied { url }
        }
        XrootdError::Server { code, .. } if *code == Code::IS_FOLDER => IoError::NotAFile {
            url,
            found: "a folder",
        },
        XrootdError::Changed { .. } => IoError::Changed { url },
        _ => IoError::Remote {
            url,
            source: Box::new(error),
        },
    }
}

impl ByteSource for XrootdSource {
    fn url(&self) -> &str {
        &self.url
    }

    fn meta(&self) -> &SourceMeta {
        &self.meta
    }

    fn cost(&self) -> SourceCost {
        SourceCost {
            // as much as the header of an element takes, many times: elements cost next to nothing
            largest_gap: 512,
            largest_request: 64 << 20,
            most_ranges: 1024,
            concurrency: 8,
        }
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, IoError> {
        for range in ranges {
            self.meta.check(&self.url, range)?;
        }
        let file = self.file()?;
        wait_for(&self.url, file.read_ranges(ranges))?.map_err(|error| failed(&self.url, error))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use femtobarn_testkit::{Servers, can_start};

    use super::*;

    #[test]
    fn files_of_servers_are_sources() {
        if !can_start() {
            return;
        }
        let server = Servers::start("xrootd");
        let number = AtomicUsize::new(0);
        crate::conformance::check(&|content| {
            let name = format!("f{}", number.fetch_add(1, Ordering::Relaxed));
            server.put(&name, &content);
            XrootdSource::open(&server.url(&name)).unwrap()
        });
    }

    #[test]
    fn what_cannot_be_read_is_told_as_of_other_files() {
        if !can_start() {
            return;
        }
        let server = Servers::start("xrootd");
        std::fs::create_dir(server.data[0].join("folder")).unwrap();
        for (name, kind) in [
            ("none?authz=secret", "file-not-found"),
            ("folder", "not-a-file"),
        ] {
            let error = XrootdSource::open(&server.url(name)).unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
