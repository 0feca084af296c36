//! Files that are written to HTTP and WebDAV servers.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::whole::{OnBytes, PIECE, in_pieces};
use super::{Aside, ByteSink, LocalSink, Transferred};
use crate::runtime::process;
use crate::source::HttpUpload;
use crate::{ByteSource, IoError, LocalSource, MemorySource, Settings};

/// A file of an HTTP server (`http://`, `https://`, `dav://`, `davs://`). Such servers are given files as a whole, from their
/// beginning: all of a source ([`ByteSink::bring`]) is sent as it is read; what is written by position is kept in a file of
/// this machine until [`ByteSink::commit`], in the folder that the setting `spool_folder` names.
///
/// On servers that speak WebDAV it stands beside its name until it is complete, as `.<name>.partial-<process>-<number>`; others
/// give it its name themselves, once all of it has come. Dropped before, it is removed.
pub struct HttpSink {
    upload: HttpUpload,
    spool_folder: PathBuf,
    /// The process that may use it.
    owner: u32,
    state: Mutex<State>,
}

enum State {
    /// Nothing was written.
    Empty,
    /// What was written is in a file of this machine.
    Spooled(Arc<Spool>),
    /// The server has all of it, so many bytes.
    Sent(u64),
    /// It has its name, or there will be none.
    Done,
}

struct Spool {
    aside: Aside,
    sink: LocalSink,
}

impl fmt::Debug for HttpSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HttpSink").field(&self.upload.url()).finish()
    }
}

impl HttpSink {
    /// A sink that makes a file; folders that are missing are made as well, if the server can.
    ///
    /// # Errors
    /// If the URL is none, there is something of that name which is not to be replaced, or no server answers.
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

    /// Where what is written is kept.
    fn spool(&self) -> Result<Arc<Spool>, IoError> {
        let mut state = self.state()?;
        match &*state {
            State::Spooled(spool) => Ok(spool.clone()),
            State::Empty => {
                let name = self.upload.url().rsplit('/').next().unwrap_or_default();
                let aside = Aside::spool(&self.spool_folder, name)?;
                let sink = LocalSink::beside(&aside)?;
                let spool = Arc::new(Spool { aside, sink });
                *state = State::Spooled(spool.clone());
                Ok(spool)
            }
            State::Sent(_) | State::Done => Err(IoError::Sending {
                url: self.upload.url().to_owned(),
                source: "all of it was sent already".into(),
            }),
        }
    }

    /// Has the server get what was written; gives the size.
    fn send_spooled(&self) -> Result<u64, IoError> {
        let source: Arc<dyn ByteSource> = match &*self.state()? {
            State::Sent(size) => return Ok(*size),
            State::Spooled(spool) => LocalSource::open(spool.aside.path())?,
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

    /// Nothing survives anything before the commit.
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
