//! Writes files to XRootD servers.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use femtobarn_xrootd::{Client, Code, File, OpenOptions, XrootdError, XrootdUrl};

use super::ByteSink;
use crate::runtime::{clear_up, process, wait_for};
use crate::source::xrootd_client;
use crate::url::public;
use crate::{IoError, Settings};

/// Number of temporary names to try.
const MOST_NAMES: usize = 8;

/// A file on an XRootD server, written by position. It has a temporary name, `.<name>.partial-<process>-<number>`,
/// until [`ByteSink::commit`] renames it: other readers see the complete file, or nothing. Dropping the sink before
/// removes the file. The file of a killed process remains.
#[derive(Debug)]
pub struct XrootdSink {
    /// The URL for messages, without secrets.
    url: String,
    wanted: XrootdUrl,
    sibling: XrootdUrl,
    client: Client,
    replaces: bool,
    /// The process that may use the sink.
    owner: u32,
    /// `None` once it is complete.
    file: Mutex<Option<Arc<File>>>,
    /// The end of the last written byte.
    end: AtomicU64,
}

impl XrootdSink {
    /// Creates a file, including missing directories.
    ///
    /// # Errors
    /// If the file exists and must not be replaced, it cannot be created, or no server answers.
    pub fn create(url: &str, replaces: bool, settings: &Settings) -> Result<Self, IoError> {
        let shown = public(url);
        let failed = |error| failed(&shown, error);
        let wanted = XrootdUrl::parse(url).map_err(failed)?;
        let client = xrootd_client(settings)?;
        let open = async {
            check_free(&client, &wanted, replaces).await?;
            let mut tries = 0;
            loop {
                let sibling = XrootdUrl {
                    path: beside(&wanted.path),
                    ..wanted.clone()
                };
                match File::open(&client, sibling.clone(), OpenOptions::CreateNew).await {
                    // from a process with the same number, or our own request whose answer was lost
                    Err(error) if is_taken(&error) && tries < MOST_NAMES => tries += 1,
                    opened => return opened.map(|file| (sibling, file)),
                }
            }
        };
        let (sibling, file) = wait_for(&shown, open)?.map_err(failed)?;
        // from now on the file exists
        let client = client.patient();
        Ok(Self {
            url: shown,
            wanted,
            sibling,
            client,
            replaces,
            owner: process(),
            file: Mutex::new(Some(Arc::new(file))),
            end: AtomicU64::new(0),
        })
    }

    fn file(&self) -> Result<Arc<File>, IoError> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let own = file.as_ref().filter(|_| self.owner == process());
        own.cloned().ok_or_else(|| {
            let why = "it is complete, or another process writes it";
            failed(&self.url, usage(why.to_owned()))
        })
    }

    /// The error of a failed write. If no server has answered, the sent data may remain there.
    fn lost(&self, error: XrootdError) -> IoError {
        let is_final = matches!(error, XrootdError::Usage { .. } | XrootdError::Gone { .. });
        if error.code().is_some() || is_final {
            return failed(&self.url, error);
        }
        let left = Left {
            path: self.sibling.path.clone(),
            source: error,
        };
        IoError::Sending {
            url: self.url.clone(),
            source: Box::new(left),
        }
    }

    /// Checks that everything was written, and renames it.
    async fn appear(&self, file: &File) -> Result<(), XrootdError> {
        file.sync().await?;
        let expected = self.end.load(Relaxed);
        let found = self.client.stat(&self.sibling).await?.size;
        if found != expected {
            let what = format!("{expected} bytes were written, but the file has {found}");
            return Err(usage(what));
        }
        check_free(&self.client, &self.wanted, self.replaces).await?;
        match self.client.rename(&self.sibling, &self.wanted.path).await {
            Err(_) if self.has_its_name(expected).await => Ok(()),
            renamed => renamed,
        }
    }

    /// Whether the file has its final name and not its temporary one: then a server has renamed it, and its answer was
    /// lost.
    async fn has_its_name(&self, size: u64) -> bool {
        let sibling = self.client.stat(&self.sibling).await;
        let is_gone = sibling.is_err_and(|error| error.code() == Some(Code::NOT_FOUND));
        let named = self.client.stat(&self.wanted).await;
        is_gone && named.is_ok_and(|found| found.size == size)
    }
}

