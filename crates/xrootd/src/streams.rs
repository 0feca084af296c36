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
    /// How many were asked before it.
    number: u64,
    /// What has come so far.
    body: BytesMut,
    /// The most bytes that may come.
    most: usize,
    /// Whether all of the request was sent.
    is_sent: bool,
    /// When something came last, or will be late from.
    progress: Instant,
    /// What the server has said of when the answer will come, if that was the last that came.
    postponed: Option<Duration>,
    /// When an answer that was postponed is late, whatever the server has said.
    latest: Instant,
}

/// Whether an answer is late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Late {
    /// Not for so long.
    Not(Duration),
    /// Nothing came for too long.
    Silent,
    /// The server said that it will come in that time, and may not take more.
    Postponed(Duration),
}

#[derive(Debug, Default)]
struct State {
    waiting: HashMap<u16, Waiting>,
    next: u16,
    /// Requests that were made.
    asked: u64,
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

    /// Takes a stream for a request whose answer has at most so many bytes, and which the server may postpone until `latest`.
    pub fn take(
        &self,
        most: usize,
        latest: Instant,
    ) -> Result<(Taken<'_>, oneshot::Receiver<Reply>), String> {
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
        state.asked += 1;
        let waiting = Waiting {
            reply: Some(reply),
            number: state.asked,
            body: BytesMut::new(),
            most,
            is_sent: false,
            progress: Instant::now(),
            postponed: None,
            latest,
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

    /// Something came for a stream. What was asked later has its turn behind it: over a slow way, that may take long.
    pub fn progress(&self, id: u16) {
        let mut state = self.lock();
        let now = Instant::now();
        state.heard = Some(now);
        let Some(waiting) = state.waiting.get_mut(&id) else {
            return;
        };
        waiting.progress = now;
        waiting.postponed = None;
        let number = waiting.number;
        for later in state
            .waiting
            .values_mut()
            .filter(|other| other.number > number)
        {
            later.progress = later.progress.max(now);
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

    /// The answer will come later: in that time at the latest, if it may take so long.
    pub fn postpone(&self, id: u16, by: Duration) {
        if let Some(waiting) = self.lock().waiting.get_mut(&id) {
            waiting.progress = (Instant::now() + by).min(waiting.latest);
            waiting.postponed = Some(by);
        }
    }

    /// In which time the answer will come, if that is the last that the server has said.
    pub fn postponed(&self, id: u16) -> Option<Duration> {
        self.lock().waiting.get(&id)?.postponed
    }

    /// Whether an answer is late: if nothing has come for a stream for so long, or if its request waits to be sent, no data was
    /// sent.
    pub fn late(&self, id: u16, patience: Duration) -> Late {
        let state = self.lock();
        let Some(waiting) = state.waiting.get(&id) else {
            return Late::Not(patience);
        };
        let sent = state.sent.filter(|_| !waiting.is_sent);
        let last = sent.map_or(waiting.progress, |sent| sent.max(waiting.progress));
        let mut due = last + patience;
        if waiting.postponed.is_some() {
            due = due.min(waiting.latest);
        }
        let left = due.saturating_duration_since(Instant::now());
        match waiting.postponed {
            _ if !left.is_zero() => Late::Not(left),
            Some(by) => Late::Postponed(by),
            None => Late::Silent,
        }
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
        let (first, mut receiver) = streams.take(10, Instant::now()).unwrap();
        let (second, _) = streams.take(10, Instant::now()).unwrap();
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
    fn an_answer_that_is_postponed_is_late_in_time() {
        const HOUR: Duration = Duration::from_secs(3600);
        let streams = Streams::default();
        let (taken, _receiver) = streams.take(10, Instant::now() + HOUR).unwrap();
        let left = |streams: &Streams| match streams.late(taken.id, HOUR * 2) {
            Late::Not(left) => left,
            late => panic!("{late:?}"),
        };
        assert!(left(&streams) > HOUR);
        streams.postpone(taken.id, Duration::from_secs(u64::from(u32::MAX)));
        assert!(left(&streams) <= HOUR);
        // what comes after all ends that
        streams.progress(taken.id);
        assert!(left(&streams) > HOUR);
        assert_eq!(streams.late(taken.id, Duration::ZERO), Late::Silent);
        let (other, _receiver) = streams.take(10, Instant::now()).unwrap();
        streams.postpone(other.id, HOUR);
        assert_eq!(streams.late(other.id, HOUR), Late::Postponed(HOUR));
    }

    #[test]
    fn who_waits_is_told_that_the_connection_ended() {
        let streams = Streams::default();
        let (_taken, mut receiver) = streams.take(10, Instant::now()).unwrap();
        streams.lose("it was reset", None);
        assert!(matches!(receiver.try_recv(), Ok(Reply::Lost(why)) if why == "it was reset"));
        assert_eq!(
            streams.take(1, Instant::now()).err().as_deref(),
            Some("it was reset")
        );
    }
}
