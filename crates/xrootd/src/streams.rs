//! The requests of a connection that wait for their answers, each on a stream of its own.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tokio::sync::oneshot;

use crate::protocol::{Malformed, Status};

/// How a request ended.
#[derive(Debug)]
pub(crate) enum Reply {
    /// An answer, whole: what it is, and its body.
    Answer(Status, Bytes),
    /// What came is not what the protocol says; the connection is given up.
    Malformed(Malformed),
    /// The connection ended.
    Lost(String),
}

/// A request that waits.
#[derive(Debug)]
struct Waiting {
    /// None if nobody waits any more: the answer is thrown away.
    reply: Option<oneshot::Sender<Reply>>,
    /// What has come so far.
    body: BytesMut,
    /// The most bytes that may come.
    most: usize,
    /// Whether all of the request was sent.
    is_sent: bool,
    /// When something came last, or will be late from.
    progress: Instant,
}

#[derive(Debug, Default)]
struct State {
    waiting: HashMap<u16, Waiting>,
    next: u16,
    /// Why the connection ended.
    lost: Option<String>,
    /// When anything came last.
    heard: Option<Instant>,
    /// When data was sent last. Requests without go into buffers of the system, whatever becomes of them.
    sent: Option<Instant>,
}

/// The streams of a connection.
#[derive(Debug, Default)]
pub(crate) struct Streams(Mutex<State>);

/// A stream that was taken; it is given up when this is dropped.
#[derive(Debug)]
pub(crate) struct Taken<'a> {
    streams: &'a Streams,
    pub id: u16,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        // its number is free once the answer has come
        if let Some(waiting) = self.streams.lock().waiting.get_mut(&self.id) {
            waiting.reply = None;
        }
    }
}

impl Streams {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a stream for a request whose answer has at most so many bytes.
    pub fn take(&self, most: usize) -> Result<(Taken<'_>, oneshot::Receiver<Reply>), String> {
        let mut state = self.lock();
        if let Some(why) = &state.lost {
            return Err(why.clone());
        }
        // 65536 requests at once are more than any server takes
        if state.waiting.len() >= usize::from(u16::MAX) {
            return Err("too many requests wait for answers".to_owned());
        }
        while state.waiting.contains_key(&state.next) {
            state.next = state.next.wrapping_add(1);
        }
        let id = state.next;
        state.next = id.wrapping_add(1);
        let (reply, receiver) = oneshot::channel();
        let waiting = Waiting {
            reply: Some(reply),
            body: BytesMut::new(),
            most,
            is_sent: false,
            progress: Instant::now(),
        };
        state.waiting.insert(id, waiting);
        Ok((Taken { streams: self, id }, receiver))
    }

    /// The body so far, and how much may still come; to be given back by `put`. None if nobody has asked.
    pub fn body(&self, id: u16) -> Option<(BytesMut, usize)> {
        let mut state = self.lock();
        let waiting = state.waiting.get_mut(&id)?;
        let body = std::mem::take(&mut waiting.body);
        let left = waiting.most.saturating_sub(body.len());
        Some((body, left))
    }

    /// Gives a body back that is not whole.
    pub fn put(&self, id: u16, body: BytesMut) {
        if let Some(waiting) = self.lock().waiting.get_mut(&id) {
            waiting.body = body;
        }
    }

    /// Something came for a stream.
    pub fn progress(&self, id: u16) {
        let mut state = self.lock();
        let now = Instant::now();
        state.heard = Some(now);
        if let Some(waiting) = state.waiting.get_mut(&id) {
            waiting.progress = waiting.progress.max(now);
        }
    }

    /// Some data of a request was sent.
    pub fn sending(&self) {
        self.lock().sent = Some(Instant::now());
    }

    /// A request was sent: from now on its answer may come.
    pub fn sent(&self, id: u16) {
        if let Some(waiting) = self.lock().waiting.get_mut(&id) {
            waiting.is_sent = true;
            waiting.progress = waiting.progress.max(Instant::now());
        }
    }

    /// The answer will come later: in so many seconds at the latest.
    pub fn postpone(&self, id: u16, by: Duration) {
        if let Some(waiting) = self.lock().waiting.get_mut(&id) {
            waiting.progress = Instant::now() + by;
        }
    }

    /// How long nothing has come for a stream, or if its request waits to be sent, how long no data was sent.
    pub fn idle(&self, id: u16) -> Duration {
        let state = self.lock();
        let Some(waiting) = state.waiting.get(&id) else {
            return Duration::ZERO;
        };
        let sent = state.sent.filter(|_| !waiting.is_sent);
        sent.map_or(waiting.progress, |sent| sent.max(waiting.progress))
            .elapsed()
    }

    /// How long nothing has come at all, and no data was sent.
    pub fn silent(&self) -> Option<Duration> {
        let state = self.lock();
        state.heard.max(state.sent).map(|last| last.elapsed())
    }

    /// The answer to a request is whole.
    pub fn answer(&self, id: u16, status: Status, body: Bytes) {
        let waiting = self.lock().waiting.remove(&id);
        if let Some(reply) = waiting.and_then(|waiting| waiting.reply) {
            // who asked may have gone
            let _ = reply.send(Reply::Answer(status, body));
        }
    }

    /// The connection has ended: all that wait are told.
    pub fn lose(&self, why: &str, malformed: Option<&Malformed>) {
        let mut state = self.lock();
        state.lost.get_or_insert_with(|| why.to_owned());
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        for reply in waiting.into_values().filter_map(|waiting| waiting.reply) {
            let _ = reply.send(match malformed {
                Some(malformed) => Reply::Malformed(malformed.clone()),
                None => Reply::Lost(why.to_owned()),
            });
        }
    }

    /// Why the connection has ended, if it has.
    pub fn lost(&self) -> Option<String> {
        self.lock().lost.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_free_again_when_its_answer_has_come() {
        let streams = Streams::default();
        let (first, mut receiver) = streams.take(10).unwrap();
        let (second, _) = streams.take(10).unwrap();
        assert_eq!((first.id, second.id), (0, 1));
        streams.answer(0, Status::Ok, Bytes::from_static(b"x"));
        assert!(matches!(receiver.try_recv(), Ok(Reply::Answer(Status::Ok, body)) if body == "x"));
        // one whose request was dropped is not, until the answer comes
        drop(second);
        assert!(streams.body(1).is_some());
        streams.answer(1, Status::Ok, Bytes::new());
        assert!(streams.body(1).is_none());
    }

    #[test]
    fn who_waits_is_told_that_the_connection_ended() {
        let streams = Streams::default();
        let (_taken, mut receiver) = streams.take(10).unwrap();
        streams.lose("it was reset", None);
        assert!(matches!(receiver.try_recv(), Ok(Reply::Lost(why)) if why == "it was reset"));
        assert_eq!(streams.take(1).err().as_deref(), Some("it was reset"));
    }
}