/// Whether a name belongs to another file, or is opened by a connection whose loss the server has not noticed.
fn is_taken(error: &XrootdError) -> bool {
    matches!(error.code(), Some(Code::EXISTS | Code::FILE_LOCKED))
}

/// The data that may remain on an unreachable server.
#[derive(Debug, thiserror::Error)]
#[error("if the server is unreachable, the partial file {path} remains there; delete it by hand")]
struct Left {
    path: String,
    source: XrootdError,
}

fn usage(what: String) -> XrootdError {
    XrootdError::Usage { what }
}

/// The temporary path of an incomplete file.
fn beside(path: &str) -> String {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let number = COUNTER.fetch_add(1, Relaxed);
    format!("{folder}/.{name}.partial-{}-{number}", process())
}

/// Checks that the name is free, if it must not be replaced, and is not a directory.
async fn check_free(client: &Client, url: &XrootdUrl, replaces: bool) -> Result<(), XrootdError> {
    let taken = |code, message: &str| XrootdError::Server {
        server: url.server.to_string(),
        doing: format!("writing of {}", url.path),
        code,
        message: message.to_owned(),
    };
    match client.stat(url).await {
        Ok(stat) if stat.is_folder() => Err(taken(Code::IS_FOLDER, "it is a directory")),
        Ok(_) if !replaces => Err(taken(Code::EXISTS, "it already exists")),
        Err(error) if error.code() == Some(Code::NOT_FOUND) => Ok(()),
        found => found.map(drop),
    }
}

fn failed(url: &str, error: XrootdError) -> IoError {
    let url = url.to_owned();
    match error.code() {
        Some(Code::NOT_AUTHORIZED) => IoError::ReadOnly { url },
        Some(Code::EXISTS) => IoError::Exists { url },
        Some(Code::IS_FOLDER) => IoError::NotAFile {
            url,
            found: "a directory",
        },
        _ => IoError::Sending {
            url,
            source: Box::new(error),
        },
    }
}

impl ByteSink for XrootdSink {
    fn url(&self) -> &str {
        &self.url
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
        let file = self.file()?;
        let end = offset.saturating_add(bytes.len() as u64);
        let written = file.write(offset, Bytes::copy_from_slice(bytes));
        wait_for(&self.url, written)?.map_err(|error| self.lost(error))?;
        self.end.fetch_max(end, Relaxed);
        Ok(())
    }

    fn sync(&self) -> Result<(), IoError> {
        let file = self.file()?;
        wait_for(&self.url, file.sync())?.map_err(|error| self.lost(error))
    }

    fn checksum(&self) -> Result<Option<(String, String)>, IoError> {
        let file = self.file()?;
        let asked = wait_for(&self.url, async {
            file.sync().await?;
            self.client.checksum(&self.sibling).await
        })?;
        match asked {
            Ok((kind, digits)) => Ok((!digits.is_empty()).then_some((kind, digits))),
            // it supports no checksums, or none for open files
            Err(error) if error.code().is_some() => Ok(None),
            Err(error) => Err(failed(&self.url, error)),
        }
    }

    fn commit(&self) -> Result<(), IoError> {
        let file = self.file()?;
        let appeared = wait_for(&self.url, self.appear(&file))?;
        appeared.map_err(|error| self.lost(error))?;
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(())
    }
}

