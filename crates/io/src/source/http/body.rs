//! What a server is sent: all of a source, read while it is sent.

use std::future::Future;
use std::ops::Range;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use reqwest::header::CONTENT_LENGTH;
use reqwest::{RequestBuilder, Response};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::{ByteSource, IoError};

/// Bytes that are read at once, and how many such reads are ahead of what is sent.
const CHUNK: u64 = 4 << 20;
const AHEAD: usize = 4;

/// A source that is sent; one that must be sent again begins at its beginning.
#[derive(Debug, Clone)]
pub(super) struct Body {
    source: Arc<dyn ByteSource>,
    sent: Arc<AtomicU64>,
    is_ended: Arc<AtomicBool>,
    failure: Arc<Mutex<Option<IoError>>>,
}

impl Body {
    pub fn new(source: Arc<dyn ByteSource>) -> Self {
        Self {
            source,
            sent: Arc::default(),
            is_ended: Arc::default(),
            failure: Arc::default(),
        }
    }

    /// Bytes that were handed on.
    pub fn sent(&self) -> u64 {
        self.sent.load(Relaxed)
    }

    /// Gives nothing more: what nobody waits for may be on its way still.
    pub fn end(&self) {
        self.is_ended.store(true, Relaxed);
    }

    /// Why the source could not be read, if it could not.
    pub fn failure(&self) -> Option<IoError> {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.take()
    }

    /// Sends a request with it; none if nothing was sent and nothing came for so long.
    pub async fn send(
        &self,
        request: RequestBuilder,
        patience: Duration,
    ) -> Option<Result<Response, reqwest::Error>> {
        self.sent.store(0, Relaxed);
        let request = request
            .header(CONTENT_LENGTH, self.source.meta().size)
            .body(self.stream());
        let mut sending = pin!(request.send());
        loop {
            let before = self.sent();
            match timeout(patience, &mut sending).await {
                Ok(done) => return Some(done),
                Err(_) if self.sent() == before => return None,
                Err(_) => {}
            }
        }
    }

    fn stream(&self) -> reqwest::Body {
        let size = self.source.meta().size;
        let ranges = (0..size.div_ceil(CHUNK)).map(move |number| {
            let start = number * CHUNK;
            start..size.min(start + CHUNK)
        });
        let own = self.clone();
        let reads = stream::iter(ranges)
            .map(move |range| own.read(range))
            .buffered(AHEAD);
        let (sent, is_ended) = (self.sent.clone(), self.is_ended.clone());
        let counted = reads.map(move |read| {
            let bytes = read?;
            if is_ended.load(Relaxed) {
                return Err(std::io::Error::other("it was ended"));
            }
            sent.fetch_add(bytes.len() as u64, Relaxed);
            Ok(bytes)
        });
        reqwest::Body::wrap_stream(counted)
    }

    /// Reads a range, on a thread that may wait.
    fn read(
        &self,
        range: Range<u64>,
    ) -> impl Future<Output = Result<Bytes, std::io::Error>> + use<> {
        let (source, failure) = (self.source.clone(), self.failure.clone());
        async move {
            let read = spawn_blocking(move || {
                let found = source.read_ranges(&[range])?;
                Ok::<_, IoError>(found.into_iter().next().unwrap_or_default())
            });
            read.await.map_err(std::io::Error::other)?.map_err(|error| {
                let text = error.to_string();
                let mut failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
                failure.get_or_insert(error);
                std::io::Error::other(text)
            })
        }
    }
}
