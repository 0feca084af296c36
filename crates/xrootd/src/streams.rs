//! Pending requests of a connection, each on its own stream.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tokio::sync::oneshot;

use crate::protocol::{Malformed, Status};

/// The outcome of a request.
#[derive(Debug)]
pub(crate) enum Reply {
    /// A complete answer: its status and body.
    Answer(Status, Bytes),
    /// The answer violates the protocol; the connection is closed.
    Malformed(Malformed),
    /// The connection ended, with the reason.
    Lost(String),
}

/// A pending request.
#[derive(Debug)]
struct Waiting {
    /// None if the request was dropped: its answer is discarded.
    reply: Option<oneshot::Sender<Reply>>,
    /// How many requests were made before it.
    number: u64,
    /// What has been received so far.
    body: BytesMut,
    /// The most bytes that the answer may have.
    most: usize,
    /// Whether the request was sent completely.
    is_sent: bool,
    /// The time from which silence counts: of the last received bytes, or later.
    progress: Instant,
    /// The delay that the server has announced, if its last message was that.
    postponed: Option<Duration>,
    /// The time when a postponed answer is late, whatever delays the server announces.
    latest: Instant,
}

/// Whether an answer is late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Late {
    /// Not late before this time has passed.
    Not(Duration),
    /// Nothing was received for too long.
    Silent,
    /// The server announced a delay that exceeds the limit.
    Postponed(Duration),
}

#[derive(Debug, Default)]
struct State {
    waiting: HashMap<u16, Waiting>,
    next: u16,
    /// Number of requests made.
    asked: u64,
    /// Why the connection ended.
    lost: Option<String>,
    /// How often bytes of answers were received.
    n_received: u64,
    /// When anything was received last.
    heard: Option<Instant>,
    /// When data were sent last. Requests without data do not count: the system buffers them even if the connection is
    /// dead.
    sent: Option<Instant>,
}

/// The streams of a connection.
#[derive(Debug, Default)]
pub(crate) struct Streams(Mutex<State>);

/// A stream in use. Dropping it abandons the request.
#[derive(Debug)]
pub(crate) struct Taken<'a> {
    streams: &'a Streams,
    pub id: u16,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        // the stream becomes free when the answer has arrived
        if let Some(waiting) = self.streams.lock().waiting.get_mut(&self.id) {
            waiting.reply = None;
        }
    }
}

impl Streams {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a stream for a request whose answer has at most so many bytes, and which the server may postpone until
    /// `latest`.
    pub fn take(
        &self,
        most: usize,
        latest: Instant,
    ) -> Result<(Taken<'_>, oneshot::Receiver<Reply>), String> {
        let mut state = self.lock();
        if let Some(why) = &state.lost {
            return Err(why.clone());
        }
        // no server accepts 65536 requests at once
        if state.waiting.len() >= usize::from(u16::MAX) {
            return Err("too many pending requests".to_owned());
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

    /// Takes the body received so far, and how many bytes may still follow. `put` gives it back. None if no request is
    /// pending on the stream.
    pub fn body(&self, id: u16) -> Option<(BytesMut, usize)> {
        let mut state = self.lock();
        let waiting = state.waiting.get_mut(&id)?;
        let body = std::mem::take(&mut waiting.body);
        let left = waiting.most.saturating_sub(body.len());
        Some((body, left))
    }

    /// Gives an incomplete body back.
    pub fn put(&self, id: u16, body: BytesMut) {
        if let Some(waiting) = self.lock().waiting.get_mut(&id) {
            waiting.body = body;
        }
    }

    /// Bytes for a stream were received. Later requests wait behind this one, so their silence counts from now on: over a
    /// slow connection that may take long.
    pub fn progress(&self, id: u16) {
        let mut state = self.lock();
        let now = Instant::now();
        state.n_received += 1;
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

    /// Some data of a request were sent.
    pub fn sending(&self) {
        self.lock().sent = Some(Instant::now());
    }

    /// A request was sent completely: its answer may arrive from now on.
    pub fn sent(&self, id: u16) {
        if let Some(waiting) = self.lock().waiting.get_mut(&id) {
            waiting.is_sent = true;
            waiting.progress = waiting.progress.max(Instant::now());
        }
    }

    /// The server announces that the answer will arrive within this time.
    pub fn postpone(&self, id: u16, by: Duration) {
        if let Some(waiting) = self.lock().waiting.get_mut(&id) {
            waiting.progress = (Instant::now() + by).min(waiting.latest);
            waiting.postponed = Some(by);
        }
    }

    /// The delay that the server has announced, if its last message for the stream was that.
    pub fn postponed(&self, id: u16) -> Option<Duration> {
        self.lock().waiting.get(&id)?.postponed
    }

    /// Whether an answer is late: nothing was received for the stream for so long or, if its request still waits to be
    /// sent, no data were sent.
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

    /// How often bytes of answers were received.
    pub fn n_received(&self) -> u64 {
        self.lock().n_received
    }

    /// How long nothing was received and no data were sent.
    pub fn silent(&self) -> Option<Duration> {
        let state = self.lock();
        state.heard.max(state.sent).map(|last| last.elapsed())
    }

    /// Delivers a complete answer.
    pub fn answer(&self, id: u16, status: Status, body: Bytes) {
        let waiting = self.lock().waiting.remove(&id);
        if let Some(reply) = waiting.and_then(|waiting| waiting.reply) {
            // the caller may have been dropped
            let _ = reply.send(Reply::Answer(status, body));
        }
    }

    /// Marks the connection as ended, and reports it to all pending requests.
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
        // a stream whose request was dropped is in use until its answer arrives
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
        // received bytes end the announced delay
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
