//! Writes files to HTTP and WebDAV servers.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::whole::{OnBytes, PIECE, in_pieces};
use super::{ByteSink, LocalSink, TempSibling, Transferred};
use crate::runtime::process;
use crate::source::HttpUpload;
use crate::{ByteSource, IoError, LocalSource, MemorySource, Settings};

/// A file on an HTTP server (`http://`, `https://`, `dav://`, `davs://`). Such servers receive files as a whole, from
/// the beginning. A complete source ([`ByteSink::bring`]) is sent while it is read. Data written by position are kept
/// in a local file until [`ByteSink::commit`], in the directory of the setting `spool_folder`.
///
/// On servers with WebDAV, the file has the temporary name `.<name>.partial-<process>-<number>` until it is complete.
/// Other servers use the final name directly, once all data have arrived. A sink that is dropped before removes the
/// file.
pub struct HttpSink {
    upload: HttpUpload,
    spool_folder: PathBuf,
    /// The process that may use the sink.
    owner: u32,
    state: Mutex<State>,
}

enum State {
    /// Nothing has been written.
    Empty,
    /// Written data are in a local file.
    Spooled(Arc<Spool>),
    /// The server has the complete file, with this size.
    Sent(u64),
    /// The sink is committed or has failed.
    Done,
}

struct Spool {
    sibling: TempSibling,
    sink: LocalSink,
}

impl fmt::Debug for HttpSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HttpSink").field(&self.upload.url()).finish()
    }
}

impl HttpSink {
    /// Creates a file, including missing directories if the server supports that.
    ///
    /// # Errors
    /// If the URL is invalid, the file exists and must not be replaced, or no server answers.
    pub fn create(url: &str, replaces: bool, settings: &Settings) -> Result<Self, IoError> {
        Ok(Self {
            upload: HttpUpload::begin(url, replaces, settings)?,
            spool_folder: settings.spool_folder()?,
            owner: process(),
            state: Mutex::new(State::Empty),
        })
    }

    fn state(&self) -> Result<MutexGuard<'_, State>, IoError> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if self.owner == process() && !matches!(*state, State::Done) {
            return Ok(state);
        }
        Err(IoError::Sending {
            url: self.upload.url().to_owned(),
            source: "it is complete, or another process writes it".into(),
        })
    }

    /// The local file.
    fn spool(&self) -> Result<Arc<Spool>, IoError> {
        let mut state = self.state()?;
        match &*state {
            State::Spooled(spool) => Ok(spool.clone()),
            State::Empty => {
                let name = self.upload.url().rsplit('/').next().unwrap_or_default();
                let sibling = TempSibling::spool(&self.spool_folder, name)?;
                let sink = LocalSink::beside(&sibling)?;
                let spool = Arc::new(Spool { sibling, sink });
                *state = State::Spooled(spool.clone());
                Ok(spool)
            }
            State::Sent(_) | State::Done => Err(IoError::Sending {
                url: self.upload.url().to_owned(),
                source: "it was already sent completely".into(),
            }),
        }
    }

    /// Sends the written data to the server; returns the size.
    fn send_spooled(&self) -> Result<u64, IoError> {
        let source: Arc<dyn ByteSource> = match &*self.state()? {
            State::Sent(size) => return Ok(*size),
            State::Spooled(spool) => LocalSource::open(spool.sibling.path())?,
            State::Empty | State::Done => MemorySource::new(self.upload.url(), Vec::new()),
        };
        self.upload.put(&source, &|_| true)?;
        Ok(source.meta().size)
    }
}

impl ByteSink for HttpSink {
    fn url(&self) -> &str {
        self.upload.url()
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
        self.spool()?.sink.write_at(offset, bytes)
    }

    fn bring(
        &self,
        source: &Arc<dyn ByteSource>,
        tick: OnBytes<'_>,
    ) -> Result<Transferred, IoError> {
        if !matches!(*self.state()?, State::Empty) {
            return in_pieces(self, &**source, PIECE, tick);
        }
        self.upload.put(source, tick)?;
        let size = source.meta().size;
        *self.state()? = State::Sent(size);
        Ok(Transferred {
            through_memory: size,
            ..Transferred::default()
        })
    }

    /// Nothing is durable before the commit.
    fn sync(&self) -> Result<(), IoError> {
        Ok(())
    }

    fn commit(&self) -> Result<(), IoError> {
        let size = self.send_spooled()?;
        self.upload.appear(size)?;
        *self.state()? = State::Done;
        Ok(())
    }
}

