//! Files that are open on servers, of which there is a limited number.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::Server;
use crate::connection::Connection;
use crate::protocol::{FileHandle, Request};

/// Where a file is open. When the last user drops it, a close request is sent without waiting for its answer.
#[derive(Debug)]
pub(super) struct Session {
    pub connection: Arc<Connection>,
    pub handle: FileHandle,
    /// How often the file was opened again.
    pub generation: usize,
    is_closed: AtomicBool,
}

impl Session {
    pub fn new(connection: Arc<Connection>, handle: FileHandle, generation: usize) -> Self {
        Self {
            connection,
            handle,
            generation,
            is_closed: AtomicBool::new(false),
        }
    }

    /// Whether the server reports the modification time of the file itself.
    pub fn has_time(&self) -> bool {
        !self.connection.protocol.flags.is_proxy()
    }

    /// The close request, which is made only once.
    pub fn closing(&self) -> Request {
        self.is_closed.store(true, Relaxed);
        Request::Close {
            handle: self.handle,
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.is_closed.load(Relaxed) {
            return;
        }
        let (connection, request) = (self.connection.clone(), self.closing());
        connection.runtime.clone().spawn(async move {
            // nobody can receive an error
            let closed = connection.demand(&request, Bytes::new(), 0, "close");
            let _ = closed.await;
        });
    }
}

/// Where a file is open, or was.
#[derive(Debug)]
pub(crate) struct Place {
    /// None if the file was closed in favour of others.
    pub(super) here: Option<Arc<Session>>,
    pub(super) generation: usize,
    pub(super) server: Server,
    /// When it could not be opened again, and why.
    pub(super) failed: Option<(Instant, String)>,
}

impl Place {
    pub(super) fn of(session: Arc<Session>) -> Self {
        Self {
            generation: session.generation,
            server: session.connection.server.clone(),
            here: Some(session),
            failed: None,
        }
    }
}

/// Shared by a file and the list of open files.
pub(crate) type Slot = Arc<Mutex<Place>>;

/// Files that are open for reading; the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Kept(std::sync::Mutex<VecDeque<Weak<Mutex<Place>>>>);

impl Kept {
    /// Adds a file, and closes the oldest ones if there are too many. A read in progress keeps its file open until it
    /// ends.
    pub fn add(&self, slot: &Slot, most: usize) {
        let mut kept = self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        kept.retain(|other| other.strong_count() > 0);
        kept.push_back(Arc::downgrade(slot));
        while kept.len() > most.max(1) {
            let Some(oldest) = kept.pop_front().and_then(|oldest| oldest.upgrade()) else {
                continue;
            };
            // a file that is just being opened again is not old
            if let Ok(mut place) = oldest.try_lock() {
                place.here = None;
            }
        }
    }
}