impl Drop for XrootdSink {
    fn drop(&mut self) {
        let file = self.file.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(file) = file.take() else { return };
        if self.owner != process() {
            // the process that writes the file removes it
            std::mem::forget(file);
            return;
        }
        drop(file);
        clear_up(async {
            // no caller is left for the error
            let _ = self.client.remove(&self.sibling).await;
        });
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::sync::OnceLock;

    use femtobarn_testkit::{Servers, can_start, content, relay};

    use super::*;

    fn create(server: &Servers, name: &str, replaces: bool) -> Result<XrootdSink, IoError> {
        XrootdSink::create(&server.url(name), replaces, &Settings::default())
    }

    fn names(server: &Servers, folder: &str) -> Vec<String> {
        let entries = std::fs::read_dir(server.data[0].join(folder)).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    /// The numbers of the requests in some bytes, which may have several.
    fn requests(bytes: &[u8]) -> Vec<u16> {
        let (mut found, mut at) = (Vec::new(), 0);
        while let Some(head) = bytes.get(at..at + 24) {
            found.push(u16::from_be_bytes([head[2], head[3]]));
            let length = u32::from_be_bytes([head[20], head[21], head[22], head[23]]);
            at += 24 + usize::try_from(length).unwrap();
        }
        found
    }

    /// A proxy that breaks the first connection with a request of this number after the server has executed it; also
    /// returns the index of that connection.
    fn forgetful(port: u16, request: u16) -> (u16, Arc<OnceLock<usize>>) {
        let broken = Arc::new(OnceLock::new());
        let first = broken.clone();
        let way = relay(port, move |passing| {
            if !passing.is_answer && requests(passing.bytes).contains(&request) {
                first.get_or_init(|| passing.connection);
            }
            if passing.is_answer && first.get() == Some(&passing.connection) {
                // its answer never comes
                passing.bytes.clear();
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        (way, broken)
    }

    #[test]
    fn a_file_has_its_name_also_if_nobody_heard_of_it() {
        const OPEN: u16 = 3010;
        const MV: u16 = 3009;
        const SYNC: u16 = 3016;
        const WRITE: u16 = 3019;
        if !can_start() {
            return;
        }
        for request in [OPEN, WRITE, SYNC, MV] {
            let server = Servers::start("xrootd");
            let (port, broken) = forgetful(server.port, request);
            let url = format!("root://127.0.0.1:{port}//new");
            let sink = XrootdSink::create(&url, false, &Settings::default()).unwrap();
            sink.write_at(0, b"hello").unwrap();
            sink.commit().unwrap();
            drop(sink);
            assert!(broken.get().is_some(), "{request}");
            let mut found = names(&server, "");
            // a file that was created without an answer remains
            found.retain(|name| request != OPEN || !name.starts_with('.'));
            assert_eq!(found, ["new"], "{request}");
            let written = std::fs::read(server.data[0].join("new")).unwrap();
            assert_eq!(written, b"hello");
        }
    }

    #[test]
    fn files_appear_when_they_are_complete_or_not_at_all() {
        if !can_start() {
            return;
        }
        let server = Servers::start("xrootd");
        let bytes = content(20 << 20);
        let sink = create(&server, "a/b/new", false).unwrap();
        std::thread::scope(|scope| {
            for (number, part) in bytes
                .chunks(3 << 20)
                .enumerate()
                .collect::<Vec<_>>()
                .iter()
                .rev()
            {
                let (sink, number, part) = (&sink, *number, *part);
                scope.spawn(move || sink.write_at((number as u64) * (3 << 20), part).unwrap());
            }
        });
        assert!(names(&server, "a/b").iter().all(|name| name != "new"));
        sink.commit().unwrap();
        assert!(sink.write_at(0, b"late").is_err());
        drop(sink);
        assert_eq!(names(&server, "a/b"), ["new"]);
        assert!(std::fs::read(server.data[0].join("a/b/new")).unwrap() == bytes);

        drop({
            let sink = create(&server, "a/b/new", true).unwrap();
            sink.write_at(0, b"never").unwrap();
            sink
        });
        assert_eq!(names(&server, "a/b"), ["new"]);
        let again = create(&server, "a/b/new", true).unwrap();
        again.write_at(3, b"def").unwrap();
        again.write_at(0, b"abc").unwrap();
        again.commit().unwrap();
        assert_eq!(
            std::fs::read(server.data[0].join("a/b/new")).unwrap(),
            b"abcdef"
        );
    }

    #[test]
    fn what_is_there_is_replaced_only_where_it_may() {
        if !can_start() {
            return;
        }
        let server = Servers::start("xrootd");
        server.put("old", b"old");
        let error = create(&server, "old", false).unwrap_err();
        assert!(matches!(error, IoError::Exists { .. }), "{error}");
        std::fs::create_dir(server.data[0].join("folder")).unwrap();
        let error = create(&server, "folder", true).unwrap_err();
        assert!(matches!(error, IoError::NotAFile { .. }), "{error}");
        // another client was faster
        let late = create(&server, "new", false).unwrap();
        late.write_at(0, b"late").unwrap();
        server.put("new", b"first");
        assert!(matches!(late.commit(), Err(IoError::Exists { .. })));
        drop(late);
        assert_eq!(std::fs::read(server.data[0].join("new")).unwrap(), b"first");
        let mut left = names(&server, "");
        left.sort();
        assert_eq!(left, ["folder", "new", "old"]);
    }
}