impl Drop for HttpSink {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let is_done = matches!(state, State::Done);
        if self.owner == process() && !is_done {
            self.upload.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use femtobarn_testkit::{Servers, can_start, can_start_nginx, content};

    use super::super::send;
    use super::*;
    use crate::MemorySource;

    fn settings(url: &str, spool: &Path) -> Settings {
        Settings::with(url, &[("spool_folder", spool.to_str().unwrap())]).unwrap()
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).into_iter().flatten();
        let mut found: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        found.sort();
        found
    }

    /// Writes by position, and copies sources, in a directory on a server. `moves` tells whether files have temporary
    /// names first.
    fn check(server: &Servers, folder: &str, moves: bool) {
        let spool = tempfile::tempdir().unwrap();
        let data = server.data[0].join("new/folder");
        let url = server.http_url(&format!("{folder}new/folder/a%20b.root"));
        let create = |replaces| HttpSink::create(&url, replaces, &settings(&url, spool.path()));
        let bytes = content(9 << 20);

        let sink = create(false).unwrap();
        sink.write_at(4 << 20, &bytes[4 << 20..]).unwrap();
        sink.write_at(0, &bytes[..4 << 20]).unwrap();
        assert_eq!(names(spool.path()).len(), 1);
        assert!(names(&data).is_empty());
        sink.commit().unwrap();
        assert!(sink.write_at(0, b"late").is_err());
        drop(sink);
        assert_eq!(names(&data), ["a b.root"]);
        assert!(std::fs::read(data.join("a b.root")).unwrap() == bytes);
        assert!(names(spool.path()).is_empty());

        assert!(matches!(create(false), Err(IoError::Exists { .. })));
        let given_up = create(true).unwrap();
        given_up.write_at(0, b"never").unwrap();
        drop(given_up);
        assert!(names(spool.path()).is_empty());

        // a complete source needs no local file, and has a temporary name until the commit
        let source: Arc<dyn ByteSource> = MemorySource::new("memory", content(3 << 20));
        let sink = create(true).unwrap();
        sink.bring(&source, &|_| true).unwrap();
        assert_eq!(names(&data).len(), if moves { 2 } else { 1 });
        drop(sink);
        assert_eq!(names(&data), ["a b.root"]);
        send(&source, &create(true).unwrap(), &|_| true).unwrap();
        assert!(std::fs::read(data.join("a b.root")).unwrap() == content(3 << 20));

        // empty files work, too
        create(true).unwrap().commit().unwrap();
        assert_eq!(std::fs::read(data.join("a b.root")).unwrap(), b"");

        // without a temporary name, it may be too late to stop
        let ended = send(&source, &create(true).unwrap(), &|_| false);
        assert!(ended.is_err_and(|error| error.kind() == "interrupted") || !moves);
        assert_eq!(names(&data), ["a b.root"]);
    }

    #[test]
    fn files_of_nginx_are_written() {
        if !can_start_nginx() {
            return;
        }
        let server = Servers::start("nginx");
        for (folder, moves) in [("dav/", true), ("folders/", true), ("plain/", false)] {
            check(&server, folder, moves);
            // the server may still be removing the rest of the stopped upload
            let folder = server.data[0].join("new");
            let emptied = (0..100).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(20));
                std::fs::remove_dir_all(&folder).is_ok() || !folder.exists()
            });
            assert!(emptied);
        }
    }

    #[test]
    fn files_of_xrootds_http_are_written() {
        if can_start() {
            check(&Servers::start("xrdhttp"), "", true);
        }
    }

    #[test]
    fn servers_that_refuse_are_told_from_each_other() {
        if !can_start_nginx() {
            return;
        }
        let server = Servers::start("nginx");
        let source: Arc<dyn ByteSource> = MemorySource::new("memory", content(2 << 20));
        let refused = |path: &str| {
            let url = server.http_url(path);
            let sink = HttpSink::create(&url, false, &Settings::default());
            let error = sink.and_then(|sink| send(&source, &sink, &|_| true));
            let error = error.unwrap_err();
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            format!("{}: {error}: {}", error.kind(), cause.unwrap_or_default())
        };
        for (path, said) in [
            ("a.root", "the server does not accept files there (no PUT)"),
            (
                "small/a.root",
                "the server does not accept files of this size",
            ),
            ("token/a.root", "permission-denied"),
            ("dav/folder/", "not-a-file"),
        ] {
            let found = refused(path);
            assert!(found.contains(said), "{path}: {found}");
        }
        let url = server.http_url("tokendav/a.root");
        let settings = Settings::with(&url, &[("bearer_token", "good")]).unwrap();
        let sink = HttpSink::create(&url, false, &settings).unwrap();
        send(&source, &sink, &|_| true).unwrap();
        assert!(std::fs::read(server.data[0].join("a.root")).unwrap() == content(2 << 20));
    }
}
