//! Files that servers have open for us, of which there are only so many at once.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use tokio::sync::Mutex;

use crate::Server;
use crate::connection::Connection;
use crate::protocol::{FileHandle, Request};

/// Where a file is open. The server is told that it is not any more when nobody uses this, without waiting for its answer.
#[derive(Debug)]
pub(super) struct Session {
    pub connection: Arc<Connection>,
    pub handle: FileHandle,
    /// How often it was opened again.
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

    /// Whether the time that the server says is that of the file.
    pub fn has_time(&self) -> bool {
        !self.connection.protocol.flags.is_proxy()
    }

    /// The request to close it, which is made only once.
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
            // nobody is left to tell
            let closed = connection.demand(&request, Bytes::new(), 0, "close");
            let _ = closed.await;
        });
    }
}

/// Where a file is open, or was.
#[derive(Debug)]
pub(crate) struct Place {
    /// None if others needed the room.
    pub(super) here: Option<Arc<Session>>,
    pub(super) generation: usize,
    pub(super) server: Server,
}

impl Place {
    pub(super) fn of(session: Arc<Session>) -> Self {
        Self {
            generation: session.generation,
            server: session.connection.server.clone(),
            here: Some(session),
        }
    }
}

/// Shared by a file and by who keeps the files few.
pub(crate) type Slot = Arc<Mutex<Place>>;

/// Files that are open to be read, the one that was opened first at the front.
#[derive(Debug, Default)]
pub(crate) struct Kept(std::sync::Mutex<VecDeque<Weak<Mutex<Place>>>>);

impl Kept {
    /// Keeps one more, and closes those that were opened first if there are too many. A read that is under way keeps its file
    /// open until it ends.
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
            // one that is just being opened again is the newest
            if let Ok(mut place) = oldest.try_lock() {
                place.here = None;
            }
        }
    }
}
